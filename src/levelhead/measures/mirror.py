"""How far a model is from its mirror image, and what of it one tilt per pair of words explains.

The divergence is a magnitude for comparisons; no claim rests on it, for every model that is not exactly
symmetric has one (docs/method/generation.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy  # its parts are imported when they are used: `levelhead --help` does not wait for them

from levelhead.errors import BadProbe
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import (
    DEFAULT,
    FloatArray,
    Resampling,
    bootstrap,
    clustered_values,
    mean_interval,
)

DIVERGENCE, FREQUENCY, CONTEXT = "mirror divergence", "frequency part", "context part"
NOT_EXACT = "the swap does not reverse it exactly"


@dataclass(frozen=True, eq=False)
class MirrorScores:
    """How likely texts are to a model behind their prompts, and their counterfactuals behind those of the
    prompts, in nats."""

    log_p: FloatArray  # [text] log M(y | x); NaN where a side has more tokens than fit into the model
    log_p_mirror: FloatArray  # [text] log M(σy | σx)
    tokens: npt.NDArray[np.int64]  # [text] tokens of y
    exact: npt.NDArray[np.bool_]  # [text] whether the swap turns prompt and text around exactly

    @property
    def gaps(self) -> FloatArray:
        """What each text adds to the divergence, in nats."""
        return self.log_p - self.log_p_mirror

    @property
    def left_out(self) -> dict[str, int]:
        """How many texts are not turned around exactly."""
        number = int((~self.exact).sum())
        return {NOT_EXACT: number} if number else {}


def mirror_divergence(
    scores: MirrorScores, clusters: npt.ArrayLike, resampling: Resampling = DEFAULT, name: str = DIVERGENCE
) -> Measurement:
    """How many nats likelier a model's own texts are to it than their counterfactuals.

        D = mean over texts of  log M(y | x) − log M(σy | σx),    y ~ M(· | x)

    The Kullback-Leibler divergence of the model from its mirror image, N(y | x) = M(σy | σx): 0 if and only
    if both are one, never negative in expectation. In nats per text; details have it per token. Texts that
    the swap does not turn around exactly are counted and left out: D needs a σ that is its own inverse.
    """
    d, group = _exact_gaps(name, scores, clusters)
    size = scores.tokens[scores.exact].astype(np.float64)
    settings = resampling.settings("BCa bootstrap", "clusters")
    known: dict[str, Any] = {"n": d.size, "unscored": scores.left_out, "neutral": 0.0, "settings": settings}
    if not d.size or not size.sum():
        return Measurement.missing(name, "no text could be scored", **known)
    sums, counts = np.bincount(group, weights=d), np.bincount(group).astype(np.float64)
    lengths = np.bincount(group, weights=size)
    interval = bootstrap(lambda drawn: (drawn @ sums) / (drawn @ counts), sums.size, resampling)
    per_token = bootstrap(lambda drawn: (drawn @ sums) / (drawn @ lengths), sums.size, resampling)
    details: dict[str, float | None] = {
        "per token": float(d.sum() / size.sum()),
        "per token, low": None if per_token is None else per_token[0],
        "per token, high": None if per_token is None else per_token[1],
        "tokens": float(size.mean()),
        "clusters": float(sums.size),
        "largest": float(np.abs(d).max()),
    }
    return Measurement(name, float(d.mean()), interval, details=details, **known)


def _exact_gaps(
    name: str, scores: MirrorScores, clusters: npt.ArrayLike
) -> tuple[FloatArray, npt.NDArray[np.int64]]:
    """What each text that is turned around exactly adds, and the number of its cluster."""
    labels = np.asarray(clusters)
    if labels.shape != scores.exact.shape:
        raise BadProbe(f"{name} needs one cluster per text, {scores.exact.size} (got {labels.size})")
    return clustered_values(name, scores.gaps[scores.exact], labels[scores.exact])


def mirror_change(
    before: MirrorScores,
    after: MirrorScores,
    clusters_before: npt.ArrayLike,
    clusters_after: npt.ArrayLike,
    resampling: Resampling = DEFAULT,
    name: str = f"{DIVERGENCE} change",
) -> Measurement:
    """By what share a mitigation changes the divergence: D after / D before − 1, −0.4 for 40 % less.

    The texts of both models are others, their prompts the same: whole clusters of both are drawn together.
    details: both means, and their difference in nats with its interval.
    """
    labels = np.concatenate(
        [np.asarray(clusters_before)[before.exact], np.asarray(clusters_after)[after.exact]]
    )
    gaps = np.concatenate([before.gaps[before.exact], after.gaps[after.exact]])
    d, group = clustered_values(name, gaps, labels)
    first = np.arange(d.size) < int(before.exact.sum())
    number = int(group.max(initial=-1)) + 1

    def sums(of: npt.NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
        own = np.asarray(np.bincount(group[of], weights=d[of], minlength=number), np.float64)
        return own, np.bincount(group[of], minlength=number).astype(np.float64)

    (s0, n0), (s1, n1) = sums(first), sums(~first)
    known: dict[str, Any] = {
        "n": int((~first).sum()),
        "neutral": 0.0,
        "settings": resampling.settings("BCa bootstrap", "clusters, the same of both"),
    }
    if not n0.sum() or not n1.sum() or s0.sum() <= 0:
        return Measurement.missing(name, "the divergence before is not above 0", **known)

    def means(drawn: FloatArray) -> tuple[FloatArray, FloatArray]:
        with np.errstate(divide="ignore", invalid="ignore"):
            return (drawn @ s0) / (drawn @ n0), (drawn @ s1) / (drawn @ n1)

    def ratio(drawn: FloatArray) -> FloatArray:
        one, other = means(drawn)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(other / one - 1)

    def difference(drawn: FloatArray) -> FloatArray:
        one, other = means(drawn)
        return other - one

    every = np.ones((1, number))
    gap = bootstrap(difference, number, resampling)
    details = {
        "before": float(means(every)[0][0]),
        "after": float(means(every)[1][0]),
        "difference": float(difference(every)[0]),
        "difference, low": None if gap is None else gap[0],
        "difference, high": None if gap is None else gap[1],
    }
    return Measurement(
        name, float(ratio(every)[0]), bootstrap(ratio, number, resampling), details=details, **known
    )


# ---- its two parts


@dataclass(frozen=True, eq=False)
class PairedWords:
    """What a tilt of the mirror image needs to know, of every text and position on the mirrored side.

    A *class* is words that stand for each other, ({she}, {he}). Words are named as they are in the text
    itself: a mirrored text that goes on with "he" is a text that goes on with "she".
    """

    names: tuple[str, ...]  # [class] as "she/he"
    counts: FloatArray  # [text, class] feminine less masculine words of the text
    text: npt.NDArray[np.int64]  # [position] the text that it belongs to
    feminine: npt.NDArray[np.float32]  # [position, class] probability of a feminine word of the class
    masculine: npt.NDArray[np.float32]  # [position, class]

    def of(self, kept: npt.NDArray[np.bool_]) -> PairedWords:
        """Those of some texts, which are numbered anew."""
        number = np.cumsum(kept) - 1
        own = kept[self.text]
        return PairedWords(
            self.names,
            self.counts[kept],
            number[self.text[own]],
            self.feminine[own],
            self.masculine[own],
        )

    def log_gain(self, t: FloatArray) -> FloatArray:
        """log N^t(y | x) − log N(y | x) of each text, for one number t per class."""
        z = 1.0 + self.feminine @ np.expm1(t) + self.masculine @ np.expm1(-t)
        return np.asarray(self.counts @ t - np.bincount(self.text, np.log(z), len(self.counts)))


class MirrorParts(NamedTuple):
    """The divergence in two parts, and the tilt of each class of words."""

    frequency: Measurement
    context: Measurement
    tilts: tuple[
        tuple[str, float], ...
    ]  # nats; above 0: the feminine word comes more often than in the mirror


_PRIOR = 1.0  # 1 / variance of a tilt: a class that hardly occurs is not tilted
_WIDEST = 12.0  # nats


def fitted_tilt(words: PairedWords) -> FloatArray:
    """The tilt under which a model's texts are likeliest to its mirror image: one number per class.

        t = argmax  Σ_texts [ log N^t(y | x) − log N(y | x) ]  −  ½ |t|²
        log N^t(v | prefix) = log N(v | prefix) ± t_class − log Z,    + for feminine words, − for masculine

    Concave in t, so that the maximum is one. With many texts it is argmin KL(M ‖ N^t).
    """
    counts = words.counts.sum(axis=0)

    def loss(t: FloatArray) -> tuple[float, FloatArray]:
        up, down = np.exp(t), np.exp(-t)
        z = 1.0 + words.feminine @ (up - 1) + words.masculine @ (down - 1)
        each = 1.0 / z
        slope = counts - up * (each @ words.feminine) + down * (each @ words.masculine)
        value = counts @ t - np.log(z).sum() - 0.5 * _PRIOR * (t @ t)
        return -float(value), -np.asarray(slope - _PRIOR * t, np.float64)

    bounds = [(-_WIDEST, _WIDEST)] * counts.size
    found = scipy.optimize.minimize(loss, np.zeros(counts.size), jac=True, method="L-BFGS-B", bounds=bounds)
    return np.asarray(found.x, np.float64)


def mirror_parts(
    scores: MirrorScores, words: PairedWords, clusters: npt.ArrayLike, resampling: Resampling = DEFAULT
) -> MirrorParts:
    """What of the divergence one tilt per pair of words explains, and the rest.

        context = mean of  log M(y | x) − log N^t(y | x),    frequency = D − context

    t is fitted on half of the clusters and used on the other half, and the other way around; clusters are
    dealt with the seed. A model that is symmetric but for one tilt per pair has a context part of 0.

    A t of half of the texts misses a little, so that the context part is too large by about (classes / texts)
    nats; with t fitted on all texts it is too small. Intervals reach from the one to the other.
    """
    value, group = _exact_gaps(CONTEXT, scores, clusters)
    own, number = words.of(scores.exact), int(group.max(initial=-1)) + 1
    known: dict[str, Any] = {
        "n": value.size,
        "neutral": 0.0,
        "unscored": scores.left_out,
        "settings": {
            **resampling.settings("BCa bootstrap", "clusters"),
            "fitted on": "the other half of the clusters",
            "classes": len(own.names),
        },
    }
    if number < 4:
        reason = f"{number} clusters, at least 4 are needed to fit on one half and report on the other"
        missing = [Measurement.missing(name, reason, **known) for name in (FREQUENCY, CONTEXT)]
        return MirrorParts(missing[0], missing[1], ())
    half = np.random.default_rng(resampling.seed).permutation(number) % 2 == 0
    gain = np.zeros(value.size)
    for side in (half[group], ~half[group]):
        if own.names:
            gain[side] = own.of(side).log_gain(fitted_tilt(own.of(~side)))

    tilts = fitted_tilt(own) if own.names else np.zeros(0)
    most = own.log_gain(tilts) if own.names else gain

    def part(name: str, values: FloatArray, fitted: FloatArray) -> Measurement:
        ends = [mean_interval(each, resampling, group) for each in (values, fitted)]
        known_ends = [end for each in ends if each is not None for end in each]
        interval = (min(known_ends), max(known_ends)) if all(ends) else None
        share = float(values.mean() / value.mean()) if value.mean() > 0 else None
        return Measurement(name, float(values.mean()), interval, details={"share": share}, **known)

    named = tuple(zip(own.names, map(float, tilts), strict=True))
    return MirrorParts(part(FREQUENCY, gain, most), part(CONTEXT, value - gain, value - most), named)
