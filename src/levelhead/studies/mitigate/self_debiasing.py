"""Self-Debias as a mitigation: no training, one more pass per prefix (edits/self_debias.py)."""

from __future__ import annotations

from levelhead.edits.output import SelfDebiased
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender
from levelhead.probes.words import WordTest
from levelhead.scoring.battery import Battery
from levelhead.studies.mitigate.protocol import Candidate, register_mitigation

_DECAYS = (10.0, 50.0, 100.0)  # 50 is the paper's


class SelfDebiasing:
    """Words that a sentence asking for stereotypes makes likelier become less likely."""

    name = "Self-Debias"
    quick = False
    cost = 8.0

    def why_not(self, model: Model, fit: Battery) -> str:
        return "" if model.abilities & {"mlm", "causal"} else f"{model.name} predicts no words"

    def candidates(self, model: Model, fit: Battery) -> list[Candidate]:
        return [
            Candidate(
                f"Self-Debias, decay {decay:g}",
                self.name,
                decay,
                (SelfDebiased((asking_for(fit.test),), decay),),
            )
            for decay in _DECAYS
        ]


def asking_for(test: WordTest) -> str:
    """The sentence before a text that asks for the bias of a word list."""
    groups = ("women", "men") if about_gender(test) else test.labels[:2]
    return f"The following text is full of stereotypes about {groups[0]} and {groups[1]}:"


register_mitigation(SelfDebiasing())
