"""What a localizer is: from a model and an objective to scores of its heads or of its neurons.

A localizer of a user's own is one object with these members, registered by `register_localizer` or named by
an installed package under the entry point `levelhead.localizers` (docs/atlas.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from levelhead.errors import BadOption
from levelhead.models.model import Model
from levelhead.scoring.objective import Objective
from levelhead.scoring.plugins import Plugin, Registry, a_reason, expected

Doubles = NDArray[np.float64]
ComponentKind = Literal["heads", "neurons"]


@dataclass(frozen=True, eq=False)
class ComponentScores:
    """How much each head, or each neuron, adds to an objective; below 0 it works against it."""

    component: ComponentKind
    values: Doubles  # [layer, unit]
    stderr: Doubles  # [layer, unit]; nan where nothing is known of it
    objective: float | None = None  # its value, where that comes with the scores

    @classmethod
    def exact(
        cls, component: ComponentKind, values: Doubles, objective: float | None = None
    ) -> ComponentScores:
        """Scores without standard errors."""
        return cls(component, values, np.full(values.shape, np.nan), objective)


@runtime_checkable
class Localizer(Protocol):
    """A way to score the components of a model."""

    @property
    def name(self) -> str: ...

    @property
    def component(self) -> ComponentKind: ...

    def why_not(self, model: Model, objective: Objective) -> str:
        """Why it cannot score this model; empty where it can."""
        ...

    def scores(self, model: Model, objective: Objective) -> ComponentScores:
        """The scores of all components."""
        ...


LOCALIZERS: Registry[Localizer] = Registry(
    "localizer",
    Localizer,
    "name, component, why_not(model, objective) and scores(model, objective)",
    {"why_not": a_reason},
)


def register_localizer(localizer: Localizer) -> None:
    """Let `levelhead atlas`, `heads --objective` and `planted` use a localizer. A name is taken once."""
    if isinstance(localizer, Localizer) and localizer.component not in ("heads", "neurons"):
        raise BadOption(
            f"The localizer {localizer.name!r} scores {localizer.component!r}; allowed are heads, neurons."
        )
    LOCALIZERS.register(localizer)


def scored_several(
    localizer: Localizer, model: Model, objectives: Sequence[Objective]
) -> list[ComponentScores]:
    """What a localizer gives for each objective, refused in one line where it has not one finite score for
    every component."""
    about = Plugin.of(LOCALIZERS.kind, localizer.name, localizer)
    several = getattr(localizer, "scores_of_several", None)
    if several is not None:  # objectives of one reading then cost as much as one of them
        every: list[ComponentScores] = several(model, objectives)
        if len(every) != len(objectives):
            raise about.error(f"scored {len(every)} objectives; {len(objectives)} were given")
    else:
        every = [localizer.scores(model, objective) for objective in objectives]
    shape, checked = (model.layers, model.heads if localizer.component == "heads" else model.neurons), []
    for objective, found in zip(objectives, every, strict=True):
        expected(about, "scores", found, ComponentScores, "ComponentScores")
        with about.guarded():
            values, stderr = (np.asarray(each, np.float64) for each in (found.values, found.stderr))
            value = None if found.objective is None else float(found.objective)
        if (values.shape, stderr.shape) != (shape, shape):
            raise about.error(
                f"gave scores of shape {values.shape} with standard errors of shape {stderr.shape} for "
                f"{objective.name}; the model needs {shape}"
            )
        if unknown := int((~np.isfinite(values)).sum()):
            raise about.error(
                f"gave {unknown} of {values.size} scores that are not finite for {objective.name}"
            )
        if value is not None and not np.isfinite(value):
            raise about.error(f"gave {value} as the value of {objective.name}; it must be finite")
        checked.append(ComponentScores(found.component, values, stderr, value))
    return checked


def scored(localizer: Localizer, model: Model, objective: Objective) -> ComponentScores:
    """The same for one objective."""
    return scored_several(localizer, model, [objective])[0]
