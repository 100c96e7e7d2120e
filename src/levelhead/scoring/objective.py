"""What heads and neurons are scored by: a reading of a model, and a differentiable number of its answer.

Every benchmark with a differentiable form gives one, for a model and its items (docs/architecture.md). Head
gradients, ablation and learned gates take any of them and know no benchmark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from levelhead.edits.sites import UNTOUCHED, Variant
from levelhead.engine.gated import NEURONS
from levelhead.engine.gradients import gate_gradients, integrated_gradients, neuron_gradients
from levelhead.engine.readings import Reading
from levelhead.engine.run import read_one
from levelhead.engine.ways_back import Doubles, GateGradients
from levelhead.models.model import Model


@dataclass(frozen=True, eq=False)
class Objective:
    """A number that grows with a bias, as a function of what one reading of a model answers."""

    name: str
    unit: str  # nats, cosine, probability; "effect size" where it is none of these
    reading: Reading[Any]
    number: Callable[[Tensor], Tensor]  # of the answer of one variant

    def values(
        self, model: Model, variants: Sequence[Variant] = UNTOUCHED, label: str = "Objective"
    ) -> list[float]:
        """The number in every variant."""
        answers = read_one(model, self.reading, variants, label=label)
        return [float(self.number(torch.from_numpy(np.asarray(each, np.float64)))) for each in answers]

    def gradients(self, model: Model, label: str = "Head scores") -> GateGradients:
        """How the number changes with the gate of every head, exact over all texts."""
        return gate_gradients(model, self.reading, self.number, label=label)

    def neuron_scores(self, model: Model, steps: int = 0) -> Doubles:
        """How the number changes with the gate of every neuron, [layer, neuron]: at 1, or, with steps, the
        mean on the way from 0 to 1."""
        if not steps:
            return neuron_gradients(model, self.reading, self.number, label="Neuron scores").scores
        return integrated_gradients(model, self.reading, self.number, NEURONS, steps)
