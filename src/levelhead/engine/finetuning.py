"""Fine-tuning with the edits on, in training and in evaluation: the only place that trains a model.

transformers' Trainer does it, with accelerate underneath. Same seed, same bytes on a CPU; so too when the
process was killed and the training goes on from its last checkpoint (docs/method/sentences.md, GLUE).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import Sampler
from transformers import (
    EvalPrediction,
    PreTrainedModel,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from levelhead.edits.gates import HeadGates
from levelhead.edits.output import besides_weights, weights_of
from levelhead.edits.sites import Edit, Head
from levelhead.engine.batches import SimilarLengths, Tokens, inputs
from levelhead.engine.collectors import Doubles
from levelhead.engine.hyperparameters import Hyperparameters
from levelhead.engine.readings import Pooled
from levelhead.engine.training import (
    Checkpoints,
    Progress,
    adapted,
    add_lora,
    arguments,
    check_trainable,
    checkpoint_folder,
    is_large,
    last_checkpoint,
    own_randomness,
)
from levelhead.errors import CannotDo
from levelhead.models.adapter import AffineEdit
from levelhead.models.anatomy import Anatomy
from levelhead.models.concurrency import MAKING
from levelhead.models.copies import new_classifier, new_weights
from levelhead.models.encoding import Text, encode
from levelhead.models.hooks import attention_by, join_qkv, quick_kernels, split_qkv
from levelhead.models.model import Model
from levelhead.models.sources import quiet
from levelhead.probes.glue import GlueItem
from levelhead.progress import steps

POINTS = 24  # of a learning curve
_EVALUATED_AT_ONCE = 64  # texts; more of them would pad more

Score = Callable[[Doubles, Doubles], float]  # gold, predicted
Labeled = Sequence[tuple[Tokens, float]]  # tokenized texts, each with the number of its class, or a score


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
    rows = encode(model, reading.texts, reading.cut)
    return [(Tokens(row.ids, row.types), item.label) for row, item in zip(rows, items, strict=True)]


def task_reading(model: Model, items: Sequence[GlueItem], max_length: int) -> Pooled:
    """What a classifier is given of examples, cut as in training."""
    texts = [
        Text(f"{item.first}\n{item.second}")
        if item.second is not None and model.family.causal
        else Text(item.first, item.second)
        for item in items
    ]
    return Pooled(texts, cut=min(max_length, model.max_tokens or max_length))


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
            for name, layer in adapted(classifier.hf):
                layer.merge()
                classifier.hf.set_submodule(name, layer.get_base_layer())
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
    last: list[Doubles] = []  # answers on dev: the last ones
    gold = np.asarray([label for _, label in data.dev], np.float64)
    by_length = np.argsort([len(tokens.ids) for tokens, _ in data.dev], kind="stable")
    kind = torch.long if data.labels else classifier.hf.dtype

    def collate(examples: Sequence[tuple[Tokens, float]]) -> dict[str, Tensor]:
        batch = inputs(classifier, [tokens for tokens, _ in examples])
        labels = torch.tensor([label for _, label in examples], device=classifier.device)
        return {**batch, "labels": labels.to(kind)}

    def score(evaluated: EvalPrediction) -> dict[str, float]:
        outputs: Any = evaluated.predictions  # [item, label]; other outputs may stand behind them
        logits = np.asarray(outputs[0] if isinstance(outputs, tuple) else outputs, np.float64)
        several = logits.shape[-1] > 1
        answers = logits.argmax(-1).astype(np.float64) if several else logits.reshape(len(logits))
        last[:] = [answers[np.argsort(by_length)]]  # they were run by length
        return {"score": data.score(gold, last[0])}

    an_epoch = ceil(len(data.train) / plan.batch_size)  # steps
    total = plan.epochs * an_epoch
    # a batch is shared among all cards
    gpus = torch.cuda.device_count() if classifier.device.type == "cuda" else 1
    with checkpoint_folder(checkpoints) as folder, steps("Training", total) as advance:
        trainer = _Trainer(
            classifier.hf,
            arguments(
                classifier,
                folder,
                seed,
                per_device_train_batch_size=ceil(plan.batch_size / gpus),
                per_device_eval_batch_size=_EVALUATED_AT_ONCE,
                num_train_epochs=plan.epochs,
                learning_rate=plan.rate(is_large(classifier)),
                warmup_steps=int(plan.warmup * total),
                weight_decay=plan.weight_decay,
                bf16=plan.bf16,
                logging_steps=max(1, total // POINTS),
                eval_strategy="steps",
                eval_steps=an_epoch,  # so that a checkpoint at the end of an epoch knows the score
            ),
            data_collator=collate,
            train_dataset=data.train,
            eval_dataset=[data.dev[i] for i in by_length],  # texts of similar length together
        )
        trainer.remove_callback(PrinterCallback)
        trainer.compute_metrics = score
        trainer.add_callback(Progress(advance))
        if not plan.lora:  # it trains no weight that could decay
            trainer.add_callback(ClosedHeads(classifier, [*classifier.adapter, *edits]))
        if checkpoints is not None:
            trainer.add_callback(Checkpoints())
        own = str(classifier.hf.config._attn_implementation)
        slow_back = plan.bf16 and classifier.device.type == "cpu"  # torch's fused attention: 15 times slower
        with attention_by(classifier.hf, "eager" if slow_back else own), quick_kernels():
            trainer.train(resume_from_checkpoint=last_checkpoint(folder))
        curve = tuple(
            CurvePoint(int(entry["step"]), float(entry["epoch"]), entry.get("loss"), entry.get("eval_score"))
            for entry in trainer.state.log_history
            if entry.get("loss") is not None or entry.get("eval_score") is not None
        )
        if not last:  # it was killed after its last step
            trainer.evaluate()
    losses = [point.loss for point in curve if point.loss is not None]
    if not (np.isfinite(losses).all() and np.isfinite(last[0]).all()):
        rate = plan.rate(is_large(classifier))
        raise CannotDo(
            f"{classifier.name}: the training diverges at a learning rate of {rate:g}. Give a lower one."
        )
    return FineTuned(classifier, last[0], curve)


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


# ---- closed heads


@dataclass(frozen=True, eq=False)
class HeadSlice:
    """The part of one parameter that serves closed heads alone."""

    parameter: nn.Parameter
    index: Tensor  # along the dimension
    dimension: int

    def values(self) -> Tensor:
        return self.parameter.detach().index_select(self.dimension, self.index).clone()


class ClosedHeads(TrainerCallback):
    """Puts the parameters of heads that a gate closes back after every step, bit for bit as they were.

    Behind a gate of 0 their gradient is exactly 0, so that only weight decay would move them
    (docs/method/sentences.md, GLUE).
    """

    def __init__(self, model: Model, edits: Sequence[Edit]) -> None:
        self._kept = [(each, each.values()) for each in head_slices(model, closed_heads(model, edits))]

    @torch.no_grad()
    def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        for part, values in self._kept:
            part.parameter.index_copy_(part.dimension, part.index, values)


def closed_heads(model: Anatomy, edits: Sequence[Edit]) -> list[Head]:
    """Heads that an edit multiplies with 0; of a block that several layers share, those closed in all."""
    closed: set[Head] = set()
    for edit in edits:
        if isinstance(edit, HeadGates):
            closed |= {Head(edit.layer, head) for head, value in enumerate(edit.values) if value == 0}
        elif isinstance(edit, AffineEdit) and edit.site.part == "heads":
            only_scaled = edit.scale is not None and edit.read is None and edit.offset is None
            scales = enumerate(edit.scale if only_scaled and edit.scale is not None else ())
            closed |= {Head(edit.site.layer, head) for head, scale in scales if not scale.any()}
    layers = {block: [i for i, own in enumerate(model.blocks) if own is block] for block in model.blocks}
    return sorted(
        head
        for head in closed
        if all(Head(layer, head.head) in closed for layer in layers[model.blocks[head.layer]])
    )


def head_slices(model: Anatomy, heads: Collection[Head]) -> list[HeadSlice]:
    """What of the model's parameters serves these heads and no other: rows of the query, key and value
    projections and columns of W^O.

    A key or value head that several query heads share is among it only if all of them are. Queries and keys
    that are normalized over all heads at once serve every head, so they are not among it.
    """
    slices: list[HeadSlice] = []
    for layer in sorted({head.layer for head in heads}):
        numbers = {head.head for head in heads if head.layer == layer}
        for number, part in enumerate(("query", "key", "value")):
            if model.family.joint_norm and part != "value":
                continue
            module = cast(Any, model.qkv_module(layer, part))
            dimension = 0 if isinstance(module, nn.Linear) else 1
            # which outputs of a query, key, value or fused projection belong to these query heads alone
            outputs = torch.zeros(module.weight.shape[dimension], device=module.weight.device)
            by_part = split_qkv(model, outputs, number)
            mine = by_part[number]  # [head, dim]
            group = model.heads // mine.shape[0]
            alone = [all(head * group + i in numbers for i in range(group)) for head in range(mine.shape[0])]
            by_part[number] = mine + torch.tensor(alone, device=mine.device).to(mine)[:, None]
            index = join_qkv(model, by_part, number).nonzero()[:, 0]
            slices.append(HeadSlice(module.weight, index, dimension))
            if getattr(module, "bias", None) is not None:
                slices.append(HeadSlice(module.bias, index, 0))
        output = cast(Any, model.output_projection(layer))
        columns = torch.arange(model.heads * model.head_dim, device=output.weight.device)
        index = torch.cat([columns.view(model.heads, -1)[number] for number in sorted(numbers)])
        slices.append(HeadSlice(output.weight, index, 1 if isinstance(output, nn.Linear) else 0))
    return [each for each in slices if len(each.index)]
