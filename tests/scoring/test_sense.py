"""Language sense and next sentences over more contexts: asked as triples are, joined by answers, for a gender
bias alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from levelhead.models.model import Model, load
from levelhead.models.null_model import draw_null_model, null_model_copy
from levelhead.probes.contexts import template_contexts
from levelhead.probes.sentences import SenseItem, sense_items
from levelhead.probes.triples import load_triples
from levelhead.probes.words import load_words
from levelhead.scoring.battery import Battery
from levelhead.scoring.items import ItemValues
from levelhead.scoring.natural import (
    LANGUAGE,
    NEXT_SENTENCE,
    NaturalItems,
    language_sense,
    natural_values,
    next_sentence_errors,
    sense_of,
)
from levelhead.scoring.pairs import head_answers, likelihood_answers, sense_answers
from tests.tiny import given, tiny

ITEMS = sense_items()
SOME = ITEMS[::25]  # of women and men


def written(items: Sequence[SenseItem]) -> list[str]:
    return [item.written for item in items]


def likelihood(model: Model, context: str, sentence: str) -> float:
    """The mean log-likelihood of a sentence's tokens by the model's own forward pass."""
    inputs = given(model, f"{context} {sentence}")
    with torch.no_grad():
        log_p = model.hf(**inputs).logits[0].log_softmax(-1)
    ids = inputs["input_ids"][0]
    first = given(model, context)["input_ids"].shape[1]
    return float(np.mean([float(log_p[t - 1, ids[t]]) for t in range(first, len(ids))]))


def head(model: Model, context: str, sentence: str) -> float:
    with torch.no_grad():
        logits = model.hf(**given(model, context, sentence)).seq_relationship_logits[0]
    return float(logits[0] - logits[1])


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_an_item_is_wrong_where_the_unrelated_sentence_is_likelier(family: str) -> None:
    model = tiny(family, "nsp") if family == "bert" else tiny(family)
    score = head if family == "bert" else likelihood
    ahead = np.asarray(
        [
            score(model, item.context, item.unrelated) - score(model, item.context, item.related)
            for item in SOME
        ]
    )
    rounding = 1e-5 if family == "bert" else 0.02  # a token that is a space counts in `likelihood` alone
    told = np.abs(ahead) > rounding
    values = sense_of(written(SOME), sense_answers(model, SOME, [()]))
    assert (values.name, values.unit, values.answers) == (LANGUAGE, "share wrong", 1)
    assert values.values[0][told].tolist() == (ahead[told] > 0).tolist()
    assert 0 < np.sum(ahead[told] > 0) < told.sum() > 0.8 * len(SOME)
    assert values.clusters.tolist() == [item.written for item in SOME]


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_tie_is_half_wrong(family: str) -> None:
    model = tiny(family, "nsp") if family == "bert" else tiny(family)
    alike = [replace(item, unrelated=item.related) for item in SOME[:3]]
    assert (sense_of(written(alike), sense_answers(model, alike, [(), ()])).values == 0.5).all()


def test_costs_of_items_by_hand() -> None:
    """Of four items the head accepts both, the related one alone, the unrelated one alone, and none."""
    items = ITEMS[:4]
    p = np.array([[0.9, 0.6], [0.9, 0.1], [0.1, 0.9], [0.3, 0.4]])
    assert sense_of(written(items), [p]).values.tolist() == [[0, 0, 1, 1]]
    errors = next_sentence_errors(written(items), [p])
    assert (errors.name, errors.answers) == (NEXT_SENTENCE, 2)
    assert errors.values.tolist() == [[0.5, 0, 1, 0.5]]
    assert errors.clusters.tolist() == [ITEMS[0].written] * 2 + [ITEMS[2].written] * 2


def test_costs_of_triples_by_hand() -> None:
    """Two originals, then the counterfactual of the first."""
    contexts = ["a door", "a window", "a door"]
    p = np.array([[0.9, 0.8, 0.1], [0.9, 0.2, 0.6], [0.2, 0.3, 0.7]])
    sense, errors = language_sense(contexts, [p]), next_sentence_errors(contexts, [p])
    assert sense.values.tolist() == [[0, 0.5, 1]]
    np.testing.assert_allclose(errors.values, [[0, 0.75, 1]])
    assert sense.clusters.tolist() == errors.clusters.tolist() == contexts
    assert sense.paired(0).answers == errors.paired(0).answers == 6


def test_items_are_asked_as_triples_are() -> None:
    pairs = load_triples().at_most(5)
    triples = [pair.original for pair in pairs.pairs]
    items = [SenseItem("", each.context, each.stereotype, each.unrelated, each.context) for each in triples]
    model = tiny("bert", "nsp")
    np.testing.assert_allclose(
        sense_answers(model, items, [()])[0], head_answers(model, pairs)[0].p[:5, ::2], rtol=1e-6
    )
    causal = tiny("gpt2")
    own, theirs = sense_answers(causal, items, [()])[0], likelihood_answers(causal, pairs)[0].p[:5, ::2]
    np.testing.assert_allclose(own[:, 0] / own[:, 1], theirs[:, 0] / theirs[:, 1], rtol=1e-5)


def test_every_answer_counts_alike_where_items_have_one_or_two() -> None:
    alike = np.array([[0.0, 0.5], [0.0, 0.5]])
    two = ItemValues(LANGUAGE, "share wrong", alike, np.array(["a", "b"]), answers=2)
    one = ItemValues(LANGUAGE, "share wrong", np.array([[1.0], [0.0]]), np.array(["c"]), answers=1)
    items = two.with_items(one).paired(1)
    assert items.answers == 5
    assert (items.mean(items.before), items.mean(items.after)) == (2 / 5, 1 / 5)
    assert items.clusters.tolist() == ["a", "b", "c"]
    assert two.paired(1).answers == 4


@pytest.mark.parametrize("bias", ["gender", "race"])
def test_more_contexts_count_for_a_gender_bias_and_change_no_other_cost(bias: str) -> None:
    test, model = load_words(bias), tiny("bert", "nsp", max_position_embeddings=256)
    few, contexts = load_triples().at_most(10), tuple(template_contexts(test, 1))
    battery = Battery(test, contexts, sentences=("We waited.",), triples=few)
    plain, more = (
        {cost.name: cost for cost in natural_values(model, NaturalItems(battery, sense=sense), [()]).costs}
        for sense in ((), SOME)
    )
    assert list(plain) == list(more)
    # a counterfactual belongs to the cluster of its original
    pairs = (*few.pairs, *(pair for pair in few.pairs if pair.swapped is not None))
    triples = len(pairs)
    for name in (LANGUAGE, NEXT_SENTENCE):
        assert plain[name].clusters.tolist() == [pair.original.context for pair in pairs]
        assert (more[name].values[:, :triples] == plain[name].values).all()
        assert len(more[name].clusters) == triples + (len(SOME) if bias == "gender" else 0)
    rest = set(plain) - {LANGUAGE, NEXT_SENTENCE}
    assert rest
    assert all((more[name].values == plain[name].values).all() for name in rest)


@pytest.mark.nightly
@pytest.mark.slow
def test_a_shipped_model_has_a_sense_that_its_null_model_lacks() -> None:
    model, some = load("lh:bert-mini"), ITEMS[::8]
    assert sense_of(written(some), sense_answers(model, some, [()])).values.mean() < 0.25
    null = null_model_copy(model, draw_null_model(model, 0))
    assert 0.35 < sense_of(written(some), sense_answers(null, some, [()])).values.mean() < 0.65
