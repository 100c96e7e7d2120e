"""Steering: a vector added to the states at a site, everywhere or only where a probe asks for it.

Reference: docs/method.md, Steering.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from levelhead.edits.erasure import discriminant
from levelhead.edits.placing import beside
from levelhead.edits.sites import Site
from levelhead.errors import BadProbe

Doubles = npt.NDArray[np.float64]


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
        raise BadProbe(
            f"States of shape {states.shape} came; steering needs [vector, hidden] of both groups."
        )
    return states
