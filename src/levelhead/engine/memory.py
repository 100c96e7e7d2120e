"""Batches that fit: one for which memory runs out is halved, and the work goes on.

What a half has handed over before memory ran out is not handed over again, so the answers are those of small
batches from the start. Later batches are cut to what did fit.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from levelhead.edits.placing import placed
from levelhead.engine.batches import Tokens, batches
from levelhead.engine.budget import Work, token_budget
from levelhead.engine.collectors import Collector, Numbers
from levelhead.errors import CannotDo
from levelhead.models.model import Model

_ON_CPU = "not enough memory"  # torch has no class of its own for it
_ON_THE_WAY = 8  # values that come from a card at once: pages that a card can write to are slow to get
Doing = Callable[[Sequence[int]], None]


class Coming:
    """Values on their way from a card to the host; nobody waits for them before they are opened."""

    def __init__(self, values: Tensor) -> None:
        self._values = values.to("cpu", non_blocking=values.is_cuda)
        self._arrival: torch.cuda.Event | None = None
        if values.is_cuda:
            with torch.cuda.device(values.device):
                self._arrival = torch.cuda.Event()
                self._arrival.record()

    def open(self) -> Tensor:
        """The values on the host."""
        if self._arrival is not None:
            self._arrival.synchronize()
        return self._values


@dataclass(frozen=True, eq=False)
class Parcel:
    """Values that a batch gives, on their way to another process."""

    number: int  # of the collector, or of the cotangent
    variant: int
    asks: Numbers  # [ask]
    values: NDArray[Any]  # [ask, ...], reduced

    @property
    def tensor(self) -> Tensor:
        """The values as a collector takes them; what comes from another process cannot be written to."""
        return torch.from_numpy(self.values if self.values.flags.writeable else self.values.copy())


class Handed:
    """The way from a batch to its collectors: no ask's values pass twice, and nobody waits for a card."""

    def __init__(self) -> None:
        self._passed: dict[tuple[int, int], list[Numbers]] = defaultdict(list)
        self._coming: deque[tuple[Collector[Any], int, Numbers, Coming]] = deque()

    def keep(self, collector: Collector[Any], variant: int, asks: Numbers, values: Tensor) -> None:
        """Give a collector values that are ready for it."""
        collector.take(variant, asks, values)

    def adds_where_it_lies(self, collector: Collector[Any]) -> bool:
        """Whether values are kept before they are reduced and fetched."""
        return collector.adds_up

    def take(self, collector: Collector[Any], variant: int, asks: Numbers, values: Tensor) -> None:
        """Hand over the values [ask, ...] of asks that have none yet; what lies on a card is sent for."""
        passed = self._passed[id(collector), variant]
        if passed:
            new = np.isin(asks, np.concatenate(passed), invert=True)
            asks, values = asks[new], values[placed(torch.from_numpy(new), values.device)]
        if not len(asks):
            return
        if self.adds_where_it_lies(collector):
            self.keep(collector, variant, asks, values)
        elif values.is_cuda:
            self._coming.append((collector, variant, asks, Coming(collector.reduced(asks, values))))
            self._arrive(_ON_THE_WAY)
        else:
            self.keep(collector, variant, asks, collector.reduced(asks, values).cpu())
        passed.append(asks)

    def arrive(self) -> None:
        """Give the collectors what was sent for."""
        self._arrive(0)

    def _arrive(self, left: int) -> None:
        """Give the collectors what was sent for first, until so many are left on the way."""
        while len(self._coming) > left:
            collector, variant, asks, values = self._coming.popleft()
            self.keep(collector, variant, asks, values.open())


class Packed(Handed):
    """The way from a batch to collectors in another process, which keeps and adds what is unpacked there."""

    def __init__(self, collectors: Sequence[Collector[Any]]) -> None:
        super().__init__()
        self._numbers = {id(collector): number for number, collector in enumerate(collectors)}
        self.parcels: list[Parcel] = []

    def keep(self, collector: Collector[Any], variant: int, asks: Numbers, values: Tensor) -> None:
        self.parcels.append(Parcel(self._numbers[id(collector)], variant, asks, values.float().numpy()))

    def adds_where_it_lies(self, collector: Collector[Any]) -> bool:
        return False


class Fitting:
    """Batches of a model's rows, made smaller when memory runs out."""

    def __init__(
        self, model: Model, rows: Sequence[Tokens], work: Work, batch_tokens: int | None = None
    ) -> None:
        self._model, self._rows, self._work = model, rows, work
        self._limit = batch_tokens or token_budget(model, work)
        self._too_long: int | None = None  # a row of so many tokens does not fit as it is

    def batches(self) -> Iterator[list[int]]:
        """Row numbers, in batches of similar length."""
        yield from batches(self._rows, self._limit, equal=self._model.family.padding_leaks)

    def run(self, numbers: Sequence[int], work: Doing, spared: Doing | None = None) -> None:
        """Do the work on a batch of rows, in smaller and smaller parts if need be.

        spared: the same work in less memory and more time, for a single row that does not fit otherwise.
        """
        for part in self._parts(numbers):
            longest = self._longest(part)
            if spared is not None and self._too_long is not None and longest >= self._too_long:
                self._run_alone(part, spared)
            elif self._fits(part, work):
                continue
            elif len(part) > 1:
                self._shrink(len(part) // 2 * longest)
                self.run(part, work, spared)
            else:
                self._shrink(longest)
                self._too_long = longest
                self._run_alone(part, spared)

    def _parts(self, numbers: Sequence[int]) -> Iterator[Sequence[int]]:
        size = 1 if self._too_long is not None else max(1, self._limit // self._longest(numbers))
        for start in range(0, len(numbers), size):
            yield numbers[start : start + size]

    def _fits(self, numbers: Sequence[int], work: Doing) -> bool:
        """Whether the work could be done; what it held is free again when this returns."""
        try:
            work(numbers)
        except torch.OutOfMemoryError:
            return False
        except RuntimeError as error:
            if _ON_CPU not in str(error):
                raise
            return False
        return True

    def _run_alone(self, row: Sequence[int], spared: Doing | None) -> None:
        if spared is None or not self._fits(row, spared):
            raise CannotDo(
                f"{self._model.name}: memory runs out at one text of {self._longest(row)} tokens. Shorter "
                "texts, --dtype bfloat16, --device-map auto or a device with more memory would help."
            )

    def _shrink(self, tokens: int) -> None:
        self._limit = min(self._limit, tokens)
        self._model.fitting_tokens[self._work] = min(
            self._model.fitting_tokens.get(self._work, tokens), tokens
        )
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _longest(self, numbers: Sequence[int]) -> int:
        return max(len(self._rows[number].ids) for number in numbers)
