"""The last linear layer of a classifier or next-sentence head, solved so that an exchange of groups moves it
less.

    W, b minimize   mean over texts of u ( W c + b − z )²  +  λ · mean of ( W d )²  +  ρ v · | W − W₀ |²

c is the mean over the turns of the groups of the vectors that the layer reads, d how far each turn is from c,
z the mean over the turns of the unmodified model's logits, W₀ the layer as it was, v the mean variance of the
entries of c, weighed by u. u is how undecided z leaves a text (doubts): logits that could be 8 or 9 decide
nothing, those near 0 do, so what the head decides is kept. λ, the strength, says how much more a difference
between the groups weighs than what the head says of both. One linear system, no training, no other pass, an
ordinary checkpoint. Logits are centered over the labels, which changes no probability.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from levelhead.edits.sites import Variant
from levelhead.engine.distilling import turned_text
from levelhead.engine.readings import Pooled
from levelhead.engine.run import read_one
from levelhead.errors import CannotDo
from levelhead.models.encoding import Text, encode
from levelhead.models.model import Model
from levelhead.probes.group_swap import GroupSwap

_LEAST_DOUBT = 1e-12  # of a text that is decided to the last bit
_LENGTH = 128  # tokens of a pair; longer ones are left out
RIDGE = 0.3  # ρ: chosen on parts A and B of the shipped items
Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class LinearHead:
    """A linear layer: weight [label, entry], bias [label]."""

    weight: Doubles
    bias: Doubles

    def __call__(self, vectors: Doubles) -> Doubles:
        return np.asarray(vectors @ self.weight.T + self.bias)


def doubts(goal: Doubles) -> Doubles:
    """How much each text counts: in proportion to 1 − Σ p² over the labels, with a mean of 1.

    goal: [text, label], logits whose softmax is p; of two labels that is 2 p (1 − p).
    """
    p = np.exp(goal - goal.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    undecided = np.maximum(1 - (p**2).sum(1), _LEAST_DOUBT)
    return np.asarray(undecided / undecided.mean())


def solved_head(vectors: Doubles, goal: Doubles, head: LinearHead, weighing: float) -> LinearHead:
    """The head that comes nearest to a goal where that is in doubt, with differences between turns weighed by
    so much.

    vectors: [turn, text, entry]. goal: [text, label]. head: the layer as it was; the mean of its rows and the
    mean of its bias stay.
    """
    common = vectors.mean(0)
    apart = (vectors - common).reshape(-1, common.shape[1])
    share, wanted = doubts(goal) / len(goal), goal - goal.mean(1, keepdims=True)
    own = head.weight - head.weight.mean(0)
    center, level = share @ common, share @ wanted
    spread = common - center
    weighed = (share[:, None] * spread).T
    scatter, leaning = weighed @ spread, weighing * apart.T @ apart / len(apart)
    system = scatter + leaning + RIDGE * np.diag(scatter).mean() * np.eye(len(center))
    missing = weighed @ (wanted - level - spread @ own.T) - leaning @ own.T
    step = np.linalg.solve(system, missing).T
    return LinearHead(head.weight + step, level - (own + step) @ center + head.bias.mean())


def refitted_heads(
    model: Model,
    swap: GroupSwap,
    texts: Sequence[Text],
    variants: Sequence[Variant],
    weighings: Sequence[float],
) -> list[list[Mapping[str, Tensor]]]:
    """The classification head by the names of its parameters, [variant][weighing], fitted on texts that the
    exchange of groups changes."""
    head, names = _head(model)
    asked = _asked(model, swap, texts)
    if not asked:
        raise CannotDo(f"{model.name}: no text that fits has a word of {swap.name} to exchange.")
    read = read_one(model, Pooled(asked, vectors=True), [(), *variants], label="Pairs of sentences")
    own, *others = read.astype(np.float64).reshape(len(read), swap.groups, len(asked) // swap.groups, -1)
    said = head(own)
    goal = (said - said.mean(-1, keepdims=True)).mean(0)
    return [
        [_parameters(names, solved_head(each, goal, head, weighing)) for weighing in weighings]
        for each in others
    ]


def _asked(model: Model, swap: GroupSwap, texts: Sequence[Text]) -> list[Text]:
    """The texts that a turn changes and that fit at every turn, turn after turn."""
    turned = [tuple(turned_text(swap, text, turn) for turn in range(swap.groups)) for text in texts]
    changed = [turns for turns in turned if len(set(turns)) > 1]
    limit = min(_LENGTH, model.max_tokens or _LENGTH)
    rows = encode(model, [text for turns in changed for text in turns], limit)
    short = np.asarray([len(row.ids) < limit for row in rows], np.bool_).reshape(-1, swap.groups)
    kept = [turns for turns, fits in zip(changed, short, strict=True) if fits.all()]
    return [turns[turn] for turn in range(swap.groups) for turns in kept]


def _head(model: Model) -> tuple[LinearHead, tuple[str, str]]:
    """The head in double precision, and the names of its weight and bias."""
    module: Any = model.classification_head
    if module is None or module.bias is None:
        raise CannotDo(f"{model.name} has no linear classification head with a bias.")
    names = {id(value): name for name, value in model.hf.named_parameters()}
    weight, bias = (value.detach().double().cpu().numpy() for value in (module.weight, module.bias))
    return LinearHead(weight, bias), (names[id(module.weight)], names[id(module.bias)])


def _parameters(names: tuple[str, str], head: LinearHead) -> dict[str, Tensor]:
    return {
        name: torch.from_numpy(np.ascontiguousarray(value, np.float32))
        for name, value in zip(names, (head.weight, head.bias), strict=True)
    }
