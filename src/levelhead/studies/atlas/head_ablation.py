"""Heads by what the objective loses without each: J − J(without the head) (docs/method/heads.md,
Ablation)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from levelhead.edits.gates import all_heads, removed
from levelhead.models.model import Model
from levelhead.scoring.objective import Objective
from levelhead.studies.atlas.protocol import ComponentKind, ComponentScores

_TOGETHER = 32  # ablated heads whose answers are held in memory at once


@dataclass(frozen=True)
class HeadAblation:
    """One forward pass per head; layers below a head are shared."""

    name: str = "ablation"
    component: ClassVar[ComponentKind] = "heads"

    def why_not(self, model: Model, objective: Objective) -> str:
        return ""

    def scores(self, model: Model, objective: Objective) -> ComponentScores:
        (whole,) = objective.values(model, label="Ablation")
        variants = [removed(model, [head]) for head in all_heads(model)]
        without: list[float] = []
        for start in range(0, len(variants), _TOGETHER):
            without += objective.values(model, variants[start : start + _TOGETHER], label="Ablation")
        values = whole - np.reshape(without, (model.layers, model.heads))
        return ComponentScores.exact(self.component, values, whole)
