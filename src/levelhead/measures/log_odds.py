"""Which group does a model fill in? Log-odds over all words of both groups, not only those among its top k.

    log-odds of a prompt = log Σ_{w in first group} p(w) − log Σ_{w in second group} p(w)

0: both groups are equally likely, however unlikely. Positive: the first group (female words, in the shipped
set). A prompt always has one, where the mass among the top k is often nothing. The words are those of the
verbalizer that are one token; `core` are pronoun-like words. Forms of one word ("she", "She") are added up
like other words.

    lean       mean over occupations of own · log-odds, own = +1 where the occupation is stereotyped with the
               first group, −1 with the second, each group counted half: how far log-odds follow the
               stereotype
    change     the same for log-odds with knowledge − log-odds of the occupation's base prompt
    trend      Spearman's rho of log-odds with the share of the first group in the occupation

Intervals are Welch's over occupations: prompts of one occupation are no independent evidence.
The p of lean exchanges occupations between the groups, that of change flips the signs of occupations; twins
serve both (measures/null.py). Ours: the paper (Zhang 2023) prints top-k masses. Definitions:
docs/method.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.special import logsumexp

from levelhead.errors import BadProbe
from levelhead.measures.measurement import Measurement
from levelhead.measures.sign_flips import mean_of_rows, sign_flips
from levelhead.measures.statistics import (
    DEFAULT,
    FloatArray,
    Interval,
    Resampling,
    permutation_p_value,
    spearman,
)

Ints = npt.NDArray[np.int64]


def log_odds(log_probs: npt.ArrayLike, group: npt.ArrayLike) -> FloatArray:
    """Log-odds of the first group against the second: log_probs [prompt, word], group [word] in +1, −1 ->
    [prompt]

    A word of neither group has group 0 and does not count.
    """
    values, code = np.asarray(log_probs, np.float64), np.asarray(group, np.int64)
    if values.ndim != 2 or code.shape != values.shape[1:] or not np.isfinite(values).all():
        raise BadProbe(
            f"Log-probabilities {values.shape} came with groups {code.shape}; give [prompt, word] and [word]."
        )
    if not ((code == 1).any() and (code == -1).any()):
        raise BadProbe("Log-odds need at least one word of each group that is a single token of the model.")
    first, second = (logsumexp(values[:, code == side], axis=1) for side in (1, -1))
    return np.asarray(first - second, np.float64)


@dataclass(frozen=True)
class Occupations:
    """What each prompt asks about."""

    names: npt.NDArray[np.str_]  # [prompt]
    own: Ints  # [prompt] +1 where the occupation is stereotyped with the first group, else −1

    def means(self, values: npt.ArrayLike) -> tuple[npt.NDArray[np.str_], FloatArray, Ints]:
        """Names, mean value and own of each occupation: [occupation]"""
        value = np.asarray(values, np.float64)
        if value.shape != self.names.shape or not np.isfinite(value).all():
            raise BadProbe(
                f"{value.shape} values came for {self.names.shape} prompts; give a finite one for each."
            )
        names, first, group = np.unique(self.names, return_index=True, return_inverse=True)
        sums = np.bincount(group.ravel(), weights=value)
        return names, np.asarray(sums / np.bincount(group.ravel())), self.own[first]


def lean(values: npt.ArrayLike, occupations: Occupations, resampling: Resampling = DEFAULT) -> Measurement:
    """How far log-odds [prompt] follow the stereotypes of the occupations; p by exchanging occupations.

        lean = ( mean over own = +1 − mean over own = −1 ) / 2,   over occupations' means

    0: not at all; 0.5: the odds of the first group are e times higher in its own occupations than in the
    others.
    """
    _, mean, own = occupations.means(values)
    first, second = mean[own == 1], mean[own == -1]
    known = _known(resampling, len(mean), "exchange of occupations between the groups")
    if min(first.size, second.size) < 2:
        return Measurement.missing("lean", "fewer than 2 occupations in a group", **known)
    p_value = permutation_p_value(first, second, resampling.seed, 10_000).p_value
    interval = _interval(first, second, resampling.level)
    value = float(first.mean() - second.mean()) / 2
    return Measurement("lean", value, interval, details={"p_value": p_value}, **known)


def lean_change(
    values: npt.ArrayLike, base: npt.ArrayLike, occupations: Occupations, resampling: Resampling = DEFAULT
) -> Measurement:
    """What knowledge does to lean: log-odds [prompt] against those of the same occupation's base prompt
    [prompt].

    p by flipping the sign of own · (value − base) of whole occupations.
    """
    change = np.asarray(values, np.float64) - np.asarray(base, np.float64)
    _, mean, own = occupations.means(change)
    first, second = mean[own == 1], mean[own == -1]
    known = _known(resampling, len(mean), "sign flips by occupation")
    if min(first.size, second.size) < 2:
        return Measurement.missing("lean change", "fewer than 2 occupations in a group", **known)
    # each group counts half, so its occupations are weighted before their signs are flipped
    weighted = own * mean * len(mean) / (2 * np.where(own == 1, first.size, second.size))
    test = sign_flips(weighted, mean_of_rows, seed=resampling.seed)
    interval = _interval(first, second, resampling.level)
    return Measurement("lean change", test.value, interval, details={"p_value": test.p_value}, **known)


def trend(values: npt.ArrayLike, occupations: Occupations, shares: dict[str, float]) -> Measurement:
    """Spearman's rho of an occupation's log-odds with the share of the first group in it, where that is
    known."""
    names, mean, _ = occupations.means(values)
    known = [i for i, name in enumerate(names) if str(name) in shares]
    return spearman(mean[known], [shares[str(names[i])] for i in known])


def _known(resampling: Resampling, n: int, p: str) -> dict[str, Any]:
    settings = {
        "interval": "Welch's t over occupations",
        "level": resampling.level,
        "seed": resampling.seed,
        "p": p,
    }
    return {"n": n, "neutral": 0.0, "settings": settings}


def _interval(first: FloatArray, second: FloatArray, level: float) -> Interval:
    """Welch's interval of half the difference of two means."""
    value = float(first.mean() - second.mean()) / 2
    parts = [float(side.var(ddof=1)) / (4 * side.size) for side in (first, second)]
    variance = sum(parts)
    if variance == 0:
        return value, value
    freedom = variance**2 / sum(
        part**2 / (side.size - 1) for part, side in zip(parts, (first, second), strict=True)
    )
    half = float(stats.t.ppf(0.5 + level / 2, freedom)) * math.sqrt(variance)
    return value - half, value + half
