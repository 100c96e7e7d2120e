"""One quantity of the same items in several variants: what biases and costs in natural units are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from levelhead.measures.certified import PairedItems
from levelhead.measures.seat.effect import FLAT

Doubles = NDArray[np.float64]
_ROUNDING = 1e-4  # of the unmodified model's spread: what answers in float32 keep where all are equal


@dataclass(frozen=True, eq=False)
class ItemValues:
    """One quantity of the same items in several variants; the first is the unmodified model, once joined."""

    name: str
    unit: str
    values: Doubles  # [variant, item]
    clusters: NDArray[np.str_]  # [item]
    weights: Doubles | None = None  # [item]
    spread: Doubles | None = None  # [variant] what an effect size divides by; None: that of the values
    answers: int | NDArray[np.int_] = 0  # [item] right or wrong, that a value is the share of; 0: it is none
    strata: NDArray[np.int_] | None = None  # [item] kinds with a fixed share each; None: one kind

    @property
    def sign(self) -> int:
        """Which way the unmodified model leans: 1 or −1."""
        return 1 if np.average(self.values[0], weights=self.weights) >= 0 else -1

    def paired(self, variant: int) -> PairedItems:
        """What a variant does to every item."""
        before, after = self.values[0], self.values[variant]
        answers = int(self.each_answers().sum())
        return PairedItems(
            self.name, self.unit, before, after, self.clusters, self.weights, answers, self.strata
        )

    def effect(self, variant: int) -> float:
        """The weighted mean divided by its own spread, as effect sizes are; 0 where only rounding is left."""
        spreads = self.values.std(axis=1, ddof=1) if self.spread is None else self.spread
        mean = float(np.average(self.values[variant], weights=self.weights))
        flat = max(FLAT, _ROUNDING * float(spreads[0]))
        return mean / float(spreads[variant]) if spreads[variant] > flat else 0.0

    def joined(self, more: ItemValues) -> ItemValues:
        """The same items in more variants."""
        spread = None
        if self.spread is not None and more.spread is not None:
            spread = np.concatenate([self.spread, more.spread])
        return replace(self, values=np.concatenate([self.values, more.values]), spread=spread)

    def each_answers(self) -> NDArray[np.int_]:
        """The answers of each item."""
        return np.broadcast_to(np.asarray(self.answers), self.clusters.shape)

    def with_items(self, more: ItemValues) -> ItemValues:
        """The same share over more items, in the same variants: every answer counts alike, so an item counts
        by its answers."""
        answers = np.concatenate([self.each_answers(), more.each_answers()])
        return replace(
            self,
            values=np.concatenate([self.values, more.values], axis=1),
            clusters=np.concatenate([self.clusters, more.clusters]),
            weights=answers.astype(np.float64),
            answers=answers,
        )
