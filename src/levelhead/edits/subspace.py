"""The directions along which a group difference lies at a site, and edits that take them out of the vectors.

Projections are fitted on differences of pairs; LEACE and INLP on states with a label (which form of the pair
they came from). Reference: docs/method/projections.md, gender subspace and projection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import linalg
from torch import Tensor

from levelhead.edits.sites import Site, beside
from levelhead.errors import BadOption, BadProbe, CannotDo

Doubles = npt.NDArray[np.float64]
Vectors = npt.NDArray[np.floating[Any]]
KEPT = 8  # directions kept of a fit; the paper uses 2, the depth grid 4
# of the largest eigenvalue: below it a second moment knows its eigenvectors to under 8 digits
_SQUARED = 1e-8
_NOTHING = 1e-9  # a singular value below this share of the largest is rounding, and its direction arbitrary
_RIDGE = 1e-3  # of the mean variance: the classifier stays defined with fewer states than coordinates


@dataclass(frozen=True, eq=False)
class Subspace:
    """Principal directions g_i of difference vectors at a site, with their shares v_i of the variance.

    basis: [dimension, hidden], or [head, dimension, dim] at query, key and value sites; orthonormal rows.
    explained: [dimension] or [head, dimension]; sums to at most 1, the rest belongs to directions that were
    not kept.
    """

    site: Site
    basis: Tensor
    explained: Tensor
    pairs: int  # pairs of inputs that contributed
    vectors: int  # difference vectors: one per pair at cls and pooled sites, one per aligned token elsewhere
    # reason -> pairs or words that could not be aligned
    skipped: Mapping[str, int] = field(default_factory=dict)

    @property
    def dimensions(self) -> int:
        """How many directions there are to project on."""
        return int(self.basis.shape[-2])


@dataclass(frozen=True, eq=False)
class Projection:
    """What is left of a vector when its component in a subspace is taken out, wholly or in part.

        h' = h − Σ_i w_i <h, g_i> g_i

    basis g: orthonormal rows, [dimension, hidden]; at a query, key or value site one basis for each head,
    [head, dimension, dim]. weights w: [dimension] or [head, dimension]; 1 is a hard projection, v_i a soft
    one.
    """

    site: Site
    basis: Tensor
    weights: Tensor

    def __post_init__(self) -> None:
        if self.basis.shape[:-1] != self.weights.shape:
            raise BadOption(
                f"A basis of shape {tuple(self.basis.shape)} needs weights of shape "
                f"{tuple(self.basis.shape[:-1])}, got {tuple(self.weights.shape)}."
            )

    def scaled(self, strength: float) -> Projection:
        """The same with every weight multiplied: w_i' = strength · w_i."""
        return replace(self, weights=strength * self.weights)

    def __call__(self, h: Tensor) -> Tensor:
        basis, weights = beside(self.basis, h), beside(self.weights, h)
        if basis.dim() == 2:
            return h - (h @ basis.T * weights) @ basis
        along = (h[..., None, :] * basis).sum(-1) * weights  # [..., head, dimension]
        return h - (along[..., None] * basis).sum(-2)


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


# ---- differences of pairs


def fit_subspace(
    site: Site,
    differences: npt.ArrayLike,
    pairs: int | None = None,
    skipped: Mapping[str, int] | None = None,
    device: torch.device | None = None,
) -> Subspace:
    """PCA of difference vectors [vector, hidden] (or [vector, head, dim]: every head by itself).

    Each difference d enters as +d/2 and −d/2, so the data are centered by construction and the principal
    directions are the right singular vectors of the differences:

        D = U S Gᵀ,   g_i = column i of G,   v_i = S_i² / Σ_j S_j²

    The sign of a direction does not matter to a projection; its largest coordinate is made positive. device:
    a CUDA card on which to compute; the host by default.
    """
    vectors = np.asarray(differences)
    count = len(vectors) if pairs is None else pairs
    if vectors.ndim not in (2, 3) or not len(vectors) or not np.isfinite(vectors).all():
        why = f" (skipped: {', '.join(f'{reason} {n}' for reason, n in skipped.items())})" if skipped else ""
        raise BadProbe(
            f"A subspace cannot be fitted on differences of shape {vectors.shape}{why}. Give at least one "
            "pair of inputs that differ, with finite states."
        )
    groups = vectors[:, None] if vectors.ndim == 2 else vectors
    card = device if device is not None and device.type == "cuda" else None
    fits: list[tuple[Doubles, Doubles]] = []  # of each head; directions without variance are left out
    for own in np.moveaxis(groups, 1, 0):
        if not own.any():
            fits.append((np.zeros((0, own.shape[1])), np.zeros(0)))
            continue
        wanted = min(KEPT, count, *own.shape)
        found = largest_on_host(own, wanted) if card is None else largest_on(card, own, wanted)
        sizes, directions, total = found
        varied = int((sizes > _NOTHING * sizes[0]).sum())
        directions, sizes = directions[:varied], sizes[:varied]
        largest = np.take_along_axis(directions, np.abs(directions).argmax(axis=1, keepdims=True), axis=1)
        fits.append((directions * np.sign(largest), sizes**2 / total))
    kept = min(len(directions) for directions, _ in fits)
    if kept == 0:
        raise BadProbe(
            f"The {count} pairs make no difference at {describe(site)}. Give inputs that differ there."
        )
    basis = torch.from_numpy(np.stack([directions[:kept] for directions, _ in fits])).float()
    explained = torch.from_numpy(np.stack([shares[:kept] for _, shares in fits])).float()
    if vectors.ndim == 2:
        basis, explained = basis[0], explained[0]
    return Subspace(site, basis, explained, count, len(vectors), dict(skipped or {}))


def projection(subspace: Subspace, dimensions: int = 1, soft: bool = False) -> Projection:
    """The edit that takes the first directions out: wholly (hard, weights 1), or by v_i each (soft)."""
    if not 1 <= dimensions <= subspace.dimensions:
        few = f"{subspace.pairs} pairs" if subspace.pairs < KEPT else f"{subspace.vectors} difference vectors"
        raise BadOption(
            f"dimensions must be 1 to {subspace.dimensions} (got {dimensions}): the subspace at "
            f"{describe(subspace.site)} was fitted on {few}. Give more pairs for more (at most {KEPT} are "
            "kept)."
        )
    basis = subspace.basis[..., :dimensions, :].contiguous()
    weights = subspace.explained[..., :dimensions] if soft else torch.ones(basis.shape[:-1])
    return Projection(subspace.site, basis, weights.contiguous())


def describe(site: Site) -> str:
    """A site as people count: layers from 1."""
    names = {
        "block": "the tokens",
        "cls": "the first token",
        "pooled": "the sentence vector",
        "heads": "the heads",
        "neurons": "the neurons",
        "mlp": "the MLP output",
    }
    if site.part == "pooled":
        return names["pooled"]
    return f"{names.get(site.part, f'the {site.part} vectors')} of layer {site.layer + 1}"


def largest_on(device: torch.device, differences: Vectors, most: int) -> tuple[Doubles, Doubles, float]:
    """As largest_on_host, computed on a device in float64."""
    rows = torch.from_numpy(np.ascontiguousarray(differences)).to(device).double()
    wide = rows.shape[0] < rows.shape[1]
    moment = rows @ rows.T if wide else rows.T @ rows
    values, vectors = torch.linalg.eigh(moment)
    values, largest = values[-most:].flip(0), vectors[:, -most:].T.flip(0)
    if bool(values[-1] < _SQUARED * values[0]):
        _, sizes, directions = torch.linalg.svd(rows, full_matrices=False)
        sizes, directions = sizes[:most], directions[:most]
    else:
        sizes = values.sqrt()
        directions = largest @ rows / sizes[:, None] if wide else largest
    return np.asarray(sizes.cpu().numpy()), np.asarray(directions.cpu().numpy()), float(moment.trace())


def largest_on_host(differences: Vectors, most: int) -> tuple[Doubles, Doubles, float]:
    """The largest singular values, their right singular vectors [vector, dim], and the sum of all squares.

    They come from the second moment of the smaller side, D Dᵀ or Dᵀ D, of which only the last eigenvectors
    are computed: 1,000 vectors of a 7B model take a twentieth of the time of an SVD. Squaring loses digits of
    small singular values, so the SVD itself is taken where one of those wanted is below 1e-4 of the
    largest.
    """
    rows = differences.astype(np.float64)
    wide = rows.shape[0] < rows.shape[1]
    moment = rows @ rows.T if wide else rows.T @ rows
    total = float(moment.trace())
    values, vectors = linalg.eigh(moment, subset_by_index=(len(moment) - most, len(moment) - 1))
    if values[0] < _SQUARED * values[-1]:
        _, sizes, directions = np.linalg.svd(rows, full_matrices=False)
        return sizes[:most], directions[:most], total
    sizes, largest = np.sqrt(values[::-1]), vectors.T[::-1]
    return sizes, largest @ rows / sizes[:, None] if wide else largest, total


# ---- states with a label


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
    bases = []
    for head in range(states.shape[1]):
        left = states[:, head] - states[:, head].mean(axis=0)
        basis = np.zeros((0, left.shape[1]))
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
        bases.append(basis)
    found = torch.from_numpy(np.stack(bases) if np.ndim(first) == 3 else bases[0]).float()
    return Projection(site, found, torch.ones(found.shape[:-1]))


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
            f"States at {describe(site)} must be [vector, hidden] of both groups, with at least one vector "
            f"of each (got {one.shape} and {two.shape})."
        )
    states = np.concatenate([one, two])
    return states if one.ndim == 3 else states[:, None], np.arange(len(states)) < len(one)
