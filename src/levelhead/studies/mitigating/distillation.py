"""The symmetrized model distilled into weights: an ordinary model again (engine/distilling.py)."""

from __future__ import annotations

from dataclasses import dataclass

from levelhead.engine.distilling import Distilling, aligned
from levelhead.engine.reweighing import TrainingPlan
from levelhead.errors import CannotDo
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.probes.bias import swap_for
from levelhead.scoring.battery import Battery
from levelhead.studies.mitigating.protocol import Candidate, register_mitigation
from levelhead.studies.mitigating.training import (
    LENGTH,
    NO_MEANS,
    Means,
    apart,
    pairs,
    texts,
    trained_candidates,
    why_no_training,
)

PLAN = TrainingPlan(steps=400, batch_size=32)


@dataclass(frozen=True)
class Distillation:
    """KL from the symmetrized model on text, half of it about nobody's group; the strength is its steps."""

    means: Means = NO_MEANS
    name: str = "distilled"

    def with_means(self, means: Means) -> Distillation:
        return Distillation(means)

    def why_not(self, model: Model, fit: Battery) -> str:
        if not model.abilities & {"mlm", "causal"} and model.judge is None:
            return f"{model.name} has no head that answers"
        return why_no_training(model, fit, self.means)

    def candidates(self, model: Model, fit: Battery) -> list[Candidate]:
        plan, swap = self.means.plan(PLAN), swap_for(fit.test)
        sentences = texts(fit, self.means, plan)
        given = [Text(each.text) for each in sentences] if model.judge is None else pairs(sentences)
        found = aligned(model, swap, given, LENGTH).texts
        if not any(len(text.turns) > 1 for text in found):
            raise CannotDo(
                f"{model.name}: no text has a word of {swap.name} that is one token on every side."
            )
        split = apart(len(found))
        lessons = Distilling(model, swap, found[split:]), Distilling(model, swap, found[:split])
        return trained_candidates(self, model, lessons, plan, self.means)


register_mitigation(Distillation())
