"""Tests of means whose items come in clusters of several kinds at once (docs/method.md, Statistics).

Sentences share a template, a pair of attribute words and a target word, and whoever counts them as
independent finds effects that are none. Each clustering gets a cluster-robust t-test and sign flips, all of
them together a multi-way t-test; the largest p counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from levelhead.errors import BadProbe
from levelhead.measures.measurement import Measurement, Null
from levelhead.measures.sign_flips import mean_null
from levelhead.measures.statistics import DEFAULT, FloatArray, Resampling, finite_values

Clusterings = Mapping[str, npt.ArrayLike]  # name -> a label for each item
TOGETHER = "together"  # the multi-way test's name


@dataclass(frozen=True)
class RobustTest:
    """A cluster-robust t-test of one coefficient."""

    clusters: int
    stderr: float | None  # None where the variance is not positive
    t: float | None
    p_value: float | None  # two-sided, from Student's t with clusters − 1 degrees


@dataclass(frozen=True)
class _Effect:
    """One coefficient of a linear model of y as sums over items: value = Σ a_i y_i."""

    value: float
    scores: FloatArray  # [item] a_i times the residual of the full model
    restricted: FloatArray  # [item] a_i times the residual of the model without this coefficient
    coefficients: int


def robust_test(scores: npt.ArrayLike, value: float, clusterings: Clusterings, k: int = 1) -> RobustTest:
    """Cluster-robust t-test of a coefficient, by one clustering or by several at once.

        V_c = G/(G − 1) · (n − 1)/(n − k) · Σ_g ( Σ_{i in g} score_i )²      CR1, G clusters, k coefficients
        V = Σ over sets of clusterings of ±V_c, c = their intersection       + for odd sets, − for even ones
        t = value / sqrt(V),   p = 2 P(T_{G−1} ≥ |t|),   G of the clustering with the fewest clusters

    scores [item]: what each item adds to the coefficient's error; (d − mean d) / n for a mean. References:
    Liang and Zeger 1986; Cameron, Gelbach and Miller 2011 for several clusterings.
    """
    score = finite_values("robust_test", scores)
    labels = [_numbers(name, given, score.size) for name, given in clusterings.items()]
    fewest = min((int(label.max(initial=-1)) + 1 for label in labels), default=0)
    variance = 0.0
    for size in range(1, len(labels) + 1):
        for chosen in combinations(labels, size):
            variance += (1 if size % 2 else -1) * _variance(score, np.stack(chosen, axis=1), k)
    if fewest < 2 or not variance > 1e-28 * value**2:
        return RobustTest(fewest, None, None, None)
    stderr = math.sqrt(variance)
    t = value / stderr
    return RobustTest(fewest, stderr, t, 2 * float(stats.t.sf(abs(t), fewest - 1)))


def clustered_mean(
    name: str, d: npt.ArrayLike, clusterings: Clusterings, resampling: Resampling = DEFAULT
) -> Measurement:
    """The mean of differences d, with the widest interval and the largest p of all clusterings.

        mean ± t(level, G − 1) · sqrt(V)     V and G from robust_test, the widest of them

    null.p_value is the largest p of the t-tests and of the sign flips by each clustering; details hold t, p
    and the flips' p of every one.
    """
    values = finite_values(name, d)
    return clustered_effect(name, values, np.ones((values.size, 1)), clusterings, resampling)


def clustered_effect(
    name: str,
    y: npt.ArrayLike,
    design: npt.ArrayLike,
    clusterings: Clusterings,
    resampling: Resampling = DEFAULT,
) -> Measurement:
    """The first coefficient of a least-squares fit of y [item] by design [item, coefficient], tested like a
    mean.

        value = Σ_i a_i y_i,   a = first line of (X'X)⁻¹ X'
        flips: value(e) = Σ_c e_c Σ_{i in c} a_i u_i,   u = residual of y fitted without the first column

    With a single column of ones it is clustered_mean. Flips leave the other coefficients as they are: the
    null is imposed, as in a wild cluster bootstrap (Cameron, Gelbach and Miller 2008).
    """
    known: dict[str, Any] = {"neutral": 0.0, "settings": _settings(clusterings, resampling)}
    effect = _effect(name, y, design)
    if effect is None:
        reason = f"{np.size(y)} items cannot tell its coefficients apart"
        return Measurement.missing(name, reason, n=np.size(y), **known)
    known["n"] = effect.scores.size
    tests = {
        label: robust_test(effect.scores, effect.value, {label: given}, effect.coefficients)
        for label, given in clusterings.items()
    }
    if len(clusterings) > 1:
        tests[TOGETHER] = robust_test(effect.scores, effect.value, clusterings, effect.coefficients)
    most = max((test.clusters for test in tests.values()), default=0)
    if most < 2:
        reason = f"{effect.scores.size} items in {most} clusters, at least 2 are needed"
        return Measurement.missing(name, reason, **known)
    nulls = {
        label: mean_null(effect.scores.size * effect.restricted, given, seed=resampling.seed)
        for label, given in clusterings.items()
    }
    interval = _widest(effect.value, list(tests.values()), resampling.level)
    details = _details(tests, nulls)
    return Measurement(name, effect.value, interval, details=details, null=_largest(tests, nulls), **known)


def _effect(name: str, y: npt.ArrayLike, design: npt.ArrayLike) -> _Effect | None:
    """The first coefficient; None where the items do not determine it or leave no error to see."""
    values, x = finite_values(name, y), np.asarray(design, dtype=np.float64)
    if x.ndim != 2 or len(x) != values.size or not np.isfinite(x).all():
        raise BadProbe(
            f"{name} got {values.size} values and a design {x.shape}. Give one line for each value."
        )
    if values.size <= x.shape[1] or np.linalg.matrix_rank(x) < x.shape[1]:
        return None
    weights = np.linalg.pinv(x)  # [coefficient, item]
    residual = values - x @ (weights @ values)
    others = x[:, 1:]
    restricted = values - others @ (np.linalg.pinv(others) @ values) if others.size else values
    a = weights[0]
    return _Effect(float(a @ values), a * residual, a * restricted, x.shape[1])


def _numbers(name: str, labels: npt.ArrayLike, n: int) -> npt.NDArray[np.int64]:
    number = np.unique(np.asarray(labels), return_inverse=True)[1].ravel().astype(np.int64)
    if number.size != n:
        raise BadProbe(f"{n} items came with {number.size} labels of {name}. Give one label for each item.")
    return number


def _variance(score: FloatArray, labels: npt.NDArray[np.int64], k: int) -> float:
    """CR1 of one clustering, or of the intersection of several: labels [item, clustering]."""
    group = np.unique(labels, axis=0, return_inverse=True)[1].ravel()
    sums = np.bincount(group, weights=score)
    if sums.size < 2 or score.size <= k:
        return 0.0
    factor = sums.size / (sums.size - 1) * (score.size - 1) / (score.size - k)
    return float(factor * (sums**2).sum())


def _widest(value: float, tests: list[RobustTest], level: float) -> tuple[float, float]:
    """The widest interval; one point where all items are the same and no test has an error."""
    quantiles = [float(stats.t.ppf(0.5 + level / 2, max(test.clusters - 1, 1))) for test in tests]
    half = max(q * (test.stderr or 0.0) for q, test in zip(quantiles, tests, strict=True))
    return value - half, value + half


def _largest(tests: Mapping[str, RobustTest], nulls: Mapping[str, Null]) -> Null:
    """The null of the clustering whose flips are the least surprised, with the largest p of all tests."""
    worst = max(nulls, key=lambda label: nulls[label].p_value)
    p_values = {f"t-test, {label}": test.p_value or 0.0 for label, test in tests.items()}
    p_values |= {f"sign flips, {label}": null.p_value for label, null in nulls.items()}
    largest = max(p_values, key=lambda label: p_values[label])
    null = nulls[worst]
    method = f"t-tests and sign flips by cluster, two-sided; the largest p: {largest}"
    return Null(method, null.draws, null.floor, null.spread, p_values[largest])


def _details(tests: Mapping[str, RobustTest], nulls: Mapping[str, Null]) -> dict[str, float | None]:
    details: dict[str, float | None] = {}
    for label, test in tests.items():
        details |= {
            f"clusters, {label}": float(test.clusters),
            f"t, {label}": test.t,
            f"p, {label}": test.p_value,
        }
    return details | {f"flips p, {label}": null.p_value for label, null in nulls.items()}


def _settings(clusterings: Clusterings, resampling: Resampling) -> dict[str, object]:
    return {
        "interval": "cluster-robust t, the widest of all clusterings",
        "clusterings": list(clusterings),
        "seed": resampling.seed,
        "level": resampling.level,
    }
