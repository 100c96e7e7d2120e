"""Stereotypes unlearned by NPO with low-rank adapters (engine/preference_losses.py)."""

from __future__ import annotations

from levelhead.engine.distilling import OrientedTexts
from levelhead.engine.preference_losses import Forgetting
from levelhead.engine.training import Lesson, TrainingPlan
from levelhead.errors import CannotDo
from levelhead.models.model import Model
from levelhead.probes.bias import swap_for
from levelhead.scoring.battery import Battery
from levelhead.studies.mitigate.protocol import register_mitigation
from levelhead.studies.mitigate.training import (
    TrainedMitigation,
    fitted_choices,
    swapped_texts,
    why_no_choices,
)


class Unlearning(TrainedMitigation):
    """NPO on the stereotypes of part A, with KL on plain text; the strength is its steps."""

    name = "unlearned"
    own_plan = TrainingPlan(steps=60, batch_size=8, lora=True)

    def why_not(self, model: Model, fit: Battery) -> str:
        return why_no_choices(model, fit)

    def lessons(self, model: Model, fit: Battery) -> tuple[Lesson, Lesson]:
        texts = [text for part in swapped_texts(model, fit, self.means, self.plan) for text in part]
        plain = [text for text in texts if len(text.orientations) == 1]
        if not plain:
            raise CannotDo(f"{self.name}: every sentence has a word for a group. Give more plain text.")
        kept = OrientedTexts(model, swap_for(fit.test), plain)
        some, few = fitted_choices(model, fit)
        return Forgetting(model, some, kept), Forgetting(model, few, kept)


register_mitigation(Unlearning())
