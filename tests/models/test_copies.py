"""A classifier that begins with a model's own weights, for every family."""

from __future__ import annotations

import pytest
import torch

from levelhead.errors import CannotDo
from levelhead.models.copies import new_classifier, new_weights
from levelhead.models.identity import fingerprint
from levelhead.models.model import Model
from tests.tiny import CLASSIFIABLE, CONFIGS, tiny

TWO = ("no", "yes")
TEXTS = ["The nurse said that she was tired.", "Engineers work."]


def hidden_states(model: Model) -> torch.Tensor:
    batch = model.tokenizer(TEXTS, return_tensors="pt", padding=True, padding_side="right")
    with torch.no_grad():
        states = model.base(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"])
    hidden: torch.Tensor = states.last_hidden_state[batch["attention_mask"].bool()]
    return hidden


@pytest.mark.parametrize("family", CLASSIFIABLE)
def test_the_classifiers_network_is_the_models_own(family: str) -> None:
    model = tiny(family)
    before = fingerprint(model.hf)
    classifier = new_classifier(model, TWO, seed=0)
    torch.testing.assert_close(hidden_states(classifier), hidden_states(model), atol=0, rtol=0)
    assert classifier.hf.config.id2label == {0: "no", 1: "yes"}
    assert classifier.is_classifier
    assert all("pooler" in name or "base" not in name for name in new_weights(classifier, model))
    with torch.no_grad():
        for weight in classifier.hf.parameters():
            weight.add_(1.0)
    assert fingerprint(model.hf) == before


def test_a_pooler_is_kept_where_there_is_one_and_drawn_where_there_is_none() -> None:
    with_pooler, without = tiny("bert", "nsp"), tiny("bert", "mlm")
    kept = new_classifier(with_pooler, TWO, seed=0)
    torch.testing.assert_close(kept.base.pooler.dense.weight, with_pooler.base.pooler.dense.weight)  # type: ignore[union-attr]
    assert not any("pooler" in name for name in new_weights(kept, with_pooler))
    assert any("pooler" in name for name in new_weights(new_classifier(without, TWO, seed=0), without))


def test_the_head_is_drawn_from_the_seed_and_nothing_else() -> None:
    model = tiny("bert")
    state = torch.random.get_rng_state()
    weights = [new_classifier(model, TWO, seed).hf.classifier.weight for seed in (3, 3, 4)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
    assert torch.equal(torch.random.get_rng_state(), state)


def test_without_labels_there_is_one_score() -> None:
    classifier = new_classifier(tiny("gpt2"), (), seed=0)
    assert classifier.hf.config.problem_type == "regression"
    assert classifier.hf.score.weight.shape[0] == 1
    assert classifier.hf.config.pad_token_id == classifier.tokenizer.pad_token_id


@pytest.mark.parametrize("family", sorted(set(CONFIGS) - set(CLASSIFIABLE)))
def test_a_type_without_a_text_classifier_is_one_line(family: str) -> None:
    with pytest.raises(CannotDo, match=f"tiny-{family} cannot be fine-tuned: transformers has no text class"):
        new_classifier(tiny(family), TWO, seed=0)
