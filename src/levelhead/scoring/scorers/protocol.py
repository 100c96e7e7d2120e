"""What a scorer is: a number for every text. It is averaged over the swap, so that by itself it says nothing
about groups.

A scorer of a user's own is one object with these members, registered by `lh.register` or named by an
installed package under the entry point `levelhead.scorers`; or a function of texts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from numbers import Real
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from levelhead.probes.swap import name_pairs, pairs, swap_text
from levelhead.scoring.plugins import Plugin, Registry, behind_guard, expected

Doubles = NDArray[np.float64]
ScoreTexts = Callable[[Sequence[str]], Sequence[float | None] | NDArray[Any]]
_KIND = "scorer"
_FRAME = "They talked about {}."  # in which a word is scored by itself
_ROUNDING = 1e-6  # classifiers in float32 rate equal texts equal to less than this


@runtime_checkable
class Scorer(Protocol):
    """A number for every text."""

    @property
    def name(self) -> str: ...

    @property
    def unit(self) -> str:
        """What the number counts: words, a share, or empty."""
        ...

    def scores(self, texts: Sequence[str]) -> Sequence[float | None]:
        """The number of each text, in their order; None where a text cannot be scored."""
        ...


def _numbers(about: Plugin, found: Any, given: tuple[Any, ...]) -> list[float | None]:
    """What a scorer of a user's own returned: one finite number per text, or None."""
    (texts,) = given
    what = "a finite number or None for each text"
    if hasattr(found, "tolist"):  # arrays and tensors
        found = found.tolist()
    expected(about, "scores", found, list | tuple, f"{what}, in a list")
    if len(found) != len(texts):
        raise about.error(f"returned {len(found)} scores; it must return {len(texts)}, one for each text")
    for text, value in zip(texts, found, strict=True):
        if value is not None and not (isinstance(value, Real) and math.isfinite(value)):
            shown = value if isinstance(value, Real) else type(value).__name__
            raise about.error(f"returned {shown} for {text[:40]!r}; it must return {what}")
    return [None if value is None else float(value) for value in found]


SCORERS: Registry[Scorer] = Registry(_KIND, Scorer, "name, unit and scores(texts)", {"scores": _numbers})


def register_scorer(scorer: Scorer) -> None:
    """Let `levelhead generate` know a scorer. A name is taken once."""
    SCORERS.register(scorer)


@dataclass(frozen=True)
class FunctionScorer:
    """A function of texts as a scorer."""

    name: str
    function: ScoreTexts
    unit: str = ""

    def scores(self, texts: Sequence[str]) -> Any:
        """What the function returns; the guard around a scorer of a user's own checks it."""
        return self.function(texts)


def of_function(function: ScoreTexts, name: str = "") -> Scorer:
    """A function of a user's own, behind the guard that a registered scorer has."""
    name = name or getattr(function, "__name__", type(function).__name__)
    about = Plugin.of(_KIND, name, function)
    return behind_guard(FunctionScorer(name, function), about, {"scores": _numbers})


def of_object(scorer: Scorer) -> Scorer:
    """A scorer that was handed over without being registered, behind the same guard."""
    return behind_guard(scorer, Plugin.of(_KIND, str(scorer.name), scorer), {"scores": _numbers})


# ---- scores


def scored(scorer: Scorer, texts: Sequence[str]) -> Doubles:
    """The number of each text, [text]; NaN where it cannot be scored. Equal texts are scored once."""
    different = list(dict.fromkeys(texts))
    if not different:
        return np.zeros(0)
    found = dict(zip(different, scorer.scores(different), strict=True))
    values = (found[text] for text in texts)
    return np.array([math.nan if value is None else value for value in values])


def swap_averaged(scorer: Scorer, texts: Sequence[str]) -> Doubles:
    """s*(t) = 1/2 s(t) + 1/2 s(sigma t), [text], sigma the swap with first names.

    A text and its counterfactual get the same number, so that a lexicon that rates *witch* and *wizard*
    unequally says nothing by itself. NaN where one of the two cannot be scored.
    """
    both = scored(scorer, [*texts, *(swap_text(text, names=True) for text in texts)])
    mean: Doubles = both.reshape(2, len(texts)).mean(axis=0)
    return mean


# ---- how a scorer treats groups by itself


@dataclass(frozen=True)
class UnequalPair:
    """Two counterparts that a scorer rates unequally."""

    feminine: str
    masculine: str
    scores: tuple[float, float]


@dataclass(frozen=True)
class OwnGap:
    """How unequally a scorer rates counterparts in one sentence; averaging over the swap takes it out."""

    scorer: str
    unit: str
    mean: float  # feminine minus masculine, over all pairs
    n: int  # pairs that it can score
    unequal: int  # pairs that it rates unequally
    largest: tuple[UnequalPair, ...]  # a few of them

    @property
    def line(self) -> str:
        """What is said before a scorer is used."""
        if not self.unequal:
            return f"{self.scorer} rates all {self.n} counterparts equally."
        worst = self.largest[0]
        return (
            f"{self.scorer} rates {self.unequal} of {self.n} counterparts unequally ({worst.feminine} "
            f"{worst.scores[0]:.3g}, {worst.masculine} {worst.scores[1]:.3g}; {self.mean:+.2g} on average, "
            "feminine minus masculine). It is averaged over the swap."
        )


@cache
def counterparts() -> tuple[tuple[str, str], ...]:
    """Every word and first name with its counterpart, feminine first."""
    return tuple(dict.fromkeys((*pairs(), *name_pairs())))


def own_gap(
    scorer: Scorer, words: Sequence[tuple[str, str]] | None = None, frame: str = _FRAME, most: int = 5
) -> OwnGap:
    """How unequally a scorer rates pairs of words in one sentence. words: feminine first; None: those of the
    swap. It is asked before any text is written, so that a scorer that fails does so at once."""
    pairs = counterparts() if words is None else tuple(words)
    texts = [frame.format(word) for pair in pairs for word in pair]
    both = scored(scorer, texts).reshape(-1, 2)
    known = np.isfinite(both).all(axis=1)
    gaps = np.where(known, both[:, 0] - both[:, 1], 0.0)
    unequal = np.flatnonzero(np.abs(gaps) > _ROUNDING)
    worst = unequal[np.argsort(-np.abs(gaps[unequal]), kind="stable")][:most]
    largest = tuple(
        UnequalPair(pairs[i][0], pairs[i][1], (float(both[i, 0]), float(both[i, 1]))) for i in worst
    )
    mean = float(gaps[known].mean()) if known.any() else math.nan
    return OwnGap(scorer.name, scorer.unit, mean, int(known.sum()), len(unequal), largest)
