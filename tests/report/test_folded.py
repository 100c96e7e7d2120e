"""What a folded chapter says, and technical words that explain themselves."""

from __future__ import annotations

import re
from pathlib import Path

from levelhead.inference.contents import open_contents
from levelhead.pages.chapters import Chapter
from levelhead.pages.glossary import Terms, explained
from levelhead.pages.page import report_html
from levelhead.pages.presented import found, presented
from levelhead.studies.heads import open_heads
from tests.report.synthetic import write_audit, write_heads, write_prompts


def test_every_chapter_of_an_audit_is_folded_under_what_it_found(tmp_path: Path) -> None:
    contents = open_contents(write_audit(tmp_path / "audit"))
    page = report_html(contents)
    folds = re.findall(
        r'<details class="study"(?: open)?>.*?<span class="found-line">(.*?)</span></summary>', page, re.S
    )
    assert (
        len(folds)
        == page.count("<section id=") - page.count(f'<section id="{Chapter.APPENDIX}"')
        == page.count('class="study"')
    )
    assert all(re.sub("<[^>]+>", "", line).strip().endswith((".", "?")) for line in folds)


def found_in(folder: Path, chapter: str) -> str:
    """What stands where a chapter of the page is folded."""
    sections = presented(open_contents(folder)).sections
    return next(section.found for section in sections if section.id == chapter)


def test_the_sentence_of_the_heads_counts_those_that_stand_out(tmp_path: Path) -> None:
    folder = write_heads(tmp_path / "heads")
    run, said = open_heads(folder), found_in(folder, "heads")
    assert said.startswith(f"{len(run.clear_heads)} of {len(run.scores)} heads stand out clearly")
    assert f"of head {run.ranked[0].head}." in said


def test_the_sentence_of_the_prompts_has_the_log_odds_with_their_interval(tmp_path: Path) -> None:
    assert re.search(r"log-odds .* -?\d\.\d\d \[", found_in(write_prompts(tmp_path / "p"), "counteracts"))


def test_a_chapter_without_a_sentence_says_nothing(tmp_path: Path) -> None:
    assert found(open_contents(write_heads(tmp_path / "heads")), "no such chapter") == ""


def titles(terms: Terms, text: str, cell: bool = False) -> list[tuple[str, str]]:
    return [(piece.text, piece.title) for piece in terms(text, cell) if piece.title]


def test_a_term_is_explained_the_first_time_it_stands_in_a_chapter() -> None:
    terms, text = Terms(), "SEAT and perplexity; SEAT again, SEATS never"
    assert "".join(piece.text for piece in Terms()(text)) == text
    assert titles(terms, text) == [(name, explained()[name].title) for name in ("SEAT", "perplexity")]
    assert titles(terms, "SEAT") == []
    terms.fresh()
    assert titles(terms, "SEAT") == [("SEAT", explained()["SEAT"].title)]


def test_a_form_of_a_term_and_the_term_itself_are_explained_once() -> None:
    ((text, title),) = titles(Terms(), "Null models and a null model")
    assert (text, title) == ("Null models", explained()["null model"].title)


def test_heads_of_tables_are_explained_however_short_they_are() -> None:
    assert titles(Terms(), "p") == [("p", explained()["p"].title)]
    assert titles(Terms(), "the largest p of all") == []


def test_a_word_of_a_probe_is_not_taken_for_a_term() -> None:
    assert titles(Terms(), "head cook, gate keeper", cell=True) == []
    assert [text for text, _ in titles(Terms(), "log-odds of a head cook", cell=True)] == ["log-odds"]
    assert [text for text, _ in titles(Terms(), "certified", cell=True)] == ["certified"]


def test_a_word_with_a_second_meaning_is_listed_and_not_explained_where_it_stands(tmp_path: Path) -> None:
    assert titles(Terms(), "margin") == []
    assert 'id="term-margin"' in report_html(open_contents(write_heads(tmp_path / "heads")))


def test_every_term_leads_to_its_place_in_the_list(tmp_path: Path) -> None:
    page = report_html(open_contents(write_audit(tmp_path / "audit")))
    leads = set(re.findall(r'<a class="term" href="#([^"]+)" data-about="[^"]+">', page))
    assert len(leads) > 10
    assert leads <= set(re.findall(r'<div id="(term-[^"]+)"', page))
    assert len(re.findall(r'<div id="term-', page)) == len(set(re.findall(r'<div id="(term-[^"]+)"', page)))
    heads = " ".join(re.findall(r"<thead>.*?</thead>", page, re.S))
    assert '<a class="term"' in heads
