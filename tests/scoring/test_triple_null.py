"""Next sentences against null models: what the null models really answer, and what the larger p repairs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from levelhead.edits.gates import removed
from levelhead.edits.sites import Head
from levelhead.errors import CannotDo
from levelhead.measures.measurement import Measurement
from levelhead.measures.null import NullDistribution
from levelhead.measures.statistics import Resampling
from levelhead.measures.stereoset import PairedAnswers, preference
from levelhead.models.model import Model
from levelhead.models.null_model import NullModel, draw_null_model, null_model_copy, null_model_seed
from levelhead.probes.triples import TripleSet
from levelhead.probes.words import load_words
from levelhead.scoring import pairs
from levelhead.scoring.battery import Battery, triples_question
from levelhead.scoring.pairs import (
    ask_nsp,
    compared_with_null_models,
    head_answers,
    likelihood_answers,
    related_answers,
    signed_measures,
    triple_measures,
)
from tests.studies.projection_cases import small_triples
from tests.tiny import tiny

FEW = Resampling(100)
Doubles = NDArray[np.float64]
SIGNED = ("ss_paired", "preference", "strength")


@pytest.fixture(scope="module")
def triples(tmp_path_factory: pytest.TempPathFactory) -> TripleSet:
    return small_triples(tmp_path_factory.mktemp("triples"))


def p_of(measurement: Measurement, name: str) -> float:
    value = measurement.details[name]
    assert value is not None
    return value


@pytest.mark.parametrize(("family", "head"), [("bert", "nsp"), ("gpt2", "causal")])
def test_the_null_is_that_of_null_models_whose_rows_are_really_exchanged(
    family: str, head: str, triples: TripleSet
) -> None:
    model = tiny(family, head)
    read = head_answers if head == "nsp" else likelihood_answers
    alone = triple_measures(triples, read(model, triples)[0], FEW)
    held = compared_with_null_models(model, triples, alone, 3, seed=3)
    null_models = [
        null_model_copy(model, draw_null_model(model, null_model_seed(3, number))) for number in range(3)
    ]
    answered = [triple_measures(triples, read(null, triples)[0], FEW) for null in null_models]
    for name in SIGNED:
        relative = [each[name].relative for each in answered]
        null = NullDistribution(np.asarray(relative, np.float64))
        own = alone[name].relative
        assert own is not None
        assert p_of(held[name], "p_null_models") == pytest.approx(null.p_value(own, "student"), rel=1e-3)
        flips, larger = alone[name].null, held[name].null
        assert flips is not None
        assert larger is not None
        assert larger.p_value == max(p_of(held[name], "p_null_models"), flips.p_value)
        assert held[name].value == alone[name].value
    assert {name: held[name] for name in held if name not in SIGNED} == {
        name: alone[name] for name in alone if name not in SIGNED
    }


def test_answers_without_unrelated_sentences_have_the_same_signed_measures(triples: TripleSet) -> None:
    model = tiny("bert", "nsp")
    related = signed_measures(triples, related_answers(model, triples), FEW)
    everything = ask_nsp(model, triples, resampling=FEW)[0]
    for name in SIGNED:
        assert related[name].value == pytest.approx(everything[name].value, abs=1e-6)


def test_a_model_without_null_models_says_why_and_keeps_its_sign_flips(
    triples: TripleSet, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(model: Model, seed: int) -> NullModel:
        raise CannotDo("no two words of one token")

    model = tiny("bert", "nsp")
    alone = ask_nsp(model, triples, resampling=FEW)[0]
    assert compared_with_null_models(model, triples, alone, 0) == alone
    monkeypatch.setattr(pairs, "draw_null_model", refuse)
    held = compared_with_null_models(model, triples, alone, 4)
    assert held["preference"].null == alone["preference"].null
    assert held["preference"].settings["null models"] == "no two words of one token"
    assert "null models" not in held["lms"].settings


def test_only_the_untouched_model_is_compared_with_null_models(triples: TripleSet) -> None:
    model = tiny("bert", "nsp")
    battery = Battery(load_words("career"), (), triples=triples, resampling=FEW, null=3)
    untouched, closed = triples_question(model, [(), removed(model, [Head(0, 0)])], battery)
    assert ["p_null_models" in each.details for each in untouched if each.name == "preference"] == [True]
    assert ["p_null_models" in each.details for each in closed if each.name == "preference"] == [False]


# ---- why it is needed


def shared_words(rng: np.random.Generator, features: Doubles) -> Doubles:
    """A model to which words mean nothing. What "she" does beyond "he" goes with features of the sentences,
    the same in all contexts: v = features · effect + noise."""
    return np.asarray(features @ rng.normal(0, 0.5, features.shape[1]) + rng.normal(size=len(features)))


def measured_preference(v: Doubles) -> Measurement:
    gaps = np.stack([v, np.zeros_like(v)], axis=1)
    return preference(PairedAnswers(gaps, gaps, np.arange(len(v)).astype(str)), FEW)


@pytest.mark.slow
def test_sign_flips_alone_alarm_where_contexts_share_words_and_the_larger_p_does_not() -> None:
    rng, models, null_models = np.random.default_rng(5), 100, 19
    features = rng.normal(0.5, 1.0, size=(60, 3))
    alone, larger = 0, 0
    for _ in range(models):
        others = [shared_words(rng, features) for _ in range(null_models)]
        null = NullDistribution(np.asarray([v.mean() / np.sqrt((v**2).mean()) for v in others]))
        held = null.harder(measured_preference(shared_words(rng, features)), "null models")
        assert held.null is not None
        alone += p_of(held, "p_flips") < 0.05
        larger += held.null.p_value < 0.05
    assert alone > 0.2 * models
    assert larger <= stats.binom.ppf(0.999, models, 0.05)


def test_the_larger_p_stays_when_every_answer_is_scaled() -> None:
    """Null models need not be as loud as the model: only what is relative to its own differences counts."""
    features = np.random.default_rng(0).normal(0.5, 1.0, size=(40, 3))
    own = measured_preference(shared_words(np.random.default_rng(1), features))
    null = NullDistribution(np.random.default_rng(2).normal(0, 0.2, 19))
    assert own.value is not None
    assert own.null is not None
    rms = p_of(own, "rms")
    loud = replace(
        own,
        value=10 * own.value,
        details={**own.details, "rms": 10 * rms},
        null=replace(own.null, spread=10 * own.null.spread),
    )
    before, after = null.harder(own, "null models").null, null.harder(loud, "null models").null
    assert before is not None
    assert after is not None
    assert after.p_value == pytest.approx(before.p_value)
    assert after.spread == pytest.approx(10 * before.spread)
