"""Contexts of a word test, numbered by word: SEAT's readings and sets are built from them.

See docs/method.md, Word vectors.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from levelhead.engine.readings import StaticVectors, WordVectors
from levelhead.errors import BadProbe
from levelhead.models.concurrency import TOKENIZING
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.probes.contexts import Context, surface
from levelhead.probes.words import WordTest

_CHUNK = 512  # texts whose length is looked up at a time


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
        return StaticVectors(self._texts(), self._spans(), self.word)

    def each(self) -> WordVectors:
        """The reading of one vector for each context."""
        return WordVectors(self._texts(), self._spans())

    def crossed_order(self) -> NDArray[np.int64] | None:
        """Contexts as [word, template] where every word stands in the same templates, else None."""
        of_word: dict[int, list[int]] = {}
        for context, word in enumerate(self.word):
            of_word.setdefault(word, []).append(context)
        frames = [tuple(_frame(self.contexts[i]) for i in own) for own in of_word.values()]
        if len(set(frames)) != 1:
            return None
        return np.asarray([of_word[word] for word in range(len(self.words))], np.int64)

    def first_contexts(self, n: int = 1) -> WordTable:
        """The table with the first n contexts of each word alone."""
        return self.at([place for place, turn in enumerate(self._turns()) if turn < n])

    def in_turn(self, singly: int) -> list[list[int]]:
        """Places of contexts: the first of each word, the second ... so many times, then all others."""
        parts: list[list[int]] = [[] for _ in range(singly + 1)]
        for place, turn in enumerate(self._turns()):
            parts[min(turn, singly)].append(place)
        return [part for part in parts if part]

    def at(self, places: Sequence[int]) -> WordTable:
        """The table with the contexts at these places alone."""
        contexts = tuple(self.contexts[i] for i in places)
        return replace(self, contexts=contexts, word=tuple(self.word[i] for i in places))

    def _turns(self) -> Iterator[int]:
        """Of each context, how many others of its word come before it."""
        seen: Counter[int] = Counter()
        for word in self.word:
            yield seen[word]
            seen[word] += 1

    def first_places(self) -> list[int]:
        """Where the first context of each word stands, in the order of the words."""
        places: dict[int, int] = {}
        for place, word in enumerate(self.word):
            places.setdefault(word, place)
        return [places[word] for word in range(len(self.words))]

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

    def _texts(self) -> list[Text]:
        return [Text(context.text) for context in self.contexts]

    def _spans(self) -> list[tuple[int, int]]:
        return [(context.start, context.end) for context in self.contexts]


def _frame(context: Context) -> str:
    """What a context says around its word; the article follows the word and does not count."""
    before, after = context.text[: context.start], context.text[context.end :]
    return re.sub(r"\b[Aa]n?\s*$", "a ", before).casefold() + "_" + after


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

    The words take turns in which of their contexts are used.
    """
    rng = np.random.default_rng(seed)
    of_group: dict[str, dict[str, list[Context]]] = {group: {} for group in test.groups()}
    for context in contexts:
        of_group[context.group].setdefault(context.word, []).append(context)
    chosen: list[Context] = []
    for of_word in of_group.values():
        names = list(of_word)
        picked = sorted(rng.permutation(len(names))[:words])
        for turn, own in enumerate(of_word[names[i]] for i in picked):
            chosen += [own[(turn + more) % len(own)] for more in range(min(per_word, len(own)))]
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
