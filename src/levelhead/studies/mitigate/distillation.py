"""The symmetrized model distilled into weights: an ordinary model again (engine/distilling.py).

A short training takes more than the bias: the further it goes, the more it forgets. So the candidates lie on
the line from the model to the trained weights, and beyond them,

    W = W₀ + w (W_trained − W₀)        w, the strength: WAYS

Of a model that predicts words and has a classification head too, training teaches the words; the head is
refitted on what the weights of each candidate give it.
"""

from __future__ import annotations

from levelhead.edits.output import Reweighted
from levelhead.engine.distilling import Distilling
from levelhead.engine.training import Lesson, TrainingPlan
from levelhead.models.model import Model
from levelhead.probes.bias import swap_for
from levelhead.scoring.battery import Battery
from levelhead.studies.mitigate.protocol import Candidate, register_mitigation
from levelhead.studies.mitigate.refitting import new_heads
from levelhead.studies.mitigate.training import (
    TrainedMitigation,
    swapped_texts,
    why_no_training,
    with_own_text,
)

WAYS = (0.6, 0.8, 1.0, 1.2)
_WEIGHING = 10.0  # λ of the refitted head


class Distillation(TrainedMitigation):
    """KL from the symmetrized model on text, half of it about nobody's group; the strength is how much of the
    way to the trained weights is gone."""

    name = "distilled"
    # the weights after half of the steps are taken where two evaluations without a lower loss end it early
    own_plan = TrainingPlan(steps=240, batch_size=16, word_vectors=False, keep=(0.5, 1.0))

    def why_not(self, model: Model, fit: Battery) -> str:
        if not model.abilities & {"mlm", "causal"} and model.classification_head is None:
            return f"{model.name} has no head that answers"
        return why_no_training(model, fit, self.means)

    def lessons(self, model: Model, fit: Battery) -> tuple[Lesson, Lesson]:
        swap = swap_for(fit.test)
        some, few = swapped_texts(model, fit, self.means, self.plan)
        lesson = Distilling(model, swap, with_own_text(model, fit, some, self.means.seed))
        return lesson, Distilling(model, swap, few)

    def candidates(self, model: Model, fit: Battery) -> list[Candidate]:
        """Train, and go some of the way to the weights that were kept last, and on."""
        own, last = dict(model.hf.named_parameters()), self.trained(model, fit).kept[-1].weights
        parts = [
            Reweighted.part_way(f"{self.name}, {100 * way:g} % of the way", own, last.values, way)
            for way in WAYS
        ]
        if model.abilities & {"mlm", "causal"} and model.classification_head is not None:
            heads = new_heads(model, fit, [(each,) for each in parts], [_WEIGHING], self.means)
            parts = [
                Reweighted(each.name, {**each.values, **head})
                for each, (head,) in zip(parts, heads, strict=True)
            ]
        return [Candidate(each.name, self.name, way, (each,)) for way, each in zip(WAYS, parts, strict=True)]


register_mitigation(Distillation())
