"""What running a model takes: seconds, also in advance, and the most memory that was in use meanwhile."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from levelhead.engine.batches import RowPool
from levelhead.engine.memory import CPU_TOKENS, Fitting, token_budget
from levelhead.engine.readings import Reading, SentenceVectors
from levelhead.engine.run import read_one
from levelhead.engine.trunk import vocabulary_share
from levelhead.errors import BadProbe, CannotDo
from levelhead.models.concurrency import asking
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.probes.bias import GENDER
from levelhead.probes.contexts import template_contexts
from levelhead.probes.words import load_words
from levelhead.progress import Plan, counted_work, planning, tokens_in

_SENTENCES = 16  # about 150 tokens: a second or two of 300 M parameters on two cores
_MOST = 3.0  # seconds of the larger pass
_MIB = 1 << 20
_RESET, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
_RESET_PEAK = "5"  # what Linux takes as "forget the peak of this process"
now = time.monotonic  # seconds on a clock that never goes back


@dataclass
class Effort:
    """Filled when the block that it was measured over ends."""

    seconds: float = 0.0
    memory: int | None = None  # MiB, of the model's card, else of the whole process; None where not known


@contextmanager
def effort(model: Model) -> Iterator[Effort]:
    measured, began, card = Effort(), now(), model.device.type == "cuda"
    if card:
        torch.cuda.reset_peak_memory_stats(model.device)
    known = card
    if not card:
        with suppress(OSError):  # not every system lets a process begin its peak anew
            _RESET.write_text(_RESET_PEAK)
            known = True
    yield measured
    measured.seconds = now() - began
    if known and card:
        measured.memory = torch.cuda.max_memory_allocated(model.device) // _MIB
    elif known:
        status = _STATUS.read_text(encoding="ascii", errors="replace")
        found = re.search(r"^VmHWM:\s*(\d+) kB", status, re.M)
        measured.memory = None if found is None else int(found[1]) // 1024


@dataclass(frozen=True)
class Speed:
    """How fast a model is on this machine, by a plain pass over a few sentences."""

    token: float  # seconds that a token takes through all blocks
    estimate: float = 1.0  # tokens for each that progress.tokens_in counts
    batch: float = CPU_TOKENS  # tokens of a pass
    memory: int | None = None  # MiB at its peak; None: not measured

    def plan(self, tokens: float = 0.0, estimated: float = 0.0, shorter: str = "") -> Plan:
        """Work of so many tokens. estimated: such as progress.tokens_in counts."""
        whole = tokens + self.estimate * estimated
        return Plan(whole, math.ceil(whole / self.batch), self.token * whole, self.memory, shorter)

    def lasting(self, seconds: float, shorter: str = "") -> Plan:
        """Work of so many seconds."""
        return self.plan(seconds / self.token, shorter=shorter)

    @property
    def estimated(self) -> float:
        """Seconds of a token that progress.tokens_in counts."""
        return self.token * self.estimate


def speed_of(model: Model) -> Speed:
    """The speed of a model in batches as large as those of its studies, as far as few seconds allow."""
    # short texts, of which most studies have the most: long ones have fewer tokens than tokens_in counts
    texts = [context.text for context in template_contexts(load_words(GENDER), 2)]
    batch, few = token_budget(model, "answers"), texts[:_SENTENCES]
    with effort(model) if planning() else nullcontext(Effort()) as peak:
        _timed(model, texts[:1])  # what happens once only
        tokens, seconds = _timed(model, few)
        rest = min(len(texts), int(len(few) * min(batch / tokens, _MOST / max(seconds, 1e-9))))
        if rest > 2 * len(few):
            few = texts[:rest]
            tokens, seconds = _timed(model, few)
    return Speed(seconds / tokens, tokens / tokens_in(few), batch, peak.memory)


def plan_of(model: Model, readings: Iterable[Reading[Any]]) -> Plan:
    """What the readings of an unmodified model take."""
    return speed_of(model).plan(sum(tokens_of(model, reading) for reading in readings))


def plan_by(model: Model, part: Callable[[], object], times: float) -> Plan:
    """What work takes of which a part is done here and now; times: the whole in such parts."""
    with effort(model) if planning() else nullcontext(Effort()) as peak, counted_work() as done:
        began = now()
        part()
        seconds = now() - began
    passes = sum(done) / token_budget(model, "answers")
    return Plan(sum(done), passes, seconds, peak.memory).times(times)


def _timed(model: Model, texts: Sequence[str]) -> tuple[float, float]:
    """Tokens and seconds of a plain pass over some texts."""
    with counted_work() as done:
        began = now()
        read_one(model, SentenceVectors([Text(text) for text in texts], "mean"), label="Speed")
        return sum(done), now() - began


def tokens_of(model: Model, *readings: Reading[Any]) -> float:
    """Tokens that pass through all blocks when a model is run once on these together, padding included, and
    what scoring the vocabulary takes beside; equal texts are one."""
    pool = RowPool()
    with asking(model.hf):
        collectors = [reading.prepare(model, pool, 1) for reading in readings]
    lengths = [len(row.ids) for row in pool.rows]
    batches = Fitting(model, pool.rows, "answers").batches()
    tokens = sum(len(numbers) * max(lengths[number] for number in numbers) for numbers in batches)
    scored = sum(len(each.rows) for each in collectors if each.stage == "logits")
    return tokens + (scored * vocabulary_share(model) if scored else 0.0)


def askable_tokens(model: Model, *readings: Reading[Any]) -> float:
    """The same; 0 of what the model cannot be asked, which the study says where it asks."""
    with suppress(BadProbe, CannotDo):
        return tokens_of(model, *readings)
    return 0.0
