"""The direction from stereotyped to anti-stereotyped sentences, along which states are steered.

A recipe's steering is fitted on every other context of the shipped triples, so that the rest can be measured
on. Reference: docs/method.md, Steering.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from levelhead.edits.sites import Site
from levelhead.edits.steering import difference_of_means
from levelhead.engine.readings import States
from levelhead.engine.run import read_one
from levelhead.models.encoding import Text, encode
from levelhead.models.model import Model
from levelhead.probes.triples import TripleSet, load_triples

Floats = NDArray[np.float32]
_CONTEXTS = 8  # that are asked at once


def middle(model: Model) -> Site:
    """Where states are steered: all tokens behind the block in the middle."""
    return Site(model.layers // 2, "block")


def steering_triples(held_out: bool = False) -> TripleSet:
    """The shipped triples that a recipe's steering is fitted on; or those that it is not."""
    triples = load_triples()
    return triples.about(triple_contexts(triples)[int(held_out) :: 2])


def triple_contexts(triples: TripleSet) -> list[str]:
    """The different contexts, in their order."""
    return list(dict.fromkeys(pair.original.context for pair in triples.pairs))


def steering_vector(model: Model, advance: Callable[[int, int], None] | None = None) -> Tensor:
    """The difference of means of the shipped triples: [hidden]. advance: told how many contexts are done, of
    how many."""
    triples, site = steering_triples(), middle(model)
    contexts = triple_contexts(triples)
    parts = []
    for start in range(0, len(contexts), _CONTEXTS):
        some = triples.about(contexts[start : start + _CONTEXTS])
        if any(pair.swapped for pair in some.pairs):
            parts.append(sentence_states(model, some, site))
        if advance is not None:
            advance(min(start + _CONTEXTS, len(contexts)), len(contexts))
    stereotyped, other = (np.concatenate(states) for states in zip(*parts, strict=True))
    return difference_of_means(to=other, away=stereotyped)


def sentence_states(model: Model, triples: TripleSet, site: Site) -> tuple[Floats, Floats]:
    """States of all tokens of stereotyped and of anti-stereotyped next sentences: [token, hidden] each."""
    both = [each for pair in triples.pairs if pair.swapped for each in (pair.original, pair.swapped)]
    pairs = [(each.context, next_one) for each in both for next_one in (each.stereotype, each.anti)]
    together = "nsp" in model.abilities
    texts = [Text(*pair) if together else Text(" ".join(pair)) for pair in pairs]
    tokens = []
    for (context, _), row in zip(pairs, encode(model, texts), strict=True):
        inside = row.part == 1 if together else (row.part == 0) & (row.offsets[:, 1] > len(context))
        tokens.append([int(i) for i in np.flatnonzero(inside)])
    states = read_one(model, States(texts, site, tokens), label="Steering")[0]
    return np.concatenate(states[::2]), np.concatenate(states[1::2])
