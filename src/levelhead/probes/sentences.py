"""Whole sentences that we ask: plain ones for fluency, stereotypes with their counterparts, templates with a
mask.

Words are addressed by characters: text[span[0]:span[1]] is the word, whatever tokenizer reads the text
afterwards.
"""

from __future__ import annotations

import hashlib
import heapq
import random
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, get_args

from levelhead.errors import BadProbe
from levelhead.probes.cloze_articles import article
from levelhead.probes.contexts import MAX_WORDS, MIN_WORDS, WordFinder, surface
from levelhead.probes.corpus import check_sample, corpus_sentences, top_reasons
from levelhead.probes.gendered import names_nobody
from levelhead.probes.words import WordTest

Span = tuple[int, int]  # first character, one past the last
Group = Literal["A", "B"]
Kind = Literal["topic", "person", "trait", "words"]

_DATA = Path(__file__).parent / "data" / "sentences"
_SLOT = re.compile(r"\{(\w+)\}")
_ARTICLE = re.compile(r"\b([Aa])n? $")
_GRAMMAR = frozenset(
    {"her", "hers", "him", "his"}
)  # "her" is "his" or "him": which one, the list does not say
_PRONOUNS = _GRAMMAR | {"she", "he", "herself", "himself"}
_GENDERED = _PRONOUNS | {"woman", "man", "girl", "boy", "female", "male"}


@cache
def fluency_sentences() -> tuple[str, ...]:
    """Everyday English that we wrote, one sentence each, for perplexity without a corpus (SPEC A8)."""
    return tuple((_DATA / "fluency.txt").read_text(encoding="utf-8").splitlines())


@dataclass(frozen=True)
class StereotypeSentence:
    """One attribute word, one target word that a stereotype ties to it; and the same sentence with the
    counterpart.

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

    @property
    def attribute_first(self) -> bool:
        """Whether the target comes after the attribute, so that a causal model can attend to it."""
        return self.attribute_span < self.target_span


@dataclass(frozen=True)
class _Hit:
    word: str
    span: Span


def _stereotype(
    text: str, attribute: _Hit, target: _Hit, counterpart: str, group: Group
) -> StereotypeSentence:
    start, end = attribute.span
    shown = _in_case_of(text[start:end], counterpart)
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


def _in_case_of(written: str, word: str) -> str:
    if len(written) > 1 and written.isupper():
        return word.upper()
    return word[0].upper() + word[1:] if written[0].isupper() else word


def _filled(template: str, words: Mapping[str, str]) -> tuple[str, dict[str, Span]]:
    """The template with its slots filled, articles agreeing and the first letter large; and where each word
    stands."""
    text, spans, last = "", dict[str, Span](), 0
    for slot in _SLOT.finditer(template):
        text, last = text + template[last : slot.start()], slot.end()
        word = words[slot[1]]
        if _ARTICLE.search(text) and article(word) == "an":
            text = _ARTICLE.sub(r"\1n ", text)
        if (
            word[0].isupper() or word in _toml("lpbs.toml")["bare"]
        ):  # "the children", but "NASA" and "algebra"
            text = text.removesuffix("the ")
        spans[slot[1]] = (len(text), len(text) + len(word))
        text += word if text else word[0].upper() + word[1:]
    return text + template[last:], spans


@cache
def _toml(name: str) -> dict[str, Any]:
    return tomllib.loads((_DATA / name).read_text(encoding="utf-8"))


def shipped_counter_sentences(n: int | None = None, seed: int = 0) -> list[StereotypeSentence]:
    """Gender stereotypes in sentences that we wrote (SPEC A6), group A feminine and B masculine, half and
    half.

    Without n: all of them, template by template. With n: a seeded sample that uses the templates as equally
    as it can.
    """
    everything = [
        (i, sentence) for i, named in enumerate(_counter_templates()) for sentence in _of_template(i, *named)
    ]
    if n is None:
        return [sentence for _, sentence in everything]
    if not 1 <= n <= len(everything):
        raise BadProbe(
            f"{n} counter-stereotype sentences were asked for; levelhead ships 1 to {len(everything)}."
        )
    rng = random.Random(seed)
    chosen: list[StereotypeSentence] = []
    for group, size in (("A", (n + 1) // 2), ("B", n // 2)):
        queue: list[tuple[int, float, StereotypeSentence]] = []
        for _, members in groupby((e for e in everything if e[1].group == group), key=lambda e: e[0]):
            own = [sentence for _, sentence in members]
            rng.shuffle(own)
            queue += [(turn, rng.random(), sentence) for turn, sentence in enumerate(own)]
        chosen += [sentence for *_, sentence in sorted(queue, key=lambda q: q[:2])[:size]]
    rng.shuffle(chosen)
    return chosen


def _counter_templates() -> list[tuple[str, str]]:
    """(name of the target list, template)"""
    return [(name, text) for name, texts in _toml("counter.toml")["templates"].items() for text in texts]


def _of_template(number: int, name: str, template: str) -> Iterator[StereotypeSentence]:
    """The template with every target word of its list; the attribute pairs take turns."""
    data = _toml("counter.toml")
    slot = next(s for s in _SLOT.findall(template) if s != name)
    pairs = data["attributes"][slot]
    for side, group in enumerate(get_args(Group)):
        for i, target in enumerate(data["targets"][name][group]):
            pair = pairs[(number + i) % len(pairs)]
            text, spans = _filled(template, {slot: pair[side], name: target})
            yield _stereotype(
                text, _Hit(pair[side], spans[slot]), _Hit(target, spans[name]), pair[1 - side], group
            )


@dataclass(frozen=True)
class CounterExtraction:
    """What a corpus holds for the counter-stereotype experiment, and why the rest of it was not used."""

    sentences: tuple[StereotypeSentence, ...]  # distinct; at most n
    found: Mapping[str, int]  # group -> usable sentences before sampling, repeats included
    read: int  # what was found and what was skipped
    skipped: Mapping[str, int]  # reason -> sentences, rows or files

    def __len__(self) -> int:
        return len(self.sentences)

    def __iter__(self) -> Iterator[StereotypeSentence]:
        return iter(self.sentences)


def extract_counter_sentences(
    test: WordTest, source: str | Path, n: int = 500, seed: int = 0
) -> CounterExtraction:
    """Sentences with exactly one attribute word and exactly one target word stereotyped with its group (SPEC
    A6).

    source: as for corpus_contexts; read once, n sentences in memory. The sample depends on the seed and on
    which sentences the corpus holds, not on their order. Of several counterparts the list's first is taken;
    her, hers, him and his are skipped: their counterpart depends on grammar. A corpus without a usable
    sentence is an error.
    """
    check_sample(n, seed, "sentences")
    sieve = _Sieve(test)
    heap: list[tuple[int, str, StereotypeSentence]] = []
    kept, found, skipped = set[str](), Counter({"A": 0, "B": 0}), Counter[str]()
    for text in corpus_sentences(source, skipped):
        if isinstance(sentence := sieve(text), str):
            skipped[sentence] += 1
            continue
        found[sentence.group] += 1
        if text in kept:
            continue
        draw = int.from_bytes(hashlib.blake2b(f"{seed}\n{text}".encode(), digest_size=8).digest())
        kept.add(text)
        heapq.heappush(heap, (draw, text, sentence))
        if len(heap) > n:
            kept.remove(heapq.heappop(heap)[1])
    if not heap:
        told = f"{source}: no counter-stereotype with words of {test.name} ({top_reasons(skipped)})"
        raise BadProbe(f"{told}; use a larger corpus.")
    chosen = tuple(sentence for *_, sentence in sorted(heap, key=lambda item: item[:2], reverse=True))
    return CounterExtraction(
        chosen, dict(found), found.total() + skipped.total(), dict(skipped.most_common())
    )


class _Sieve:
    """Turns a sentence into a StereotypeSentence, or into the reason why it is none."""

    def __init__(self, test: WordTest) -> None:
        self.side = {_key(word): group for group in ("A", "B") for word in test.groups()[group]}
        self.stereotyped = {
            _key(word): group for group, words in (("A", test.X), ("B", test.Y)) for word in words
        }
        self.counterpart = {_key(word): surface(others[0]) for word, others in test.counterparts().items()}
        # A list may name "woman" and not "her"; "the woman took her coat" still has two gendered words.
        self.unlisted = _PRONOUNS - self.side.keys() if _GENDERED & self.side.keys() else frozenset[str]()
        self.finder = WordFinder([*self.side, *self.stereotyped, *self.unlisted])

    def __call__(self, text: str) -> StereotypeSentence | str:
        count, hits = self.finder.find(text)
        if not MIN_WORDS <= count <= MAX_WORDS:
            return f"fewer than {MIN_WORDS} or more than {MAX_WORDS} words"
        found = [_Hit(word, (start, end)) for word, start, end in hits]
        attributes = [hit for hit in found if hit.word in self.side or hit.word in self.unlisted]
        targets = [hit for hit in found if hit.word in self.stereotyped]
        if not attributes or not targets:
            return "no attribute word or no target word"
        if len(attributes) > 1:
            return "several attribute words"
        if len(targets) > 1:
            return "several target words"
        return self._judged(text, attributes[0], targets[0])

    def _judged(self, text: str, attribute: _Hit, target: _Hit) -> StereotypeSentence | str:
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
    before, after = sentence.text[:start], sentence.text[end:]
    if names_nobody(sentence.text, start):
        return "the attribute word names nobody"  # a bachelor's degree
    if _ARTICLE.search(before):
        counter = sentence.counter[slice(*sentence.counter_attribute_span)]
        if article(sentence.text[start:end]) != article(counter):
            return "the article would not agree"
    if sentence.text[start:end].istitle() and (
        re.match(r"\.? [A-Z]", after) or re.search(r" [A-Z][\w'’-]* $", before)
    ):
        return "the attribute word is part of a name"  # Queen Elizabeth, Martin Luther King
    return None


def _key(word: str) -> str:
    return surface(word).lower().replace("’", "'")


@dataclass(frozen=True)
class LpbsTemplate:
    """A sentence with {attribute}, where a model chooses (she or he), and {target}, the word asked about."""

    text: str
    kind: Kind


@dataclass(frozen=True)
class LpbsSentence:
    """A sentence with a mask token for the attribute. Masking target_span as well gives the prior of A10."""

    target: str
    template: LpbsTemplate
    text: str
    mask_span: Span
    target_span: Span


def lpbs_templates(kind: Kind = "topic") -> tuple[LpbsTemplate, ...]:
    """Templates for one kind of target: topic (salary, poetry, NASA), person (nurse), trait (gentle), words
    (any)."""
    if kind not in get_args(Kind):
        raise BadProbe(f"{kind!r} is no kind of target; there are {', '.join(get_args(Kind))}.")
    return tuple(LpbsTemplate(text, kind) for text in _toml("lpbs.toml")[kind])


def lpbs_sentences(targets: Iterable[str], mask_token: str, kind: Kind = "topic") -> list[LpbsSentence]:
    """Every distinct target in every template of its kind, with the model's mask token where the pronoun
    belongs."""
    if not mask_token:
        raise BadProbe("No mask token: LPBS asks a masked model; for a causal model choose SEAT.")
    sentences = []
    for target in dict.fromkeys(targets):
        for template in lpbs_templates(kind):
            text, spans = _filled(template.text, {"attribute": mask_token, "target": surface(target)})
            sentences.append(LpbsSentence(target, template, text, spans["attribute"], spans["target"]))
    return sentences
