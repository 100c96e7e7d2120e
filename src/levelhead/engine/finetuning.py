"""Fine-tuning with the edits on, in training and in evaluation: the only place that trains a model.

transformers' Trainer does it, with accelerate underneath. Same seed, same bytes on a CPU; so too when the
process was killed and the training goes on from its last checkpoint (docs/method.md, GLUE).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset, Sampler, Subset
from transformers import EvalPrediction, PreTrainedModel, PrinterCallback, Trainer, TrainingArguments

from levelhead.edits.sites import Edit
from levelhead.edits.weights import besides_weights, weights_of
from levelhead.engine.batches import SimilarLengths, Tokens, inputs
from levelhead.engine.callbacks import Checkpoints, ClosedHeads, Progress, checkpoint_folder, last_checkpoint
from levelhead.engine.lora import add_lora, merge_lora
from levelhead.engine.readings import Pooled
from levelhead.engine.trainer_arguments import arguments, check_trainable, is_large, own_randomness
from levelhead.errors import BadOption, CannotDo
from levelhead.models.checkpoint import quiet
from levelhead.models.classifier import new_classifier, new_weights
from levelhead.models.concurrency import MAKING
from levelhead.models.encoding import Text, encode
from levelhead.models.hooks import attention_by, quick_kernels
from levelhead.models.model import Model
from levelhead.probes.glue import GlueItem
from levelhead.progress import steps

POINTS = 24  # of a learning curve
_EVALUATED_AT_ONCE = 64  # texts; more of them would pad more

Doubles = NDArray[np.float64]
Score = Callable[[Doubles, Doubles], float]  # gold, predicted


@dataclass(frozen=True)
class Hyperparameters:
    """How a classifier is trained; the learning rate goes by the model's size where none is given.

    epochs: times that all examples are trained on
    batch_size: examples in a step
    learning_rate: the highest; None: by the size of the model
    warmup: share of all steps in which the learning rate rises
    weight_decay: of all weights but those of ablated heads
    max_length: tokens; longer texts are cut
    lora: train low-rank adapters instead of all weights
    bf16: forward and backward passes in bfloat16; weights and their updates stay in float32
    """

    epochs: int = 3
    batch_size: int = 32
    learning_rate: float | None = None
    warmup: float = 0.1
    weight_decay: float = 0.01
    max_length: int = 128
    lora: bool = False
    bf16: bool = False

    def __post_init__(self) -> None:
        if min(self.epochs, self.batch_size) < 1 or self.max_length < 8:
            raise BadOption(
                f"epochs={self.epochs}, batch_size={self.batch_size}, max_length={self.max_length} came; "
                "allowed are at least 1, 1 and 8."
            )
        rate = 1e-4 if self.learning_rate is None else self.learning_rate
        if not (0 < rate < 1 and 0 <= self.warmup <= 1 and 0 <= self.weight_decay < 1):
            raise BadOption(
                f"learning_rate={rate:g}, warmup={self.warmup:g}, weight_decay={self.weight_decay:g} came; "
                "allowed are above 0 and below 1, 0 to 1, and 0 to below 1."
            )

    def rate(self, model: Model) -> float:
        """The learning rate: as given, else by the size of the model."""
        if self.learning_rate is not None:
            return self.learning_rate
        if self.lora:
            return 5e-4
        return 2e-5 if is_large(model) else 3e-4


@dataclass(frozen=True, eq=False)
class Labeled(Dataset[tuple[Tokens, float]]):
    """Tokenized texts, each with its label: the number of its class, or a score."""

    tokens: tuple[Tokens, ...]
    labels: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, number: int) -> tuple[Tokens, float]:
        return self.tokens[number], self.labels[number]

    @property
    def by_length(self) -> NDArray[np.int64]:
        """The numbers of the texts, the shortest first."""
        return np.argsort([len(tokens.ids) for tokens in self.tokens], kind="stable")


@dataclass(frozen=True, eq=False)
class TaskData:
    """What one task trains on and is evaluated on, tokenized for one model."""

    labels: tuple[str, ...]  # names of the classes; none: a score
    train: Labeled
    dev: Labeled
    score: Score  # shown along the learning curve


@dataclass(frozen=True)
class CurvePoint:
    """A point of a learning curve: the mean training loss since the last one, or the score on dev."""

    step: int
    epoch: float
    loss: float | None
    score: float | None


@dataclass(frozen=True, eq=False)
class FineTuned:
    """A trained classifier, from which its edits were taken off again, and its answers on dev."""

    model: Model
    predictions: Doubles  # [item]: the number of a class, or a score
    curve: tuple[CurvePoint, ...]


def labeled(model: Model, items: Sequence[GlueItem], max_length: int) -> Labeled:
    """Texts as the model reads them. A causal model, whose tokenizer marks no pairs, gets two lines."""
    reading = task_reading(model, items, max_length)
    rows = tuple(Tokens(row.ids, row.types) for row in encode(model, reading.texts, reading.cut))
    return Labeled(rows, tuple(item.label for item in items))


def task_reading(model: Model, items: Sequence[GlueItem], max_length: int) -> Pooled:
    """What a classifier is asked about examples, cut as in training."""
    texts = [_text(model, item) for item in items]
    return Pooled(texts, cut=min(max_length, model.max_tokens or max_length))


def _text(model: Model, item: GlueItem) -> Text:
    if item.second is not None and model.family.causal:
        return Text(f"{item.first}\n{item.second}")
    return Text(item.first, item.second)


def finetune(
    model: Model,
    edits: Sequence[Edit],
    data: TaskData,
    plan: Hyperparameters,
    seed: int = 0,
    checkpoints: Path | None = None,
) -> FineTuned:
    """Train a classifier that begins with the model's weights, with the edits on, and ask it all of dev.

    checkpoints: a folder of this training alone; what a killed training left there is gone on with. The model
    itself stays as it is.
    """
    check_trainable(model)
    with model.edited(*weights_of(tuple(edits))):  # the classifier begins with them
        classifier = new_classifier(model, data.labels, seed)
    edits = besides_weights(tuple(edits))
    with MAKING.asking(), own_randomness(seed), quiet():
        if plan.lora:
            add_lora(classifier, new_weights(classifier, model))
        else:
            classifier.hf.requires_grad_(True)
        with classifier.edited(*edits):  # after LoRA, whose layers the hooks of queries, keys and values need
            trained = _trained(classifier, edits, data, plan, seed, checkpoints)
        if plan.lora:
            merge_lora(classifier.hf)
    classifier.hf.to(model.device).eval().requires_grad_(False)
    return trained


def _trained(
    classifier: Model,
    edits: Sequence[Edit],
    data: TaskData,
    plan: Hyperparameters,
    seed: int,
    checkpoints: Path | None,
) -> FineTuned:
    """Train and evaluate."""
    evaluations = _Evaluations(data)
    with checkpoint_folder(checkpoints) as folder, steps("Training", _total(data, plan)) as advance:
        trainer = _trainer(classifier, data, plan, seed, folder)
        trainer.compute_metrics = evaluations
        trainer.add_callback(Progress(advance))
        if not plan.lora:  # it trains no weight that could decay
            trainer.add_callback(ClosedHeads(classifier, [*classifier.adapter, *edits]))
        if checkpoints is not None:
            trainer.add_callback(Checkpoints())
        own = str(classifier.hf.config._attn_implementation)
        slow_back = plan.bf16 and classifier.device.type == "cpu"  # torch's fused attention: 15 times slower
        with attention_by(classifier.hf, "eager" if slow_back else own), quick_kernels():
            trainer.train(resume_from_checkpoint=last_checkpoint(folder))
        curve = _curve(trainer.state.log_history)
        if evaluations.last is None:  # it was killed after its last step
            trainer.evaluate()
    assert evaluations.last is not None
    losses = [point.loss for point in curve if point.loss is not None]
    if not (np.isfinite(losses).all() and np.isfinite(evaluations.last).all()):
        rate = plan.rate(classifier)
        raise CannotDo(
            f"{classifier.name}: the training diverges at a learning rate of {rate:g}. Give a lower one."
        )
    return FineTuned(classifier, evaluations.last, curve)


# ---- the trainer


class _Trainer(Trainer):
    """Trainer, with an order of examples that a resumed training meets again, and with little padding.

    It evaluates with the attention that the network has when the trainer is made, whatever it is trained by.
    """

    def __init__(self, network: PreTrainedModel, args: TrainingArguments, **parts: Any) -> None:
        super().__init__(network, args, **parts)
        self._network, self._attention = network, str(network.config._attn_implementation)

    def evaluate(self, *args: Any, **options: Any) -> dict[str, float]:
        with attention_by(self._network, self._attention):
            return super().evaluate(*args, **options)

    def _get_train_sampler(self, train_dataset: Any = None) -> Sampler[int]:
        examples: Any = self.train_dataset if train_dataset is None else train_dataset
        lengths = [len(tokens.ids) for tokens, _ in examples]
        return SimilarLengths(lengths, self.args.train_batch_size, int(self.args.seed))


def _trainer(classifier: Model, data: TaskData, plan: Hyperparameters, seed: int, folder: Path) -> Trainer:
    cuda = classifier.device.type == "cuda"
    gpus = torch.cuda.device_count() if cuda else 1  # a batch is shared among all of them
    total, an_epoch = _total(data, plan), ceil(len(data.train) / plan.batch_size)
    args = arguments(
        classifier,
        folder,
        seed,
        per_device_train_batch_size=ceil(plan.batch_size / gpus),
        per_device_eval_batch_size=_EVALUATED_AT_ONCE,
        num_train_epochs=plan.epochs,
        learning_rate=plan.rate(classifier),
        warmup_steps=int(plan.warmup * total),
        weight_decay=plan.weight_decay,
        bf16=plan.bf16,
        logging_steps=max(1, total // POINTS),
        eval_strategy="steps",
        eval_steps=an_epoch,  # at the last step of an epoch, so that a checkpoint there knows the score
    )
    trainer = _Trainer(
        classifier.hf,
        args,
        data_collator=_collator(classifier, data),
        train_dataset=data.train,
        eval_dataset=Subset(data.dev, data.dev.by_length.tolist()),  # texts of similar length together
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def _total(data: TaskData, plan: Hyperparameters) -> int:
    """Steps of a whole training."""
    return plan.epochs * ceil(len(data.train) / plan.batch_size)


def _collator(
    classifier: Model, data: TaskData
) -> Callable[[Sequence[tuple[Tokens, float]]], dict[str, Tensor]]:
    kind = torch.long if data.labels else classifier.hf.dtype

    def collate(examples: Sequence[tuple[Tokens, float]]) -> dict[str, Tensor]:
        batch = inputs(classifier, [tokens for tokens, _ in examples])
        labels = torch.tensor([label for _, label in examples], device=classifier.device)
        return {**batch, "labels": labels.to(kind)}

    return collate


class _Evaluations:
    """What Trainer calls after each evaluation: it scores the answers on dev and keeps the last ones.

    The texts were asked by length; their answers are kept in their own order.
    """

    def __init__(self, data: TaskData) -> None:
        self._data = data
        self.last: Doubles | None = None

    def __call__(self, evaluated: EvalPrediction) -> dict[str, float]:
        self.last = _answers(evaluated.predictions)[np.argsort(self._data.dev.by_length)]
        return {"score": self._data.score(np.asarray(self._data.dev.labels, np.float64), self.last)}


def _answers(outputs: Any) -> Doubles:
    """Classes, or scores, from a classifier's outputs [item, label]; other outputs may stand behind them."""
    logits = np.asarray(outputs[0] if isinstance(outputs, tuple) else outputs, np.float64)
    return logits.argmax(-1).astype(np.float64) if logits.shape[-1] > 1 else logits.reshape(len(logits))


def _curve(history: Sequence[Mapping[str, float]]) -> tuple[CurvePoint, ...]:
    points = ((entry.get("loss"), entry.get("eval_score"), entry) for entry in history)
    return tuple(
        CurvePoint(int(entry["step"]), float(entry["epoch"]), loss, score)
        for loss, score, entry in points
        if loss is not None or score is not None
    )
