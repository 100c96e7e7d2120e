"""English text to train on, drawn from frames that ship (data/text/training.toml): half of it about people.

Every topic has as many sentences as any other, and half of each topic's have words for a group. Those are
written about women and swapped by a coin, so that what is said of women is said of men; only sentences whose
swap comes back are kept. None of them is a shipped probe. Same number and seed, same sentences.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from levelhead.errors import BadOption, BadProbe
from levelhead.probes import shipped_toml
from levelhead.probes.agreement import agreement_names
from levelhead.probes.corpus import corpus_sentences, plain_sentences
from levelhead.probes.group_swap import GENDER, GenderSwap, GroupSwap
from levelhead.probes.slots import ARTICLE, SLOT, filled
from levelhead.probes.swap import name_pairs

MOST = 200_000  # sentences; more would be nearly the same ones
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
    """So many sentences, no two alike, topics and halves alternate: any beginning of them is balanced."""
    if not 1 <= n <= MOST:
        raise BadOption(f"{n} sentences were asked for; allowed are 1 to {MOST:,}.")
    rng = random.Random(seed)
    frames = shipped_toml("text/training")
    topics, tested = tuple(frames["topics"]), agreement_names()
    names = [pair[0] for pair in name_pairs() if tested.isdisjoint(pair)]  # feminine ones
    seen: set[str] = set()
    found: list[TrainingSentence] = []
    while len(found) < n:
        topic, grouped = topics[len(found) // 2 % len(topics)], len(found) % 2 == 0
        words = {**frames["slots"], **frames["topics"][topic], "name": names}
        for _ in range(_TRIES):
            frame = rng.choice(frames["people" if grouped else "things"]["frames"])
            # All slots are filled, those inside of what fills them too; {Who} begins with a capital. No word
            # is drawn twice in a sentence where there is a choice.
            drawn: set[str] = set()
            while slot := SLOT.search(frame):
                name = slot[1].lower()
                word = rng.choice([word for word in words[name] if word not in drawn] or list(words[name]))
                drawn.add(word)
                inner = word.startswith("{")
                if name != slot[1]:
                    word = "{" + word[1].upper() + word[2:] if inner else word[0].upper() + word[1:]
                if not inner and ARTICLE.search(frame[: slot.start()]):
                    head = filled(frame[: slot.end()].replace(slot[0], "{word}"), {"word": word})[0]
                    frame = head + frame[slot.end() :]
                else:
                    frame = frame[: slot.start()] + word + frame[slot.end() :]
            text = frame if frame[0] == '"' else frame[0].upper() + frame[1:]
            swapped = _SWAP(text)
            if grouped:
                usable = bool(swapped.changes) and swapped.reversible and swapped.text not in seen
                text = swapped.text if rng.random() < 0.5 else text
            else:
                usable = not swapped.changes
            if usable and text not in seen:
                break
        else:
            raise BadOption(f"The frames give no more sentences about {topic}; ask for fewer.")
        seen.add(text)
        found.append(TrainingSentence(text, topic, grouped))
    return tuple(found)


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
    grouped: list[TrainingSentence] = []
    plain: list[TrainingSentence] = []
    for text in dict.fromkeys(plain_sentences(corpus_sentences(source))):
        swapped = swap(text)
        if swapped.reversible:
            sentence = TrainingSentence(text, "", bool(swapped.changes))
            (grouped if sentence.grouped else plain).append(sentence)
    if not grouped:
        raise BadProbe(f"{source}: no sentence has a word of {swap.name} to exchange. Give other text.")
    half, rng = min(most // 2, len(grouped)), random.Random(seed)
    some = rng.sample(grouped, half) + rng.sample(plain, min(half, len(plain)))
    rng.shuffle(some)
    return tuple(some)
