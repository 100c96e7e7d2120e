"""A tour for newcomers: a question, an example with the run's own numbers, and how to read what follows."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from levelhead.edits.sites import Head
from levelhead.inference.contents import Contents, arcs, open_contents
from levelhead.pages.chapters import Chapter
from levelhead.pages.charts.frontier import Axes, FrontierPoint, cross_of, frontier
from levelhead.pages.examples import (
    arcs_example,
    attention,
    first_arcs,
    kind_examples,
    knowledge_example,
    measured_example,
)
from levelhead.pages.page import report_html
from levelhead.pages.presented import sections
from levelhead.probes.cloze import load_cloze
from levelhead.runs.common import BASE
from levelhead.studies.heads.records import ArcPair, ArcVersion
from tests.report.synthetic import (
    measured,
    write_audit,
    write_glue_run,
    write_heads,
    write_prompts,
    write_sweep,
)
from tests.report.synthetic.audit import NULL_MODELS_NULL
from tests.sealing import reseal


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    return open_contents(write_audit(tmp_path_factory.mktemp("runs") / "audit"))


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    """An audit that claims no bias."""
    folder = write_audit(tmp_path_factory.mktemp("runs") / "silent")
    text = (folder / "results.jsonl").read_text(encoding="utf-8")
    p = f'"p_value": {NULL_MODELS_NULL.p_value}'
    assert p in text
    (folder / "results.jsonl").write_text(text.replace(p, '"p_value": 0.4'), encoding="utf-8")
    reseal(folder)
    return open_contents(folder)


# ---- questions


@pytest.mark.parametrize("write", [write_audit, write_heads, write_prompts, write_sweep, write_glue_run])
def test_every_chapter_has_a_question_that_it_answers(tmp_path: Path, write: Callable[[Path], Path]) -> None:
    chapters = sections(open_contents(write(tmp_path / "run")))
    assert all(chapter.question.endswith("?") for chapter in chapters)
    assert all(chapter.how for chapter in chapters if chapter.id not in (Chapter.LIMITS, Chapter.ABOUT))


def test_question_and_example_stand_before_how_to_read_and_that_before_the_numbers(audit: Contents) -> None:
    html = report_html(audit)
    for chapter in sections(audit):
        text = html[html.index(f'id="{chapter.id}-title"') :].partition("</section>")[0]
        parts = ['<p class="question">', '<div class="tour"', "How to read this.", "<table"]
        places = [text.find(part) for part in parts if part in text]
        assert places[0] > 0
        assert places == sorted(places)
        assert ('<div class="tour"' in text) == (chapter.example is not None)


# ---- examples


def test_no_example_of_a_measure_that_shows_nothing_stands_under_the_finding_of_another(
    audit: Contents, silent: Contents
) -> None:
    assert measured_example(audit) is None  # SEAT is strong, log-odds show nothing
    assert knowledge_example(audit) is not None  # the chapter is about log-odds
    assert measured_example(silent) is not None


def test_the_example_of_a_question_has_the_middle_occupations_odds(silent: Contents) -> None:
    example = measured_example(silent)
    assert example is not None
    odds = 0.1 + 0.3 * 2  # the third of five
    assert f"female words {math.exp(odds):.1f} times" in example.first.number
    assert example.first.number.endswith("(log-odds +0.70)")
    assert example.second.number.endswith("(log-odds −0.70)")
    assert "female job 2" in example.first.sentence
    assert "male job 2" in example.second.sentence


def test_the_example_of_knowledge_asks_the_same_question_twice(silent: Contents) -> None:
    told = knowledge_example(silent)
    assert told is not None
    assert told.first.number.endswith("(log-odds +0.70)")
    assert told.second.number.endswith("(log-odds +0.20)")  # 0.5 less after the counterexample
    assert "target counter semantic" in told.note


def test_every_kind_of_knowledge_of_the_shipped_prompts_has_an_example_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = open_contents(write_prompts(tmp_path / "run"))
    run = contents.counteracts
    assert run is not None
    assert kind_examples(run) == {}  # these prompts do not ship
    shipped = [
        replace(each, occupation="female job 2")
        for each in load_cloze().prompts
        if each.occupation == "nurse"
    ]
    monkeypatch.setattr("levelhead.pages.examples._shipped", lambda _: shipped)
    texts = kind_examples(run)
    assert list(texts) == [kind for kind in run.settings.kinds if kind != BASE]
    assert texts["target counter semantic"].endswith("The ___ works as a nurse.")
    html = unescape(report_html(contents))
    assert all(text in html for text in texts.values())


def test_a_run_without_prompts_or_arcs_has_no_example(tmp_path: Path) -> None:
    contents = open_contents(write_sweep(tmp_path / "run"))
    examples = (measured_example, knowledge_example, arcs_example)
    assert [make(contents) for make in examples] == [None] * 3


# ---- the first arcs


def version(weight: float, head: Head) -> ArcVersion:
    """A sentence of two words in which one head looks so much at the first; the others do not look."""
    weights = tuple(
        tuple((weight if Head(layer, number) == head else 0.0, 1.0) for number in range(5))
        for layer in range(4)
    )
    return ArcVersion(("she", "sews"), (1,), (0,), weights)


def pair(before: float, after: float, head: Head) -> ArcPair:
    return ArcPair("she sews", "he sews", version(before, head), version(after, head))


def test_the_first_example_moves_as_the_biased_heads_do_and_is_the_most_typical_one(tmp_path: Path) -> None:
    run = open_contents(write_heads(tmp_path / "run")).heads
    assert run is not None
    best = run.ranked[0].head
    pairs = [pair(0.2, 0.4, best), pair(0.9, 0.1, best), pair(0.5, 0.45, best)]  # biased heads fall by 0.04
    first = first_arcs(run, pairs)
    assert (first.head, first.pair) == (best, 2)
    before, after = (attention(each, best) for each in (pairs[0].original, pairs[0].counter))
    assert before is not None
    assert after is not None
    assert before - after == pytest.approx(-0.2)  # what was shown before: the contrary
    assert first_arcs(run, pairs[:1]).pair == 0  # none agrees: the first, and the page says what it does


def test_the_page_opens_with_that_head_and_pair_and_says_what_the_head_does_on_average(
    audit: Contents,
) -> None:
    assert audit.heads is not None
    first = first_arcs(audit.heads, arcs(audit))
    html = report_html(audit)
    assert html.count(" data-first ") == 1
    head = html[html.rindex("<button", 0, html.index(" data-first ")) :].partition(">")[0]
    assert f'data-name="{first.head}"' in head
    assert 'data-change="0.04" data-sentences="140"' in head
    assert f'<option value="{first.pair}" selected>' in html
    example = arcs_example(audit)
    assert example is not None
    weight = attention(arcs(audit)[first.pair].original, first.head)
    assert example.first.number.startswith(f"head {first.head} ")
    assert example.first.number.endswith(f" {weight:.3f}")


# ---- charts


def test_axes_of_a_frontier_are_as_long_as_the_intervals_of_the_untouched_model() -> None:
    points = [FrontierPoint("base", "base", 0.40, 0.944, True), FrontierPoint("a", "x", 0.39, 0.953, True)]
    lms = measured("lms", 0.944, 0.04)
    cross = cross_of(measured("strength", 0.4, 0.1), lms.value, lms.interval)
    spec = frontier(points, Axes("f", "F", "Strength", "LMS", ""), cross).spec
    values = [value for layer in spec["layer"] for value in layer.get("data", {}).get("values", [])]
    across, upward = values
    assert (across["bias"], across["end"]) == pytest.approx((0.3, 0.5))
    assert (upward["use"], upward["end"]) == pytest.approx((0.904, 0.984))


def test_a_size_whose_sign_is_not_sure_has_an_interval_from_0() -> None:
    seat = replace(measured("seat", -0.2, neutral=0.0), interval=(-0.5, 0.1))
    cross = cross_of(seat, 1.0, absolute=True)
    assert cross is not None
    assert (cross.bias, cross.bias_ends) == (0.2, (0.0, 0.5))
