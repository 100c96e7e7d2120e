"""Null models with a known association: as much as is planted, and nothing else (docs/planted.md)."""

from __future__ import annotations

import numpy as np

from levelhead.edits.gates import all_heads
from levelhead.errors import CannotDo
from levelhead.models.model import Model
from levelhead.models.null_model import draw_null_model, null_model_copy
from levelhead.probes.contexts import template_contexts
from levelhead.probes.words import load_words
from levelhead.scoring.objectives import word_objective
from levelhead.scoring.seat import word_table
from levelhead.studies.planted.run import Planter

HEADS = 3
MEASURED, FITTED = 2, 6  # templates that the rise is measured on, and up to which the plant is fitted on
_STRONGEST = 4.0  # heads that do not raise |SEAT| enough at this strength are not taken
_HALVINGS = 6  # of the range of strengths
_TRIES = 10


def planted_null_model(model: Model, seed: int, rise: float, bias: str = "gender") -> Model:
    """A null model of a model with a planted association: as much as is planted, and nothing else."""
    return planted_copy(null_model_copy(model, draw_null_model(model, seed)), seed, rise, bias)


def planted_copy(model: Model, seed: int, rise: float, bias: str = "gender") -> Model:
    """A copy in which three heads tie X to A and Y to B, just so strongly that |SEAT| is higher by `rise`.

    The heads are drawn with the seed. The strength is searched by halving, on templates that the plant is not
    fitted on.
    """
    test = load_words(bias)
    table = word_table(test, template_contexts(test, MEASURED))
    contexts = template_contexts(test, FITTED)
    planter = Planter(model, [each for i, each in enumerate(contexts) if i % FITTED >= MEASURED])
    before = word_objective(table).sizes(model)[0]
    rng, heads = np.random.default_rng(seed), all_heads(model)

    def risen(strength: float) -> float:
        return word_objective(table).sizes(planter.planted(dict.fromkeys(chosen, strength)))[0] - before

    for _ in range(_TRIES):
        chosen = [heads[i] for i in rng.permutation(len(heads))[:HEADS]]
        low, high = 0.0, _STRONGEST
        if risen(high) < rise:
            continue
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if risen(middle) >= rise else (middle, high)
        return planter.planted(dict.fromkeys(chosen, high))
    raise CannotDo(f"No {HEADS} heads of {model.name} that were drawn can raise |SEAT| by {rise:g}.")
