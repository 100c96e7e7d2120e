"""The k likeliest tokens of each prompt: group masses, margins, merged words, relative probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelhead.errors import BadOption, BadProbe

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class TopK:
    """The K likeliest tokens of each prompt, likeliest first."""

    words: NDArray[np.str_]  # [prompt, K] keys; tokens with one key are forms of one word
    groups: NDArray[np.integer[Any]]  # [prompt, K] +1 first group, -1 second group, 0 neither
    probs: NDArray[np.floating[Any]]  # [prompt, K]

    def __post_init__(self) -> None:
        if not self.words.shape == self.groups.shape == self.probs.shape or self.words.ndim != 2:
            shapes = f"{self.words.shape}, {self.groups.shape}, {self.probs.shape}"
            raise ValueError(f"words, groups and probs must have one shape [prompt, K], not {shapes}")
        if not np.isfinite(self.probs).all():
            raise BadProbe("The model's probabilities are not finite. Load it in float32 and ask again.")
        if (np.diff(self.probs, axis=1) > 0).any():
            raise ValueError("probs must fall along each row: the first k columns are read as the top k")

    def first(self, k: int) -> TopK:
        """The top k of the top K."""
        available = self.words.shape[1]
        if not 1 <= k <= available:
            raise BadOption(
                f"k = {k}, but the model answered with {available} tokens. Choose k from 1 to {available}."
            )
        return TopK(self.words[:, :k], self.groups[:, :k], self.probs[:, :k].astype(np.float64))


def masses(topk: TopK, k: int) -> tuple[Floats, Floats]:
    """Probability mass of first-group and of second-group words among the top k, for each prompt."""
    top = topk.first(k)
    return np.sum(top.probs * (top.groups > 0), axis=1), np.sum(top.probs * (top.groups < 0), axis=1)


def margins(topk: TopK, k: int, own: Ints) -> Floats:
    """Pro − anti for each prompt: above 0 the model sides with the stereotype."""
    first, second = masses(topk, k)
    return own * (first - second)


def merge(topk: TopK, k: int) -> tuple[Ints, Floats]:
    """The top k tokens as words: a number for each word and the summed probability of its forms.

    Both are [prompt, k]; a later form of a word already seen leaves a hole: word -1, probability 0.
    """
    top = topk.first(k)
    codes = np.unique(top.words, return_inverse=True)[1].reshape(top.words.shape).astype(np.int64)
    probs = np.array(top.probs, dtype=np.float64)
    for later in range(1, k):
        for earlier in range(later):
            same = codes[:, earlier] == codes[:, later]
            probs[same, earlier] += probs[same, later]
            probs[same, later], codes[same, later] = 0.0, -1
    return codes, probs


def relative_probabilities(topk: TopK, k: int, base: Ints) -> tuple[Ints, Ints, Floats]:
    """Each word in both lists: its prompt, its group (+1, -1, 0), and p(w | knowledge) / p(w | base).

    Reference: equation 1 of Zhang 2023 (docs/method.md, Cloze scores).
    """
    codes, probs = merge(topk, k)
    before = probs[base]
    shared = (
        (codes[:, :, None] == codes[base][:, None, :]) & (codes[:, :, None] >= 0) & (before[:, None, :] > 0)
    )
    prompt, column, base_column = np.nonzero(shared & (probs[:, :, None] > 0))
    ratio = probs[prompt, column] / before[prompt, base_column]
    return prompt.astype(np.int64), topk.groups[prompt, column].astype(np.int64), ratio
