"""The symmetrized model distilled into weights: an ordinary model again (engine/distilling.py).

Of a model that predicts words and has a classification head too, training teaches the words; the head is
refitted on what the trained weights give it.
"""

from __future__ import annotations

from dataclasses import replace

from levelhead.edits.weights import Reweighted, weights_of
from levelhead.engine.distilling import Distilling
from levelhead.engine.reweighing import Lesson, TrainingPlan
from levelhead.models.model import Model
from levelhead.probes.bias import swap_for
from levelhead.scoring.battery import Battery
from levelhead.studies.mitigating.protocol import Candidate, register_mitigation
from levelhead.studies.mitigating.refitting import new_heads
from levelhead.studies.mitigating.training import TrainedMitigation, has_head, turned_texts, why_no_training


class Distillation(TrainedMitigation):
    """KL from the symmetrized model on text, half of it about nobody's group; the strength is its steps."""

    name = "distilled"
    own_plan = TrainingPlan(steps=160, batch_size=16, word_vectors=False, keep=(0.5, 1.0))

    def why_not(self, model: Model, fit: Battery) -> str:
        if not (speaks(model) or has_head(model)):
            return f"{model.name} has no head that answers"
        return why_no_training(model, fit, self.means)

    def lessons(self, model: Model, fit: Battery) -> tuple[Lesson, Lesson]:
        swap = swap_for(fit.test)
        some, few = turned_texts(model, fit, self.means, self.plan)
        return Distilling(model, swap, some), Distilling(model, swap, few)

    def candidates(self, model: Model, fit: Battery) -> list[Candidate]:
        found = super().candidates(model, fit)
        if not (speaks(model) and has_head(model)):
            return found
        trained = [weights_of(each.edits)[0] for each in found]
        heads = new_heads(model, fit, [(each,) for each in trained], means=self.means)
        return [
            replace(each, edits=(Reweighted(own.name, {**own.values, **head}),))
            for each, own, (head,) in zip(found, trained, heads, strict=True)
        ]


def speaks(model: Model) -> bool:
    """Whether it predicts words."""
    return bool(model.abilities & {"mlm", "causal"})


register_mitigation(Distillation())
