"""Next sentences of part A as choices between a stereotype and its opposite, of both genders."""

from __future__ import annotations

from levelhead.engine.choosing import Choice, choices
from levelhead.models.copied import why_no_copy
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender, none_ships
from levelhead.scoring.battery import Battery
from levelhead.studies.mitigating.training import apart


def why_no_choices(model: Model, fit: Battery) -> str:
    """Why a model cannot be shown stereotypes of part A; empty where it can."""
    if not about_gender(fit.test):
        return none_ships("next sentences", fit.test)
    if not model.abilities & {"nsp", "causal"}:
        return f"{model.name} cannot judge a next sentence"
    return why_no_copy(model) and f"{model.name} cannot be changed: {why_no_copy(model)}"


def fitted_choices(model: Model, fit: Battery) -> tuple[list[Choice], list[Choice]]:
    """Every triple of part A that has a twin, and the twin, which says of men what it says of women; the
    second list is apart from training.
    """
    twins = [(pair.original, pair.swapped) for pair in fit.triples.pairs if pair.swapped is not None]
    split = apart(len(twins))
    some, few = (
        [(triple.context, triple.stereotype, triple.anti) for pair in part for triple in pair]
        for part in (twins[split:], twins[:split])
    )
    return choices(model, some), choices(model, few)
