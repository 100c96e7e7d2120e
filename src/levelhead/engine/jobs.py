"""A job: one pass over rows as a value, which any process that holds the model can run batch by batch.

What a batch gives does not depend on who runs it, nor on the other batches. So a job's batches can be done in
any order, by anyone, twice if need be; whoever wants the answers takes what they give in the order of the
batches.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from levelhead.engine.batches import Tokens
from levelhead.engine.budget import Work, token_budget
from levelhead.engine.memory import Fitting, Parcel
from levelhead.errors import CannotDo
from levelhead.models.model import Model, load
from levelhead.models.placement import LoadOptions, Placement
from levelhead.models.twins import Twin, twinned

T = TypeVar("T")
_HELD: dict[str, Model] = {}  # models of this process by what they are copies of, the last used one last
MOST_HELD = 2  # a study asks two models in turn at most


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

    @classmethod
    def of(cls, model: Model) -> Copy:
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
        return cls(absolute(model.name), options, model.fingerprint)


def worker_device(placed: Placement) -> str | None:
    """The device of a worker's model: its own card, if it has any; None where a map says it."""
    if placed.device_map is not None:
        return None
    if placed.workers is not None and placed.workers.gpus:
        return "cuda"
    return "cpu" if placed.device.type == "cuda" else str(placed.device)


def absolute(name: str) -> str:
    """A model's name as it is understood in any folder."""
    path = Path(name).expanduser()
    return str(path.absolute()) if path.exists() else name


def held(copy: Copy) -> Model:
    """A model that this process holds; it is loaded where it does not hold it yet."""
    key = repr(copy)
    model = _HELD.pop(key, None)
    if model is None:
        while len(_HELD) >= MOST_HELD:
            del _HELD[next(iter(_HELD))]
        model = load(copy.name, **copy.options)
        if model.fingerprint != copy.fingerprint:
            raise CannotDo(
                f"{copy.name} is another model where a worker loads it. Give all machines the same files."
            )
    _HELD[key] = model
    return model


def held_alone(name: str, options: LoadOptions) -> Model:
    """A model by its name; the ones that this process held before are let go first."""
    key = repr((name, options))
    if key not in _HELD:
        _HELD.clear()
        gc.collect()
        _HELD[key] = load(name, **options)
    return _HELD[key]


@dataclass(frozen=True, eq=False)
class Order:
    """A job, the model that it is for, the twins that it is of, and its batches as numbers of rows."""

    copy: Copy
    job: Job
    twins: tuple[Twin, ...]
    limit: int  # tokens of a batch
    batches: tuple[Sequence[int], ...]

    def parcels(self, number: int) -> list[Parcel]:
        """What the batch of this number gives, here and now."""
        return called(self.copy, self.twins, self._parcels, number)

    def _parcels(self, model: Model, number: int) -> list[Parcel]:
        work = self.job.work
        limit = min(self.limit, model.fitting_tokens.get(work, self.limit))  # less, where memory ran out
        with self.job.ready(model):
            fitting = Fitting(model, self.job.rows, work, limit)
            return self.job.parcels(model, fitting, self.batches[number])


def called(copy: Copy, twins: Sequence[Twin], function: Callable[..., T], *given: Any) -> T:
    """What a function of a model gives here, while the model is its twin."""
    model = held(copy)
    with ExitStack() as stack:
        for twin in twins:
            stack.enter_context(twinned(model, twin))
        return function(model, *given)


def budget(copy: Copy, work: Work) -> int:
    """How many tokens fit into a batch here."""
    return token_budget(held(copy), work)
