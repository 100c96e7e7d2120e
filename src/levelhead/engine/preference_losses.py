"""Which of two next sentences a model should prefer: lessons and gradients about stereotypes.

    x(B)      log p of a next sentence after its context: of the next-sentence head, or per token
    DPO       − log σ( β [ x(anti) − x₀(anti) − x(stereo) + x₀(stereo) ] )       Rafailov et al. 2023
    NPO       (2/β) log( 1 + (π/π₀)^β ),  log π = x(stereo),  + KL on plain text   Zhang et al. 2024
    contrast  ∇ x(anti) − ∇ x(stereo), only rows where the two point apart most   Yu et al. 2023 (PCGU)

x₀ and π₀ are of the model itself. Both genders of a stereotype are among the pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from levelhead.engine.batches import Tokens, inputs
from levelhead.engine.distilling import OrientedTexts, answered, divergence
from levelhead.engine.training import Batch, check_trainable
from levelhead.errors import CannotDo
from levelhead.models.concurrency import asking
from levelhead.models.copies import copied
from levelhead.models.encoding import Text, encode
from levelhead.models.hooks import at_rest
from levelhead.models.model import Model
from levelhead.progress import steps

BETA = 0.1
_AT_ONCE = 8  # pairs of a gradient


@dataclass(frozen=True, eq=False)
class Sentence:
    """A context and a next sentence, tokenized, and where the next sentence's own tokens stand."""

    row: Tokens
    own: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Choice:
    """Two next sentences of one context."""

    stereotype: Sentence
    anti: Sentence


def choices(model: Model, contexts: Sequence[tuple[str, str, str]]) -> list[Choice]:
    """Choices of (context, stereotype, anti-stereotype) as the model reads them."""
    if not model.abilities & {"causal", "nsp"}:
        raise CannotDo(f"{model.name} cannot judge a next sentence: it has no head for that.")

    def sentence(context: str, after: str) -> Sentence:
        pair = "nsp" in model.abilities
        (row,) = encode(model, [Text(context, after) if pair else Text(f"{context} {after}")])
        own = () if pair else row.tokens_of((len(context) + 1, len(context) + 1 + len(after)))
        return Sentence(Tokens(row.ids, row.types), tuple(int(place) for place in own if place > 0))

    sides = [[sentence(each[0], each[side]) for each in contexts] for side in (1, 2)]
    return [Choice(stereo, anti) for stereo, anti in zip(*sides, strict=True)]


def choice_batch(model: Model, some: Sequence[Choice]) -> Batch:
    """Both sentences of some choices as rows, the stereotypes first."""
    sentences = [each.stereotype for each in some] + [each.anti for each in some]
    batch = inputs(model, [each.row for each in sentences])
    width = batch["input_ids"].shape[1]
    positions = [row * width + place - 1 for row, each in enumerate(sentences) for place in each.own]
    more = {
        "positions": torch.tensor(positions, dtype=torch.long),
        "labels": torch.tensor([int(s.row.ids[i]) for s in sentences for i in s.own], dtype=torch.long),
        "owner": torch.tensor([row for row, s in enumerate(sentences) for _ in s.own], dtype=torch.long),
    }
    return {**batch, **{name: value.to(model.device) for name, value in more.items()}}


def log_choice(model: Model, batch: Batch) -> tuple[Tensor, Tensor]:
    """x of the stereotypes and of the anti-stereotypes in a batch of choices."""
    rows = len(batch["input_ids"])
    if "nsp" in model.abilities:
        x = answered(model, {**batch, "positions": batch["positions"][:0]})[-1].log_softmax(-1)[:, 0]
    else:
        logs = -functional.cross_entropy(answered(model, batch)[0], batch["labels"], reduction="none")
        count = torch.bincount(batch["owner"], minlength=rows).clamp(min=1)
        x = logs.new_zeros(rows).index_add(0, batch["owner"], logs) / count
    return x[: rows // 2], x[rows // 2 :]


# ---- lessons


@dataclass(frozen=True, eq=False)
class Choosing:
    """Choices as batches: what lessons about them have in common."""

    model: Model
    choices: Sequence[Choice]

    @property
    def lengths(self) -> list[int]:
        return [max(len(each.stereotype.row.ids), len(each.anti.row.ids)) for each in self.choices]

    @property
    def own_words(self) -> tuple[int, ...]:
        sentences = [each for choice in self.choices for each in (choice.stereotype, choice.anti)]
        return tuple(sorted({int(token) for each in sentences for token in each.row.ids}))

    def batch(self, numbers: Sequence[int], seed: Sequence[int]) -> Batch:
        return choice_batch(self.model, [self.choices[number] for number in numbers])

    def own(self, batch: Batch) -> tuple[Tensor, Tensor]:
        with torch.no_grad(), at_rest(self.model.hf):
            return log_choice(self.model, batch)


@dataclass(frozen=True, eq=False)
class Preferring(Choosing):
    """DPO: anti-stereotypes preferred to stereotypes, more than by the model itself."""

    def loss(self, student: Model, batch: Batch) -> Tensor:
        """In nats per choice."""
        stereo, anti = log_choice(student, batch)
        before_stereo, before_anti = self.own(batch)
        return -functional.logsigmoid(BETA * (anti - before_anti - stereo + before_stereo)).mean()


@dataclass(frozen=True, eq=False)
class Forgetting(Choosing):
    """NPO: stereotypes less likely than to the model itself, plain text as likely as before."""

    plain: OrientedTexts

    def batch(self, numbers: Sequence[int], seed: Sequence[int]) -> Batch:
        drawn = np.random.default_rng(seed).integers(len(self.plain.texts), size=len(numbers))
        kept = self.plain.batch([int(number) for number in drawn], seed)
        return {**super().batch(numbers, seed), **{f"plain {name}": value for name, value in kept.items()}}

    def loss(self, student: Model, batch: Batch) -> Tensor:
        """In nats per choice, and per answer about plain text."""
        kept = {name[6:]: value for name, value in batch.items() if name.startswith("plain ")}
        with torch.no_grad(), at_rest(self.model.hf):
            targets = [answer.softmax(-1) for answer in answered(self.model, kept)]
        stereo, _ = log_choice(student, batch)
        before, _ = self.own(batch)
        unlearned = 2 / BETA * functional.softplus(BETA * (stereo - before)).mean()
        return unlearned + divergence(answered(student, kept), targets)


# ---- gradients


def contrast(model: Model, some: Sequence[Choice]) -> dict[str, tuple[Tensor, Tensor]]:
    """Mean gradients of x(anti) and x(stereo), by the name of the parameter; the model stays as it is."""
    check_trainable(model)
    copy = copied(model, model.name, "edit the weights that it was made from")
    copy.hf.eval().requires_grad_(True)
    named = dict(copy.hf.named_parameters())
    sums = {name: (torch.zeros_like(w), torch.zeros_like(w)) for name, w in named.items()}
    with asking(model.hf), steps("Gradients", len(some)) as advance:
        for start in range(0, len(some), _AT_ONCE):
            part = some[start : start + _AT_ONCE]
            stereo, anti = log_choice(copy, choice_batch(copy, part))
            for side, x in enumerate((anti, stereo)):
                slopes = torch.autograd.grad(
                    x.sum(), list(named.values()), retain_graph=side == 0, allow_unused=True
                )
                for name, slope in zip(named, slopes, strict=True):
                    if slope is not None:
                        sums[name][side].add_(slope / len(some))
            advance(len(part))
    return {name: (anti.detach(), stereo.detach()) for name, (anti, stereo) in sums.items()}
