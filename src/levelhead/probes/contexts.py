"""Texts around the words of a test, with the place of each word (docs/method/words.md, Word vectors).

A model reads them to give each word its vector. Contexts belong to distinct words: a list that repeats a word
gets its contexts once, and the repeat counts in the measure. A word in two groups has its contexts in both.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from levelhead.errors import BadOption, BadProbe
from levelhead.probes import DATA
from levelhead.probes.corpus import check_sample, corpus_sentences, top_reasons
from levelhead.probes.words import WordTest

MIN_WORDS, MAX_WORDS = 4, 60  # shorter lines are headings, longer ones tables or failed splits

# Bleached: they fit any part of speech and say nothing about the word. The word follows a space and is never
# the first, because a causal model sees only what stands before it and byte-level tokenizers join a word with
# the space before it.
TEMPLATES = tuple((DATA / "sentences" / "bleached.txt").read_text(encoding="utf-8").splitlines())

_WORD = re.compile(r"\w+(?:[-'’]\w+)*")
_CLITIC = re.compile(r"'(?:s|ll|d|ve|re|m)$")


@dataclass(frozen=True)
class Context:
    """A text and the place of one word in it: text[start:end] is the word, in the case that the text has."""

    word: str  # as the list spells it
    group: str  # "A", "B", "X" or "Y"
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class ContextIndex:
    """The contexts that a corpus holds, the words that it lacks, and what of it was not used."""

    contexts: tuple[Context, ...]
    missing: tuple[str, ...]  # listed words without any context
    occurrences: Mapping[str, int]  # word -> sentences that hold it, before sampling
    sentences: int  # sentences of usable length
    skipped: Mapping[str, int]  # reason -> sentences, records or files not used
    source: str

    def __len__(self) -> int:
        return len(self.contexts)

    def __iter__(self) -> Iterator[Context]:
        return iter(self.contexts)


def contexts_fingerprint(contexts: Iterable[Context]) -> str:
    """A hash of contexts and their order, for run records."""
    lines = "".join(json.dumps(asdict(context), ensure_ascii=False) + "\n" for context in contexts)
    return hashlib.sha256(lines.encode()).hexdigest()[:16]


def surface(word: str) -> str:
    """How a listed word is written in a text: published lists join words with underscores."""
    return word.replace("_", " ")


def template_contexts(test: WordTest, n: int = len(TEMPLATES)) -> list[Context]:
    """Every distinct word of every group in the first n bleached templates; no corpus needed."""
    if not 1 <= n <= len(TEMPLATES):
        raise BadOption(f"{n} templates were asked for; there are 1 to {len(TEMPLATES)}.")
    contexts = []
    for group, words in test.groups().items():
        for word in dict.fromkeys(words):
            for template in TEMPLATES[:n]:
                start = template.index("{}")
                shown = surface(word)
                contexts.append(
                    Context(word, group, template.replace("{}", shown), start, start + len(shown))
                )
    return contexts


class WordFinder:
    """Finds listed words in sentences: whole words, any case.

    "woman" stands in "Woman's" and "woman," but not in "woman-like" or "womanly". A hit is named in small
    letters.
    """

    def __init__(self, words: Iterable[str]) -> None:
        self._single: set[str] = set()
        self._longer: dict[str, list[str]] = {}  # first token -> entries of several tokens, or with a stop
        for word in dict.fromkeys(folded(surface(w)) for w in words):
            if _WORD.fullmatch(word):
                self._single.add(word)
            elif first := _WORD.search(word):
                self._longer.setdefault(first.group(), []).append(word)

    def find(self, sentence: str) -> tuple[int, list[tuple[str, int, int]]]:
        """The number of words in the sentence, and every hit as (folded word, start, end)."""
        hits: list[tuple[str, int, int]] = []
        count = 0
        for match in _WORD.finditer(sentence):
            count += 1
            token, start = folded(match.group()), match.start()
            if "'" in token and token not in self._single:
                token = _CLITIC.sub("", token)
            if token in self._single:
                hits.append((token, start, start + len(token)))
            for phrase in self._longer.get(token, ()):
                end = start + len(phrase)
                if folded(sentence[start:end]) == phrase and not re.match(r"-?\w", sentence[end : end + 2]):
                    hits.append((phrase, start, end))
        return count, hits


def folded(text: str) -> str:
    """A text as words are searched in it: in small letters, with plain apostrophes."""
    return text.lower().replace("’", "'")


def corpus_contexts(test: WordTest, source: str | Path, per_word: int = 20, seed: int = 0) -> ContextIndex:
    """Sentences of a corpus around each word of a test, at most per_word of them, in one pass.

    source: a text or .jsonl file, a folder of them, `hub:NAME` or `hub:NAME/CONFIG:SPLIT:COLUMN`.
    A sentence with several listed words is a context of each; where a word comes twice, the later place is
    read, because more stands before it. Sentences of fewer than 4 or more than 60 words are skipped and
    counted.
    """
    check_sample(per_word, seed, "contexts a word")
    listed = [(group, word) for group, words in test.groups().items() for word in dict.fromkeys(words)]
    keys = {word: folded(surface(word)) for _, word in listed}
    finder = WordFinder(keys)
    used, skipped, offered = 0, Counter[str](), Counter[str]()
    # Each distinct sentence of a word draws a number from (seed, word, sentence), and the smallest stay: so
    # the sample depends neither on the order of the corpus nor on how often a sentence is repeated in it.
    # Those that begin with the word are kept apart and used only if there are no others: in a causal model
    # nothing would stand before the word.
    heaps: defaultdict[tuple[str, bool], list[tuple[int, str, int, int]]] = defaultdict(list)
    for sentence in corpus_sentences(source, skipped):
        count, hits = finder.find(sentence)
        if not MIN_WORDS <= count <= MAX_WORDS:
            short = count < MIN_WORDS
            skipped[f"fewer than {MIN_WORDS} words" if short else f"more than {MAX_WORDS} words"] += 1
            continue
        used += 1
        for key, start, end in {hit[0]: hit for hit in hits}.values():
            offered[key] += 1
            digest = hashlib.blake2b(f"{seed}\n{key}\n{sentence}".encode(), digest_size=8).digest()
            item = (-int.from_bytes(digest), sentence, start, end)
            heap = heaps[key, any(c.isalnum() for c in sentence[:start])]
            if (len(heap) < per_word or item[0] > heap[0][0]) and item not in heap:
                (heapq.heappush if len(heap) < per_word else heapq.heappushpop)(heap, item)
    contexts = tuple(
        Context(word, group, text, start, end)
        for group, word in listed
        for _, text, start, end in sorted(heaps[keys[word], True] or heaps[keys[word], False], reverse=True)
    )
    present = {context.group for context in contexts}
    left = f" Left out: {top_reasons(skipped)}." if skipped else ""
    for (group, words), label in zip(test.groups().items(), test.labels, strict=True):
        if group not in present:
            shown = ", ".join(f'"{w}"' for w in words[:3]) + (" …" if len(words) > 3 else "")
            raise BadProbe(
                f"{source}: no usable sentence holds any of the {len(words)} words of {group} "
                f"({label}: {shown}). Use a larger corpus, other words, or the templates.{left}"
            )
    occurrences = {word: offered[key] for word, key in keys.items()}
    missing = tuple(word for word, n in occurrences.items() if n == 0)
    return ContextIndex(contexts, missing, occurrences, used, dict(skipped), str(source))
