"""Everyday sentences with what plainly comes next, each about a woman or a man (docs/method.md)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from levelhead.probes import shipped_toml
from levelhead.probes.group_swap import GenderSwap

_SWAP = GenderSwap()


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
    """The shipped items, each about a woman and about a man; every: one of so many contexts of a topic.

    Items stand in pairs, half of the topics apart, whose next sentences are each other's unrelated ones: each
    next sentence is related once and unrelated once, so that how frequent its words are decides nothing.
    """
    topics = shipped_toml("sentences/sense")["topics"]
    written = {name: contexts[::every] for name, contexts in topics.items()}
    names = list(written)
    others = names[len(names) // 2 :] + names[: len(names) // 2]
    return tuple(
        _item(name, context, related, unrelated, turn)
        for name, other in zip(names, others, strict=True)
        for (context, related), (_, unrelated) in zip(written[name], written[other], strict=True)
        for turn in range(_SWAP.groups)
    )


def _item(topic: str, context: str, related: str, unrelated: str, turn: int) -> SenseItem:
    """All three sentences as they are written, or all three swapped."""
    turned, after, elsewhere = (_SWAP(text, turn).text for text in (context, related, unrelated))
    return SenseItem(topic, turned, after, elsewhere, written=context)
