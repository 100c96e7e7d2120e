"""Where a model lay while it was asked, and how large its batches were: noted beside the results.

Nothing of it belongs to a run's settings: a run goes on where cards, or what is free on them, differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from levelhead.engine.budget import known_budget, shared_budget
from levelhead.engine.shards import keeping_shards
from levelhead.models.model import Model
from levelhead.models.sources import IN_MEMORY
from levelhead.results import layout
from levelhead.results.folder import Run
from levelhead.results.records.common import PlacedModel
from levelhead.results.settings import LoadedAs


def placed(model: Model) -> PlacedModel:
    """What is known of a model's place and batches by now."""
    device_map = model.placement.device_map
    return PlacedModel(
        model=model.name,
        dtype=str(model.hf.dtype).removeprefix("torch."),
        device=str(model.device),
        device_map=device_map if device_map is None or isinstance(device_map, str) else "own",
        batch_tokens=shared_budget(model, "answers") or known_budget(model, "answers"),
        gradient_tokens=shared_budget(model, "gradients") or known_budget(model, "gradients"),
    )


def loaded_as(models: Iterable[Model]) -> LoadedAs:
    """How to load these models again: with the same options, which the commands have for all at once."""
    ways = {_way(model) for model in models}
    return ways.pop() if len(ways) == 1 else LoadedAs(in_python=True)


def _way(model: Model) -> LoadedAs:
    by_hand = model.origin == IN_MEMORY or bool(model.standing)
    dtype = None if by_hand else model.placement.dtype
    return LoadedAs(
        dtype=None if dtype is None else str(dtype).removeprefix("torch."),
        allow_pickle=model.trust.pickle,
        trust_remote_code=model.trust.remote_code,
        in_python=by_hand,
    )


def keeping_long_work(run: Run[Any], models: Iterable[Model]) -> AbstractContextManager[None]:
    """Inside, what workers give for a long reading is kept in the run's folder, batch by batch, until all is
    done: a run that was killed in its middle asks for the rest."""
    return keeping_shards(models, run.folder.absolute() / layout.SHARDS)


def note_places(run: Run[Any], models: Iterable[Model]) -> None:
    """Write the places of a run's models. What an earlier part of the run measured stays where this part
    has measured nothing."""
    earlier = {line.model: line for line in layout.PLACES.read(run.folder)}
    run.file(layout.PLACES, [_completed(placed(model), earlier.get(model.name)) for model in models])


def _completed(now: PlacedModel, earlier: PlacedModel | None) -> PlacedModel:
    if earlier is None:
        return now
    return replace(
        now,
        batch_tokens=now.batch_tokens or earlier.batch_tokens,
        gradient_tokens=now.gradient_tokens or earlier.gradient_tokens,
    )
