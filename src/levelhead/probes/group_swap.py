"""The exchange of groups in a text, whichever groups they are: what symmetrization averages over.

Gender is swapped by the reversible swapper of `probes/swap`, with its grammar; any other bias by the rows of
counterparts that a word list states. Rows of k words, one per group, are turned: turn t puts the word of
group (c + t) mod k where the word of group c stood (docs/method.md, Symmetrization).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from typing import Protocol

from levelhead.errors import BadProbe
from levelhead.probes.swap import name_pairs, pairs, swap
from levelhead.probes.swap.gendered import Gender
from levelhead.probes.swap.tokens import tokenize

GENDER = "gender"
Span = tuple[int, int]
_BY_GRAMMAR = (("her", "his"), ("her", "him"), ("hers", "his"))  # counterparts that depend on the sentence


@dataclass(frozen=True)
class TurnedText:
    """A text with its groups exchanged, and where each exchanged word stands in both texts."""

    text: str
    changes: tuple[tuple[Span, Span], ...] = ()  # characters before, characters after, in order
    reversible: bool = True  # whether turning on until every group was there once gives the text again

    def place(self, span: Span) -> Span:
        """Where characters of the text that came in stand in this one; part of an exchanged word is all."""
        return self._moved(span[0], first=True), self._moved(span[1], first=False)

    def _moved(self, at: int, first: bool) -> int:
        shift = 0
        for (start, end), (new_start, new_end) in self.changes:
            if at <= start:
                break
            if at < end or (at == end and not first):
                return new_start if first else new_end
            shift = new_end - end
        return at + shift


class GroupSwap(Protocol):
    """How the groups of one bias are exchanged in English text."""

    @property
    def name(self) -> str: ...

    @property
    def groups(self) -> int: ...

    def __call__(self, text: str, turn: int = 1) -> TurnedText: ...

    def classes(self) -> tuple[tuple[frozenset[str], ...], ...]:
        """Words that stand for each other, [class][group]: ({her, hers}, {his, him}), ({she}, {he}) ..."""
        ...


@dataclass(frozen=True)
class GenderSwap:
    """Feminine and masculine words exchanged, her and his by grammar, and first names of the table.

    believed: names in no table with the gender that a model takes them to have (engine/name_beliefs.py).
    Their counterpart is a name of the table, so a text with one of them is exchanged but does not come back.
    """

    names: bool = True
    name: str = GENDER
    groups: int = 2
    believed: tuple[tuple[str, Gender], ...] = field(default=(), compare=False)

    def __call__(self, text: str, turn: int = 1) -> TurnedText:
        """The text with its genders swapped; turn 0 leaves it as it is."""
        return _gender_swapped(text, self.names, self.believed) if turn % 2 else TurnedText(text)

    def classes(self) -> tuple[tuple[frozenset[str], ...], ...]:
        return _gender_classes(self.names)


@cache
def _gender_classes(names: bool) -> tuple[tuple[frozenset[str], ...], ...]:
    words = _connected((*pairs(), *_BY_GRAMMAR))
    # Names keep their capital: "frank" and "grace" in small letters are other words.
    named = tuple((frozenset((f,)), frozenset((m,))) for f, m in name_pairs())
    return words + named if names else words


@lru_cache(maxsize=1 << 16)
def _gender_swapped(text: str, names: bool, believed: tuple[tuple[str, Gender], ...]) -> TurnedText:
    known = _with_known_names(text, dict(believed))
    swapped = swap(known.text, names=names)
    changes = _placed([(start, len(old), len(new)) for old, new, start in swapped.changes])
    if known.changes:
        # Every stand-in must be exchanged as the name that it stands for would be, or none is.
        if not {after for _, after in known.changes} <= {before for before, _ in changes}:
            return _gender_swapped(text, names, ())
        written = TurnedText(text, tuple((after, before) for before, after in known.changes))
        return TurnedText(swapped.text, tuple((written.place(old), new) for old, new in changes), False)
    back = swapped.text == text or swap(swapped.text, names=names).text == text
    return TurnedText(swapped.text, changes, back)


def _with_known_names(text: str, believed: dict[str, Gender]) -> TurnedText:
    """The text with names of the table in place of believed ones, of the same gender."""
    found = [token for token in tokenize(text) if token.text in believed] if believed else []
    stand_ins = dict(zip(("F", "M"), name_pairs()[0], strict=True))
    pieces, changes, at = [], [], 0
    for token in found:
        new = stand_ins[believed[token.text]]
        pieces += [text[at : token.start], new]
        at = token.start + len(token.text)
        changes.append((token.start, len(token.text), len(new)))
    return TurnedText("".join([*pieces, text[at:]]), _placed(changes))


def _placed(changes: Sequence[tuple[int, int, int]]) -> tuple[tuple[Span, Span], ...]:
    """Spans before and after of (start before, length before, length after), in order."""
    placed, shift = [], 0
    for start, old, new in changes:
        placed.append(((start, start + old), (start + shift, start + shift + new)))
        shift += new - old
    return tuple(placed)


@dataclass(frozen=True)
class RowSwap:
    """Words exchanged by rows of counterparts, one word per group, wherever they stand; case is kept."""

    name: str
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        sizes = {len(row) for row in self.rows}
        if len(sizes) != 1 or min(sizes, default=0) < 2:
            raise BadProbe(
                f"{self.name}: exchanging groups needs rows of counterparts, each with one word per group; "
                'write pairs = [["a", "b"], ...] into the list.'
            )

    @property
    def groups(self) -> int:
        """How many groups there are."""
        return len(self.rows[0])

    def __call__(self, text: str, turn: int = 1) -> TurnedText:
        """The text in which the words of group c have become those of group c + turn."""
        turned = self._once(text, turn % self.groups)
        back = self._once(turned.text, -turn % self.groups)
        return TurnedText(turned.text, turned.changes, back.text == text)

    def _once(self, text: str, turn: int) -> TurnedText:
        pieces, changes, at = [], [], 0
        for match in self._pattern.finditer(text) if turn else ():
            row, group = self._place[match[0].lower()]
            new = _cased(row[(group + turn) % self.groups], match[0])
            pieces += [text[at : match.start()], new]
            changes.append((match.start(), len(match[0]), len(new)))
            at = match.end()
        return TurnedText("".join([*pieces, text[at:]]), _placed(changes))

    def classes(self) -> tuple[tuple[frozenset[str], ...], ...]:
        return _connected(self.rows)

    @cached_property
    def _place(self) -> dict[str, tuple[tuple[str, ...], int]]:
        """The first row that has a word, and the word's group."""
        place: dict[str, tuple[tuple[str, ...], int]] = {}
        for row in self.rows:
            for group, word in enumerate(row):
                place.setdefault(word.lower(), (row, group))
        return place

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        words = sorted(self._place, key=len, reverse=True)
        return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, words))})(?!\w)", re.IGNORECASE)


def _cased(word: str, like: str) -> str:
    """A word in the case of another: CAPITALS, Title, or as it is listed."""
    if like.isupper() and len(like) > 1:
        return word.upper()
    return word[:1].upper() + word[1:] if like[:1].isupper() else word


def _connected(rows: Sequence[tuple[str, ...]]) -> tuple[tuple[frozenset[str], ...], ...]:
    """Rows that share a word of the same group, together: [class][group]"""
    classes: list[list[set[str]]] = []
    for row in rows:
        words = [{word.lower()} for word in row]
        apart = []
        for known in classes:
            if any(mine & theirs for mine, theirs in zip(words, known, strict=True)):
                words = [mine | theirs for mine, theirs in zip(words, known, strict=True)]
            else:
                apart.append(known)
        classes = [*apart, words]
    return tuple(tuple(map(frozenset, each)) for each in classes)
