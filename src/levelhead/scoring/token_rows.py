"""SEAT of one list several times, each with its null: by words' numbers of tokens, and by kinds of targets.

All words, words matched by tokens, one-token words (probes/token_rows.py), and the parts that the list names.
One pass over all words gives all rows: in the model with intervals; in each null twin, on the first contexts
of each word, without. What twins are held against is the model's SEAT on the same contexts. They say which of
the first three rows can be read as it is with this tokenizer (measures/null.py), and of each row how much is
more than they show themselves (measures/excess.py). For rows other than all words there is a second, exact
null: random words of the same lengths in the same templates, read once, drawn thousands of times
(docs/method.md, SEAT rows).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from levelhead.background import in_background
from levelhead.engine.run import read_one
from levelhead.measures.crossed import CrossedVectors
from levelhead.measures.excess import least_excess
from levelhead.measures.exchange import Exchange
from levelhead.measures.measurement import Measurement
from levelhead.measures.null import NullDistribution, null_seats, sound_choice
from levelhead.measures.rounds import MAIN_LEVEL, looks, settled, share
from levelhead.measures.seat.effect import why_no_effect
from levelhead.measures.seat_effect import SETS, SeatEffect, WordSets, units, word_means
from levelhead.measures.statistics import DEFAULT, Resampling
from levelhead.models.model import Model
from levelhead.models.twins import Twin, twinned
from levelhead.models.vocabulary import random_words, token_counts
from levelhead.probes.contexts import Context, template_contexts
from levelhead.probes.token_rows import ALL_WORDS, rows_by_token_count
from levelhead.probes.words import WordTest
from levelhead.results.records.heads import TwinSeat
from levelhead.scoring.seat import (
    SINGLY,
    association_sides,
    context_vectors,
    crossed_vectors,
    seat_of_crossed,
    word_sets,
)
from levelhead.scoring.word_table import WordTable, word_table

POOL = 600  # random words: more change no digit of the null's spread
DRAWS = 2_000
TWIN_CONTEXTS = SINGLY  # of each word, at most (docs/method.md, SEAT rows)
Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class SeatRows:
    """SEAT by row, and the row that speaks for this tokenizer."""

    rows: dict[str, Measurement]
    tests: dict[str, WordTest]
    parts: tuple[str, ...]  # the rows that are kinds of targets; the others are by number of tokens
    sound: str  # the first row by number of tokens whose twins lie around 0: it can be read as it is
    why: str


def ask_seat_rows(
    model: Model,
    test: WordTest,
    contexts: Sequence[Context],
    twins: Iterable[Twin] = (),
    resampling: Resampling = DEFAULT,
    *,
    planned: int | None = None,
) -> SeatRows:
    """SEAT of every row of a test with what null twins show of it, and which row is sound.

    planned: how many twins come, in rounds that end when the association is settled; None: all are asked.
    """
    rows = RowsQuestion(model, test, contexts, resampling)
    for number, twin in enumerate(twins):
        if planned is not None and number in looks(planned) and rows.settled(planned):
            break
        with twinned(model, twin):
            rows.add(rows.seats(rows.read_few()))
    return rows.answers(planned)


class RowsQuestion:
    """SEAT of every row of a test: the model is asked at once, null twins are added one by one."""

    def __init__(
        self, model: Model, test: WordTest, contexts: Sequence[Context], resampling: Resampling = DEFAULT
    ) -> None:
        self.model, self.resampling = model, resampling
        self.table = word_table(test, contexts)
        known = test.of(set(self.table.words))
        counts = token_counts(model, list(self.table.words))
        self._by_token_count = rows_by_token_count(known, counts).present()
        self.parts = known.by_part()
        self.tests = {**self._by_token_count, ALL_WORDS: test, **self.parts}
        self._tables = {name: _part(self.table, row) for name, row in self.tests.items()}
        self.few = self.table.first_contexts(_twin_contexts(self.table))  # what twins are asked
        self._seats: dict[str, _TwinSeats] = {}

    @cached_property
    def vectors(self) -> Doubles:
        """The model's vectors of all contexts."""
        return np.asarray(context_vectors(self.model, self.table, "Word association"))

    @cached_property
    def _own(self) -> dict[str, CrossedVectors]:
        """The model's vectors of each row."""
        return {
            name: crossed_vectors(self.vectors[_kept(self.table, table)], table, self.tests[name])
            for name, table in self._tables.items()
        }

    def begin(self) -> None:
        """Begin with all rows in the background: their intervals wait for nobody, and nobody for them."""
        _ = self._measured

    @property
    def _rows(self) -> dict[str, Measurement]:
        """Every row in the model, with its interval."""
        return self._measured.result()

    @cached_property
    def _measured(self) -> Future[dict[str, Measurement]]:
        own = self._own

        def measured() -> dict[str, Measurement]:
            return {
                name: seat_of_crossed(own[name], self._tables[name], row, self.resampling)
                for name, row in self.tests.items()
            }

        return in_background(measured)

    @property
    def measurable(self) -> bool:
        """Whether all words have a SEAT in the model."""
        return not why_no_effect(*association_sides(self._own[ALL_WORDS].means, self._tables[ALL_WORDS]))

    @cached_property
    def _sets(self) -> dict[str, WordSets]:
        """The rows' words, by their numbers among those that twins are asked."""
        number = {word: i for i, word in enumerate(self.few.words)}
        return {
            name: word_sets(table, self.tests[name]).numbered([number[word] for word in table.words])
            for name, table in self._tables.items()
        }

    # ---- null twins

    def read_few(self) -> Doubles:
        """The contexts that twins are asked, in the twin that the model is at the moment: [context, d]."""
        return np.asarray(context_vectors(self.model, self.few, "Word association in null models"))

    def seats(self, vectors: Doubles) -> list[TwinSeat]:
        """SEAT of every row in one twin, from its vectors of the first contexts."""
        return [
            TwinSeat(name, effect.value, tuple(tuple(map(_short, kind)) for kind in effect.influences()))
            for name, effect in self._effects(vectors)
        ]

    def _effects(self, vectors: Doubles) -> Iterator[tuple[str, SeatEffect]]:
        """SEAT of every row that has one, from vectors of the first contexts."""
        words = units(word_means(vectors, np.asarray(self.few.word)))
        for name, sets in self._sets.items():
            if (effect := SeatEffect.of_units(words, sets)) is not None:
                yield name, effect

    def add(self, seats: Iterable[TwinSeat]) -> None:
        """One more twin. The model itself is not asked here: it may be that twin at the moment."""
        for seat in seats:
            self._seats.setdefault(seat.row, _TwinSeats()).add(seat)

    def settled(self, planned: int) -> bool:
        """Whether the association's verdict is the one that all planned twins would give (rounds.py)."""
        seats = self._seats.get(ALL_WORDS)
        if seats is None or seats.draws < 2 or ALL_WORDS not in self._there:
            return False
        null, there = seats.null, self._there[ALL_WORDS]
        spoken = self._judged(ALL_WORDS, share(seats.draws, planned)).null
        certain = spoken is not None and (spoken.p_value >= MAIN_LEVEL or (spoken.least or 0.0) > 0)
        return certain and settled(null, there, planned, MAIN_LEVEL)

    # ---- what is measured

    def answers(self, planned: int | None = None) -> SeatRows:
        """All rows, held against the twins so far. planned: how many there were to be, in rounds."""
        rows = dict(self._rows)
        for name, seats in self._seats.items():
            if seats.draws > 1 and rows[name].value is not None and name in self._there:
                rows[name] = self._judged(name, 1.0 if planned is None else share(seats.draws, planned))
        candidates = {
            name: self._seats[name].null
            for name in self._by_token_count
            if name in self._seats and self._seats[name].draws > 1 and rows[name].value is not None
        }
        sound, why = sound_choice(candidates) if candidates else (ALL_WORDS, "no null twin was asked")
        return SeatRows(rows, self.tests, tuple(self.parts), sound, why)

    @cached_property
    def _there(self) -> dict[str, float]:
        """The model's SEAT on the contexts that twins are asked: like is held against like."""
        place = {context: i for i, context in enumerate(self.table.contexts)}
        vectors = self.vectors[[place[context] for context in self.few.contexts]]
        return {name: effect.value for name, effect in self._effects(vectors)}

    def _judged(self, name: str, spent: float) -> Measurement:
        row, there = self._rows[name], self._there[name]
        return self._seats[name].judged(row, there, self._own[name].influences, self.resampling, spent)


def _twin_contexts(table: WordTable) -> int:
    """How many contexts of each word twins are asked: half of the model's, and no more than two."""
    return min(TWIN_CONTEXTS, max(1, len(table.contexts) // len(table.words) // 2))


def _short(value: float) -> float:
    """A number as a run folder keeps it of every word and twin."""
    return float(f"{value:.6g}")


def _part(table: WordTable, row: WordTest) -> WordTable:
    """The table of a row's words, with its sets as the row lists them."""
    words = {word for listed in row.groups().values() for word in listed}
    return word_table(row, [context for context in table.contexts if context.word in words])


def _kept(table: WordTable, part: WordTable) -> list[int]:
    """Which contexts of the table a part has."""
    words = set(part.words)
    return [i for i, word in enumerate(table.word) if table.words[word] in words]


class _TwinSeats:
    """SEAT of one row in null twins, and what words do to it in the mean over them."""

    def __init__(self) -> None:
        self._values: list[float] = []
        self._influences: list[Doubles] = []  # of attribute pairs, X, Y; summed over twins

    def add(self, seat: TwinSeat) -> None:
        """One more twin."""
        self._values.append(seat.value)
        new = [np.asarray(kind) for kind in seat.influences]
        old = self._influences or [np.zeros_like(kind) for kind in new]
        self._influences = [kind + more for kind, more in zip(old, new, strict=True)]

    @property
    def draws(self) -> int:
        return len(self._values)

    @property
    def null(self) -> NullDistribution:
        return NullDistribution(np.array(self._values))

    def judged(
        self,
        row: Measurement,
        there: float,
        influences: Sequence[Doubles],
        resampling: Resampling,
        spent: float = 1.0,
    ) -> Measurement:
        """A row with its place among twins, and how far it lies from them at least on other words.

        The place is that of SEAT on the twins' own contexts, so that like is held against like. spent: the
        share of the error at this look.
        """
        if row.value is None or not influences:
            return row
        of_twins = [kind / len(self._values) for kind in self._influences]
        least = least_excess(row.value, self.null, influences, of_twins, resampling)
        null = replace(self.null.at_look(spent).judged(there, "null twins"), least=least)
        held = replace(row, null=null, details={**row.details, "on_twins_contexts": there})
        exchanged = Exchange.of(row)
        return held if exchanged is None else exchanged.on(held)


def pool_null(
    model: Model, test: WordTest, templates: int, *, size: int = POOL, draws: int = DRAWS, seed: int = 0
) -> NullDistribution:
    """SEAT of random words in place of the test's, each with as many tokens, in the first so many templates.

    Exact for one-token words, where it is what twins that keep the templates would show; for words of several
    tokens it leaves out that listed words share tokens ("##woman"), which makes twins' values scatter more.
    On lh:bert-mini: one token 0.00 ± 0.18 (twins 0.01 ± 0.20), matched −0.01 ± 0.15 (0.00 ± 0.14), all
    words 0.27 ± 0.04 (0.22 ± 0.09): use it for the first two.
    """
    own = sorted({word for listed in test.groups().values() for word in listed})
    tokens = token_counts(model, own)
    lengths = Counter(tokens.values())
    taken = {*own, *(word.casefold() for word in own)}
    pool: list[str] = []
    for length, count in sorted(lengths.items()):
        wanted = max(2 * count, math.ceil(size * count / len(own)))
        pool += random_words(model, length, wanted, seed, taken)
    stand_ins = WordTest("pool", (pool[0],), (pool[1],), tuple(pool[2:]), tuple(own))
    table = word_table(stand_ins, template_contexts(stand_ins, templates))
    vectors = read_one(model, table.static(), label="SEAT of random words")[0]
    number = {word: i for i, word in enumerate(table.words)}
    words = WordSets({group: [number[w] for w in test.groups()[group]] for group in SETS})
    known = {**tokens, **token_counts(model, pool)}
    strata = [known[word] for word in table.words]
    return null_seats(vectors, words, (strata, strata), draws, seed)
