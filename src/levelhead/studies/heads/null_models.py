"""Null models of a heads run: one pass over each gives its SEAT and the slopes of its heads.

They come in rounds (measures/null.py). What a round has settled is not measured in the next: later ones may
give SEAT alone, the heads alone, or the scores of heads without any removal.

SEAT is that of one list several times: of all words, of words matched by their numbers of tokens, of
one-token words, and of the parts that the list names. One pass over all words gives all rows: in the model
with intervals; in each null model without, on the first contexts of each word, where the model's SEAT is
compared. Null models say which of the first three rows can be read as it is with this tokenizer
(measures/null.py), and of each row how much is more than they show themselves (measures/crossed.py).
Reference: docs/method/words.md, SEAT rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelhead.errors import BadProbe, CannotDo
from levelhead.measures.crossed import CrossedVectors, SeatEffect, least_excess, units, word_means
from levelhead.measures.exchange import Exchange
from levelhead.measures.measurement import Measurement
from levelhead.measures.null import MAIN_LEVEL, NullDistribution, looks, settled, share, sound_choice
from levelhead.measures.seat import why_no_effect
from levelhead.measures.statistics import DEFAULT, Resampling
from levelhead.models.concurrency import in_background
from levelhead.models.encoding import token_counts
from levelhead.models.model import Model
from levelhead.models.null_model import NullModel, as_null_model, draw_null_model, null_model_seed
from levelhead.probes.contexts import Context
from levelhead.probes.words import ALL_WORDS, WordTest, rows_by_token_count
from levelhead.progress import Stage, stage, steps
from levelhead.runs.common import NullModelSeat
from levelhead.runs.folder import Run
from levelhead.scoring.seat import (
    SINGLY,
    WordTable,
    association_sides,
    context_vectors,
    crossed_vectors,
    seat_of,
    word_sets,
    word_table,
)
from levelhead.studies.heads import Heads
from levelhead.studies.heads.crossfit import Splits, cross_fit, removal_closed, scores_closed
from levelhead.studies.heads.prepared import Prepared
from levelhead.studies.heads.records import CrossFit
from levelhead.studies.heads.settings import HeadsSettings, HeadsStored

NULL_MODEL_CONTEXTS = SINGLY  # of each word, at most (docs/method/words.md, SEAT rows)
Doubles = NDArray[np.float64]
Open = Run[HeadsStored]


@dataclass(frozen=True)
class SeatRows:
    """SEAT by row, and the row that speaks for this tokenizer."""

    rows: dict[str, Measurement]
    tests: dict[str, WordTest]
    parts: tuple[str, ...]  # the rows that are kinds of targets; the others are by number of tokens
    sound: str  # the first row by number of tokens whose null models lie around 0: it can be read as it is
    why: str


def ask_seat_rows(
    model: Model,
    test: WordTest,
    contexts: Sequence[Context],
    null_models: Iterable[NullModel] = (),
    resampling: Resampling = DEFAULT,
    *,
    planned: int | None = None,
) -> SeatRows:
    """SEAT of every row of a test with what null models show of it, and which row is sound.

    planned: how many null models come, in rounds that end when the association is settled; None: all of them.
    """
    rows = RowsQuestion(model, test, contexts, resampling)
    for number, null_model in enumerate(null_models):
        if planned is not None and number in looks(planned) and rows.settled(planned):
            break
        with as_null_model(model, null_model):
            rows.add(rows.seats(rows.read_few()))
    return rows.answers(planned)


class RowsQuestion:
    """SEAT of every row of a test: the model is read at once, null models are added one by one."""

    def __init__(
        self, model: Model, test: WordTest, contexts: Sequence[Context], resampling: Resampling = DEFAULT
    ) -> None:
        self.model, self.resampling = model, resampling
        self.table = table = word_table(test, contexts)
        known = test.of(set(table.words))
        counts = token_counts(model, list(table.words))
        self._by_token_count = rows_by_token_count(known, counts)
        self.parts = known.by_part()
        self.tests = {**self._by_token_count, ALL_WORDS: test, **self.parts}
        self._tables: dict[str, WordTable] = {}
        for name, row in self.tests.items():
            words = {word for listed in row.groups().values() for word in listed}
            self._tables[name] = word_table(row, [each for each in table.contexts if each.word in words])
        # what null models read: half of the model's contexts of each word, and no more than two
        few = min(NULL_MODEL_CONTEXTS, max(1, len(table.contexts) // len(table.words) // 2))
        self.few = table.first_contexts(few)
        # the rows' words, by their numbers among those
        number = {word: i for i, word in enumerate(self.few.words)}
        self._sets = {
            name: word_sets(row, self.tests[name]).numbered([number[word] for word in row.words])
            for name, row in self._tables.items()
        }
        self._null_models: dict[str, list[NullModelSeat]] = {}  # SEAT of each row, null model by null model

    @cached_property
    def vectors(self) -> Doubles:
        return np.asarray(context_vectors(self.model, self.table, "Word association"))

    @cached_property
    def _own(self) -> dict[str, CrossedVectors]:
        own = {}
        for name, table in self._tables.items():
            words = set(table.words)
            kept = [i for i, word in enumerate(self.table.word) if self.table.words[word] in words]
            own[name] = crossed_vectors(self.vectors[kept], table, self.tests[name])
        return own

    @cached_property
    def measured(self) -> Future[dict[str, Measurement]]:
        """Every row in the model, with its interval, which is worked out in the background from now on."""
        own = self._own
        return in_background(
            lambda: {
                name: seat_of(own[name], self._tables[name], row, self.resampling)
                for name, row in self.tests.items()
            }
        )

    @property
    def measurable(self) -> bool:
        """Whether all words have a SEAT in the model."""
        return not why_no_effect(*association_sides(self._own[ALL_WORDS].means, self._tables[ALL_WORDS]))

    # ---- null models

    def read_few(self) -> Doubles:
        """Vectors of the first contexts, in the null model that the model is at the moment: [context, d]."""
        return np.asarray(context_vectors(self.model, self.few, "Word association in null models"))

    def seats(self, vectors: Doubles) -> list[NullModelSeat]:
        """SEAT of every row in one null model, from its vectors of the first contexts."""
        seats = []
        for name, effect in self._effects(vectors):
            # rounded, because a run folder keeps a number for every word and null model
            short = tuple(tuple(float(f"{each:.6g}") for each in kind) for kind in effect.influences())
            seats.append(NullModelSeat(name, effect.value, short))
        return seats

    def _effects(self, vectors: Doubles) -> Iterator[tuple[str, SeatEffect]]:
        """SEAT of every row that has one, from vectors of the first contexts."""
        words = units(word_means(vectors, np.asarray(self.few.word)))
        for name, sets in self._sets.items():
            if (effect := SeatEffect.of(words, sets)) is not None:
                yield name, effect

    def add(self, seats: Iterable[NullModelSeat]) -> None:
        """One more null model. Nothing is read here: the model may be that null model at the moment."""
        for seat in seats:
            self._null_models.setdefault(seat.row, []).append(seat)

    def settled(self, planned: int) -> bool:
        """Whether the association's verdict is what all planned null models would give (measures/null.py)."""
        evaluated = len(self._null_models.get(ALL_WORDS, ()))
        if evaluated < 2 or ALL_WORDS not in self._there:
            return False
        spoken = self._judged(ALL_WORDS, share(evaluated, planned)).null
        certain = spoken is not None and (spoken.p_value >= MAIN_LEVEL or (spoken.least or 0.0) > 0)
        return certain and settled(self._null(ALL_WORDS), self._there[ALL_WORDS], planned, MAIN_LEVEL)

    # ---- what is measured

    def answers(self, planned: int | None = None) -> SeatRows:
        """All rows, compared with the null models so far. planned: how many there were to be, in rounds."""
        rows = dict(self.measured.result())
        compared = {
            name
            for name, seats in self._null_models.items()
            if len(seats) > 1 and rows[name].value is not None
        }
        for name, seats in self._null_models.items():
            if name in compared and name in self._there:
                rows[name] = self._judged(name, 1.0 if planned is None else share(len(seats), planned))
        candidates = {name: self._null(name) for name in self._by_token_count if name in compared}
        sound, why = sound_choice(candidates) if candidates else (ALL_WORDS, "no null model was evaluated")
        return SeatRows(rows, self.tests, tuple(self.parts), sound, why)

    @cached_property
    def _there(self) -> dict[str, float]:
        """The model's SEAT on the contexts of null models: like is compared with like."""
        place = {context: i for i, context in enumerate(self.table.contexts)}
        vectors = self.vectors[[place[context] for context in self.few.contexts]]
        return {name: effect.value for name, effect in self._effects(vectors)}

    def _null(self, name: str) -> NullDistribution:
        return NullDistribution(np.array([seat.value for seat in self._null_models[name]]))

    def _judged(self, name: str, spent: float) -> Measurement:
        """A row with its place among null models, and how far it lies from them at least on other words.

        The place is that of SEAT on the null models' own contexts, so that like is compared with like. spent:
        the share of the error at this look.
        """
        row, there = self.measured.result()[name], self._there[name]
        influences = self._own[name].influences[0]
        if row.value is None or not influences:
            return row
        null_models, null = self._null_models[name], self._null(name)
        # what words do to SEAT in the mean over null models: of attribute pairs, X, Y
        sums = [np.zeros_like(np.asarray(kind)) for kind in null_models[0].influences]
        for seat in null_models:
            sums = [kind + np.asarray(more) for kind, more in zip(sums, seat.influences, strict=True)]
        least = least_excess(
            row.value, null, influences, [kind / len(null_models) for kind in sums], self.resampling
        )
        judged = replace(replace(null, share=spent).judged(there, "null models"), least=least)
        held = replace(row, null=judged, details={**row.details, "on_null_model_contexts": there})
        exchanged = Exchange.of(row)
        return held if exchanged is None else exchanged.on(held)


def drawable_null_models(model: Model, number: int) -> tuple[int, str]:
    """How many null models there will be, and why there is none of a model that was to have some."""
    try:
        if number:
            draw_null_model(model, 0)
    except CannotDo as error:
        return 0, str(error)
    return number, ""


@dataclass(eq=False)
class NullModels:
    """The null models of a run, which are evaluated as the model is."""

    model: Model
    prepared: Prepared
    settings: HeadsSettings
    planned: int
    run: Open
    fits: list[CrossFit] = field(default_factory=list)  # of the model, then of each null model
    why_not: str = ""  # there are no fits

    @property
    def scored(self) -> int:
        """How many of the planned null models have their heads scored, at most."""
        most = self.settings.scored_nulls
        return self.planned if most is None else min(most, self.planned)

    @cached_property
    def rows(self) -> RowsQuestion:
        """SEAT of all rows."""
        resampling = Resampling(self.settings.resamples, self.settings.seed, items=True)
        return RowsQuestion(self.model, self.prepared.test, self.prepared.table.contexts, resampling)

    def ask(self) -> None:
        """Ask the model, then null models, until all verdicts are settled or all planned ones are there."""
        with stage(Stage.WORDS):
            if not self.rows.measurable:
                return
            _ = self.rows.measured  # begins in the background
        with stage(Stage.NULLS):
            self._fit("model", None, lambda: self.rows.vectors[self.prepared.table.by_occurrence(1)[0]])
            # one after the other; what is settled at an interim look is not measured in those that follow
            seats, fits, removals = True, bool(self.fits), True
            with steps("Null models", self.planned) as advance:
                for number in range(self.planned):
                    if number in looks(self.planned):
                        seats = seats and not self.rows.settled(self.planned)
                    fits = fits and number < self.scored
                    if number in looks(self.scored):
                        removals = fits and removals and not removal_closed(self.fits, self.scored)
                        fits = fits and (removals or not scores_closed(self.fits, self.scored))
                    if seats or fits:
                        self._ask_null_model(number, seats, fits, removals)
                        fits = fits and bool(self.fits)
                    advance(1)

    def stored(self) -> None:
        """Take what a run keeps in which all of them were evaluated."""
        if any(each.value is None for each in self.run.stored(Heads.cross_fit)):
            return  # the words cannot be halved
        labels = ("model", *(f"null model {number}" for number in range(1, self.planned + 1)))
        self.fits = [fit for label in labels for fit in self.run.stored(Heads.cross_fits.of(label))]

    def _ask_null_model(self, number: int, seats: bool, fits: bool, removals: bool) -> None:
        model, label, rows = self.model, f"null model {number + 1}", self.rows
        read_once: Callable[[], NDArray[Any]] = rows.read_few
        if not seats:
            read_once = partial(context_vectors, model, self._splits.table, "Heads in null models")
        once = cache(read_once)
        with as_null_model(model, draw_null_model(model, null_model_seed(self.settings.seed, number))):
            if seats:
                rows.add(self.run.results(Heads.null_seats.of(label), lambda: rows.seats(once())))
            if fits:
                first = rows.few.by_occurrence(1)[0] if seats else slice(None)
                self._fit(label, number, lambda: once()[first], removals)

    @cached_property
    def _splits(self) -> Splits:
        table, test = self.prepared.table, self.prepared.test
        return Splits.of(table, test, self.settings.splits, self.settings.seed)

    def _fit(
        self, label: str, null_model: int | None, vectors: Callable[[], Doubles], removals: bool = True
    ) -> None:
        """The fits of the model, or of a null model; without any of the model's there are none at all.

        removals: heads are removed too, not only scored.
        """
        if not self.settings.splits:
            return
        key, top = Heads.cross_fits.of(label), self.settings.top if removals else 0
        try:
            splits = self._splits
            self.fits += self.run.results(
                key, lambda: cross_fit(self.model, splits, vectors(), top, null_model)
            )
        except (BadProbe, CannotDo) as error:
            self.fits, self.why_not = [], str(error).rstrip(".")
