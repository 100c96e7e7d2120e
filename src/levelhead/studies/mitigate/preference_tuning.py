"""DPO toward anti-stereotypes, the control that overshoots (engine/preference_losses.py)."""

from __future__ import annotations

from levelhead.engine.preference_losses import Preferring
from levelhead.engine.training import Lesson, TrainingPlan
from levelhead.models.model import Model
from levelhead.scoring.battery import Battery
from levelhead.studies.mitigate.protocol import register_mitigation
from levelhead.studies.mitigate.training import TrainedMitigation, fitted_choices, why_no_choices


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
