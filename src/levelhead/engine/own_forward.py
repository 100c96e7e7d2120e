"""A model's own forward pass, as a whole: every output for a few texts, and texts that it writes itself.

All outputs show that two models are the same. Texts are written by ancestral sampling:

    each token ~ p( · | all tokens before it )        at temperature 1; any token may come

What the checkpoint's generation_config asks for (top_k, a temperature, a penalty) is ignored on purpose: it
bends samples away from what the model says. Random numbers are numpy's, of the seed alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from levelhead.engine.batches import Tokens, inputs
from levelhead.errors import CannotDo
from levelhead.models.concurrency import TOKENIZING, asking
from levelhead.models.encoding import Text, encode
from levelhead.models.hooks import at_rest
from levelhead.models.model import Model
from levelhead.progress import steps

_BATCH = 64  # texts at a time, whatever the machine: what is drawn depends on it
Ids = NDArray[np.int64]


@torch.no_grad()
def network_outputs(hf: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """All that a network returns for one batch, by name."""
    with asking(hf), at_rest(hf):
        return dict(hf(**given))


class OwnForward:
    """Some texts as one batch, and all that a network of this architecture returns for them.

    first_token=False leaves the outputs at each text's first token out.
    """

    def __init__(self, model: Model, texts: Sequence[Text], *, first_token: bool = True) -> None:
        self._inputs = inputs(model, [Tokens(row.ids, row.types) for row in encode(model, texts)])
        self._extra = {"use_cache": False} if model.family.causal else {}
        self._real = self._inputs["attention_mask"].bool()  # [text, token]
        if not first_token:
            self._real[:, 0] = False

    def outputs(self, hf: Any) -> dict[str, Tensor]:
        """Name -> values; of an output for each token only the real tokens, as [token, ...]."""
        returned = network_outputs(hf, {**self._inputs, **self._extra})
        tensors = {
            name: value
            for name, value in returned.items()
            if isinstance(value, Tensor) and value.is_floating_point()
        }
        return {
            name: (value[self._real] if value.shape[:2] == self._real.shape else value).float()
            for name, value in tensors.items()
        }


@torch.no_grad()
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
            some, rng = (
                np.asarray(starts[first : first + _BATCH], np.int64),
                np.random.default_rng((seed, first)),
            )

            def choose(logits: Tensor, rng: np.random.Generator = rng) -> Ids:
                return drawn(logits.double().softmax(-1), rng.random(len(logits)))

            rows = lengthened(model, some, length, choose, [model.tokenizer.eos_token_id])
            for row in rows:  # up to the first end behind its start
                ends = np.flatnonzero(row[some.shape[1] :] == model.tokenizer.eos_token_id)
                ids = row[: some.shape[1] + int(ends[0])] if len(ends) else row
                with TOKENIZING:
                    text = model.tokenizer.decode(
                        ids.tolist(), skip_special_tokens=True, clean_up_tokenization_spaces=False
                    )
                texts.append(str(text))
            advance(len(some))
    return texts


def lengthened(
    model: Model,
    rows: Ids,
    length: int,
    choose: Callable[[Tensor], Ids],
    ends: Sequence[int | None],
    copies: Tensor | None = None,
    **given: Any,
) -> Ids:
    """Rows of tokens with one more behind each, again and again, up to a length or until all have ended.

    choose: the next token of each row from its logits [row, token]; what a row gets behind one of `ends`
    means nothing. copies: numbers of rows that are gone on with, once the given ones have been read; a row
    that comes several times is read once. given: what the network is told with the rows at first.
    """
    past, ended = None, np.zeros(len(rows if copies is None else copies), np.bool_)
    while rows.shape[1] < length and not ended.all():
        read = torch.from_numpy(rows if past is None else rows[:, -1:]).to(model.device)
        kept: dict[str, Any] = given if past is None else {"past_key_values": past}
        answer: Any = model.hf(input_ids=read, use_cache=True, **kept)
        past = getattr(answer, "past_key_values", None)  # a network without one gets whole rows again
        logits = answer.logits[:, -1]
        if copies is not None:
            rows, logits = rows[copies.cpu().numpy()], logits[copies.to(logits.device)]
            if past is not None:
                past.reorder_cache(copies)
            copies = None
        rows = np.c_[rows, choose(logits)]
        ended |= np.isin(rows[:, -1], [end for end in ends if end is not None])
    return rows


def drawn(p: Tensor, at: NDArray[np.float64]) -> Ids:
    """The token of each row of probabilities in whose share of [0, 1) a number lies."""
    total = p.cumsum(1)
    before = (total <= torch.from_numpy(at).to(p.device)[:, None] * total[:, -1:]).sum(1)
    return np.asarray(before.clamp(max=p.shape[1] - 1).cpu().numpy(), np.int64)
