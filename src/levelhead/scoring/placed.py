"""Where a model lay while it ran, and how large its batches were: noted beside the results.

Nothing of it belongs to a run's settings: a run goes on where cards, or what is free on them, differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from levelhead.engine.memory import known_budget, shared_budget
from levelhead.engine.served.writing import connected
from levelhead.engine.shards import keeping_shards
from levelhead.models.model import Model
from levelhead.models.placement import LoadOptions, placement
from levelhead.models.served import ServedModel
from levelhead.models.sources import IN_MEMORY, trust_of
from levelhead.probes.words import in_memory, words_name
from levelhead.runs.common import PlacedModel
from levelhead.runs.files import file_label
from levelhead.runs.folder import Run
from levelhead.runs.study import PLACES, SHARDS, AnyRun, LoadedAs, Stored, stored_as

K = TypeVar("K", bound=Stored)
SERVERS = "servers"  # a folder with one folder per server


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


def loaded_as(models: Iterable[Model | ServedModel]) -> LoadedAs:
    """How to load these models again: with the same options, which the commands have for all at once."""
    ways = set()
    for model in models:
        if isinstance(model, ServedModel):  # its name says all
            ways.add(LoadedAs())
            continue
        by_hand = model.origin == IN_MEMORY or bool(model.standing)
        dtype = None if by_hand else model.placement.dtype
        written = None if dtype is None else str(dtype).removeprefix("torch.")
        ways.add(LoadedAs(written, model.trust.pickle, model.trust.remote_code, by_hand))
    return ways.pop() if len(ways) == 1 else LoadedAs(in_python=True)


def stored_of(
    model: Model,
    study: type[AnyRun],
    kind: type[K],
    settings: Any,
    made: Mapping[str, bool] | None = None,
    **more: Any,
) -> K:
    """The settings of a study of one model about one word list, as its run stores them.

    made: further settings by name, and whether Python made them, so that no command can name them.
    """
    in_python = {"bias": in_memory(settings.bias), **(made or {})}
    whose = {"study": study.name, "models": (model.name,), "loading": loaded_as([model])}
    named = {"bias": words_name(settings.bias), "in_memory": tuple(n for n, own in in_python.items() if own)}
    return stored_as(kind, settings, **{**whose, **named, **more})


def loaded_by(options: LoadOptions) -> LoadedAs:
    dtype, trust = placement(options).dtype, trust_of(options)
    written = None if dtype is None else str(dtype).removeprefix("torch.")
    return LoadedAs(written, trust.pickle, trust.remote_code)


@contextmanager
def keeping_long_work(
    run: Run[Any], models: Iterable[Model | ServedModel], apart: bool = False
) -> Iterator[None]:
    """Inside, what workers give for a long reading is kept in the run's folder, batch by batch, until all is
    done: a run that was killed in its middle asks for the rest. So is every answer of a server.

    apart: each server's answers have a folder of their own, as where a run asks several servers.
    """
    every = list(models)
    with ExitStack() as stack:
        own = [each for each in every if not isinstance(each, ServedModel)]
        stack.enter_context(keeping_shards(own, run.folder.absolute() / SHARDS))
        for each in every:
            if isinstance(each, ServedModel):
                inside = f"{SERVERS}/{file_label(each.name)}" if apart else ""
                stack.enter_context(connected(each, run.folder.absolute(), inside))
        yield


def note_places(run: Run[Any], models: Iterable[Model | ServedModel]) -> None:
    """Write the places of a run's models; a server does not say where its model lies. What an earlier part of
    the run measured stays where this part has measured nothing."""
    earlier = {line.model: line for line in PLACES.read(run.folder)}
    lines = []
    for model in models:
        if isinstance(model, ServedModel):
            continue
        now = placed(model)
        before = earlier.get(now.model, now)
        batch = now.batch_tokens or before.batch_tokens
        gradient = now.gradient_tokens or before.gradient_tokens
        lines.append(replace(now, batch_tokens=batch, gradient_tokens=gradient))
    run.file(PLACES, lines)
