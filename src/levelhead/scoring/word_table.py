"""Contexts of a word test, numbered by word: SEAT's readings and sets are built from them.

See docs/method.md, Word vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from levelhead.engine.readings import StaticVectors, WordVectors
from levelhead.errors import BadProbe
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

    def _texts(self) -> list[Text]:
        return [Text(context.text) for context in self.contexts]

    def _spans(self) -> list[tuple[int, int]]:
        return [(context.start, context.end) for context in self.contexts]


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


def sample_contexts(test: WordTest, contexts: Iterable[Context], words: int, seed: int) -> list[Context]:
    """One context for each of at most so many words of every set, drawn by the seed.

    The words take turns in which of their contexts is used.
    """
    rng = np.random.default_rng(seed)
    of_group: dict[str, dict[str, list[Context]]] = {group: {} for group in test.groups()}
    for context in contexts:
        of_group[context.group].setdefault(context.word, []).append(context)
    chosen: list[Context] = []
    for of_word in of_group.values():
        names = list(of_word)
        picked = sorted(rng.permutation(len(names))[:words])
        chosen += [of_word[names[i]][turn % len(of_word[names[i]])] for turn, i in enumerate(picked)]
    return chosen


def unknown_words(model: Model, words: Iterable[str]) -> set[str]:
    """Words that the tokenizer cannot write: all of them would share the vector of its unknown token."""
    unknown, listed = model.tokenizer.unk_token_id, list(dict.fromkeys(words))
    if unknown is None or not listed:
        return set()
    tokens = model.tokenizer([surface(word) for word in listed], add_special_tokens=False)["input_ids"]
    return {word for word, ids in zip(listed, tokens, strict=True) if unknown in ids}


def fitting(model: Model, texts: Sequence[str]) -> list[bool]:
    """Whether each text fits into the model's positions; one long sentence must not stop a study."""
    if model.max_tokens is None:
        return [True] * len(texts)
    fits: list[bool] = []
    for start in range(0, len(texts), _CHUNK):
        tokens = model.tokenizer(list(texts[start : start + _CHUNK]))["input_ids"]
        fits += [len(ids) <= model.max_tokens for ids in tokens]
    return fits
