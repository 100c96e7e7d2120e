"""A localizer of one's own: how far the objective falls when a head is turned down by half.

`pip install -e .`, then `levelhead atlas MODEL --localizer "half heads" -o RUN`; `levelhead planted` ranks it
beside the others. Halves of the items, null models, significance and the page follow from the study.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from levelhead.edits.gates import all_heads, gates
from levelhead.models.model import Model
from levelhead.scoring.objective import Objective
from levelhead.studies.atlas.protocol import ComponentKind, ComponentScores, register_localizer


@dataclass(frozen=True)
class HalfHeads:
    """Twice the change of the objective on the way from a gate of 1 to one half: a coarse gradient."""

    name: str = "half heads"
    component: ComponentKind = "heads"

    def why_not(self, model: Model, objective: Objective) -> str:
        """It asks the model as it is, so it can always run."""
        return ""

    def scores(self, model: Model, objective: Objective) -> ComponentScores:
        """One reading of all variants: they share the layers below the head that differs."""
        variants = [(), *(gates(model, {head: 0.5}) for head in all_heads(model))]
        base, *halved = objective.values(model, variants, label="Half heads")
        fallen = 2.0 * (base - np.asarray(halved)).reshape(model.layers, model.heads)
        return ComponentScores.exact("heads", fallen, base)


register_localizer(HalfHeads())
