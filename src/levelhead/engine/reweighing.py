"""Weights trained by any loss, as values that a variant can have: distillation, CDA, NPO, DPO.

A *lesson* says what a batch is and what its loss is; the rest is here, once: a copy of the model is trained
by transformers' Trainer, without dropout, and its weights are kept at some steps. A loss on texts apart
decides when to stop. Same seed, same bytes on a CPU, also when the process was killed and goes on from its
last checkpoint: a batch depends on the seed and its number alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.utils.data import Dataset, SequentialSampler
from transformers import PrinterCallback, Trainer, TrainerCallback

from levelhead.edits.weights import Reweighted
from levelhead.engine.batches import SimilarLengths
from levelhead.engine.callbacks import Checkpoints, Progress, checkpoint_folder, last_checkpoint
from levelhead.engine.lora import add_lora, lora_weights
from levelhead.engine.trainer_arguments import (
    arguments,
    check_trainable,
    is_large,
    own_randomness,
    train_all,
)
from levelhead.errors import BadOption, CannotDo
from levelhead.files import write_text, write_whole
from levelhead.models.checkpoint import quiet
from levelhead.models.concurrency import MAKING, asking
from levelhead.models.copied import copied
from levelhead.models.hooks import quick_kernels
from levelhead.models.model import Model
from levelhead.progress import steps

LOOKS = 4  # at the texts apart, while a training runs; while the rate is high the loss is too
_POINTS = 40  # at which a checkpoint may be written
_PATIENCE = 2  # looks without a lower loss, after which a training ends
_DONE = "done.json"
_LOSS = "loss on texts apart"
Batch = Mapping[str, Tensor]


@dataclass(frozen=True)
class TrainingPlan:
    """How weights are trained.

    steps: of the optimizer, at most
    batch_size: texts in a step
    learning_rate: the highest; None: by the size of the model; where most word vectors stay twice that, but
        of a masked model
    warmup: share of all steps in which the learning rate rises; then it falls linearly to 0
    lora: train low-rank adapters, which are added to the weights afterwards, instead of all weights
    word_vectors: train those of all words; else of the lesson's own words alone
    keep: shares of all steps after which the weights are kept
    """

    steps: int = 400
    batch_size: int = 32
    learning_rate: float | None = None
    warmup: float = 0.1
    lora: bool = False
    word_vectors: bool = True
    keep: tuple[float, ...] = (0.25, 0.5, 1.0)

    def __post_init__(self) -> None:
        if min(self.steps, self.batch_size) < 1:
            raise BadOption(
                f"steps={self.steps}, batch_size={self.batch_size} came; allowed is at least 1 of each."
            )
        rate = 1e-4 if self.learning_rate is None else self.learning_rate
        if not (0 < rate < 1 and 0 <= self.warmup <= 1):
            raise BadOption(
                f"learning_rate={rate:g}, warmup={self.warmup:g} came; allowed: above 0 and below 1; 0 to 1."
            )
        if not self.keep or not all(0 < share <= 1 for share in self.keep):
            raise BadOption(f"keep={self.keep} came; give shares above 0 and up to 1.")

    def rate(self, model: Model) -> float:
        """The learning rate: as given, else by the size of the model."""
        if self.learning_rate is not None:
            return self.learning_rate
        if self.lora:
            return 5e-4
        own = 1e-5 if is_large(model) else 5e-5
        if self.word_vectors:
            return own
        return own if "mlm" in model.abilities else 2 * own

    @property
    def kept(self) -> tuple[int, ...]:
        """The steps after which the weights are kept, in order."""
        return tuple(sorted({max(1, round(share * self.steps)) for share in self.keep}))


class Lesson(Protocol):
    """What is trained: numbered texts, each with its length, and the loss of some of them."""

    @property
    def lengths(self) -> Sequence[int]: ...

    @property
    def own_words(self) -> Sequence[int]:
        """The tokens that it is about."""
        ...

    def batch(self, numbers: Sequence[int], seed: Sequence[int]) -> Batch:
        """The texts of these numbers as tensors; what is drawn at random depends on the seed alone."""
        ...

    def loss(self, student: Model, batch: Batch) -> Tensor:
        """What is to become small; its gradient moves the student's weights."""
        ...


@dataclass(frozen=True, eq=False)
class Kept:
    """The weights after so many steps, and the loss on texts apart."""

    step: int
    weights: Reweighted
    loss: float


@dataclass(frozen=True, eq=False)
class Trained:
    """What a training gave: weights at several steps, fewest first, and the loss that it began with."""

    before: float
    kept: tuple[Kept, ...]


def train_weights(
    model: Model,
    name: str,
    lessons: tuple[Lesson, Lesson],
    plan: TrainingPlan,
    seed: int = 0,
    checkpoints: Path | None = None,
) -> Trained:
    """Train a copy of the model on the first lesson; the second, of texts apart, decides when to stop.

    name: of the weights, with the number of steps behind it. checkpoints: a folder of this training alone;
    what a killed training left there is gone on with. The model itself stays as it is.
    """
    check_trainable(model)
    with checkpoint_folder(checkpoints) as folder:
        if not (folder / _DONE).is_file():
            _train(model, lessons, plan, seed, folder)
        losses = {
            int(step): float(loss)
            for step, loss in json.loads((folder / _DONE).read_text(encoding="utf-8"))[_LOSS].items()
        }
        kept = [step for step in plan.kept if _file(folder, step).is_file()]
        return Trained(
            losses[0],
            tuple(
                Kept(step, Reweighted(f"{name}, {step} steps", load_file(_file(folder, step))), losses[step])
                for step in kept
            ),
        )


def _train(model: Model, lessons: tuple[Lesson, Lesson], plan: TrainingPlan, seed: int, folder: Path) -> None:
    student = copied(model, model.name, "train the weights that it was made from")
    with asking(model.hf), MAKING.asking(), own_randomness(seed), quiet():
        if plan.lora:
            add_lora(student, ())
        else:
            train_all(student, None if plan.word_vectors else lessons[0].own_words)
        with steps("Training", plan.steps) as advance, quick_kernels():
            looks = _Looks(student, lessons[1], plan, folder)
            trainer = _trainer(student, lessons[0], plan, seed, folder)
            for callback in (Progress(advance), looks, Checkpoints()):
                trainer.add_callback(callback)
            trainer.train(resume_from_checkpoint=last_checkpoint(folder))
    if not (np.isfinite(list(looks.losses.values())).all() and _file(folder, plan.kept[0]).is_file()):
        raise CannotDo(
            f"{model.name}: training makes it worse at a rate of {plan.rate(model):g}. Give a lower one."
        )
    write_text(folder / _DONE, json.dumps({_LOSS: looks.losses}))


# ---- the trainer


@dataclass(frozen=True)
class _Turns(Dataset[int]):
    """The turns of a training, numbered: each takes up one text."""

    count: int

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, turn: int) -> int:
        return turn


class _Trainer(Trainer):
    """Trainer for a lesson; texts come in the order of their turns, and no part of the network drops out."""

    def __init__(self, student: Model, lesson: Lesson, **parts: Any) -> None:
        super().__init__(student.hf, **parts)
        self._student, self._lesson = student, lesson

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **options: Any) -> Any:
        self._student.hf.eval()
        return self._lesson.loss(self._student, inputs)

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        turns: Any = self.train_dataset if train_dataset is None else train_dataset
        return SequentialSampler(turns)


def _trainer(student: Model, lesson: Lesson, plan: TrainingPlan, seed: int, folder: Path) -> Trainer:
    args = arguments(
        student,
        folder,
        seed,
        per_device_train_batch_size=plan.batch_size,
        max_steps=plan.steps,
        learning_rate=plan.rate(student),
        lr_scheduler_type="linear",
        warmup_steps=int(plan.warmup * plan.steps),
        weight_decay=0.0,
        logging_steps=max(1, plan.steps // _POINTS),
        eval_strategy="no",
    )
    args._n_gpu = min(args.n_gpu, 1)  # a lesson runs the network block by block, on its own device
    trainer = _Trainer(
        student,
        lesson,
        args=args,
        data_collator=_collator(lesson, plan, seed),
        train_dataset=_Turns(plan.steps * plan.batch_size),
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def _collator(lesson: Lesson, plan: TrainingPlan, seed: int) -> Callable[[Sequence[int]], dict[str, Tensor]]:
    """From turns to a batch. All texts come before any comes again; those of similar length come together."""
    lengths = list(lesson.lengths)
    sampler = SimilarLengths(lengths, plan.batch_size, seed)
    orders: dict[int, list[int]] = {}

    def text(turn: int) -> int:
        epoch, place = divmod(turn, len(lengths))
        if epoch not in orders:
            orders.clear()
            sampler.set_epoch(epoch)
            orders[epoch] = list(sampler)
        return orders[epoch][place]

    def collate(turns: Sequence[int]) -> dict[str, Tensor]:
        return dict(lesson.batch([text(turn) for turn in turns], (seed, turns[0])))

    return collate


class _Looks(TrainerCallback):
    """Looks at texts apart now and then: keeps weights, and ends a training that gets no better."""

    def __init__(self, student: Model, apart: Lesson, plan: TrainingPlan, folder: Path) -> None:
        self._student, self._apart, self._plan, self._folder = student, apart, plan, folder
        every = max(1, plan.steps // LOOKS)
        self._at = {*range(every, plan.steps + 1, every), *plan.kept}
        self.losses: dict[int, float] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A training that goes on has seen these losses already."""
        self.losses = {entry["step"]: entry[_LOSS] for entry in state.log_history if _LOSS in entry}
        if not self.losses:
            self._look(state)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step not in self._at:
            return
        self._look(state)
        if state.global_step in self._plan.kept:
            values = trained_values(self._student, self._plan.lora)
            write_whole(_file(self._folder, state.global_step), lambda path: save_file(values, path))
        seen = {step: loss for step, loss in self.losses.items() if step}  # the first steps make it worse
        if sum(step > min(seen, key=lambda each: seen[each]) for step in seen) >= _PATIENCE:
            control.should_training_stop = True

    def _look(self, state: Any) -> None:
        loss = apart_loss(self._student, self._apart)
        self.losses[state.global_step] = loss
        state.log_history.append({"step": state.global_step, _LOSS: loss})


def apart_loss(student: Model, lesson: Lesson, batch: int = 32) -> float:
    """The mean loss over all texts of a lesson."""
    numbers = range(len(lesson.lengths))
    parts = [list(numbers[start : start + batch]) for start in range(0, len(numbers), batch)]
    student.hf.eval()
    with torch.no_grad():
        losses = [float(lesson.loss(student, lesson.batch(part, (0, part[0])))) for part in parts]
    return float(np.average(losses, weights=[len(part) for part in parts]))


def trained_values(student: Model, lora: bool) -> dict[str, Tensor]:
    """The weights of a student that were trained, on the host."""
    named = lora_weights(student.hf) if lora else dict(student.hf.named_parameters())
    return {name: weight.detach().cpu().clone().contiguous() for name, weight in named.items()}


def _file(folder: Path, step: int) -> Path:
    return folder / f"weights-{step}.safetensors"
