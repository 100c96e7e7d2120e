"""Which tokens of a vocabulary stand for each other when groups are exchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelhead.models.concurrency import TOKENIZING
from levelhead.models.model import Model
from levelhead.models.once import once_a_model
from levelhead.probes.group_swap import GroupSwap

Doubles = NDArray[np.float64]
_CASES: tuple[Callable[[str], str], ...] = (str, str.capitalize, str.upper)
_INSIDE = "a "  # before a word inside a text, whose token may hold the space


@dataclass(frozen=True)
class TokenClasses:
    """Tokens of counterparts, [class][group] -> tokens. Each token is in one class at most."""

    classes: tuple[tuple[tuple[int, ...], ...], ...]
    split: tuple[str, ...]  # words that are exchanged in texts, but are more than one token

    def closed(self, tokens: Iterable[int]) -> tuple[int, ...]:
        """These tokens and all that stand for them, in order."""
        wanted = set(tokens)
        for groups in self.classes:
            members = {token for group in groups for token in group}
            if members & wanted:
                wanted |= members
        return tuple(sorted(wanted))

    def mixed(self, answers: Sequence[NDArray[Any]], tokens: Sequence[int]) -> Doubles:
        """Log-probabilities [..., token] of all turns as those of the symmetrized model.

            p_s(y | x) = (1/k) Σ_t P(σ^t [y] | σ^t x) · p(y | x) / P([y] | x)

        [y]: the tokens of y's class and group, of which most classes have one. answers[t] is about the texts
        after turn t, tokens are those asked for, a closed set.
        """
        logs = [np.asarray(answer, np.float64) for answer in answers]
        place = {token: i for i, token in enumerate(tokens)}
        total = logs[0].copy()
        for more in logs[1:]:
            total = np.logaddexp(total, more)
        for groups in self.classes:
            if groups[0][0] not in place:
                continue
            columns = [[place[token] for token in group] for group in groups]
            masses = [[_mass(of_turn, own) for own in columns] for of_turn in logs]
            for group, own in enumerate(columns):
                mixture = masses[0][group]
                for turn in range(1, len(logs)):
                    mixture = np.logaddexp(mixture, masses[turn][(group + turn) % len(groups)])
                share = logs[0][..., own] - masses[0][group][..., None]
                total[..., own] = mixture[..., None] + share
        return np.asarray(total - np.log(len(logs)))


def _mass(logs: Doubles, columns: Sequence[int]) -> Doubles:
    return np.asarray(np.logaddexp.reduce(logs[..., columns], axis=-1))


@once_a_model
def token_classes(model: Model, swap: GroupSwap) -> TokenClasses:
    """The classes of a swap as tokens, in each case and place of a word; those of one token on every side."""
    found: dict[tuple[tuple[int, ...], ...], None] = {}
    taken: set[int] = set()
    split: list[str] = []
    single = _single_tokens(model, swap)
    for words in swap.classes():
        complete = False
        for before, case in product((_INSIDE, ""), _CASES):
            groups = tuple(
                tuple(sorted({single[w] for word in group if (w := before + case(word)) in single}))
                for group in words
            )
            members = {token for group in groups for token in group}
            if all(groups) and not members & taken and len(members) == sum(map(len, groups)):
                found[groups] = None
                taken |= members
            complete |= all(groups)
        if not complete:
            split += sorted(word for group in words for word in group)
    return TokenClasses(tuple(found), tuple(split))


def _single_tokens(model: Model, swap: GroupSwap) -> dict[str, int]:
    """Words that are one token inside a text (behind _INSIDE) or at its start: one call for all of them."""
    words = {case(word) for groups in swap.classes() for group in groups for word in group for case in _CASES}
    written = [before + word for before in (_INSIDE, "") for word in sorted(words)]
    with TOKENIZING:
        encoded = model.tokenizer(written, add_special_tokens=False, return_offsets_mapping=True)
    single = {}
    for text, ids, offsets in zip(written, encoded["input_ids"], encoded["offset_mapping"], strict=True):
        start = len(_INSIDE) if text.startswith(_INSIDE) else 0
        own = [token for token, (_, end) in zip(ids, offsets, strict=True) if end > start]
        if len(own) == 1 and own[0] != model.tokenizer.unk_token_id:
            single[text] = int(own[0])
    return single
