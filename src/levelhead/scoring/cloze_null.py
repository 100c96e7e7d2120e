"""Cloze prompts in null models: is what knowledge does to the log-odds more than what it does to any words?

Any two words are moved apart by a sentence that names one of them; only what goes beyond that is meaning. A
few twins copy the named word and are moved ten times as far as the others: the tails are long. Null models
come in rounds, kind by kind: a kind of knowledge whose verdicts are all closed is not asked of further ones
(measures/rounds.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from levelhead.measures.null import NullDistribution
from levelhead.measures.rounds import closed, looked_at, looks
from levelhead.models.model import Model
from levelhead.models.twins import draw_twin, twin_seed, twinned
from levelhead.probes.cloze import BASE, ClozeSet
from levelhead.progress import steps
from levelhead.scoring.cloze import Change, ask_cloze


def change_nulls(
    model: Model,
    cloze_set: ClozeSet,
    changes: Sequence[Mapping[Change, float]],
    planned: int,
    seed: int = 0,
    chat: bool = False,
) -> list[dict[Change, NullDistribution]]:
    """What null models show of every change of log-odds, for each variant of a model.

    changes: of each variant, by name and kind. Each has as many null models as its own verdict needs, so that
    no variant's numbers hang on which others were asked beside it.
    """
    told: dict[Change, list[float]] = {}
    kinds = tuple(kind for kind in cloze_set.kinds if kind != BASE)
    with steps("Prompts in null models", planned) as advance:
        for number in range(planned):
            if number in looks(planned):
                kinds = tuple(
                    kind for kind in kinds if any(_open(kind, own, told, planned) for own in changes)
                )
            if kinds:
                with twinned(model, draw_twin(model, twin_seed(seed, number))):
                    answers = ask_cloze(model, cloze_set.of_kinds({BASE, *kinds}), ks=(1,), chat=chat)[0]
                for change, value in answers.changes().items():
                    told.setdefault(change, []).append(value)
            advance(1)
    return [
        {change: _null(told[change], value, planned) for change, value in own.items() if _told(told, change)}
        for own in changes
    ]


def _told(told: Mapping[Change, Sequence[float]], change: Change) -> bool:
    return len(told.get(change, ())) > 1


def _open(
    kind: str, own: Mapping[Change, float], told: Mapping[Change, Sequence[float]], planned: int
) -> bool:
    """Whether a verdict on this kind needs further null models."""
    return any(
        not closed(_null(told[change], value, planned), value, planned)
        for change, value in own.items()
        if change[1] == kind and _told(told, change)
    )


def _null(told: Sequence[float], value: float, planned: int) -> NullDistribution:
    """The null models up to the look at which the verdict on a value was closed; else all of them."""
    there = [look for look in looks(planned) if look <= len(told)]
    nulls = [NullDistribution(np.asarray(told[:look]), long_tails=True) for look in there]
    null = next((each for each in nulls if closed(each, value, planned)), nulls[-1])
    return looked_at(null, value, planned)
