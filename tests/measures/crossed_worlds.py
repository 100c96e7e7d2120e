"""Vectors with a known truth: words and templates are drawn, and both leave their mark on every vector."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from levelhead.measures.crossed import WordSets

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class World:
    """A population of words and templates.

        v[word, template] = center + word's own part + lean_w · (g + template's tilt) + template's shift +
        noise

    lean: near +1 in A, −1 in B, ±stereotype in X and Y. Counterparts share a part. Sizes are norms.
    """

    stereotype: float
    words: float = 1.5
    pairs: float = 1.0
    shift: float = 1.0
    tilt: float = 0.6
    noise: float = 1.0
    lean_spread: float = 0.5
    d: int = 32

    def _fixed(self) -> tuple[Doubles, Doubles]:
        rng = np.random.default_rng(1)
        g, center = rng.normal(size=(2, self.d))
        return g / np.linalg.norm(g), 2 * center / np.linalg.norm(center)

    def _iso(self, rng: np.random.Generator, size: float, *shape: int) -> Doubles:
        return np.asarray(rng.normal(size=(*shape, self.d)) * size / np.sqrt(self.d))

    def word_parts(self, rng: np.random.Generator, pairs: int, x: int, y: int) -> tuple[Doubles, Doubles]:
        """Leans [word] and own parts [word, d] of A, B, X, Y, one after the other."""
        means = np.repeat([1.0, -1.0, self.stereotype, -self.stereotype], [pairs, pairs, x, y])
        spread = np.repeat([0.3, 0.3, self.lean_spread, self.lean_spread], [pairs, pairs, x, y])
        own = self._iso(rng, self.words, len(means))
        own[: 2 * pairs] += np.tile(self._iso(rng, self.pairs, pairs), (2, 1))
        return means + spread * rng.normal(size=len(means)), own

    def sample(self, rng: np.random.Generator, design: tuple[int, int, int, int]) -> Doubles:
        """Vectors [word, template, d] of (pairs, X, Y, templates)."""
        *sizes, templates = design
        g, center = self._fixed()
        lean, own = self.word_parts(rng, *sizes)
        direction = g * (1 + self.tilt * rng.normal(size=(templates, 1))) + self._iso(
            rng, self.tilt, templates
        )
        shift = self._iso(rng, self.shift, templates)
        noise = self._iso(rng, self.noise, len(lean), templates)
        return np.asarray(center + own[:, None] + lean[:, None, None] * direction + shift + noise)

    def truth(self, x: int, y: int) -> float:
        """SEAT of very many words, X and Y in the given proportion, in all templates."""
        rng, many = np.random.default_rng(5), 20_000
        g, center = self._fixed()
        n_x = round(2 * many * x / (x + y))
        lean, own = self.word_parts(rng, many, n_x, 2 * many - n_x)
        v = center + own + lean[:, None] * g
        u = v / np.linalg.norm(v, axis=1, keepdims=True)
        s = u[2 * many :] @ (u[:many].mean(0) - u[many : 2 * many].mean(0))
        return float((s[:n_x].mean() - s[n_x:].mean()) / s.std(ddof=1))


WORLDS = {
    "nothing": World(0.0),
    "weak": World(0.2, words=2.0, shift=0.5, tilt=0.3, noise=1.5),
    "strong, noisy templates": World(0.5),
    "strong, near the limit": World(1.0, words=0.8, pairs=0.5, shift=0.5, tilt=0.2, noise=0.5),
}


def word_sets(pairs: int, x: int, y: int) -> WordSets:
    """Numbers in the order of word_parts."""
    a, b = range(pairs), range(pairs, 2 * pairs)
    first = 2 * pairs
    sets = {"A": a, "B": b, "X": range(first, first + x), "Y": range(first + x, first + x + y)}
    return WordSets(sets, tuple(zip(a, b, strict=True)))
