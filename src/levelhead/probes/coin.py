"""One question instead of one per group: a coin exchanges the groups of a text, and those of its answer back.

    E over coins of the answer = (1/k) Σ_t σ^−t f(σ^t x)

which is the answer of the symmetrized model (docs/method.md, Symmetrization), at one pass. The coin is a hash
of the text and a seed: the same text gets the same answer. It needs texts alone, so it works before an API.
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
    """Which turn of the groups a text is asked at."""

    swap: GroupSwap
    seed: int = 0

    def turn(self, text: str) -> int:
        """A turn for this text, each as likely as any other; 0 where an exchange would not come back."""
        digest = hashlib.sha256(f"{self.seed}\n{text}".encode()).digest()
        turn = int.from_bytes(digest[:8]) % self.swap.groups
        return turn if self.swap(text, turn).reversible else 0

    def back(self, answer: A, turn: int) -> A:
        """An answer at a turn as one about the text: words in it are exchanged back, numbers stay.

        A mapping from words to numbers is one of the words exchanged back; what becomes one word is added up.
        """
        if isinstance(answer, str):
            return cast(A, self.swap(answer, -turn % self.swap.groups).text)
        if not isinstance(answer, Mapping):
            return answer
        total: dict[object, float] = {}
        for word, number in answer.items():
            own = self.back(word, turn)
            total[own] = total[own] + number if own in total else number
        return cast(A, total)


def coin(function: Callable[[str], A], bias: Words = "gender", seed: int = 0) -> Callable[[str], A]:
    """A function of a text, an API perhaps, that is asked once, with the groups exchanged by a seeded coin.

    bias: a word list with pairs, by its name or path, or in memory. Texts in answers, and words that scores
    are given to, are exchanged back; numbers and vectors stay as they are. Over seeds the mean of the answers
    is that of both questions.
    """
    tossed = Coin(swap_for(load_words(bias)), seed)

    def asked(text: str) -> A:
        turn = tossed.turn(text)
        return tossed.back(function(tossed.swap(text, turn).text), turn)

    return asked
