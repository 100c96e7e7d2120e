"""Which tokens of a vocabulary stand for each other when groups are exchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelhead.models.encoding import token_id
from levelhead.models.model import Model
from levelhead.models.once import once_a_model
from levelhead.probes.group_swap import GroupSwap

Doubles = NDArray[np.float64]
_CASES: tuple[Callable[[str], str], ...] = (str, str.capitalize, str.upper)


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
    for words in swap.classes():
        complete = False
        for groups in _written(model, words):
            members = {token for group in groups for token in group}
            if all(groups) and not members & taken and len(members) == sum(map(len, groups)):
                found[groups] = None
                taken |= members
            complete |= all(groups)
        if not complete:
            split += sorted(word for group in words for word in group)
    return TokenClasses(tuple(found), tuple(split))


def _written(model: Model, words: Sequence[frozenset[str]]) -> Iterator[tuple[tuple[int, ...], ...]]:
    """A class as tokens: in small letters, capitalized and in capitals; inside a text, then at its start."""
    for number in (token_id, _first_token):
        for case in _CASES:
            yield tuple(
                tuple(sorted({t for word in group if (t := number(model, case(word))) is not None}))
                for group in words
            )


def _first_token(model: Model, word: str) -> int | None:
    """The one token that stands for a word at the start of a text, or None when the word is split."""
    tokens = model.tokenizer(word, add_special_tokens=False)["input_ids"]
    return int(tokens[0]) if len(tokens) == 1 and tokens[0] != model.tokenizer.unk_token_id else None
