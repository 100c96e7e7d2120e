"""Directions of states that go along with a number, by partial least squares."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from levelhead.errors import BadProbe

Doubles = npt.NDArray[np.float64]


def partial_least_squares(states: npt.ArrayLike, response: npt.ArrayLike, rank: int) -> Doubles:
    """The first weight vectors of PLS between states [item, hidden] and one number of each: [rank, hidden].

        w = Xᵀ y / |Xᵀ y|,   t = X w,   X <- X − t (Xᵀ t)ᵀ / tᵀt,   y <- y − t (tᵀ y) / tᵀt      `rank` times

    X and y are centered. The vectors are orthonormal: the first is the direction of the largest covariance,
    each other that of what is left. Reference: Wold 1975 (NIPALS).
    """
    x, y = np.asarray(states, np.float64), np.asarray(response, np.float64)
    if len(y) <= rank:
        raise BadProbe(
            f"{rank} directions were asked of {len(y)} states; give more states, or ask for fewer."
        )
    x, y = x - x.mean(axis=0), y - y.mean()
    size = float(np.linalg.norm(x) * np.linalg.norm(y))
    found: list[Doubles] = []
    for _ in range(rank):
        w = x.T @ y
        if float(np.linalg.norm(w)) <= 1e-9 * size:
            raise BadProbe(
                f"{rank} directions were asked for; only {len(found)} go along with the numbers of {len(y)} "
                "states. Ask for fewer."
            )
        w /= np.linalg.norm(w)
        t = x @ w
        x, y = x - np.outer(t, t @ x) / (t @ t), y - t * (t @ y) / (t @ t)
        found.append(w)
    return np.stack(found)
