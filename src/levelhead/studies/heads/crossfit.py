"""Do heads that were chosen on some words hold on others? (docs/method/heads.md, Head scores)

A list's attribute pairs and targets are split into disjoint halves, seeded. Heads are scored on one half, and
what removing the highest does is measured on the other, both ways round:

    rho      rank correlation of the scores of the two halves
    chosen   change of |SEAT| on the half that the heads were chosen on: flattered by the choice
    other    change of |SEAT| on the other half: what the choice is worth

Model and null models go through the same, on the same splits and with one context a word, which makes the
test of single heads exact (measures/maps.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.gates import removed
from levelhead.edits.sites import Head
from levelhead.engine.gradient_sums import GateGradients
from levelhead.measures.crossed import WordSets
from levelhead.measures.maps import HeadTest, half_agreement, head_test, held_scores, largest_held
from levelhead.measures.measurement import Measurement
from levelhead.measures.null import NullDistribution, closed, largest_settled, looked_at
from levelhead.models.model import Model
from levelhead.probes.words import WordTest
from levelhead.scoring.objective import several_gradients
from levelhead.scoring.objectives import word_objective
from levelhead.scoring.seat import WordTable
from levelhead.studies.heads.records import CHANGE_ON_OTHER_WORDS, HEAD_AGREEMENT, LARGEST_HELD, CrossFit

Doubles = NDArray[np.float64]


def halves(table: WordTable, test: WordTest, seed: int) -> tuple[WordTable, WordTable]:
    """The words of a list as two tables; counterparts stay together."""
    index = {word: i for i, word in enumerate(table.words)}
    pairs = [(index[a], index[b]) for a, b in test.pairs if a in index and b in index]
    units = WordSets(table.sets, pairs).unit_of_word
    rng = np.random.default_rng(seed)
    sides: tuple[set[str], set[str]] = (set(), set())
    attributes = rng.permutation(sorted(set(units.values())))
    place = {int(unit): number % 2 for number, unit in enumerate(attributes)}
    for word, unit in units.items():
        sides[place[unit]].add(table.words[word])
    for group in "XY":
        targets = sorted({w for w in table.sets[group] if w not in units})
        for number, word in enumerate(rng.permutation(targets)):
            sides[number % 2].add(table.words[int(word)])
    return table.part(sides[0]), table.part(sides[1])


@dataclass(frozen=True)
class Splits:
    """Halves of a list's words, several times, on the first context of each word; the same for a model and
    its null models."""

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


def cross_fit(
    model: Model, splits: Splits, vectors: Doubles, top: int, null_model: int | None
) -> list[CrossFit]:
    """Every split, both ways round. null model: the number of the null model that the model is at the moment.

    vectors: of the words in their first contexts, [word, hidden]. top: how many heads are removed; 0: none,
    and there are scores alone. Of a null model only the half that heads were not chosen on is read without
    them.
    """
    fitted = zip(splits.parts, splits.gradients(model, vectors), strict=True)
    fits = []
    for split, (parts, gradients) in enumerate(fitted):
        halves = [word_objective(part) for part in parts]
        scores = np.array([half.scores for half in gradients])
        chosen = [removed(model, highest(half, top)) for half in scores]
        ways = [(1 - side, side) for side in (0, 1) if top]
        ways += [(side, side) for side in (0, 1) if null_model is None]
        change = {  # of the objective on the half that is read, without the heads that were chosen on a side
            (half, side): halves[half].sizes(model, [chosen[side]], "Cross-fit")[0]
            - gradients[half].objective
            for half, side in ways
        }
        (rho,) = half_agreement(scores[None])
        other = float(np.mean([change[1, 0], change[0, 1]])) if top else None
        own = float(np.mean([change[0, 0], change[1, 1]])) if null_model is None else None
        kept = tuple(tuple(map(tuple, half)) for half in scores.tolist())
        fits.append(CrossFit(null_model, split, float(rho), own, other, kept))
    return fits


def highest(scores: Doubles, top: int) -> list[Head]:
    """The heads with the highest scores; ties by layer, then head."""
    order = np.argsort(-scores.ravel(), kind="stable")[:top]
    return [Head(int(i) // scores.shape[1], int(i) % scores.shape[1]) for i in order]


def held_on_other_words(fits: Sequence[CrossFit], planned: int) -> tuple[Doubles, HeadTest | None]:
    """What of the scores holds on other words, [layer, head]; and its test, where there are null models.

    planned: how many null models there were to be; they come in rounds (measures/null.py).
    """
    own, *null_models = _halves(fits)
    return held_scores(own), head_test(own, np.array(null_models), planned) if len(null_models) > 1 else None


def scores_closed(fits: Sequence[CrossFit], planned: int) -> bool:
    """Whether no more null models are needed for the verdicts on scores: agreement of heads, and clear
    heads."""
    own, *null_models = _halves(fits)
    if len(null_models) < 2:
        return False
    largest = float(np.abs(held_scores(own)).max())
    if not largest_settled(largest_held(np.array(null_models)), largest, planned):
        return False
    rho, rhos = _means(fits, attrgetter("rho"))
    return closed(NullDistribution(rhos), rho, planned)


def removal_closed(fits: Sequence[CrossFit], planned: int) -> bool:
    """Whether no more null models are needed for the verdict on what removal does."""
    change, changes = _means(fits, attrgetter("other"))
    return len(changes) > 1 and closed(NullDistribution(changes), change, planned)


def summaries(fits: Sequence[CrossFit], planned: int) -> list[Measurement]:
    """Agreement of heads between halves, what removal does on the other half, and the largest score that
    holds, each against the null models': the mean over the model's splits, against each null model's mean
    over the same splits."""
    of_model, *others = _by_null_model(fits)
    flattered = float(np.mean([fit.chosen for fit in fits if fit.chosen is not None]))
    summed = []
    for name, value_of, details in (
        (HEAD_AGREEMENT, attrgetter("rho"), {}),
        (CHANGE_ON_OTHER_WORDS, attrgetter("other"), {"on the words chosen on": flattered}),
    ):
        own = np.array([value_of(fit) for fit in of_model], np.float64)
        mean, null_models = _means(fits, value_of)
        null = looked_at(NullDistribution(null_models), mean, planned) if len(null_models) > 1 else None
        measurement = Measurement(
            name,
            mean,
            n=int(own.size),
            neutral=0.0,
            details={"sd": float(own.std(ddof=1)) if own.size > 1 else None, **details},
            settings={"splits": len(of_model), "null_models": len(null_models), "contexts a word": 1},
            null=None if null is None else null.judged(mean, "null models"),
        )
        summed.append(measurement)
    held, test = held_on_other_words(fits, planned)
    largest = (
        Measurement(LARGEST_HELD, float(np.abs(held).max()), n=held.size) if test is None else test.largest
    )
    return [*summed, replace(largest, settings={**summed[0].settings, "null_models": len(others)})]


def _halves(fits: Sequence[CrossFit]) -> list[Doubles]:
    """Half scores [split, half, layer, head] of the model, then of each null model."""
    return [np.array([fit.halves for fit in of_one]) for of_one in _by_null_model(fits)]


def _means(fits: Sequence[CrossFit], value_of: Callable[[CrossFit], float | None]) -> tuple[float, Doubles]:
    """The mean over the model's splits, and that of each null model over its own splits."""
    values = [[v for v in map(value_of, of_one) if v is not None] for of_one in _by_null_model(fits)]
    own, *null_models = [float(np.mean(of_one)) for of_one in values if of_one]
    return own, np.array(null_models)


def _by_null_model(fits: Sequence[CrossFit]) -> list[list[CrossFit]]:
    """The splits of the model, then those of each null model."""
    groups: dict[int | None, list[CrossFit]] = {None: []}
    for fit in fits:
        groups.setdefault(fit.null_model, []).append(fit)
    return list(groups.values())
