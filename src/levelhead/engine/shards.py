"""What batches of a long pass gave, in the run's folder: a driver that dies asks only for the others again.

    RUN/shards/<sha256 of the order>/<number of the batch>.npz

An order's hash covers the model's fingerprint, rows, asks, edits, twins, cotangents and the cut into batches,
so what lies there is what would be computed. Only passes that take long are kept; the folder goes when the
run has ended.
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
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from levelhead.engine.jobs import Order
from levelhead.engine.memory import Parcel
from levelhead.files import write_inside
from levelhead.models.model import Model
from levelhead.ordinary import reading

LONG = 30.0  # seconds of a pass from which on its batches are kept
# of each thread alone: two runs may ask one model at once
_FOLDERS: ContextVar[Mapping[Model, Path] | None] = ContextVar("levelhead_shards", default=None)
_DAMAGES = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)


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


class Pace:
    """Whether a pass takes long, by the time from its first batch on: what came before was preparation."""

    def __init__(self, batches: int) -> None:
        self._batches, self._done, self._began = batches, 0, 0.0

    def is_long(self) -> bool:
        """Count a batch that is done, and say how long all of them will take by now."""
        self._began = self._began or time.monotonic()
        taken = (time.monotonic() - self._began) / max(1, self._done)
        self._done += 1
        return taken * self._batches >= LONG


class Shards:
    """What batches of one order gave, by their numbers."""

    def __init__(self, place: Path, order: Order) -> None:
        self._place, self._order = place, order

    @classmethod
    def of(cls, model: Model, order: Order) -> Shards | None:
        """The shards of an order; None where no run keeps any for this model."""
        place = (_FOLDERS.get() or {}).get(model)
        return None if place is None else cls(place, order)

    @cached_property
    def _folder(self) -> Path | None:
        """Named by the order, once something is to be kept or may be there: to hash a corpus takes time.

        None where an edit of a user's own cannot be hashed: then nothing is kept.
        """
        try:
            return self._place / order_hash(self._order)
        except (pickle.PicklingError, AttributeError, TypeError):
            return None

    def missing(self) -> list[int]:
        """The batches that are not there."""
        folder = self._folder if self._place.is_dir() else None
        there = set() if folder is None else {path.name for path in folder.glob("*.npz")}
        return [number for number in range(len(self._order.batches)) if f"{number}.npz" not in there]

    def read(self, number: int) -> list[Parcel] | None:
        """What a batch gave; None where its file is damaged."""
        if self._folder is None:
            return None
        try:
            place = _inside_run(self._folder / f"{number}.npz")
            with reading(*place) as file, np.load(file, allow_pickle=False) as stored:
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
        write_inside(
            *_inside_run(self._folder / f"{number}.npz"),
            lambda work: np.savez(work, parcels=places, **arrays),
        )


def _inside_run(shard: Path) -> tuple[Path, str]:
    """A run's folder, and the name of a shard inside it."""
    run = shard.parents[2]
    return run, shard.relative_to(run).as_posix()


def order_hash(order: Order) -> str:
    """sha256 of all that an order's answers depend on."""
    digest = hashlib.sha256()
    _Canonical(digest.update).dump((order.copy.fingerprint, order.job, order.twins, order.batches))
    return digest.hexdigest()


class _Canonical(pickle.Pickler):
    """The same bytes for equal values in every process: a tensor is its numbers, not its storage's address,
    and it does not matter which parts of a value are one object."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        super().__init__(_Sink(write), protocol=5)
        self.fast = True

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            numbers = value.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes()
            return tuple, ((str(value.dtype), tuple(value.shape), numbers),)
        if isinstance(value, set | frozenset):
            return tuple, (tuple(sorted(map(repr, value))),)
        return NotImplemented


class _Sink:
    """A file that is only written to."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write

    def write(self, data: bytes) -> int:
        self._write(data)
        return len(data)
