"""What heads and neurons are scored by: a reading of a model, and a differentiable number of its answer.

Every benchmark with a differentiable form gives one, for a model and its items (docs/architecture.md). Head
gradients, ablation and learned gates take any of them and know no benchmark.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

from levelhead.edits.sites import UNTOUCHED, Variant
from levelhead.engine.collectors import Doubles
from levelhead.engine.gradient_sums import GateGradients
from levelhead.engine.gradient_sums import Objective as Number
from levelhead.engine.gradients import (
    gate_gradients,
    integrated_gradients,
    neuron_gradients,
    several_gate_gradients,
)
from levelhead.engine.readings import Reading
from levelhead.engine.run import read_one
from levelhead.engine.trunk import NEURONS
from levelhead.errors import CannotDo
from levelhead.models.model import Model
from levelhead.scoring.plugins import Plugin, Registry, a_reason, expected


@dataclass(frozen=True, eq=False)
class Objective:
    """A number that grows with a bias, as a function of what one reading of a model answers."""

    name: str
    unit: str  # nats, cosine, probability; "effect size" where it is none of these
    reading: Reading[Any]
    number: Number  # of the answer of one variant
    parts: Callable[[Collection[str]], Objective] | None = None  # the same of some items, of the same answer
    signed: Callable[[Doubles], float] | None = None  # of an answer, where the number is the size of a lean
    each: Number | None = None  # of an answer, the number of every item, where it is a mean over items
    clusters: tuple[str, ...] = ()  # of those items: `about` takes some of them

    def values(
        self, model: Model, variants: Sequence[Variant] = UNTOUCHED, label: str = "Objective"
    ) -> list[float]:
        unsigned = replace(self, signed=None)
        return [unsigned.lean(each) for each in read_one(model, self.reading, variants, label=label)]

    def sizes(
        self, model: Model, variants: Sequence[Variant] = UNTOUCHED, label: str = "Objective"
    ) -> list[float]:
        """The size of the lean in every variant, as removals are judged by it (docs/method/heads.md,
        Ablation)."""
        return [abs(self.lean(each)) for each in read_one(model, self.reading, variants, label=label)]

    def lean(self, answer: Doubles) -> float:
        """The number of one answer, with its sign where it is the size of a lean."""
        if self.signed is not None:
            return self.signed(answer)
        return float(self.number(torch.from_numpy(np.asarray(answer, np.float64))))

    def each_of(self, answer: Doubles) -> Doubles:
        if self.each is None:
            raise CannotDo(f"{self.name} is no mean over items.")
        return np.asarray(self.each(torch.from_numpy(np.asarray(answer, np.float64))), np.float64)

    def about(self, items: Collection[str]) -> Objective:
        """The objective on some words, or some clusters of items, of the same answer."""
        if self.parts is None:
            raise CannotDo(f"{self.name} has no parts: it is no mean over items.")
        return self.parts(items)

    @property
    def absolute(self) -> Objective:
        """Its size: a head that adds to it does so whichever way the model leans."""
        number = self.number
        return replace(self, number=lambda answer: number(answer).abs(), parts=None, each=None)

    def gradients(self, model: Model, label: str = "Head scores", at: Doubles | None = None) -> GateGradients:
        """How the number changes with the gate of every head, exact over all texts; at: as gate_gradients."""
        return gate_gradients(model, self.reading, self.number, label=label, at=at)

    def neuron_scores(self, model: Model, steps: int = 0) -> Doubles:
        """How the number changes with the gate of every neuron, [layer, neuron]: at 1, or, with steps, the
        mean on the way from 0 to 1."""
        if not steps:
            return neuron_gradients(model, self.reading, self.number, label="Neuron scores").scores
        return integrated_gradients(model, self.reading, self.number, NEURONS, steps)


def mean_objective(
    name: str, unit: str, reading: Reading[Any], numbers: Number, clusters: NDArray[np.str_]
) -> Objective:
    """The mean over items. numbers: of an answer, [item]; clusters: [item]."""

    def part(some: Collection[str]) -> Objective:
        chosen = torch.from_numpy(np.isin(clusters, list(some)))
        if not bool(chosen.any()):
            raise CannotDo(f"no item of {name} is in this part")
        return Objective(name, unit, reading, lambda answer: numbers(answer)[chosen].mean())

    named = tuple(map(str, clusters))
    return Objective(
        name, unit, reading, lambda answer: numbers(answer).mean(), part, each=numbers, clusters=named
    )


def several_gradients(
    model: Model, objectives: Sequence[Objective], label: str = "Head scores", answer: Doubles | None = None
) -> list[GateGradients]:
    """How each of several numbers changes with the gate of every head; those of one reading are read at
    once. answer: of the one reading that they all have, where it is known already."""
    readings = {id(each.reading): each.reading for each in objectives}
    found: dict[int, GateGradients] = {}
    for which, reading in readings.items():
        own = [number for number, each in enumerate(objectives) if id(each.reading) == which]
        numbers = [objectives[number].number for number in own]
        of_reading = several_gate_gradients(model, reading, numbers, label=label, answer=answer)
        found.update(zip(own, of_reading, strict=True))
    return [found[number] for number in range(len(objectives))]


# ---- a user's own


@runtime_checkable
class OwnObjective(Protocol):
    """An objective of a user's own that is no benchmark: of a model, what its heads are scored by."""

    @property
    def name(self) -> str: ...

    def why_not(self, model: Model) -> str:
        """Why a model has no such objective; empty where it has one."""
        ...

    def objective(self, model: Model) -> Objective:
        """A mean over items (`mean_objective`), so that it has halves that share no cluster."""
        ...


def guarded_objective(about: Plugin, found: Any) -> Objective:
    """The objective of a plug-in, whose functions are called behind the guard too."""
    expected(about, "objective", found, Objective, "an Objective")
    expected(about, "objective", found.reading, Reading, "an Objective with a reading of levelhead.readings")

    def each(answer: torch.Tensor) -> torch.Tensor:
        with about.guarded():
            values = found.each(answer)
        expected(about, "numbers", values, torch.Tensor, "a tensor, [item]")
        if tuple(values.shape) != (len(found.clusters),) or not torch.isfinite(values).all():
            raise about.error(
                f"gave numbers of shape {tuple(values.shape)} for {len(found.clusters)} items; they must be "
                "finite, [item]"
            )
        return torch.as_tensor(values)

    def number(answer: torch.Tensor) -> torch.Tensor:
        with about.guarded():
            value = found.number(answer)
        expected(about, "number", value, torch.Tensor, "a tensor without dimensions")
        if value.dim() or not torch.isfinite(value):
            shown = value.item() if value.numel() == 1 else f"a tensor of shape {tuple(value.shape)}"
            raise about.error(f"gave {shown} as its number; it must be one finite number")
        return torch.as_tensor(value)

    def parts(items: Collection[str]) -> Objective:
        with about.guarded():
            part: Objective = found.about(items)
        return guarded_objective(about, part)

    checked: Objective = replace(
        found,
        number=number,
        parts=None if found.parts is None else parts,
        each=None if found.each is None else each,
    )
    return checked


OBJECTIVES: Registry[OwnObjective] = Registry(
    "objective",
    OwnObjective,
    "name, why_not(model) and objective(model)",
    {"why_not": a_reason, "objective": lambda about, found, _: guarded_objective(about, found)},
)
