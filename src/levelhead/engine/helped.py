"""A job done by a model's workers: the batches that nobody has done yet are theirs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar

from levelhead.engine.budget import Work, keep_shared_budget, shared_budget
from levelhead.engine.crew import Crew, crew
from levelhead.engine.jobs import Copy, Job, Order, budget, called
from levelhead.engine.memory import Fitting, Parcel
from levelhead.engine.shards import Pace, Shards
from levelhead.models.concurrency import asking
from levelhead.models.model import Model
from levelhead.models.twins import Twin

P = ParamSpec("P")
T = TypeVar("T")
_AHEAD = 2  # batches that a worker has at once: the next is there when one is done


def crew_of(model: Model) -> ModelCrew | None:
    """Who works for a model: None where it has no workers, or where it is not what they would load."""
    workers = model.placement.workers
    if workers is None:
        return None
    with asking(model.hf):  # what another thread has put on is not asked for here
        if not model.is_as_loaded:
            return None
        twins = [context.value for context in model.standing if isinstance(context.value, Twin)]
        return ModelCrew(model, tuple(twins), crew(workers)) if len(twins) == len(model.standing) else None


@dataclass(frozen=True, eq=False)
class ModelCrew:
    """Workers who hold one model, as its twin where it is one now."""

    model: Model
    twins: tuple[Twin, ...]
    crew: Crew

    def work(self, job: Job, batch_tokens: int | None) -> Iterator[tuple[Sequence[int], list[Parcel]]]:
        """Every batch as the numbers of its rows, and what it gives, in the order of the batches."""
        copy = Copy.of(self.model)
        limit = batch_tokens or self.model.placement.batch_tokens or self._budget(copy, job.work)
        batches = tuple(Fitting(self.model, job.rows, job.work, limit).batches())
        order = Order(copy, job, self.twins, limit, batches)
        shards = Shards.of(self.model, order)
        missing = range(len(batches)) if shards is None else shards.missing()
        with self.crew.holding(order) as send:
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
        copy = Copy.of(self.model)
        return self.crew.call(called, [(copy, self.twins, function, *given) for given in calls])

    def _budget(self, copy: Copy, work: Work) -> int:
        """The tokens of a batch. What one worker measures holds for all: their number decides nothing."""
        known = shared_budget(self.model, work)
        if known is not None:
            return known
        calls = [(copy, work)] * self.crew.size  # all of them, so that all load the model meanwhile
        return keep_shared_budget(self.model, work, next(self.crew.call(budget, calls)))
