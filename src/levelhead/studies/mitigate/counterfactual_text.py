"""Continued pretraining on text and its counterfactual, CDA (engine/distilling.py)."""

from __future__ import annotations

from levelhead.engine.distilling import Counterfactual
from levelhead.engine.training import Lesson, TrainingPlan
from levelhead.models.model import Model
from levelhead.probes.bias import swap_for
from levelhead.scoring.battery import Battery
from levelhead.studies.mitigate.protocol import register_mitigation
from levelhead.studies.mitigate.training import TrainedMitigation, swapped_texts, why_no_training


class CounterfactualText(TrainedMitigation):
    """The model's own pretraining task on text and swapped text; the strength is its steps."""

    name = "counterfactual text"
    own_plan = TrainingPlan(steps=400, batch_size=32)

    def why_not(self, model: Model, fit: Battery) -> str:
        if not model.abilities & {"mlm", "causal"}:
            return f"{model.name} has no vocabulary head to go on training"
        return why_no_training(model, fit, self.means)

    def lessons(self, model: Model, fit: Battery) -> tuple[Lesson, Lesson]:
        swap = swap_for(fit.test)
        some, few = swapped_texts(model, fit, self.means, self.plan)
        return Counterfactual(model, swap, some), Counterfactual(model, swap, few)


register_mitigation(CounterfactualText())
