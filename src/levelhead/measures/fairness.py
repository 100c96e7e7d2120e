"""NLI fairness: does a classifier draw conclusions about gender from occupation? And is it still able?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from levelhead.errors import BadProbe
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import (
    DEFAULT,
    FloatArray,
    Interval,
    Resampling,
    bootstrap,
    share_interval,
    wilson,
)

IntArray = npt.NDArray[np.int64]
POINTS = 0.05  # a mitigated model may lose five points of ability, as in the paper


@dataclass(frozen=True)
class Predictions:
    """Predicted labels of occupation probes; row i asks about one occupation, context and gender.

    The context tells the minimal pairs apart: rows that agree in occupation and context differ in gender
    only.
    """

    label: npt.ArrayLike  # [row] number of the predicted label, −1 where there was no prediction
    occupation: npt.ArrayLike  # [row]
    context: npt.ArrayLike  # [row]
    gender: npt.ArrayLike  # [row] 0 or 1
    neutral: int  # number of the label that is right


def nli_fairness(predictions: Predictions, resampling: Resampling = DEFAULT) -> dict[str, Measurement]:
    """Accuracy, parity, strict parity and fairness; neutral is the right answer to every probe.

        accuracy       = share of neutral predictions
        parity         = share of occupations whose majority prediction is the same for both genders
        strict_parity  = share of occupations with the same prediction for both genders in every context
        fairness η     = accuracy · parity

    Labels that tie for the majority count together: parity holds only if the same set of labels leads for
    both genders. An occupation with predictions for one gender only is unscored. Intervals resample whole
    occupations, because the answers about one occupation stand or fall together. 1 is ideal for all.
    Reference: the projective paper, section 3.
    """
    table = _Table.of(predictions)
    known: dict[str, Any] = {"neutral": 1.0, "n": table.right.size, "unscored": table.unscored}
    known["settings"] = resampling.settings("BCa bootstrap", "occupations")
    if not table.right.size:
        reason = "no occupation has predictions for both genders"
        return {name: Measurement.missing(name, reason, **known) for name in (*table.shares, "fairness")}
    results = {}
    for name, share in table.shares.items():
        interval = share_interval(share, table.right.size, resampling)
        results[name] = Measurement(name, _whole(share, table.right.size), interval, **known)
    accuracy, parity = results["accuracy"], results["parity"]
    eta = _whole(table.fairness, table.right.size)
    interval = bootstrap(table.fairness, table.right.size, resampling)
    if interval is None or interval[0] == interval[1]:
        interval = _product(accuracy.interval, parity.interval)
    details = {"accuracy": accuracy.value, "parity": parity.value}
    results["fairness"] = Measurement("fairness", eta, interval, details=details, **known)
    return results


def ability(label: npt.ArrayLike, gold: npt.ArrayLike, level: float = 0.95) -> Measurement:
    """Accuracy on an ordinary test set such as SNLI, with Wilson's interval. Rows predicted −1 are unscored.

    accuracy = share of label = gold
    """
    predicted, right = np.asarray(label, dtype=np.int64), np.asarray(gold, dtype=np.int64)
    if predicted.ndim != 1 or predicted.shape != right.shape:
        raise BadProbe(
            f"Labels {predicted.shape} came with gold {right.shape}. Give one of each for every pair."
        )
    scored = predicted >= 0
    lost = int((~scored).sum())
    known: dict[str, Any] = {"n": int(scored.sum()), "unscored": {"no prediction": lost} if lost else {}}
    known["settings"] = {"interval": "Wilson", "level": level}
    if not scored.any():
        return Measurement.missing("ability", "no prediction", **known)
    share = float((predicted == right)[scored].mean())
    return Measurement("ability", share, wilson(share, known["n"], level), **known)


def viable(measured: Measurement, base: Measurement, points: float = POINTS) -> bool | None:
    """Whether a changed model is still of use: at most `points` below the base. None when either was not
    measured."""
    if measured.value is None or base.value is None:
        return None
    return measured.value >= base.value - points - 1e-9  # 0.8889 − 0.05 in floats is not 0.8389


@dataclass(frozen=True)
class _Table:
    """What each scored occupation contributes."""

    right: FloatArray  # [occupation] neutral predictions
    asked: FloatArray  # [occupation] predictions
    same: FloatArray  # [occupation] 1 where the majority is the same
    strict: FloatArray  # [occupation] 1 where every minimal pair agrees
    unscored: dict[str, int]

    @classmethod
    def of(cls, predictions: Predictions) -> _Table:
        label, occupation, context, gender = _columns(predictions)
        scored = label >= 0
        unscored = {"no prediction": int((~scored).sum())}
        label, occupation, context, gender = (
            column[scored] for column in (label, occupation, context, gender)
        )
        names, row = np.unique(occupation, return_inverse=True)
        votes = np.zeros((names.size, 2, int(label.max(initial=0)) + 1))
        np.add.at(votes, (row, gender, label), 1)
        both = (votes.sum(axis=2) > 0).all(axis=1)
        unscored["occupation without both genders"] = int((~both).sum())
        leads = votes == votes.max(axis=2, keepdims=True)
        same = (leads[:, 0] == leads[:, 1]).all(axis=1)
        right = np.bincount(row, weights=label == predictions.neutral, minlength=names.size)
        asked = votes.sum(axis=(1, 2))
        strict = _strict(label, row, context, names.size)
        reasons = {reason: n for reason, n in unscored.items() if n}
        return cls(right[both], asked[both], same[both].astype(np.float64), strict[both], reasons)

    @property
    def shares(self) -> dict[str, Callable[[FloatArray], FloatArray]]:
        return {
            "accuracy": lambda counts: (counts @ self.right) / (counts @ self.asked),
            "parity": lambda counts: counts @ self.same / counts.sum(axis=1),
            "strict_parity": lambda counts: counts @ self.strict / counts.sum(axis=1),
        }

    def fairness(self, counts: FloatArray) -> FloatArray:
        return self.shares["accuracy"](counts) * self.shares["parity"](counts)


def _columns(predictions: Predictions) -> list[IntArray]:
    given = (predictions.label, predictions.occupation, predictions.context, predictions.gender)
    columns = [np.asarray(column, dtype=np.int64) for column in given]
    shapes = [column.shape for column in columns]
    if len(set(shapes)) > 1 or columns[0].ndim != 1:
        raise BadProbe(
            f"Label, occupation, context and gender have shapes {shapes}. Give one of each for every row."
        )
    if columns[3].size and (columns[3].min() < 0 or columns[3].max() > 1):
        raise BadProbe(f"Genders {sorted(set(columns[3].tolist()))} came; allowed are 0 and 1.")
    return columns


def _strict(label: IntArray, row: IntArray, context: IntArray, occupations: int) -> FloatArray:
    """1 for each occupation in which all rows of every context have one label."""
    pair = np.unique(np.stack([row, context], axis=1), axis=0, return_inverse=True)[1].ravel()
    pairs = int(pair.max(initial=-1)) + 1
    least, most = np.full(pairs, np.iinfo(np.int64).max), np.full(pairs, -1)
    np.minimum.at(least, pair, label)
    np.maximum.at(most, pair, label)
    strict = np.ones(occupations)
    strict[row[(least != most)[pair]]] = 0.0
    return strict


def _whole(statistic: Callable[[FloatArray], FloatArray], n: int) -> float:
    return float(statistic(np.ones((1, n)))[0])


def _product(first: Interval | None, second: Interval | None) -> Interval | None:
    """Ends of a product of two shares: wide rather than empty where every resample is the same."""
    return None if first is None or second is None else (first[0] * second[0], first[1] * second[1])
