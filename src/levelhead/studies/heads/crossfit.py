"""Do heads that were chosen on some words hold on others? (docs/method.md, Head scores)

A list's attribute pairs and targets are split into disjoint halves, seeded. Heads are scored on one half, and
what removing the highest does is measured on the other, both ways round:

    rho      rank correlation of the scores of the two halves
    chosen   change of |SEAT| on the half that the heads were chosen on: flattered by the choice
    other    change of |SEAT| on the other half: what the choice is worth

Null twins go through the same with one context a word. In a model without meaning rho scatters around 0, and
removing its highest heads lowers |SEAT| on the half they were chosen on, not on the other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from levelhead.edits.gates import removed
from levelhead.edits.head import Head
from levelhead.engine.progress import steps
from levelhead.measures.crossed import WordSets
from levelhead.measures.measurement import Measurement
from levelhead.measures.null import NullDistribution
from levelhead.models.model import Model
from levelhead.models.twins import draw_twin, twin_seed, twinned
from levelhead.probes.words import WordTest
from levelhead.results.records.heads import CHANGE_ON_OTHER_WORDS, HEAD_AGREEMENT, CrossFit
from levelhead.scoring.seat import absolute_seats
from levelhead.scoring.word_table import WordTable
from levelhead.studies.heads.scores import head_scores

Doubles = NDArray[np.float64]


def halves(table: WordTable, test: WordTest, seed: int) -> tuple[WordTable, WordTable]:
    """The words of a list as two tables; counterparts stay together."""
    number = {word: i for i, word in enumerate(table.words)}
    pairs = [(number[a], number[b]) for a, b in test.pairs if a in number and b in number]
    units = WordSets(table.sets, pairs).unit_of_word()
    rng = np.random.default_rng(seed)
    sides: tuple[set[str], set[str]] = (set(), set())
    attributes = rng.permutation(sorted(set(units.values())))
    place = {int(unit): turn % 2 for turn, unit in enumerate(attributes)}
    for word, unit in units.items():
        sides[place[unit]].add(table.words[word])
    for group in "XY":
        targets = sorted({w for w in table.sets[group] if w not in units})
        for turn, word in enumerate(rng.permutation(targets)):
            sides[turn % 2].add(table.words[int(word)])
    return table.part(sides[0]), table.part(sides[1])


def cross_fit(model: Model, parts: Sequence[WordTable], top: int, twin: int | None, split: int) -> CrossFit:
    """One split, both ways round. twin: the number of the null twin that the model is at the moment."""
    scores = [head_scores(model, part).scores for part in parts]
    rho = float(stats.spearmanr(scores[0].ravel(), scores[1].ravel()).statistic)
    changes = [_changes(model, parts, scores[side], side, top) for side in (0, 1)]
    chosen, other = np.mean(changes, axis=0)
    return CrossFit(twin, split, rho, float(chosen), float(other))


def _changes(
    model: Model, parts: Sequence[WordTable], scores: Doubles, side: int, top: int
) -> tuple[float, float]:
    """Change of |SEAT| on the half that heads are chosen on, and on the other."""
    heads = highest(scores, top)
    seats = [absolute_seats(model, part, [(), removed(model, heads)], label="Cross-fit") for part in parts]
    change = [after - before for before, after in seats]
    return change[side], change[1 - side]


def highest(scores: Doubles, top: int) -> list[Head]:
    """The heads with the highest scores; ties by layer, then head."""
    order = np.argsort(-scores.ravel(), kind="stable")[:top]
    return [Head(int(i) // scores.shape[1], int(i) % scores.shape[1]) for i in order]


def cross_fits(
    model: Model, table: WordTable, test: WordTest, sizes: tuple[int, int, int], seed: int
) -> list[CrossFit]:
    """All splits of the model, then one split of each null twin. sizes: splits, heads removed, twins."""
    splits, top, twins = sizes
    fits: list[CrossFit] = []
    with steps("Cross-fit", splits + twins) as advance:
        for split in range(splits):
            fits.append(cross_fit(model, halves(table, test, seed + split), top, None, split))
            advance(1)
        single = table.first_contexts()
        for number in range(twins):
            with twinned(model, draw_twin(model, twin_seed(seed, number))):
                fits.append(cross_fit(model, halves(single, test, seed + number), top, number, 0))
            advance(1)
    return fits


def summaries(fits: Sequence[CrossFit]) -> list[Measurement]:
    """Agreement of heads between halves, and what removal does on the other half, each against the twins'."""
    return [
        _summary(fits, HEAD_AGREEMENT, [fit.rho for fit in fits]),
        _summary(
            fits, CHANGE_ON_OTHER_WORDS, [fit.other for fit in fits], chosen=[fit.chosen for fit in fits]
        ),
    ]


def _summary(
    fits: Sequence[CrossFit], name: str, values: Sequence[float], chosen: Sequence[float] | None = None
) -> Measurement:
    own = np.array([value for fit, value in zip(fits, values, strict=True) if fit.twin is None])
    of_twins = np.array([value for fit, value in zip(fits, values, strict=True) if fit.twin is not None])
    details: dict[str, float | None] = {"sd": float(own.std(ddof=1)) if own.size > 1 else None}
    if chosen is not None:
        flattered = [value for fit, value in zip(fits, chosen, strict=True) if fit.twin is None]
        details["on the words chosen on"] = float(np.mean(flattered))
    mean = float(own.mean())
    null = NullDistribution(of_twins).judged(mean, "null twins") if of_twins.size > 1 else None
    settings = {"splits": int(own.size), "twins": int(of_twins.size)}
    return Measurement(
        name, mean, n=int(own.size), neutral=0.0, details=details, settings=settings, null=null
    )
