"""Two other ways to take a group difference out of the vectors at a site: LEACE and INLP.

Both are fitted on states with a label (which form of the pair they came from) rather than on differences.
Reference: docs/method.md, gender subspace.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from levelhead.edits.placing import beside
from levelhead.edits.projection import Projection
from levelhead.edits.sites import Site
from levelhead.edits.subspace import describe
from levelhead.errors import BadOption, BadProbe, CannotDo

Doubles = npt.NDArray[np.float64]
_RIDGE = 1e-3  # of the mean variance: the classifier stays defined with fewer states than coordinates


@dataclass(frozen=True, eq=False)
class AffineErasure:
    """What is left of a state when its linear trace of a label is taken out.

        h' = h − L R (h − μ)

    left L [hidden, rank], right R [rank, hidden], center μ [hidden]; at query, key and value sites one of
    each for every head, in front. L R is a projection, not an orthogonal one: LEACE's is the smallest change,
    measured in the states' own covariance, after which no linear classifier beats a constant. Reference:
    Belrose et al. 2023.
    """

    site: Site
    left: Tensor
    right: Tensor
    center: Tensor

    def scaled(self, strength: float) -> AffineErasure:
        """The same with its step multiplied: h' = h − strength · L R (h − μ)."""
        return replace(self, left=strength * self.left)

    def __call__(self, h: Tensor) -> Tensor:
        left, right, center = (beside(part, h) for part in (self.left, self.right, self.center))
        if left.dim() == 2:
            return h - (h - center) @ right.T @ left.T
        along = torch.einsum("...hd,hrd->...hr", h - center, right)
        return h - torch.einsum("...hr,hdr->...hd", along, left)


def leace(site: Site, first: npt.ArrayLike, second: npt.ArrayLike) -> AffineErasure:
    """LEACE fitted on the states of two groups: [vector, hidden], or [vector, head, dim] for head by head."""
    try:
        from concept_erasure import LeaceEraser
    except ImportError as error:
        raise CannotDo("LEACE needs concept-erasure: pip install 'levelhead[leace]', or use INLP.") from error
    states, labels = _labeled(site, first, second)
    label = torch.from_numpy(labels.astype(np.int64))
    fits = [LeaceEraser.fit(torch.from_numpy(states[:, head]), label) for head in range(states.shape[1])]
    left, right = torch.stack([fit.proj_left for fit in fits]), torch.stack([fit.proj_right for fit in fits])
    center = torch.stack([fit.bias for fit in fits])
    if np.ndim(first) == 2:
        left, right, center = left[0], right[0], center[0]
    return AffineErasure(site, left.float(), right.float(), center.float())


def inlp(site: Site, first: npt.ArrayLike, second: npt.ArrayLike, rounds: int = 4) -> Projection:
    """Iterative nullspace projection: find the direction that tells the groups apart best, remove it, again.

        w = (C + λ I)⁻¹ (μ_first − μ_second),   g = w / |w|,   h <- h − <h, g> g       `rounds` times

    C is the covariance of the states that are left. Ours is the least-squares classifier, which has a closed
    form; Ravfogel et al. 2020 train linear support vector machines. The result is a hard projection.
    """
    states, labels = _labeled(site, first, second)
    if not 1 <= rounds < states.shape[2]:
        raise BadOption(
            f"{rounds} rounds of INLP on {states.shape[2]} coordinates; give 1 to {states.shape[2] - 1}."
        )
    bases = np.stack([_nullspace(states[:, head], labels, rounds) for head in range(states.shape[1])])
    basis = torch.from_numpy(bases if np.ndim(first) == 3 else bases[0]).float()
    return Projection(site, basis, torch.ones(basis.shape[:-1]))


def _nullspace(states: Doubles, labels: npt.NDArray[np.bool_], rounds: int) -> Doubles:
    left, basis = states - states.mean(axis=0), np.zeros((0, states.shape[1]))
    for _ in range(rounds):
        direction = discriminant(left, labels)
        direction -= basis.T @ (basis @ direction)  # rounding must not bring back what was removed
        size = float(np.linalg.norm(direction))
        if size < 1e-12:
            raise BadOption(
                f"After {len(basis)} rounds of INLP nothing tells the groups apart; ask for fewer rounds."
            )
        basis = np.vstack([basis, direction / size])
        left = left - np.outer(left @ basis[-1], basis[-1])
    return basis


def discriminant(centered: Doubles, first: npt.NDArray[np.bool_]) -> Doubles:
    """w = (C + λ I)⁻¹ (μ_first − μ_second), the least-squares classifier of two groups of centered states."""
    covariance = centered.T @ centered / len(centered)
    ridge = _RIDGE * max(float(np.trace(covariance)) / len(covariance), 1e-12)
    apart = centered[first].mean(axis=0) - centered[~first].mean(axis=0)
    return np.asarray(np.linalg.solve(covariance + ridge * np.eye(len(covariance)), apart))


def _labeled(
    site: Site, first: npt.ArrayLike, second: npt.ArrayLike
) -> tuple[Doubles, npt.NDArray[np.bool_]]:
    """States [vector, head, dim] of both groups, and which of them are of the first."""
    one, two = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if one.ndim not in (2, 3) or one.shape[1:] != two.shape[1:] or not len(one) or not len(two):
        raise BadProbe(
            f"States of shapes {one.shape} and {two.shape} came at {describe(site)}; give [vector, hidden] "
            "of both groups, at least one vector of each."
        )
    states = np.concatenate([one, two])
    return states if one.ndim == 3 else states[:, None], np.arange(len(states)) < len(one)
