"""What an unbiased model gets: the same score where groups are exchanged at random, many times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]
Ints = NDArray[np.int64]
DRAWS = 500


@dataclass(frozen=True)
class RivalScore:
    """One score of another tool, and what it would be without a difference between groups."""

    tool: str
    name: str
    value: float | None
    ideal: float  # what its authors call perfect
    unbiased: float | None = None  # the mean where groups are exchanged
    unbiased_95: float | None = None  # of 20 unbiased models one is further from the ideal than this
    n: int = 0  # texts, pairs or words that it is the mean of
    why_not: str = ""  # why it has no value
    by_group: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def missing(cls, tool: str, name: str, ideal: float, why_not: str) -> RivalScore:
        return cls(tool, name, None, ideal, why_not=why_not)


@dataclass(frozen=True)
class Sides:
    """What was written behind the two prompts of one frame; texts of one number share random numbers."""

    frame: str
    one: tuple[str, ...]
    other: tuple[str, ...]


def sign_draws(n: int, seed: int, draws: int = DRAWS) -> NDArray[np.bool_]:
    """Which of n pairs exchange their sides, [draw, pair]."""
    return np.random.default_rng(seed).random((draws, n)) < 0.5


def unbiased(values: Doubles, ideal: float) -> tuple[float, float]:
    """The mean of a score under exchange, and the value that 5 % of exchanges are further from the ideal."""
    distance = float(np.quantile(np.abs(values - ideal), 0.95))
    return float(values.mean()), ideal + distance if values.mean() >= ideal else ideal - distance


@dataclass(frozen=True)
class Grouped:
    """A number of every text, with its frame, its group and its sample; unscored texts are not among them."""

    frames: Sequence[str]
    groups: Sequence[str]
    samples: Sequence[int]
    values: Doubles

    def means(self) -> dict[str, float]:
        groups = np.asarray(self.groups)
        return {str(name): float(self.values[groups == name].mean()) for name in dict.fromkeys(self.groups)}

    def exchanged(
        self, statistic: Callable[[Doubles, Ints], float], seed: int, draws: int = DRAWS
    ) -> Doubles:
        """A statistic of values and group numbers, with groups exchanged within a frame and sample."""
        names = {name: number for number, name in enumerate(dict.fromkeys(self.groups))}
        numbers = np.array([names[name] for name in self.groups])
        keys = list(zip(self.frames, self.samples, strict=True))
        known = {key: number for number, key in enumerate(dict.fromkeys(keys))}
        strata = np.array([known[key] for key in keys])
        place = np.argsort(strata, kind="stable")
        rng = np.random.default_rng(seed)
        found = []
        for _ in range(draws):
            dealt = np.empty_like(numbers)
            dealt[place] = numbers[np.lexsort((rng.random(len(numbers)), strata))]
            found.append(statistic(self.values, dealt))
        return np.array(found)


def widest(values: Doubles, groups: Ints) -> float:
    """The largest minus the smallest mean of a group."""
    counts = np.bincount(groups)
    means = np.bincount(groups, weights=values)[counts > 0] / counts[counts > 0]
    return float(means.max() - means.min())
