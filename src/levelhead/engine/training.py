"""Weights trained by any loss, as values that a variant can have: distillation, CDA, NPO, DPO.

A *lesson* says what a batch is and what its loss is; the rest is here, once, and what fine-tuning needs as
well (finetuning.py) stands first. A copy of the model is trained by transformers' Trainer, without dropout; a
loss on texts apart decides when to stop. Same seed, same bytes on a CPU, also when the process was killed and
goes on from its last checkpoint: a batch depends on the seed and its number alone.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Protocol

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils.data import SequentialSampler
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments

from levelhead.edits.output import Reweighted
from levelhead.engine.batches import SimilarLengths
from levelhead.engine.effort import now
from levelhead.errors import BadOption, CannotDo
from levelhead.models.concurrency import MAKING, asking
from levelhead.models.copies import copied
from levelhead.models.hooks import quick_kernels
from levelhead.models.model import Model
from levelhead.models.sources import quiet
from levelhead.progress import BACK, steps, worked
from levelhead.safe_files import write_text, write_whole

LARGE = 50_000_000  # parameters; smaller models need a higher learning rate (Turc et al. 2019)
CHECKPOINT_SECONDS = 60.0  # of work that a kill may cost, about
RANK, ALPHA = 8, 16  # of LoRA
VALIDATIONS = 4  # of a training, on the texts apart; while the rate is high the loss is too
_POINTS = 40  # at which a checkpoint may be written
_PATIENCE = 2  # validations without a lower loss, after which a training ends
_DONE, _STEPS = "done.json", "steps.json"
_TIMED = 5  # steps that tell how many fit into a time; the first one, which warms up, does not count
_LOSS = "loss on texts apart"
Batch = Mapping[str, Tensor]


# ---- what every training has in common


def is_large(model: Model) -> bool:
    """Whether a model is trained at the learning rate of large ones."""
    return bool(sum(weight.numel() for weight in model.hf.parameters()) >= LARGE)


def check_trainable(model: Model) -> None:
    """Refuse to train where that cannot end well."""
    if find_spec("accelerate") is None:
        raise CannotDo("Fine-tuning needs the package accelerate: pip install 'levelhead[glue]'.")
    if model.hf.dtype == torch.float16:
        raise CannotDo(f"{model.name} is float16, in which training overflows. Load it as float32.")


def arguments(model: Model, folder: Path, seed: int, **own: Any) -> TrainingArguments:
    """Trainer's arguments: quiet, seeded, its files in this folder, checkpoints when a callback says so."""
    return TrainingArguments(
        output_dir=str(folder),
        optim="adamw_torch_fused",  # a tenth faster on a CPU
        seed=seed,
        data_seed=seed,
        save_strategy="no",
        save_total_limit=2,
        report_to="none",
        disable_tqdm=True,
        logging_nan_inf_filter=False,  # it would hide that a training diverges
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        use_cpu=model.device.type == "cpu",
        **own,
    )


@contextmanager
def own_randomness(seed: int) -> Iterator[None]:
    """Trainer seeds Python's, numpy's and torch's random numbers; afterwards they are as they were."""
    python, numbers = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numbers)


@dataclass(eq=False)
class Checkpoints(TrainerCallback):
    """Writes a checkpoint now and then, always right after a point of the curve, which begins a new mean."""

    _last: float = field(default_factory=time.monotonic)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if control.should_log and time.monotonic() - self._last >= CHECKPOINT_SECONDS:
            control.should_save = True
            self._last = time.monotonic()


@dataclass(eq=False)
class Progress(TrainerCallback):
    """Moves the progress display."""

    _advance: Callable[[int], None]
    _done: int = 0

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


# ---- LoRA


def add_lora(classifier: Model, trained: Collection[str]) -> None:
    """Put low-rank adapters (Hu et al. 2021) on queries, keys and values, by way of peft, and let them, and
    the weights of these names, be all that is trained.

        y = x Wᵀ + (alpha / r) · x Aᵀ Bᵀ        B begins at 0

    Rows of B that belong to a closed head get a gradient of exactly 0 and stay 0; W^O has no adapter.
    """
    if find_spec("peft") is None:
        raise CannotDo("LoRA needs the package peft: pip install 'levelhead[glue]', or train all weights.")
    from peft import LoraConfig, inject_adapter_in_model

    hf = classifier.hf
    names = {module: name for name, module in hf.named_modules()}
    parts = ("query", "key", "value")
    targets = {
        names[classifier.qkv_module(layer, part)] for layer in range(classifier.layers) for part in parts
    }
    fan_in = not isinstance(classifier.qkv_module(0, "query"), nn.Linear)  # GPT-2's Conv1D
    config = LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=sorted(targets), fan_in_fan_out=fan_in)
    inject_adapter_in_model(config, hf)
    for name, weight in hf.named_parameters():
        weight.requires_grad_("lora_" in name or name in trained)


def adapted(hf: nn.Module) -> list[tuple[str, Any]]:
    """The modules of a network that have an adapter, by their names."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    return [(name, module) for name, module in hf.named_modules() if isinstance(module, BaseTunerLayer)]


# ---- lessons


@dataclass(frozen=True)
class TrainingPlan:
    """How weights are trained.

    steps: of the optimizer, at most
    batch_size: texts in a step
    learning_rate: the highest; None: by the size of the model; where most word vectors stay twice that, but
        of a masked model
    warmup: share of all steps in which the learning rate rises; then it falls to 0
    schedule: how it falls: linear or cosine
    average: memory of the mean of the weights, as a share of the steps taken; the mean is what is kept.
        0: the weights themselves
    lora: train low-rank adapters, which are added to the weights afterwards, instead of all weights
    word_vectors: train those of all words; else of the lesson's own words alone
    keep: shares of all steps after which the weights are kept
    """

    steps: int = 400
    batch_size: int = 32
    learning_rate: float | None = None
    warmup: float = 0.1
    schedule: Literal["linear", "cosine"] = "linear"
    average: float = 0.0
    lora: bool = False
    word_vectors: bool = True
    keep: tuple[float, ...] = (0.25, 0.5, 1.0)

    def __post_init__(self) -> None:
        if min(self.steps, self.batch_size) < 1:
            raise BadOption(
                f"steps and batch_size must be at least 1 (got {self.steps} and {self.batch_size})"
            )
        rate = 1e-4 if self.learning_rate is None else self.learning_rate
        if not (0 < rate < 1 and 0 <= self.warmup <= 1):
            raise BadOption(
                "learning_rate must be above 0 and below 1, warmup from 0 to 1 "
                f"(got {rate:g} and {self.warmup:g})"
            )
        if self.schedule not in ("linear", "cosine") or not 0 <= self.average < 1:
            raise BadOption(
                "schedule must be linear or cosine, average at least 0 and below 1 "
                f"(got {self.schedule} and {self.average:g})"
            )
        if not self.keep or not all(0 < share <= 1 for share in self.keep):
            raise BadOption(f"keep must be shares above 0 and up to 1 (got {self.keep})")

    def rate(self, model: Model) -> float:
        if self.learning_rate is not None:
            return self.learning_rate
        if self.lora:
            return 5e-4
        own = 1e-5 if is_large(model) else 5e-5
        return own if self.word_vectors or "mlm" in model.abilities else 2 * own

    @property
    def kept(self) -> tuple[int, ...]:
        """The steps after which the weights are kept, in order."""
        return tuple(sorted({max(1, round(share * self.steps)) for share in self.keep}))


class AveragingAdamW(torch.optim.AdamW):
    """AdamW that keeps a mean of the weights, which forgets as it goes on:

        m_t = m_{t−1} + (w_t − m_{t−1}) / max(1, memory · t)

    The mean is a part of its state, so that a checkpoint has it (Polyak and Juditsky 1992; here the memory
    grows with t, so that the beginning is forgotten however long a training is).
    """

    def __init__(self, weights: Iterable[Tensor], memory: float) -> None:
        super().__init__(weights, weight_decay=0.0, fused=True)
        self._memory = memory

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        loss = super().step(closure)
        for weight, state in self.state.items():
            mean = state.setdefault("mean", torch.zeros_like(weight))
            mean.lerp_(weight, 1 / max(1.0, self._memory * float(state["step"])))
        return loss

    @contextmanager
    def averaged(self) -> Iterator[None]:
        """The weights are the mean meanwhile."""
        own = {weight: weight.detach().clone() for weight, state in self.state.items() if "mean" in state}
        try:
            with torch.no_grad():
                for weight in own:
                    weight.copy_(self.state[weight]["mean"])
            yield
        finally:
            with torch.no_grad():
                for weight, value in own.items():
                    weight.copy_(value)


class Lesson(Protocol):
    """What is trained: numbered texts, each with its length, and the loss of some of them."""

    @property
    def lengths(self) -> Sequence[int]: ...

    @property
    def own_words(self) -> Sequence[int]:
        """The tokens that it is about."""

    def batch(self, numbers: Sequence[int], seed: Sequence[int]) -> Batch:
        """The texts of these numbers as tensors; what is drawn at random depends on the seed alone."""

    def loss(self, student: Model, batch: Batch) -> Tensor:
        """What is to become small; its gradient moves the student's weights."""


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
        stored = json.loads((folder / _DONE).read_text(encoding="utf-8"))[_LOSS]
        losses = {int(step): float(loss) for step, loss in stored.items()}
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
            student.hf.requires_grad_(True)
            if not plan.word_vectors:
                # Adam moves a row by about the learning rate however small its gradient is, so that the rows
                # of words which no text has would drift; a row whose gradient is 0 stays bit for bit
                tables = (student.hf.get_input_embeddings(), student.hf.get_output_embeddings())
                for rows in {id(each.weight): each.weight for each in tables if each is not None}.values():
                    kept = torch.zeros(len(rows), 1, dtype=rows.dtype, device=rows.device)
                    kept[list(lessons[0].own_words)] = 1
                    rows.register_hook(partial(torch.mul, kept))
        lengths, orders = list(lessons[0].lengths), dict[int, list[int]]()
        sampler = SimilarLengths(lengths, plan.batch_size, seed)

        def collate(places: Sequence[int]) -> dict[str, Tensor]:
            """A batch. All texts come before any comes again; those of similar length come together."""
            numbers = []
            for place in places:
                epoch, at = divmod(place, len(lengths))
                if epoch not in orders:
                    orders.clear()
                    sampler.epoch = epoch
                    orders[epoch] = list(sampler)
                numbers.append(orders[epoch][at])
            return dict(lessons[0].batch(numbers, (seed, places[0])))

        with steps("Training", plan.steps) as advance, quick_kernels():
            averaging = None
            if plan.average:
                trained = [weight for weight in student.hf.parameters() if weight.requires_grad]
                averaging = AveragingAdamW(trained, plan.average)
                averaging.param_groups[0]["lr"] = plan.rate(student)
            validation = _Validation(student, lessons[1], plan, folder, averaging)
            args = arguments(
                student,
                folder,
                seed,
                per_device_train_batch_size=plan.batch_size,
                max_steps=plan.steps,
                learning_rate=plan.rate(student),
                lr_scheduler_type=plan.schedule,
                warmup_steps=int(plan.warmup * plan.steps),
                weight_decay=0.0,
                logging_steps=max(1, plan.steps // _POINTS),
                eval_strategy="no",
            )
            args._n_gpu = min(args.n_gpu, 1)  # a lesson runs the network block by block, on its own device
            trainer = _Trainer(
                student,
                lessons[0],
                args=args,
                data_collator=collate,
                train_dataset=range(plan.steps * plan.batch_size),  # places in a row of texts
                optimizers=(averaging, None),
            )
            trainer.remove_callback(PrinterCallback)
            for callback in (Progress(advance), validation, Checkpoints()):
                trainer.add_callback(callback)
            trainer.train(resume_from_checkpoint=last_checkpoint(folder))
    if not (np.isfinite(list(validation.losses.values())).all() and _file(folder, plan.kept[0]).is_file()):
        raise CannotDo(
            f"{model.name}: training makes it worse at a rate of {plan.rate(model):g}. Give a lower one."
        )
    write_text(folder / _DONE, json.dumps({_LOSS: validation.losses}))


class _Trainer(Trainer):
    """Trainer for a lesson; texts come in the order of their places, and no part of the network drops out."""

    def __init__(self, student: Model, lesson: Lesson, **parts: Any) -> None:
        super().__init__(student.hf, **parts)
        self._student, self._lesson = student, lesson

    def compute_loss(self, model: Any, inputs: Any, *args: Any, **options: Any) -> Any:
        self._student.hf.eval()
        loss = self._lesson.loss(self._student, inputs)
        # the ways there are counted where they are gone
        worked(BACK * sum(value.numel() for name, value in inputs.items() if name.endswith("input_ids")))
        return loss

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        places: Any = self.train_dataset if train_dataset is None else train_dataset
        return SequentialSampler(places)


class _Validation(TrainerCallback):
    """Scores texts apart now and then: keeps weights, and ends a training that gets no better."""

    def __init__(
        self,
        student: Model,
        apart: Lesson,
        plan: TrainingPlan,
        folder: Path,
        averaging: AveragingAdamW | None,
    ) -> None:
        self._student, self._apart, self._plan, self._folder = student, apart, plan, folder
        self._averaging = averaging
        every = max(1, plan.steps // VALIDATIONS)
        self._at = {*range(every, plan.steps + 1, every), *plan.kept}
        self.losses: dict[int, float] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """A training that goes on has seen these losses already."""
        self.losses = {entry["step"]: entry[_LOSS] for entry in state.log_history if _LOSS in entry}
        if not self.losses:
            self._validate(state)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step in self._at:
            with nullcontext() if self._averaging is None else self._averaging.averaged():
                self._validate(state)
                if state.global_step in self._plan.kept:
                    network = self._student.hf
                    named: dict[str, Tensor] = dict(network.named_parameters())
                    if self._plan.lora:  # by the names that weights have without adapters
                        with torch.no_grad():
                            named = {
                                f"{name}.weight": layer.get_base_layer().weight
                                + layer.get_delta_weight(layer.active_adapters[0])
                                for name, layer in adapted(network)
                            }
                    values = {n: weight.detach().cpu().clone().contiguous() for n, weight in named.items()}
                    write_whole(_file(self._folder, state.global_step), lambda path: save_file(values, path))
            seen = {step: loss for step, loss in self.losses.items() if step}  # the first steps make it worse
            if sum(step > min(seen, key=lambda each: seen[each]) for step in seen) >= _PATIENCE:
                control.should_training_stop = True

    def _validate(self, state: Any) -> None:
        loss = apart_loss(self._student, self._apart)
        self.losses[state.global_step] = loss
        state.log_history.append({"step": state.global_step, _LOSS: loss})


def steps_within(
    model: Model,
    lesson: Lesson,
    plan: TrainingPlan,
    seconds: float,
    folder: Path | None = None,
    making: float = 0.0,
) -> int:
    """How many steps of a plan take so many seconds on this machine.

    making: seconds that the texts of one step take to be made. folder: of checkpoints, where the number is
    kept, so that a training that goes on has the same plan.
    """
    file = None if folder is None else folder / _STEPS
    if file is not None and file.is_file():
        return int(json.loads(file.read_text(encoding="utf-8"))["steps"])
    check_trainable(model)
    student, took = copied(model, model.name, "train the weights that it was made from"), []
    student.hf.eval()
    rng = np.random.default_rng(0)
    with asking(model.hf), quiet(), quick_kernels():
        optimizer = torch.optim.AdamW(student.hf.requires_grad_(True).parameters(), lr=0.0)
        for number in range(_TIMED):
            some = rng.choice(len(lesson.lengths), min(plan.batch_size, len(lesson.lengths)), replace=False)
            begun = now()
            loss = lesson.loss(student, lesson.batch(some.tolist(), (0, number)))
            torch.autograd.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            float(loss)  # a card has then done it
            took.append(now() - begun)
    found = max(1, int(seconds / (making + float(np.mean(took[1:])))))
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, json.dumps({"seconds": seconds, "steps": found}))
    return found


def apart_loss(student: Model, lesson: Lesson, batch: int = 32) -> float:
    """The mean loss over all texts of a lesson."""
    numbers = range(len(lesson.lengths))
    parts = [list(numbers[start : start + batch]) for start in range(0, len(numbers), batch)]
    student.hf.eval()
    with torch.no_grad():
        losses = [float(lesson.loss(student, lesson.batch(part, (0, part[0])))) for part in parts]
    return float(np.average(losses, weights=[len(part) for part in parts]))


def _file(folder: Path, step: int) -> Path:
    return folder / f"weights-{step}.safetensors"
