"""SEAT of one test three times, by the tokenizer's pieces, each with its null; and which row is sound.

All words, words matched by pieces, one-token words (probes/pieces.py). One pass over all words gives all
rows: in the model with intervals, in each null twin without. For rows without all words there is a second,
exact null: random words of the same lengths in the same templates, read once, drawn thousands of times
(docs/method.md, SEAT).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

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
from levelhead.scoring.seat import ask_seat, seat_of
from levelhead.scoring.word_table import WordTable, word_table

POOL = 600  # random words: more change no digit of the null's spread
DRAWS = 2_000


@dataclass(frozen=True)
class SeatRows:
    """SEAT by row, and the row that speaks for this tokenizer."""

    rows: dict[str, Measurement]
    tests: dict[str, WordTest]
    sound: str  # the first row whose twins lie around 0
    why: str


def ask_seat_rows(
    model: Model,
    test: WordTest,
    contexts: Sequence[Context],
    twins: Sequence[Twin],
    resampling: Resampling = DEFAULT,
) -> SeatRows:
    """SEAT of every row of a test with what null twins show of it, and which row is sound."""
    words = list(dict.fromkeys(word for listed in test.groups().values() for word in listed))
    tests = piece_rows(test, piece_counts(model, words)).present()
    table = word_table(test, contexts)
    parts = {name: table.part(_words(row)) for name, row in tests.items()}
    values: dict[str, list[float]] = {name: [] for name in parts}
    for twin in twins:
        with twinned(model, twin):
            vectors = read_one(model, table.static(), label="SEAT in null twins")[0]
        of_word = dict(zip(table.words, vectors, strict=True))
        for name, part in parts.items():
            values[name].append(
                seat_of(np.stack([of_word[word] for word in part.words]), _row(part, tests[name]))
            )
    nulls = {name: NullDistribution(np.array(found)) for name, found in values.items()}
    rows = {}
    for name, row in tests.items():
        measured = ask_seat(model, row, parts[name].contexts, resampling=resampling)[0]
        if measured.value is not None:
            measured = replace(measured, null=nulls[name].judged(measured.value, "null twins"))
        rows[name] = measured
    sound, why = sound_choice(nulls)
    return SeatRows(rows, tests, sound, why)


def _words(test: WordTest) -> set[str]:
    return {word for listed in test.groups().values() for word in listed}


def _row(part: WordTable, row: WordTest) -> WordTable:
    """The part's sets as the row lists them: a word of two pairs may have lost one of them."""
    number = {word: i for i, word in enumerate(part.words)}
    sets = {group: tuple(number[w] for w in listed if w in number) for group, listed in row.groups().items()}
    return replace(part, sets=sets)


def pool_null(
    model: Model, test: WordTest, templates: int, *, size: int = POOL, draws: int = DRAWS, seed: int = 0
) -> NullDistribution:
    """SEAT of random words in place of the test's, each with as many tokens, in the first so many templates.

    Exact for one-token words, where it is what twins that keep the templates would show; for words of several
    pieces it leaves out that listed words share pieces ("##woman"), which makes twins' values scatter more.
    On lh:bert-mini: one token 0.00 ± 0.18 (twins 0.01 ± 0.20), matched −0.01 ± 0.15 (0.00 ± 0.14), all
    words 0.27 ± 0.04 (0.22 ± 0.09): use it for the first two.
    """
    own = sorted(_words(test))
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
