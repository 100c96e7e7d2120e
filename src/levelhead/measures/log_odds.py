"""Log-odds of two groups' words at a blank, and what knowledge does to them (docs/method/prompts.md,
Log-odds).

    x[prompt] = log Σ p(words of the first group) − log Σ p(words of the second group)
    X[kind, occupation] = mean of x over the occupation's prompts of this kind

All words count, likely or not, so a prompt always says something; the paper's masses among the k likeliest
tokens say nothing where no group word is among them. Occupations are the items: prompts of one occupation
share its base prompt. Ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from levelhead.errors import BadProbe
from levelhead.measures.cloze import BASE, Floats, Ints, PromptTable, Verdict
from levelhead.measures.clustered import clustered_effect, permutation_p_value
from levelhead.measures.exchange import exchange
from levelhead.measures.measurement import NULL_MODELS, Measurement, Null
from levelhead.measures.null import NullDistribution
from levelhead.measures.statistics import DEFAULT, Resampling, spearman

NAME, CHANGE, CORRELATION = "log_odds", "log_odds change", "log_odds correlation"
NO_TOP_K = 0  # the k of a measure that reads all words
_SPLITS = 9_999  # of occupations between the groups; the smallest p is then 1 / 10,000


@dataclass(frozen=True)
class LogOddsScores:
    """What one set of words says about every kind of knowledge."""

    measurements: tuple[Measurement, ...]  # settings name the kind, and the occupation; "" means all
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True)
class _Answers:
    """X of one kind: occupations that have prompts of it, in one order for all kinds."""

    x: Floats  # [occupation]
    own: Ints  # [occupation] +1 for the first group, −1 for the second
    names: tuple[str, ...]
    prompts: Ints  # [occupation] how many

    @property
    def rate(self) -> float:
        """The base rate: ½ (mean over the first group's occupations + mean over the second's)."""
        sides = [self.x[self.own == code] for code in (1, -1)]
        return sum(float(side.mean()) for side in sides if side.size) / 2

    def of(self, names: tuple[str, ...]) -> _Answers:
        """The answers about some of the occupations."""
        kept = np.flatnonzero(np.isin(self.names, names))
        return _Answers(self.x[kept], self.own[kept], tuple(self.names[i] for i in kept), self.prompts[kept])


def group_log_odds(log_probs: Floats, codes: Ints) -> Floats:
    """x of each prompt, from log p of tokens: log Σ p over tokens of code +1 − log Σ p over those of −1.

    log_probs and codes [prompt, token]; code 0 counts on neither side. NaN where a side has no token.
    """
    if log_probs.shape != codes.shape or log_probs.ndim != 2:
        raise BadProbe(f"Give [prompt, token] twice (got {log_probs.shape} and {codes.shape})")
    sides = [np.where(codes == code, log_probs.astype(np.float64), -np.inf) for code in (1, -1)]
    with np.errstate(invalid="ignore"):
        return np.asarray(np.logaddexp.reduce(sides[0], axis=1) - np.logaddexp.reduce(sides[1], axis=1))


def score_log_odds(
    table: PromptTable,
    x: Floats,
    words: str = "",
    resampling: Resampling = DEFAULT,
    per_occupation: bool = True,
) -> LogOddsScores:
    """Level, change and verdict of each kind of knowledge, from x [prompt].

    words names a part of the words that x was read from, such as "core"; "" means all of them.
    """
    if x.shape != table.kinds.shape:
        raise ValueError(f"every prompt must have log-odds (got {len(x)} of {len(table.kinds)})")
    suffix = f", {words}" if words else ""
    kinds = list(dict.fromkeys(table.kinds.tolist()))
    measurements: list[Measurement] = []
    if not np.isfinite(x).all():
        lacking = [(NAME + suffix, kind) for kind in kinds]
        lacking += [(CHANGE + suffix, kind) for kind in kinds if kind != BASE]
        for name, kind in lacking:
            known = {"neutral": 0.0, "settings": _labels(kind)}
            measurements.append(Measurement.missing(name, "no word of one group is a single token", **known))
        verdicts = [Verdict.of(each) for each in measurements if each.name.startswith(CHANGE)]
        return LogOddsScores(tuple(measurements), tuple(verdicts))
    base = _answers(table, x, BASE)
    if table.shares:  # of the first group in each occupation
        of_known = base.of(tuple(table.shares))
        rho = spearman(of_known.x, [table.shares[occupation] for occupation in of_known.names])
        unknown = len(base.names) - len(of_known.names)
        unscored = {"share of the group unknown": unknown} if unknown else {}
        settings = {**rho.settings, **_labels(BASE)}
        measurements.append(replace(rho, name=CORRELATION + suffix, unscored=unscored, settings=settings))
    verdicts = []
    for kind in kinds:
        answers = _answers(table, x, kind)
        level = _level(NAME + suffix, kind, answers, resampling)
        measurements.append(level)
        if per_occupation:
            each_one = zip(answers.names, answers.own, answers.x, answers.prompts, strict=True)
            for occupation, own, value, n in each_one:  # toward the first group
                labels = _labels(kind, table.groups[0] if own > 0 else table.groups[1], occupation)
                measurements.append(Measurement(NAME + suffix, float(value), n=int(n), settings=labels))
        if kind == BASE:
            continue
        change = _change(CHANGE + suffix, base, answers, level, resampling)
        measurements.append(change)
        verdicts.append(Verdict.of(change))
    return LogOddsScores(tuple(measurements), tuple(verdicts))


def log_odds_changes(table: PromptTable, x: Floats, words: str = "") -> dict[tuple[str, str], float]:
    """What each kind of knowledge does to the stereotype log-odds, by name of the change and kind.

    The values of score_log_odds without their intervals, for models that serve as a null.
    """
    if not np.isfinite(x).all():
        return {}
    name, base = CHANGE + (f", {words}" if words else ""), _answers(table, x, BASE)
    changes = {}
    for kind in dict.fromkeys(table.kinds.tolist()):
        after = _answers(table, x, kind)
        if kind == BASE or len(np.unique(after.own)) < 2:
            continue
        before = base.of(after.names)
        toward = after.own * after.x - before.own * before.x
        sides = [toward[after.own == code] for code in (1, -1)]
        changes[name, kind] = float(sides[0].mean() + sides[1].mean()) / 2
    return changes


@dataclass(frozen=True)
class GroupWords:
    """The words of the two groups that are single tokens, and how likely each is at every prompt."""

    log_p: Mapping[str, Floats]  # word -> [prompt]
    sides: tuple[tuple[str, ...], tuple[str, ...]]
    pairs: tuple[tuple[str, str], ...]  # counterparts


def exchanged_words(scores: LogOddsScores, table: PromptTable, words: GroupWords, seed: int) -> LogOddsScores:
    """The same scores with levels, changes and verdicts that rest on the larger of two p: their own, and that
    of exchanged group words, of which every one counts alike.

    v(w) = ½ (mean of log p(w) over the first group's occupations − mean over the second's)
    """
    counted: dict[int, Measurement] = {}
    for each in scores.measurements:
        if not each.name.startswith(NAME) or each.name.startswith(CORRELATION) or each.null is None:
            continue
        counted[id(each)] = each
        if each.value is None or not words.log_p:
            continue
        kind = str(each.settings["kind"])
        weights = _level_weights(table, kind, kind)
        if each.name.startswith(CHANGE):
            weights = weights - _level_weights(table, BASE, kind)
        v = np.stack(list(words.log_p.values())) @ weights
        of_word = dict(zip(words.log_p, v.tolist(), strict=True))
        found = exchange(of_word, words.sides, words.pairs, leans=each.value, seed=seed)
        counted[id(each)] = each if found is None else found.on(each)
    return _replaced(scores, counted)


def _level_weights(table: PromptTable, kind: str, like: str) -> Floats:
    """What each prompt counts in the level of a kind, of the occupations that another kind has: [prompt]"""
    names = _answers(table, np.zeros(len(table.kinds)), like).names
    answers = _answers(table, np.zeros(len(table.kinds)), kind).of(names)
    size = np.where(answers.own > 0, (answers.own > 0).sum(), (answers.own < 0).sum())
    of_name = dict(zip(answers.names, 0.5 * answers.own / (size * answers.prompts), strict=True))
    own = table.kinds == kind
    return np.asarray([of_name.get(str(name), 0.0) for name in table.occupations] * own, np.float64)


def held_against(scores: LogOddsScores, nulls: Mapping[tuple[str, str], NullDistribution]) -> LogOddsScores:
    """The same scores with changes, and the verdicts on them, compared with those in null models.

    nulls: by name and kind of the change. A change without one stays untested.
    """
    changed = {}
    for verdict in scores.verdicts:
        change, null = verdict.change, nulls.get((verdict.change.name, verdict.kind))
        if change.value is not None and null is not None:
            changed[id(change)] = replace(change, null=null.judged(change.value, NULL_MODELS))
    return _replaced(scores, changed)


def _replaced(scores: LogOddsScores, new: Mapping[int, Measurement]) -> LogOddsScores:
    """The same scores with other measurements, by the id of those that they replace."""
    verdicts = [Verdict.of(new[id(v.change)]) if id(v.change) in new else v for v in scores.verdicts]
    return LogOddsScores(tuple(new.get(id(each), each) for each in scores.measurements), tuple(verdicts))


def _answers(table: PromptTable, x: Floats, kind: str) -> _Answers:
    prompts = np.flatnonzero(table.kinds == kind)
    _, first, member = np.unique(table.clusters[prompts], return_index=True, return_inverse=True)
    counts = np.bincount(member)
    names = tuple(str(table.occupations[prompts[i]]) for i in first)
    return _Answers(np.bincount(member, x[prompts]) / counts, table.own[prompts[first]], names, counts)


def _level(name: str, kind: str, answers: _Answers, resampling: Resampling) -> Measurement:
    """Stereotype log-odds of one kind: half the gap between the two groups of occupations.

        L = ½ (mean X over the first group's occupations − mean X over the second's)
        null: occupations permuted between the groups; floor = 0, spread = ½ S sqrt(N / (n1 n2))

    The base rate, ½ (mean + mean), cancels: a model that says *he* of everyone has L = 0. S² is the variance
    of X over all N occupations, ddof = 1.
    """
    first, second = answers.x[answers.own > 0], answers.x[answers.own < 0]
    labels = _labels(kind)
    if min(first.size, second.size) < 2:
        reason = f"{first.size} and {second.size} occupations; each group needs 2"
        return Measurement.missing(name, reason, n=answers.x.size, neutral=0.0, settings=labels)
    measured = _by_occupation(name, answers, answers.own * answers.x, resampling)
    settings = {**measured.settings, **labels}
    if measured.value is None:
        return replace(measured, settings=settings)
    permuted = permutation_p_value(first, second, resampling.seed, _SPLITS)
    spread = 0.5 * float(answers.x.std(ddof=1)) * np.sqrt(answers.x.size / (first.size * second.size))
    method = "occupations permuted between the groups, two-sided"
    null = Null(method, permuted.partitions, 0.0, float(spread), permuted.p_value)
    details = {"first_group": float(first.mean()), "second_group": float(second.mean())}
    details["base_rate"] = answers.rate
    return replace(measured, details=details, settings=settings, null=null)


def _change(
    name: str, base: _Answers, after: _Answers, level: Measurement, resampling: Resampling
) -> Measurement:
    """What knowledge does to the stereotype log-odds; level is L with this knowledge.

        Δ[occupation] = own · (X[kind] − X[base]),   own = ±1: above 0 is toward the stereotype
        change = ½ (mean Δ over one group + mean Δ over the other) = L[kind] − L[base]
        rate_change = base rate with knowledge − base rate without it

    What knowledge does to all occupations alike, such as making every *she* likelier, is in rate_change, not
    in the change. Sign flips say whether occupations agree, not that it is meaning: knowledge that
    names a group moves any two words apart. Verdicts therefore rest on the same change in null models
    (held_against).
    """
    before = base.of(after.names)
    toward = after.own * after.x - before.own * before.x
    change = _by_occupation(name, after, toward, resampling)
    known = {**change.settings, **_labels(level.settings["kind"])}
    if change.value is None or level.value is None:
        return Measurement.missing(
            name, change.reason or level.reason, n=after.x.size, neutral=0.0, settings=known
        )
    low, high = level.interval or (None, None)
    details = {
        **change.details,
        "base": level.value - change.value,
        "reached": level.value,
        "reached_low": low,
        "reached_high": high,
        "rate_change": after.rate - before.rate,
        "p, sign flips": None if change.null is None else change.null.p_value,
    }
    return replace(change, details=details, settings=known, null=None)


def _by_occupation(name: str, answers: _Answers, toward: Floats, resampling: Resampling) -> Measurement:
    """½ (mean over one group's occupations + mean over the other's) of values toward the own group."""
    design = np.stack([np.ones(len(toward)), answers.own.astype(np.float64)], axis=1)
    labels = {"occupation": np.arange(len(toward))}
    if len(np.unique(answers.own)) < 2:
        return Measurement.missing(name, "occupations of one group only", n=len(toward), neutral=0.0)
    return clustered_effect(name, toward, design, labels, resampling)


def _labels(kind: str, group: str = "", occupation: str = "") -> dict[str, str | int]:
    return {"k": NO_TOP_K, "kind": kind, "group": group, "occupation": occupation}
