"""Masses, margins, changes and relative probabilities of cloze prompts (docs/method.md, Cloze scores).

Top k means k tokens; forms of one word among them are merged afterwards. Own-group words are
pro-stereotypical.

    margin = mass of own-group words − mass of other-group words, among the top k
    change = margin with knowledge − margin of the same occupation's base prompt
    relative probability (eq. 1) = p(w | knowledge) / p(w | base), for each word w in both top-k lists

A prompt without a group word in its top k has mass and margin 0, which is true. A cell in which no prompt
has one says nothing about groups: masses, margin and change are then missing, never 0; the share of such
prompts stays a number. Reference: Zhang 2023, "Counteracts", which prints masses only: margins' intervals,
changes and verdicts are ours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from levelhead.measures.cloze.prompt_table import BASE, PromptTable
from levelhead.measures.cloze.quantities import PromptCell, Quantity, QuantityTable
from levelhead.measures.cloze.top_k import Floats, Ints, TopK, margins, masses, relative_probabilities
from levelhead.measures.cloze.verdicts import Verdict
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import DEFAULT, ROUNDING, Resampling

UNRELATED, ROBUSTNESS = "unrelated", "robustness"
_RELATIVE = {
    "relative probability": None,
    "relative probability, own group": 1,
    "relative probability, other group": -1,
}
_AGAINST_BASE = frozenset(["margin change", *_RELATIVE])


@dataclass(frozen=True)
class ClozeScores:
    """Everything that one model's answers say."""

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
        raise ValueError(f"{len(table.kinds)} prompts were asked, {len(topk.words)} were answered")
    measurements: list[Measurement] = []
    verdicts: list[Verdict] = []
    cells = [
        (labels, PromptCell.of(prompts, table, resampling))
        for labels, prompts in _cells(table, per_occupation)
    ]
    for k in ks:
        quantities = _quantities(table, topk, k)
        margin = quantities["margin"].sums
        of_knowledge = QuantityTable(quantities)
        of_base = QuantityTable({name: own for name, own in quantities.items() if name not in _AGAINST_BASE})
        for labels, prompts in cells:
            against_base = labels["kind"] != BASE
            cell = (of_knowledge if against_base else of_base).over(prompts, resampling, {"k": k, **labels})
            if against_base:
                change = _with_margins(cell["margin change"], margin, prompts, table)
                cell["margin change"] = change
                verdicts += [] if labels["occupation"] else [Verdict.of(change)]
            measurements += cell.values()
    has_unrelated = bool((table.kinds == UNRELATED).any())
    kept = tuple(robustness(table, topk, k, resampling=resampling) for k in ks if has_unrelated)
    return ClozeScores(tuple(measurements), tuple(verdicts), kept)


def robustness(
    table: PromptTable, topk: TopK, k: int, kind: str = UNRELATED, resampling: Resampling = DEFAULT
) -> Measurement:
    """Share of prompts whose preferred group survives knowledge that has nothing to do with it; 1 is all of
    them.

    Prompts whose base shows no preference have nothing to keep: unscored. A preference that vanishes is not
    kept.
    """
    cell = PromptCell.of(np.flatnonzero(table.kinds == kind), table, resampling)
    margin = margins(topk, k, table.own)
    change = margin - margin[table.base]
    side = np.where(np.abs(margin) > ROUNDING * sum(masses(topk, k)), np.sign(margin), 0.0)
    held = side[table.base] != 0
    kept = held & (side == side[table.base])
    lack = f"no {kind!r} prompt has a base prompt with a preference in its top {k}"
    quantity = Quantity(
        kept.astype(float), held.astype(float), held, lack, 1.0, unscored="base shows no preference"
    )
    labels = {"k": k, "kind": kind}
    measured = QuantityTable({ROBUSTNESS: quantity}).over(cell, resampling, labels)[ROBUSTNESS]
    if measured.value is None:
        return measured
    moved = float(np.abs(change[cell.prompts][held[cell.prompts]]).mean())
    return replace(measured, details={"mean_absolute_change": moved})


def _quantities(table: PromptTable, topk: TopK, k: int) -> dict[str, Quantity]:
    """What is averaged over the prompts of every cell, by name."""
    first, second = masses(topk, k)
    margin = table.own * (first - second)
    spoken = (topk.first(k).groups != 0).any(axis=1)
    ones, always = np.ones(len(margin)), np.ones(len(margin), dtype=bool)
    total = topk.first(k).probs.sum(axis=1)
    share = (first + second) / np.where(total > 0, total, 1.0)
    lack = f"no prompt has a word of either group in its top {k}"
    quantities = {
        f"{table.groups[0]} mass": Quantity(first, ones, spoken, lack),
        f"{table.groups[1]} mass": Quantity(second, ones, spoken, lack),
        "margin": Quantity(margin, ones, spoken, lack, 0.0),
        "share without group words": Quantity((~spoken).astype(float), ones, always, ""),
        "group words' share of the top k": Quantity(share, ones, always, ""),
        "margin change": Quantity(margin - margin[table.base], ones, spoken | spoken[table.base], lack, 0.0),
    }
    return quantities | _relative_quantities(table, topk, k)


def _relative_quantities(table: PromptTable, topk: TopK, k: int) -> dict[str, Quantity]:
    """Geometric means of relative probabilities: of all words, of own-group and of other-group words."""
    quantities = {}
    prompt, group, ratio = relative_probabilities(topk, k, table.base)
    size = len(table.kinds)
    for name, side in _RELATIVE.items():
        kept = np.full(len(prompt), True) if side is None else group * table.own[prompt] == side
        sums = np.bincount(prompt[kept], np.log(ratio[kept]), size).astype(np.float64)
        counts = np.bincount(prompt[kept], minlength=size).astype(float)
        lack = f"no such word is in the top {k} both with and without knowledge"
        quantities[name] = Quantity(sums, counts, counts > 0, lack, 1.0, True, "no such word in both lists")
    return quantities


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


def _with_margins(change: Measurement, margin: Floats, cell: PromptCell, table: PromptTable) -> Measurement:
    """A change with the margins it lies between, which its verdict needs; margin [prompt]."""
    if change.value is None:
        return change
    own = margin[cell.prompts]
    low, high = cell.intervals(own[None], np.ones((1, own.size)))[0] or (None, None)
    base, reached = float(margin[table.base[cell.prompts]].mean()), float(own.mean())
    return replace(
        change, details={"base": base, "reached": reached, "reached_low": low, "reached_high": high}
    )
