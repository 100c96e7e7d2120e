"""Objectives of behavior: the numbers of natural.py, differentiable in every head and neuron."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from levelhead.edits.gates import gates, neuron_gates
from levelhead.edits.sites import Variant
from levelhead.errors import CannotDo
from levelhead.models.model import Model
from levelhead.probes.cloze import BASE, load_cloze
from levelhead.probes.contexts import template_contexts
from levelhead.probes.sentences import fluency_sentences
from levelhead.probes.triples import load_triples
from levelhead.scoring import objectives as module
from levelhead.scoring.battery import Battery
from levelhead.scoring.cloze import log_odds_question
from levelhead.scoring.natural import COSINE, LOG_ODDS, PREFERENCE, NaturalItems, natural_values
from levelhead.scoring.objective import Objective
from levelhead.scoring.objectives import SEAT, objectives, seat_objective
from levelhead.scoring.seat import ask_seat, word_table
from levelhead.studies.heads.crossfit import halves
from tests.tiny import tiny
from tests.word_lists import GENDER


@pytest.fixture(scope="module")
def items() -> Battery:
    triples, prompts = load_triples(), load_cloze(per_background=1)
    base = tuple(prompt for prompt in prompts.prompts if prompt.kind == BASE)[:40:3]
    return Battery(
        GENDER,
        tuple(template_contexts(GENDER, 1)),
        triples.at_most(6),
        prompts=replace(prompts, prompts=base),
        sentences=fluency_sentences()[:2],
    )


@pytest.fixture(scope="module", params=["bert", "gpt2"])
def model(request: pytest.FixtureRequest) -> Model:
    if request.param == "bert":
        return tiny("bert", "nsp", max_position_embeddings=256)
    return tiny("gpt2", n_positions=256)


def test_each_objective_is_the_absolute_value_of_the_bias_of_the_same_name(
    model: Model, items: Battery
) -> None:
    variants = [(), gates(model, {(1, 1): 0.0, (0, 2): 0.0})]
    ours = objectives(model, items)
    theirs = {
        bias.name: [abs(float(np.average(row, weights=bias.weights))) for row in bias.values]
        for bias in natural_values(model, NaturalItems(items, items.prompts), variants).biases
    }
    names = [PREFERENCE, LOG_ODDS, COSINE] if "nsp" in model.abilities else [LOG_ODDS, COSINE]
    assert list(ours) == [*names, SEAT]
    for name in names:
        assert ours[name].values(model, variants) == pytest.approx(theirs[name], rel=1e-4, abs=1e-6)
    (seat,) = ask_seat(model, items.test, items.contexts, intervals=False)
    assert seat.value is not None
    assert ours[SEAT].values(model) == pytest.approx([abs(seat.value)], rel=1e-4)


def test_seat_of_some_words_is_that_of_their_own_table_and_has_the_same_size_with_gradients() -> None:
    table = word_table(GENDER, template_contexts(GENDER, 1))
    part = halves(table, GENDER, 0)[1]
    rows = [table.words.index(word) for word in part.words]
    vectors = np.random.default_rng(0).normal(size=(len(table.words), 8))
    of_words = seat_objective(table).about(part.words)
    assert of_words.lean(vectors) == seat_objective(part).lean(vectors[rows]) < 0
    for objective, own in ((of_words, vectors), (seat_objective(part), vectors[rows])):
        assert float(objective.number(torch.from_numpy(own))) == pytest.approx(-of_words.lean(vectors))
    assert of_words.lean(vectors) != pytest.approx(seat_objective(table).lean(vectors))


@pytest.mark.parametrize("name", [LOG_ODDS, COSINE])
def test_gradients_of_an_objective_equal_finite_differences(model: Model, items: Battery, name: str) -> None:
    check_gradients(model, objectives(model, items)[name])


def test_a_preference_of_a_next_sentence_head_has_exact_gradients(items: Battery) -> None:
    model = tiny("bert", "nsp", max_position_embeddings=256)
    check_gradients(model, objectives(model, replace(items, triples=items.triples.at_most(2)))[PREFERENCE])


def check_gradients(model: Model, objective: Objective) -> None:
    step = 1e-3
    heads, neurons = [(0, 1), (2, 3)], [(0, 5), (2, 17)]
    model.hf.double()
    try:
        variants: list[Variant] = []
        for gate in (1 + step, 1 - step):
            variants += [gates(model, {head: gate}) for head in heads]
            variants += [neuron_gates(model, {neuron: gate}) for neuron in neurons]
        values = np.asarray(objective.values(model, variants), np.float64).reshape(2, -1)
        scores = objective.gradients(model)
        by_neuron = objective.neuron_scores(model)
    finally:
        model.hf.float()
    slopes = (values[0] - values[1]) / (2 * step)
    exact = [*(scores.scores[head] for head in heads), *(by_neuron[neuron] for neuron in neurons)]
    np.testing.assert_allclose(exact, slopes, rtol=0, atol=2e-2 * np.abs(slopes).max())
    assert torch.isfinite(torch.from_numpy(by_neuron)).all()


def test_a_vocabulary_without_words_of_one_group_has_no_log_odds(
    items: Battery, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny("bert", "nsp", max_position_embeddings=256)

    def one_sided(*given: Any) -> Any:
        reading, codes = log_odds_question(*given)
        return reading, abs(codes)

    monkeypatch.setattr(module, "log_odds_question", one_sided)
    assert LOG_ODDS not in objectives(model, items)
    assert items.prompts is not None
    with pytest.raises(CannotDo, match="no single token"):
        module.log_odds_objective(model, items.prompts)
