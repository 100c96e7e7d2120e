"""Next sentences in null models: is a preference more than what any words would show?

Contexts share their gender words. In a model to which words mean nothing, "she" may still go well with one
kind of sentence and "he" with another, in all contexts alike, and no flip of single contexts sees that. Null
twins do (models/twins.py; docs/method.md, Preference).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from levelhead.errors import CannotDo
from levelhead.measures.measurement import ABOUT_NULLS, NULL_MODELS, Measurement
from levelhead.measures.null import NullDistribution
from levelhead.measures.rounds import ALPHA, closed, looked_at, looks
from levelhead.models.model import Model
from levelhead.models.twins import draw_twin, twin_seed, twinned
from levelhead.probes.triples import TripleSet
from levelhead.progress import steps
from levelhead.scoring.next_sentences import related_answers
from levelhead.scoring.pairs import signed_measures


def held_against_twins(
    model: Model, triples: TripleSet, measured: Mapping[str, Measurement], twins: int, seed: int = 0
) -> dict[str, Measurement]:
    """ss_paired, preference and strength with the harder of two nulls: sign flips, and so many null twins.

    Preference and strength are compared relative to the root mean square of each model's own differences.
    They come in rounds: no more of them are asked once no verdict can change (measures/rounds.py). Fewer
    than 2 twins: the measurements as they came. A model that has no twin states the reason under
    settings["null twins"].
    """
    if twins < 2:
        return dict(measured)
    try:
        nulls = _nulls(model, triples, measured, twins, seed)
    except CannotDo as error:
        return {
            name: each
            if each.null is None
            else replace(each, settings={**each.settings, ABOUT_NULLS: str(error)})
            for name, each in measured.items()
        }
    return {
        name: nulls[name].harder(each, NULL_MODELS) if name in nulls else each
        for name, each in measured.items()
    }


def _nulls(
    model: Model, triples: TripleSet, measured: Mapping[str, Measurement], planned: int, seed: int
) -> dict[str, NullDistribution]:
    """The relative value of every signed measure in each twin; none of a measure that some twin lacks."""
    relative: dict[str, list[float | None]] = {}
    asked = 0
    with steps("Next sentences in null models", planned) as advance:
        while asked < planned:
            with twinned(model, draw_twin(model, twin_seed(seed, asked))):
                answers = related_answers(model, triples)
            for name, each in signed_measures(triples, answers).items():
                relative.setdefault(name, []).append(each.relative)
            asked += 1
            advance(1)
            nulls = _distributions(relative, asked)
            if asked in looks(planned) and all(
                _closed(measured[name], null, planned) for name, null in nulls.items()
            ):
                break
    values = {name: measured[name].relative for name in nulls}
    return {
        name: looked_at(nulls[name], value, planned) for name, value in values.items() if value is not None
    }


def _distributions(relative: Mapping[str, Sequence[float | None]], asked: int) -> dict[str, NullDistribution]:
    known = {name: [v for v in values if v is not None] for name, values in relative.items()}
    return {
        name: NullDistribution(np.asarray(values))
        for name, values in known.items()
        if len(values) == asked > 1
    }


def _closed(measured: Measurement, null: NullDistribution, planned: int) -> bool:
    """Whether more twins would change nothing: of two nulls the larger p counts, so one can be enough."""
    if measured.relative is None or measured.null is None or measured.null.p_value >= ALPHA:
        return True
    return closed(null, measured.relative, planned)
