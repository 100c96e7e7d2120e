"""Steering away from stereotyped sentences by a difference of means, at every token or where a probe asks.

Both are fitted on the next sentences of part A's triples, which stand in the model as they are read: v leads
from the tokens of stereotyped sentences to those of anti-stereotyped ones, whose words are the same over a
triple and its counterfactual; the probe tells the two apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from levelhead.edits.steering import Steering, difference_of_means, fit_probe
from levelhead.mitigation.fitting import middle, sentence_states
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender, none_ships
from levelhead.scoring.battery import Battery
from levelhead.studies.mitigate.protocol import Candidate, register_mitigation

_STRENGTHS = (10.0, 20.0, 40.0)  # v is small beside a state; on lh:bert-mini 4 v hardly changes anything


@dataclass(frozen=True)
class SteeringAway:
    """A multiple of the difference of means, in the middle of the network."""

    gated: bool
    quick: ClassVar[bool] = False
    cost: ClassVar[float] = 5.0

    @property
    def name(self) -> str:
        return "gated steering" if self.gated else "steering"

    def why_not(self, model: Model, fit: Battery) -> str:
        return "" if about_gender(fit.test) else none_ships("stereotyped sentences", fit.test)

    def candidates(self, model: Model, fit: Battery) -> list[Candidate]:
        site = middle(model)
        stereotyped, other = sentence_states(model, fit.triples, site)
        vector = difference_of_means(to=other, away=stereotyped)
        probe = fit_probe(stereotyped, other) if self.gated else None
        return [
            Candidate(
                f"{self.name}, {strength:g} x",
                self.name,
                strength,
                (Steering(site, vector, strength, probe),),
            )
            for strength in _STRENGTHS
        ]


register_mitigation(SteeringAway(gated=False))
register_mitigation(SteeringAway(gated=True))
