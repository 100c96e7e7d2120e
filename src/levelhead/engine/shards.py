"""A job done by a model's workers, and what its batches gave, kept in the run's folder.

    RUN/shards/<sha256 of the order>/<number of the batch>.npz

After a driver died, only batches that were not done are run again. An order's hash covers the
model's fingerprint, rows, asks, edits, null models, cotangents and the cut into batches, so what lies there
is what would be computed. Only passes that take long are kept; the folder goes when the run has ended.
"""

from __future__ import annotations

import hashlib
import pickle
import shutil
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from secrets import token_hex
from types import SimpleNamespace
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from levelhead.engine.jobs import Copy, Job, Order, called, held_as
from levelhead.engine.memory import Fitting, Parcel, shared_budget, token_budget
from levelhead.engine.ray_workers import Crew, crew
from levelhead.models.concurrency import asking
from levelhead.models.model import Model
from levelhead.models.null_model import NullModel
from levelhead.safe_files import reading, write_inside

P = ParamSpec("P")
T = TypeVar("T")
LONG = 30.0  # seconds of a pass from which on its batches are kept
_AHEAD = 2  # batches that a worker has at once: the next is there when one is done
# of each thread alone: two runs may ask one model at once
_FOLDERS: ContextVar[Mapping[Model, Path] | None] = ContextVar("levelhead_shards", default=None)
_DAMAGES = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)


# ---- workers


def crew_of(model: Model) -> ModelCrew | None:
    """Who works for a model: None where it has no workers, or where it is not what they would load."""
    workers = model.placement.workers
    if workers is None:
        return None
    with asking(model.hf):  # what another thread has put on does not concern this one
        if not model.is_as_loaded:
            return None
        null_models = [context.value for context in model.standing if isinstance(context.value, NullModel)]
        if len(null_models) < len(model.standing):
            return None
        return ModelCrew(model, tuple(null_models), crew(workers))


@dataclass(frozen=True, eq=False)
class ModelCrew:
    """Workers who hold one model, as its null model where it is one now."""

    model: Model
    null_models: tuple[NullModel, ...]
    crew: Crew

    def copy(self) -> Copy:
        """How workers load the model. On a cluster all load it before one of them begins."""
        copy = Copy.of(self.model, self.crew.shipment(self.model.path, self.model.trust))
        self.crew.all_do(copy.fingerprint, held_as, copy)
        return copy

    def work(
        self, job: Job, batch_tokens: int | None, cut: Sequence[Sequence[int]] | None = None
    ) -> Iterator[tuple[Sequence[int], list[Parcel]]]:
        """Every batch as the numbers of its rows, and what it gives, in the order of the batches.

        cut: the batches themselves, where they must be the same whatever memory there is.
        """
        copy = self.copy()
        limit = (
            1
            if cut is not None
            else batch_tokens or self.model.placement.batch_tokens or shared_budget(self.model, job.work)
        )
        if limit is None:
            # what one worker measures holds for all, so that their number decides nothing; all of them
            # measure, so that all load the model meanwhile
            calls = [(copy, (), token_budget, job.work)] * len(self.crew.hands)
            measured: int = next(self.crew.call(called, calls))
            limit = self.model.fitting_tokens.setdefault(f"{job.work} of workers", measured)
        batches = tuple(cut or Fitting(self.model, job.rows, job.work, limit).batches())
        order = Order(copy, job, self.null_models, limit, batches)
        folder = (_FOLDERS.get() or {}).get(self.model)
        shards = None if folder is None else Shards(folder, order)
        missing = range(len(batches)) if shards is None else shards.missing()
        place, key = [self.crew.share(order)], token_hex(8)  # the order travels to each worker once

        def send(number: int, actor: Any) -> Any:
            return actor.parcels.remote(place, key, number)

        coming = self.crew.in_order([partial(send, number) for number in missing], _AHEAD)
        new, pace = set(missing), Pace(len(missing))
        for number, rows in enumerate(batches):
            parcels = None if shards is None or number in new else shards.read(number)
            if parcels is None:  # or its file is damaged
                again = [partial(send, number)]
                parcels = next(coming if number in new else self.crew.in_order(again, _AHEAD))
                if shards is not None and pace.is_long():
                    shards.write(number, parcels)
            yield rows, parcels

    def call(
        self, function: Callable[Concatenate[Model, P], T], calls: Sequence[tuple[Any, ...]]
    ) -> Iterator[T]:
        """What a function of the model gives with each of these arguments, in order; workers call it."""
        copy = self.copy()
        return self.crew.call(called, [(copy, self.null_models, function, *given) for given in calls])


# ---- what batches gave


@contextmanager
def keeping_shards(models: Iterable[Model], folder: Path) -> Iterator[None]:
    """Inside, long passes of these models keep what their batches gave in this folder; it goes when all went
    well."""
    token = _FOLDERS.set({**(_FOLDERS.get() or {}), **dict.fromkeys(models, folder)})
    try:
        yield
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        _FOLDERS.reset(token)


@dataclass
class Pace:
    """Whether a pass takes long, by the time from its first batch on: what came before was preparation."""

    batches: int
    done: int = 0
    began: float = 0.0

    def is_long(self) -> bool:
        """Count a batch that is done, and say how long all of them will take by now."""
        self.began = self.began or time.monotonic()
        taken = (time.monotonic() - self.began) / max(1, self.done)
        self.done += 1
        return taken * self.batches >= LONG


@dataclass(eq=False)
class Shards:
    """What batches of one order gave, by their numbers."""

    _place: Path
    _order: Order

    @cached_property
    def _folder(self) -> Path | None:
        """Named by all that the answers depend on, once something is to be kept or may be there: to hash a
        corpus takes time. None where an edit of a user's own cannot be hashed: then nothing is kept."""
        order, digest = self._order, hashlib.sha256()
        try:
            _Canonical(digest.update).dump(
                (order.copy.fingerprint, order.job, order.null_models, order.batches)
            )
        except (pickle.PicklingError, AttributeError, TypeError):
            return None
        return self._place / digest.hexdigest()

    def missing(self) -> list[int]:
        folder = self._folder if self._place.is_dir() else None
        there = set() if folder is None else {path.name for path in folder.glob("*.npz")}
        return [number for number in range(len(self._order.batches)) if f"{number}.npz" not in there]

    def read(self, number: int) -> list[Parcel] | None:
        """What a batch gave; None where its file is damaged."""
        if self._folder is None:
            return None
        run, name = self._place.parent, f"{self._place.name}/{self._folder.name}/{number}.npz"
        try:
            with reading(run, name) as file, np.load(file, allow_pickle=False) as stored:
                return [
                    Parcel(int(collector), int(variant), stored[f"asks{i}"], stored[f"values{i}"])
                    for i, (collector, variant) in enumerate(stored["parcels"])
                ]
        except _DAMAGES:
            return None

    def write(self, number: int, parcels: Sequence[Parcel]) -> None:
        """Keep what a batch gave; the file appears whole or not at all."""
        if self._folder is None:
            return
        arrays: dict[str, Any] = {f"asks{i}": parcel.asks for i, parcel in enumerate(parcels)}
        arrays |= {f"values{i}": parcel.values for i, parcel in enumerate(parcels)}
        places = np.asarray([(p.number, p.variant) for p in parcels], np.int64).reshape(-1, 2)
        run, name = self._place.parent, f"{self._place.name}/{self._folder.name}/{number}.npz"
        write_inside(run, name, lambda work: np.savez(work, parcels=places, **arrays))


class _Canonical(pickle.Pickler):
    """The same bytes for equal values in every process: a tensor is its numbers, not its storage's address,
    and it does not matter which parts of a value are one object."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        super().__init__(cast(Any, SimpleNamespace(write=write)), protocol=5)
        self.fast = True

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            numbers = value.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes()
            return tuple, ((str(value.dtype), tuple(value.shape), numbers),)
        if isinstance(value, set | frozenset):
            return tuple, (tuple(sorted(map(repr, value))),)
        return NotImplemented
