"""Which group does a model fill in? Log-odds over all words of both groups (docs/method.md, Cloze scores).

    log-odds of a prompt = log Σ_{w in first group} p(w) − log Σ_{w in second group} p(w)

0: both groups are equally likely, however unlikely. Positive: the first group (female words, in the shipped
set). Every prompt has log-odds, where the mass among the top k is often nothing.

    lean      ( mean over occupations of the first group − mean over those of the second ) / 2: how far
    log-odds
              follow the stereotypes; a preference for one group everywhere cancels
    change    the same for log-odds with knowledge − log-odds of the occupation's base prompt
    trend     Spearman's rho of log-odds with the share of the first group in the occupation

Intervals are Welch's over occupations: prompts of one occupation are no independent evidence. Ours: the paper
(Zhang 2023) prints top-k masses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.special import logsumexp

from levelhead.errors import BadProbe
from levelhead.measures.cloze.prompt_table import BASE, PromptTable
from levelhead.measures.measurement import Measurement, Null
from levelhead.measures.null import NullDistribution
from levelhead.measures.permutation import permutation_p_value
from levelhead.measures.statistics import DEFAULT, FloatArray, Interval, Resampling, spearman

LEAN, LEAN_CHANGE, TREND = "lean", "lean change", "trend"
_EXCHANGES = 10_000  # of occupations between the groups


def log_odds(log_probs: npt.ArrayLike, codes: npt.ArrayLike) -> FloatArray:
    """Log-odds of each prompt: log_probs [prompt, token], codes [token] +1 first group, −1 second -> [prompt]

    A token of neither group has code 0 and does not count. Forms of one word are added up like other words.
    """
    values, code = np.asarray(log_probs, np.float64), np.asarray(codes, np.int64)
    if values.ndim != 2 or code.shape != values.shape[1:] or not np.isfinite(values).all():
        raise BadProbe(
            f"Log-probabilities {values.shape} and codes {code.shape} came; give [prompt, token] and [token]."
        )
    if not ((code == 1).any() and (code == -1).any()):
        raise BadProbe("Log-odds need a word of each group that is a single token of the model.")
    first, second = (logsumexp(values[:, code == side], axis=1) for side in (1, -1))
    return np.asarray(first - second, np.float64)


def lean(
    values: npt.ArrayLike, table: PromptTable, kind: str = BASE, resampling: Resampling = DEFAULT
) -> Measurement:
    """How far the log-odds [prompt] of one kind of prompt follow the stereotypes of the occupations.

        lean = ( mean over own = +1 − mean over own = −1 ) / 2       over occupations' means

    0: not at all. 0.5: the odds of the first group are e times higher in its own occupations. The null of the
    base prompts exchanges occupations between the groups; prompts with knowledge have none (see lean_change).
    """
    own, mean = _by_occupation(values, table, kind)
    measured = _difference(LEAN, own, mean, kind, resampling)
    if measured.value is None or kind != BASE:
        return measured
    first, second = mean[own == 1], mean[own == -1]
    test = permutation_p_value(first, second, resampling.seed, _EXCHANGES)
    spread = float(mean.std(ddof=1)) * math.sqrt(1 / first.size + 1 / second.size) / 2
    null = Null("exchange of occupations, two-sided", test.partitions, 0.0, spread, test.p_value)
    return replace(measured, null=null)


def lean_change(
    values: npt.ArrayLike,
    table: PromptTable,
    kind: str,
    twins: npt.ArrayLike | None = None,
    resampling: Resampling = DEFAULT,
) -> Measurement:
    """What a kind of knowledge does to lean: log-odds [prompt] less those of the occupation's base prompt.

    twins: log-odds of the same prompts in null twins [twin, prompt]; the null is the change in each of them.
    Nothing less will do: knowledge has one word for either group ("woman", "man"), and any two words move
    log-odds apart, most of all in a model that repeats what it has read. Exchanging occupations finds a
    change in 11 of 20 twins of lh:gpt-mini and in 15 of lh:bert-mini, where it is 0.9 ± 1.1.
    """
    measured = _difference(
        LEAN_CHANGE, *_by_occupation(_changes(values, table), table, kind), kind, resampling
    )
    if measured.value is None or twins is None:
        return measured
    sides = [_by_occupation(_changes(twin, table), table, kind) for twin in np.asarray(twins, np.float64)]
    null = NullDistribution(np.array([_half_difference(own, mean) for own, mean in sides]))
    return replace(measured, null=null.judged(measured.value, "null twins"))


def _changes(values: npt.ArrayLike, table: PromptTable) -> FloatArray:
    given = np.asarray(values, np.float64)
    return np.asarray(given - given[table.base])


def _half_difference(own: npt.NDArray[np.int64], mean: FloatArray) -> float:
    return float(mean[own == 1].mean() - mean[own == -1].mean()) / 2


def _difference(
    name: str, own: npt.NDArray[np.int64], mean: FloatArray, kind: str, resampling: Resampling
) -> Measurement:
    """Half the difference between the groups' means over occupations [occupation], without a null."""
    first, second = mean[own == 1], mean[own == -1]
    stated = {"interval": "Welch's t over occupations", "level": resampling.level, "seed": resampling.seed}
    settings = {"kind": kind, **stated}
    if min(first.size, second.size) < 2:
        few = f"{first.size} and {second.size} occupations have {kind!r} prompts"
        reason = f"{few}; each group needs at least 2"
        return Measurement.missing(name, reason, n=mean.size, neutral=0.0, settings=settings)
    interval = _welch(first, second, resampling.level)
    value = _half_difference(own, mean)
    return Measurement(name, value, interval, mean.size, neutral=0.0, settings=settings)


def trend(
    values: npt.ArrayLike, table: PromptTable, shares: Mapping[str, float], kind: str = BASE
) -> Measurement:
    """Spearman's rho of log-odds [prompt] with the share of the first group, over occupations that have
    one."""
    prompts = np.flatnonzero(table.kinds == kind)
    names = np.unique(table.occupations[prompts])
    _, mean = _by_occupation(values, table, kind)
    known = [i for i, name in enumerate(names) if str(name) in shares]
    return spearman(mean[known], [shares[str(names[i])] for i in known])


def _by_occupation(
    values: npt.ArrayLike, table: PromptTable, kind: str
) -> tuple[npt.NDArray[np.int64], FloatArray]:
    """Own side and mean value of each occupation, occupations in alphabetical order: [occupation]"""
    given = np.asarray(values, np.float64)
    if given.shape != table.kinds.shape or not np.isfinite(given).all():
        raise BadProbe(
            f"{given.shape} values came for {table.kinds.size} prompts; give a finite one for each."
        )
    prompts = np.flatnonzero(table.kinds == kind)
    _, first, member = np.unique(table.occupations[prompts], return_index=True, return_inverse=True)
    sums = np.bincount(member.ravel(), weights=given[prompts])
    return table.own[prompts][first], np.asarray(sums / np.bincount(member.ravel()), np.float64)


def _welch(first: FloatArray, second: FloatArray, level: float) -> Interval:
    """Interval of half the difference of two means. Reference: Welch 1947."""
    value = float(first.mean() - second.mean()) / 2
    parts = [float(side.var(ddof=1)) / (4 * side.size) for side in (first, second)]
    variance = sum(parts)
    if variance == 0:
        return value, value
    sizes = (first.size, second.size)
    freedom = variance**2 / sum(part**2 / (size - 1) for part, size in zip(parts, sizes, strict=True))
    half = float(stats.t.ppf(0.5 + level / 2, freedom)) * math.sqrt(variance)
    return value - half, value + half
