"""Which models are checkpoints of one training, and how far it had come: read from their names alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

_STEP = re.compile(
    r"(?P<before>.*?)(?:global[-_]?)?(?:checkpoint|ckpt|step|iter|epoch)s?[-_=]?(?P<step>\d{1,15})(?P<after>\D*)",
    re.I,
)


@dataclass(frozen=True)
class TrainingStep:
    """A checkpoint of a training."""

    run: str  # what the names of its checkpoints have in common
    step: int


def training_step(name: str) -> TrainingStep | None:
    """The training and the step that a name names; None for the name of no checkpoint.

    runs/a/checkpoint-100: step 100 of runs/a. org/pythia-step_2000: step 2000 of org/pythia.
    """
    folder, slash, last = name.rstrip("/").rpartition("/")
    match = _STEP.fullmatch(last)
    if match is None:
        return None
    own = f"{match['before']}{match['after']}".strip("-_. ")
    return TrainingStep(f"{folder}{slash if own else ''}{own}" or ".", int(match["step"]))


def training_steps(names: Iterable[str]) -> dict[str, TrainingStep]:
    """The checkpoints among models, of trainings that two or more of them belong to."""
    known = {name: step for name in names if (step := training_step(name)) is not None}
    sizes = Counter(step.run for step in known.values())
    return {name: step for name, step in known.items() if sizes[step.run] > 1}
