"""How a model fills in a group, and what knowledge before the question does to that (SPEC C4, C5).

Top k means k tokens; forms of one word among them are merged afterwards. Own-group words are
pro-stereotypical.

    margin = mass of own-group words − mass of other-group words, among the top k
    change = margin with knowledge − margin of the same occupation's base prompt
    relative probability (eq. 1) = p(w | knowledge) / p(w | base), for each word w in both top-k lists

Intervals are 95 % percentile bootstraps over occupations, drawn within each group: prompts of one occupation
share their base prompt and are no independent evidence. A cell of one occupation resamples its prompts; a
single prompt has no interval. A prompt without a group word in its top k has mass and margin 0, which is
true. A cell in which no prompt has one says nothing about groups: masses, margin and change are then missing,
never 0; the share of such prompts stays a number. Reference: Zhang 2023, "Counteracts", which prints masses
only: margins' intervals, changes and verdicts are ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from levelhead.errors import BadProbe
from levelhead.measures.cloze_topk import Floats, Ints, TopK, margins, masses, relative_probabilities
from levelhead.measures.measurement import Measurement

BASE = "base"
Interval = tuple[float, float]
VerdictWord = Literal["strengthens", "weakens", "overturns", "no change", "not measured"]


@dataclass(frozen=True)
class Asked:
    """What each prompt was: row i belongs to row i of TopK."""

    kinds: NDArray[np.str_]  # [prompt]
    occupations: NDArray[np.str_]  # [prompt]
    own: Ints  # [prompt] +1 where the occupation belongs to the first group, else -1
    groups: tuple[str, str]

    @cached_property
    def base(self) -> Ints:
        """[prompt] the row of the base prompt of the same occupation."""
        rows = {self.occupations[row]: row for row in np.flatnonzero(self.kinds == BASE)}
        lost = sorted({str(name) for name in self.occupations if name not in rows})
        if lost:
            raise BadProbe(
                f"No base prompt for {lost[0]!r}. Changes are against base: ask base for every occupation."
            )
        return np.array([rows[name] for name in self.occupations], dtype=np.int64)

    @cached_property
    def clusters(self) -> Ints:
        """[prompt] a number for each occupation."""
        return np.unique(self.occupations, return_inverse=True)[1].astype(np.int64)


@dataclass(frozen=True)
class Bootstrap:
    """How intervals are drawn."""

    seed: int = 0
    draws: int = 2000
    level: float = 0.95


@dataclass(frozen=True)
class Verdict:
    """What a kind of knowledge did to the stereotype, in a word, and the change it rests on."""

    kind: str
    group: str  # "" is all occupations
    k: int
    word: VerdictWord
    change: Measurement

    def to_json(self) -> dict[str, Any]:
        """Plain data for a JSON line."""
        named = {"kind": self.kind, "group": self.group, "k": self.k, "verdict": self.word}
        return {**named, "change": self.change.to_json()}


@dataclass(frozen=True)
class ClozeScores:
    """Everything that one model's answers say."""

    measurements: tuple[Measurement, ...]  # settings name k, kind, group and occupation; "" means all
    verdicts: tuple[Verdict, ...]  # per k and kind, for all occupations and for each group
    robustness: tuple[Measurement, ...]  # per k, to unrelated knowledge


@dataclass(frozen=True)
class _Quantity:
    """A mean over prompts, as sums and counts so that occupations can be resampled."""

    sums: Floats  # [prompt]
    counts: Floats  # [prompt]
    evidence: NDArray[np.bool_]  # [prompt]; a cell without any is missing
    lack: str  # the reason then
    neutral: float | None = None
    logarithmic: bool = False  # sums of logs; the mean is geometric
    unscored: str = ""  # why a prompt may have count 0


def verdict_word(
    base: float, margin: float, interval: Interval | None, margin_interval: Interval | None = None
) -> VerdictWord:
    """The change in a word. It speaks of the stereotype (pro − anti), not of the size of a preference.

    no change: the change's interval includes 0. overturns: it does not, and the margin has clearly changed
    its sign: its own interval, where one is given, lies beyond 0. strengthens, weakens: it rises or falls on
    its side.
    """
    if interval is None:
        return "not measured"
    if interval[0] <= 0 <= interval[1]:
        return "no change"
    if base * margin < 0 and not (margin_interval and margin_interval[0] <= 0 <= margin_interval[1]):
        return "overturns"
    return "strengthens" if margin > base else "weakens"


def robustness(
    asked: Asked, topk: TopK, k: int, kind: str = "unrelated", bootstrap: Bootstrap | None = None
) -> Measurement:
    """Share of prompts whose preferred group survives knowledge that has nothing to do with it. 1: all of
    them.

    Prompts whose base shows no preference have nothing to keep: unscored. A preference that vanishes is not
    kept.
    """
    rows = np.flatnonzero(asked.kinds == kind)
    margin = margins(topk, k, asked.own)
    change = margin - margin[asked.base]
    held = margin[asked.base] != 0
    kept = held & (np.sign(margin) == np.sign(margin[asked.base]))
    lack = f"no {kind!r} prompt has a base prompt with a preference in its top {k}"
    quantity = _Quantity(
        kept.astype(float), held.astype(float), held, lack, 1.0, False, "base shows no preference"
    )
    measured = _measure("robustness", quantity, rows, asked, bootstrap or Bootstrap(), {"k": k, "kind": kind})
    if measured.value is None:
        return measured
    return replace(measured, details={"mean_absolute_change": float(np.abs(change[rows][held[rows]]).mean())})


def score_cloze(
    asked: Asked,
    topk: TopK,
    ks: Sequence[int] = (3, 5, 10),
    bootstrap: Bootstrap | None = None,
    per_occupation: bool = True,
) -> ClozeScores:
    """All of C5: per k and kind, for all occupations, for each group and, when asked, for each occupation."""
    how = bootstrap or Bootstrap()
    if len(asked.kinds) != len(topk.words):
        raise ValueError(f"{len(asked.kinds)} prompts were asked, {len(topk.words)} were answered")
    measurements: list[Measurement] = []
    verdicts: list[Verdict] = []
    for k in ks:
        quantities = _quantities(asked, topk, k)
        for labels, rows in _cells(asked, per_occupation):
            settings = {"k": k, **labels}
            names = [name for name in quantities if labels["kind"] != BASE or name not in _AGAINST_BASE]
            cell = {name: _measure(name, quantities[name], rows, asked, how, settings) for name in names}
            if labels["kind"] != BASE:
                cell["margin change"] = _with_margins(
                    cell["margin change"], quantities["margin"], rows, asked, how
                )
            if labels["kind"] != BASE and not labels["occupation"]:
                verdicts.append(_verdict(cell["margin change"]))
            measurements += cell.values()
    unrelated = tuple(
        robustness(asked, topk, k, bootstrap=how) for k in ks if (asked.kinds == "unrelated").any()
    )
    return ClozeScores(tuple(measurements), tuple(verdicts), unrelated)


_RELATIVE = {
    "relative probability": None,
    "relative probability, own group": 1,
    "relative probability, other group": -1,
}
_AGAINST_BASE = frozenset(["margin change", *_RELATIVE])


def _quantities(asked: Asked, topk: TopK, k: int) -> dict[str, _Quantity]:
    first, second = masses(topk, k)
    margin = asked.own * (first - second)
    spoken = (topk.first(k).groups != 0).any(axis=1)
    ones, always = np.ones(len(margin)), np.ones(len(margin), dtype=bool)
    total = topk.first(k).probs.sum(axis=1)
    share = (first + second) / np.where(total > 0, total, 1.0)
    lack = f"no prompt has a word of either group in its top {k}"
    found = {
        f"{asked.groups[0]} mass": _Quantity(first, ones, spoken, lack),
        f"{asked.groups[1]} mass": _Quantity(second, ones, spoken, lack),
        "margin": _Quantity(margin, ones, spoken, lack, 0.0),
        "share without group words": _Quantity((~spoken).astype(float), ones, always, ""),
        "group words' share of the top k": _Quantity(share, ones, always, ""),
        "margin change": _Quantity(margin - margin[asked.base], ones, spoken | spoken[asked.base], lack, 0.0),
    }
    prompt, group, ratio = relative_probabilities(topk, k, asked.base)
    for name, side in _RELATIVE.items():
        kept = np.full(len(prompt), True) if side is None else group * asked.own[prompt] == side
        sums = np.bincount(prompt[kept], np.log(ratio[kept]), len(margin)).astype(np.float64)
        counts = np.bincount(prompt[kept], minlength=len(margin)).astype(float)
        reason = f"no such word is in the top {k} both with and without knowledge"
        found[name] = _Quantity(sums, counts, counts > 0, reason, 1.0, True, "no such word in both lists")
    return found


def _cells(asked: Asked, per_occupation: bool) -> Iterator[tuple[dict[str, str], Ints]]:
    """Labels and rows: each kind over all, over each group, over each occupation, in the order of asking."""
    group = np.where(asked.own > 0, asked.groups[0], asked.groups[1])
    for kind in dict.fromkeys(asked.kinds.tolist()):
        of_kind = asked.kinds == kind
        yield {"kind": kind, "group": "", "occupation": ""}, np.flatnonzero(of_kind)
        for name in asked.groups:
            if (rows := np.flatnonzero(of_kind & (group == name))).size:
                yield {"kind": kind, "group": name, "occupation": ""}, rows
        for name in dict.fromkeys(asked.occupations[of_kind].tolist()) if per_occupation else ():
            rows = np.flatnonzero(of_kind & (asked.occupations == name))
            yield {"kind": kind, "group": str(group[rows[0]]), "occupation": name}, rows


def _measure(
    name: str, quantity: _Quantity, rows: Ints, asked: Asked, how: Bootstrap, cell: Mapping[str, Any]
) -> Measurement:
    unit = "occupations" if len(np.unique(asked.clusters[rows])) > 1 else "prompts"
    settings = {**cell, "seed": how.seed, "draws": how.draws, "level": how.level, "resampled": unit}
    sums, counts = quantity.sums[rows], quantity.counts[rows]
    skipped = int((counts == 0).sum())
    unscored = {quantity.unscored: skipped} if skipped else {}
    if not quantity.evidence[rows].any():
        return Measurement.missing(
            name, quantity.lack, unscored=unscored, neutral=quantity.neutral, settings=settings
        )
    clusters = asked.clusters[rows] if unit == "occupations" else np.arange(len(rows))
    bounds = _interval(sums, counts, clusters, asked.own[rows], how)
    value = float(sums.sum() / counts.sum())
    if quantity.logarithmic:
        value = float(np.exp(value))
        bounds = None if bounds is None else (float(np.exp(bounds[0])), float(np.exp(bounds[1])))
    return Measurement(name, value, bounds, int(counts.sum()), unscored, quantity.neutral, {}, settings)


def _interval(sums: Floats, counts: Floats, clusters: Ints, strata: Ints, how: Bootstrap) -> Interval | None:
    names, first, member = np.unique(clusters, return_index=True, return_inverse=True)
    if len(names) < 2 or np.count_nonzero(np.bincount(member, counts)) < 2:
        return None
    order = np.argsort(strata[first], kind="stable")
    sizes = np.unique(strata[first], return_counts=True)[1]
    if sizes.min() < 2:  # a stratum of one would never vary and make the interval too sure
        sizes = np.array([len(names)])
    weights = _weights(tuple(sizes.tolist()), how.seed, how.draws)
    total = weights @ np.bincount(member, counts)[order]
    means = (weights @ np.bincount(member, sums)[order])[total > 0] / total[total > 0]
    tail = (1 - how.level) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    return float(low), float(high)


@lru_cache(maxsize=64)
def _weights(sizes: tuple[int, ...], seed: int, draws: int) -> Floats:
    """[draw, cluster] how often each cluster is drawn, each stratum by itself."""
    generator = np.random.default_rng(seed)
    return np.hstack([generator.multinomial(size, np.full(size, 1 / size), draws) for size in sizes]).astype(
        float
    )


def _with_margins(
    change: Measurement, margin: _Quantity, rows: Ints, asked: Asked, how: Bootstrap
) -> Measurement:
    if change.value is None:
        return change
    own = _interval(margin.sums[rows], np.ones(len(rows)), asked.clusters[rows], asked.own[rows], how)
    low, high = own or (None, None)
    base, reached = float(margin.sums[asked.base[rows]].mean()), float(margin.sums[rows].mean())
    return replace(change, details={"base": base, "margin": reached, "margin_low": low, "margin_high": high})


def _verdict(change: Measurement) -> Verdict:
    word: VerdictWord = "not measured"
    if change.value is not None:
        known = change.details
        low, high = known["margin_low"], known["margin_high"]
        own = None if low is None or high is None else (low, high)
        word = verdict_word(float(known["base"] or 0), float(known["margin"] or 0), change.interval, own)
    return Verdict(change.settings["kind"], change.settings["group"], change.settings["k"], word, change)
