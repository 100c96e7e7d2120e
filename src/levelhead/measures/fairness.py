"""Does a classifier draw conclusions about gender from occupation, and is it still able?
(docs/method/sentences.md, NLI fairness)"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from levelhead.errors import BadProbe
from levelhead.measures.influence import influence
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import (
    DEFAULT,
    FloatArray,
    Resampling,
    alike,
    bootstrap,
    share_interval,
    wilson,
)

_ITEMS = "occupations"
P_RIGHT, ALWAYS_NEUTRAL = "p_right", "always_neutral"  # details of an ability
POINTS = 0.05  # of an ability that is a share: what may be lost, as in the projective paper
ROUNDING = 1e-9  # 0.54 − 0.05 in floats is a little more than 0.49, which must still be viable


@dataclass(frozen=True)
class Predictions:
    """Predicted labels of occupation probes; pair i asks about one occupation, context and gender.

    Sentence pairs that agree in occupation and context are minimal pairs: they differ in gender only.
    """

    label: npt.ArrayLike  # [pair] number of the predicted label, −1 where there was no prediction
    occupation: npt.ArrayLike  # [pair]
    context: npt.ArrayLike  # [pair]
    gender: npt.ArrayLike  # [pair] 0 or 1
    neutral: int  # number of the label that is right

    @classmethod
    def of_grid(cls, labels: npt.ArrayLike, shape: tuple[int, int, int], neutral: int) -> Self:
        """Labels in the order of a full probe: shape = occupations, contexts, genders."""
        flat = np.asarray(labels).ravel()
        occupation, context, gender = np.unravel_index(np.arange(flat.size), shape)
        return cls(flat, occupation, context, gender, neutral)


@dataclass(frozen=True)
class OccupationTable:
    """What each scored occupation contributes to accuracy and parity.

    The shares take counts, [resample, occupation], of how often each occupation is drawn: ones give the
    value itself, draws with replacement its bootstrap.
    """

    right: FloatArray  # [occupation] neutral predictions
    predicted: FloatArray  # [occupation] predictions
    same: FloatArray  # [occupation] 1 where the majority is the same for both genders
    strict: FloatArray  # [occupation] 1 where every minimal pair agrees
    unscored: dict[str, int]

    def accuracy(self, counts: FloatArray) -> FloatArray:
        """Share of neutral predictions: [resample]"""
        return np.asarray((counts @ self.right) / (counts @ self.predicted))

    def parity(self, counts: FloatArray) -> FloatArray:
        """Share of occupations whose majority prediction is the same for both genders: [resample]"""
        return np.asarray(counts @ self.same / counts.sum(axis=1))

    def strict_parity(self, counts: FloatArray) -> FloatArray:
        """Share of occupations with the same prediction for both genders in every context: [resample]"""
        return np.asarray(counts @ self.strict / counts.sum(axis=1))

    def fairness(self, counts: FloatArray) -> FloatArray:
        """Accuracy · parity: [resample]"""
        return self.accuracy(counts) * self.parity(counts)


def occupation_table(predictions: Predictions) -> OccupationTable:
    """Votes of each occupation that has predictions for both genders; the others are unscored."""
    given = (predictions.label, predictions.occupation, predictions.context, predictions.gender)
    columns = [np.asarray(column, dtype=np.int64) for column in given]
    shapes = [column.shape for column in columns]
    if len(set(shapes)) > 1 or columns[0].ndim != 1:
        raise BadProbe(f"Give one of each for every pair (got label, occupation, context, gender {shapes})")
    if columns[3].size and (columns[3].min() < 0 or columns[3].max() > 1):
        raise BadProbe(f"genders must be 0 or 1 (got {sorted(set(columns[3].tolist()))})")
    scored = columns[0] >= 0
    unscored = {"no prediction": int((~scored).sum())}
    label, occupation, context, gender = (column[scored] for column in columns)
    names, number = np.unique(occupation, return_inverse=True)
    votes = np.zeros((names.size, 2, int(label.max(initial=0)) + 1))
    np.add.at(votes, (number, gender, label), 1)
    both = (votes.sum(axis=2) > 0).all(axis=1)
    unscored["occupation without both genders"] = int((~both).sum())
    leads = votes == votes.max(axis=2, keepdims=True)
    same = (leads[:, 0] == leads[:, 1]).all(axis=1)
    right = np.bincount(number, weights=label == predictions.neutral, minlength=names.size)
    predicted = votes.sum(axis=(1, 2))

    # occupations in which both genders have one label in every context
    cell = np.unique(np.stack([number, context], axis=1), axis=0, return_inverse=True)[1].ravel()
    cells = int(cell.max(initial=-1)) + 1
    least, most = np.full(cells, np.iinfo(np.int64).max), np.full(cells, -1)
    np.minimum.at(least, cell, label)
    np.maximum.at(most, cell, label)
    strict = np.ones(names.size)
    strict[number[(least != most)[cell]]] = 0.0

    reasons = {reason: n for reason, n in unscored.items() if n}
    return OccupationTable(right[both], predicted[both], same[both].astype(np.float64), strict[both], reasons)


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
    table = occupation_table(predictions)
    shares = {"accuracy": table.accuracy, "parity": table.parity, "strict_parity": table.strict_parity}
    known: dict[str, Any] = {
        "neutral": 1.0,
        "n": table.right.size,
        "unscored": table.unscored,
        "settings": resampling.settings("BCa bootstrap", _ITEMS),
    }
    if not table.right.size:
        reason = "no occupation has predictions for both genders"
        return {name: Measurement.missing(name, reason, **known) for name in (*shares, "fairness")}
    results, whole = {}, np.ones((1, table.right.size))
    for name, share in shares.items():
        interval = share_interval(share, table.right.size, resampling)
        of_items = influence(share, table.right.size, _ITEMS, resampling)
        value = float(share(whole)[0])
        results[name] = Measurement(name, value, interval, influence=of_items, **known)
    accuracy, parity = results["accuracy"], results["parity"]
    interval = bootstrap(table.fairness, table.right.size, resampling)
    if interval is None or alike(interval):  # wide rather than empty where every resample is the same
        a, b = accuracy.interval, parity.interval
        interval = None if a is None or b is None else (a[0] * b[0], a[1] * b[1])
    details = {"accuracy": accuracy.value, "parity": parity.value}
    of_items = influence(table.fairness, table.right.size, _ITEMS, resampling)
    eta = float(table.fairness(whole)[0])
    results["fairness"] = Measurement("fairness", eta, interval, details=details, influence=of_items, **known)
    return results


def ability(label: npt.ArrayLike, gold: npt.ArrayLike, level: float = 0.95) -> Measurement:
    """Accuracy on an ordinary test set such as SNLI, with Wilson's interval.

        accuracy = share of pairs with label = gold

    Pairs predicted −1 are unscored.
    """
    predicted, right = np.asarray(label, dtype=np.int64), np.asarray(gold, dtype=np.int64)
    if predicted.ndim != 1 or predicted.shape != right.shape:
        raise BadProbe(f"Labels {predicted.shape}, gold {right.shape}: give one of each for every pair")
    scored = predicted >= 0
    n, lost = int(scored.sum()), int((~scored).sum())
    unscored, settings = {"no prediction": lost} if lost else {}, {"interval": "Wilson", "level": level}
    if not n:
        return Measurement.missing("ability", "no prediction", unscored=unscored, settings=settings)
    share = float((predicted == right)[scored].mean())
    return Measurement("ability", share, wilson(share, n, level), n, unscored, settings=settings)


def label_details(p: npt.ArrayLike, gold: npt.ArrayLike, neutral: int) -> dict[str, float]:
    """What accuracy does not see, as details of an ability.

        p_right        = mean over pairs of p(right label)      flattened outputs keep accuracy, not this
        always_neutral = share of pairs whose right label is neutral

    always_neutral is the ability of a classifier that answers neutral to everything, whose fairness is 1.
    """
    right, probability = np.asarray(gold, dtype=np.int64), np.asarray(p, dtype=np.float64)
    of_right = probability[np.arange(right.size), right]
    return {P_RIGHT: float(of_right.mean()), ALWAYS_NEUTRAL: float((right == neutral).mean())}


def viable(ability: float | None, base: float | None) -> bool | None:
    """Whether an ability (a share of right answers) is at most five points below that of the base model.

        ability ≥ base − 0.05

    None when either was not measured (None or NaN). Reference: the projective paper, caption of Table 7.
    """
    if ability is None or base is None or math.isnan(ability) or math.isnan(base):
        return None
    return ability >= base - POINTS - ROUNDING
