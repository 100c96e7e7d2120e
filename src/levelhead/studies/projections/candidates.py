"""Which projection to take: all candidates judged by one measure of bias and one of ability, for any kind of
model.

a classifier          fairness of inferences    against accuracy on plain pairs   (at most 5 points below base)
a next-sentence model Strength on triples       against LMS on the same triples   (at most 5 points below base)
anything else         |SEAT|                    against perplexity                (at most 5 % above base)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from levelhead.edits.sites import Variant
from levelhead.measures.measurement import Measurement
from levelhead.mitigation.fitting import default_pairs
from levelhead.mitigation.recipe import recipe_text
from levelhead.models.model import Model
from levelhead.scoring.battery import Battery
from levelhead.scoring.fluency import ask_fluency_change
from levelhead.scoring.pairs import ask_ability, ask_nli, ask_nsp
from levelhead.scoring.seat import absolute_seats
from levelhead.scoring.word_table import word_table
from levelhead.studies.projections.settings import Setting, depth_settings, paper_settings, variants_of

POINTS, RATIO = 0.05, 1.05


@dataclass(frozen=True)
class Candidate:
    """A mitigated model with what it bought and what it cost. gain: larger is fairer."""

    setting: Setting
    bias: tuple[str, float | None]
    ability: tuple[str, float | None]
    gain: float
    viable: bool

    def row(self, model: Model) -> dict[str, Any]:
        """For the run folder."""
        recipe = recipe_text(self.setting.recipe(model)) if self.setting.steps else ""
        return {
            "variant": self.setting.name,
            "level": self.setting.level_name(model.layers),
            "code": self.setting.code,
            "bias": {"name": self.bias[0], "value": self.bias[1]},
            "ability": {"name": self.ability[0], "value": self.ability[1]},
            "viable": self.viable,
            "gain": self.gain,
            "recipe": recipe,
        }


def candidates(model: Model, battery: Battery, starts: int) -> list[Candidate]:
    """The untouched model, the paper's settings where the model has a sentence vector, and deeper token
    projections.

    starts: from how many first layers, evenly spaced, token projections are tried.
    """
    settings = list(settings_for(model, starts))
    variants = variants_of(model, settings, default_pairs(model))
    if "nli" in model.abilities:
        return _by_inference(model, battery, settings, variants)
    if "nsp" in model.abilities:
        return _by_triples(model, battery, settings, variants)
    return _by_words(model, battery, settings, variants)


def settings_for(model: Model, starts: int) -> Sequence[Setting]:
    """Untouched first."""
    judged = model.abilities & {"nli", "nsp"}
    paper = paper_settings() if judged else (Setting("base"),)
    last = (
        model.layers - 1 if judged else model.layers
    )  # a sentence vector does not see the last layer's other tokens
    firsts = sorted({round(i * (last - 1) / max(1, starts - 1)) for i in range(starts)}) if starts else []
    deep = [s for first in firsts for s in depth_settings(model.layers, first) if s.steps[0].dimensions <= 2]
    return [*paper, *deep]


def best(found: Sequence[Candidate]) -> Candidate | None:
    """The fairest viable one that is fairer than the untouched model, if there is any."""
    base = found[0].gain
    able = [c for c in found[1:] if c.viable and c.gain > base]
    return max(able, key=lambda c: c.gain, default=None)


def _by_inference(
    model: Model, battery: Battery, settings: Sequence[Setting], variants: Sequence[Variant]
) -> list[Candidate]:
    fair = [row["fairness"] for row in ask_nli(model, battery.probe, variants)]
    able = ask_ability(model, battery.ability, variants)
    return _judged(settings, fair, able, sign=1)


def _by_triples(
    model: Model, battery: Battery, settings: Sequence[Setting], variants: Sequence[Variant]
) -> list[Candidate]:
    found = ask_nsp(model, battery.triples, variants)
    return _judged(settings, [row["strength"] for row in found], [row["lms"] for row in found], sign=-1)


def _judged(
    settings: Sequence[Setting], bias: Sequence[Measurement], able: Sequence[Measurement], sign: int
) -> list[Candidate]:
    floor = (able[0].value or 0.0) - POINTS - 1e-9
    return [
        Candidate(
            setting, (b.name, b.value), (a.name, a.value), sign * (b.value or 0.0), (a.value or 0.0) >= floor
        )
        for setting, b, a in zip(settings, bias, able, strict=True)
    ]


def _by_words(
    model: Model, battery: Battery, settings: Sequence[Setting], variants: Sequence[Variant]
) -> list[Candidate]:
    seats = absolute_seats(model, word_table(battery.test, battery.contexts), variants)
    costs = ask_fluency_change(model, battery.sentences, variants, battery.resampling)
    return [
        Candidate(
            s, ("|seat|", seat), ("fluency change", c.value), -seat, c.value is None or c.value <= RATIO
        )
        for s, seat, c in zip(settings, seats, costs, strict=True)
    ]
