"""The contrastive gradient edit: one step against stereotypes, in the rows that disagree most.

    W ← W + α (‖W‖ / ‖D‖) D,   D = mean gradient of x(anti) − mean gradient of x(stereo)

D is 0 but in the rows of weight matrices whose two gradients have the lowest cosines; norms are over those
rows. α, the share of their norm that the step has, is the strength. After PCGU (Yu et al. 2023), which takes
many small steps; GRADIEND learns an encoder for the same direction.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from torch.nn import functional

from levelhead.edits.output import Reweighted
from levelhead.engine.preference_losses import contrast
from levelhead.models.model import Model
from levelhead.scoring.battery import Battery
from levelhead.studies.mitigate.protocol import Candidate, register_mitigation
from levelhead.studies.mitigate.training import fitted_choices, why_no_choices

STRENGTHS = (0.001, 0.003, 0.01)
_SHARE = 0.1  # of all rows


class GradientEdit:
    """One step along the difference of two mean gradients."""

    name = "gradient edit"
    quick = False

    def why_not(self, model: Model, fit: Battery) -> str:
        return why_no_choices(model, fit)

    def candidates(self, model: Model, fit: Battery) -> list[Candidate]:
        weights = dict(model.hf.named_parameters())
        some = [choice for part in fitted_choices(model, fit) for choice in part]
        direction = steps_of(weights, contrast(model, some))
        return [
            Candidate(name, self.name, by, (Reweighted.moved(name, weights, direction, by),))
            for by, name in ((by, f"gradient edit, {100 * by:g} %") for by in STRENGTHS)
        ]


def steps_of(
    weights: Mapping[str, Tensor], gradients: Mapping[str, tuple[Tensor, Tensor]], share: float = _SHARE
) -> dict[str, Tensor]:
    """The step of strength 1, by the name of the parameter. gradients: of anti-stereotype, of stereotype."""
    matrices = {name: both for name, both in gradients.items() if both[0].dim() == 2 and both[0].any()}
    # of the two gradients of each row: low where they point apart
    cosines = {name: functional.cosine_similarity(*both, dim=-1) for name, both in matrices.items()}
    every = torch.cat(list(cosines.values()))
    bound = every.kthvalue(max(1, round(share * len(every)))).values
    steps: dict[str, Tensor] = {}
    size = length = 0.0
    for name, (anti, stereo) in matrices.items():
        rows = cosines[name] <= bound
        if rows.any():
            steps[name] = torch.where(rows[:, None], anti - stereo, 0.0)
            size += float(weights[name][rows].double().square().sum())
            length += float(steps[name].double().square().sum())
    return {name: step * (size / max(length, 1e-30)) ** 0.5 for name, step in steps.items()}


register_mitigation(GradientEdit())
