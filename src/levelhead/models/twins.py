"""Null twins: the same weights with the embedding rows of words dealt out anew, so that no word means
anything.

A twin of a model has E'[v] = E[order[v]] for its input rows, and the same for output rows and output bias. No
row is copied for that: a twin reads token v as the model reads token order[v], and its score of token v is
the model's score of token order[v]. So a twin is a map of token numbers at both ends of the model:

    hidden'(ids) = hidden(order[ids]),    logits'(ids)[v] = logits(order[ids])[order[v]]

Exact for every model that meets token numbers in two places only: its input embedding and its vocabulary
head, tied or not. (A test compares with rows that were really exchanged, in all families.) Next-sentence
heads and classifiers have no rows for tokens and stay as they are.

A twin keeps scale, depth, tokenization and word order. Twins of one model, and the model itself, are
exchangeable if words have no meaning: see measures/null.py for what follows. Definitions: docs/method.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from levelhead.errors import BadOption, CannotDo
from levelhead.models.concurrency import holding
from levelhead.models.condition import Standing
from levelhead.models.copied import copied
from levelhead.models.model import Model
from levelhead.models.vocabulary import token_kinds, vocabulary_parameters

Numbers = NDArray[np.int64]
_SEEDS_APART = 100_003


@dataclass(frozen=True, eq=False)
class Twin:
    """Which token's rows each token gets: a permutation of the vocabulary that moves words only."""

    seed: int
    order: Numbers  # [token]

    def after(self, first: Twin) -> Twin:
        """The twin of a twin, as one twin: E''[v] = E'[order[v]] = E[first.order[order[v]]]"""
        return Twin(self.seed, first.order[self.order])


def draw_twin(
    model: Model, seed: int, *, bands: int = 1, continuations: bool = True, kept: Numbers | None = None
) -> Twin:
    """A twin, seeded: rows are permuted within small words, capitalized words and continuations, each
    alone.

    Special tokens, single letters, figures and punctuation stay. bands: rows are permuted within so many
    equal parts of the vocabulary's order too, which is one of frequency where BPE merges or WordPiece
    training made it. continuations=False: continuations stay. They carry meaning of their own ("##woman",
    "##ess"): in lh:bert-mini words of several tokens then have a SEAT of −0.18 ± 0.15 over twins, and 0.00
    ± 0.18 if continuations are permuted. kept: tokens that stay in any case, for example those of the
    templates around a word.
    """
    if seed < 0 or bands < 1:
        raise BadOption(f"seed={seed}, bands={bands} came; a twin needs a seed from 0 and at least 1 band.")
    kinds = token_kinds(model).copy()
    if kept is not None:
        kinds[kept] = "other"
    rng = np.random.default_rng(seed)
    order = np.arange(len(kinds))
    for kind in ("word", "Word", "continuation") if continuations else ("word", "Word"):
        for stratum in np.array_split(np.flatnonzero(kinds == kind), bands):
            order[stratum] = rng.permutation(stratum)
    if np.array_equal(order, np.arange(len(kinds))):
        raise CannotDo(f"{model.name} has no two words of one token in its vocabulary, so it has no twin.")
    return Twin(seed, order)


def twin_seed(seed: int, number: int) -> int:
    """The seed of a study's twin of this number; twins of one seed are none of the next seed's."""
    return seed * _SEEDS_APART + number


@contextmanager
def twinned(model: Model, twin: Twin) -> Iterator[Model]:
    """Inside, the model is its twin for every reading, gradient and edit; afterwards it is itself, bit for
    bit.

    Contexts nest: the inner twin is a twin of the outer one.
    """
    order = torch.from_numpy(twin.order).to(model.device)
    _check_rows(model, twin)

    def read_as(_: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (order[args[0]], *args[1:])

    def scored_as(_: nn.Module, args: Any, out: Any) -> Any:
        name = "prediction_logits" if hasattr(out, "prediction_logits") else "logits"
        out[name] = out[name][..., order]
        return out

    with holding(model.hf), ExitStack() as stack:
        embedding = model.hf.get_input_embeddings()
        handles = [embedding.register_forward_pre_hook(read_as, prepend=True)]
        stack.callback(handles[0].remove)
        if model.abilities & {"mlm", "causal"}:
            handles.append(model.hf.register_forward_hook(scored_as))
            stack.callback(handles[1].remove)
        model.standing.append(Standing(twin, frozenset(handle.id for handle in handles)))
        stack.callback(model.standing.pop)
        yield model


def twin_copy(model: Model, twin: Twin) -> Model:
    """A model of its own whose rows are really exchanged, for what saves or loads models by itself.

    Its weights stand beside the first model's in memory; `twinned` needs none.
    """
    _check_rows(model, twin)
    copy = copied(model, f"{model.name} twin {twin.seed}", "ask its twins inside `with twinned(...)`")
    hf = copy.hf
    order = torch.from_numpy(twin.order).to(model.device)
    for tensor in vocabulary_parameters(copy).values():
        tensor.data = tensor.data[order]
    head = hf.get_output_embeddings() if model.abilities & {"mlm", "causal"} else None
    if head is not None and hf.get_input_embeddings().weight is not head.weight and _tied(model):
        hf.tie_weights()
    return copy


def _tied(model: Model) -> bool:
    return bool(getattr(model.config, "tie_word_embeddings", False))


def _check_rows(model: Model, twin: Twin) -> None:
    rows = int(model.hf.get_input_embeddings().num_embeddings)
    if len(twin.order) != rows:
        raise BadOption(
            f"A twin of {len(twin.order)} tokens came; {model.name} has {rows}. Draw it from this model."
        )
