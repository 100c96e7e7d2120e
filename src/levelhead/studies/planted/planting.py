"""A bias whose place is known: an association written into the weights of chosen heads, in a copy of a model.

Direction. For two sets of vectors with means u and v and the vectors o of all other tokens, the one, r, that
tells the sets apart and stays quiet everywhere else (a linearly constrained minimum-variance filter):

    minimize r' N r   subject to   r·(u − v) = 1,  r·(u + v) = 0
    N = within-set covariance + E[o o'] + ridge

Value plant. r reads X against Y in all value vectors of the layer, and g is the difference of the means of A
and B in the stream behind it. One dimension j of the head's values, the one that matters least, becomes what
r reads, and its column of W^O becomes g: where the head attends to an X word it writes +strength/2 of the way
from B to A, at a Y word −strength/2. (Other query heads of the same key-value group lose dimension j, so that
only this head carries the plant.)

    W^V[j] = r' W^V,   W^O[:, j] = strength · g

Attention plant. r reads X against Y in the head's queries, k reads A against B in its keys. The head's rows
of W^Q get a rank-1 addition, so that X words look at A words, and Y words at B words, by `strength` nats more
(before rotary angles and norms of queries, where a family has those):

    W^Q[head] += strength · sqrt(dim) · k r' W^Q[head]

The head's gate controls all that was planted into it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from levelhead.edits.gates import gates
from levelhead.edits.head import Head
from levelhead.edits.sites import Part, Site
from levelhead.engine.readings import States
from levelhead.engine.run import read
from levelhead.errors import BadOption, BadProbe, CannotDo
from levelhead.models.concurrency import asking
from levelhead.models.encoding import Ints, Text, encode
from levelhead.models.hooks import join_qkv, split_qkv
from levelhead.models.model import Model
from levelhead.models.sources import Source
from levelhead.probes.contexts import Context

Kind = Literal["value", "attention"]
Doubles = NDArray[np.float64]
_RIDGE = 1e-3  # of the mean variance: fewer words than dimensions must not make the direction explode
_PARTS: dict[Kind, tuple[Part, ...]] = {"value": ("value", "block"), "attention": ("query", "key")}
_QKV = ("query", "key", "value")


def direction(first: Doubles, second: Doubles, others: Doubles) -> Doubles:
    """The direction that is +1/2 at the first set's mean, −1/2 at the second's, and quiet on others: [d]

    first, second [occurrence of a word, d]; others [token, d].
    """
    u, v = first.mean(0), second.mean(0)
    within = np.concatenate([first - u, second - v])
    noise = within.T @ within / len(within) + others.T @ others / max(len(others), 1)
    noise += _RIDGE * np.trace(noise) / len(noise) * np.eye(len(noise))
    limits = np.stack([u - v, u + v], axis=1)
    solved = np.linalg.solve(noise, limits)
    gram = limits.T @ solved
    if not np.isfinite(gram).all() or np.linalg.cond(gram) > 1e12:
        raise CannotDo(
            "The model sees no difference between the two sets of words, so nothing can be planted."
        )
    return np.asarray(solved @ np.linalg.solve(gram, np.array([1.0, 0.0])), dtype=np.float64)


class Planter:
    """Plants the association X-A, Y-B into copies of a model; the model itself is not touched.

    Its directions are fitted on the unmodified model, on the given contexts.
    """

    def __init__(self, model: Model, contexts: Sequence[Context], kind: Kind = "value") -> None:
        if model.shares_blocks:
            raise CannotDo(
                f"{model.name} runs one block at several layers, so a plant would have no single place."
            )
        if lacking := set("ABXY") - {context.group for context in contexts}:
            raise BadProbe(
                f"No context holds a word of {', '.join(sorted(lacking))}; planting needs A, B, X and Y."
            )
        self.model, self.kind = model, kind
        self._contexts = contexts
        self._texts = [Text(context.text) for context in contexts]
        encoded = zip(encode(model, self._texts), contexts, strict=True)
        self._tokens: list[Ints] = [text.tokens_of((context.start, context.end)) for text, context in encoded]
        self._seen: dict[tuple[int, Part], list[Doubles]] = {}  # (layer, part) -> of each text [token, ...]

    def planted(self, strengths: Mapping[Head, float]) -> Model:
        """A copy with a plant of the given strength in each head; a negative strength plants X-B, Y-A."""
        if not strengths:
            raise BadOption("No head came; name at least one to plant into.")
        if self.model.fixed_weights:
            raise CannotDo(f"{self.model.name} takes no plants: {self.model.fixed_weights}.")
        gates(self.model, strengths)  # refuses heads that the model does not have
        self._look(sorted({head.layer for head in strengths}))
        name = f"{self.model.name} with planted heads"
        with asking(self.model.hf):
            hf = deepcopy(self.model.hf)
        about = self.model.origin, self.model._missing
        alone, opening = self.model.placement.alone(), self.model.opening
        source = Source(name, hf, self.model.tokenizer, *about, placement=alone, opening=opening)
        copy = Model(source)
        for head, strength in sorted(strengths.items()):
            plant = self._plant_value if self.kind == "value" else self._plant_attention
            plant(copy, *head, strength)
        return copy

    def _plant_value(self, copy: Model, layer: int, head: int, strength: float) -> None:
        values = self._states(layer, "value")
        of_all_heads = [v.reshape(len(v), -1) for v in values]
        r = torch.from_numpy(self._direction(of_all_heads, "XY"))
        behind = self._states(layer, "block")
        g = torch.from_numpy(self._words(behind, "A").mean(0) - self._words(behind, "B").mean(0))
        group = copy.heads // copy.kv_heads
        out = _columns(copy, layer).unflatten(1, (copy.heads, copy.head_dim))  # [hidden, head, dim], a view
        spread = np.concatenate(values)[:, head // group].std(0)
        j = int((out[:, head].norm(dim=0).cpu().double() * torch.from_numpy(spread)).argmin())

        def read_by_r(v: Tensor) -> Tensor:
            new = v.clone()
            new[..., head // group, j] = v.flatten(-2) @ r.to(v)
            return new

        _change(copy, layer, "value", read_by_r)
        out[:, head // group * group : (head // group + 1) * group, j] = 0
        out[:, head, j] = strength * g.to(out)

    def _plant_attention(self, copy: Model, layer: int, head: int, strength: float) -> None:
        r = self._direction([q[:, head] for q in self._states(layer, "query")], "XY")
        of_group = head * copy.kv_heads // copy.heads
        k = self._direction([key[:, of_group] for key in self._states(layer, "key")], "AB")
        change = torch.from_numpy(strength * copy.head_dim**0.5 * np.outer(r, k))

        def look(q: Tensor) -> Tensor:
            new = q.clone()
            new[..., head, :] += q[..., head, :] @ change.to(q)
            return new

        _change(copy, layer, "query", look)

    # ---- what the unmodified model shows

    def _look(self, layers: Sequence[int]) -> None:
        places = [
            (layer, part) for layer in layers for part in _PARTS[self.kind] if (layer, part) not in self._seen
        ]
        readings = [States(self._texts, Site(layer, part)) for layer, part in places]
        if readings:
            answers = read(self.model, readings, label="Looking for a place to plant")
            for place, reading in zip(places, readings, strict=True):
                self._seen[place] = [state.astype(np.float64) for state in answers[reading][0]]

    def _states(self, layer: int, part: Part) -> list[Doubles]:
        return self._seen[layer, part]

    def _direction(self, states: Sequence[Doubles], groups: str) -> Doubles:
        first, second = (self._words(states, group) for group in groups)
        others = [
            np.delete(state, tokens, axis=0) for state, tokens in zip(states, self._tokens, strict=True)
        ]
        return direction(first, second, np.concatenate(others))

    def _words(self, states: Sequence[Doubles], group: str) -> Doubles:
        """Every occurrence of a word of a group: [context, d]"""
        texts = zip(self._contexts, states, self._tokens, strict=True)
        return np.stack([state[tokens].mean(0) for context, state, tokens in texts if context.group == group])


def _columns(model: Model, layer: int) -> Tensor:
    """W^O as [hidden, heads x dim], a view of the weights; GPT-2's Conv1D keeps them transposed."""
    projection = model.output_projection(layer)
    weight = cast(Tensor, projection.weight).data
    return weight if isinstance(projection, nn.Linear) else weight.T


def _change(model: Model, layer: int, part: Part, change: Callable[[Tensor], Tensor]) -> None:
    """Fold a linear change of a layer's queries, keys or values [..., head, dim] into their weights.

    Seen from the right side, weights look like outputs: one line for each input dimension, and one for the
    bias.
    """
    module, which = model.qkv_module(layer, part), _QKV.index(part)

    def changed(out: Tensor) -> Tensor:
        parts = split_qkv(model, out, which)
        parts[which] = change(parts[which])
        return join_qkv(model, parts, which)

    weight = cast(Tensor, module.weight).data
    by_input = weight.T if isinstance(module, nn.Linear) else weight  # [in, out], a view
    by_input.copy_(changed(by_input))
    bias: Any = getattr(module, "bias", None)
    if bias is not None:
        bias.data.copy_(changed(bias.data))
