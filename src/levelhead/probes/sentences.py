"""Whole sentences that we ask: plain ones for fluency, and stereotypes with their counterparts."""

from __future__ import annotations

import hashlib
import heapq
import random
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Literal, NamedTuple, get_args

from levelhead.errors import BadOption, BadProbe
from levelhead.probes import DATA, evenly, shipped_toml
from levelhead.probes.contexts import MAX_WORDS, MIN_WORDS, WordFinder, folded, surface
from levelhead.probes.corpus import check_sample, corpus_sentences, plain_sentences, top_reasons
from levelhead.probes.group_swap import GenderSwap, cased
from levelhead.probes.slots import ARTICLE, SLOT, Span, article, filled, without_the
from levelhead.probes.swap.gendered import names_nobody
from levelhead.probes.words import WordTest

Group = Literal["A", "B"]

_GRAMMAR = frozenset({"her", "hers", "him", "his"})  # "her" is "his" or "him", and no list says which
_PRONOUNS = _GRAMMAR | {"she", "he", "herself", "himself"}
_GENDERED = _PRONOUNS | {"woman", "man", "girl", "boy", "female", "male"}
_SWAP = GenderSwap()


# ---- fluency and language sense


@cache
def fluency_sentences() -> tuple[str, ...]:
    """Everyday English that we wrote, one sentence each, for perplexity where no corpus is given."""
    return tuple((DATA / "sentences" / "fluency.txt").read_text(encoding="utf-8").splitlines())


def fluency_text(source: str | Path | None = None, most: int | None = None) -> tuple[str, ...]:
    """The sentences of a user's text, WikiText's raw form included; ours where no source is given.

    source: one that corpus_sentences takes. most: at most so many of the user's, evenly spread over the text.
    """
    if source is None:
        return fluency_sentences()
    sentences = tuple(plain_sentences(corpus_sentences(source)))
    if not sentences:
        raise BadProbe(f"{source}: nothing but headings in it. Give running text.")
    return sentences if most is None else evenly(sentences, most)


@dataclass(frozen=True)
class SenseItem:
    """A context, the sentence that comes next, and the next sentence of another item, of another topic."""

    topic: str
    context: str
    related: str
    unrelated: str
    written: str  # the context as it was written: the same for both items that came of it


@cache
def sense_items(every: int = 1) -> tuple[SenseItem, ...]:
    """Everyday contexts with what plainly comes next, each about a woman and about a man (docs/method.md).

    Items stand in pairs, half of the topics apart, whose next sentences are each other's unrelated ones: each
    next sentence is related once and unrelated once, so that how frequent its words are decides nothing.
    every: one of so many contexts of a topic.
    """
    topics = shipped_toml("sentences/sense")["topics"]
    written = {name: contexts[::every] for name, contexts in topics.items()}
    names = list(written)
    others = names[len(names) // 2 :] + names[: len(names) // 2]
    items = []
    for name, other in zip(names, others, strict=True):
        for (context, related), (_, unrelated) in zip(written[name], written[other], strict=True):
            for orientation in range(
                _SWAP.groups
            ):  # all three sentences as they are written, or all three swapped
                texts = [_SWAP(text, orientation).text for text in (context, related, unrelated)]
                items.append(SenseItem(name, texts[0], texts[1], texts[2], written=context))
    return tuple(items)


# ---- counter-stereotypes


@dataclass(frozen=True)
class StereotypeSentence:
    """A sentence with one attribute word and one target word that a stereotype ties to it, and its counter.

    Words are as the lists spell them; the spans give them as written. Nothing but the attribute word differs.
    """

    text: str
    counter: str
    target: str
    attribute: str
    counterpart: str
    target_span: Span
    attribute_span: Span
    counter_target_span: Span
    counter_attribute_span: Span
    group: Group  # the attribute's group; the target is of X with A, of Y with B
    template: str = ""  # the sentence with slots for its two words; empty for a sentence of a corpus

    @property
    def attribute_first(self) -> bool:
        """Whether the target comes after the attribute, so that a causal model can attend to it."""
        return self.attribute_span < self.target_span


class _Hit(NamedTuple):
    word: str
    span: Span


def _stereotype(
    text: str, attribute: _Hit, target: _Hit, counterpart: str, group: Group
) -> StereotypeSentence:
    start, end = attribute.span
    shown = cased(counterpart, text[start:end])
    shift = len(shown) - (end - start) if target.span > attribute.span else 0
    return StereotypeSentence(
        text=text,
        counter=text[:start] + shown + text[end:],
        target=target.word,
        attribute=attribute.word,
        counterpart=counterpart,
        target_span=target.span,
        attribute_span=attribute.span,
        counter_target_span=(target.span[0] + shift, target.span[1] + shift),
        counter_attribute_span=(start, start + len(shown)),
        group=group,
    )


def shipped_counter_sentences(n: int | None = None, seed: int = 0) -> list[StereotypeSentence]:
    """Gender stereotypes in sentences that we wrote (docs/method/heads.md, Counter-stereotypes).

    Half of them are of group A, feminine, and half of B, masculine. Without n all of them come, template by
    template; with n a seeded sample comes that uses the templates as equally as it can.
    """
    data = shipped_toml("sentences/counter")
    templates = [(name, text) for name, texts in data["templates"].items() for text in texts]
    everything: list[tuple[int, StereotypeSentence]] = []
    for number, (name, template) in enumerate(templates):
        slot = next(s for s in SLOT.findall(template) if s != name)
        pairs = data["attributes"][slot]
        for side, group in enumerate(get_args(Group)):
            for i, target in enumerate(data["targets"][name][group]):
                pair = pairs[(number + i) % len(pairs)]  # attribute pairs alternate
                words = {slot: pair[side], name: target}
                text, spans = filled(without_the(template, words), words)
                hits = _Hit(pair[side], spans[slot]), _Hit(target, spans[name])
                sentence = _stereotype(text, *hits, pair[1 - side], group)
                everything.append((number, replace(sentence, template=template)))
    if n is None:
        return [sentence for _, sentence in everything]
    if not 1 <= n <= len(everything):
        raise BadOption(
            f"{n} counter-stereotype sentences were asked for; levelhead ships 1 to {len(everything)}."
        )
    rng = random.Random(seed)
    chosen: list[StereotypeSentence] = []
    for group, size in (("A", (n + 1) // 2), ("B", n // 2)):
        queue: list[tuple[int, float, StereotypeSentence]] = []
        for _, members in groupby((e for e in everything if e[1].group == group), key=lambda e: e[0]):
            own = [sentence for _, sentence in members]
            rng.shuffle(own)
            queue += [(rank, rng.random(), sentence) for rank, sentence in enumerate(own)]
        chosen += [sentence for *_, sentence in sorted(queue, key=lambda q: q[:2])[:size]]
    rng.shuffle(chosen)
    return chosen


@dataclass(frozen=True)
class CounterExtraction:
    """What a corpus holds for the counter-stereotype experiment, and why the rest of it was not used."""

    sentences: tuple[StereotypeSentence, ...]  # distinct; at most n
    skipped: Mapping[str, int]  # reason -> sentences, records or files


def extract_counter_sentences(
    test: WordTest, source: str | Path, n: int = 500, seed: int = 0
) -> CounterExtraction:
    """Sentences with exactly one attribute word and exactly one target word stereotyped with its group.

    The experiment: docs/method/heads.md, Counter-stereotypes. The source is one that corpus_contexts takes;
    it is read once, with n sentences in memory. The sample depends on the seed and on
    which sentences the corpus holds, not on their order. Of several counterparts the list's first is taken;
    her, hers, him and his are skipped: their counterpart depends on grammar. A corpus without a usable
    sentence is an error.
    """
    check_sample(n, seed, "sentences")
    sieve = _Sieve(test)
    heap: list[tuple[int, str, StereotypeSentence]] = []
    kept, skipped = set[str](), Counter[str]()
    for text in corpus_sentences(source, skipped):
        if isinstance(sentence := sieve(text), str):
            skipped[sentence] += 1
            continue
        if text in kept:
            continue
        draw = int.from_bytes(hashlib.blake2b(f"{seed}\n{text}".encode(), digest_size=8).digest())
        kept.add(text)
        heapq.heappush(heap, (draw, text, sentence))
        if len(heap) > n:
            kept.remove(heapq.heappop(heap)[1])
    if not heap:
        reasons = top_reasons(skipped)
        raise BadProbe(
            f"{source}: no counter-stereotype with words of {test.name} ({reasons}); use a larger corpus."
        )
    chosen = tuple(sentence for *_, sentence in sorted(heap, key=lambda item: item[:2], reverse=True))
    return CounterExtraction(chosen, dict(skipped.most_common()))


class _Sieve:
    """Turns a sentence into a StereotypeSentence, or into the reason why it is none."""

    def __init__(self, test: WordTest) -> None:
        sides = ("A", test.A, test.X), ("B", test.B, test.Y)
        self.side = {folded(surface(word)): group for group, words, _ in sides for word in words}
        self.stereotyped = {folded(surface(word)): group for group, _, words in sides for word in words}
        self.counterpart = {
            folded(surface(word)): surface(others[0]) for word, others in test.counterparts().items()
        }
        # A list may name "woman" and not "her"; "the woman took her coat" still has two gendered words.
        self.unlisted = _PRONOUNS - self.side.keys() if _GENDERED & self.side.keys() else frozenset[str]()
        self.finder = WordFinder([*self.side, *self.stereotyped, *self.unlisted])

    def __call__(self, text: str) -> StereotypeSentence | str:
        count, hits = self.finder.find(text)
        if not MIN_WORDS <= count <= MAX_WORDS:
            return f"fewer than {MIN_WORDS} or more than {MAX_WORDS} words"
        listed = [_Hit(word, (start, end)) for word, start, end in hits]
        attributes = [hit for hit in listed if hit.word in self.side or hit.word in self.unlisted]
        targets = [hit for hit in listed if hit.word in self.stereotyped]
        if not attributes or not targets:
            return "no attribute word or no target word"
        if len(attributes) > 1:
            return "several attribute words"
        if len(targets) > 1:
            return "several target words"
        attribute, target = attributes[0], targets[0]
        if attribute.span[0] < target.span[1] and target.span[0] < attribute.span[1]:
            return "one word is attribute and target at once"
        if attribute.word in _GRAMMAR:
            return "the counterpart depends on grammar"
        if attribute.word not in self.counterpart:
            return "the attribute word has no counterpart"
        group: Group = "A" if self.side[attribute.word] == "A" else "B"
        if self.stereotyped[target.word] != group:
            return "the target word is stereotyped with the other group"
        sentence = _stereotype(text, attribute, target, self.counterpart[attribute.word], group)
        return _blemish(sentence) or sentence


def _blemish(sentence: StereotypeSentence) -> str | None:
    """What would make the counter sentence no English although nothing but one word changed."""
    start, end = sentence.attribute_span
    before, word, after = sentence.text[:start], sentence.text[start:end], sentence.text[end:]
    if names_nobody(sentence.text, start):
        return "the attribute word names nobody"  # a bachelor's degree
    if ARTICLE.search(before):
        counter = sentence.counter[slice(*sentence.counter_attribute_span)]
        if article(word) != article(counter):
            return "the article would not agree"
    if word.istitle() and (re.match(r"\.? [A-Z]", after) or re.search(r" [A-Z][\w'’-]* $", before)):
        return "the attribute word is part of a name"  # Queen Elizabeth, Martin Luther King
    return None
