"""SEAT of one list several times, each with its null: by the tokenizer's pieces, and by kinds of targets.

All words, words matched by pieces, one-token words (probes/pieces.py), and the parts that the list names. One
pass over all words gives all rows: in the model with intervals; in each null twin, on the first contexts of
each word, without. What twins are held against is the model's SEAT on the same contexts. They say which of
the first three rows can be read as it is with this tokenizer (measures/null.py), and of each row how much is
more than they show themselves (measures/excess.py). For rows other than all words there is a second, exact
null: random words of the same lengths in the same templates, read once, drawn thousands of times
(docs/method.md, SEAT rows).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from levelhead.engine.run import read_one
from levelhead.measures.excess import least_excess
from levelhead.measures.measurement import Measurement
from levelhead.measures.null import NullDistribution, null_seats, sound_choice
from levelhead.measures.seat_effect import SETS, SeatEffect, WordSets
from levelhead.measures.statistics import DEFAULT, Resampling
from levelhead.models.model import Model
from levelhead.models.twins import Twin, twinned
from levelhead.models.vocabulary import piece_counts, random_words
from levelhead.probes.contexts import Context, template_contexts
from levelhead.probes.pieces import ALL_WORDS, piece_rows
from levelhead.probes.words import WordTest
from levelhead.scoring.seat import first_seat, seat_influences, seat_of_contexts, word_sets
from levelhead.scoring.word_table import WordTable, word_table

POOL = 600  # random words: more change no digit of the null's spread
DRAWS = 2_000
TWIN_CONTEXTS = 4  # of each word, at most: with one, SEAT of lh:gpt-mini's twins scatters by half more
Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class SeatRows:
    """SEAT by row, and the row that speaks for this tokenizer."""

    rows: dict[str, Measurement]
    tests: dict[str, WordTest]
    parts: tuple[str, ...]  # the rows that are kinds of targets; the others are by pieces
    sound: str  # the first row by pieces whose twins lie around 0: it can be read as it is
    why: str


def ask_seat_rows(
    model: Model,
    test: WordTest,
    contexts: Sequence[Context],
    twins: Iterable[Twin] = (),
    resampling: Resampling = DEFAULT,
) -> SeatRows:
    """SEAT of every row of a test with what null twins show of it, and which row is sound."""
    table = word_table(test, contexts)
    known = test.of(set(table.words))
    by_pieces = piece_rows(known, piece_counts(model, list(table.words))).present()
    parts = known.by_part()
    tests = {**by_pieces, ALL_WORDS: test, **parts}
    tables = {name: _part(table, row) for name, row in tests.items()}
    vectors = read_one(model, table.each(), label="SEAT")[0]
    own = {name: vectors[_kept(table, tables[name])] for name in tests}
    rows = {name: seat_of_contexts(own[name], tables[name], row, resampling) for name, row in tests.items()}
    sets = {name: word_sets(tables[name], tests[name]) for name, row in rows.items() if row.value is not None}
    of_twins = _twin_seats(model, table, tables, sets, twins)
    for name, seats in of_twins.items():
        influences = seat_influences(own[name], tables[name], sets[name])
        there = first_seat(own[name], tables[name], _twin_contexts(table))
        rows[name] = seats.judged(rows[name], there, influences, resampling)
    nulls = {name: seats.null for name, seats in of_twins.items()}
    candidates = {name: nulls[name] for name in by_pieces if name in nulls}
    sound, why = sound_choice(candidates) if candidates else (ALL_WORDS, "no null twin was asked")
    return SeatRows(rows, tests, tuple(parts), sound, why)


def _twin_contexts(table: WordTable) -> int:
    """How many contexts of each word twins are asked: half of the model's, but two and at most four."""
    return min(TWIN_CONTEXTS, max(2, len(table.contexts) // len(table.words) // 2))


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

    def add(self, effect: SeatEffect | None) -> None:
        """One more twin; None, where it has no SEAT, does not count."""
        if effect is None:
            return
        self._values.append(effect.value)
        new = effect.influences()
        old = self._influences or [np.zeros_like(kind) for kind in new]
        self._influences = [kind + more for kind, more in zip(old, new, strict=True)]

    @property
    def null(self) -> NullDistribution:
        return NullDistribution(np.array(self._values))

    def judged(
        self, row: Measurement, there: float, influences: Sequence[Doubles], resampling: Resampling
    ) -> Measurement:
        """A row with its place among twins, and how far it lies from them at least on other words.

        The place is that of SEAT on the twins' own contexts, so that like is held against like.
        """
        if row.value is None or not influences:
            return row
        of_twins = [kind / len(self._values) for kind in self._influences]
        least = least_excess(row.value, self.null, influences, of_twins, resampling)
        null = replace(self.null.judged(there, "null twins"), least=least)
        return replace(row, null=null, details={**row.details, "on_twins_contexts": there})


def _twin_seats(
    model: Model,
    table: WordTable,
    tables: Mapping[str, WordTable],
    sets: Mapping[str, WordSets],
    twins: Iterable[Twin],
) -> dict[str, _TwinSeats]:
    """SEAT of every row in every twin, from one pass of the twin; nothing without twins."""
    few = table.first_contexts(_twin_contexts(table))
    number = {word: i for i, word in enumerate(few.words)}
    seats: dict[str, _TwinSeats] = {}
    for twin in twins:
        with twinned(model, twin):
            vectors = read_one(model, few.static(), label="SEAT in null twins")[0]
        for name, words in sets.items():
            places = [number[word] for word in tables[name].words]
            seats.setdefault(name, _TwinSeats()).add(SeatEffect.of(vectors[places], words))
    return seats


def pool_null(
    model: Model, test: WordTest, templates: int, *, size: int = POOL, draws: int = DRAWS, seed: int = 0
) -> NullDistribution:
    """SEAT of random words in place of the test's, each with as many tokens, in the first so many templates.

    Exact for one-token words, where it is what twins that keep the templates would show; for words of several
    pieces it leaves out that listed words share pieces ("##woman"), which makes twins' values scatter more.
    On lh:bert-mini: one token 0.00 ± 0.18 (twins 0.01 ± 0.20), matched −0.01 ± 0.15 (0.00 ± 0.14), all
    words 0.27 ± 0.04 (0.22 ± 0.09): use it for the first two.
    """
    own = sorted({word for listed in test.groups().values() for word in listed})
    pieces = piece_counts(model, own)
    lengths = Counter(pieces.values())
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
    known = {**pieces, **piece_counts(model, pool)}
    strata = [known[word] for word in table.words]
    return null_seats(vectors, words, (strata, strata), draws, seed)
