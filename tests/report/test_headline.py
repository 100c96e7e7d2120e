"""The headline says what the numbers show, and says what was not measured instead of a number."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from levelhead.edits.sites import Head
from levelhead.inference.claims import SILENT, WITH_EXCHANGE, floor_text, too_few_text, valued
from levelhead.inference.contents import measurements, open_contents
from levelhead.inference.fill_in import beyond_null_models
from levelhead.inference.head_claims import (
    clear_heads_text,
    removal_text,
    sound_row_text,
)
from levelhead.inference.headline import headline, headline_claims
from levelhead.inference.verdicts import claimed, verdict_of
from levelhead.measures.catalog import UNTESTED
from levelhead.measures.exchange import Exchange
from levelhead.measures.measurement import FUTILE, Measurement, Null
from levelhead.measures.null import models_needed
from levelhead.measures.stereoset import SCALE_FREE
from levelhead.pages.renderers import notebook_html
from levelhead.runs.common import BASE, MeasuredVariant
from levelhead.runs.folder import Run
from levelhead.studies.audit import Audit
from levelhead.studies.audit.settings import AuditStored
from levelhead.studies.counteracts import Counteracts
from levelhead.studies.heads import Heads, open_heads
from levelhead.studies.heads.records import (
    CHANGE_ON_OTHER_WORDS,
    HEAD_AGREEMENT,
    LARGEST_HELD,
    HeadScore,
)
from tests.report.synthetic import HOSTILE, heads_settings, measured, write_heads, write_prompts
from tests.report.synthetic.heads import contrasts
from tests.sealing import reseal

CLOSED = "without heads 4-5, 1-2"
SETTINGS = AuditStored(
    study=Audit.name,
    models=("tiny",),
    abilities=("mlm",),
    layers=4,
    heads=5,
    top=2,
)


def headline_of(
    folder: Path,
    variants: Mapping[str, list[Measurement]],
) -> tuple[str, tuple[str, ...]]:
    """The headline of an audit with these measurements."""
    with Run.open(folder, Audit, SETTINGS) as run:
        for variant, measurements in variants.items():
            key = Audit.measured.of("all") if variant == BASE else Audit.verified.of(f"{variant}/all")
            run.results(key, [MeasuredVariant(variant, "tiny", each) for each in measurements].copy)
    head = headline(Audit.open(folder))
    return head.text, head.findings


def held(folder: Path) -> dict[str, bool]:
    """Every claim of an audit's page, and whether it holds."""
    return {name: holds for name, _, holds in headline_claims(Audit.open(folder))}


def seat(value: float, half: float = 0.1, p: float | None = 0.0001) -> Measurement:
    null = None if p is None else Null("null models", 19, 0.17, 0.06, p)
    return measured("seat", value, half, neutral=0.0, details={"p_value": 0.0004}, null=null)


def test_an_association_is_claimed_only_beyond_what_models_without_meaning_show(tmp_path: Path) -> None:
    claimed_of = {"clear": seat(1.2), "p": seat(1.2, p=0.2), "interval": seat(0.2), "none": seat(1.2, p=None)}
    for name, measurement in claimed_of.items():
        text, _ = headline_of(tmp_path / name, {BASE: [measurement]})
        assert valued(measurement) in text
        assert held(tmp_path / name) == {"association": name == "clear"}


def test_an_association_that_exchanged_words_show_too_is_not_claimed(tmp_path: Path) -> None:
    text, _ = headline_of(tmp_path / "coin", {BASE: [Exchange(0.31, 0.0001, 61).on(seat(1.2))]})
    assert held(tmp_path / "coin") == {"association": False}
    assert "other words of the groups would show too" in text
    assert f"p 0.31 {WITH_EXCHANGE}" in text
    headline_of(tmp_path / "real", {BASE: [Exchange(0.0001, 0.0001, 61).on(seat(1.2))]})
    assert held(tmp_path / "real") == {"association": True}


def test_what_is_filled_in_is_claimed_of_two_named_words_or_of_groups(tmp_path: Path) -> None:
    own = measured("lpbs own", 0.9, 0.2, 20, neutral=0.0, details={"p_value": 0.0001})
    named = replace(own, name="lpbs career", settings={"attributes": [["she"], ["he"]]})
    coin = Exchange(0.4, 0.0001, 61).on(own)
    few = replace(Exchange(0.25, 0.25, 3).on(own), name="lpbs few")
    _, findings = headline_of(tmp_path, {BASE: [seat(1.2), named, coin, few]})
    claims = held(tmp_path)
    assert claims == {"association": True, "lpbs career": True, "lpbs own": False, "lpbs few": False}
    by_name = {name: next(text for text in findings if f", {name}:" in text) for name in ("career", "few")}
    assert "she or he" in by_name["career"]
    assert "these words held fixed" in by_name["career"]
    assert "3 pairs that share no stem: the smallest possible p is 0.25" in by_name["few"]


def test_claims_of_one_page_are_corrected_for_their_number(tmp_path: Path) -> None:
    """Alone p = 0.04 speaks; beside five tests that show nothing it does not."""
    headline_of(tmp_path / "alone", {BASE: [seat(1.2, p=0.04)]})
    assert held(tmp_path / "alone") == {"association": True}
    others = [measured(f"lpbs {n}", 0.3, 0.4, neutral=0.0, details={"p_value": 0.5}) for n in range(5)]
    _, findings = headline_of(tmp_path / "many", {BASE: [seat(1.2, p=0.04), *others]})
    assert list(held(tmp_path / "many").values()) == [False] * 6
    assert findings[-1].startswith("6 claims")


def test_what_was_not_measured_is_said_with_its_reason(tmp_path: Path) -> None:
    missing = Measurement.missing("seat", "no word has a context")
    fairness = measured("fairness", 0.52, 0.04)
    text, (described, lost) = headline_of(tmp_path, {BASE: [missing, fairness]})
    assert "not measured" in text
    assert valued(fairness) in described
    assert f"seat ({missing.reason})" in lost
    assert held(tmp_path) == {}


def strength(value: float, relative: float, p: float = 0.18) -> Measurement:
    null = Null("sign flips", 9_999, 0.226, 0.03, p)
    details = {
        SCALE_FREE: relative,
        "p_flips": p,
        "p_null_models": 0.0001,
    }  # the larger of two p-values counts
    return measured("strength", value, 0.01, neutral=0.0, details=details, null=null)


def test_strength_is_held_against_chance(tmp_path: Path) -> None:
    for name, each in {"silent": strength(0.258, 2.1), "spoken": strength(0.4, 2.1, p=0.001)}.items():
        _, findings = headline_of(tmp_path / name, {BASE: [seat(1.2), each]})
        assert each.null is not None
        assert valued(each) in findings[0]
        assert floor_text(each.null) in findings[0]
        assert held(tmp_path / name)["strength"] is (name == "spoken")


def test_without_null_models_no_claim_is_made_whatever_other_tests_say(tmp_path: Path) -> None:
    """Sign flips and permutations alone would claim with fewer claims to correct for."""
    flips = Null("sign flips", 9_999, 0.0, 0.03, 0.0001)
    preferred = measured("preference", 0.5, 0.1, 85, neutral=0.0, null=flips)
    filled = measured("lpbs career", 0.9, 0.2, 20, neutral=0.0, details={"p_value": 0.0001})
    variants = {BASE: [seat(1.2, p=None), preferred, filled]}
    text, findings = headline_of(tmp_path / "run", variants)
    assert "nothing is claimed" in text
    assert findings[0].endswith("claimed of preference, lpbs career.")
    assert not any(holds for _, _, holds in headline_claims(Audit.open(tmp_path / "run")))
    with_models = {BASE: [seat(1.2), preferred, filled]}
    headline_of(tmp_path / "with", with_models)
    holds = {name: ok for name, _, ok in headline_claims(Audit.open(tmp_path / "with"))}
    assert holds == {"association": True, "preference": False, "lpbs career": True}


def test_too_few_null_models_are_said_with_how_many_are_needed(tmp_path: Path) -> None:
    few = Null("null models; p two-sided, Student's t, normal null", 3, 0.2, 0.1, 0.06)
    large = measured("seat", 1.78, 0.1, neutral=0.0, null=few)
    text, _ = headline_of(tmp_path / "few", {BASE: [large]})
    needed = models_needed(few, 0.05 * 0.75)
    assert needed is not None
    assert 3 < needed < 19
    assert f"{too_few_text(3)}; about {needed} are needed" in text
    assert "not significantly" not in text
    nothing = measured("seat", 0.25, 0.1, neutral=0.0, null=replace(few, p_value=0.9))
    assert "at least 19 are needed" in headline_of(tmp_path / "none", {BASE: [nothing]})[0]
    enough = measured("seat", 0.25, 0.1, neutral=0.0, null=replace(few, draws=19, p_value=0.4))
    assert "too few" not in headline_of(tmp_path / "enough", {BASE: [enough]})[0]


def test_heads_inside_the_audit_have_their_findings(tmp_path: Path) -> None:
    write_heads(tmp_path / Audit.heads.folder)
    scores = open_heads(tmp_path / Audit.heads.folder).scores
    _, findings = headline_beside(tmp_path)
    biased = sum(score.biased for score in scores)
    (start,) = [i for i, text in enumerate(findings) if text.startswith(f"{biased} of 20 heads")]
    assert "0.93 [0.89, 0.97]" in findings[start + 1]
    assert "0.025 [0.015, 0.035]" in findings[start + 2]
    assert "0.060 [0.050, 0.070]" in findings[start + 2]


@pytest.mark.parametrize(("p", "holds"), [(0.004, True), (0.2, False)])
def test_the_contrast_of_biased_and_regular_heads_is_a_claim_with_the_largest_p(
    tmp_path: Path, p: float, holds: bool
) -> None:
    with Run.open(tmp_path / Audit.heads.folder, Heads, heads_settings()) as run:
        run.results(Heads.contrasts, partial(contrasts, p))
    _, findings = headline_beside(tmp_path)
    assert ("is not shown" in findings[0]) is not holds
    assert held(tmp_path)["attention contrast"] is holds
    claims = {name: claim for name, claim, _ in headline_claims(Audit.open(tmp_path))}
    assert claims["attention contrast"].p == p


# ---- verdicts in tables


def test_a_verdict_in_a_table_claims_no_more_than_the_headline(tmp_path: Path) -> None:
    """A p of 0.03 is too little beside another claim that fails; of a changed model nothing is claimed."""
    flips = Null("sign flips", 999, 0.0, 0.03, 0.03)
    weak = measured("preference", 0.2, 0.1, 85, neutral=0.0, null=flips, details={"p_null_models": 0.01})
    sure = measured("lpbs career", 0.9, 0.2, 20, neutral=0.0, details={"p_value": 0.0001})
    none = measured("lpbs math", 0.1, 0.4, 20, neutral=0.0, details={"p_value": 0.6})
    headline_of(tmp_path, {BASE: [seat(1.2), weak, sure, none], CLOSED: [sure]})
    contents = open_contents(tmp_path)
    verdicts = {
        (each.variant, each.name): (verdict_of(contents, each), claimed(contents, each))
        for variant in (BASE, CLOSED)
        for each in measurements(contents, variant)
    }
    assert verdicts[BASE, "seat"] == ("follows the stereotype", True)
    assert verdicts[BASE, "lpbs career"] == ("follows the stereotype", True)
    assert verdicts[BASE, "preference"] == (f"{SILENT}, all claims of the page counted", False)
    assert verdicts[CLOSED, "lpbs career"] == (UNTESTED, False)


# ---- fill-in prompts


def test_odds_that_follow_occupations_are_claimed_and_the_margin_is_described(tmp_path: Path) -> None:
    dealt = Null("occupations permuted", 9_999, 0.0, 0.05, 0.0001)
    level = measured("log_odds", 0.4, 0.1, 58, neutral=0.0, null=dealt)
    margin = measured("margin", 0.05, 0.01, 58)
    _, findings = headline_of(tmp_path, {BASE: [seat(1.2), level, margin]})
    assert valued(level) in findings[0]
    assert "0.00 ± 0.05" in findings[0]
    assert valued(margin) in findings[1]
    assert held(tmp_path) == {"association": True, "log-odds": True}


def test_what_knowledge_does_is_a_claim_of_the_page_by_kind(tmp_path: Path) -> None:
    """The second kind has p = 0.03 against null models: enough alone, too little among four claims."""
    write_prompts(tmp_path / "part")
    with Run.open(tmp_path / "audit", Audit, SETTINGS) as run:
        run.result(Audit.measured.of("seat"), lambda: MeasuredVariant(BASE, "tiny", seat(1.2)))
        lpbs = measured("lpbs career", 0.3, 0.4, neutral=0.0, details={"p_value": 0.5})
        run.result(Audit.measured.of("lpbs"), lambda: MeasuredVariant(BASE, "tiny", lpbs))
    (tmp_path / "part").rename(tmp_path / "audit" / Audit.counteracts.folder)
    claims = {
        name: (claim.p, holds) for name, claim, holds in headline_claims(Audit.open(tmp_path / "audit"))
    }
    assert claims["knowledge, target counter semantic"] == (0.0001, True)
    assert claims["knowledge, unrelated"] == (0.03, False)
    findings = headline(Audit.open(tmp_path / "audit")).findings
    (said,) = [text for text in findings if "target counter semantic" in text]
    assert "overturns the stereotype" in said
    assert "-0.50 [-0.57, -0.43]" in said
    assert "1 kinds are each not significantly different" in " ".join(findings)


def test_knowledge_that_moves_null_models_further_claims_nothing(tmp_path: Path) -> None:
    cell = Counteracts.open(write_prompts(tmp_path)).knowledge()[0]
    assert beyond_null_models(cell)
    null = Null("null models", 9, -0.9, 0.03, 0.0001)
    assert not beyond_null_models(replace(cell, measurement=replace(cell.measurement, null=null)))


def untested_heads(folder: Path, null: int) -> Path:
    """A heads study as an audit asks it by default: no null model's heads were scored."""
    path = write_heads(folder) / "results.jsonl"
    text = re.sub(r'"p": [\d.]+, "rank"', '"p": null, "rank"', path.read_text(encoding="utf-8"))
    text = re.sub(r'"null": \{"method": "null models[^}]*\}', '"null": null', text)
    path.write_text(text, encoding="utf-8")
    settings = folder / "settings.json"
    stored = json.loads(settings.read_text(encoding="utf-8"))
    stored["settings"] |= {"null": null, "scored_nulls": 0}
    settings.write_text(json.dumps(stored), encoding="utf-8")
    reseal(folder)
    return folder


@pytest.mark.parametrize(
    ("null", "why"),
    [
        (19, "not tested by default (`levelhead heads`)"),
        (0, "not compared with null models (--null 0)"),
    ],
)
def test_an_audit_that_tests_no_heads_claims_nothing_about_them(tmp_path: Path, null: int, why: str) -> None:
    run = open_heads(untested_heads(tmp_path / Audit.heads.folder, null))
    text, findings = headline_beside(tmp_path)
    said = f"Whether a head stands out, and whether removing heads helps: {why}."
    assert said in findings
    others = " ".join((text, *(each for each in findings if each != said)))
    for claim in ("Removing the", "stand out", "hold on the other half", "too few", "not measured over"):
        assert claim not in others
    assert clear_heads_text(run) == f"Whether a head is significant: {why}."
    assert removal_text(run, [Head(0, 0)]).endswith(f"whether they are clear: {why}.")


def test_three_null_models_are_too_few_to_tell_whether_a_head_is_clear(tmp_path: Path) -> None:
    folder = write_heads(tmp_path / "run")
    path = folder / "results.jsonl"
    text = re.sub(
        r'("method": "null models[^"]*", "draws": )\d+', r"\g<1>3", path.read_text(encoding="utf-8")
    )
    path.write_text(text.replace('"p": 0.05', '"p": 0.25'), encoding="utf-8")  # the least that 3 can give
    reseal(folder)
    run = open_heads(folder)
    assert not run.clear_heads
    for said in (clear_heads_text(run), removal_text(run, [Head(0, 0)])):
        assert f"{too_few_text(3)}; at least 19" in said
    assert f"{too_few_text(3)}; at least 9" in sound_row_text(run)


@pytest.mark.parametrize(
    ("draws", "planned", "method", "said"),
    [
        (5, 9, "null models; p one-sided", f"{too_few_text(5)}; at least 9 are needed"),
        (5, 5, "null models; p one-sided", f"{too_few_text(5)}; at least 9 are needed"),
        (5, 9, f"null models; p one-sided, {FUTILE}", "No head is significant"),
        (9, 9, "null models; p one-sided", "No head is significant"),
        (9, 19, "null models; p one-sided", f"{too_few_text(9)}; at least 19 are needed"),
    ],
)
def test_how_many_null_models_are_enough_for_heads_is_what_was_planned_for_them(
    tmp_path: Path, draws: int, planned: int, method: str, said: str
) -> None:
    null = Null(method, draws, 0.1, 0.05, 0.2, planned=planned)
    largest = Measurement(LARGEST_HELD, 0.2, n=64, null=null)
    with Run.open(tmp_path, Heads, heads_settings()) as run:
        run.results(Heads.cross_fit, [largest].copy)
        p = 0.1 if planned == 19 else 0.2  # by rank, beyond all of 9; or Student's
        run.result(Heads.scores, lambda: HeadScore(Head(0, 0), 0.3, None, 0.2, p, 1, 1.2))
    assert said in clear_heads_text(open_heads(tmp_path))


def test_a_null_model_beyond_all_heads_is_enough_to_say_that_none_is_clear(tmp_path: Path) -> None:
    folder = write_heads(tmp_path / "run")
    path = folder / "results.jsonl"
    text = re.sub(
        r'("method": "null models[^"]*", "draws": )\d+', r"\g<1>5", path.read_text(encoding="utf-8")
    )
    path.write_text(re.sub(r'"p": 0\.\d+', '"p": 0.5', text), encoding="utf-8")  # 2 of 5 lie beyond all
    reseal(folder)
    assert clear_heads_text(open_heads(folder)).startswith("No head is significant")


def test_the_association_is_claimed_of_all_words_and_the_words_without_a_floor_stand_beside_it(
    tmp_path: Path,
) -> None:
    write_heads(tmp_path / Audit.heads.folder)
    text, _ = headline_beside(tmp_path)
    row = open_heads(tmp_path / Audit.heads.folder).sound_row
    assert row is not None
    assert (
        text.index("1.2 [1.1, 1.3]")
        < text.index(f"over the {row.words} words that are one token")
        < text.index("0.8 [0.4, 1.2]")
    )


@pytest.mark.parametrize(
    ("p_of_largest", "p_of_heads", "holds", "words"),
    [
        (0.0001, 0.05, True, "1 of 1 heads stand out"),
        (0.04, 0.05, False, "1 of 1 heads stand out"),
        (0.3, 0.35, False, "No head stands out"),
    ],
)
def test_a_clear_head_is_a_claim_of_its_own(
    tmp_path: Path, p_of_largest: float, p_of_heads: float, holds: bool, words: str
) -> None:
    fits = [cross_fitted(HEAD_AGREEMENT, 0.1, 0.0, 0.04), cross_fitted(LARGEST_HELD, 0.2, 0.0, p_of_largest)]
    with Run.open(tmp_path, Audit, SETTINGS) as run:
        run.result(Audit.measured.of("seat"), lambda: MeasuredVariant(BASE, "tiny", seat(1.2)))
    with Run.open(tmp_path / Audit.heads.folder, Heads, heads_settings()) as run:
        run.results(Heads.cross_fit, fits.copy)
        run.result(Heads.scores, lambda: HeadScore(Head(0, 0), 0.3, None, 0.2, p_of_heads, 1, 1.2))
    claims = {name: claim for name, claim, _ in headline_claims(Audit.open(tmp_path))}
    assert claims["clear head"].p == p_of_largest
    assert held(tmp_path)["clear head"] is holds
    (said,) = [text for text in headline(Audit.open(tmp_path)).findings if text.startswith(words)]
    assert "0.20; 0.00 ± 0.10" in said


def cross_fitted(name: str, value: float, floor: float, p: float) -> Measurement:
    null = Null("null models", 19, floor, 0.1, p)
    return Measurement(name, value, n=3, neutral=0.0, details={"sd": 0.05}, null=null)


def test_heads_that_hold_on_other_words_are_claimed_and_their_removal_is_not(tmp_path: Path) -> None:
    """Whether an ablation helps is said by the table of mitigations alone."""
    fits = [
        cross_fitted(HEAD_AGREEMENT, 0.8, 0.0, 0.001),
        cross_fitted(CHANGE_ON_OTHER_WORDS, -0.2, -0.02, 0.001),
    ]
    with Run.open(tmp_path, Audit, SETTINGS) as run:
        run.result(Audit.measured.of("seat"), lambda: MeasuredVariant(BASE, "tiny", seat(1.2)))
    with Run.open(tmp_path / Audit.heads.folder, Heads, heads_settings()) as run:
        run.results(Heads.cross_fit, fits.copy)
    head = headline(Audit.open(tmp_path))
    assert held(tmp_path) == {"association": True, "agreement": True}
    assert "emov" not in head.text
    assert "rank correlation 0.80" in head.findings[0]


def headline_beside(folder: Path) -> tuple[str, tuple[str, ...]]:
    """The headline of an audit around the heads run that is in its folder already."""
    heads = (folder / Audit.heads.folder).rename(folder.parent / f"{folder.name}-heads")
    with Run.open(folder, Audit, SETTINGS) as run:
        run.result(Audit.measured.of("seat"), lambda: MeasuredVariant(BASE, "tiny", seat(1.2)))
    heads.rename(folder / Audit.heads.folder)
    head = headline(Audit.open(folder))
    return head.text, head.findings


# ---- rows by number of tokens


def test_a_value_is_shown_with_its_interval_or_the_reason_why_there_is_none() -> None:
    assert valued(measured("seat", 0.456, 0.1)) == "0.46 [0.36, 0.56]"
    assert valued(measured("seat", 0.456, half=-1)) == "0.46"
    assert valued(measured("seat", 1.456, 0.1)) == "1.5 [1.4, 1.6]"
    assert valued(measured("ppl", 129.87, half=-1)) == "130"
    assert valued(Measurement.missing("seat", "no words")) == "not measured (no words)"


def test_only_an_interval_can_be_beyond_a_floor() -> None:
    assert measured("seat", 0.2, 0.1).beyond(0.0)
    assert not measured("seat", 0.2, 0.3).beyond(0.0)
    assert not measured("seat", 0.2, half=-1).beyond(0.0)
    assert not Measurement.missing("seat", "no words").beyond(0.0)


@pytest.mark.parametrize(("least", "beyond"), [(0.05, True), (-0.05, False)])
def test_a_nulls_own_limit_says_whether_a_value_is_beyond_it(least: float, beyond: bool) -> None:
    null = Null("null models", 19, 0.1, 0.05, 0.001, least)
    assert replace(measured("seat", 0.2, 0.3), null=null).beyond(null.floor) is beyond
    assert ("at least 0.05 beyond that" in floor_text(null)) is beyond
    assert ("perhaps nothing beyond that" in floor_text(null)) is not beyond


def test_only_nulls_of_null_models_speak_of_models_without_meaning_and_small_floors_keep_digits() -> None:
    null_models, flips = (
        Null(method, 19, 0.0, 0.004, 0.03) for method in ("null models; p two-sided", "sign flips")
    )
    assert floor_text(null_models) == "0.0000 ± 0.0040 in null models, p 0.03"
    assert floor_text(flips) == "0.0000 ± 0.0040 by chance, p 0.03"
    assert floor_text(replace(flips, floor=-0.001, spread=0.1)) == "0.00 ± 0.10 by chance, p 0.03"


def test_a_notebook_shows_the_untouched_model_and_runs_no_script() -> None:
    measurements = {BASE: {HOSTILE: Measurement.missing(HOSTILE, HOSTILE)}, CLOSED: {"seat": seat(1.0)}}
    text = notebook_html(HOSTILE, [HOSTILE], measurements)
    assert "<script" not in text
    assert text.count("<tr>") == 2
    assert "not measured (&lt;script&gt;" in text
