"""SEAT of a model in any of its variants: one measurement for each variant.

What a model cannot be asked comes back as a measurement without a value and with the reason, so that a study
that varies edits over many models need not know which model can do what.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.sites import UNTOUCHED, Variant
from levelhead.engine.readings import Pooling, SentenceVectors
from levelhead.engine.run import read_one
from levelhead.errors import CannotDo
from levelhead.measures.crossed import CrossedVectors, nested_vectors
from levelhead.measures.exchange import Exchange, exchange
from levelhead.measures.measurement import Measurement
from levelhead.measures.seat.effect import (
    DIFFERENCE_HIGH,
    DIFFERENCE_LOW,
    SETS,
    associations,
    effect_measurement,
    seat,
    why_no_effect,
)
from levelhead.measures.seat.measurements import seat_measurement
from levelhead.measures.seat_effect import WordSets, units
from levelhead.measures.statistics import DEFAULT, Resampling
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.probes.contexts import Context
from levelhead.probes.words import SentenceTest, WordTest, load_seat_test
from levelhead.results.records.common import WordAssociation
from levelhead.scoring.word_table import WordTable, word_table

SEAT = "seat"  # the name of its measurements
_FLOATS = 1 << 25  # vectors held at once, 128 MiB; beyond it variants are asked in turns
VECTORS = "L2-normalized last_hidden_state"
FOLLOWS: dict[Pooling, str] = {  # whose reading of a sentence each pooling is
    "mean": "ours: special tokens left out",
    "mean-special": "Meade et al. 2022: special tokens included",
    "cls": "May et al. 2019, for BERT",
    "last": "May et al. 2019, for GPT",
}
SINGLY = 2  # contexts of each word that are asked by themselves, as null models are asked
Doubles = NDArray[np.float64]
Floats = NDArray[np.float32]


# ---- SEAT over words


def ask_seat(
    model: Model,
    test: WordTest,
    contexts: Iterable[Context],
    variants: Sequence[Variant] = UNTOUCHED,
    *,
    resampling: Resampling = DEFAULT,
    intervals: bool | None = None,
) -> list[Measurement]:
    """SEAT over static word vectors in every variant, with its permutation p-value (docs/method.md, SEAT).

    intervals: how far other words and other sentences of this kind would move the value: attribute pairs,
    targets and templates are redrawn, crossed; with sentences of each word's own, words with their sentences.
    By default while the context vectors of one variant fit into 128 MiB: intervals need every context's
    vector, the value alone needs one vector for each word.
    """
    table = word_table(test, contexts)
    width = int(model.config.hidden_size)
    size = len(table.contexts) * width
    if intervals is None and size > _FLOATS:
        without = f"left out: {len(table.contexts)} contexts take too much memory"
    else:
        without = "" if intervals is not False else "not asked for"
    measurements: list[Measurement] = []
    for some in turns(variants, 2 * len(table.words) * width if without else size):
        if without:
            static = read_one(model, table.static(), some, label="SEAT")
            settings = {"interval": without, "seed": resampling.seed}
            measured = [
                _completed(_without_interval(v, table, settings), v, table, test, resampling) for v in static
            ]
        else:
            vectors = read_one(model, table.each(), some, label="SEAT")
            measured = [seat_of_contexts(v, table, test, resampling) for v in vectors]
        measurements += measured
    return measurements


def turns(variants: Sequence[Variant], floats: int) -> list[Sequence[Variant]]:
    """Variants in groups whose answers, `floats` float32 each, are held in memory together."""
    step = max(1, _FLOATS // max(1, floats))
    return [variants[start : start + step] for start in range(0, len(variants), step)]


def context_vectors(model: Model, table: WordTable, label: str = "Words") -> Floats:
    """The vector of every word in each of its contexts: [context, hidden].

    First contexts, second ones and all others are asked by themselves: a part that another question of the
    same audit has asked is not asked again.
    """
    parts = table.in_turn(SINGLY)
    vectors = [read_one(model, table.at(places).each(), label=label)[0] for places in parts]
    together = np.empty((len(table.contexts), vectors[0].shape[1]), np.float32)
    for places, part in zip(parts, vectors, strict=True):
        together[places] = part
    return together


def seat_of(vectors: Doubles, table: WordTable) -> float:
    """SEAT of static vectors [word, hidden]."""
    return seat(*association_sides(vectors, table))


def word_associations(model: Model, table: WordTable) -> list[WordAssociation]:
    """s(w) of every target word, those of X first: what SEAT is the effect size of."""
    (vectors,) = read_one(model, table.static(), label="Words")
    sides = zip(("X", "Y"), association_sides(vectors, table), strict=True)
    return [
        WordAssociation(table.words[number], group, float(s))
        for group, side in sides
        for number, s in zip(table.sets[group], side, strict=True)
    ]


def association_sides(vectors: Doubles, table: WordTable) -> tuple[Doubles, Doubles]:
    """s of every target of X, and of Y, from static vectors [word, hidden]."""
    a, b, x, y = (vectors[list(table.sets[name])] for name in SETS)
    return associations(x, a, b), associations(y, a, b)


def seat_of_contexts(
    vectors: Doubles, table: WordTable, test: WordTest, resampling: Resampling = DEFAULT
) -> Measurement:
    """SEAT of vectors [context, hidden], with the permutation p of its targets, and the interval that redraws
    words and contexts."""
    return seat_of_crossed(crossed_vectors(vectors, table, test), table, test, resampling)


def seat_of_crossed(
    crossed: CrossedVectors, table: WordTable, test: WordTest, resampling: Resampling = DEFAULT
) -> Measurement:
    """The same, of vectors by word and template."""
    return _completed(_with_interval(crossed, table, resampling), crossed.means, table, test, resampling)


def crossed_vectors(vectors: Doubles, table: WordTable, test: WordTest) -> CrossedVectors:
    """Vectors [context, hidden] by word and template, or by word where each has sentences of its own."""
    words, order = word_sets(table, test), table.crossed_order()
    if order is None:
        return nested_vectors(vectors, table.word, words)
    return CrossedVectors(vectors[order], words)


def _with_interval(crossed: CrossedVectors, table: WordTable, resampling: Resampling) -> Measurement:
    plain = _without_interval(crossed.means, table, {"seed": resampling.seed})
    if plain.value is None:
        return plain
    wide = crossed.seat(resampling)
    ends = {name: wide.details[name] for name in (DIFFERENCE_LOW, DIFFERENCE_HIGH) if name in wide.details}
    return replace(
        plain,
        interval=wide.interval,
        settings=wide.settings,
        influence=wide.influence,
        details={**plain.details, **ends},
    )


def word_sets(table: WordTable, test: WordTest) -> WordSets:
    """The sets of a table, with the attribute words that are counterparts."""
    number = {word: i for i, word in enumerate(table.words)}
    return WordSets(
        table.sets, [(number[a], number[b]) for a, b in test.pairs if a in number and b in number]
    )


def _without_interval(vectors: Doubles, table: WordTable, settings: dict[str, object]) -> Measurement:
    s_x, s_y = association_sides(vectors, table)
    sizes = {f"n_{name.lower()}": float(len(table.sets[name])) for name in SETS}
    known: dict[str, object] = {"n": len(table.contexts), "settings": settings, "details": sizes}
    if reason := why_no_effect(s_x, s_y):
        return Measurement.missing(SEAT, reason, neutral=0.0, **known)
    return effect_measurement(SEAT, s_x, s_y, None, known)


def _completed(
    measured: Measurement, vectors: Doubles, table: WordTable, test: WordTest, resampling: Resampling
) -> Measurement:
    known = {
        "words": test.name,
        "data_hash": test.fingerprint(),
        "pooling": "mean over the subword tokens of last_hidden_state",
        "seed": resampling.seed,
    }
    lost = {"entry without context": table.lost} if table.lost else {}
    completed = replace(measured, unscored=lost, settings={**measured.settings, **known})
    exchanged = _exchange(measured, vectors, table, test, resampling.seed)
    return completed if exchanged is None else exchanged.on(completed)


def _exchange(
    measured: Measurement, vectors: Doubles, table: WordTable, test: WordTest, seed: int
) -> Exchange | None:
    """The group words exchanged, by SEAT's numerator; vectors: of words, [word, hidden]."""
    if measured.value is None:
        return None
    unit = units(np.asarray(vectors, np.float64)).unit
    x, y = (unit[list(table.sets[name])].mean(axis=0) for name in "XY")
    apart = x - y
    of_word = {table.words[i]: float(unit[i] @ apart) for name in "AB" for i in table.sets[name]}
    return exchange(of_word, (test.A, test.B), test.pairs, leans=measured.value, seed=seed)


# ---- SEAT over sentences


def sentence_seat(
    model: Model,
    test: SentenceTest | str | Path,
    pooling: Pooling = "mean",
    *,
    resampling: Resampling = DEFAULT,
) -> Measurement:
    """Sentence-level SEAT: a file's sentences, each as one L2-normalized vector of the last hidden state.

    pooling: cls (the first token) as May et al. 2019 read BERT, last (the text's own last token) as they read
    GPT, mean-special (over all tokens, [CLS] and [SEP] among them) as Meade et al. 2022 read every model, and
    mean (over the text's own tokens), which is ours. The choice changes the value; the result names it.
    """
    return ask_sentence_seat(model, test, pooling=pooling, resampling=resampling)[0]


def ask_sentence_seat(
    model: Model,
    test: SentenceTest | str | Path,
    variants: Sequence[Variant] = UNTOUCHED,
    *,
    pooling: Pooling = "mean",
    resampling: Resampling = DEFAULT,
) -> list[Measurement]:
    """Sentence-level SEAT in every variant."""
    loaded = test if isinstance(test, SentenceTest) else load_seat_test(test)
    if pooling == "cls" and model.family.causal:
        raise CannotDo(
            f"{model.name} is causal: its first token sees nothing of the text. Use --pooling mean or last."
        )
    groups = loaded.groups()
    reading = SentenceVectors([Text(text) for name in SETS for text in groups[name]], pooling)
    ends = np.cumsum([len(groups[name]) for name in SETS])[:-1]
    answers = read_one(model, reading, variants, label="SEAT")
    settings = {"test": loaded.name, "pooling": pooling, "follows": FOLLOWS[pooling], "vectors": VECTORS}
    measurements = []
    for vectors in answers:
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        measured = seat_measurement(dict(zip(SETS, np.split(unit, ends), strict=True)), resampling)
        measurements.append(replace(measured, settings={**measured.settings, **settings}))
    return measurements
