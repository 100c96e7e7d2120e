"""A model of its own with the same weights, for what changes them."""

from __future__ import annotations

from copy import deepcopy

from levelhead.errors import CannotDo
from levelhead.models.concurrency import asking
from levelhead.models.model import Model
from levelhead.models.sources import Source


def why_no_copy(model: Model) -> str:
    """Why a model's weights cannot be copied; empty where they can."""
    return "it comes with an adapter" if model.adapter else model.fixed_weights


def copied(model: Model, name: str, otherwise: str) -> Model:
    """The copy, whose weights stand beside the model's in memory.

    otherwise: what to do where there is no copy.
    """
    if obstacle := why_no_copy(model):
        raise CannotDo(f"{model.name}: {obstacle}; {otherwise}.")
    with asking(model.hf):
        hf = deepcopy(model.hf)
    about = model.origin, model._missing
    alone, opening = model.placement.alone(), model.opening
    return Model(Source(name, hf, model.tokenizer, *about, placement=alone, opening=opening))
