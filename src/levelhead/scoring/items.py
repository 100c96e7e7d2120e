"""One quantity of many items in several variants of a model, as tests and certificates compare it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from levelhead.measures.certified import PairedItems
from levelhead.measures.seat import FLAT

Doubles = NDArray[np.float64]
_ROUNDING = 1e-4  # of the unmodified model's spread: what answers in float32 keep where all are equal


@dataclass(frozen=True, eq=False)
class ItemValues:
    """One quantity of the same items in several variants; the first is the unmodified model, once joined.

    A value that is not known in a variant is NaN; the item is left out of what that variant is compared by.
    """

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
        own = self.known(0)
        return 1 if np.average(own.values[0], weights=own.weights) >= 0 else -1

    def known(self, variant: int) -> ItemValues:
        """The items of which the unmodified model and a variant both have a value, in all variants. Strata
        keep the shares that they have of all items."""
        kept = np.isfinite(self.values[[0, variant]]).all(axis=0)
        if kept.all():
            return self
        weights, strata = self.weights, self.strata
        if weights is not None and strata is not None:
            whole, left = np.bincount(strata, weights), np.bincount(strata, weights * kept)
            weights = weights * (whole / np.where(left > 0, left, 1.0))[strata]
        return replace(
            self,
            values=self.values[:, kept],
            clusters=self.clusters[kept],
            weights=None if weights is None else weights[kept],
            answers=self.each_answers()[kept],
            strata=None if strata is None else strata[kept],
        )

    def comparable(self, variant: int) -> bool:
        """Whether enough is known of a variant: two items of every kind."""
        own = self.known(variant)
        kinds = [0] if self.strata is None else np.unique(self.strata).tolist()
        strata = np.zeros(len(own.clusters), np.int64) if own.strata is None else own.strata
        return all(int((strata == kind).sum()) > 1 for kind in kinds)

    def paired(self, variant: int) -> PairedItems:
        own = self.known(variant)
        before, after = own.values[0], own.values[variant]
        answers = int(own.each_answers().sum())
        return PairedItems(own.name, own.unit, before, after, own.clusters, own.weights, answers, own.strata)

    def effect(self, variant: int) -> float:
        """The weighted mean divided by its own spread, as effect sizes are; 0 where only rounding is left."""
        own = self.known(variant)
        spreads = own.values.std(axis=1, ddof=1) if own.spread is None else own.spread
        mean = float(np.average(own.values[variant], weights=own.weights))
        flat = max(FLAT, _ROUNDING * float(spreads[0]))
        return mean / float(spreads[variant]) if spreads[variant] > flat else 0.0

    def joined(self, more: ItemValues) -> ItemValues:
        spread = None
        if self.spread is not None and more.spread is not None:
            spread = np.concatenate([self.spread, more.spread])
        return replace(self, values=np.concatenate([self.values, more.values]), spread=spread)

    def each_answers(self) -> NDArray[np.int_]:
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
