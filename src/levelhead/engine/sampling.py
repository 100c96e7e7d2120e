"""Texts that a causal model writes itself: ancestral sampling.

    each token ~ p( · | all tokens before it )        at temperature 1; any token may come

What the checkpoint's generation_config asks for (top_k, a temperature, a penalty) is ignored on purpose: it
bends samples away from what the model says. Random numbers are numpy's, of the seed alone: same seed, same
texts on one machine, and the numbers that anybody else draws stay what they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from levelhead.errors import CannotDo
from levelhead.models.concurrency import TOKENIZING, asking
from levelhead.models.hooks import at_rest
from levelhead.models.model import Model
from levelhead.progress import steps

_BATCH = 64  # texts at a time, whatever the machine: what is drawn depends on it
Ids = NDArray[np.int64]


def sampled_texts(model: Model, starts: Sequence[Sequence[int]], length: int, seed: int) -> list[str]:
    """A text behind each start, until the model ends it, of at most `length` tokens with its start.

    starts: the tokens that a text begins with, one at least; of all texts as many.
    """
    if "causal" not in model.abilities:
        raise CannotDo(f"{model.name} predicts no next word, so it cannot write a text.")
    length = min(length, model.max_tokens or length)
    texts: list[str] = []
    with asking(model.hf), at_rest(model.hf), steps("Texts of its own", len(starts)) as advance:
        for first in range(0, len(starts), _BATCH):
            some = np.asarray(starts[first : first + _BATCH], np.int64)
            rows = _sampled(model, some, length, np.random.default_rng((seed, first)))
            texts += [_text(model, row, some.shape[1]) for row in rows]
            advance(len(some))
    return texts


@torch.no_grad()
def _sampled(model: Model, starts: Ids, length: int, rng: np.random.Generator) -> Ids:
    """The starts with what comes behind each; what stands behind the end of a text is of no use."""
    rows, past = starts, None
    ended = np.zeros(len(rows), np.bool_)
    while rows.shape[1] < length and not ended.all():
        given = torch.from_numpy(rows if past is None else rows[:, -1:]).to(model.device)
        kept: dict[str, Any] = {} if past is None else {"past_key_values": past}
        answer: Any = model.hf(input_ids=given, use_cache=True, **kept)
        past = getattr(answer, "past_key_values", None)  # a network without one is asked for whole rows again
        p = answer.logits[:, -1].double().softmax(-1).cpu().numpy()
        rows = np.c_[rows, drawn(p, rng.random(len(rows)))]
        ended |= rows[:, -1] == model.tokenizer.eos_token_id
    return rows


def drawn(p: NDArray[np.float64], at: NDArray[np.float64]) -> Ids:
    """The token of each row of probabilities in whose share of [0, 1) a number lies."""
    total = p.cumsum(1)
    before = (total <= at[:, None] * total[:, -1:]).sum(1)
    return np.asarray(np.minimum(before, p.shape[1] - 1), np.int64)


def _text(model: Model, row: Ids, start: int) -> str:
    """A row as text, up to the first end behind its start."""
    ends = np.flatnonzero(row[start:] == model.tokenizer.eos_token_id)
    ids = row[: start + int(ends[0])] if len(ends) else row
    with TOKENIZING:
        return str(
            model.tokenizer.decode(ids.tolist(), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        )
