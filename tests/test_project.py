"""What a repository promises beside its code: files that are named exist, versions agree, forms are forms."""

from __future__ import annotations

import importlib
import re
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

import levelhead as lh

ROOT = Path(__file__).resolve().parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "No longer claimed", "Security")


def text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def loaded(path: str) -> Any:
    """A YAML file; `on:` of a workflow is a truth value in YAML 1.1."""
    return yaml.safe_load(text(path))


# ---- for those who contribute


def test_every_file_that_the_guide_for_contributors_names_exists() -> None:
    named = re.findall(r"`([\w./-]+/[\w./-]*|[\w-]+\.(?:md|yml|toml|cff|txt|py))`", text("CONTRIBUTING.md"))
    linked = re.findall(r"\]\(([^)#:]+)\)", text("CONTRIBUTING.md"))
    paths = {*named, *linked} - {"docs/notebooks/"}
    assert len(paths) > 30
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("what", ["a family of models", "a measure", "a benchmark", "a bias", "a study"])
def test_each_way_to_add_something_has_a_table_of_files(what: str) -> None:
    _, _, section = text("CONTRIBUTING.md").partition(f"## Add {what}\n")
    lines = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    assert len(lines) >= 3


def test_commands_that_the_guide_and_the_workflows_name_are_targets_of_make() -> None:
    targets = set(re.findall(r"^([a-z-]+):", text("Makefile"), re.M))
    guide = re.findall(r"make (?:PYTHON=\S+ )?([a-z-]+)", text("CONTRIBUTING.md"))
    steps = [step.get("run", "") for path in WORKFLOWS for job in jobs(path) for step in job["steps"]]
    asked = re.findall(r"make (?:PYTHON=\S+ )?([a-z-]+)", "\n".join(steps))
    assert {"check", "test-fast", "docs"} <= set(asked)
    assert {*guide, *asked} - {"for"} <= targets


def test_what_make_test_leaves_out_is_what_make_test_nightly_runs_and_ci_runs_both() -> None:
    asked = dict(re.findall(r"^(test(?:-nightly)?):.*\n\t\$\(SUITE\) -m (.+)$", text("Makefile"), re.M))
    assert asked == {"test": '"not nightly"', "test-nightly": "nightly"}
    (line,) = re.findall(r"^make (.+)$", text(".ci/run"), re.M)
    assert line.split() == ["check", "test", "test-nightly"]
    assert ".ci/run" in [step.get("run") for path in WORKFLOWS for job in jobs(path) for step in job["steps"]]
    options = tomllib.loads(text("pyproject.toml"))["tool"]["pytest"]["ini_options"]["addopts"]
    assert "-m" not in options.split()  # pytest by itself runs everything


# ---- versions


def test_the_version_stands_once() -> None:
    assert lh.__version__ == version("levelhead")
    front_door = text("src/levelhead/__init__.py")
    assert not re.search(r'__version__ = "\d+\.\d', front_door)
    assert "version:" not in text("CITATION.cff").replace("cff-version:", "")


def test_every_requirement_is_pinned_for_the_suite() -> None:
    pinned = {
        line.partition("==")[0].lower().replace("_", "-") for line in text("constraints.txt").splitlines()
    }
    required = [
        *PROJECT["dependencies"],
        *(r for extra in PROJECT["optional-dependencies"].values() for r in extra),
    ]
    names = {re.split(r"[\[<>=]", requirement)[0].lower() for requirement in required}
    assert names - pinned == set()


def test_pre_commit_runs_the_ruff_of_the_suite() -> None:
    hooks = [hook for repo in loaded(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    wanted = {pin for hook in hooks for pin in hook.get("additional_dependencies", ())}
    assert wanted <= set(text("constraints.txt").splitlines())
    assert {hook["id"] for hook in hooks} == {"ruff-format", "ruff-check", "mypy"}


# ---- forms

WORKFLOWS = sorted(str(path.relative_to(ROOT)) for path in (ROOT / ".github" / "workflows").glob("*.yml"))


def jobs(path: str) -> list[dict[str, Any]]:
    return list(loaded(path)["jobs"].values())


def test_ci_runs_three_versions_of_python_and_a_release_builds_wheel_and_sdist() -> None:
    matrix = loaded(".github/workflows/ci.yml")["jobs"]["fast"]["strategy"]["matrix"]
    assert len(set(matrix["python"])) == 3
    assert f">={min(matrix['python'], key=lambda v: int(v.split('.')[1]))}" == PROJECT["requires-python"]
    machines = loaded(".github/workflows/ci.yml")["jobs"]["whole"]["strategy"]["matrix"]["machine"]
    assert {"ubuntu-24.04-arm", "macos-latest"} < set(machines)
    build = [step.get("run") for step in loaded(".github/workflows/release.yml")["jobs"]["build"]["steps"]]
    assert "python -m build" in build
    assert all("timeout-minutes" in job for path in WORKFLOWS for job in jobs(path))


@pytest.mark.parametrize("form", ["bug", "number", "idea"])
def test_an_issue_form_has_questions_with_ids_of_their_own(form: str) -> None:
    issue = loaded(f".github/ISSUE_TEMPLATE/{form}.yml")
    assert {"name", "description", "body"} <= set(issue)
    ids = [field["id"] for field in issue["body"]]
    assert len(ids) == len(set(ids)) > 0
    assert all(field["attributes"]["label"] for field in issue["body"])
    assert any(field["validations"]["required"] for field in issue["body"])


def test_the_citation_has_what_its_format_asks_for() -> None:
    citation = loaded("CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["license"] == PROJECT["license"]
    titles = [paper["title"] for paper in citation["references"]]
    assert all(title in text("docs/method.md") for title in titles)


def test_the_changelog_keeps_its_form() -> None:
    versions = re.findall(r"^## (.+)$", text("CHANGELOG.md"), re.M)
    assert versions[0] == "[Unreleased]"
    assert all(re.fullmatch(r"\[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", name) for name in versions[1:])
    assert f"[{PROJECT['version']}]" in " ".join(versions[1:])
    for part in text("CHANGELOG.md").split("\n## ")[1:]:
        kinds = re.findall(r"^### (.+)$", part, re.M)
        assert kinds == [kind for kind in KINDS if kind in kinds]  # each once, in order


def test_an_entry_of_the_changelog_is_one_line() -> None:
    entries = re.sub(r"^## .*?(?=^### |\Z)", "", text("CHANGELOG.md"), flags=re.M | re.S).splitlines()
    assert sum(line.startswith("- ") for line in entries) > 100
    assert [line for line in entries if line.startswith(" ") or len(line) > 140] == []


# ---- the site


def test_the_site_leads_to_every_page_and_notebook() -> None:
    pages = re.findall(r"([\w/-]+)\.md\s*$", text("mkdocs.yml"), re.M)
    docs = ROOT / "docs"
    there = [str(path.relative_to(docs).with_suffix("")) for path in docs.rglob("*.md")]
    there = [path for path in there if not path.startswith("notes/")]  # of the laboratory, not help
    there += [f"notebooks/{path.stem}" for path in (docs / "notebooks").glob("*.ipynb")]
    made = re.findall(r'"(reference/[\w-]+)\.md":', text("docs/reference_pages.py"))
    assert len(made) >= 4
    assert sorted(pages) == sorted([*there, *made])


def test_the_reference_holds_every_public_name_and_what_it_names_exists() -> None:
    paths = re.findall(r"^::: (levelhead\.\S+)$", text("docs/reference.md"), re.M)
    public = {f"levelhead.{room}.{name}" for name, room in lh._PUBLIC.items()}
    assert public <= set(paths)
    for path in paths:
        module, _, name = path.rpartition(".")
        assert getattr(importlib.import_module(module), name).__doc__, path
