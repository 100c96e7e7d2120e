"""The symmetrized model distilled into weights: an ordinary model again (engine/distilling.py)."""

from __future__ import annotations

from levelhead.engine.distilling import Distilling
from levelhead.engine.reweighing import Lesson, TrainingPlan
from levelhead.models.model import Model
from levelhead.probes.bias import swap_for
from levelhead.scoring.battery import Battery
from levelhead.studies.mitigating.protocol import register_mitigation
from levelhead.studies.mitigating.training import TrainedMitigation, turned_texts, why_no_training


class Distillation(TrainedMitigation):
    """KL from the symmetrized model on text, half of it about nobody's group; the strength is its steps."""

    name = "distilled"
    own_plan = TrainingPlan(steps=160, batch_size=16, word_vectors=False, keep=(0.5, 1.0))

    def why_not(self, model: Model, fit: Battery) -> str:
        if not model.abilities & {"mlm", "causal"} and model.classification_head is None:
            return f"{model.name} has no head that answers"
        return why_no_training(model, fit, self.means)

    def lessons(self, model: Model, fit: Battery) -> tuple[Lesson, Lesson]:
        swap = swap_for(fit.test)
        some, few = turned_texts(model, fit, self.means, self.plan)
        return Distilling(model, swap, some), Distilling(model, swap, few)


register_mitigation(Distillation())
