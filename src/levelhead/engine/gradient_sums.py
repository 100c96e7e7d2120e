"""What texts contribute to the gradients of gates, added up: with standard errors, or as sums alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from levelhead.engine.collectors import Collector, Doubles, Numbers, SpanCollector
from levelhead.engine.memory import Coming
from levelhead.errors import CannotDo

Objective = Callable[[Tensor], Tensor]
_FLAT = 1e-5  # of the steepest row's |dJ/dy|: below it a slope is rounding of float32, another on each CPU


@dataclass(frozen=True)
class GateGradients:
    """dJ/dm for every head, or every neuron, at m = 1 or at the gates that were given."""

    objective: float  # J
    scores: Doubles  # [layer, head]
    stderr: Doubles  # [layer, head]; nan when no stratum that J depends on has two texts, and of neurons
    n: int  # texts that J depends on


@dataclass(frozen=True, eq=False)
class Slope:
    """An objective at the answer: J, and its cotangent dJ/dy."""

    value: float
    cotangent: Tensor

    def steepness(self, strata: int) -> Tensor:
        """|dJ/dy|² by stratum: a row of the answer, or all of it, where there is nothing to compare with."""
        return self.cotangent.square().sum(-1) if strata > 1 else torch.ones(1, dtype=torch.float64)


def slope_at(objective: Objective, answer: Doubles, strata: int) -> Slope:
    """An objective at the answer; a stratum whose slope is rounding has none, whatever the processor."""
    y = torch.from_numpy(np.asarray(answer, np.float64)).requires_grad_()
    value = objective(y)
    (cotangent,) = torch.autograd.grad(value, y)
    if not bool(torch.isfinite(cotangent.sum())):
        raise CannotDo(f"The objective has no finite gradient at its value {float(value.detach()):.4g}.")
    slope = Slope(float(value.detach()), cotangent)
    if strata == 1:
        return slope
    steep = slope.steepness(strata)
    return replace(slope, cotangent=cotangent * (steep > _FLAT**2 * steep.max())[:, None])


def strata_of(collector: Collector[Any]) -> int:
    """How many means the answer consists of."""
    return 1 + max(collector.item if collector.of_means else (), default=0)


def ways_back(
    collector: Collector[Any], slopes: Sequence[Slope], shape: tuple[int, ...], shared: bool
) -> Sequence[Sums | ByStratum]:
    """How objectives are pushed back. Those that depend on different rows of the answer go together, because
    their cotangents add; where texts share their gates, each goes by itself."""
    if shared:
        return [Sums(slope, shape) for slope in slopes]
    strata = strata_of(collector)
    together: list[list[Slope]] = []
    taken: list[Tensor] = []  # [stratum], of each of them
    for slope in slopes:
        rows = slope.steepness(strata) > 0
        place = next((i for i, others in enumerate(taken) if not bool((others & rows).any())), None)
        if place is None:
            together.append([slope])
            taken.append(rows)
        else:
            together[place].append(slope)
            taken[place] = taken[place] | rows
    return [ByStratum(collector, some, shape) for some in together]


class Sums:
    """One objective, where texts share their gates: sums, and no standard errors."""

    def __init__(self, slope: Slope, shape: tuple[int, ...]) -> None:
        self.slopes, self.cotangent = [slope], slope.cotangent
        self._total = torch.zeros(shape, dtype=torch.float64)
        self._texts = 0

    def add(self, contributions: Tensor, asks: Numbers) -> None:
        """The sum of some texts' contributions [1, layer, component], and an ask of each text."""
        self._total += contributions.sum(0).double().cpu()
        self._texts += len(asks)

    def result(self, slope: Slope) -> GateGradients:
        unknown = np.full(tuple(self._total.shape), np.nan)
        return GateGradients(slope.value, self._total.numpy(), unknown, self._texts)


class ByText:
    """What each text adds, where the answer has one number per text: any objective of it is made of these.

        u_i = Σ_t dJ/dy_t dy_t/dm   over the texts t of item i; items are what may vary
        stderr² = n Σ_i (u_i − mean u)² / (n − 1)

    The slopes of a text do not depend on the objective, so that one pass gives the answer and the gradients.
    """

    def __init__(self, collector: SpanCollector, shape: tuple[int, ...]) -> None:
        self._collector = collector
        self._text = np.asarray(collector.item, np.int64)  # [ask]
        texts = int(self._text.max(initial=-1)) + 1
        self._unit = np.full(texts, -1, np.int64)  # [text]; -1: nothing of it is scored
        self._unit[self._text] = self._text if collector.groups is None else collector.groups[self._text]
        self._slopes = torch.zeros(texts, *shape, dtype=torch.float64)
        self.cotangent = torch.ones(texts, dtype=torch.float64)

    def add(self, contributions: Tensor, asks: Numbers) -> None:
        """Slopes of some rows [row, layer, component], and an ask of each, which names its text."""
        self._slopes.index_add_(0, torch.from_numpy(self._text[asks]), contributions.double().cpu())

    def answer(self, values: Tensor, asks: Numbers) -> None:
        self._collector.take(0, asks, values.cpu())

    def result(self, objective: Objective) -> GateGradients:
        slope = slope_at(objective, self._collector.answer()[0], 1)
        counted = self._unit >= 0
        known, of_text = np.unique(self._unit[counted], return_inverse=True)
        n, chosen = len(known), torch.from_numpy(counted)
        g = slope.cotangent[: len(counted)][chosen, None, None]
        u = torch.zeros(n, *self._slopes.shape[1:], dtype=torch.float64)
        u.index_add_(0, torch.from_numpy(of_text), g * self._slopes[chosen])
        spread = (u - u.mean(0)).square().sum(0)
        stderr = (n * spread / (n - 1)).sqrt().numpy() if n > 1 else np.full(tuple(u.shape[1:]), np.nan)
        return GateGradients(slope.value, u.sum(0).numpy(), stderr, n)


class ByStratum:
    """Objectives on different rows of the answer, where each text has gates of its own.

    Sums and squares within each stratum; their size does not grow with the texts. Stratum w adds the mean
    over its n_w texts of z_c = <g_w, dy_c/dm>, g_w = dJ/dy_w; a text's part is u_c = z_c / n_w.

        stderr² = Σ_{n > 1} var_w(z) / n_w + σ² Σ_{n = 1} |g_w|²
        σ²      = Σ (n_w − 1) var_w(z) / Σ (n_w − 1) |g_w|²

    One text has no spread of its own: it gets that of the other strata, pooled, in proportion to its squared
    cotangent.
    """

    def __init__(self, collector: Collector[Any], slopes: Sequence[Slope], shape: tuple[int, ...]) -> None:
        self.slopes = slopes
        self.cotangent = torch.stack([slope.cotangent for slope in slopes]).sum(0)
        self._collector, strata = collector, strata_of(collector)
        self._count = torch.zeros(strata, dtype=torch.float64)
        self._sum = torch.zeros(strata, *shape, dtype=torch.float64)
        self._square = torch.zeros(strata, *shape, dtype=torch.float64)
        self._coming: tuple[Coming, Numbers] | None = None

    def add(self, contributions: Tensor, asks: Numbers) -> None:
        """Contributions of some texts [text, layer, head], and an ask of each, which names its stratum.

        Those of the batch before are added up meanwhile: a card works while the host adds.
        """
        coming = Coming(contributions)
        self._add_up()
        self._coming = coming, asks

    def _add_up(self) -> None:
        if self._coming is None:
            return
        coming, asks = self._coming
        self._coming = None
        means = self._collector.of_means
        stratum = torch.tensor([self._collector.item[ask] if means else 0 for ask in asks])
        values = coming.open().double()
        self._count.index_add_(0, stratum, torch.ones(len(asks), dtype=torch.float64))
        self._sum.index_add_(0, stratum, values)
        self._square.index_add_(0, stratum, values.square())

    def result(self, slope: Slope) -> GateGradients:
        self._add_up()
        steep = slope.steepness(len(self._count))
        own = steep > 0
        steep, count, total, square = steep[own], self._count[own], self._sum[own], self._square[own]
        n = count[:, None, None]
        spread = (square - total.square() / n.clamp(min=1)).clamp(min=0)  # Σ (u − mean u)²
        variance = torch.where(n > 1, n * spread / (n - 1).clamp(min=1), 0.0).sum(0)
        evidence = ((count - 1).clamp(min=0) * steep).sum()
        if (single := count == 1).any():
            variance += steep[single].sum() * (n.square() * spread).sum(0) / evidence
        stderr = variance.sqrt().numpy() if evidence > 0 else np.full(tuple(variance.shape), np.nan)
        return GateGradients(slope.value, total.sum(0).numpy(), stderr, int(count.sum()))
