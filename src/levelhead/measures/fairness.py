"""Does a classifier draw conclusions about gender from occupation, and is it still able? (docs/method.md, NLI
fairness)"""

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


@dataclass(frozen=True)
class Predictions:
    """Predicted labels of occupation probes; pair i asks about one occupation, context and gender.

    The context tells the minimal pairs apart: sentence pairs that agree in occupation and context differ in
    gender only.
    """

    label: npt.ArrayLike  # [pair] number of the predicted label, −1 where there was no prediction
    occupation: npt.ArrayLike  # [pair]
    context: npt.ArrayLike  # [pair]
    gender: npt.ArrayLike  # [pair] 0 or 1
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
    """Accuracy on an ordinary test set such as SNLI, with Wilson's interval.

        accuracy = share of pairs with label = gold

    Pairs predicted −1 are unscored.
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


@dataclass(frozen=True)
class _Table:
    """What each scored occupation contributes."""

    right: FloatArray  # [occupation] neutral predictions
    predicted: FloatArray  # [occupation] predictions
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
        names, number = np.unique(occupation, return_inverse=True)
        votes = np.zeros((names.size, 2, int(label.max(initial=0)) + 1))
        np.add.at(votes, (number, gender, label), 1)
        both = (votes.sum(axis=2) > 0).all(axis=1)
        unscored["occupation without both genders"] = int((~both).sum())
        leads = votes == votes.max(axis=2, keepdims=True)
        same = (leads[:, 0] == leads[:, 1]).all(axis=1)
        right = np.bincount(number, weights=label == predictions.neutral, minlength=names.size)
        predicted = votes.sum(axis=(1, 2))
        strict = _strict(label, number, context, names.size)
        reasons = {reason: n for reason, n in unscored.items() if n}
        return cls(right[both], predicted[both], same[both].astype(np.float64), strict[both], reasons)

    @property
    def shares(self) -> dict[str, Callable[[FloatArray], FloatArray]]:
        """Each share as a statistic of how often each occupation was drawn."""
        return {
            "accuracy": lambda counts: (counts @ self.right) / (counts @ self.predicted),
            "parity": lambda counts: counts @ self.same / counts.sum(axis=1),
            "strict_parity": lambda counts: counts @ self.strict / counts.sum(axis=1),
        }

    def fairness(self, counts: FloatArray) -> FloatArray:
        """Accuracy times parity of drawn occupations [resample]."""
        return self.shares["accuracy"](counts) * self.shares["parity"](counts)


def _columns(predictions: Predictions) -> list[IntArray]:
    given = (predictions.label, predictions.occupation, predictions.context, predictions.gender)
    columns = [np.asarray(column, dtype=np.int64) for column in given]
    shapes = [column.shape for column in columns]
    if len(set(shapes)) > 1 or columns[0].ndim != 1:
        raise BadProbe(
            f"Label, occupation, context and gender have shapes {shapes}. Give one of each for every pair."
        )
    if columns[3].size and (columns[3].min() < 0 or columns[3].max() > 1):
        raise BadProbe(f"Genders {sorted(set(columns[3].tolist()))} came; allowed are 0 and 1.")
    return columns


def _strict(label: IntArray, occupation: IntArray, context: IntArray, occupations: int) -> FloatArray:
    """1 for each occupation in which both genders have one label in every context."""
    cell = np.unique(np.stack([occupation, context], axis=1), axis=0, return_inverse=True)[1].ravel()
    cells = int(cell.max(initial=-1)) + 1
    least, most = np.full(cells, np.iinfo(np.int64).max), np.full(cells, -1)
    np.minimum.at(least, cell, label)
    np.maximum.at(most, cell, label)
    strict = np.ones(occupations)
    strict[occupation[(least != most)[cell]]] = 0.0
    return strict


def _whole(statistic: Callable[[FloatArray], FloatArray], n: int) -> float:
    """The statistic of the data as they are."""
    return float(statistic(np.ones((1, n)))[0])


def _product(first: Interval | None, second: Interval | None) -> Interval | None:
    """Ends of a product of two shares: wide rather than empty where every resample is the same."""
    return None if first is None or second is None else (first[0] * second[0], first[1] * second[1])
