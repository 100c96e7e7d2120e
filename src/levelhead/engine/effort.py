"""What asking takes: seconds, and the most memory that was in use meanwhile."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from levelhead.models.model import Model

_MIB = 1 << 20
_RESET, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
_RESET_PEAK = "5"  # what Linux takes as "forget the peak of this process"


@dataclass
class Effort:
    """Filled when the block that it was measured over ends."""

    seconds: float = 0.0
    memory: int | None = None  # MiB, of the model's card, else of the whole process; None where not known


def now() -> float:
    """Seconds on a clock that never goes back."""
    return time.monotonic()


@contextmanager
def effort(model: Model) -> Iterator[Effort]:
    """Measure what runs inside."""
    measured, began, card = Effort(), now(), model.device.type == "cuda"
    if card:
        torch.cuda.reset_peak_memory_stats(model.device)
    known = card or _forgets_peak()
    yield measured
    measured.seconds = now() - began
    if known:
        measured.memory = torch.cuda.max_memory_allocated(model.device) // _MIB if card else _peak()


def _forgets_peak() -> bool:
    """Whether this system lets a process begin its peak anew; then it has."""
    try:
        _RESET.write_text(_RESET_PEAK)
    except OSError:
        return False
    return True


def _peak() -> int | None:
    found = re.search(r"^VmHWM:\s*(\d+) kB", _STATUS.read_text(encoding="ascii", errors="replace"), re.M)
    return None if found is None else int(found[1]) // 1024
