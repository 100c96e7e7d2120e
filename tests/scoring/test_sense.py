"""Language sense over more contexts: asked as triples are, joined by answers, for a gender bias alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from levelhead.models.model import Model, load
from levelhead.models.twins import draw_twin, twin_copy
from levelhead.probes.contexts import template_contexts
from levelhead.probes.sense import SenseItem, sense_items
from levelhead.probes.triples import load_triples
from levelhead.probes.words import load_words
from levelhead.scoring.battery import Battery
from levelhead.scoring.item_values import ItemValues
from levelhead.scoring.natural import NaturalItems, natural_values
from levelhead.scoring.next_sentences import head_answers, likelihood_answers, sense_answers
from levelhead.scoring.sense import LANGUAGE, NEXT_SENTENCE, sense_values
from tests.tiny import given, tiny

ITEMS = sense_items()
SOME = ITEMS[::12]


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
    expected = [
        float(score(model, item.context, item.unrelated) > score(model, item.context, item.related))
        for item in SOME
    ]
    values = sense_values(model, SOME, [()])
    assert (values.name, values.unit, values.answers) == (LANGUAGE, "share wrong", 1)
    assert values.values[0].tolist() == expected
    assert 0 < sum(expected) < len(expected)
    assert values.clusters.tolist() == [item.context for item in SOME]


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_tie_is_half_wrong(family: str) -> None:
    model = tiny(family, "nsp") if family == "bert" else tiny(family)
    alike = [SenseItem(item.topic, item.context, item.related, item.related) for item in SOME[:3]]
    assert (sense_values(model, alike, [(), ()]).values == 0.5).all()


def test_items_are_asked_as_triples_are() -> None:
    pairs = load_triples().at_most(5)
    triples = [pair.original for pair in pairs.pairs]
    items = [SenseItem("", each.context, each.stereotype, each.unrelated) for each in triples]
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
    assert (more[NEXT_SENTENCE].values == plain[NEXT_SENTENCE].values).all()
    assert (more[LANGUAGE].values[:, :10] == plain[LANGUAGE].values).all()
    assert len(more[LANGUAGE].clusters) == (10 + len(SOME) if bias == "gender" else 10)


@pytest.mark.slow
def test_a_shipped_model_has_a_sense_that_its_null_model_lacks() -> None:
    model, some = load("lh:bert-mini"), ITEMS[::4]
    assert sense_values(model, some, [()]).values.mean() < 0.25
    null = sense_values(twin_copy(model, draw_twin(model, 0)), some, [()]).values.mean()
    assert 0.35 < null < 0.65
