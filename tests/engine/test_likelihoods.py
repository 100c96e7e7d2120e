"""Token log-likelihoods against minicons and against a plain loop."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from minicons import scorer
from transformers import BertForMaskedLM

from levelhead.engine.readings import TokenLikelihoods
from levelhead.engine.run import read_one
from levelhead.models.encoding import Text
from levelhead.models.model import Model, load
from tests.tiny import tiny

SENTENCES = [
    "The nurse opened the window and looked at the sea.",
    "Nobody had told the engineer about the meeting.",
    "It rained.",
    "When the train finally arrived, most people had gone home.",
    "A good soup needs time, salt and a little patience.",
    "Who wrote this letter?",
    "The old bridge was closed in 1987 and never opened again.",
    "My brother's house stands beside the river.",
    "Physics is not the only science that needs numbers.",
    "She said that he was late, but he was not.",
]


def masked_only(model: Model) -> Any:
    """The same weights without the next-sentence head, which minicons does not know."""
    kind: Any = BertForMaskedLM  # transformers gives its constructor no types
    masked = kind(model.hf.config)
    masked.bert, masked.cls.predictions = model.hf.bert, model.hf.cls.predictions
    return masked.eval()


def test_masked_likelihoods_equal_minicons_on_ten_sentences() -> None:
    model = load("lh:bert-mini")
    ours = read_one(model, TokenLikelihoods([Text(s) for s in SENTENCES]))
    tokenizer = copy.deepcopy(model.tokenizer)
    # minicons 0.3.39 calls it; transformers 5 has dropped it
    tokenizer.batch_encode_plus = tokenizer.__call__
    theirs = scorer.MaskedLMScorer(masked_only(model), "cpu", tokenizer=tokenizer)
    reference = theirs.sequence_score(SENTENCES, reduction=lambda x: x.sum(0).item(), PLL_metric="original")
    np.testing.assert_allclose([values.sum() for values in ours.values[0]], reference, atol=1e-4)
    assert ours.unscored == 0


def test_causal_likelihoods_equal_a_plain_loop_and_the_first_token_is_scored_after_bos() -> None:
    model = load("lh:gpt-mini")
    ours = read_one(model, TokenLikelihoods([Text(s) for s in SENTENCES]))
    for sentence, values in zip(SENTENCES, ours.values[0], strict=True):
        ids = [model.tokenizer.bos_token_id, *model.tokenizer(sentence)["input_ids"]]
        with torch.no_grad():
            log_probs = model.hf(torch.tensor([ids])).logits[0].log_softmax(-1)
        expected = [float(log_probs[t - 1, ids[t]]) for t in range(1, len(ids))]
        np.testing.assert_allclose(values, expected, atol=1e-4)


def test_without_a_trained_bos_the_first_token_is_unscored_and_counted() -> None:
    model = tiny("llama", bos_token_id=123)  # the tokenizer's BOS is not what the model was trained with
    ours = read_one(model, TokenLikelihoods([Text(s) for s in SENTENCES]))
    assert ours.unscored == len(SENTENCES)
    assert all(positions[0] == 1 for positions in ours.positions)
