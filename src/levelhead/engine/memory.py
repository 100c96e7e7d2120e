"""Batches that fit into memory: how many tokens they have, what happens if that was too much, what they give.

    tokens = (share of free memory − what any batch costs) / what one more token costs

Both costs come from the peaks of two small probes of different size, with what a walk through variants holds
at its deepest. Where the host's memory is used, or their number was given, nothing is measured.

A batch for which memory runs out is halved, and the work goes on. What a half has handed over before memory
ran out is not handed over again, so the answers are those of small batches from the start. Later batches are
cut to what did fit.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from levelhead.edits.sites import placed
from levelhead.engine.batches import Tokens, batches, inputs
from levelhead.engine.collectors import Collector, Numbers
from levelhead.engine.trunk import HEADS, Trunk, gated_blocks
from levelhead.errors import CannotDo
from levelhead.models.concurrency import asking
from levelhead.models.hooks import at_rest
from levelhead.models.model import Model

Work = Literal["answers", "gradients"]
KINDS: tuple[Work, ...] = ("answers", "gradients")
CPU_TOKENS, GPU_TOKENS = 2048, 65536  # rows x longest row; larger batches were not faster on either
_ROWS = (2, 8)  # of the two probes
_LENGTH = 32  # tokens of a row
# the rest is for what the probes do not see: logits of the vocabulary, longer rows, gaps between allocations
_SHARE = 0.8
_ON_CPU = "not enough memory"  # torch has no class of its own for it
_ON_THE_WAY = 8  # values that come from a card at once: pages that a card can write to are slow to get
Doing = Callable[[Sequence[int]], None]


# ---- how many tokens of a batch fit


def token_budget(model: Model, work: Work) -> int:
    """How many tokens, padding included, go into one batch: as told, else as many as fit."""
    with asking(model.hf):
        known = known_budget(model, work)
        if known is None:
            length = min(_LENGTH, model.max_tokens or _LENGTH)
            places = {model.device, *(weight.device for weight in model.hf.parameters())}
            cards = sorted((place for place in places if place.type == "cuda"), key=str)
            sizes = (_ROWS[0] * length, _ROWS[1] * length)
            try:
                _probe(model, work, 1, length)  # libraries take their own memory at their first call
                small, large = (_peaks(model, work, rows, length, cards) for rows in _ROWS)
                known = min(fitting_tokens(free_bytes(c), (small[c], large[c]), sizes) for c in cards)
            except torch.OutOfMemoryError:
                known = length  # one row after the other; what cannot be run at all is said where it is run
        model.fitting_tokens[work] = known
        return known


def known_budget(model: Model, work: Work) -> int | None:
    """The tokens of a batch without measuring; None on a card where nothing has been measured yet."""
    told = model.fitting_tokens.get(work) or model.placement.batch_tokens
    return told or (None if model.device.type == "cuda" else CPU_TOKENS)


def shared_budget(model: Model, work: Work) -> int | None:
    """The tokens of a batch that goes to a worker; None where none has gone yet."""
    return model.fitting_tokens.get(f"{work} of workers")


def fitting_tokens(free: int, peaks: tuple[int, int], sizes: tuple[int, int]) -> int:
    """The tokens that fit into so many free bytes, if batches of two sizes had these peaks."""
    token = max(1.0, (peaks[1] - peaks[0]) / (sizes[1] - sizes[0]))
    fixed = max(0.0, peaks[0] - token * sizes[0])
    return int(max(1.0, min(GPU_TOKENS, (_SHARE * free - fixed) / token)))


def _peaks(
    model: Model, work: Work, rows: int, length: int, cards: list[torch.device]
) -> dict[torch.device, int]:
    """What a probe needs on each card beside what is there already, in bytes."""
    before = {card: torch.cuda.memory_allocated(card) for card in cards}
    for card in cards:
        torch.cuda.reset_peak_memory_stats(card)
    _probe(model, work, rows, length)
    return {card: torch.cuda.max_memory_allocated(card) - before[card] for card in cards}


def free_bytes(card: torch.device) -> int:
    """What this process may still take of a card, a cap of set_per_process_memory_fraction included."""
    free, total = torch.cuda.mem_get_info(card)
    taken = torch.cuda.memory_allocated(card)
    cap = int(total * torch.cuda.get_per_process_memory_fraction(card))
    return min(free + torch.cuda.memory_reserved(card) - taken, cap - taken)


def _probe(model: Model, work: Work, rows: int, length: int) -> None:
    """The work on rows of one token, again and again."""
    row = Tokens(np.full(length, 3 % int(model.config.vocab_size), np.int64), None)
    trunk, batch = Trunk(model), inputs(model, [row] * rows)
    with at_rest(model.hf):
        if work == "answers":
            with torch.inference_mode():
                plan = trunk.plan(batch)
                states = [plan.hidden]  # a walk through variants holds one at every layer where they part
                for layer in range(model.layers):
                    states.append(trunk.block(plan, layer, states[-1]))
            return
        with torch.no_grad():
            plan = trunk.plan(batch)
        gates = [
            torch.ones(rows, model.heads, device=model.device, requires_grad=True)
            for _ in range(model.layers)
        ]
        first = torch.arange(rows, device=model.device) * length
        with torch.enable_grad():
            out = gated_blocks(trunk, plan, HEADS, gates, first, recompute=model.waits_on_host)
        torch.autograd.grad(out[:, 0].float().sum(), gates)


class Fitting:
    """Batches of a model's rows, made smaller when memory runs out."""

    def __init__(
        self, model: Model, rows: Sequence[Tokens], work: Work, batch_tokens: int | None = None
    ) -> None:
        self._model, self._rows, self._work = model, rows, work
        self._limit = batch_tokens or token_budget(model, work)
        self._too_long: int | None = None  # a row of so many tokens does not fit as it is

    def batches(self) -> Iterator[list[int]]:
        yield from batches(self._rows, self._limit, equal=self._model.family.padding_leaks)

    def run(self, numbers: Sequence[int], work: Doing, spared: Doing | None = None) -> None:
        """Do the work on a batch of rows, in smaller and smaller parts if need be.

        spared: the same work in less memory and more time, for a single row that does not fit otherwise.
        """
        longest = max(len(self._rows[number].ids) for number in numbers)
        size = 1 if self._too_long is not None else max(1, self._limit // longest)
        for start in range(0, len(numbers), size):
            part = numbers[start : start + size]
            longest = max(len(self._rows[number].ids) for number in part)
            # a row as long as one that did not fit is not tried in vain
            if spared is None or self._too_long is None or longest < self._too_long:
                if _fits(part, work):
                    continue
                tokens, known = max(1, len(part) // 2) * longest, self._model.fitting_tokens
                self._limit = min(self._limit, tokens)
                known[self._work] = min(known.get(self._work, tokens), tokens)
                if torch.cuda.is_available():
                    torch.cuda.empty_cache()
                if len(part) > 1:
                    self.run(part, work, spared)
                    continue
                self._too_long = longest
            if spared is None or not _fits(part, spared):
                raise CannotDo(
                    f"{self._model.name}: memory runs out at one text of {longest} tokens. Shorter texts, "
                    "--dtype bfloat16, --device-map auto or a device with more memory would help."
                )


def _fits(numbers: Sequence[int], work: Doing) -> bool:
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


# ---- what a batch gives


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


@dataclass(eq=False)
class Handed:
    """The way from a batch to its collectors: no ask's values pass twice, and nobody waits for a card."""

    adds_up: ClassVar[bool] = True  # values that are summed are kept before they are reduced and fetched
    _passed: dict[tuple[int, int], list[Numbers]] = field(default_factory=lambda: defaultdict(list))
    _coming: deque[tuple[Collector[Any], int, Numbers, Coming]] = field(default_factory=deque)

    def keep(self, collector: Collector[Any], variant: int, asks: Numbers, values: Tensor) -> None:
        """Give a collector values that are ready for it."""
        collector.take(variant, asks, values)

    def take(self, collector: Collector[Any], variant: int, asks: Numbers, values: Tensor) -> None:
        """Hand over the values [ask, ...] of asks that have none yet; what lies on a card is sent for."""
        passed = self._passed[id(collector), variant]
        if passed:
            new = np.isin(asks, np.concatenate(passed), invert=True)
            asks, values = asks[new], values[placed(torch.from_numpy(new), values.device)]
        if not len(asks):
            return
        if self.adds_up and collector.adds_up:
            self.keep(collector, variant, asks, values)
        elif values.is_cuda:
            self._coming.append((collector, variant, asks, Coming(collector.reduced(asks, values))))
            self.arrive(_ON_THE_WAY)
        else:
            self.keep(collector, variant, asks, collector.reduced(asks, values).cpu())
        passed.append(asks)

    def arrive(self, left: int = 0) -> None:
        """Give the collectors what was sent for first, until so many are left on the way."""
        while len(self._coming) > left:
            collector, variant, asks, values = self._coming.popleft()
            self.keep(collector, variant, asks, values.open())


@dataclass(eq=False, kw_only=True)
class Packed(Handed):
    """The way from a batch to collectors in another process, which keeps and adds what is unpacked there."""

    adds_up: ClassVar[bool] = False
    collectors: Sequence[Collector[Any]]
    parcels: list[Parcel] = field(default_factory=list)

    def keep(self, collector: Collector[Any], variant: int, asks: Numbers, values: Tensor) -> None:
        number = self.collectors.index(collector)
        self.parcels.append(Parcel(number, variant, asks, values.float().numpy()))
