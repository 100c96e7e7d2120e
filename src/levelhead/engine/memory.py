"""Batches that fit: one for which memory runs out is halved, and the work goes on.

What a half has handed over before memory ran out is not handed over again, so the answers are those of small
batches from the start. Later batches are cut to what did fit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from levelhead.engine.batches import Tokens
from levelhead.engine.collectors import Collector, Numbers
from levelhead.errors import CannotDo
from levelhead.models.model import Model

_ON_CPU = "not enough memory"  # torch has no class of its own for it


class Handed:
    """The way from a batch to its collectors, on which no ask's values pass twice."""

    def __init__(self) -> None:
        self._passed: dict[tuple[int, int], list[Numbers]] = defaultdict(list)

    def take(self, collector: Collector[Any], variant: int, asks: Numbers, values: Tensor) -> None:
        """Hand over the values [ask, ...] of asks that have none yet."""
        passed = self._passed[id(collector), variant]
        if passed:
            new = np.isin(asks, np.concatenate(passed), invert=True)
            asks, values = asks[new], values[torch.from_numpy(new).to(values.device)]
        if len(asks):
            collector.take(variant, asks, values)
            passed.append(asks)


class Fitting:
    """Batches of a model's rows, made smaller when memory runs out."""

    def __init__(self, model: Model, rows: Sequence[Tokens], kind: Literal["answers", "gradients"]) -> None:
        self._model, self._rows, self._kind = model, rows, kind

    def run(self, numbers: Sequence[int], work: Callable[[Sequence[int]], None]) -> None:
        """Do the work on a batch of rows, in smaller and smaller parts if need be."""
        for part in self._parts(numbers):
            if not self._fits(part, work):
                self._shrink(part)
                self.run(part, work)

    def _parts(self, numbers: Sequence[int]) -> Iterator[Sequence[int]]:
        limit = self._model.fitting_tokens.get(self._kind)
        size = len(numbers) if limit is None else max(1, limit // self._longest(numbers))
        for start in range(0, len(numbers), size):
            yield numbers[start : start + size]

    def _fits(self, numbers: Sequence[int], work: Callable[[Sequence[int]], None]) -> bool:
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

    def _shrink(self, numbers: Sequence[int]) -> None:
        longest = self._longest(numbers)
        if len(numbers) == 1:
            raise CannotDo(
                f"{self._model.name}: memory runs out at one text of {longest} tokens. Shorter texts, "
                "--dtype bfloat16 or a device with more memory would help."
            )
        self._model.fitting_tokens[self._kind] = len(numbers) // 2 * longest
        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _longest(self, numbers: Sequence[int]) -> int:
        return max(len(self._rows[number].ids) for number in numbers)
