"""Documents are short enough to be read, use the field's words, and name commands and options that exist."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest
import yaml

import levelhead as lh
from levelhead.cli.commands import built, listed
from levelhead.runs.study import studies

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*(each for each in DOCS.rglob("*.md") if each.parent.name != "notes"), ROOT / "README.md"])
NAV: list[dict[str, Any]] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
MOST = {"Tutorial": 1_200, "How-to": 700, "Explanation": 3_000}  # words of a page, by its kind
FENCED = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.M | re.S)
INTERVAL = re.compile(r"[−+-]?\d+\.\d+ \[[−+-]?\d+(?:\.\d+)?, [−+-]?\d+(?:\.\d+)?\]")  # 0.60 [0.32, 0.85]

# words that belong to no reader's vocabulary, and the one that takes their place
AVOIDED = {
    r"\basked\b": "evaluated, run, scored, given",
    r"\bcame;": "(got ...)",
    r"\bdealt out\b": "permuted, drawn",
    r"\bways? out\b": "mitigation",
    r"\btold from\b": "not significantly different from",
    r"\btwins?\b": "null model, or counterfactual",
    r"\bturn(s|ed|ing)?\b": "orientation, change, reverse",
    r"\bheld against\b": "compared with",
}
ALLOWED = (  # of chats; "asked for" is requested; and idioms that say nothing of orientations
    *("user's turn", "own turn", "model's turn", "system turn"),
    *("asked for", "in turn", "turned off", "turns off", "turned on", "turns it into", "turn into"),
)
SOURCE = ROOT / "src" / "levelhead"
TEXTS = ("probes/",)  # sentences that models are evaluated on, and words of them
BESIDE = [ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CITATION.cff")]
BESIDE += sorted([*(ROOT / ".github").rglob("*.y*ml"), *(ROOT / "examples").rglob("*.md")])
BESIDE += sorted((DOCS / "notebooks").glob("*.ipynb"))


def pages_of(kind: str) -> list[str]:
    """The pages of a kind, as the navigation has them; those of the reference are made by the site."""
    (listed,) = (each[kind] for each in NAV if kind in each)
    return [listed] if isinstance(listed, str) else [path for each in listed for path in each.values()]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def words(page: Path) -> int:
    return len(page.read_text(encoding="utf-8").split())


def test_the_navigation_has_the_four_kinds_of_pages_and_the_results() -> None:
    assert [next(iter(each)) for each in NAV] == [
        "Start",
        "Tutorial",
        "How-to",
        "Reference",
        "Explanation",
        "Results",
    ]


@pytest.mark.parametrize(("kind", "most"), MOST.items())
def test_no_page_is_longer_than_pages_of_its_kind_may_be(kind: str, most: int) -> None:
    long = {path: count for path in pages_of(kind) if (count := words(DOCS / path)) > most}
    assert long == {}


def test_the_readme_is_read_in_five_minutes() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 90
    assert len(text.split()) <= 1_000
    assert sum(line.startswith("|") for line in text.splitlines()) <= 8  # one table of six rows


def test_how_to_pages_report_no_measurements() -> None:
    reporting = {
        path: found
        for path in pages_of("How-to")
        if (found := re.findall(r"\d(?:\.\d+)? ± \d", (DOCS / path).read_text(encoding="utf-8")))
    }
    assert reporting == {}


@pytest.mark.parametrize("page", [each for each in PAGES if each.parent.name == "results"], ids=name_of)
def test_a_result_page_says_how_its_figures_were_made(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if INTERVAL.search(text):
        head = re.findall(r"^\| (\w+) \| \S", text, re.M)
        assert {"command", "commit"} <= {*head} or {"command", "version"} <= {*head}
        assert {"model", "models", "data"} & {*head}


def test_a_measured_interval_stands_on_one_page_alone() -> None:
    places: dict[str, set[str]] = {}
    for page in PAGES:
        for interval in re.findall(INTERVAL, page.read_text(encoding="utf-8")):
            places.setdefault(interval, set()).add(name_of(page))
    assert len(places) > 200
    assert {interval: pages for interval, pages in places.items() if len(pages) > 1} == {}


def avoided(text: str, where: str) -> list[str]:
    """Lines with words that are avoided, and where they stand."""
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        told = line
        for phrase in ALLOWED:
            told = told.replace(phrase, "")
        found += [
            f"{where}:{number}: {line.strip()} ({better})"
            for word, better in AVOIDED.items()
            if re.search(word, told, re.I)
        ]
    return found


def test_a_mean_with_its_spread_that_a_result_page_has_stands_on_no_other_kind_of_page() -> None:
    spread = re.compile(r"(?<![\d.])[−+-]?\d[\d,.]* ± \d[\d.]*\d")
    pages = {name_of(page): set(spread.findall(page.read_text(encoding="utf-8"))) for page in PAGES}
    measured = set().union(*(found for name, found in pages.items() if name.startswith("docs/results/")))
    assert len(measured) > 100
    others = {name: found & measured for name, found in pages.items() if not name.startswith("docs/results/")}
    assert {name: found for name, found in others.items() if found} == {}


@pytest.mark.parametrize("page", [*PAGES, *BESIDE], ids=name_of)
def test_a_page_uses_the_words_of_the_field(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":  # what is written and printed, without the code
        text = "\n".join(
            re.findall(r'"((?:[^"\\]|\\.)*)"', re.sub(r'"source": \[[^\]]*import.*?\]', "", text, flags=re.S))
        )
    assert avoided(text, name_of(page)) == []


def documented(tree: ast.AST) -> set[ast.expr]:
    """Strings that are docstrings, of modules, classes, functions and fields."""
    return {each.value for each in ast.walk(tree) if isinstance(each, ast.Expr)}


@pytest.mark.parametrize("part", sorted({path.name for path in SOURCE.iterdir() if path.is_dir()} | {""}))
def test_errors_pages_progress_and_help_use_the_words_of_the_field(part: str) -> None:
    found = []
    for path in sorted((SOURCE / part).rglob("*.py") if part else SOURCE.glob("*.py")):
        name = str(path.relative_to(SOURCE))
        if name.startswith(TEXTS):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        strings = {each for each in ast.walk(tree) if isinstance(each, ast.Constant)} - documented(tree)
        for each in strings:
            if isinstance(each.value, str):
                found += avoided(each.value, f"{name}, line {each.lineno}")
    assert found == []


def test_templates_and_catalogs_of_pages_use_the_words_of_the_field() -> None:
    for path in sorted(each for each in SOURCE.rglob("*") if each.suffix in (".html", ".js", ".toml")):
        if not str(path.relative_to(SOURCE)).startswith((*TEXTS, "models/embedded")):
            text = re.sub(r"(?m)^ *(#|//).*$", "", path.read_text(encoding="utf-8"))
            # of scripts, names of functions and classes are no texts
            text = re.sub(r'\bturn\b(?=[(),]| =)|\.\.\.turn\b|"turned"', "", text)
            assert avoided(text, path.name) == []


def test_docstrings_of_the_reference_use_the_words_of_the_field() -> None:
    shown = re.findall(r"^::: (levelhead\.\S+)$", (DOCS / "reference.md").read_text("utf-8"), re.M)
    objects = [attrgetter(name)(import_module(module)) for module, _, name in map(split_name, shown)]
    objects += [getattr(lh.settings, name) for name in dir(lh.settings)]
    objects += [getattr(lh.readings, name) for name in dir(lh.readings)]
    objects += [*studies().values()]
    texts = [(str(each), inspect.getdoc(each) or "") for each in objects]
    for kind in filter(inspect.isclass, objects):
        members = {name: each for name, each in vars(kind).items() if not name.startswith("_")}
        texts += [(f"{kind}.{name}", each.__doc__ or "") for name, each in members.items() if each.__doc__]
    for name in listed():
        command = built(name)
        texts += [(name, command.help or "")]
        texts += [(name, getattr(each, "help", "") or "") for each in command.params]
    assert len(texts) > 500
    assert [line for where, text in texts for line in avoided(text, where)] == []


def split_name(path: str) -> tuple[str, str, str]:
    return path.rpartition(".")


# ---- commands


def command_lines(page: Path) -> Iterator[str]:
    """Every command of levelhead in the code blocks of a page, without comments."""
    text = page.read_text(encoding="utf-8")
    blocks = [body for language, body in FENCED.findall(text) if language in ("", "console")]
    blocks += re.findall(r"(?:^(?: {4}|      ).*\n)+", FENCED.sub("", text), re.M)
    for block in blocks:
        for line in block.replace("\\\n", " ").splitlines():
            if match := re.match(r"\s+(?:\$ )?(levelhead [a-z].*)|(levelhead [a-z].*)", line):
                yield (match[1] or match[2]).split(" # ")[0]


def known_options() -> dict[str, set[str]]:
    return {
        name: {option for each in built(name).params for option in (*each.opts, *each.secondary_opts)}
        for name in listed()
    }


OPTIONS = known_options()
WITH_COMMANDS = [page for page in PAGES if any(command_lines(page))]


@pytest.mark.parametrize("page", WITH_COMMANDS, ids=name_of)
def test_commands_of_a_page_exist_with_their_options(page: Path) -> None:
    for line in command_lines(page):
        name, *given = re.split(r"[|&>]", " ".join(shlex.split(line.replace("…", ""))[1:]))[0].split()
        assert name in OPTIONS, line
        flags = {word.partition("=")[0] for word in given if re.match(r"--?[a-z]", word)}
        assert flags <= OPTIONS[name], f"{name_of(page)}: {line}: {sorted(flags - OPTIONS[name])}"


def test_the_pages_with_commands_are_found() -> None:
    assert {"README.md", "docs/tutorial.md", "docs/audit.md", "docs/check.md"} <= {
        *map(name_of, WITH_COMMANDS)
    }
    assert sum(len(list(command_lines(page))) for page in WITH_COMMANDS) > 100


# ---- the tutorial


@pytest.mark.nightly
@pytest.mark.usefixtures("all_text_outside")
def test_the_commands_of_the_tutorial_run_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [
        line
        for language, body in FENCED.findall((DOCS / "tutorial.md").read_text(encoding="utf-8"))
        if language == "console"
        for line in body.splitlines()
    ]
    assert len(lines) >= 7
    for line in lines:
        code, printed, error = typed(*shlex.split(line)[1:])
        assert code == 0, f"{line}: {error or printed}"
    assert (tmp_path / "runs" / "mitigate" / "model" / "config.json").is_file()
    assert (tmp_path / "runs" / "look" / "report.html").is_file()
    assert "## Bias evaluation" in (tmp_path / "card.md").read_text(encoding="utf-8")
