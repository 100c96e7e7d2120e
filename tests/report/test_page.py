"""The report's text: complete, equal to the results, and harmless whatever strings models and data bring."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from levelhead.errors import BadRun
from levelhead.inference.contents import arcs, open_contents
from levelhead.pages.page import report_html, write_report
from levelhead.pages.tables import Table, number, shown, words
from levelhead.runs.folder import Run
from levelhead.studies.heads import Heads
from tests.report.synthetic import (
    HOSTILE,
    heads_settings,
    write_audit,
    write_glue_run,
    write_heads,
    write_prompts,
    write_sweep,
)
from tests.sealing import reseal

VOID = {"meta", "br", "hr", "img", "input", "link"}
Element = tuple[str, dict[str, str | None], list[str]]  # tag, attributes, pieces of text


class Page(HTMLParser):
    """The elements of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element: Element = (tag, dict(attrs), [])
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        for _, _, text in self._open:
            text.append(data)

    def having(self, attribute: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attrs, "".join(text)) for _, attrs, text in self.elements if attribute in attrs]

    def tagged(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attrs, "".join(text)) for name, attrs, text in self.elements if name == tag]


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_audit(tmp_path_factory.mktemp("runs") / "audit", model=HOSTILE)
    write_report(folder)
    return folder


@pytest.fixture(scope="module")
def page(audit: Path) -> Page:
    return Page((audit / "report.html").read_text(encoding="utf-8"))


def stored(folder: Path, address: str) -> dict[str, Any]:
    """The record at `PART:KEY#INDEX`, read from results.jsonl by hand."""
    place, _, index = address.rpartition("#")
    part, _, key = (
        place.partition(":")
        if place.startswith(("heads:", "counteracts:", "glue:", "mitigate:"))
        else ("", "", place)
    )
    lines = (folder / part / "results.jsonl").read_text(encoding="utf-8").splitlines()
    records = {entry["key"]: entry["rows"] for entry in map(json.loads, lines)}[key]
    return dict(records[int(index)])


def numbers(value: Any) -> Iterator[float]:
    """Every number inside nested data."""
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from numbers(inner)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def as_shown(value: float, text: str) -> str:
    """A stored number with as many digits as the text has."""
    if "e" in text:
        return f"{value:.1e}"
    if isinstance(value, int):
        return f"{value:,}"
    rounded = f"{value:,.{len(text.partition('.')[2])}f}"
    return rounded.lstrip("-") if not rounded.strip("-0.,") else rounded


def assert_numbers_are_those_of_the_results(folder: Path, page: Page, least: int) -> None:
    """Each number that the page shows is one of the numbers of the record at its address."""
    cells = page.having("data-key")
    assert len(cells) >= least
    for attributes, text in cells:
        address = str(attributes["data-key"])
        own = [as_shown(value, text) for value in numbers(stored(folder, address))]
        assert text.replace("−", "-") in own, address


def test_every_number_of_an_audit_equals_results_jsonl_to_the_digit_shown(audit: Path, page: Page) -> None:
    assert_numbers_are_those_of_the_results(audit, page, 250)


@pytest.mark.parametrize("write", [write_heads, write_prompts, write_sweep, write_glue_run])
def test_a_plain_run_gets_a_report_with_its_own_numbers(
    tmp_path: Path, write: Callable[[Path], Path]
) -> None:
    folder = write(tmp_path / "run")
    path = write_report(folder)
    assert path == folder / "report.html"
    assert_numbers_are_those_of_the_results(folder, Page(path.read_text(encoding="utf-8")), 10)


def test_the_number_test_can_fail(audit: Path) -> None:
    text = (audit / "report.html").read_text(encoding="utf-8").replace(">1.235<", ">1.236<")
    with pytest.raises(AssertionError, match="measured/seat#0"):
        assert_numbers_are_those_of_the_results(audit, Page(text), 1)


def test_head_buttons_tell_the_score_what_holds_and_whether_it_is_clear(audit: Path, page: Page) -> None:
    heads = [attrs for attrs, _ in page.tagged("button") if "data-layer" in attrs]
    assert len(heads) == 20
    for attrs in heads:
        layer, head = int(attrs["data-layer"] or 0), int(attrs["data-head"] or 0)
        score = stored(audit, f"heads:scores#{layer * 5 + head}")
        assert score["head"] == attrs["data-name"] == f"{layer + 1}-{head + 1}"
        label = str(attrs["aria-label"]).replace("−", "-")
        beginning = f"Layer {layer + 1}, head {head + 1}: score {score['score']:.4f}"
        assert label.startswith(f"{beginning}, of which {score['held']:.4f} holds")
        assert label.endswith("(clear)") == (head == 0)


def test_strings_of_models_and_data_stay_text(audit: Path, page: Page) -> None:
    text = (audit / "report.html").read_text(encoding="utf-8")
    assert HOSTILE not in text
    assert page.tagged("b") == []
    assert all(
        attrs.get("aria-hidden") or attrs.get("class") or attrs.get("style") for attrs, _ in page.tagged("i")
    )
    assert page.tagged("h1") == [({}, HOSTILE)]
    data = [
        json.loads(text) for attrs, text in page.tagged("script") if attrs.get("type") == "application/json"
    ]
    assert any(HOSTILE in json.dumps(each) for each in data)


def test_every_chapter_of_an_audit_is_there(page: Page) -> None:
    ids = [attrs["id"] for attrs, _ in page.tagged("section")]
    chapters = ["mitigate", "measured", "heads", "counteracts", "changes", "about", "limits", "again"]
    assert ids == ["now", *chapters, "glossary", "appendix"]
    charts = [attrs["data-name"] for attrs, _ in page.tagged("figure")]
    assert charts == [
        "kinds",
        "mitigate",
        "head-map",
        "attention",
        "distribution",
        "removal",
        "counter-stereotypes",
        "debias",
        "log-odds",
        "margins",
        "masses-female",
        "masses-male",
    ]


def test_strategies_have_a_column_for_each_measure_each_lpbs_test_too(page: Page) -> None:
    tables = [text for _, text in page.tagged("table") if "bottom-2" in text]
    assert len(tables) == 1
    assert "lpbs career" in tables[0]
    assert "lpbs math" in tables[0]
    learned = [text for _, text in page.tagged("table") if "learned, at most 1.05" in text]
    assert len(learned) == 1
    assert "top-1" in learned[0]


def test_the_contrast_of_biased_and_regular_heads_stands_before_the_papers_tests(page: Page) -> None:
    tables = [text for _, text in page.tagged("table") if "biased" in text and "heads" in text]
    (contrast,) = [text for text in tables if "biased less regular heads: the whole change" in text]
    assert "looking at A words" in contrast
    (tests,) = [text for text in tables if "biased heads, A originals" in text]
    assert "biased heads, B originals" in tests
    assert tables.index(contrast) < tables.index(tests)


def test_what_was_not_measured_is_said_with_its_reason(page: Page) -> None:
    limits = next(text for attrs, text in page.tagged("section") if attrs["id"] == "limits")
    assert "accuracy, because not asked" in limits
    assert "unbiased" in limits


def test_the_page_asks_nothing_of_the_network(audit: Path, page: Page) -> None:
    assert not [
        attrs for tag, attrs, _ in page.elements if tag in ("link", "img", "iframe") or "src" in attrs
    ]
    links = [str(attrs["href"]) for attrs, _ in page.tagged("a")]
    assert links
    assert all(link.startswith("#") for link in links)
    assert (audit / "report.html").stat().st_size < 4_000_000


def test_every_table_has_headers_with_scope_a_caption_and_a_csv_button(page: Page) -> None:
    assert all(attrs.get("scope") in ("row", "col") for attrs, _ in page.tagged("th"))
    tables = [attrs for attrs, _ in page.tagged("table") if "aria-label" not in attrs]
    assert len(tables) == len(page.tagged("caption"))
    assert len([attrs for attrs, _ in page.tagged("button") if attrs.get("class") == "csv"]) == len(tables)


def test_how_to_reproduce_names_command_seed_versions_and_hashes(page: Page, audit: Path) -> None:
    text = next(text for attrs, text in page.tagged("section") if attrs["id"] == "again")
    command = f"levelhead audit '{HOSTILE}' --nli lh:tiny-nli"
    assert command in text
    assert "--top 2" in text
    assert f"-o {audit}" in text
    assert "transformers" in text
    assert "ab" * 32 in text


def test_a_report_of_an_unfinished_audit_says_so_and_shows_what_is_there(tmp_path: Path) -> None:
    folder = write_audit(tmp_path / "run")
    lines = (folder / "results.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "results.jsonl").write_text("".join(lines[:3]), encoding="utf-8")
    text = write_report(folder).read_text(encoding="utf-8")
    assert "is not finished" in text
    assert 'id="changes"' not in text


def test_an_empty_or_foreign_folder_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadRun, match="not a run folder"):
        write_report(tmp_path)
    Run.open(tmp_path / "empty", Heads, heads_settings()).close()
    with pytest.raises(BadRun, match="no results yet"):
        write_report(tmp_path / "empty")


@pytest.mark.parametrize("name", ["agreement of heads", "change on other words", "seat"])
def test_a_measure_under_another_name_is_shown_under_it(tmp_path: Path, name: str) -> None:
    folder = write_heads(tmp_path / "run")
    results = folder / "results.jsonl"
    text = results.read_text(encoding="utf-8")
    assert f'"name": "{name}"' in text
    results.write_text(text.replace(f'"name": "{name}"', '"name": "another"'), encoding="utf-8")
    reseal(folder)
    assert "another" in report_html(open_contents(folder))


def test_a_recipe_that_no_result_belongs_to_is_one_line(tmp_path: Path) -> None:
    folder = write_glue_run(tmp_path / "run")
    results = folder / "results.jsonl"
    text = results.read_text(encoding="utf-8")
    results.write_text(text.replace('"name": "closed"', '"name": "another"'), encoding="utf-8")
    reseal(folder)
    with pytest.raises(BadRun, match=r"do not fit together .*another"):
        report_html(open_contents(folder))


def test_damaged_arcs_are_named(tmp_path: Path) -> None:
    folder = write_audit(tmp_path / "run")
    (folder / "arcs.json").write_text('{"sentences": [{}]}', encoding="utf-8")
    with pytest.raises(BadRun, match=r"arcs\.json is damaged"):
        write_report(folder)


def test_the_running_example_of_a_plain_heads_run_becomes_arcs(tmp_path: Path) -> None:
    (pair,) = arcs(open_contents(write_heads(tmp_path / "run")))
    assert pair.counter.attention[1][2] == (0.25, 1.0, None)
    assert pair.original.attention[1][2] == (0.5, 1.0, None)
    assert pair.original.attention[3][4] is None


def test_numbers_are_shown_as_people_write_them() -> None:
    assert [shown(-0.00001), shown(-0.5), shown(12345), shown(12345.678, 1), shown(1.2e-28, -1)] == [
        "0.000",
        "−0.500",
        "12,345",
        "12,345.7",
        "1.2e-28",
    ]


def test_a_missing_number_is_a_dash_and_an_empty_csv_cell() -> None:
    cell = number(None, "x#0")
    assert (cell.text, cell.raw) == ("–", "")


def test_a_text_that_a_spreadsheet_would_run_is_quoted_and_a_number_is_not() -> None:
    table = Table("t", "T", ("=A", "B"), [[words("=HYPERLINK(1)"), number(-0.5)]])
    assert table.to_csv() == "'=A,B\n'=HYPERLINK(1),-0.5\n"
