"""The headline says what the numbers show, and says what was not measured instead of a number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from levelhead.edits.head import Head
from levelhead.measures.measurement import Measurement, Null
from levelhead.measures.stereoset import SCALE_FREE
from levelhead.report.claims import beyond_floor
from levelhead.report.headline import counter_sides, headline, headline_claims, notebook_html, valued
from levelhead.results import layout
from levelhead.results.folder import Run
from levelhead.results.records.audit import Mitigation, NamedValue, ProjectionCandidate
from levelhead.results.records.common import BASE, MeasuredVariant
from levelhead.results.records.heads import (
    CHANGE_ON_OTHER_WORDS,
    HEAD_AGREEMENT,
    LARGEST_HELD,
    CounterTest,
    HeadScore,
    WordsUsed,
)
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


def seat(value: float, half: float = 0.1, p: float | None = 0.0001) -> Measurement:
    null = None if p is None else Null("null twins", 19, 0.17, 0.06, p)
    return measured("seat", value, half, neutral=0.0, details={"p_value": 0.0004}, null=null)


def test_an_association_is_claimed_only_beyond_what_models_without_meaning_show(tmp_path: Path) -> None:
    floor = "(0 is none, 2 the most; 0.17 ± 0.06 in models without meaning, p {})"
    text, _ = headline_of(tmp_path / "clear", {BASE: [seat(1.2)]})
    assert (
        text == f"tiny associates gender with stereotypes: SEAT 1.20 [1.10, 1.30] {floor.format('< 0.001')}."
    )
    for name, measurement in {"p": seat(1.2, p=0.2), "interval": seat(0.2)}.items():
        text, _ = headline_of(tmp_path / name, {BASE: [measurement]})
        assert text.startswith("tiny: no association of gender with stereotypes can be told from a model ")
    text, _ = headline_of(tmp_path / "no twins", {BASE: [seat(1.2, p=None)]})
    assert text.endswith("No null twin was asked, so nothing is claimed.")


def test_claims_of_one_page_are_corrected_for_their_number(tmp_path: Path) -> None:
    """Alone p = 0.03 speaks; beside five tests that show nothing it does not."""
    alone, findings = headline_of(tmp_path / "alone", {BASE: [seat(1.2, p=0.03)]})
    assert alone.startswith("tiny associates")
    others = [measured(f"lpbs {n}", 0.3, 0.4, neutral=0.0, details={"p_value": 0.5}) for n in range(5)]
    many, findings = headline_of(tmp_path / "many", {BASE: [seat(1.2, p=0.03), *others]})
    assert many.startswith("tiny: no association")
    assert findings[-1] == "6 claims were tested on this page, corrected for their number (Holm)."


def test_what_was_not_measured_is_said_with_its_reason(tmp_path: Path) -> None:
    missing = Measurement.missing("seat", "no word has a context")
    text, findings = headline_of(tmp_path, {BASE: [missing, measured("fairness", 0.52, 0.04)]})
    assert text == "tiny: the association of gender with stereotypes was not measured."
    assert findings == (
        "Inferences about occupations: fairness 0.52 [0.48, 0.56] "
        "(1 is fair: neutral for women and men alike).",
        "Not measured: seat (no word has a context).",
    )


def strength(value: float, relative: float, p: float = 0.18) -> Measurement:
    null = Null("sign flips", 9_999, 0.226, 0.03, p)
    return measured("strength", value, 0.01, neutral=0.0, details={SCALE_FREE: relative}, null=null)


def test_strength_is_held_against_chance(tmp_path: Path) -> None:
    _, silent = headline_of(tmp_path / "a", {BASE: [seat(1.2), strength(0.258, 2.1)]})
    assert "cannot be told from a model without meaning on this much data (0.23 ± 0.03 by chance" in silent[0]
    _, spoken = headline_of(tmp_path / "b", {BASE: [seat(1.2), strength(0.4, 2.1, p=0.001)]})
    assert spoken[0].endswith("tenth of triples: 0.40 [0.39, 0.41]: 0.23 ± 0.03 by chance, p 0.001.")


def test_the_best_projection_is_said_with_the_items_that_it_was_chosen_on(tmp_path: Path) -> None:
    candidates = [candidate(BASE, 0.41, 0.8), candidate("sent: soft", 0.2, 0.79, chosen=True)]
    _, findings = headline_of(tmp_path, {BASE: [seat(1.2)]}, candidates)
    assert findings == (
        "Of 1 projections, sent: soft does best on the items that it was chosen on: "
        "strength 0.41 → 0.20, lms 0.80 → 0.79.",
    )


@pytest.mark.parametrize(
    ("relative", "words"),
    [
        (2.2, "This only flattens the outputs: relative to the scale of the outputs 2.10 → 2.20."),
        (1.0, "It falls relative to the scale of the outputs 2.10 → 1.00 too."),
    ],
)
def test_a_projection_that_only_flattens_the_outputs_is_called_that(
    tmp_path: Path, relative: float, words: str
) -> None:
    candidates = [candidate(BASE, 0.41, 0.8), candidate("sent: soft", 0.2, 0.79, chosen=True)]
    variants = {BASE: [seat(1.2), strength(0.41, 2.1)], "sent: soft": [strength(0.2, relative)]}
    _, findings = headline_of(tmp_path, variants, candidates)
    assert findings[1].endswith(words)


def test_no_projection_that_helps_is_said(tmp_path: Path) -> None:
    _, findings = headline_of(
        tmp_path, {BASE: [seat(1.2)]}, [candidate(BASE, 0.4, 0.8), candidate("a", 0.5, 0.8)]
    )
    assert findings == ("None of 1 projections has a better strength without losing too much ability.",)


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
    assert findings[0].endswith(f"strength not measured → 0.20, {words}.")


def test_heads_inside_the_audit_have_their_findings(tmp_path: Path) -> None:
    write_heads(tmp_path / layout.HEADS_PART)
    scores = open_heads(tmp_path / layout.HEADS_PART).scores
    _, findings = headline_beside(tmp_path)
    biased = sum(score.biased for score in scores)
    start = findings.index(f"{biased} of 20 heads have a score above 0 on these words.")
    assert findings[start + 1] == (
        "Scores against removing heads one by one: Spearman's rho 0.93 [0.89, 0.97] (1: the same order)."
    )
    assert findings[start + 2] == (
        "When a stereotype is turned around, attention of biased heads to the group word falls by "
        "0.0400 [0.0300, 0.0500] (N = 140; sentences share templates: not tested). "
        "Mind the sides: with A originals t is 2.5, with B ones -1.5; these heads look at A words more, "
        "whatever is said."
    )


def test_the_association_is_claimed_of_the_sound_row_and_says_over_which_words(
    tmp_path: Path,
) -> None:
    write_heads(tmp_path / layout.HEADS_PART)
    text, _ = headline_beside(tmp_path)
    assert "SEAT 0.81 [0.40, 1.20] over the 14 words that are one token (0 is none, 2 the most; 0.01" in text


@pytest.mark.parametrize(
    ("p_of_largest", "p_of_heads", "words"),
    [
        (0.0001, 0.05, "1 of 1 heads stand out clearly (1-1): the largest score that holds"),
        (0.04, 0.05, "1 of 1 heads stand out clearly (1-1) by themselves, but corrected for all claims"),
        (0.3, 0.35, "No head stands out clearly: the largest score that holds on other words is 0.200; 0.00"),
    ],
)
def test_a_clear_head_is_a_claim_of_its_own(
    tmp_path: Path, p_of_largest: float, p_of_heads: float, words: str
) -> None:
    fits = [cross_fitted(HEAD_AGREEMENT, 0.1, 0.0, 0.04), cross_fitted(LARGEST_HELD, 0.2, 0.0, p_of_largest)]
    with Run.open(tmp_path, layout.AUDIT, SETTINGS) as run:
        run.result(layout.MEASURED.of("seat"), lambda: MeasuredVariant(BASE, "tiny", seat(1.2)))
    with Run.open(tmp_path / layout.HEADS_PART, layout.HEADS, heads_settings()) as run:
        run.results(layout.CROSS_FIT, fits.copy)
        run.result(layout.SCORES, lambda: HeadScore(Head(0, 0), 0.3, None, 0.2, p_of_heads, 1, 1.2))
    claims = {name: claim for name, claim, _ in headline_claims(open_audit(tmp_path))}
    assert claims["clear head"].p == p_of_largest
    assert any(finding.startswith(words) for finding in headline(open_audit(tmp_path)).findings)


def cross_fitted(name: str, value: float, floor: float, p: float) -> Measurement:
    null = Null("null twins", 19, floor, 0.1, p)
    return Measurement(name, value, n=3, neutral=0.0, details={"sd": 0.05}, null=null)


@pytest.mark.parametrize(
    ("p", "change", "words"),
    [
        (0.001, -0.2, "lowers |SEAT| on words that heads were not chosen on: -0.20 ± 0.05 over splits"),
        (0.3, -0.2, "is not shown to lower |SEAT| on words that heads were not chosen on"),
        (0.001, 0.2, "is not shown to lower |SEAT| on words that heads were not chosen on"),
    ],
)
def test_removal_is_judged_on_words_that_heads_were_not_chosen_on(
    tmp_path: Path, p: float, change: float, words: str
) -> None:
    fits = [
        cross_fitted(HEAD_AGREEMENT, 0.8, 0.0, 0.001),
        cross_fitted(CHANGE_ON_OTHER_WORDS, change, -0.02, p),
    ]
    with Run.open(tmp_path, layout.AUDIT, SETTINGS) as run:
        run.result(layout.MEASURED.of("seat"), lambda: MeasuredVariant(BASE, "tiny", seat(1.2)))
        run.result(layout.VERIFIED.of("x"), lambda: MeasuredVariant(CLOSED, "tiny", PERPLEXITY))
        run.results(layout.MITIGATIONS, [WAY].copy)
    with Run.open(tmp_path / layout.HEADS_PART, layout.HEADS, heads_settings()) as run:
        run.results(layout.CROSS_FIT, fits.copy)
    head = headline(open_audit(tmp_path))
    assert words in head.text
    assert head.text.endswith("at a change of +2.3 % [+1.3, +3.3] in perplexity.")
    assert head.findings[0].startswith("Heads found on half of the words hold on the other half")


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


def test_only_an_interval_can_be_beyond_a_floor() -> None:
    assert beyond_floor(measured("seat", 0.2, 0.1), 0.0)
    assert not beyond_floor(measured("seat", 0.2, 0.3), 0.0)
    assert not beyond_floor(measured("seat", 0.2, half=-1), 0.0)
    assert not beyond_floor(Measurement.missing("seat", "no words"), 0.0)


def test_a_notebook_shows_the_untouched_model_and_runs_no_script() -> None:
    measurements = {BASE: {HOSTILE: Measurement.missing(HOSTILE, HOSTILE)}, CLOSED: {"seat": seat(1.0)}}
    text = notebook_html(HOSTILE, [HOSTILE], measurements)
    assert "<script" not in text
    assert text.count("<tr>") == 2
    assert "not measured (&lt;script&gt;" in text
