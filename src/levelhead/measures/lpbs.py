"""LPBS: how much a word makes a masked model prefer one group's attribute words to the other's."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from levelhead.errors import BadProbe
from levelhead.measures.influence import Influence, influence
from levelhead.measures.measurement import Measurement
from levelhead.measures.seat.effect import difference_details, effect_measurement, why_no_effect
from levelhead.measures.seat.intervals import METHOD, difference_interval, effect_interval, weighted_effect
from levelhead.measures.statistics import DEFAULT, FloatArray, Resampling


def association(log_p: npt.ArrayLike, log_prior: npt.ArrayLike) -> FloatArray:
    """How much the target word raises the log-probability of an attribute word, cell by cell.

        association(t, a) = log p([MASK] = a | sentence with t)
                          − log p([MASK] = a | same sentence, t masked too)

    The prior takes out that some attribute words are frequent everywhere. Reference: Kurita et al. 2019
    (docs/method.md, LPBS).
    """
    with_target, without = np.asarray(log_p, dtype=np.float64), np.asarray(log_prior, dtype=np.float64)
    if with_target.shape != without.shape:
        raise BadProbe(
            f"log_p {with_target.shape} and log_prior {without.shape} differ. Ask both for every cell."
        )
    if (with_target > 0).any() or (without > 0).any():
        raise BadProbe("A log-probability above 0 came. Give natural logarithms of probabilities.")
    return np.asarray(with_target - without, dtype=np.float64)


def word_bias(associations: npt.ArrayLike, female: npt.ArrayLike) -> FloatArray:
    """Bias of each target word: above 0 it leans to the female attributes, below 0 to the male ones.

        bias(t) = mean_{template, female a} association(t, a) − mean_{template, male a} association(t, a)

    associations [template, target, attribute], NaN where a cell could not be asked; female [attribute] True
    or False. A target without a scored cell on either side is NaN.
    """
    cells, is_female = np.asarray(associations, dtype=np.float64), np.asarray(female, dtype=bool)
    if cells.ndim != 3 or is_female.shape != cells.shape[2:] or is_female.all() or not is_female.any():
        raise BadProbe(
            f"associations {cells.shape} came with {is_female.sum()} female of {is_female.size} attributes; "
            "needed are [template, target, attribute] and attributes of both groups."
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
    """Effect size of a test (X family, Y career): do the words of X lean more to the female side than those
    of Y?

        LPBS = (mean bias(x) − mean bias(y)) / std bias(w),  w in X ∪ Y, ddof = 1

    bias [target] from word_bias, in_x [target] True for X and False for Y. Form and permutation p-value are
    SEAT's. The interval resamples the words of each set; templates and attribute words are held fixed: they
    are the instrument, not a sample. A word without a bias (NaN) is unscored. Reference: Kurita et al. 2019.
    """
    values, member = np.asarray(bias, dtype=np.float64), np.asarray(in_x, dtype=bool)
    if values.ndim != 1 or values.shape != member.shape:
        raise BadProbe(
            f"bias {values.shape} came with in_x {member.shape}. Give one of each for every target."
        )
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
    known["influence"] = _influence(x, y, resampling)
    known["details"] |= difference_details(difference_interval(x, y, resampling))
    return effect_measurement("lpbs", x, y, effect_interval(x, y, resampling), known)


def _influence(x: FloatArray, y: FloatArray, resampling: Resampling) -> Influence:
    """Of the words of either set on the effect size."""
    both = np.concatenate([x, y])[None]

    def statistic(counts: FloatArray) -> FloatArray:
        return weighted_effect(np.broadcast_to(both, counts.shape), counts, x.size).value

    of_words = influence(statistic, both.size, "words", resampling).get("words", ())
    sides = {"words of X": of_words[: x.size], "words of Y": of_words[x.size :]}
    return sides if of_words else {}


def _mean_of_scored(cells: FloatArray) -> FloatArray:
    """Mean over templates and attributes of the cells that have a value, [target]; NaN where there is
    none."""
    scored = np.isfinite(cells)
    n = scored.sum(axis=(0, 2))
    total = np.where(scored, cells, 0.0).sum(axis=(0, 2))
    return np.asarray(np.where(n > 0, total / np.maximum(n, 1), np.nan), dtype=np.float64)
