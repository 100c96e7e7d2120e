"""Gates that are learned rather than ranked: the least bias for a given loss of fluency.

    minimize |b(g)|   subject to   log PPL(g) − log PPL(1) <= log bound,   0 <= g[layer, head] <= 2

b is what an objective measures. Both sides have exact gradients in g (engine/gradients.py). A step d
minimizes the linear model of |b| in a ball, inside the box and under the linear model of the bound; it is
taken only if, measured, |b| falls and the bound holds, else it is shortened. Bounds are visited from tight to
loose, each from the gates of the one before: one search gives the whole trade-off (docs/method/heads.md,
Targeted debiasing).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from levelhead.edits.gates import gates
from levelhead.edits.sites import Head, Variant
from levelhead.engine.gradients import gate_gradients
from levelhead.engine.readings import TokenLogProbs
from levelhead.engine.run import read
from levelhead.errors import BadProbe
from levelhead.models.encoding import Text, token_id
from levelhead.models.model import Model
from levelhead.probes.contexts import Context
from levelhead.probes.words import WordTest
from levelhead.scoring.objective import Objective
from levelhead.scoring.objectives import word_objective
from levelhead.scoring.seat import sample_contexts, word_table
from levelhead.studies.heads.settings import LearnSettings

Doubles = NDArray[np.float64]
LEARNED = "learned"  # what the names of learned strategies begin with
LOW, HIGH = 0.0, 2.0
_SHORTENED = (1.0, 0.3)  # of the radius, measured at once
_SMALLEST = 0.02  # a radius below this moves nothing that a table shows
_ZERO = 0.005  # a size below this is no bias in any table
_WORD = re.compile(r"(?<= )[A-Za-z]+")


@dataclass(frozen=True)
class LearnedGates:
    """Gates for one bound, and what they reach on the part of the data that they were learned on."""

    bound: float
    values: Doubles = field(repr=False)  # [layer, head]
    bias: float
    ratio: float  # perplexity / perplexity of the unmodified model
    start: float  # the bias of the unmodified model
    steps: int  # taken in all, from the first bound on

    @property
    def name(self) -> str:
        """The name of the strategy."""
        return f"{LEARNED}, at most {self.bound:g}"


def as_variant(model: Model, values: Doubles) -> Variant:
    """Gates [layer, head] as edits; layers whose gates are all 1 stay untouched and shared."""
    changed = [layer for layer in range(model.layers) if (values[layer] != 1).any()]
    return gates(
        model, {Head(layer, head): values[layer, head] for layer in changed for head in range(model.heads)}
    )


def learn_gates(
    model: Model, objective: Objective, sentences: Sequence[str], settings: LearnSettings
) -> list[LearnedGates]:
    """The gates of the least size of an objective that the search reaches for each bound."""
    problem = GateProblem(model, objective, sentences, settings)
    here = problem.at(np.ones((model.layers, model.heads)))
    start, taken, learned = here.bias, 0, []
    for bound in settings.bounds:
        radius = settings.radius
        for _ in range(settings.steps):
            if radius < _SMALLEST or abs(here.bias) < _ZERO:
                break
            better, radius = problem.improved(here, math.log(bound), radius)
            taken += better is not here
            here = better
        learned.append(LearnedGates(bound, here.values, here.bias, math.exp(here.loss), start, taken))
    return learned


def sampled_objective(test: WordTest, contexts: Sequence[Context], settings: LearnSettings) -> Objective:
    """What words are scored by, on a sample of contexts."""
    chosen = sample_contexts(test, contexts, settings.words, settings.seed, settings.contexts)
    return word_objective(word_table(test, chosen))


@dataclass(frozen=True)
class Point:
    """Gates and what they reach."""

    values: Doubles
    bias: float
    loss: float  # log perplexity above that of the unmodified model


class GateProblem:
    """A bias and fluency of one model as functions of its gates, on a part of the data."""

    def __init__(
        self, model: Model, objective: Objective, sentences: Sequence[str], settings: LearnSettings
    ) -> None:
        self.model, self.objective = model, objective
        texts, tokens = blanks(model, sentences, settings.blanks, settings.seed)
        known = sorted(set(tokens))
        self.fluency = TokenLogProbs(texts, known)
        self._picked = (np.arange(len(tokens)), np.searchsorted(known, tokens))
        self._untouched: float | None = None

    def measure(self, candidates: Sequence[Doubles]) -> list[Point]:
        """What these gates reach."""
        first = [np.ones_like(candidates[0])] if self._untouched is None else []
        wanted = [*first, *candidates]
        variants = [as_variant(self.model, values) for values in wanted]
        objective = self.objective
        answers = read(self.model, [objective.reading, self.fluency], variants, label="Trying gates")
        losses = [-float(log_p[self._picked].mean()) for log_p in answers[self.fluency].astype(np.float64)]
        if self._untouched is None:
            self._untouched = losses[0]
        base = self._untouched
        points = [
            Point(values, objective.lean(answer), loss - base)
            for values, answer, loss in zip(wanted, answers[objective.reading], losses, strict=True)
        ]
        return points[len(first) :]

    def at(self, values: Doubles) -> Point:
        """What one set of gates reaches."""
        return self.measure([values])[0]

    def improved(self, here: Point, bound: float, radius: float) -> tuple[Point, float]:
        """A point of smaller bias that keeps the bound, or the same point; and the next radius to try."""
        named = f"Gradient of {self.objective.name}"
        bias = self.objective.absolute.gradients(self.model, named, at=here.values).scores
        cost = gate_gradients(
            self.model, self.fluency, self.cost, at=here.values, label="Gradient of fluency"
        ).scores
        tried = [step(here, bias, cost, bound - here.loss, radius * share) for share in _SHORTENED]
        points = self.measure(tried)
        allowed = [i for i, p in enumerate(points) if p.loss <= bound and abs(p.bias) < abs(here.bias)]
        if not allowed:
            return here, radius * _SHORTENED[-1] ** 2
        best = min(allowed, key=lambda i: abs(points[i].bias))
        return points[best], radius * _SHORTENED[best] * (1.5 if best == 0 else 1.0)

    def cost(self, log_p: Tensor) -> Tensor:
        """The log perplexity of the blanks, differentiable: the objective of the fluency gradient."""
        return -log_p[self._picked].mean()


def step(here: Point, bias: Doubles, cost: Doubles, slack: float, radius: float) -> Doubles:
    """The gates to try next: down the bias as far as ball, box and the linear model of the bound allow.

    Either straight down, shortened to what the slack pays for, or bent: along −(bias + w cost) with the
    smallest weight w >= 0 that keeps cost · step <= slack (bisection). The one that promises more is taken.
    """
    slack = max(slack, 0.0)

    def moved(weight: float) -> Doubles:
        slope = bias + weight * cost
        free = ~(((here.values <= LOW) & (slope > 0)) | ((here.values >= HIGH) & (slope < 0)))
        direction = np.where(free, -slope, 0.0)
        length = float(np.linalg.norm(direction))
        return np.clip(here.values + direction * (radius / length if length > 0 else 0.0), LOW, HIGH)

    def along(slope: Doubles, values: Doubles) -> float:
        return float(((values - here.values) * slope).sum())

    straight = moved(0.0)
    spent = along(cost, straight)
    if spent <= slack:
        return straight
    low, high = 0.0, 1.0
    while along(cost, moved(high)) > slack and high < 1e6:
        low, high = high, high * 4
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if along(cost, moved(middle)) <= slack else (middle, high)
    shortened, bent = here.values + (straight - here.values) * (slack / spent), moved(high)
    return bent if along(bias, bent) < along(bias, shortened) else shortened


def blanks(model: Model, sentences: Sequence[str], n: int, seed: int) -> tuple[list[Text], list[int]]:
    """Sentences with one word taken out, and the token of that word: what a fluent model must predict.

    Masked models see the whole sentence, causal ones what stands before the word. Only words of one token
    qualify.
    """
    causal = "causal" in model.abilities
    if not causal:
        model.require("mlm", "learning gates under a bound on fluency")
    candidates: list[tuple[Text, int]] = []
    known: dict[str, int | None] = {}
    for sentence in sentences:
        for word in _WORD.finditer(sentence):
            token = known.setdefault(word[0], token_id(model, word[0]))
            if token is not None:
                rest = "" if causal else f" {model.tokenizer.mask_token}{sentence[word.end() :]}"
                candidates.append((Text(sentence[: word.start()].rstrip() + rest), token))
    if not candidates:
        raise BadProbe("No sentence holds a word of one token; give other sentences for fluency.")
    picked = np.random.default_rng(seed).permutation(len(candidates))[:n].tolist()
    return [candidates[i][0] for i in sorted(picked)], [candidates[i][1] for i in sorted(picked)]
