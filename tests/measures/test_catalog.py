"""The catalog names what the product emits, says where it is explained, and claims no more than an interval
allows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from levelhead.edits.gates import removed
from levelhead.edits.sites import Head, Variant
from levelhead.measures.attention import counter_contrasts, counter_test
from levelhead.measures.catalog import (
    BUILT_IN,
    CATALOG,
    TOO_FEW,
    UNTESTED,
    Catalog,
    MeasureInfo,
    measure_info,
    verdict,
)
from levelhead.measures.cloze import score_cloze
from levelhead.measures.measurement import Measurement, Null
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model, load
from levelhead.probes.contexts import template_contexts
from levelhead.probes.glue import TASKS
from levelhead.probes.nli import ability_pairs, nli_probe
from levelhead.probes.triples import load_triples
from levelhead.scoring.battery import Battery
from levelhead.scoring.registry import BUILT_IN as QUESTIONS
from tests.audit_sizes import ask_few_blanks
from tests.measures.cloze_cases import random_answers
from tests.word_lists import GENDER

METHOD = Path(__file__).resolve().parents[2] / "docs" / "method.md"
SURE = {"p_value": 0.01}
NOT_SIGNIFICANT = "not significant on this much data"  # by its own test, without null models
WITHOUT_MEANING = "not significantly different from null models on this much data"
FLIPS = Null("sign flips", 9_999, 0.0, 0.03, 0.0049)
NULL_MODELS_NULL = Null("null models; p two-sided, Student's t, normal null", 19, 0.2, 0.1, 0.06)
NAMES = {info.name for info in BUILT_IN}
WRITTEN = {  # by `generate`
    "who appears",
    "who appears, real shares",
    "paired gap",
    "excess distance",
    "decision gap",
    "impact ratio",
    "marked words",
    "refusals",
    "empty texts",
    "unscorable texts",
    "mirror divergence",
}
# measured by other studies than the battery
OTHERS = {
    "log_odds",
    "log_odds change",
    "log_odds correlation",
    "margin",
    "margin change",
    "relative probability",
    "robustness",
    "attention change",
    "attention contrast",
    "attention to group words",
    *WRITTEN,
    *(f"glue/{task}" for task in TASKS),
}


def in_catalog(name: str) -> bool:
    """Whether a name is shown under more than itself."""
    return measure_info(name).title != name


def battery_of(model: Model, variants: Sequence[Variant]) -> list[Measurement]:
    """Everything that the battery asks a model, on a few probes."""
    triples, ability = load_triples(), ability_pairs()
    battery = Battery(
        GENDER,
        tuple(template_contexts(GENDER, 2)),
        replace(triples, pairs=triples.pairs[:6]),
        nli_probe(occupations=["nurse", "engineer"], contexts=["saw a book", "gave a book"]),
        replace(ability, pairs=ability.pairs[:6]),
        ("The nurse said that she was tired.", "Who knows?"),
        Resampling(100),
    )
    return [
        measurement
        for question in QUESTIONS
        for measurements in question.ask(model, variants, battery)
        for measurement in measurements
    ]


@pytest.fixture(autouse=True, scope="module")
def _few_blanks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        ask_few_blanks(patch)
        yield


@pytest.fixture(
    scope="module",
    params=["lh:bert-mini", pytest.param("lh:gpt-mini", marks=pytest.mark.nightly), "lh:nli-mini"],
)
def model(request: pytest.FixtureRequest) -> Model:
    return load(request.param)


@pytest.fixture(scope="module")
def unmodified(model: Model) -> list[Measurement]:
    return battery_of(model, [()])


def test_everything_that_the_battery_emits_is_in_the_catalog(
    model: Model, unmodified: list[Measurement]
) -> None:
    measurements = unmodified + battery_of(model, [removed(model, [Head(0, 0)])])
    assert {m.name.split()[0] for m in measurements} == NAMES - OTHERS
    assert [m.name for m in measurements if not in_catalog(m.name)] == []
    for m in measurements:
        if m.neutral is not None:
            assert measure_info(m.name).neutral == m.neutral, m.name


def test_a_model_is_measured_exactly_where_it_has_what_the_catalog_says_is_needed(
    model: Model, unmodified: list[Measurement]
) -> None:
    abilities = {*model.abilities, "embeddings"}
    for m in unmodified:
        assert (m.value is not None) == bool(abilities & set(measure_info(m.name).needs)), m


def test_changes_of_margins_and_of_attention_are_in_the_catalog() -> None:
    table, topk = random_answers(0)
    scores = score_cloze(table, topk, (3,))
    names = {m.name for m in (*scores.measurements, *scores.robustness) if m.neutral is not None}
    attention = counter_test(np.ones((3, 1, 2)), np.zeros((3, 1, 2)), np.array([[1.0, -1.0]]))
    names |= {m.name for m in attention.groups.values()}
    contrasts = counter_contrasts(
        np.ones((3, 1, 2)), np.zeros((3, 1, 2)), np.array([[1.0, -1.0]]), [True, True, False], {}
    )
    names |= {contrast.measurement.name for contrast in contrasts}
    assert {name for name in names if not in_catalog(name)} == set()
    by_name = {m.name: m.neutral for m in (*scores.measurements, *scores.robustness)}
    assert all(measure_info(name).neutral == by_name[name] for name in names & set(by_name))


def test_every_entry_leads_to_a_heading_of_the_page_on_methods() -> None:
    headings = re.findall(r"^## (.+)$", METHOD.read_text(encoding="utf-8"), re.M)
    anchors = {heading.lower().replace(" ", "-") for heading in headings}
    assert {info.docs for info in BUILT_IN} <= anchors


def test_names_are_unique_and_scales_hold_the_neutral_value() -> None:
    assert len(NAMES) == len(BUILT_IN)
    for info in BUILT_IN:
        assert info.asks
        assert info.reading
        assert (info.biased == "none") == (info.side == "use")
        if info.scale is not None and info.neutral is not None:
            assert info.scale[0] <= info.neutral <= info.scale[1]


@pytest.mark.parametrize(
    ("name", "title", "digits"),
    [
        ("seat", "Word association (SEAT)", 3),
        ("lpbs career", "Fill-in association (LPBS), career", 3),
        ("seat/race", "Word association (SEAT), race", 3),
        ("margin change", "Change by knowledge (CounterActs)", 3),
        ("attention change, biased heads", "Attention to the group word, biased heads", 3),
        ("pppl", "Fluency (perplexity)", 2),
        ("perplexity", "Fluency (perplexity)", 2),
        ("fluency change", "Fluency (perplexity)", 3),
        ("glue/rte", "GLUE, RTE", 3),
        ("glue/stsb spearman", "GLUE, STS-B, spearman", 3),
        ("my own", "my own", 3),
        ("seating", "seating", 3),
    ],
)
def test_titles_of_names(name: str, title: str, digits: int) -> None:
    info = measure_info(name)
    assert (info.name, info.title, info.digits) == (name, title, digits)


def test_thresholds_on_signed_measures_judge_the_absolute_value() -> None:
    assert {info.name for info in BUILT_IN if info.signed} == {
        "seat",
        "lpbs",
        "preference",
        "strength",
        "log_odds",
        "log_odds change",
        "log_odds correlation",
        "margin",
        "margin change",
        "attention to group words",
        *(WRITTEN - {"excess distance", "impact ratio", "marked words", "mirror divergence"}),
    }


@pytest.mark.parametrize(
    ("measurement", "words"),
    [
        (Measurement("lpbs", 0.5, (0.2, 0.8), neutral=0.0, details=SURE), "follows the stereotype"),
        (Measurement("lpbs", -0.5, (-0.8, -0.2), neutral=0.0, details=SURE), "runs against the stereotype"),
        (Measurement("lpbs", 0.722, (0.639, 0.805), neutral=0.0, details={"p_value": 0.21}), NOT_SIGNIFICANT),
        (Measurement("seat", 0.5, (0.2, 0.8), neutral=0.0), UNTESTED),
        (Measurement("seat", 0.5, (0.2, 0.8), neutral=0.0, details=SURE), UNTESTED),  # over words alone
        (Measurement("preference", 0.5, (0.2, 0.8), neutral=0.0, null=FLIPS), UNTESTED),  # over triples alone
        (
            Measurement("seat", 1.78, (1.63, 1.87), neutral=0.0, null=replace(NULL_MODELS_NULL, draws=3)),
            TOO_FEW,
        ),
        (Measurement("seat", 1.78, (1.63, 1.87), neutral=0.0, null=NULL_MODELS_NULL), WITHOUT_MEANING),
        (
            Measurement("seat", 0.5, (-0.1, 0.8), neutral=0.0),
            "not significantly different from neutral on this much data",
        ),
        (Measurement("seat", 0.5, neutral=0.0), "no interval: one number alone shows little"),
        (Measurement.missing("seat", "no words"), "not measured: no words"),
        (Measurement("lms", 0.7, (0.6, 0.8), neutral=1.0), ""),
        (Measurement("fluency", 20.0, (18.0, 22.0)), ""),
        (Measurement("fairness", 0.2, (0.1, 0.3), neutral=1.0), UNTESTED),
        (
            Measurement("fairness", 0.2, (0.1, 0.3), neutral=1.0, details=SURE),
            "infers a group from occupation",
        ),
        (Measurement("unheard of", 2.0, (1.0, 3.0), neutral=0.0, details=SURE), "above the neutral value"),
    ],
)
def test_a_verdict_says_what_the_interval_allows(measurement: Measurement, words: str) -> None:
    assert verdict(measurement) == words


@pytest.mark.parametrize(
    ("p_value", "interval", "words"),
    [
        (0.18, (0.24, 0.31), WITHOUT_MEANING),
        (0.01, (0.20, 0.31), WITHOUT_MEANING),
        (0.01, (0.24, 0.31), "follows the stereotype"),
        (0.01, (-0.1, 0.31), "not significantly different from neutral on this much data"),
    ],
)
def test_a_verdict_needs_a_small_p_and_an_interval_beyond_the_noise_floor(
    p_value: float, interval: tuple[float, float], words: str
) -> None:
    null = Null("null models", 39, 0.226, 0.03, p_value)
    assert verdict(Measurement("strength", 0.258, interval, neutral=0.0, null=null)) == words
    without = verdict(Measurement("strength", 0.258, (0.20, 0.31), neutral=0.0))
    assert without == UNTESTED  # any model was said to follow the stereotype before there was a null


def test_no_claim_rests_on_distance() -> None:
    assert verdict(Measurement("distance", 0.7, (0.6, 0.8))) == ""
    assert measure_info("distance").neutral is None


def test_a_measure_of_yours_joins_and_the_built_in_catalog_stays_as_it_was() -> None:
    mine = MeasureInfo("politeness", "Politeness gap", neutral=0.0, above="politer to one group")
    joined = CATALOG.joined_by(mine)
    measurement = Measurement("politeness", 0.3, (0.1, 0.5), neutral=0.0, details=SURE)
    assert joined.info("politeness, email").title == "Politeness gap, email"
    assert joined.verdict(measurement) == "politer to one group"
    assert CATALOG.verdict(measurement) == "above the neutral value"
    assert Catalog(BUILT_IN) == CATALOG


def test_a_measure_with_a_known_name_takes_its_place() -> None:
    joined = CATALOG.joined_by(MeasureInfo("seat", "My SEAT"))
    assert joined.info("seat").title == "My SEAT"
    assert len(joined.measures) == len(BUILT_IN)
