"""Documentation is executed: every python block of docs/ and README.md runs, except those marked no-run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import levelhead as lh
from levelhead.models.families import FAMILIES
from levelhead.runs.study import studies

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md"])
BY_DAY = ("README.md", "docs/export.md")  # of pages with code, which runs
GENERATED = DOCS / "reference"  # pages that the site makes (docs/reference_pages.py)


def name_of(page: Path) -> str:
    """The page as the repository has it."""
    return str(page.relative_to(ROOT))


BLOCK = re.compile(r"^```python\n(.*?)^```", re.M | re.S)
FILE = re.compile(r'^```toml\n(.*?^name = "(\w[\w-]*)".*?)^```', re.M | re.S)  # saved as NAME.toml


@pytest.mark.parametrize(
    "page",
    [page if name_of(page) in BY_DAY else pytest.param(page, marks=pytest.mark.nightly) for page in PAGES],
    ids=lambda page: name_of(page),
)
def test_code_blocks_of_a_page_run_in_order(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("levelhead.models.families.FAMILIES", dict(FAMILIES))
    names: dict[str, object] = {"__name__": "docs"}
    for text, name in FILE.findall(page.read_text(encoding="utf-8")):
        Path(f"{name}.toml").write_text(text, encoding="utf-8")
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        exec(compile(block, str(page), "exec"), names)
    FAMILIES.pop("my-llama", None)


def test_the_python_guide_names_everything_public_and_no_page_names_anything_else() -> None:
    named = {name_of(page): set(re.findall(r"\blh\.([A-Za-z_]+)", page.read_text("utf-8"))) for page in PAGES}
    groups = {"settings", "readings", "study"}
    public = {*lh.__all__, *studies()}
    assert named["docs/python.md"] - groups == public - {"__version__"}
    for page, names in named.items():
        assert names - groups <= public, page


def test_the_front_door_has_at_most_40_names_and_those_of_0_2_say_what_they_are_called_now() -> None:
    assert len(set(lh.__all__) - {"__version__"}) <= 40
    for old, now in (("measure", "benchmark"), ("certify", "mitigate"), ("sweep", "projections")):
        with pytest.warns(DeprecationWarning, match=rf"levelhead\.{old} is now levelhead\.{now}; "):
            assert callable(getattr(lh, old))
    with pytest.raises(AttributeError):
        getattr(lh, "HeadsSettings")  # noqa: B009


def test_public_names_are_importable_and_have_a_word_of_explanation() -> None:
    for name in lh.__all__:
        assert getattr(lh, name).__doc__, name


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text(encoding="utf-8")):
            path = (page.parent / target).resolve()
            if "://" not in target and not path.is_relative_to(GENERATED):
                assert path.exists(), f"{name_of(page)} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: name_of(page))
def test_no_line_of_prose_is_longer_than_140_characters(page: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    lines = [line for line in prose.splitlines() if not line.startswith(("|", "    "))]
    assert [line for line in lines if len(line) > 140] == []
