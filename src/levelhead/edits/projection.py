"""A subspace taken out of the vectors at a site, wholly or in part (docs/method.md, Projection)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor

from levelhead.edits.placing import beside
from levelhead.edits.sites import Site
from levelhead.errors import BadOption


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
