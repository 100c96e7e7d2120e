"""Texts around the words of a test, with the place of each word (docs/method.md, Word vectors).

A model reads them to give each word its vector. Contexts belong to distinct words: a list that repeats a word
gets its contexts once, and the repeat counts in the measure. A word in two groups has its contexts in both.
"""

from __future__ import annotations

import hashlib
import heapq
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from levelhead.errors import BadOption, BadProbe
from levelhead.files import write_text
from levelhead.probes.corpus import check_sample, corpus_sentences, top_reasons
from levelhead.probes.files import Place, check_length, is_whole, read_text
from levelhead.probes.words import WordTest

MIN_WORDS, MAX_WORDS = 4, 60  # shorter lines are headings, longer ones tables or failed splits

# Bleached: they fit any part of speech and say nothing about the word. The word follows a space and is never
# the first, because a causal model sees only what stands before it and byte-level tokenizers join a word with
# the space before it.
TEMPLATES = (
    "The word I had in mind was {}.",
    "Someone wrote the word {} on the board.",
    "The first entry on this page is {}, in small print.",
    "Can you spell {} without looking it up?",
    "Yesterday we looked up {} in the dictionary.",
    "The answer to the last clue turned out to be {}.",
    "In this sentence the word {} appears only once.",
    "Today's word is {}, and tomorrow there will be another one.",
    "I heard the word {} twice on the radio this morning.",
    "Please read the word {} aloud and then turn the page.",
    "There is a short definition of {} near the bottom of the page.",
    "They asked us how to translate {} into another language.",
    "The speaker paused after the word {} and then went on.",
    "Inside the envelope was a note with the word {} on it.",
    "One of the search terms was {}.",
    "It only takes a moment to type {} and press enter.",
)

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

    def fingerprint(self) -> str:
        """A hash of the contexts and their order."""
        return contexts_fingerprint(self.contexts)


def contexts_fingerprint(contexts: Iterable[Context]) -> str:
    """A hash of contexts and their order, for run records."""
    digest = hashlib.sha256()
    for context in contexts:
        digest.update(_line(context).encode())
    return digest.hexdigest()[:16]


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
        for word in dict.fromkeys(_fold(surface(w)) for w in words):
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
            token, start = _fold(match.group()), match.start()
            if "'" in token and token not in self._single:
                token = _CLITIC.sub("", token)
            if token in self._single:
                hits.append((token, start, start + len(token)))
            for phrase in self._longer.get(token, ()):
                end = start + len(phrase)
                if _fold(sentence[start:end]) == phrase and not re.match(r"-?\w", sentence[end : end + 2]):
                    hits.append((phrase, start, end))
        return count, hits


def _fold(text: str) -> str:
    return text.lower().replace("’", "'")


class _Reservoir:
    """At most n distinct sentences of one word, a uniform sample of all that were offered.

    Each sentence draws a number from (seed, word, sentence) and the n smallest stay: so the sample depends
    neither on the order of the corpus nor on how often a sentence is repeated in it. Sentences that begin
    with the word are kept apart and used only if there are no others: in a causal model nothing would stand
    before the word.
    """

    def __init__(self, n: int, seed: int, word: str) -> None:
        self.n, self.salt = n, f"{seed}\n{word}\n"
        self.heaps: dict[bool, list[tuple[int, str, int, int]]] = {True: [], False: []}
        self.offered = 0

    def offer(self, text: str, start: int, end: int) -> None:
        self.offered += 1
        draw = -int.from_bytes(hashlib.blake2b((self.salt + text).encode(), digest_size=8).digest())
        heap = self.heaps[any(c.isalnum() for c in text[:start])]
        item = (draw, text, start, end)
        if len(heap) == self.n and draw <= heap[0][0]:
            return
        if item in heap:
            return
        (heapq.heappush if len(heap) < self.n else heapq.heappushpop)(heap, item)

    def kept(self) -> list[tuple[str, int, int]]:
        heap = self.heaps[True] or self.heaps[False]
        return [(text, start, end) for _, text, start, end in sorted(heap, reverse=True)]


def corpus_contexts(test: WordTest, source: str | Path, per_word: int = 20, seed: int = 0) -> ContextIndex:
    """Sentences of a corpus around each word of a test, at most per_word of them, in one pass.

    source: a text or .jsonl file, a folder of them, `hub:NAME` or `hub:NAME/CONFIG:SPLIT:COLUMN`.
    A sentence with several listed words is a context of each; where a word comes twice, the later place is
    read, because more stands before it. Sentences of fewer than 4 or more than 60 words are skipped and
    counted.
    """
    check_sample(per_word, seed, "contexts a word")
    listed = [(group, word) for group, words in test.groups().items() for word in dict.fromkeys(words)]
    kept = {
        key: _Reservoir(per_word, seed, key) for key in dict.fromkeys(_fold(surface(w)) for _, w in listed)
    }
    finder = WordFinder(kept)
    used, skipped = 0, Counter[str]()
    for sentence in corpus_sentences(source, skipped):
        count, hits = finder.find(sentence)
        if not MIN_WORDS <= count <= MAX_WORDS:
            short = count < MIN_WORDS
            skipped[f"fewer than {MIN_WORDS} words" if short else f"more than {MAX_WORDS} words"] += 1
            continue
        used += 1
        for key, start, end in {hit[0]: hit for hit in hits}.values():
            kept[key].offer(sentence, start, end)
    contexts = tuple(
        Context(word, group, *place) for group, word in listed for place in kept[_fold(surface(word))].kept()
    )
    _refuse_empty_groups(test, contexts, source, skipped)
    occurrences = {word: kept[_fold(surface(word))].offered for _, word in listed}
    missing = tuple(word for word, n in occurrences.items() if n == 0)
    return ContextIndex(contexts, missing, occurrences, used, dict(skipped), str(source))


def _refuse_empty_groups(
    test: WordTest, contexts: Iterable[Context], source: str | Path, skipped: Counter[str]
) -> None:
    present = {context.group for context in contexts}
    left = f" Left out: {top_reasons(skipped)}." if skipped else ""
    for (group, words), label in zip(test.groups().items(), test.labels, strict=True):
        if group not in present:
            shown = ", ".join(f'"{w}"' for w in words[:3]) + (" …" if len(words) > 3 else "")
            raise BadProbe(
                f"{source}: no usable sentence holds any of the {len(words)} words of {group} "
                f"({label}: {shown}). Use a larger corpus, other words, or the templates.{left}"
            )


def _line(context: Context) -> str:
    return json.dumps(asdict(context), ensure_ascii=False) + "\n"


def write_contexts(path: str | Path, contexts: Iterable[Context]) -> None:
    """Contexts as JSON lines (word, group, text, start, end); the file appears whole or not at all."""
    write_text(Path(path), "".join(_line(context) for context in contexts))


def read_contexts(path: str | Path) -> list[Context]:
    """Contexts from JSON lines as write_contexts makes them; a bad line is named."""
    path = Path(path)
    lines = read_text(path, "Name a file of contexts.").split("\n")
    return [_context(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]


def _context(path: Path, number: int, line: str) -> Context:
    try:
        check_length((Place(path.name, number), line))
        context = Context(**json.loads(line))
        if context.group not in ("A", "B", "X", "Y"):
            raise ValueError(f"group {context.group!r} is not A, B, X or Y")
        if not is_whole(context.text):
            raise ValueError("the text has half a character")
        if not 0 <= context.start < context.end <= len(context.text):
            raise ValueError(f"characters {context.start} to {context.end} are not in the text")
    except (TypeError, ValueError, RecursionError) as error:
        keys = "word, group, text, start, end"
        raise BadProbe(f"{path.name} line {number}: not a context ({error}). Keys: {keys}.") from None
    return context
