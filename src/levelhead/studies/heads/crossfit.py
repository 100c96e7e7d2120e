"""Do heads that were chosen on some words hold on others? (docs/method.md, Head scores)

A list's attribute pairs and targets are split into disjoint halves, seeded. Heads are scored on one half, and
what removing the highest does is measured on the other, both ways round:

    rho      rank correlation of the scores of the two halves
    chosen   change of |SEAT| on the half that the heads were chosen on: flattered by the choice
    other    change of |SEAT| on the other half: what the choice is worth

Model and null twins go through the same, on the same splits and with one context a word, which makes the test
of single heads exact (measures/head_null.py). In a null model rho scatters around 0, and removing
its highest heads lowers |SEAT| on the half they were chosen on, not on the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.gates import removed
from levelhead.edits.head import Head
from levelhead.engine.ways_back import GateGradients
from levelhead.measures.head_null import HeadTest, half_agreement, head_test, held_scores, largest_held
from levelhead.measures.measurement import Measurement
from levelhead.measures.null import NullDistribution
from levelhead.measures.rounds import closed, largest_settled, looked_at
from levelhead.measures.seat_effect import WordSets
from levelhead.models.model import Model
from levelhead.probes.words import WordTest
from levelhead.results.records.heads import (
    CHANGE_ON_OTHER_WORDS,
    HEAD_AGREEMENT,
    LARGEST_HELD,
    CrossFit,
)
from levelhead.scoring.objective import Objective, several_gradients
from levelhead.scoring.objectives import word_objective
from levelhead.scoring.word_table import WordTable

Doubles = NDArray[np.float64]


def halves(table: WordTable, test: WordTest, seed: int) -> tuple[WordTable, WordTable]:
    """The words of a list as two tables; counterparts stay together."""
    number = {word: i for i, word in enumerate(table.words)}
    pairs = [(number[a], number[b]) for a, b in test.pairs if a in number and b in number]
    units = WordSets(table.sets, pairs).unit_of_word
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


@dataclass(frozen=True)
class Splits:
    """Halves of a list's words, several times, on the first context of each word; the same for a model and
    its twins."""

    table: WordTable  # of all words
    parts: tuple[tuple[WordTable, WordTable], ...]  # [split]

    @classmethod
    def of(cls, table: WordTable, test: WordTest, splits: int, seed: int) -> Splits:
        """So many splits of a table's words; BadProbe where a half would be too small."""
        single = table.first_contexts()
        return cls(single, tuple(halves(single, test, seed + split) for split in range(splits)))

    def gradients(self, model: Model, vectors: Doubles) -> list[tuple[GateGradients, GateGradients]]:
        """The scores of both halves of every split, from one pass over all words.

        vectors: of the words in these contexts, [word, hidden], which another pass has given already.
        """
        whole = word_objective(self.table)
        halves = [whole.about(part.words) for parts in self.parts for part in parts]
        every = several_gradients(model, halves, "Heads on halves of the words", vectors)
        return list(zip(every[::2], every[1::2], strict=True))


def cross_fit(model: Model, splits: Splits, vectors: Doubles, top: int, twin: int | None) -> list[CrossFit]:
    """Every split, both ways round. twin: the number of the null twin that the model is at the moment.

    vectors: of the words in their first contexts, [word, hidden]. top: how many heads are removed; 0: none,
    and only scores are asked. Of a twin only the half that heads were not chosen on is read without them.
    """
    fitted = zip(splits.parts, splits.gradients(model, vectors), strict=True)
    return [
        _fit(model, [word_objective(part) for part in parts], gradients, top, (twin, split))
        for split, (parts, gradients) in enumerate(fitted)
    ]


def _fit(
    model: Model,
    halves: Sequence[Objective],
    gradients: Sequence[GateGradients],
    top: int,
    place: tuple[int | None, int],
) -> CrossFit:
    twin, split = place
    scores = np.array([half.scores for half in gradients])
    chosen = [removed(model, highest(half, top)) for half in scores]

    def change(read: int, side: int) -> float:
        """Of the objective on one half without the heads that were chosen on a side."""
        (after,) = halves[read].sizes(model, [chosen[side]], "Cross-fit")
        return after - gradients[read].objective

    (rho,) = half_agreement(scores[None])
    other = float(np.mean([change(1 - side, side) for side in (0, 1)])) if top else None
    own = float(np.mean([change(side, side) for side in (0, 1)])) if twin is None else None
    return CrossFit(twin, split, float(rho), own, other, tuple(tuple(map(tuple, h)) for h in scores.tolist()))


def highest(scores: Doubles, top: int) -> list[Head]:
    """The heads with the highest scores; ties by layer, then head."""
    order = np.argsort(-scores.ravel(), kind="stable")[:top]
    return [Head(int(i) // scores.shape[1], int(i) % scores.shape[1]) for i in order]


def held_on_other_words(fits: Sequence[CrossFit], planned: int) -> tuple[Doubles, HeadTest | None]:
    """What of the scores holds on other words, [layer, head]; and its test, where there are twins.

    planned: how many twins there were to be; they come in rounds (measures/rounds.py).
    """
    own, *twins = _halves(fits)
    return held_scores(own), head_test(own, np.array(twins), planned) if len(twins) > 1 else None


def scores_closed(fits: Sequence[CrossFit], planned: int) -> bool:
    """Whether no more twins are needed for the verdicts on scores: agreement of heads, and clear heads."""
    own, *twins = _halves(fits)
    if len(twins) < 2:
        return False
    largest = float(np.abs(held_scores(own)).max())
    return largest_settled(largest_held(np.array(twins)), largest, planned) and _closed(fits, "rho", planned)


def removal_closed(fits: Sequence[CrossFit], planned: int) -> bool:
    """Whether no more twins are needed for the verdict on what removal does."""
    return _closed(fits, "other", planned)


def _closed(fits: Sequence[CrossFit], name: str, planned: int) -> bool:
    value, null = _means(fits, attrgetter(name))
    return len(null) > 1 and closed(NullDistribution(null), value, planned)


def summaries(fits: Sequence[CrossFit], planned: int) -> list[Measurement]:
    """Agreement of heads between halves, what removal does on the other half, and the largest score that
    holds, each against the twins'."""
    flattered = [fit.chosen for fit in fits if fit.chosen is not None]
    held, test = held_on_other_words(fits, planned)
    largest = (
        Measurement(LARGEST_HELD, float(np.abs(held).max()), n=held.size) if test is None else test.largest
    )
    return [
        _summary(fits, HEAD_AGREEMENT, attrgetter("rho"), {}, planned),
        _summary(
            fits,
            CHANGE_ON_OTHER_WORDS,
            attrgetter("other"),
            {"on the words chosen on": float(np.mean(flattered))},
            planned,
        ),
        replace(largest, settings=_settings(fits, len(_by_twin(fits)) - 1)),
    ]


def _halves(fits: Sequence[CrossFit]) -> list[Doubles]:
    """Half scores [split, half, layer, head] of the model, then of each twin."""
    return [np.array([fit.halves for fit in of_one]) for of_one in _by_twin(fits)]


def _means(fits: Sequence[CrossFit], value_of: Callable[[CrossFit], float | None]) -> tuple[float, Doubles]:
    """The mean over the model's splits, and that of each twin that was asked over the same splits."""
    values = [[v for v in map(value_of, of_one) if v is not None] for of_one in _by_twin(fits)]
    own, *twins = [float(np.mean(of_one)) for of_one in values if of_one]
    return own, np.array(twins)


def _by_twin(fits: Sequence[CrossFit]) -> list[list[CrossFit]]:
    """The splits of the model, then those of each twin."""
    groups: dict[int | None, list[CrossFit]] = {None: []}
    for fit in fits:
        groups.setdefault(fit.twin, []).append(fit)
    return list(groups.values())


def _settings(fits: Sequence[CrossFit], twins: int) -> dict[str, int]:
    return {"splits": len(_by_twin(fits)[0]), "twins": twins, "contexts a word": 1}


def _summary(
    fits: Sequence[CrossFit],
    name: str,
    value_of: Callable[[CrossFit], float | None],
    details: dict[str, float | None],
    planned: int,
) -> Measurement:
    """The mean over the model's splits, against each twin's mean over the same splits."""
    own = np.array([value_of(fit) for fit in _by_twin(fits)[0]], np.float64)
    mean, twins = _means(fits, value_of)
    null = looked_at(NullDistribution(twins), mean, planned) if len(twins) > 1 else None
    return Measurement(
        name,
        mean,
        n=int(own.size),
        neutral=0.0,
        details={"sd": float(own.std(ddof=1)) if own.size > 1 else None, **details},
        settings=_settings(fits, len(twins)),
        null=None if null is None else null.judged(mean, "null twins"),
    )
