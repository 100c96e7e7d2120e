"""Masses, margins, changes and relative probabilities of cloze prompts (docs/method/prompts.md, Cloze
scores).

    margin = mass of own-group words − mass of other-group words, among the top k
    change = margin with knowledge − margin of the same occupation's base prompt
    relative probability (eq. 1) = p(w | knowledge) / p(w | base), for each word w in both top-k lists

Top k means k tokens; forms of one word among them are merged afterwards. A prompt without a group word in its
top k has mass and margin 0, which is true. A cell in which no prompt has one says nothing about groups:
masses, margin and change are then missing, never 0.

Intervals are percentile bootstraps over occupations, drawn within each group: prompts of one occupation share
their base prompt. A cell of one occupation resamples its prompts; a single prompt has no interval.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from levelhead.errors import BadOption, BadProbe
from levelhead.measures.measurement import Measurement
from levelhead.measures.null import says_too_little
from levelhead.measures.statistics import DEFAULT, ROUNDING, Interval, Resampling

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BASE, UNRELATED, ROBUSTNESS = "base", "unrelated", "robustness"
METHOD = "percentile bootstrap"
_FEW = 6  # clusters, of which most draws came before
_RELATIVE = {
    "relative probability": None,
    "relative probability, own group": 1,
    "relative probability, other group": -1,
}
_AGAINST_BASE = frozenset(["margin change", *_RELATIVE])
ALPHA = 0.05  # a change's p must be below it
PLANNED = 9  # null models of runs that did not store how many were planned
VerdictWord = Literal[
    "strengthens",
    "weakens",
    "overturns",
    "no change",
    "not more than in null models",
    "too few null models",
    "untested",
    "not measured",
]


@dataclass(frozen=True)
class TopK:
    """The K likeliest tokens of each prompt, likeliest first."""

    words: NDArray[np.str_]  # [prompt, K] keys; tokens with one key are forms of one word
    groups: NDArray[np.integer[Any]]  # [prompt, K] +1 first group, -1 second group, 0 neither
    probs: NDArray[np.floating[Any]]  # [prompt, K]

    def __post_init__(self) -> None:
        if not self.words.shape == self.groups.shape == self.probs.shape or self.words.ndim != 2:
            shapes = f"{self.words.shape}, {self.groups.shape}, {self.probs.shape}"
            raise ValueError(f"words, groups and probs must have one shape [prompt, K], not {shapes}")
        if not np.isfinite(self.probs).all():
            raise BadProbe("The model's probabilities are not finite. Load it in float32 and ask again.")
        if (np.diff(self.probs, axis=1) > 0).any():
            raise ValueError("probs must fall along each row: the first k columns are read as the top k")

    def first(self, k: int) -> TopK:
        """The top k of the top K."""
        available = self.words.shape[1]
        if not 1 <= k <= available:
            raise BadOption(f"k must be 1 to {available}, the tokens that the model answered with (got {k})")
        return TopK(self.words[:, :k], self.groups[:, :k], self.probs[:, :k].astype(np.float64))


def masses(topk: TopK, k: int) -> tuple[Floats, Floats]:
    """Probability mass of first-group and of second-group words among the top k, for each prompt."""
    top = topk.first(k)
    return np.sum(top.probs * (top.groups > 0), axis=1), np.sum(top.probs * (top.groups < 0), axis=1)


def merge(topk: TopK, k: int) -> tuple[Ints, Floats]:
    """The top k tokens as words: a number for each word and the summed probability of its forms.

    Both are [prompt, k]; a later form of a word already seen leaves a hole: word -1, probability 0.
    """
    top = topk.first(k)
    codes = np.unique(top.words, return_inverse=True)[1].reshape(top.words.shape).astype(np.int64)
    probs = np.array(top.probs, dtype=np.float64)
    for later in range(1, k):
        for earlier in range(later):
            same = codes[:, earlier] == codes[:, later]
            probs[same, earlier] += probs[same, later]
            probs[same, later], codes[same, later] = 0.0, -1
    return codes, probs


def relative_probabilities(topk: TopK, k: int, base: Ints) -> tuple[Ints, Ints, Floats]:
    """Each word in both lists: its prompt, its group (+1, -1, 0), and p(w | knowledge) / p(w | base).

    Reference: equation 1 of Zhang 2023 (docs/method/prompts.md, Cloze scores).
    """
    codes, probs = merge(topk, k)
    before = probs[base]
    shared = (
        (codes[:, :, None] == codes[base][:, None, :]) & (codes[:, :, None] >= 0) & (before[:, None, :] > 0)
    )
    prompt, column, base_column = np.nonzero(shared & (probs[:, :, None] > 0))
    ratio = probs[prompt, column] / before[prompt, base_column]
    return prompt.astype(np.int64), topk.groups[prompt, column].astype(np.int64), ratio


@dataclass(frozen=True)
class PromptTable:
    """What each prompt was: prompt i belongs to line i of TopK."""

    kinds: NDArray[np.str_]  # [prompt] kind of knowledge, "base" for none
    occupations: NDArray[np.str_]  # [prompt]
    own: Ints  # [prompt] +1 where the occupation belongs to the first group, else -1
    groups: tuple[str, str]
    shares: Mapping[str, float] = field(default_factory=dict)  # occupation -> percent of the first group

    @cached_property
    def base(self) -> Ints:
        """[prompt] the number of the base prompt of the same occupation."""
        bases = {self.occupations[prompt]: prompt for prompt in np.flatnonzero(self.kinds == BASE)}
        missing = sorted({str(name) for name in self.occupations if name not in bases})
        if missing:
            raise BadProbe(
                f"No base prompt for {missing[0]!r}. Changes are against base: ask base for every occupation."
            )
        return np.array([bases[name] for name in self.occupations], dtype=np.int64)

    @cached_property
    def clusters(self) -> Ints:
        """[prompt] a number for each occupation."""
        return np.unique(self.occupations, return_inverse=True)[1].astype(np.int64)


@dataclass(frozen=True)
class Quantity:
    """A mean over prompts, as sums and counts so that occupations can be resampled."""

    sums: Floats  # [prompt]
    counts: Floats  # [prompt]
    evidence: NDArray[np.bool_]  # [prompt]; a cell without any is missing
    lack: str  # the reason then
    neutral: float | None = None
    logarithmic: bool = False  # sums of logs; the mean is geometric
    unscored: str = ""  # why a prompt may have count 0


@dataclass(frozen=True)
class PromptCell:
    """Some prompts of a table, and how their occupations are drawn again; of one occupation, its prompts.

    Each stratum is drawn to its size. Strata are joined where one of them is a single cluster, which would
    never vary and make an interval too sure. Few clusters have few draws that differ: these stand there once,
    with how often they came.
    """

    prompts: Ints
    unit: str  # what is drawn
    member: Ints  # [prompt of the cell] the cluster of each
    draws: tuple[Floats, Ints] | None  # [draw, cluster] how often each is drawn, [draw] how often that came
    level: float

    @classmethod
    def of(cls, prompts: Ints, table: PromptTable, resampling: Resampling) -> PromptCell:
        """The cell of these prompts of a table."""
        clusters, unit = table.clusters[prompts], "occupations"
        if (clusters == clusters[:1]).all():
            clusters, unit = np.arange(len(prompts)), "prompts"
        strata = table.own[prompts]
        names, first, member = np.unique(clusters, return_index=True, return_inverse=True)
        if len(names) < 2:
            return cls(prompts, unit, member, None, resampling.level)
        order = np.argsort(strata[first], kind="stable")
        sizes = np.unique(strata[first], return_counts=True)[1]
        if sizes.min() < 2:
            sizes = np.array([len(names)])
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        draws = _draws(tuple(sizes.tolist()), resampling.seed, resampling.resamples)
        return cls(prompts, unit, place[member], draws, resampling.level)

    def intervals(self, sums: Floats, counts: Floats) -> list[Interval | None]:
        """Of each Σ sums / Σ counts, both [quantity, prompt of the cell]; None of fewer than two clusters."""
        bounds: list[Interval | None] = [None] * len(sums)
        if self.draws is None:
            return bounds
        weights, times = self.draws
        clusters = weights.shape[1]
        totals, own = (
            np.stack([np.bincount(self.member, each, clusters) for each in values], axis=1)
            for values in (counts, sums)
        )  # [cluster, quantity]
        total, drawn = weights @ totals, weights @ own  # [draw, quantity]
        shares = ((1 - self.level) / 2, (1 + self.level) / 2)
        enough = np.flatnonzero(np.count_nonzero(totals, axis=0) > 1).tolist()
        if (times == 1).all() and (total[:, enough] > 0).all():
            quantiles = np.quantile(drawn[:, enough] / total[:, enough], shares, axis=0).T.tolist()
        else:
            kept = [total[:, i] > 0 for i in enough]
            quantiles = [
                repeated_quantiles(drawn[some, i] / total[some, i], times[some], shares)
                for i, some in zip(enough, kept, strict=True)
            ]
        for i, (low, high) in zip(enough, quantiles, strict=True):
            bounds[i] = low, high
        return bounds


@lru_cache(maxsize=64)
def _draws(sizes: tuple[int, ...], seed: int, resamples: int) -> tuple[Floats, Ints]:
    """How often each cluster is drawn, each stratum by itself, and how often that came."""
    rng = np.random.default_rng(seed)
    drawn = np.hstack([rng.multinomial(size, np.full(size, 1 / size), resamples) for size in sizes])
    if sum(sizes) > _FEW:
        return drawn.astype(float), np.ones(resamples, np.int64)
    different, times = np.unique(drawn, axis=0, return_counts=True)
    return different.astype(float), times


def repeated_quantiles(values: Floats, times: Ints, shares: Sequence[float]) -> list[float]:
    """Quantiles of values of which each came so many times, as numpy.quantile has them of all of them."""
    if (times == 1).all():
        return [float(each) for each in np.quantile(values, shares)]
    order = np.argsort(values)
    last = np.cumsum(times[order])
    found = []
    for share in shares:
        at = share * (last[-1] - 1)
        low, high = values[order[np.searchsorted(last, [np.floor(at), np.ceil(at)], side="right")]]
        found.append(float(low + (high - low) * (at - np.floor(at))))
    return found


@dataclass(frozen=True)
class QuantityTable:
    """Quantities of the same prompts, side by side, so that a cell is averaged once for all of them."""

    quantities: Mapping[str, Quantity]

    @cached_property
    def _stacked(self) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Sums, counts and evidence: [quantity, prompt] each."""
        every = self.quantities.values()
        return (
            np.stack([each.sums for each in every]),
            np.stack([each.counts for each in every]),
            np.stack([each.evidence for each in every]),
        )

    def over(
        self, cell: PromptCell, resampling: Resampling, labels: Mapping[str, object]
    ) -> dict[str, Measurement]:
        """Every quantity over the prompts of one cell; labels say which cell it is.

        value = Σ sums / Σ counts over the cell's prompts, or its exponential where the sums are of logs
        """
        all_sums, all_counts, all_evidence = self._stacked
        sums, counts = all_sums[:, cell.prompts], all_counts[:, cell.prompts]
        settings = {**labels, **resampling.settings(METHOD, cell.unit)}
        total, n, size = sums.sum(axis=1).tolist(), counts.sum(axis=1).tolist(), len(cell.prompts)
        scored = np.count_nonzero(counts, axis=1).tolist()
        known = np.asarray(all_evidence[:, cell.prompts].any(axis=1)).tolist()
        bounds = cell.intervals(sums, counts)
        measured = {}
        for i, (name, quantity) in enumerate(self.quantities.items()):
            unscored = {quantity.unscored: size - scored[i]} if scored[i] < size else {}
            if not known[i]:
                measured[name] = Measurement.missing(
                    name, quantity.lack, unscored=unscored, neutral=quantity.neutral, settings=settings
                )
                continue
            value, interval = total[i] / n[i], bounds[i]
            if quantity.logarithmic:
                value = math.exp(value)
                interval = None if interval is None else (math.exp(interval[0]), math.exp(interval[1]))
            measured[name] = Measurement(
                name, value, interval, int(n[i]), unscored, quantity.neutral, {}, settings
            )
        return measured


@dataclass(frozen=True)
class Verdict:
    """What a kind of knowledge did to the stereotype, in a word, and the change it rests on."""

    kind: str
    group: str  # "" is all occupations
    k: int
    word: VerdictWord
    change: Measurement

    @classmethod
    def of(cls, change: Measurement) -> Verdict:
        """The verdict on a change, whose details hold what it began with and what it reached.

        It speaks of the stereotype (pro − anti), not of the size of a preference. no change: the interval
        includes 0. A word that claims something needs p < 0.05 against null models; without such a null the
        change is untested. overturns: the margin has clearly changed its sign, its own interval, where there
        is one, lies beyond 0. strengthens, weakens: it rises or falls on its side.
        """
        word: VerdictWord = "not measured"
        if change.value is not None and change.interval is not None:
            base, margin = (float(change.details[name] or 0) for name in ("base", "reached"))
            low, high = change.details["reached_low"], change.details["reached_high"]
            open_sign = low is not None and high is not None and low <= 0 <= high
            if change.interval[0] <= 0 <= change.interval[1]:
                word = "no change"
            elif change.null is None:
                word = "untested"
            elif change.null.p_value >= ALPHA:
                word = quiet_word(change)
            elif base * margin < 0 and not open_sign:
                word = "overturns"
            else:
                word = "strengthens" if margin > base else "weakens"
        settings = change.settings
        return cls(settings["kind"], settings["group"], settings["k"], word, change)


def quiet_word(change: Measurement) -> VerdictWord:
    """The word for a change of which nothing is claimed: none, one as in null models, or too few of those."""
    if change.interval is None or change.interval[0] <= 0 <= change.interval[1]:
        return "no change"
    null = change.null and replace(change.null, planned=change.null.planned or PLANNED)
    return "too few null models" if says_too_little(null) else "not more than in null models"


@dataclass(frozen=True)
class ClozeScores:
    measurements: tuple[Measurement, ...]  # settings name k, kind, group and occupation; "" means all
    verdicts: tuple[Verdict, ...]  # per k and kind, for all occupations and for each group
    robustness: tuple[Measurement, ...]  # per k, to unrelated knowledge


def score_cloze(
    table: PromptTable,
    topk: TopK,
    ks: Sequence[int] = (3, 5, 10),
    resampling: Resampling = DEFAULT,
    per_occupation: bool = True,
) -> ClozeScores:
    """All scores per k and kind: for all occupations, for each group and, if wanted, for each occupation."""
    if len(table.kinds) != len(topk.words):
        raise ValueError(f"every prompt must have an answer (got {len(topk.words)} of {len(table.kinds)})")
    measurements: list[Measurement] = []
    verdicts: list[Verdict] = []
    cells = [
        (labels, PromptCell.of(prompts, table, resampling))
        for labels, prompts in _cells(table, per_occupation)
    ]
    size = len(table.kinds)
    ones, always = np.ones(size), np.ones(size, dtype=bool)
    for k in ks:
        # what is averaged over the prompts of every cell, by name
        first, second = masses(topk, k)
        margin = table.own * (first - second)
        spoken = (topk.first(k).groups != 0).any(axis=1)
        total = topk.first(k).probs.sum(axis=1)
        share = (first + second) / np.where(total > 0, total, 1.0)
        lack, moved = f"no prompt has a word of either group in its top {k}", margin - margin[table.base]
        quantities = {
            f"{table.groups[0]} mass": Quantity(first, ones, spoken, lack),
            f"{table.groups[1]} mass": Quantity(second, ones, spoken, lack),
            "margin": Quantity(margin, ones, spoken, lack, 0.0),
            "share without group words": Quantity((~spoken).astype(float), ones, always, ""),
            "group words' share of the top k": Quantity(share, ones, always, ""),
            "margin change": Quantity(moved, ones, spoken | spoken[table.base], lack, 0.0),
        }
        # geometric means of relative probabilities: of all words, of own-group and of other-group words
        prompt, group, ratio = relative_probabilities(topk, k, table.base)
        lack = f"no such word is in the top {k} both with and without knowledge"
        for name, side in _RELATIVE.items():
            of_side = np.full(len(prompt), True) if side is None else group * table.own[prompt] == side
            sums = np.bincount(prompt[of_side], np.log(ratio[of_side]), size).astype(np.float64)
            counts = np.bincount(prompt[of_side], minlength=size).astype(float)
            unscored = "no such word in both lists"
            quantities[name] = Quantity(sums, counts, counts > 0, lack, 1.0, True, unscored)
        of_knowledge = QuantityTable(quantities)
        of_base = QuantityTable({name: own for name, own in quantities.items() if name not in _AGAINST_BASE})
        for labels, prompts in cells:
            against_base = labels["kind"] != BASE
            cell = (of_knowledge if against_base else of_base).over(prompts, resampling, {"k": k, **labels})
            if against_base:
                change = cell["margin change"]
                if change.value is not None:  # the margins it lies between, which its verdict needs
                    own, before = margin[prompts.prompts], margin[table.base[prompts.prompts]]
                    low, high = prompts.intervals(own[None], np.ones((1, own.size)))[0] or (None, None)
                    ends = {"base": float(before.mean()), "reached": float(own.mean())}
                    change = replace(change, details={**ends, "reached_low": low, "reached_high": high})
                cell["margin change"] = change
                verdicts += [] if labels["occupation"] else [Verdict.of(change)]
            measurements += cell.values()
    has_unrelated = bool((table.kinds == UNRELATED).any())
    kept = tuple(robustness(table, topk, k, resampling) for k in ks if has_unrelated)
    return ClozeScores(tuple(measurements), tuple(verdicts), kept)


def robustness(table: PromptTable, topk: TopK, k: int, resampling: Resampling = DEFAULT) -> Measurement:
    """Share of prompts whose preferred group survives knowledge that has nothing to do with it; 1 is all.

    Prompts whose base shows no preference are unscored. A preference that vanishes is not kept.
    """
    cell = PromptCell.of(np.flatnonzero(table.kinds == UNRELATED), table, resampling)
    first, second = masses(topk, k)
    margin = table.own * (first - second)
    change = margin - margin[table.base]
    side = np.where(np.abs(margin) > ROUNDING * (first + second), np.sign(margin), 0.0)
    held = side[table.base] != 0
    kept = held & (side == side[table.base])
    lack = f"no {UNRELATED!r} prompt has a base prompt with a preference in its top {k}"
    quantity = Quantity(
        kept.astype(float), held.astype(float), held, lack, 1.0, unscored="base shows no preference"
    )
    labels = {"k": k, "kind": UNRELATED}
    measured = QuantityTable({ROBUSTNESS: quantity}).over(cell, resampling, labels)[ROBUSTNESS]
    if measured.value is None:
        return measured
    moved = float(np.abs(change[cell.prompts][held[cell.prompts]]).mean())
    return replace(measured, details={"mean_absolute_change": moved})


def _cells(table: PromptTable, per_occupation: bool) -> Iterator[tuple[dict[str, str], Ints]]:
    """Labels and prompts of each kind: over all, then over each group, then over each occupation."""
    group = np.where(table.own > 0, table.groups[0], table.groups[1])
    for kind in dict.fromkeys(table.kinds.tolist()):
        of_kind = table.kinds == kind
        yield {"kind": kind, "group": "", "occupation": ""}, np.flatnonzero(of_kind)
        for name in table.groups:
            if (prompts := np.flatnonzero(of_kind & (group == name))).size:
                yield {"kind": kind, "group": name, "occupation": ""}, prompts
        by_occupation: dict[str, list[int]] = defaultdict(list)
        for prompt in np.flatnonzero(of_kind).tolist() if per_occupation else ():
            by_occupation[str(table.occupations[prompt])].append(prompt)
        for name, own in by_occupation.items():
            yield {"kind": kind, "group": str(group[own[0]]), "occupation": name}, np.asarray(own)
