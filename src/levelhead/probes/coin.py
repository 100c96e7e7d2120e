"""One question instead of one per group: a coin exchanges the groups of a text, and those of its answer back.

    E over coins of the answer = (1/k) Σ_t σ^−t f(σ^t x)

which is the answer of the symmetrized model (docs/method/mitigations.md, Symmetrization), at one pass. The
coin is a hash of the text and a seed: the same text gets the same answer. It needs texts alone, so it works
before an API.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar, cast

from levelhead.probes.bias import swap_for
from levelhead.probes.group_swap import GroupSwap
from levelhead.probes.words import Words, load_words

A = TypeVar("A")


@dataclass(frozen=True)
class Coin:
    """Which orientation of the groups a text is run at."""

    swap: GroupSwap
    seed: int = 0

    def orientation(self, text: str) -> int:
        """An orientation for this text, all equally likely; 0 where an exchange would not come back."""
        digest = hashlib.sha256(f"{self.seed}\n{text}".encode()).digest()
        orientation = int.from_bytes(digest[:8]) % self.swap.groups
        return orientation if self.swap(text, orientation).reversible else 0

    def back(self, answer: A, orientation: int) -> A:
        """An answer at an orientation as one about the text: words in it are exchanged back, numbers stay.

        A mapping from words to numbers is one of the words exchanged back; what becomes one word is added up.
        """
        if isinstance(answer, str):
            return cast(A, self.swap(answer, -orientation % self.swap.groups).text)
        if not isinstance(answer, Mapping):
            return answer
        total: dict[object, float] = {}
        for word, number in answer.items():
            own = self.back(word, orientation)
            total[own] = total[own] + number if own in total else number
        return cast(A, total)


def coin(function: Callable[[str], A], bias: Words = "gender", seed: int = 0) -> Callable[[str], A]:
    """A function of a text, an API perhaps, that is called once, with the groups exchanged by a seeded coin.

    bias: a word list with pairs, by its name or path, or in memory. Texts in answers, and words that scores
    are given to, are exchanged back; numbers and vectors stay as they are. Over seeds the mean of the answers
    is that of both questions.
    """
    tossed = Coin(swap_for(load_words(bias)), seed)

    def tossing(text: str) -> A:
        orientation = tossed.orientation(text)
        return tossed.back(function(tossed.swap(text, orientation).text), orientation)

    return tossing
