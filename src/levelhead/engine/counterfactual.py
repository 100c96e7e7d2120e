"""Continued pretraining on text and its counterfactual (CDA; Zhao et al. 2018, Webster et al. 2020).

    L = − mean over x and every turn of x of log p(token | the rest of x)

Half of the texts have no word for a group: a replay against forgetting.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from levelhead.engine.distilling import TurnedTexts, answered
from levelhead.engine.reweighing import Batch
from levelhead.models.model import Model


@dataclass(frozen=True, eq=False)
class Counterfactual(TurnedTexts):
    """The lesson: the tokens of every text at every turn, masked ones or the next ones."""

    def loss(self, student: Model, batch: Batch) -> Tensor:
        """Nats per token that is asked."""
        return functional.cross_entropy(answered(student, batch)[0], batch["labels"])
