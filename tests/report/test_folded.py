"""What a folded chapter says, and technical words that explain themselves."""

from __future__ import annotations

import re
from pathlib import Path

from levelhead.inference.contents import open_contents
from levelhead.pages.found import found
from levelhead.pages.glossary import defined
from levelhead.pages.glossary import explained as terms
from levelhead.pages.page import report_html
from levelhead.results.runs import open_heads
from tests.report.synthetic import write_audit, write_heads, write_prompts


def test_every_chapter_of_an_audit_is_folded_under_what_it_found(tmp_path: Path) -> None:
    contents = open_contents(write_audit(tmp_path / "audit"))
    page = report_html(contents)
    folds = re.findall(
        r'<details class="study">.*?<span class="found-line">(.*?)</span></summary>', page, re.S
    )
    assert (
        len(folds)
        == page.count("<section id=") - page.count('<section id="now"')
        == page.count('class="study"')
    )
    assert all(re.sub("<[^>]+>", "", line).strip().endswith((".", "?")) for line in folds)


def test_the_sentence_of_the_heads_counts_those_that_stand_out(tmp_path: Path) -> None:
    folder = write_heads(tmp_path / "heads")
    run, said = open_heads(folder), found(open_contents(folder), "heads")
    assert said.startswith(f"{len(run.clear_heads)} of {len(run.scores)} heads stand out clearly")
    assert f"of head {run.ranked[0].head}." in said


def test_the_sentence_of_the_prompts_has_the_log_odds_with_their_interval(tmp_path: Path) -> None:
    assert re.search(
        r"log-odds .* -?\d\.\d\d \[", found(open_contents(write_prompts(tmp_path / "p")), "knowledge")
    )


def test_a_chapter_without_a_sentence_says_nothing(tmp_path: Path) -> None:
    assert found(open_contents(write_heads(tmp_path / "heads")), "no such chapter") == ""


def test_a_term_is_explained_the_first_time_it_stands_in_a_text() -> None:
    pieces = defined("SEAT and perplexity; SEAT again, SEATS never")
    explained = [(piece.text, piece.title) for piece in pieces if piece.title]
    assert explained == [("SEAT", terms()["SEAT"]), ("perplexity", terms()["perplexity"])]
    assert "".join(piece.text for piece in pieces) == "SEAT and perplexity; SEAT again, SEATS never"
