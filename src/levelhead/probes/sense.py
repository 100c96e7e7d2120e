"""Everyday sentences with what plainly comes next, each about a woman or a man (docs/method.md)."""

from __future__ import annotations

import random
import tomllib
from dataclasses import dataclass
from functools import cache

from levelhead.probes import DATA
from levelhead.probes.group_swap import GenderSwap

_SEED = 0
_SWAP = GenderSwap()


@dataclass(frozen=True)
class SenseItem:
    """A context, the sentence that comes next, and the next sentence of another item, of another topic."""

    topic: str
    context: str
    related: str
    unrelated: str


@cache
def sense_items() -> tuple[SenseItem, ...]:
    """The shipped items; a seeded coin decides which of them are about men.

    Items stand in pairs, half of the topics apart, whose next sentences are each other's unrelated ones: each
    next sentence is related once and unrelated once, so that how frequent its words are decides nothing.
    """
    topics = tomllib.loads((DATA / "sentences" / "sense.toml").read_text(encoding="utf-8"))["topics"]
    coin = random.Random(_SEED)
    written = {name: [_turned(pair, coin) for pair in pairs] for name, pairs in topics.items()}
    names = list(written)
    others = names[len(names) // 2 :] + names[: len(names) // 2]
    return tuple(
        SenseItem(name, context, related, unrelated)
        for name, other in zip(names, others, strict=True)
        for (context, related), (_, unrelated) in zip(written[name], written[other], strict=True)
    )


def _turned(pair: list[str], coin: random.Random) -> list[str]:
    """Both sentences as they are written, or both swapped."""
    turn = coin.randrange(2)
    return [_SWAP(text, turn).text for text in pair]
