"""Result pages are made from stored records: `make results` changes nothing, and no figure is typed twice."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from benchmarks import result_pages

from levelhead.inference.claims import p_text

ROOT = Path(__file__).resolve().parents[1]
NAMES = sorted(path.stem for path in result_pages.STORED.glob("*.md"))
FIGURE = re.compile(r"(?<![\w.\[/#-])[−+-]?\d[\d,]*\.\d+(?![\w.]\d)|\d+ of \d+|\d+ % \[")
CODE = re.compile(r"^```.*?^```|^ {4}.*$|`[^`]*`|\]\([^)]*\)|\{\{[^}]*\}\}", re.M | re.S)


def test_every_result_page_has_a_record_and_is_in_the_repository() -> None:
    assert sorted(path.stem for path in result_pages.PAGES.glob("*.md")) == NAMES
    assert sorted(path.stem for path in result_pages.STORED.glob("*.json")) == NAMES
    assert all(path.stat().st_size < 60_000 for path in result_pages.STORED.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_the_figures_of_a_page_are_those_of_its_record(name: str) -> None:
    page = (result_pages.PAGES / f"{name}.md").read_text(encoding="utf-8")
    assert page == result_pages.filled(name), "make results"


@pytest.mark.parametrize("name", NAMES)
def test_no_figure_is_typed_by_hand_beside_its_record(name: str) -> None:
    typed = CODE.sub("", (result_pages.STORED / f"{name}.md").read_text(encoding="utf-8"))
    assert FIGURE.findall(typed) == []


@pytest.mark.parametrize("name", NAMES)
def test_a_record_says_how_it_was_made(name: str) -> None:
    record = json.loads((result_pages.STORED / f"{name}.json").read_text(encoding="utf-8"))
    if record["tables"] or record["figures"]:
        assert {"command", "commit"} <= set(record["made"]) or {"command", "version"} <= set(record["made"])


def test_a_figure_that_differs_from_its_record_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("swap.md", "swap.json"):
        (tmp_path / name).write_text((result_pages.STORED / name).read_text(encoding="utf-8"), "utf-8")
    monkeypatch.setattr(result_pages, "STORED", tmp_path)
    page = (result_pages.PAGES / "swap.md").read_text(encoding="utf-8")
    assert result_pages.filled("swap") == page
    record = tmp_path / "swap.json"
    record.write_text(record.read_text(encoding="utf-8").replace("96.9 %", "96.8 %"), encoding="utf-8")
    assert result_pages.filled("swap") != page
    (tmp_path / "swap.md").write_text("{{nobody stored this}}", encoding="utf-8")
    with pytest.raises(SystemExit, match="nobody stored this"):
        result_pages.filled("swap")


def test_what_a_page_quotes_of_measures_is_what_the_values_say() -> None:
    """Tables of the audit are those of its values, which are kept with all their digits."""
    record = json.loads((result_pages.STORED / "audit.json").read_text(encoding="utf-8"))
    value, (low, high), p = record["values"]["seat"]
    row = next(row for row in record["tables"]["measures"] if "SEAT" in row[0])
    assert row[1] == f"{value:.2f} [{low:.2f}, {high:.2f}]"
    assert row[3] == p_text(p)
    assert f"(each p {p_text(p)})" in " ".join(" ".join(record["outputs"]["answers"]).split())
