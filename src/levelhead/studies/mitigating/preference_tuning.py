"""DPO toward anti-stereotypes, the control that overshoots (engine/choosing.py)."""

from __future__ import annotations

from levelhead.engine.choosing import Preferring
from levelhead.engine.reweighing import Lesson, TrainingPlan
from levelhead.models.model import Model
from levelhead.scoring.battery import Battery
from levelhead.studies.mitigating.protocol import register_mitigation
from levelhead.studies.mitigating.stereotype_pairs import fitted_choices, why_no_choices
from levelhead.studies.mitigating.training import TrainedMitigation


class PreferenceTuning(TrainedMitigation):
    """DPO on the next sentences of part A; the strength is its steps."""

    name = "preference-tuned"
    own_plan = TrainingPlan(steps=60, batch_size=8, lora=True)

    def why_not(self, model: Model, fit: Battery) -> str:
        return why_no_choices(model, fit)

    def lessons(self, model: Model, fit: Battery) -> tuple[Lesson, Lesson]:
        some, few = fitted_choices(model, fit)
        return Preferring(model, some), Preferring(model, few)


register_mitigation(PreferenceTuning())
