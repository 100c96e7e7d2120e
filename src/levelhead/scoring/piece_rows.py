"""SEAT of one list several times, each with its null: by the tokenizer's pieces, and by kinds of targets.

All words, words matched by pieces, one-token words (probes/pieces.py), and the parts that the list names. One
pass over all words gives all rows: in the model with intervals, in each null twin, on the first context of
each word, without. Which of the first three is sound for this tokenizer is what the twins say
(measures/null.py). For rows other than all words there is a second, exact null: random words of the same
lengths in the same templates, read once, drawn thousands of times (docs/method.md, SEAT rows).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from levelhead.engine.run import read_one
from levelhead.measures.crossed import SETS, WordSets
from levelhead.measures.measurement import Measurement
from levelhead.measures.null import NullDistribution, null_seats, sound_choice
from levelhead.measures.statistics import DEFAULT, Resampling
from levelhead.models.model import Model
from levelhead.models.twins import Twin, twinned
from levelhead.models.vocabulary import piece_counts, random_words
from levelhead.probes.contexts import Context, template_contexts
from levelhead.probes.pieces import piece_rows
from levelhead.probes.words import WordTest
from levelhead.scoring.seat import seat_of, seat_of_contexts
from levelhead.scoring.word_table import WordTable, word_table

POOL = 600  # random words: more change no digit of the null's spread
DRAWS = 2_000
ALL_WORDS = "all words"
Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class SeatRows:
    """SEAT by row, and the row that speaks for this tokenizer."""

    rows: dict[str, Measurement]
    tests: dict[str, WordTest]
    parts: tuple[str, ...]  # the rows that are kinds of targets; the others are by pieces
    sound: str  # the first row by pieces whose twins lie around 0
    why: str


def ask_seat_rows(
    model: Model,
    test: WordTest,
    contexts: Sequence[Context],
    twins: Iterable[Twin] = (),
    resampling: Resampling = DEFAULT,
) -> SeatRows:
    """SEAT of every row of a test with what null twins show of it, and which row is sound.

    One context a word scatters a little more than several do, so the null is, if anything, too wide.
    """
    table = word_table(test, contexts)
    known = test.of(set(table.words))
    by_pieces = piece_rows(known, piece_counts(model, list(table.words))).present()
    parts = known.by_part()
    tests = {**by_pieces, ALL_WORDS: test, **parts}
    tables = {name: _part(table, row) for name, row in tests.items()}
    vectors = read_one(model, table.each(), label="SEAT")[0]
    rows = {
        name: seat_of_contexts(vectors[_kept(table, tables[name])], tables[name], row, resampling)
        for name, row in tests.items()
    }
    measured_tables = {name: tables[name] for name, measured in rows.items() if measured.value is not None}
    nulls = _nulls(model, table.first_contexts(), measured_tables, twins)
    for name, null in nulls.items():
        value = rows[name].value
        if value is not None:
            rows[name] = replace(rows[name], null=null.judged(value, "null twins"))
    candidates = {name: nulls[name] for name in by_pieces if name in nulls}
    sound, why = sound_choice(candidates) if candidates else (ALL_WORDS, "no null twin was asked")
    return SeatRows(rows, tests, tuple(parts), sound, why)


def _part(table: WordTable, row: WordTest) -> WordTable:
    """The table of a row's words, with its sets as the row lists them."""
    words = {word for listed in row.groups().values() for word in listed}
    return word_table(row, [context for context in table.contexts if context.word in words])


def _kept(table: WordTable, part: WordTable) -> list[int]:
    """Which contexts of the table a part has."""
    words = set(part.words)
    return [i for i, word in enumerate(table.word) if table.words[word] in words]


def _nulls(
    model: Model, single: WordTable, tables: Mapping[str, WordTable], twins: Iterable[Twin]
) -> dict[str, NullDistribution]:
    """SEAT of every row in every twin, from one pass of the twin; nothing without twins."""
    number = {word: i for i, word in enumerate(single.words)}
    places = {name: [number[word] for word in table.words] for name, table in tables.items()}
    values: dict[str, list[float]] = {name: [] for name in tables}
    for twin in twins:
        with twinned(model, twin):
            vectors = read_one(model, single.static(), label="SEAT in null twins")[0]
        for name, table in tables.items():
            values[name].append(seat_of(vectors[places[name]], table))
    return {name: NullDistribution(np.array(own)) for name, own in values.items() if own}


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
