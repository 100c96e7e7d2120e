"""What heads and neurons are scored by: a reading of a model, and a differentiable number of its answer.

Every benchmark with a differentiable form gives one, for a model and its items (docs/architecture.md). Head
gradients, ablation and learned gates take any of them and know no benchmark.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from levelhead.edits.sites import UNTOUCHED, Variant
from levelhead.engine.gated import NEURONS
from levelhead.engine.gradients import (
    gate_gradients,
    integrated_gradients,
    neuron_gradients,
    several_gate_gradients,
)
from levelhead.engine.readings import Reading
from levelhead.engine.run import read_one
from levelhead.engine.ways_back import Doubles, GateGradients
from levelhead.errors import CannotDo
from levelhead.models.model import Model


@dataclass(frozen=True, eq=False)
class ByItem:
    """The number of every item, where an objective is their mean."""

    numbers: Callable[[Tensor], Tensor]  # of the answer of one variant: [item]
    clusters: NDArray[np.str_]  # [item]


@dataclass(frozen=True, eq=False)
class Objective:
    """A number that grows with a bias, as a function of what one reading of a model answers."""

    name: str
    unit: str  # nats, cosine, probability; "effect size" where it is none of these
    reading: Reading[Any]
    number: Callable[[Tensor], Tensor]  # of the answer of one variant
    by_item: ByItem | None = None

    def values(
        self, model: Model, variants: Sequence[Variant] = UNTOUCHED, label: str = "Objective"
    ) -> list[float]:
        """The number in every variant."""
        answers = read_one(model, self.reading, variants, label=label)
        return [float(self.number(torch.from_numpy(np.asarray(each, np.float64)))) for each in answers]

    def about(self, clusters: Collection[str]) -> Objective:
        """The mean over the items of some clusters, of the same answer."""
        if self.by_item is None:
            raise CannotDo(f"{self.name} is no mean over items, so it has no parts.")
        chosen = torch.from_numpy(np.isin(self.by_item.clusters, list(clusters)))
        if not bool(chosen.any()):
            raise CannotDo(f"no item of {self.name} is in this part")
        numbers = self.by_item.numbers
        return replace(self, number=lambda answer: numbers(answer)[chosen].mean(), by_item=None)

    @property
    def absolute(self) -> Objective:
        """Its size: a head that adds to it does so whichever way the model leans."""
        number = self.number
        return replace(self, number=lambda answer: number(answer).abs(), by_item=None)

    def gradients(self, model: Model, label: str = "Head scores") -> GateGradients:
        """How the number changes with the gate of every head, exact over all texts."""
        return gate_gradients(model, self.reading, self.number, label=label)

    def neuron_scores(self, model: Model, steps: int = 0) -> Doubles:
        """How the number changes with the gate of every neuron, [layer, neuron]: at 1, or, with steps, the
        mean on the way from 0 to 1."""
        if not steps:
            return neuron_gradients(model, self.reading, self.number, label="Neuron scores").scores
        return integrated_gradients(model, self.reading, self.number, NEURONS, steps)


def several_gradients(
    model: Model, objectives: Sequence[Objective], label: str = "Head scores"
) -> list[GateGradients]:
    """How each of several numbers changes with the gate of every head; those of one reading are asked at
    once."""
    readings = {id(each.reading): each.reading for each in objectives}
    found: dict[int, GateGradients] = {}
    for which, reading in readings.items():
        own = [number for number, each in enumerate(objectives) if id(each.reading) == which]
        numbers = [objectives[number].number for number in own]
        found.update(zip(own, several_gate_gradients(model, reading, numbers, label=label), strict=True))
    return [found[number] for number in range(len(objectives))]
