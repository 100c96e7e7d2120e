"""The headline says what the numbers show, and says what was not measured instead of a number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from levelhead.edits.head import Head
from levelhead.measures.measurement import Measurement
from levelhead.report.headline import clear_of, counter_sides, headline, notebook_html, valued
from levelhead.results import layout
from levelhead.results.folder import Run
from levelhead.results.records.audit import Mitigation, NamedValue, ProjectionCandidate
from levelhead.results.records.common import BASE, MeasuredVariant
from levelhead.results.records.heads import CounterTest, WordsUsed
from levelhead.results.runs import open_audit, open_heads
from levelhead.results.settings import AuditRunSettings
from tests.report.synthetic import HOSTILE, heads_settings, measured, write_heads

CLOSED = "without heads 4-5, 1-2"
SETTINGS = AuditRunSettings(
    study=layout.AUDIT.study,
    seed=0,
    model="tiny",
    abilities=("mlm",),
    layers=4,
    heads=5,
    large=False,
    bias="gender",
    nli=None,
    top=2,
    full=False,
)
WAY = Mitigation(CLOSED, "Heads are removed.", (Head(3, 4), Head(0, 1)), "", None, True)
PERPLEXITY = measured("fluency change", 1.0234, 0.01, neutral=1.0)


def candidate(
    name: str, bias: float | None, ability: float | None, chosen: bool = False
) -> ProjectionCandidate:
    values = NamedValue("strength", bias), NamedValue("lms", ability)
    return ProjectionCandidate(name, "SENT", "", *values, viable=True, gain=0.1, recipe="", chosen=chosen)


def headline_of(
    folder: Path,
    variants: Mapping[str, list[Measurement]],
    candidates: list[ProjectionCandidate] | None = None,
) -> tuple[str, tuple[str, ...]]:
    """The headline of an audit with these measurements and candidates."""
    with Run.open(folder, layout.AUDIT, SETTINGS) as run:
        for variant, measurements in variants.items():
            key = layout.MEASURED.of("all") if variant == BASE else layout.VERIFIED.of(f"{variant}/all")
            run.results(key, [MeasuredVariant(variant, "tiny", each) for each in measurements].copy)
        run.results(layout.CANDIDATES, (candidates or []).copy)
        run.results(layout.MITIGATIONS, [WAY].copy)
    head = headline(open_audit(folder))
    return head.text, head.findings


def seat(value: float, half: float = 0.1) -> Measurement:
    return measured("seat", value, half, neutral=0.0, details={"p_value": 0.0004})


def test_the_opening_has_seat_with_its_uncertainty_and_the_first_way_out_with_its_cost(
    tmp_path: Path,
) -> None:
    text, _ = headline_of(tmp_path, {BASE: [seat(1.2)], CLOSED: [seat(0.7), PERPLEXITY]})
    assert text == (
        "tiny associates gender with stereotypes: SEAT 1.20 [1.10, 1.30] (0 is none, 2 the most; p < 0.001). "
        "Removing heads 4-5 and 1-2 lowers it: 0.70 [0.60, 0.80], "
        "at a change of +2.3 % [+1.3, +3.3] in perplexity."
    )


def test_an_interval_that_holds_zero_and_a_way_out_that_does_not_help_are_said(tmp_path: Path) -> None:
    text, _ = headline_of(tmp_path, {BASE: [seat(0.05)], CLOSED: [seat(-0.06)]})
    assert "tiny shows no clear association of gender with stereotypes: SEAT 0.05 [-0.05, 0.15]" in text
    assert text.endswith("Removing heads 4-5 and 1-2 does not lower it: -0.06 [-0.16, 0.04].")


def test_what_was_not_measured_is_said_with_its_reason(tmp_path: Path) -> None:
    missing = Measurement.missing("seat", "no word has a context")
    text, findings = headline_of(tmp_path, {BASE: [missing, measured("ss", 0.52, 0.04)]})
    assert text == "tiny: the association of gender with stereotypes was not measured."
    assert findings == (
        "It prefers the stereotypical next sentence in a share of 0.52 [0.48, 0.56] of the triples "
        "(0.5 is even). The interval includes the neutral value.",
        "Not measured: seat (no word has a context).",
    )


def test_the_best_projection_is_said_with_what_it_bought_and_cost(tmp_path: Path) -> None:
    candidates = [candidate(BASE, 0.41, 0.8), candidate("sent: soft", 0.2, 0.79, chosen=True)]
    _, findings = headline_of(tmp_path, {BASE: [seat(1.2)]}, candidates)
    assert findings == ("Best viable of 1 projections (sent: soft): strength 0.41 → 0.20, lms 0.80 → 0.79.",)


def test_no_projection_that_helps_is_said(tmp_path: Path) -> None:
    _, findings = headline_of(
        tmp_path, {BASE: [seat(1.2)]}, [candidate(BASE, 0.4, 0.8), candidate("a", 0.5, 0.8)]
    )
    assert findings == ("None of 1 projections improves strength without losing too much ability.",)


@pytest.mark.parametrize(
    ("ability", "words"),
    [
        ((None, None), "lms not measured → not measured"),
        ((0.8, None), "lms 0.80 → not measured"),
        ((None, 0.8), "lms not measured → 0.80"),
    ],
)
def test_an_ability_or_a_bias_that_was_not_measured_is_no_number(
    tmp_path: Path, ability: tuple[float | None, float | None], words: str
) -> None:
    before, after = ability
    candidates = [candidate(BASE, None, before), candidate("sent: soft", 0.2, after, chosen=True)]
    _, findings = headline_of(tmp_path, {BASE: [seat(1.2)]}, candidates)
    assert findings == (f"Best viable of 1 projections (sent: soft): strength not measured → 0.20, {words}.",)


def test_heads_inside_the_audit_have_their_findings(tmp_path: Path) -> None:
    write_heads(tmp_path / layout.HEADS_PART)
    scores = open_heads(tmp_path / layout.HEADS_PART).scores
    biased = [score for score in scores if score.score > 0]
    sure = [score for score in biased if score.q == 0.00001]
    _, findings = headline_beside(tmp_path)
    assert findings[0] == (
        f"{len(biased)} of 20 heads add to the association, {len(sure)} of them clearly (q < 0.05)."
    )
    assert findings[1] == (
        "Scores against removing heads one by one: Spearman's rho 0.93 [0.89, 0.97] (1: the same order)."
    )
    assert findings[2] == (
        "When a stereotype is turned around, biased heads look less at the gender word (p 0.007, N = 140). "
        "Mind the sides: with A originals t is 2.5, with B ones -1.5; these heads look at A words more, "
        "whatever is said."
    )


def headline_beside(folder: Path) -> tuple[str, tuple[str, ...]]:
    """The headline of an audit around the heads run that is in its folder already."""
    heads = (folder / layout.HEADS_PART).rename(folder.parent / f"{folder.name}-heads")
    with Run.open(folder, layout.AUDIT, SETTINGS) as run:
        run.result(layout.MEASURED.of("seat"), lambda: MeasuredVariant(BASE, "tiny", seat(1.2)))
    heads.rename(folder / layout.HEADS_PART)
    head = headline(open_audit(folder))
    return head.text, head.findings


# ---- pieces


def test_a_warning_needs_two_sides_that_contradict_each_other(tmp_path: Path) -> None:
    known = open_heads(write_heads(tmp_path / "run"))
    first, second = known.counter_sides
    open_end = replace(second, measurement=replace(second.measurement, interval=None))
    without_t = replace(second, measurement=replace(second.measurement, details={}))
    assert "with B ones -1.5;" in sides_of(tmp_path / "both", [first, second])
    assert "with B ones not measured;" in sides_of(tmp_path / "no t", [first, without_t])
    assert sides_of(tmp_path / "same", [first, first]) == ""
    assert sides_of(tmp_path / "open", [first, open_end]) == ""
    assert sides_of(tmp_path / "one", [first]) == ""


def sides_of(folder: Path, tests: list[CounterTest]) -> str:
    with Run.open(folder, layout.HEADS, heads_settings()) as run:
        run.result(layout.WORDS, lambda: WordsUsed("test", ("A", "B", "X", "Y"), {}, 4, 4, (), {}))
        run.results(layout.COUNTER_SIDES, tests.copy)
    return counter_sides(open_heads(folder))


def test_a_value_is_shown_with_its_interval_or_the_reason_why_there_is_none() -> None:
    assert valued(measured("seat", 0.456, 0.1)) == "0.46 [0.36, 0.56]"
    assert valued(measured("seat", 0.456, half=-1), 3) == "0.456"
    assert valued(Measurement.missing("seat", "no words")) == "not measured (no words)"


def test_only_an_interval_can_be_clear_of_the_neutral_value() -> None:
    assert clear_of(measured("seat", 0.2, 0.1), 0.0)
    assert not clear_of(measured("seat", 0.2, 0.3), 0.0)
    assert not clear_of(measured("seat", 0.2, half=-1), 0.0)
    assert not clear_of(Measurement.missing("seat", "no words"), 0.0)


def test_a_notebook_shows_the_untouched_model_and_runs_no_script() -> None:
    measurements = {BASE: {HOSTILE: Measurement.missing(HOSTILE, HOSTILE)}, CLOSED: {"seat": seat(1.0)}}
    text = notebook_html(HOSTILE, [HOSTILE], measurements)
    assert "<script" not in text
    assert text.count("<tr>") == 2
    assert "not measured (&lt;script&gt;" in text
