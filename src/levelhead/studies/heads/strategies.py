"""Ways to debias by gates: which heads each removes or amplifies (docs/method.md, Targeted debiasing)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.gates import all_heads, gates, removed
from levelhead.edits.head import Head
from levelhead.edits.sites import Variant
from levelhead.models.model import Model
from levelhead.results.records.common import BASE
from levelhead.studies.heads.settings import DebiasSettings

_SWEEP = (0, 1, 2, 3, 5, 10, 15, 20, 25, 30, 35, 40, 60, 80, 120, 160, 240, 320, 480)
_LONGEST = 14  # steps of a default sweep
Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Strategy:
    """One way to debias: a name, the edits, and the heads that they concern."""

    name: str
    variant: Variant  # chosen on all words
    heads: tuple[Head, ...] = ()
    halves: tuple[Variant, Variant] | None = None  # chosen on either half; None: nothing depends on words


UNTOUCHED_MODEL = Strategy(BASE, ())


@dataclass(frozen=True)
class WordScores:
    """Scores of heads on all words, and on either half of them, to choose on one and judge on the other."""

    whole: Doubles  # [layer, head]
    halves: tuple[Doubles, Doubles] | None = None  # None: the list is too short to be halved

    def chosen(self, choose: Callable[[Doubles], Sequence[Strategy]]) -> list[Strategy]:
        """Strategies that depend on scores, each chosen on all words and on either half."""
        whole = choose(self.whole)
        if self.halves is None:
            return list(whole)
        first, second = map(choose, self.halves)
        return [
            replace(strategy, halves=(one.variant, other.variant))
            for strategy, one, other in zip(whole, first, second, strict=True)
        ]


def ranked(scores: Doubles) -> list[Head]:
    """Heads from the most biased to the most anti-biased; ties by layer, then head."""
    order = np.argsort(-scores.ravel(), kind="stable")
    return [Head(int(i) // scores.shape[1], int(i) % scores.shape[1]) for i in order]


def top(model: Model, scores: Doubles, k: int) -> Strategy:
    """The removal of the k heads with the largest bias score."""
    heads = tuple(ranked(scores)[:k])
    return Strategy(f"top-{k}", removed(model, heads), heads)


def strategies(model: Model, scores: Doubles, settings: DebiasSettings) -> list[Strategy]:
    """The strategies of Table 1 that need no draw, and the amplification that the paper only wishes for."""
    k, order = settings.k, ranked(scores)
    bottom = tuple(order[::-1][:k])
    biased = tuple(order[: int((scores > 0).sum())])
    return [
        UNTOUCHED_MODEL,
        top(model, scores, k),
        Strategy(f"bottom-{k}", removed(model, bottom), bottom),
        Strategy("all", removed(model, biased), biased),
        Strategy(f"amplify-bottom-{k}", gates(model, dict.fromkeys(bottom, settings.amplify)), bottom),
    ]


def sweep(scores: Doubles, settings: DebiasSettings) -> list[int]:
    """Numbers of removed heads; the last is every head with b > 0 (Table 3's layout)."""
    biased = int((scores > 0).sum())
    if settings.ks is not None:
        return sorted({min(k, scores.size) for k in settings.ks})
    return sorted({*[k for k in _SWEEP if k < biased][:_LONGEST], biased})


def drawn(model: Model, name: str, count: int, seeds: Sequence[int]) -> list[Strategy]:
    """The removal of so many heads drawn at random, once for each seed."""
    everyone = all_heads(model)
    draws = []
    for seed in seeds:
        chosen = np.random.default_rng([seed, count]).permutation(len(everyone))[:count]
        heads = tuple(everyone[i] for i in sorted(chosen))
        draws.append(Strategy(name, removed(model, heads), heads))
    return draws
