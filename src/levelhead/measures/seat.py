"""Effect sizes of association tests with p-values and intervals: SEAT over given vectors, and LPBS.

Intervals resample sentences, or the targets alone (words with contexts: crossed.py), by the studentized
bootstrap: noise in the vectors pulls SEAT to 0, resampled vectors are noisier still, and in simulations of
known truth percentile and bias-corrected intervals covered too little (docs/method/words.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from levelhead.errors import BadProbe
from levelhead.measures.clustered import permutation_p_value
from levelhead.measures.influence import influence
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import DEFAULT, FloatArray, Interval, Resampling, draw_counts, in_chunks

SETS = ("A", "B", "X", "Y")  # attributes A and B, targets X and Y
SPREAD = "spread"  # the detail that holds the standard deviation of associations, which SEAT divides by
DIFFERENCE_LOW, DIFFERENCE_HIGH = "difference_low", "difference_high"  # details: the numerator's interval
FLAT = 1e-12  # a spread of cosines or log-probabilities below this is rounding, not association
METHOD = "symmetric studentized bootstrap"
Replicate = Callable[[FloatArray], tuple[FloatArray, FloatArray]]  # counts [r, item] -> values, errors [r]


def associations(vectors_w: npt.ArrayLike, vectors_a: npt.ArrayLike, vectors_b: npt.ArrayLike) -> FloatArray:
    """How much closer each word is to the attributes A than to B.

        s(w) = mean_{a∈A} cos(w, a) − mean_{b∈B} cos(w, b)

    The value lies between −2 and 2. Equal vectors get equal values to the bit, so ties stay ties. Reference:
    Caliskan et al. 2017.
    """
    direction = unit("A", vectors_a).mean(axis=0) - unit("B", vectors_b).mean(axis=0)
    return np.asarray((unit("W", vectors_w) * direction).sum(axis=1), dtype=np.float64)


def seat(s_x: npt.ArrayLike, s_y: npt.ArrayLike) -> float:
    """Effect size of an association test: how far apart the two target sets lie.

        SEAT = (mean s(x) − mean s(y)) / std s(w),  w in X ∪ Y, ddof = 1

    0: no association. ±2 is the extreme (for sets of equal size). Reference: May et al. 2019
    (docs/method/words.md, SEAT).
    """
    x, y = np.asarray(s_x, dtype=np.float64), np.asarray(s_y, dtype=np.float64)
    if reason := why_no_effect(x, y):
        raise BadProbe(f"SEAT cannot be computed: {reason}.")
    return float((x.mean() - y.mean()) / np.concatenate([x, y]).std(ddof=1))


def why_no_effect(s_x: FloatArray, s_y: FloatArray) -> str:
    """The reason why these associations have no effect size, or an empty text."""
    if min(s_x.size, s_y.size) < 2:
        return f"X has {s_x.size} and Y has {s_y.size} usable entries, each needs at least 2"
    s = np.concatenate([s_x, s_y])
    if not np.isfinite(s).all():
        return "an association is not a finite number"
    if s.std(ddof=1) <= FLAT * max(1.0, float(np.abs(s).max())):
        return "all targets have the same association, the standard deviation is 0"
    return ""


def effect_measurement(
    name: str, s_x: FloatArray, s_y: FloatArray, interval: Interval | None, known: Mapping[str, Any]
) -> Measurement:
    """Effect size, permutation p-value and a given interval as one measurement.

    known: fields that the caller knows; its settings hold the seed of the permutation test.
    """
    seed = int(known["settings"]["seed"])
    test = permutation_p_value(s_x, s_y, seed)
    spread = float(np.concatenate([s_x, s_y]).std(ddof=1))
    details = {"p_value": test.p_value, "partitions": float(test.partitions), SPREAD: spread}
    details |= known.get("details", {})
    return Measurement(name, seat(s_x, s_y), interval, neutral=0.0, **{**known, "details": details})


def unit(name: str, vectors: npt.ArrayLike) -> FloatArray:
    """Vectors [item, d] divided by their lengths; the name says in an error which set they are."""
    matrix = np.asarray(vectors, dtype=np.float64)
    norm = np.linalg.norm(matrix, axis=-1, keepdims=True)
    if matrix.ndim != 2 or not len(matrix) or not np.isfinite(norm).all() or (norm == 0).any():
        raise BadProbe(f"Vectors {name} {matrix.shape} are not [item, d], or empty, zero or not finite")
    return np.asarray(matrix / norm, dtype=np.float64)


def seat_measurement(vectors: Mapping[str, npt.ArrayLike], resampling: Resampling = DEFAULT) -> Measurement:
    """SEAT over vectors of sentences or words: vectors["A"], ["B"], ["X"], ["Y"], each [item, d].

    The p-value permutes X ∪ Y; the interval resamples the items of each set. n counts those of all sets.
    """
    if set(vectors) != set(SETS):
        raise BadProbe(f"SEAT needs exactly A, B (attributes) and X, Y (targets) (got {sorted(vectors)})")
    arrays = {name: np.asarray(vectors[name], dtype=np.float64) for name in SETS}
    sizes = {f"n_{name.lower()}": float(len(arrays[name])) for name in SETS}
    settings = resampling.settings(METHOD, "items, within each set")
    known: dict[str, Any] = {"n": int(sum(sizes.values())), "settings": settings, "details": sizes}
    if empty := [name for name in SETS if not len(arrays[name])]:
        return Measurement.missing("seat", f"no item in {', '.join(empty)}", neutral=0.0, **known)
    s_x, s_y = (associations(arrays[name], arrays["A"], arrays["B"]) for name in "XY")
    if reason := why_no_effect(s_x, s_y):
        return Measurement.missing("seat", reason, neutral=0.0, **known)
    return effect_measurement("seat", s_x, s_y, item_interval(arrays, resampling), known)


def effect_interval(s_x: FloatArray, s_y: FloatArray, resampling: Resampling = DEFAULT) -> Interval | None:
    """Interval of the effect size when the targets of each set are resampled, their associations given."""
    s, sizes = np.concatenate([s_x, s_y])[None], [s_x.size, s_y.size]
    return resampled_interval(
        lambda counts: weighted_effect(np.broadcast_to(s, counts.shape), counts, s_x.size)[:2],
        sizes,
        sizes,
        resampling,
    )


def difference_interval(s_x: FloatArray, s_y: FloatArray, resampling: Resampling) -> Interval | None:
    """Interval of the numerator, mean s(x) − mean s(y), when the targets of each set are resampled."""
    sizes = [s_x.size, s_y.size]

    def replicate(counts: FloatArray) -> tuple[FloatArray, FloatArray]:
        value, variance = np.zeros(len(counts)), np.zeros(len(counts))
        for s, drawn, sign in zip((s_x, s_y), np.split(counts, [s_x.size], axis=1), (1.0, -1.0), strict=True):
            mean, apart = _centered(np.broadcast_to(s, drawn.shape), drawn)
            value += sign * mean[:, 0]
            variance += _variance_of_mean(apart, drawn)
        return value, np.sqrt(variance)

    return resampled_interval(replicate, sizes, None, resampling)


def item_interval(arrays: Mapping[str, FloatArray], resampling: Resampling) -> Interval | None:
    """Interval over the items of all four sets; only the cosines between targets and attributes are needed.

        s_t = Σ_a c_a cos(t, a) / n_A − Σ_b c_b cos(t, b) / n_B

    Drawing attribute a moves SEAT by Σ_t (d SEAT / d s_t) cos(t, a): its spread is added to the variance that
    drawing targets causes. The four sets are drawn independently, so variances add.
    """
    n_a, n_b, n_x, n_y = (len(arrays[name]) for name in SETS)
    units = {name: unit(name, arrays[name]) for name in SETS}
    targets = np.concatenate([units["X"], units["Y"]])
    cosines = [targets @ units["A"].T, -(targets @ units["B"].T)]

    def replicate(counts: FloatArray) -> tuple[FloatArray, FloatArray]:
        drawn = (counts[:, :n_a], counts[:, n_a : n_a + n_b])
        s = sum(c @ cosine.T / cosine.shape[1] for c, cosine in zip(drawn, cosines, strict=True))
        effect = weighted_effect(np.asarray(s), counts[:, n_a + n_b :], n_x)
        variance = effect.variance
        for c, cosine in zip(drawn, cosines, strict=True):
            variance = variance + _variance_of_mean(_centered(effect.gradient @ cosine, c)[1], c)
        return effect.value, np.sqrt(variance)

    return resampled_interval(replicate, [n_a, n_b, n_x, n_y], [n_x, n_y], resampling)


class Effect(NamedTuple):
    """Effect sizes of weighted targets, with their variance and gradient."""

    value: FloatArray  # [r]
    error: FloatArray  # [r] the square root of its variance
    variance: FloatArray  # [r] from drawing targets
    gradient: FloatArray  # [r, target] d value / d s


def weighted_effect(s: FloatArray, counts: FloatArray, n_x: int) -> Effect:
    """SEAT = D / S of associations s [r, target] that were drawn `counts` times; the first n_x targets are X.

        D = mean_X s − mean_Y s,     S² = Σ_t c_t (s_t − center)² / (n − 1),     n = Σ_t c_t

    Delta method: d(D/S) = dD / S − D dS² / (2 S³). So, with + for X and − for Y and N the draws of t's set,

        gradient_t  = ± c_t / (N S) − D c_t (s_t − center) / ((n − 1) S³)
        influence_t = ± (s_t − mean of its set) / S − D / (2 S³) · N / (n − 1) · (q_t − mean q of its set),
                      q_t = (s_t − center)²
        variance    = Σ over both sets of Σ_t c_t influence_t² / ((N − 1) N)
    """
    n = counts.sum(axis=1, keepdims=True)
    center = (s * counts).sum(axis=1, keepdims=True) / n
    square = (s - center) ** 2
    S = np.sqrt((square * counts).sum(axis=1, keepdims=True) / (n - 1))
    S[S <= FLAT] = np.nan
    sides = (slice(None, n_x), slice(n_x, None))
    means = [_centered(s[:, side], counts[:, side])[0] for side in sides]
    D = means[0] - means[1]
    gradient = -D * counts * (s - center) / ((n - 1) * S**3)
    variance = np.zeros(len(s))
    for side, sign in zip(sides, (1.0, -1.0), strict=True):
        drawn, total = counts[:, side], counts[:, side].sum(axis=1, keepdims=True)
        spread = _centered(square[:, side], drawn)[1] * total / (n - 1)
        influence = sign * _centered(s[:, side], drawn)[1] / S - D / (2 * S**3) * spread
        variance += _variance_of_mean(influence, drawn)
        gradient[:, side] += sign * drawn / (total * S)
    return Effect((D / S)[:, 0], np.sqrt(variance), variance, gradient)


def _centered(values: FloatArray, counts: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The weighted mean over items [r, 1], and each value less that mean [r, item]."""
    mean = (values * counts).sum(axis=1, keepdims=True) / counts.sum(axis=1, keepdims=True)
    return mean, values - mean


def _variance_of_mean(influence: FloatArray, counts: FloatArray) -> FloatArray:
    """Variance of a mean over the drawn items [r]: Σ c · influence² / ((n − 1) n), n = Σ c."""
    n = counts.sum(axis=1)
    return np.asarray((counts * influence**2).sum(axis=1) / (np.maximum(n - 1, 1) * n), dtype=np.float64)


def resampled_interval(
    replicate: Replicate, sizes: npt.ArrayLike, targets: Sequence[int] | None, resampling: Resampling
) -> Interval | None:
    """Symmetric studentized bootstrap of an effect size; items are drawn within strata of these sizes.

    targets: sizes of the target sets, by which an effect size is clipped; None: a value without bounds.

        value ± quantile_level( |value* − value| / error* ) · error

    Starred values are those of a resample; errors come from the delta method. The interval is clipped to
    |SEAT| ≤ (n_x + n_y) / sqrt(n_x n_y), which the sizes n_x, n_y of the target sets allow. None when the
    error is 0 or under 95 % of the resamples have a value. Reference: Hall 1988.
    """
    n = int(np.sum(sizes))
    (value,), (error,) = replicate(np.ones((1, n)))
    rng = np.random.default_rng(resampling.seed)
    drawn = [replicate(draw_counts(rng, r, sizes)) for r in in_chunks(resampling.resamples, n)]
    values, errors = (np.concatenate(part) for part in zip(*drawn, strict=True))
    with np.errstate(all="ignore"):
        t = np.abs(values - value) / errors
    t = t[np.isfinite(t)]
    if not error > 0 or t.size < 0.95 * resampling.resamples:
        return None
    half = float(np.quantile(t, resampling.level) * error)
    if targets is None:
        return float(value) - half, float(value) + half
    most = sum(targets) / math.sqrt(math.prod(targets))
    return max(-most, float(value) - half), min(most, float(value) + half)


# ---- LPBS: how much a word makes a masked model prefer one group's attribute words to the other's


def association(log_p: npt.ArrayLike, log_prior: npt.ArrayLike) -> FloatArray:
    """How much the target word raises the log-probability of an attribute word, cell by cell.

        association(t, a) = log p([MASK] = a | sentence with t)
                          − log p([MASK] = a | same sentence, t masked too)

    The prior takes out that some attribute words are frequent everywhere. Reference: Kurita et al. 2019
    (docs/method/words.md, LPBS).
    """
    with_target, without = np.asarray(log_p, dtype=np.float64), np.asarray(log_prior, dtype=np.float64)
    if with_target.shape != without.shape:
        raise BadProbe(f"log_p {with_target.shape} and log_prior {without.shape} differ; ask both per cell")
    if (with_target > 0).any() or (without > 0).any():
        raise BadProbe("A log-probability is above 0. Give natural logarithms of probabilities.")
    return np.asarray(with_target - without, dtype=np.float64)


def word_bias(associations: npt.ArrayLike, female: npt.ArrayLike) -> FloatArray:
    """Bias of each target word: above 0 it leans to the female attributes, below 0 to the male ones.

        bias(t) = mean_{template, female a} association(t, a) − mean_{template, male a} association(t, a)

    associations [template, target, attribute], NaN where a cell could not be scored; female [attribute] True
    or False. A target without a scored cell on either side is NaN.
    """
    cells, is_female = np.asarray(associations, dtype=np.float64), np.asarray(female, dtype=bool)
    if cells.ndim != 3 or is_female.shape != cells.shape[2:] or is_female.all() or not is_female.any():
        raise BadProbe(
            "associations must be [template, target, attribute], with attributes of both groups "
            f"(got {cells.shape}, {is_female.sum()} female of {is_female.size} attributes)"
        )
    sides = [_mean_of_scored(cells[:, :, side]) for side in (is_female, ~is_female)]
    return np.asarray(sides[0] - sides[1], dtype=np.float64)


def attribute_gaps(associations: npt.ArrayLike, in_x: npt.ArrayLike) -> FloatArray:
    """How much more the words of X raise each attribute word than those of Y do, in nats: [attribute].

        gap(a) = mean_{template, x} association(x, a) − mean_{template, y} association(y, a)

    The mean over the attributes of A less that over those of B is the numerator of LPBS, where every cell is
    scored. An attribute without a scored cell on either side is NaN.
    """
    cells, member = np.asarray(associations, dtype=np.float64), np.asarray(in_x, dtype=bool)
    x, y = (_mean_of_scored(cells[:, side].transpose(0, 2, 1)) for side in (member, ~member))
    return np.asarray(x - y, dtype=np.float64)


def lpbs(bias: npt.ArrayLike, in_x: npt.ArrayLike, resampling: Resampling = DEFAULT) -> Measurement:
    """Effect size of a test (X family, Y career): do the words of X lean more to the female side than Y's?

        LPBS = (mean bias(x) − mean bias(y)) / std bias(w),  w in X ∪ Y, ddof = 1

    bias [target] from word_bias, in_x [target] True for X and False for Y. Form and permutation p-value are
    SEAT's. The interval resamples the words of each set; templates and attribute words are held fixed: they
    are the instrument, not a sample. A word without a bias (NaN) is unscored. Reference: Kurita et al. 2019.
    """
    values, member = np.asarray(bias, dtype=np.float64), np.asarray(in_x, dtype=bool)
    if values.ndim != 1 or values.shape != member.shape:
        raise BadProbe(f"bias and in_x need one of each per target (got {values.shape} and {member.shape})")
    scored = np.isfinite(values)
    x, y = values[scored & member], values[scored & ~member]
    lost = int((~scored).sum())
    known: dict[str, Any] = {
        "n": int(scored.sum()),
        "unscored": {"word without a scored cell": lost} if lost else {},
        "settings": resampling.settings(METHOD, "words, within each set"),
        "details": {"n_x": float(x.size), "n_y": float(y.size)},
    }
    if reason := why_no_effect(x, y):
        return Measurement.missing("lpbs", reason, neutral=0.0, **known)
    both = np.concatenate([x, y])[None]
    of_words = influence(
        lambda counts: weighted_effect(np.broadcast_to(both, counts.shape), counts, x.size).value,
        both.size,
        "words",
        resampling,
    ).get("words", ())
    if of_words:
        known["influence"] = {"words of X": of_words[: x.size], "words of Y": of_words[x.size :]}
    if (ends := difference_interval(x, y, resampling)) is not None:
        known["details"] |= {DIFFERENCE_LOW: ends[0], DIFFERENCE_HIGH: ends[1]}
    return effect_measurement("lpbs", x, y, effect_interval(x, y, resampling), known)


def _mean_of_scored(cells: FloatArray) -> FloatArray:
    """Mean over templates and attributes of the scored cells, [target]; NaN where there is none."""
    scored = np.isfinite(cells)
    n = scored.sum(axis=(0, 2))
    total = np.where(scored, cells, 0.0).sum(axis=(0, 2))
    return np.asarray(np.where(n > 0, total / np.maximum(n, 1), np.nan), dtype=np.float64)
