"""Null models: the same weights with the embedding rows of words permuted, so that no word means anything.

A null model has E'[v] = E[order[v]] for its input rows, and the same for output rows and output bias. No row
is copied for that: a null model is a map of token numbers at both ends of the model,

    hidden'(ids) = hidden(order[ids]),    logits'(ids)[v] = logits(order[ids])[order[v]]

Exact for every model that meets token numbers in two places only: its input embedding and its vocabulary
head, tied or not. Next-sentence heads and classifiers have no rows for tokens and stay as they are.

A null model keeps scale, depth, tokenization and word order. Null models of one model, and the model itself,
are exchangeable if words have no meaning: see measures/null.py for what follows. Definitions: docs/method.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from levelhead.errors import BadOption, CannotDo
from levelhead.models.concurrency import holding
from levelhead.models.copies import copied
from levelhead.models.encoding import token_kinds, vocabulary_parameters
from levelhead.models.model import Model
from levelhead.models.unmodified import Standing

Numbers = NDArray[np.int64]
_SEEDS_APART = 100_003


@dataclass(frozen=True, eq=False)
class NullModel:
    """Which token's rows each token gets: a permutation of the vocabulary that moves words only."""

    seed: int
    order: Numbers  # [token]


def draw_null_model(model: Model, seed: int) -> NullModel:
    """A null model, seeded: rows are permuted within small words, capitalized words and continuations, each
    alone.

    Special tokens, single letters, figures and punctuation stay. Continuations carry meaning of their own
    ("##woman", "##ess"): were they to stay, words of several tokens would have a SEAT of −0.18 ± 0.15 over
    null models of lh:bert-mini; it is 0.00 ± 0.18 as they are permuted.
    """
    if seed < 0:
        raise BadOption(f"seed must be at least 0 for a null model (got {seed}).")
    kinds, rng = token_kinds(model), np.random.default_rng(seed)
    order = np.arange(len(kinds))
    for kind in ("word", "Word", "continuation"):
        stratum = np.flatnonzero(kinds == kind)
        order[stratum] = rng.permutation(stratum)
    if np.array_equal(order, np.arange(len(kinds))):
        raise CannotDo(
            f"{model.name} has no two words of one token in its vocabulary, so it has no null model."
        )
    return NullModel(seed, order)


def null_model_seed(seed: int, number: int) -> int:
    """The seed of a study's null model of this number; null models of one seed are none of the next
    seed's."""
    return seed * _SEEDS_APART + number


@contextmanager
def as_null_model(model: Model, null_model: NullModel) -> Iterator[Model]:
    """Inside, the model is its null model for every reading, gradient and edit; afterwards it is itself, bit
    for bit.

    Contexts nest: the inner null model is a null model of the outer one.
    """
    order = torch.from_numpy(null_model.order).to(model.device)
    _check_rows(model, null_model)

    def scored_as(_: nn.Module, args: Any, out: Any) -> Any:
        name = "prediction_logits" if hasattr(out, "prediction_logits") else "logits"
        out[name] = out[name][..., order]
        return out

    with holding(model.hf), ExitStack() as stack:
        embedding = model.hf.get_input_embeddings()
        handles = [
            embedding.register_forward_pre_hook(lambda _, args: (order[args[0]], *args[1:]), prepend=True)
        ]
        stack.callback(handles[0].remove)
        if model.abilities & {"mlm", "causal"}:
            handles.append(model.hf.register_forward_hook(scored_as))
            stack.callback(handles[1].remove)
        model.standing.append(Standing(null_model, frozenset(handle.id for handle in handles)))
        stack.callback(model.standing.pop)
        yield model


def null_model_copy(model: Model, null_model: NullModel) -> Model:
    """A model of its own whose rows are really exchanged, for what saves or loads models by itself.

    Its weights stand beside the first model's in memory; `as_null_model` needs none.
    """
    _check_rows(model, null_model)
    copy = copied(
        model,
        f"{model.name} null model {null_model.seed}",
        "ask its null models inside `with as_null_model(...)`",
    )
    hf = copy.hf
    order = torch.from_numpy(null_model.order).to(model.device)
    for tensor in vocabulary_parameters(copy).values():
        tensor.data = tensor.data[order]
    head = hf.get_output_embeddings() if model.abilities & {"mlm", "causal"} else None
    tied = getattr(model.config, "tie_word_embeddings", False)
    if head is not None and hf.get_input_embeddings().weight is not head.weight and tied:
        hf.tie_weights()
    return copy


def _check_rows(model: Model, null_model: NullModel) -> None:
    rows = int(model.hf.get_input_embeddings().num_embeddings)
    if len(null_model.order) != rows:
        raise BadOption(
            f"A null model of {model.name} must have its {rows} tokens (got {len(null_model.order)}). "
            "Draw it from this model."
        )
