"""Does a classifier draw conclusions about gender from occupation, and is it still able? (docs/method.md, NLI
fairness)"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from levelhead.errors import BadProbe
from levelhead.measures.influence import influence
from levelhead.measures.measurement import Measurement
from levelhead.measures.occupations import Predictions, occupation_table
from levelhead.measures.statistics import (
    DEFAULT,
    FloatArray,
    Interval,
    Resampling,
    alike,
    bootstrap,
    share_interval,
    wilson,
)

_ITEMS = "occupations"
P_RIGHT, ALWAYS_NEUTRAL = "p_right", "always_neutral"  # details of an ability


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
    results = {}
    for name, share in shares.items():
        interval = share_interval(share, table.right.size, resampling)
        of_items = influence(share, table.right.size, _ITEMS, resampling)
        value = _whole(share, table.right.size)
        results[name] = Measurement(name, value, interval, influence=of_items, **known)
    accuracy, parity = results["accuracy"], results["parity"]
    eta = _whole(table.fairness, table.right.size)
    interval = bootstrap(table.fairness, table.right.size, resampling)
    if interval is None or alike(interval):
        interval = _product(accuracy.interval, parity.interval)
    details = {"accuracy": accuracy.value, "parity": parity.value}
    of_items = influence(table.fairness, table.right.size, _ITEMS, resampling)
    results["fairness"] = Measurement("fairness", eta, interval, details=details, influence=of_items, **known)
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


def _whole(statistic: Callable[[FloatArray], FloatArray], n: int) -> float:
    """The statistic of the data as they are."""
    return float(statistic(np.ones((1, n)))[0])


def _product(first: Interval | None, second: Interval | None) -> Interval | None:
    """Ends of a product of two shares: wide rather than empty where every resample is the same."""
    return None if first is None or second is None else (first[0] * second[0], first[1] * second[1])
