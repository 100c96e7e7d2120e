"""What happens while a training runs: progress, checkpoints, and heads that stay closed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from transformers import TrainerCallback

from levelhead.edits.sites import Edit
from levelhead.engine.closed_heads import closed_heads, head_slices
from levelhead.models.model import Model

CHECKPOINT_SECONDS = 60.0  # of work that a kill may cost, about


class ClosedHeads(TrainerCallback):
    """Puts the parameters of closed heads back after every step, which weight decay alone would move."""

    def __init__(self, model: Model, edits: Sequence[Edit]) -> None:
        slices = head_slices(model, closed_heads(model, edits))
        self._kept = [(each, each.values()) for each in slices]

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        for part, values in self._kept:
            part.restore(values)


class Checkpoints(TrainerCallback):
    """Writes a checkpoint now and then, always right after a point of the curve, which begins a new mean."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if control.should_log and time.monotonic() - self._last >= CHECKPOINT_SECONDS:
            control.should_save = True
            self._last = time.monotonic()


class Progress(TrainerCallback):
    """Moves the progress display."""

    def __init__(self, advance: Callable[[int], None]) -> None:
        self._advance = advance
        self._done = 0

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._advance(state.global_step - self._done)
        self._done = state.global_step


def last_checkpoint(folder: Path) -> str | None:
    """The last whole checkpoint: the file that Trainer writes last is there and can be read."""
    numbered = ((path.name.rpartition("-")[2], path) for path in folder.glob("checkpoint-*"))
    by_step = sorted((int(step), path) for step, path in numbered if step.isdecimal())
    for _, path in reversed(by_step):
        try:
            json.loads((path / "trainer_state.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        return str(path)
    return None


@contextmanager
def checkpoint_folder(given: Path | None) -> Iterator[Path]:
    """A folder for checkpoints; a temporary one where none is given."""
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given
        return
    with TemporaryDirectory(prefix="levelhead-") as name:
        yield Path(name)
