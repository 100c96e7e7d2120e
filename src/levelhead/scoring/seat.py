"""SEAT of a model in any of its variants, and the contexts of the words that it reads.

What a model cannot do comes back as a measurement without a value and with the reason, so that a study
that varies edits over many models need not know which model can do what.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.sites import UNTOUCHED, Variant
from levelhead.engine.readings import Pooling, SentenceVectors, StaticVectors, WordVectors
from levelhead.engine.run import read_one
from levelhead.errors import BadProbe, CannotDo
from levelhead.measures.crossed import CrossedVectors, WordSets, nested_vectors, units
from levelhead.measures.exchange import exchange
from levelhead.measures.measurement import Measurement
from levelhead.measures.seat import (
    DIFFERENCE_HIGH,
    DIFFERENCE_LOW,
    SETS,
    associations,
    effect_measurement,
    seat_measurement,
    why_no_effect,
)
from levelhead.measures.statistics import DEFAULT, Resampling
from levelhead.models.concurrency import TOKENIZING
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.probes.contexts import Context, surface
from levelhead.probes.words import SentenceTest, WordTest, load_seat_test
from levelhead.runs.common import WordAssociation

SEAT = "seat"  # the name of its measurements
_FLOATS = 1 << 25  # vectors held at once, 128 MiB; beyond it variants are read in several groups
VECTORS = "L2-normalized last_hidden_state"
FOLLOWS: dict[Pooling, str] = {  # whose reading of a sentence each pooling is
    "mean": "ours: special tokens left out",
    "mean-special": "Meade et al. 2022: special tokens included",
    "cls": "May et al. 2019, for BERT",
    "last": "May et al. 2019, for GPT",
}
SINGLY = 2  # contexts of each word that are read by themselves, as null models read them
Doubles = NDArray[np.float64]
Floats = NDArray[np.float32]
_CHUNK = 512  # texts whose length is found at a time


# ---- contexts


@dataclass(frozen=True)
class WordTable:
    """Distinct contexts with the number of their word, and the numbers of the words in A, B, X and Y."""

    contexts: tuple[Context, ...]
    word: tuple[int, ...]  # [context]
    words: tuple[str, ...]  # number -> word
    sets: Mapping[str, tuple[int, ...]]  # list entries as given, with repeats; those without context left out
    missing: tuple[str, ...]  # listed words without context
    lost: int  # list entries without context

    def static(self) -> StaticVectors:
        """The reading of one vector for each word."""
        each = self.each()
        return StaticVectors(each.texts, each.spans, self.word)

    def each(self) -> WordVectors:
        """The reading of one vector for each context."""
        texts = [Text(context.text) for context in self.contexts]
        return WordVectors(texts, [(context.start, context.end) for context in self.contexts])

    def first_contexts(self, n: int = 1) -> WordTable:
        """The table with the first n contexts of each word alone."""
        return self.at(sorted(place for part in self.by_occurrence(n)[:n] for place in part))

    def by_occurrence(self, singly: int) -> list[list[int]]:
        """Places of contexts: the first of each word, the second ... so many times, then all others."""
        parts: list[list[int]] = [[] for _ in range(singly + 1)]
        seen: Counter[int] = Counter()
        for place, word in enumerate(self.word):
            parts[min(seen[word], singly)].append(place)
            seen[word] += 1
        return [part for part in parts if part]

    def at(self, places: Sequence[int]) -> WordTable:
        contexts = tuple(self.contexts[i] for i in places)
        return replace(self, contexts=contexts, word=tuple(self.word[i] for i in places))

    def part(self, words: Collection[str]) -> WordTable:
        """The table of some of the words, numbered anew; BadProbe if a set loses all of its words."""
        kept = [i for i, number in enumerate(self.word) if self.words[number] in words]
        names = list(dict.fromkeys(self.words[self.word[i]] for i in kept))
        number = {name: i for i, name in enumerate(names)}
        sets = self.sets_of(number).items()
        return replace(
            self,
            contexts=tuple(self.contexts[i] for i in kept),
            word=tuple(number[self.words[self.word[i]]] for i in kept),
            words=tuple(names),
            sets={group: tuple(number[self.words[w]] for w in entries) for group, entries in sets},
        )

    def sets_of(self, words: Collection[str]) -> dict[str, tuple[int, ...]]:
        """The sets with some of the words alone; BadProbe if one of them loses all but one."""
        kept = {w for w, word in enumerate(self.words) if word in words}
        sets = {group: tuple(w for w in entries if w in kept) for group, entries in self.sets.items()}
        if empty := [group for group, entries in sets.items() if len(entries) < 2]:
            raise BadProbe(f"Fewer than 2 words of {empty[0]} are left; a part of a word list needs more.")
        return sets


def word_table(test: WordTest, contexts: Iterable[Context]) -> WordTable:
    """Number the words that have contexts. A word in two sets, or listed twice, has one vector."""
    kept = list({(c.word, c.text, c.start): c for c in contexts}.values())
    numbers: dict[str, int] = {}
    for context in kept:
        numbers.setdefault(context.word, len(numbers))
    groups = test.groups()
    sets = {name: tuple(numbers[w] for w in words if w in numbers) for name, words in groups.items()}
    for name, entries in sets.items():
        if not entries:
            raise BadProbe(
                f"{test.name}: none of the {len(groups[name])} words of {name} has a context. "
                "Use a larger corpus, other words, or the templates."
            )
    missing = tuple(dict.fromkeys(w for words in groups.values() for w in words if w not in numbers))
    lost = sum(len(words) - len(sets[name]) for name, words in groups.items())
    return WordTable(tuple(kept), tuple(numbers[c.word] for c in kept), tuple(numbers), sets, missing, lost)


def sample_contexts(
    test: WordTest, contexts: Iterable[Context], words: int, seed: int, per_word: int = 1
) -> list[Context]:
    """One context, or `per_word`, for each of at most so many words of every set, drawn by the seed.

    Each word begins at another of its contexts.
    """
    rng = np.random.default_rng(seed)
    of_group: dict[str, dict[str, list[Context]]] = {group: {} for group in test.groups()}
    for context in contexts:
        of_group[context.group].setdefault(context.word, []).append(context)
    chosen: list[Context] = []
    for of_word in of_group.values():
        names = list(of_word)
        picked = sorted(rng.permutation(len(names))[:words])
        for number, own in enumerate(of_word[names[i]] for i in picked):
            chosen += [own[(number + more) % len(own)] for more in range(min(per_word, len(own)))]
    return chosen


def unknown_words(model: Model, words: Iterable[str]) -> set[str]:
    """Words that the tokenizer cannot write: all of them would share the vector of its unknown token."""
    unknown, listed = model.tokenizer.unk_token_id, list(dict.fromkeys(words))
    if unknown is None or not listed:
        return set()
    with TOKENIZING:
        tokens = model.tokenizer([surface(word) for word in listed], add_special_tokens=False)["input_ids"]
    return {word for word, ids in zip(listed, tokens, strict=True) if unknown in ids}


def fitting(model: Model, texts: Sequence[str]) -> list[bool]:
    """Whether each text fits into the model's positions; one long sentence must not stop a study."""
    if model.max_tokens is None:
        return [True] * len(texts)
    fits: list[bool] = []
    room, prefix = model.max_tokens - model.opening.more, model.opening.prefix
    for start in range(0, len(texts), _CHUNK):
        with TOKENIZING:
            tokens = model.tokenizer([prefix + text for text in texts[start : start + _CHUNK]])["input_ids"]
        fits += [len(ids) <= room for ids in tokens]
    return fits


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
    """SEAT over static word vectors in every variant, with its permutation p-value (docs/method/words.md,
    SEAT).

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
    for some in held_together(variants, 2 * len(table.words) * width if without else size):
        if without:
            static = read_one(model, table.static(), some, label="SEAT")
            measurements += [seat_of(v, table, test, resampling, {"interval": without}) for v in static]
        else:
            each = read_one(model, table.each(), some, label="SEAT")
            measurements += [seat_of(crossed_vectors(v, table, test), table, test, resampling) for v in each]
    return measurements


def held_together(variants: Sequence[Variant], floats: int) -> list[Sequence[Variant]]:
    """Variants in groups whose answers, `floats` float32 each, are held in memory together."""
    step = max(1, _FLOATS // max(1, floats))
    return [variants[start : start + step] for start in range(0, len(variants), step)]


def context_vectors(model: Model, table: WordTable, label: str = "Words") -> Floats:
    """The vector of every word in each of its contexts: [context, hidden].

    First contexts, second ones and all others are read by themselves: a part that another question of the
    same audit has read is not read again.
    """
    parts = table.by_occurrence(SINGLY)
    vectors = [read_one(model, table.at(places).each(), label=label)[0] for places in parts]
    together = np.empty((len(table.contexts), vectors[0].shape[1]), np.float32)
    for places, part in zip(parts, vectors, strict=True):
        together[places] = part
    return together


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


def crossed_vectors(vectors: Doubles, table: WordTable, test: WordTest) -> CrossedVectors:
    """Vectors [context, hidden] by word and template, or by word where each has sentences of its own."""
    words = word_sets(table, test)
    of_word: dict[int, list[int]] = {}
    frames: dict[int, list[str]] = {}
    for place, (context, word) in enumerate(zip(table.contexts, table.word, strict=True)):
        # what stands around the word; its article follows it and does not count
        before, after = context.text[: context.start], context.text[context.end :]
        frame = re.sub(r"\b[Aa]n?\s*$", "a ", before).casefold() + "_" + after
        of_word.setdefault(word, []).append(place)
        frames.setdefault(word, []).append(frame)
    if len(set(map(tuple, frames.values()))) != 1:  # not every word stands in the same templates
        return nested_vectors(vectors, table.word, words)
    order = np.asarray([of_word[word] for word in range(len(table.words))], np.int64)
    return CrossedVectors(vectors[order], words)


def word_sets(table: WordTable, test: WordTest) -> WordSets:
    """The sets of a table, with the attribute words that are counterparts."""
    number = {word: i for i, word in enumerate(table.words)}
    return WordSets(
        table.sets, [(number[a], number[b]) for a, b in test.pairs if a in number and b in number]
    )


def seat_of(
    given: Doubles | CrossedVectors,
    table: WordTable,
    test: WordTest,
    resampling: Resampling = DEFAULT,
    settings: Mapping[str, object] | None = None,
) -> Measurement:
    """SEAT of static vectors, [word, hidden], with the permutation p of its targets; of vectors by word and
    template also with the interval that redraws words and contexts."""
    vectors = given.means if isinstance(given, CrossedVectors) else given
    s_x, s_y = association_sides(vectors, table)
    sizes = {f"n_{name.lower()}": float(len(table.sets[name])) for name in SETS}
    about = {
        "words": test.name,
        "data_hash": test.fingerprint(),
        "pooling": "mean over the subword tokens of last_hidden_state",
        "seed": resampling.seed,
    }
    known: dict[str, object] = {
        "n": len(table.contexts),
        "settings": {**(settings or {}), "seed": resampling.seed, **about},
        "details": sizes,
        "unscored": {"entry without context": table.lost} if table.lost else {},
    }
    if reason := why_no_effect(s_x, s_y):
        return Measurement.missing(SEAT, reason, neutral=0.0, **known)
    measured = effect_measurement(SEAT, s_x, s_y, None, known)
    if isinstance(given, CrossedVectors):
        wide = given.seat(resampling)
        ends = {
            name: wide.details[name] for name in (DIFFERENCE_LOW, DIFFERENCE_HIGH) if name in wide.details
        }
        measured = replace(
            measured,
            interval=wide.interval,
            settings={**wide.settings, **about},
            influence=wide.influence,
            details={**measured.details, **ends},
        )
    # the group words exchanged, by SEAT's numerator
    unit = units(np.asarray(vectors, np.float64)).unit
    x, y = (unit[list(table.sets[name])].mean(axis=0) for name in "XY")
    apart = x - y
    of_word = {table.words[i]: float(unit[i] @ apart) for name in "AB" for i in table.sets[name]}
    sides = (test.A, test.B)
    exchanged = exchange(of_word, sides, test.pairs, leans=measured.value, seed=resampling.seed)
    return measured if exchanged is None else exchanged.on(measured)


# ---- SEAT over sentences


def ask_sentence_seat(
    model: Model,
    test: SentenceTest | str | Path,
    variants: Sequence[Variant] = UNTOUCHED,
    *,
    pooling: Pooling = "mean",
    resampling: Resampling = DEFAULT,
) -> list[Measurement]:
    """Sentence-level SEAT in every variant: a file's sentences, each as one L2-normalized vector of the last
    hidden state.

    pooling: cls (the first token) as May et al. 2019 read BERT, last (the text's own last token) as they read
    GPT, mean-special (over all tokens, [CLS] and [SEP] among them) as Meade et al. 2022 read every model, and
    mean (over the text's own tokens), which is ours. The choice changes the value; the result names it.
    """
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
