"""The directions along which a group difference lies at a site, and projections that take them out.

Reference: docs/method.md, gender subspace and projection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy import linalg
from torch import Tensor

from levelhead.edits.projection import Projection
from levelhead.edits.sites import Site
from levelhead.errors import BadOption, BadProbe

Doubles = npt.NDArray[np.float64]
Vectors = npt.NDArray[np.floating[Any]]
KEPT = 8  # directions kept of a fit; the paper uses 2, the depth grid 4
_SQUARED = (
    1e-8  # of the largest eigenvalue: below it a second moment knows its eigenvectors to under 8 digits
)
_NOTHING = 1e-9  # a singular value below this share of the largest is rounding, and its direction arbitrary


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
    vectors: int  # difference vectors: one a pair at cls and pooled sites, one an aligned token elsewhere
    # reason -> pairs or words that could not be aligned
    skipped: Mapping[str, int] = field(default_factory=dict)

    @property
    def dimensions(self) -> int:
        """How many directions there are to project on."""
        return int(self.basis.shape[-2])


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
        raise BadProbe(
            f"A subspace cannot be fitted on differences of shape {vectors.shape}"
            f"{_because(skipped)}. Give at least one pair of inputs that differ, with finite states."
        )
    groups = vectors[:, None] if vectors.ndim == 2 else vectors
    card = device if device is not None and device.type == "cuda" else None
    fits = [_principal(groups[:, head], min(KEPT, count), card) for head in range(groups.shape[1])]
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
            f"{dimensions} dimensions were asked of a subspace at {describe(subspace.site)} that was fitted "
            f"on {few} and has {subspace.dimensions}. Ask for 1 to {subspace.dimensions}, or give more pairs "
            f"(at most {KEPT} dimensions are kept)."
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


def _principal(differences: Vectors, most: int, card: torch.device | None) -> tuple[Doubles, Doubles]:
    """Directions [dimension, dim] and their shares of the variance; those without variance are left out."""
    if not differences.any():
        return np.zeros((0, differences.shape[1])), np.zeros(0)
    wanted = min(most, *differences.shape)
    largest_of = largest_on_host if card is None else partial(largest_on, card)
    sizes, directions, total = largest_of(differences, wanted)
    kept = int((sizes > _NOTHING * sizes[0]).sum())
    directions, sizes = directions[:kept], sizes[:kept]
    largest = np.take_along_axis(directions, np.abs(directions).argmax(axis=1, keepdims=True), axis=1)
    return directions * np.sign(largest), sizes**2 / total


def largest_on(device: torch.device, differences: Vectors, most: int) -> tuple[Doubles, Doubles, float]:
    """As largest_on_host, computed on a device in float64."""
    rows = torch.from_numpy(np.ascontiguousarray(differences)).to(device).double()
    wide = rows.shape[0] < rows.shape[1]
    moment = rows @ rows.T if wide else rows.T @ rows
    values, vectors = torch.linalg.eigh(moment)
    values, turned = values[-most:].flip(0), vectors[:, -most:].T.flip(0)
    if bool(values[-1] < _SQUARED * values[0]):
        _, sizes, directions = torch.linalg.svd(rows, full_matrices=False)
        sizes, directions = sizes[:most], directions[:most]
    else:
        sizes = values.sqrt()
        directions = turned @ rows / sizes[:, None] if wide else turned
    return np.asarray(sizes.cpu().numpy()), np.asarray(directions.cpu().numpy()), float(moment.trace())


def largest_on_host(differences: Vectors, most: int) -> tuple[Doubles, Doubles, float]:
    """The largest singular values, their right singular vectors [vector, dim], and the sum of all squares.

    They come from the second moment of the smaller side, D Dᵀ or Dᵀ D, of which only the last eigenvectors
    are computed: 1,000 vectors of a 7B model take a twentieth of the time of an SVD. Squaring loses digits of
    small singular values, so the SVD itself is taken where one of those asked for is below 1e-4 of the
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
    sizes, turned = np.sqrt(values[::-1]), vectors.T[::-1]
    return sizes, turned @ rows / sizes[:, None] if wide else turned, total


def _because(skipped: Mapping[str, int] | None) -> str:
    return f" (skipped: {', '.join(f'{reason} {n}' for reason, n in skipped.items())})" if skipped else ""
