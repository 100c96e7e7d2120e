"""What a localizer is: from a model and an objective to scores of its heads or of its neurons.

A localizer of a user's own is one object with these members, registered by `register_localizer` or named by
an installed package under the entry point `levelhead.localizers` (docs/atlas.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from levelhead.errors import BadOption
from levelhead.models.model import Model
from levelhead.scoring.objective import Objective
from levelhead.scoring.plugins import load_installed

ENTRY_POINTS = "levelhead.localizers"
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


_REGISTERED: dict[str, Localizer] = {}


def register_localizer(localizer: Localizer) -> None:
    """Let `levelhead atlas`, `heads --objective` and `planted` use a localizer. A name is taken once."""
    if not isinstance(localizer, Localizer):
        raise BadOption(
            f"{type(localizer).__name__} is no localizer: it needs name, component, "
            "why_not(model, objective) and scores(model, objective)."
        )
    if localizer.component not in ("heads", "neurons"):
        raise BadOption(
            f"The localizer {localizer.name!r} scores {localizer.component!r}; allowed are heads, neurons."
        )
    known = _REGISTERED.get(localizer.name)
    if known is not None and type(known) is not type(localizer):
        raise BadOption(f"Two localizers are called {localizer.name!r}. Rename one of them.")
    _REGISTERED[localizer.name] = localizer


def registered_localizers() -> dict[str, Localizer]:
    """Those that were registered or that installed packages bring along, by name."""
    _load_installed()
    return dict(_REGISTERED)


@cache
def _load_installed() -> None:
    load_installed(ENTRY_POINTS)


def why_no_gradients(model: Model) -> str:
    """Why a model has no gradients; empty where it has them."""
    return f"{model.name} gives no gradients: {model.fixed_weights}" if model.fixed_weights else ""


@runtime_checkable
class AsksAtOnce(Protocol):
    """A localizer to which several objectives of one reading cost as much as one."""

    def scores_of_several(self, model: Model, objectives: Sequence[Objective]) -> list[ComponentScores]:
        """The scores of all components for each objective."""
        ...


def scored_several(
    localizer: Localizer, model: Model, objectives: Sequence[Objective]
) -> list[ComponentScores]:
    """What a localizer gives for each objective, refused in one line where it has not one finite score for
    every component."""
    if isinstance(localizer, AsksAtOnce):
        every = localizer.scores_of_several(model, objectives)
    else:
        every = [localizer.scores(model, objective) for objective in objectives]
    return [_checked(localizer, model, found) for found in every]


def scored(localizer: Localizer, model: Model, objective: Objective) -> ComponentScores:
    """The same for one objective."""
    return scored_several(localizer, model, [objective])[0]


def _checked(localizer: Localizer, model: Model, found: ComponentScores) -> ComponentScores:
    shape = (model.layers, model.heads if localizer.component == "heads" else model.neurons)
    values = np.asarray(found.values)
    if values.shape != shape or np.shape(found.stderr) != shape or not np.isfinite(values).all():
        raise BadOption(
            f"The localizer {localizer.name!r} gave scores of shape {values.shape} with standard errors of "
            f"shape {np.shape(found.stderr)}; {model.name} needs {shape}, scores finite."
        )
    return found
