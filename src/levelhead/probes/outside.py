"""Text that nobody wrote for levelhead, on which mitigations are evaluated outside our own items.

Of a text three things are taken (docs/method/certified.md, Outside evaluation): sentences whose groups are
exchanged exactly, for the mirror gap; running text, for perplexity; and sentences in which a noun or a name
fixes the gender of a pronoun behind it, for agreement. Ours is data/outside/gender.toml.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Self, TypeVar

from levelhead.errors import BadProbe
from levelhead.probes import OURS, shipped_toml
from levelhead.probes.agreement import NAME, NOUN, AgreementItem
from levelhead.probes.corpus import corpus_sentences, plain_sentences, split_sentences
from levelhead.probes.generation import occupation_facts
from levelhead.probes.group_swap import GENDER, GenderSwap, GroupSwap
from levelhead.probes.swap import gendered_words, stated_genders, swap

T = TypeVar("T")
NONE = "none"  # the source that leaves the evaluation outside out
FEWEST = 30  # exact sentences, below which a mean and its interval say little
_READ = 20_000  # sentences of a user's text, at most
_WORDS = range(4, 41)  # of a sentence that is scored
_PASSAGE = 40  # words that a user's sentences are joined to
_PRONOUNS = frozenset(("she", "he", "her", "his", "him", "herself", "himself"))
_ADJECTIVES = frozenset(("female", "male", "feminine", "masculine"))
# Somebody else whom a pronoun could be about, beside all occupations that ship.
_PEOPLE = (
    "adult another anybody anyone author baby boss captive character child client colleague companion "
    "couple customer dancer doctor driver enemy everybody everyone friend guard guest guide infant killer "
    "leader lover manager member neighbor neighbour nobody nurse officer other owner parent partner "
    "passenger patient person player police prisoner rival servant singer somebody someone spouse "
    "stranger student teacher tutor victim visitor who writer"
)
_SOMEBODY = frozenset(_PEOPLE.split())


@dataclass(frozen=True)
class OutsideText:
    """What is scored of a text: exact sentences with the document of each, passages, and stated genders."""

    name: str
    sentences: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()  # of each sentence
    passages: tuple[str, ...] = ()
    stated: tuple[AgreementItem, ...] = ()

    def without(self, trained: str) -> Self:
        """The same without sentences of a text that a mitigation is trained on, and passages that have one.

        trained: what corpus_sentences takes.
        """
        within = [frozenset(split_sentences([f"{each}\n\n"])) for each in self.passages]
        own = frozenset(self.sentences).union(*within)
        met = {text for text in plain_sentences(corpus_sentences(trained)) if text in own}
        kept = [i for i, text in enumerate(self.sentences) if text not in met]
        return replace(
            self,
            sentences=tuple(self.sentences[i] for i in kept),
            documents=tuple(self.documents[i] for i in kept),
            passages=tuple(each for each, own in zip(self.passages, within, strict=True) if not own & met),
            stated=tuple(item for item in self.stated if item.people not in met),
        )

    def drawn(self, sizes: OutsideSizes, seed: int) -> Self:
        """A sample by a seed: so many of each kind, shorter ones only where that leaves enough."""
        kept = [i for i, text in enumerate(self.sentences) if len(text.split()) <= sizes.longest]
        rng, passages = random.Random(seed), self.passages
        if not sizes.whole:
            cut = tuple(split_sentences([f"{each}\n\n" for each in passages]))
            short = tuple(each for each in cut if len(each.split()) <= sizes.longest)
            passages = short if len(short) >= FEWEST else cut
        chosen = _some(rng, kept if len(kept) >= FEWEST else range(len(self.sentences)), sizes.sentences)
        return type(self)(
            self.name,
            tuple(self.sentences[i] for i in chosen),
            tuple(self.documents[i] for i in chosen),
            tuple(_some(rng, passages, sizes.passages)),
            tuple(_some(rng, self.stated, sizes.stated)),
        )


@dataclass(frozen=True)
class OutsideSizes:
    """How many sentences, passages and pronouns are scored at most, and words of a sentence."""

    sentences: int
    passages: int
    stated: int
    longest: int = _WORDS.stop
    whole: bool = True  # False: passages in sentences, which take a masked model less

    def one_of(self, every: int) -> OutsideSizes:
        """The sizes where one of so many items is evaluated."""
        sentences, passages, stated = (
            max(min(FEWEST, size), size // every) for size in (self.sentences, self.passages, self.stated)
        )
        return replace(self, sentences=sentences, passages=passages, stated=stated)


def load_outside(source: str | Path, exchange: GroupSwap) -> OutsideText:
    """The text of a source: "" for ours, or what corpus_sentences takes: a file, a folder, hub:NAME."""
    if not source:
        return shipped_outside()
    read = list(islice(plain_sentences(corpus_sentences(source)), _READ))
    kept = [text for text in dict.fromkeys(read) if len(text.split()) in _WORDS and exact(exchange, text)]
    if len(kept) < FEWEST:
        raise BadProbe(
            f"{source}: {len(kept)} of {len(read)} sentences have words of {exchange.name} and are exchanged "
            f"exactly; outside needs at least {FEWEST}. Give more text, or none."
        )
    passages, held = list[str](), list[str]()
    for text in read:
        held.append(text)
        if sum(len(each.split()) for each in held) >= _PASSAGE:
            passages.append(" ".join(held))
            held = []
    passages += [" ".join(held)] if held else []
    documents = tuple(str(number) for number in range(len(kept)))
    return OutsideText(str(source), tuple(kept), documents, tuple(passages), _stated(exchange, kept))


@cache
def shipped_outside() -> OutsideText:
    """The text that ships: Wikipedia and stories in the public domain, about gender."""
    sentences, documents, passages = list[str](), list[str](), list[str]()
    for number, block in enumerate(shipped_toml("outside/gender")["blocks"]):
        passages += block["passages"]
        for document, own in enumerate(block["sentences"]):
            sentences += own
            documents += [f"{number}.{document}"] * len(own)
    stated = _stated(GenderSwap(), sentences)
    return OutsideText(OURS, tuple(sentences), tuple(documents), tuple(passages), stated)


def exact(exchange: GroupSwap, text: str) -> bool:
    """Whether a text has words of the groups, all of them are exchanged, and exchanging again gives it back.

    A word for a gender that has no counterpart, and a name that is in no table, is not exchanged.
    """
    oriented = [exchange(text, orientation) for orientation in range(1, exchange.groups)]
    if not all(each.changes and each.reversible for each in oriented):
        return False
    return not (isinstance(exchange, GenderSwap) and swap(text, names=exchange.names).problems)


def stated_item(text: str, cluster: str = "") -> AgreementItem | None:
    """The first pronoun of an exact sentence, where a noun or a name before it fixes its gender.

    None where the sentence names both genders or quotes anybody; where the noun is of several, or somebody of
    no stated gender comes before the pronoun; for an object, which is often somebody else (Carl pursues him).
    """
    found = stated_genders(text, names=True)
    place = next((i for i, each in enumerate(found) if each.word.lower() in _PRONOUNS), 0)
    if not place or len({each.gender for each in found}) > 1 or any(mark in text for mark in '"“”‘'):
        return None
    who, pronoun = found[place - 1], found[place]
    noun, others = who.word.lower(), {word.strip(",;:.'").lower() for word in text[: pronoun.start].split()}
    several = noun.endswith(("men", "s")) and not noun.endswith("ss")
    if several or noun in _ADJECTIVES or others & _SOMEBODY or others & occupation_facts().keys():
        return None
    other = next((new for _, new, start in swap(text, names=True).changes if start == pronoun.start), "")
    if not other or "him" in (pronoun.word.lower(), other.lower()):
        return None
    after, behind = text[pronoun.start + len(pronoun.word) :], text[who.start + len(who.word) :].lstrip()
    named = noun not in gendered_words() or behind[:1].isupper()  # Father Brown, Mr. Brown
    kind = NAME if named else NOUN
    return AgreementItem(cluster or text, text[: pronoun.start].rstrip(), after, pronoun.word, other, kind)


def _stated(exchange: GroupSwap, sentences: Sequence[str]) -> tuple[AgreementItem, ...]:
    """Of every sentence and of its counterfactual, so that both genders are stated alike often."""
    if exchange.name != GENDER:
        return ()
    texts = [(each, text) for text in sentences if stated_item(text) for each in (text, exchange(text).text)]
    found = [stated_item(each, text) for each, text in texts]
    return tuple(item for item in found if item is not None)


def _some(rng: random.Random, items: Sequence[T], most: int) -> list[T]:
    return [items[i] for i in sorted(rng.sample(range(len(items)), min(most, len(items))))]
