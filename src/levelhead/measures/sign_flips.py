"""Sign flips: is a set of signed preferences more than noise around 0?

A triple pair's bias s (or any preference for the stereotype over the anti-stereotype) is as likely to be −s
as s in a model without this bias: exchanging the two labels flips its sign and changes nothing else. So the
value is compared with what the same numbers show under random signs:

    s_i' = sign_c(i) · s_i,    one sign for each cluster c (a context), 10,000 draws, or all of them if they
    are fewer
    p = (1 + #{draws with |value' − c| ≥ |value − c|}) / (1 + draws)         c, floor: see measures/null.py

A twin would not do here: its outputs have another scale. A mean of the largest tenth is positive whatever the
signs: its floor is what noise alone gives, and only the excess above it speaks of bias. Definitions:
docs/method.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from levelhead.errors import BadProbe
from levelhead.measures.measurement import Measurement
from levelhead.measures.null import NullDistribution
from levelhead.measures.statistics import (
    DEFAULT,
    FloatArray,
    Resampling,
    mean_interval,
    share_interval,
    top_share_count,
)

FLIPS = 10_000
_EXACT = 13  # clusters: 2^13 sign vectors are fewer than the draws
_CELLS = 2_000_000  # numbers held at once
Rows = Callable[[FloatArray], FloatArray]  # values [draw, item] -> statistic [draw]


@dataclass(frozen=True)
class FlipTest:
    """A statistic of signed values beside what it is under random signs."""

    value: float
    null: NullDistribution
    p_value: float

    @property
    def floor(self) -> float:
        """The mean under random signs."""
        return self.null.floor

    @property
    def excess(self) -> float:
        """What is left of the value above its floor."""
        return self.value - self.floor

    def details(self) -> dict[str, float | None]:
        """As a measurement states them."""
        return {"floor": self.floor, "excess": self.excess, "p_value": self.p_value}


def sign_flips(
    values: npt.ArrayLike,
    statistic: Rows,
    clusters: npt.ArrayLike | None = None,
    *,
    one_sided: bool = False,
    seed: int = 0,
) -> FlipTest:
    """Compare a statistic of signed values [item] with its values under random signs of whole clusters.

    one_sided: only greater values count, for statistics that bias can only raise. All sign vectors are
    used, once each, while there are at most 2^13; the p-value is then exact and the identity is one of
    them.
    """
    s = np.asarray(values, np.float64)
    if s.ndim != 1 or s.size < 2 or not np.isfinite(s).all():
        raise BadProbe(
            f"Sign flips got values of shape {s.shape} or with NaN; give at least 2 finite numbers."
        )
    group = (
        np.arange(s.size)
        if clusters is None
        else np.unique(np.asarray(clusters), return_inverse=True)[1].ravel()
    )
    if group.size != s.size:
        raise BadProbe(
            f"{s.size} values came with {group.size} cluster labels. Give one label for each value."
        )
    signs = _signs(int(group.max()) + 1, seed)
    step = max(1, _CELLS // s.size)
    flipped = [statistic(signs[i : i + step, group] * s) for i in range(0, len(signs), step)]
    value = float(statistic(s[None])[0])
    null = NullDistribution(np.concatenate(flipped))
    return FlipTest(value, null, null.upper_p_value(value) if one_sided else null.p_value(value))


def _signs(clusters: int, seed: int) -> FloatArray:
    """Sign vectors [draw, cluster]: all but the identity while there are at most 2^13, else drawn."""
    if clusters <= _EXACT:
        codes = np.arange(1, 2**clusters)
        return np.asarray(1.0 - 2.0 * ((codes[:, None] >> np.arange(clusters)) & 1))
    rng = np.random.default_rng(seed)
    return np.asarray(rng.choice([-1.0, 1.0], size=(FLIPS, clusters)))


def rms(values: npt.ArrayLike) -> float:
    """Root mean square: the scale of a set of differences."""
    return float(np.sqrt(np.mean(np.square(np.asarray(values, np.float64)))))


# ---- statistics of triples


def top_mean(share: float, n: int) -> Rows:
    """Mean of the ceil(share · n) largest values of each draw."""
    top = top_share_count(share, n)
    return lambda s: np.asarray(np.partition(s, n - top, axis=1)[:, n - top :].mean(axis=1))


def top_mean_test(
    s: npt.ArrayLike, share: float = 0.10, clusters: npt.ArrayLike | None = None, seed: int = 0
) -> FlipTest:
    """Strength against its noise floor: bias can only raise the mean of the largest, so p is one-sided."""
    values = np.asarray(s, np.float64)
    return sign_flips(values, top_mean(share, values.size), clusters, one_sided=True, seed=seed)


def pair_preferences(
    stereo: npt.ArrayLike, anti: npt.ArrayLike, anti_gs: npt.ArrayLike, stereo_gs: npt.ArrayLike
) -> FloatArray:
    """Preference for the stereotype of each triple pair, on the scale of what is given (logits, best): [pair]

        (Stereo − Anti + Stereo_GS − Anti_GS) / 2

    A sentence that is merely likelier cancels against its gender-swapped twin, as in Strength.
    """
    given = [np.asarray(values, np.float64) for values in (stereo, anti, anti_gs, stereo_gs)]
    if len({values.shape for values in given}) > 1 or given[0].ndim != 1:
        raise BadProbe(
            f"Shapes {[v.shape for v in given]} came; give one number of each kind for every pair."
        )
    first, second, second_gs, first_gs = given
    return np.asarray((first - second - second_gs + first_gs) / 2)


def signed_preference(
    preferences: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    resampling: Resampling = DEFAULT,
    name: str = "preference",
) -> Measurement:
    """Mean signed preference with its interval by cluster (contexts), its sign-flip p and its scale-free
    companion.

        value = mean of the preferences [pair];   scale_free = value / RMS(preferences)

    0: no preference. On the logit scale 0.1 means odds 10 % higher for stereotypes. An edit that multiplies
    all logits by one factor changes the value and leaves scale_free as it is.
    """
    values = np.asarray(preferences, np.float64)
    settings = {**resampling.settings("BCa bootstrap", "contexts"), "p": "sign flips by context"}
    if values.size < 2:
        return Measurement.missing(name, f"{values.size} triple pairs, at least 2 are needed", neutral=0.0)
    test = sign_flips(values, mean_of_rows, clusters, seed=resampling.seed)
    scale = rms(values)
    details = {
        "p_value": test.p_value,
        "floor": 0.0,
        "rms": scale,
        "scale_free": test.value / scale if scale > 0 else None,
    }
    interval = mean_interval(values, resampling, clusters)
    return Measurement(
        name, test.value, interval, values.size, neutral=0.0, details=details, settings=settings
    )


def mean_of_rows(values: FloatArray) -> FloatArray:
    """The mean of each draw: the statistic of a signed preference."""
    return np.asarray(values.mean(axis=1))


def paired_ss(
    original: npt.ArrayLike,
    swapped: npt.ArrayLike,
    resampling: Resampling = DEFAULT,
    clusters: npt.ArrayLike | None = None,
) -> Measurement:
    """Stereotype score of pairs: how often the stereotype is likelier, original and swapped twin together.

        SS = mean over pairs of ( [Stereo > Anti] + [Stereo_GS > Anti_GS] ) / 2,   a tie counts one half

    original, swapped: Stereo − Anti of each pair, on any scale. 0.5: no preference. p by sign flips of SS −
    0.5.
    """
    first, second = np.asarray(original, np.float64), np.asarray(swapped, np.float64)
    if first.shape != second.shape or first.ndim != 1:
        raise BadProbe(f"Shapes {first.shape} and {second.shape} came; give both differences of every pair.")
    settings = {
        **resampling.settings("BCa bootstrap", "contexts"),
        "ties": "half",
        "p": "sign flips by context",
    }
    if first.size < 2:
        return Measurement.missing(
            "paired_ss", f"{first.size} triple pairs, at least 2 are needed", neutral=0.5
        )
    lean = (np.sign(first) + np.sign(second)) / 4  # SS of the pair − 0.5
    test = sign_flips(lean, mean_of_rows, clusters, seed=resampling.seed)
    group = (
        np.arange(lean.size) if clusters is None else np.unique(np.asarray(clusters), return_inverse=True)[1]
    )
    sums, sizes = (
        np.bincount(group.ravel(), weights=0.5 + lean),
        np.bincount(group.ravel()).astype(np.float64),
    )
    interval = share_interval(lambda counts: (counts @ sums) / (counts @ sizes), sums.size, resampling)
    details = {"p_value": test.p_value, "ss": float((first > 0).mean() + (first == 0).mean() / 2)}
    details["ss_swapped"] = float((second > 0).mean() + (second == 0).mean() / 2)
    return Measurement(
        "paired_ss", 0.5 + test.value, interval, lean.size, neutral=0.5, details=details, settings=settings
    )
