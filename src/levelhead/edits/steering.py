"""Steering: a vector added to the states at a site, everywhere or only where a probe asks for it; and the
directions of states that go along with a number, by partial least squares.

Reference: docs/method/mitigations.md, Steering.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from levelhead.edits.sites import Site, beside
from levelhead.edits.subspace import Doubles, discriminant
from levelhead.errors import BadProbe


@dataclass(frozen=True, eq=False)
class Probe:
    """A linear classifier of states: it says yes where <w, h> + b > 0."""

    weights: Tensor  # [hidden]
    bias: float

    def __call__(self, h: Tensor) -> Tensor:
        """1 where it says yes, else 0: [...]."""
        return (h @ beside(self.weights, h) + self.bias > 0).to(h.dtype)


@dataclass(frozen=True, eq=False)
class Steering:
    """States moved along a vector, at every token or at those where a probe says yes.

    h' = h + c v        h' = h + c v [<w, h> + b > 0]
    """

    site: Site
    vector: Tensor  # v: [hidden]
    strength: float  # c
    probe: Probe | None = None

    def __call__(self, h: Tensor) -> Tensor:
        if self.strength == 0:
            return h
        step = self.strength * beside(self.vector, h)
        return h + (step if self.probe is None else self.probe(h)[..., None] * step)


def difference_of_means(to: npt.ArrayLike, away: npt.ArrayLike) -> Tensor:
    """v = mean of the states to steer to − mean of those to steer away from: [vector, hidden] -> [hidden]."""
    first, second = _states(to), _states(away)
    return torch.from_numpy(first.mean(axis=0) - second.mean(axis=0)).float()


def fit_probe(yes: npt.ArrayLike, no: npt.ArrayLike) -> Probe:
    """The least-squares classifier of two groups of states, at its threshold halfway between their means."""
    first, second = _states(yes), _states(no)
    states = np.concatenate([first, second])
    center = states.mean(axis=0)
    w = discriminant(states - center, np.arange(len(states)) < len(first))
    middle = (first.mean(axis=0) + second.mean(axis=0)) / 2
    return Probe(torch.from_numpy(w).float(), -float(w @ middle))


def _states(given: npt.ArrayLike) -> Doubles:
    states = np.asarray(given, np.float64)
    if states.ndim != 2 or not len(states):
        raise BadProbe(f"States of both groups must be [vector, hidden] to steer (got {states.shape}).")
    return states


def partial_least_squares(states: npt.ArrayLike, response: npt.ArrayLike, rank: int) -> Doubles:
    """The first weight vectors of PLS between states [item, hidden] and one number of each: [rank, hidden].

        w = Xᵀ y / |Xᵀ y|,   t = X w,   X <- X − t (Xᵀ t)ᵀ / tᵀt,   y <- y − t (tᵀ y) / tᵀt      `rank` times

    X and y are centered. The vectors are orthonormal: the first is the direction of the largest covariance,
    each other that of what is left. Reference: Wold 1975 (NIPALS).
    """
    x, y = np.asarray(states, np.float64), np.asarray(response, np.float64)
    if len(y) <= rank:
        raise BadProbe(
            f"Directions must be fewer than states (got {rank} of {len(y)} states). Give more states."
        )
    x, y = x - x.mean(axis=0), y - y.mean()
    size = float(np.linalg.norm(x) * np.linalg.norm(y))
    found: list[Doubles] = []
    for _ in range(rank):
        w = x.T @ y
        # what is left of the covariance is rounding, whose direction is arbitrary
        if float(np.linalg.norm(w)) <= 1e-9 * size:
            raise BadProbe(
                f"Directions must be at most {len(found)} (got {rank}): no more go along with the numbers of "
                f"{len(y)} states."
            )
        w /= np.linalg.norm(w)
        t = x @ w
        x, y = x - np.outer(t, t @ x) / (t @ t), y - t * (t @ y) / (t @ t)
        found.append(w)
    return np.stack(found)
