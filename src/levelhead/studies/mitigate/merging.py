"""Word vectors of counterparts moved toward their mean: she and he, mother and father become more alike.

    e(w) ← e(w) − λ (mean e of w's group − mean of these means over the groups)

of every class of words that stand for each other, in input vectors, output vectors and output bias; λ is the
strength. Words that are several tokens on a side stay. At λ = 1 the groups cannot be told apart by these
words at all, also where a text says who is meant: that is what the cost "agreement" is there to see. After
the equalizing step of Bolukbasi et al. 2016.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from levelhead.edits.output import Reweighted
from levelhead.engine.symmetry import token_classes
from levelhead.models.encoding import vocabulary_parameters
from levelhead.models.model import Model
from levelhead.probes.bias import swap_for
from levelhead.scoring.battery import Battery
from levelhead.studies.mitigate.protocol import Candidate, register_mitigation

STRENGTHS = (0.5, 0.75, 1.0)


class MergedVectors:
    """The word vectors of counterparts, drawn together."""

    name = "merged word vectors"
    quick = False
    cost = 3.0

    def why_not(self, model: Model, fit: Battery) -> str:
        if not fit.test.pairs:
            return f"{fit.test.name} states no counterparts to exchange"
        if token_classes(model, swap_for(fit.test)).classes:
            return ""
        return f"{model.name} writes no word of {fit.test.name} and its counterpart as one token each"

    def candidates(self, model: Model, fit: Battery) -> list[Candidate]:
        weights, classes = vocabulary_parameters(model), token_classes(model, swap_for(fit.test)).classes
        steps = {name: merging_steps(weight, classes) for name, weight in weights.items()}
        return [
            Candidate(name, self.name, by, (Reweighted.moved(name, weights, steps, by),))
            for by, name in ((by, f"word vectors merged by {100 * by:g} %") for by in STRENGTHS)
        ]


def merging_steps(rows: Tensor, classes: Sequence[Sequence[Sequence[int]]]) -> Tensor:
    """What makes the mean vectors of the groups of every class equal, for each row; 0 for all other rows."""
    own = rows.detach().double()
    steps = torch.zeros_like(own)
    for groups in classes:
        means = torch.stack([own[list(group)].mean(dim=0) for group in groups])
        for group, mean in zip(groups, means, strict=True):
            steps[list(group)] = means.mean(dim=0) - mean
    return steps


register_mitigation(MergedVectors())
