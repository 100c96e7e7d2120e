"""A job: one pass over rows as a value, which any process that holds the model can run batch by batch.

What a batch gives does not depend on who runs it, nor on the other batches: they can be run in any order, by
anyone, twice if need be. Answers are put together in the order of the batches.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from levelhead.engine.batches import Tokens
from levelhead.engine.memory import Fitting, Parcel, Work
from levelhead.engine.shipping import Shipment
from levelhead.errors import CannotDo
from levelhead.models.model import Model, load
from levelhead.models.null_model import NullModel, as_null_model
from levelhead.models.placement import LoadOptions, Placement

T = TypeVar("T")
_HELD: dict[str, Model] = {}  # models of this process by what they are copies of, the last used one last
MOST_HELD = 2  # a study alternates between two models at most


class Job(Protocol):
    """What all batches of a pass have in common."""

    work: ClassVar[Work]

    @property
    def rows(self) -> Sequence[Tokens]: ...

    def ready(self, model: Model) -> AbstractContextManager[None]:
        """The model as its batches need it."""

    def parcels(self, model: Model, fitting: Fitting, numbers: Sequence[int]) -> list[Parcel]:
        """What these rows give."""


@dataclass(frozen=True)
class Copy:
    """How another process loads a model, and the fingerprint by which it knows that it is the same one."""

    name: str
    options: LoadOptions
    fingerprint: str
    files: Shipment | None = field(default=None, repr=False, compare=False)  # for machines without them

    @classmethod
    def of(cls, model: Model, files: Shipment | None = None) -> Copy:
        """How a worker loads this model: with its own cards, if it has any, else on this model's device."""
        placed, trust = model.placement, model.trust
        options: LoadOptions = {
            "device": worker_device(placed),
            "dtype": placed.dtype,
            "device_map": placed.device_map,
            "max_memory": placed.max_memory,
            "cache": model.cache,
            "allow_pickle": trust.pickle,
            "trust_remote_code": trust.remote_code,
        }
        path = Path(model.name).expanduser()  # a worker may stand in another folder
        name = str(path.absolute()) if path.exists() else model.name
        return cls(name, options, model.fingerprint, files)


def worker_device(placed: Placement) -> str | None:
    """The device of a worker's model: its own card, if it has any; None where a map says it."""
    if placed.device_map is not None:
        return None
    if placed.workers is not None and placed.workers.gpus:
        return "cuda"
    return "cpu" if placed.device.type == "cuda" else str(placed.device)


def held(copy: Copy) -> Model:
    """A model that this process holds; it is loaded where it does not hold it yet."""
    key = repr(copy)
    model = _HELD.pop(key, None)
    if model is None:
        while len(_HELD) >= MOST_HELD:
            del _HELD[next(iter(_HELD))]
        if copy.files is None and Path(copy.name).is_absolute() and not Path(copy.name).exists():
            raise CannotDo(f"{copy.name} is not there. Put it there, or let it be sent (--ship-model).")
        model = received(copy.name, copy.options, copy.files, copy.fingerprint)
        if model.fingerprint != copy.fingerprint:
            raise CannotDo(
                f"{copy.name} is another model where a worker loads it. Give all machines the same files."
            )
    _HELD[key] = model
    return model


def held_as(copy: Copy) -> str:
    """Load a model, and say which one it is."""
    return held(copy).fingerprint


def received(name: str, options: LoadOptions, files: Shipment | None, fingerprint: str = "") -> Model:
    """A model of this machine, or one whose files it is sent."""
    if files is None:
        return load(name, **options)
    place, kept = files.received(name, fingerprint, options.get("device") == "cpu")
    model = load(place, **options)
    model.name = name  # which messages say
    if kept is not None:
        weakref.finalize(model.hf, kept.release)
    return model


def held_alone(name: str, options: LoadOptions, files: Shipment | None = None) -> Model:
    """A model by its name; the ones that this process held before are let go first."""
    key = repr((name, options, None if files is None else files.files))
    if key not in _HELD:
        _HELD.clear()
        gc.collect()
        _HELD[key] = received(name, options, files)
    return _HELD[key]


@dataclass(frozen=True, eq=False)
class Order:
    """A job, the model that it is for, the null models that it is of, and its batches as numbers of rows."""

    copy: Copy
    job: Job
    null_models: tuple[NullModel, ...]
    limit: int  # tokens of a batch
    batches: tuple[Sequence[int], ...]

    def parcels(self, number: int) -> list[Parcel]:
        """What the batch of this number gives, here and now."""

        def given(model: Model) -> list[Parcel]:
            work = self.job.work
            limit = min(self.limit, model.fitting_tokens.get(work, self.limit))  # less, where memory ran out
            with self.job.ready(model):
                fitting = Fitting(model, self.job.rows, work, limit)
                return self.job.parcels(model, fitting, self.batches[number])

        return called(self.copy, self.null_models, given)


def called(copy: Copy, null_models: Sequence[NullModel], function: Callable[..., T], *given: Any) -> T:
    """What a function of a model gives here, while the model is its null model."""
    model = held(copy)
    with ExitStack() as stack:
        for null_model in null_models:
            stack.enter_context(as_null_model(model, null_model))
        return function(model, *given)
