"""English text to train on, drawn from frames that ship (data/text/training.toml): half of it about people.

Every topic has as many sentences as any other, and half of each topic's have words for a group. Those are
written about women and swapped by a coin, so that what is said of women is said of men; only sentences whose
swap comes back are kept. None of them is a shipped probe. Same number and seed, same sentences.
"""

from __future__ import annotations

import random
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from levelhead.errors import BadOption, BadProbe
from levelhead.probes import DATA
from levelhead.probes.agreement import agreement_names
from levelhead.probes.corpus import corpus_sentences
from levelhead.probes.group_swap import GENDER, GenderSwap, GroupSwap
from levelhead.probes.plain_text import plain_sentences
from levelhead.probes.slots import ARTICLE, SLOT, filled
from levelhead.probes.swap import name_pairs

MOST = 200_000  # sentences; more would be nearly the same ones
_FILE = DATA / "text" / "training.toml"
_TRIES = 50  # fillings of one frame that came before, until it is given up
_SWAP = GenderSwap()


@dataclass(frozen=True)
class TrainingSentence:
    """A sentence, or two that follow each other."""

    text: str
    topic: str
    grouped: bool  # whether it has words for a group


@cache
def training_sentences(n: int = 24_000, seed: int = 0) -> tuple[TrainingSentence, ...]:
    """So many sentences, no two alike, topics and halves in turn: any beginning of them is balanced."""
    if not 1 <= n <= MOST:
        raise BadOption(f"{n} sentences were asked for; allowed are 1 to {MOST:,}.")
    rng = random.Random(seed)
    topics = tuple(_Frames.read().topics)
    seen: set[str] = set()
    found: list[TrainingSentence] = []
    while len(found) < n:
        number = len(found)
        topic, grouped = topics[number // 2 % len(topics)], number % 2 == 0
        text = _new(topic, grouped, rng, seen)
        seen.add(text)
        found.append(TrainingSentence(text, topic, grouped))
    return tuple(found)


def _new(topic: str, grouped: bool, rng: random.Random, seen: set[str]) -> str:
    """A sentence that was not there yet."""
    for _ in range(_TRIES):
        text = _sentence(topic, grouped, rng)
        turned = _SWAP(text)
        if grouped:
            usable = bool(turned.changes) and turned.reversible and turned.text not in seen
            text = turned.text if rng.random() < 0.5 else text
        else:
            usable = not turned.changes
        if usable and text not in seen:
            return text
    raise BadOption(f"The frames give no more sentences about {topic}; ask for fewer.")


def _sentence(topic: str, grouped: bool, rng: random.Random) -> str:
    frames = _Frames.read()
    words = {**frames.slots, **frames.topics[topic], "name": _names()}
    return _capitals(_filled(rng.choice(frames.people if grouped else frames.things), _Words(words, rng)))


@cache
def _names() -> tuple[str, ...]:
    """Feminine first names, but for those of pairs that agreement is tested on."""
    tested = agreement_names()
    return tuple(feminine for feminine, masculine in name_pairs() if tested.isdisjoint((feminine, masculine)))


@dataclass
class _Words:
    """Draws what stands in a slot, never the same twice in a sentence where there is a choice."""

    words: Mapping[str, Sequence[str]]
    rng: random.Random

    def __post_init__(self) -> None:
        self._drawn: set[str] = set()

    def draw(self, slot: str) -> str:
        free = [word for word in self.words[slot] if word not in self._drawn] or list(self.words[slot])
        word = self.rng.choice(free)
        self._drawn.add(word)
        return word


def _filled(frame: str, words: _Words) -> str:
    """The frame with all slots filled, those inside of what fills them too; {Who} begins with a capital."""
    while slot := SLOT.search(frame):
        name = slot[1].lower()
        word = words.draw(name)
        if name != slot[1]:
            word = word[0].upper() + word[1:] if not word.startswith("{") else _capital_slot(word)
        before = ARTICLE.search(frame[: slot.start()])
        if before and not word.startswith("{"):
            head = filled(frame[: slot.end()].replace(slot[0], "{word}"), {"word": word})[0]
            frame = head + frame[slot.end() :]
        else:
            frame = frame[: slot.start()] + word + frame[slot.end() :]
    return frame


def _capital_slot(word: str) -> str:
    return "{" + word[1].upper() + word[2:]


def _capitals(text: str) -> str:
    return text[0].upper() + text[1:] if text[0] != '"' else text


@dataclass(frozen=True)
class _Frames:
    """What the file holds: frames with and without people, and what fills their slots, by topic too."""

    people: Sequence[str]
    things: Sequence[str]
    slots: Mapping[str, Sequence[str]]
    topics: Mapping[str, Mapping[str, Sequence[str]]]

    @classmethod
    @cache
    def read(cls) -> _Frames:
        """The file as it ships."""
        data = tomllib.loads(_FILE.read_text(encoding="utf-8"))
        return cls(data["people"]["frames"], data["things"]["frames"], data["slots"], data["topics"])


def training_text(
    source: str | Path | None, swap: GroupSwap, most: int = 24_000, seed: int = 0
) -> tuple[TrainingSentence, ...]:
    """What a model is trained on: sentences of a user's, or ours, which are about gender alone.

    source: one that corpus_sentences takes; None: ours. Of a user's text at most half has words for a group,
    where it has enough others, and sentences whose exchange does not come back are left out.
    """
    if source is None:
        if swap.name != GENDER:
            raise BadOption(f"No text ships for {swap.name}: give a text that has its words, with --text.")
        return training_sentences(most, seed)
    found = tuple(_known(plain_sentences(corpus_sentences(source)), swap))
    grouped, plain = ([each for each in found if each.grouped is wanted] for wanted in (True, False))
    if not grouped:
        raise BadProbe(f"{source}: no sentence has a word of {swap.name} to exchange. Give other text.")
    half, rng = min(most // 2, len(grouped)), random.Random(seed)
    some = rng.sample(grouped, half) + rng.sample(plain, min(half, len(plain)))
    rng.shuffle(some)
    return tuple(some)


def _known(texts: Iterable[str], swap: GroupSwap) -> Iterator[TrainingSentence]:
    for text in dict.fromkeys(texts):
        turned = swap(text)
        if turned.reversible:
            yield TrainingSentence(text, "", bool(turned.changes))
