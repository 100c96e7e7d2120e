"""The exchange of groups in a text, whichever groups they are: what symmetrization averages over.

Gender is swapped by the reversible swapper of `probes/swap`, with its grammar; any other bias by the rows of
counterparts that a word list states. Rows of k words, one per group, are oriented: orientation t puts the
word of group (c + t) mod k where the word of group c stood (docs/method/mitigations.md, Symmetrization).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache

from levelhead.errors import BadProbe
from levelhead.probes.swap import name_pairs, pairs, swap
from levelhead.probes.swap.gendered import Gender
from levelhead.probes.swap.tokens import tokenize

GENDER = "gender"
Span = tuple[int, int]
_BY_GRAMMAR = (("her", "his"), ("her", "him"), ("hers", "his"))  # counterparts that depend on the sentence


@dataclass(frozen=True)
class SwappedText:
    """A text with its groups exchanged, and where each exchanged word stands in both texts."""

    text: str
    changes: tuple[tuple[Span, Span], ...] = ()  # characters before, characters after, in order
    reversible: bool = True  # whether swapping on until every group was there once gives the text again

    def place(self, span: Span) -> Span:
        """Where characters of the text that came in stand in this one; part of an exchanged word is all."""
        moved = []
        for at, first in zip(span, (True, False), strict=True):
            shift, inside = 0, None
            for (start, end), (new_start, new_end) in self.changes:
                if at <= start:
                    break
                if at < end or (at == end and not first):
                    inside = new_start if first else new_end
                    break
                shift = new_end - end
            moved.append(at + shift if inside is None else inside)
        return moved[0], moved[1]


def _replaced(text: str, changes: Sequence[tuple[int, str, str]]) -> SwappedText:
    """The text with words put in place of others: (start, old, new), in order."""
    pieces: list[str] = []
    placed: list[tuple[Span, Span]] = []
    at = shift = 0
    for start, old, new in changes:
        pieces += [text[at:start], new]
        at = start + len(old)
        placed.append(((start, at), (start + shift, start + shift + len(new))))
        shift += len(new) - len(old)
    return SwappedText("".join([*pieces, text[at:]]), tuple(placed))


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

    def __call__(self, text: str, orientation: int = 1) -> SwappedText:
        """The text with its genders swapped; orientation 0 leaves it as it is."""
        return _gender_swapped(text, self.names, self.believed) if orientation % 2 else SwappedText(text)

    def classes(self) -> tuple[tuple[frozenset[str], ...], ...]:
        """Words that stand for each other, [class][group]: ({her, hers}, {his, him}), ({she}, {he}) ..."""
        return _gender_classes(self.names)


@cache
def _gender_classes(names: bool) -> tuple[tuple[frozenset[str], ...], ...]:
    words = _connected((*pairs(), *_BY_GRAMMAR))
    # Names keep their capital: "frank" and "grace" in small letters are other words.
    named = tuple((frozenset((f,)), frozenset((m,))) for f, m in name_pairs())
    return words + named if names else words


@lru_cache(maxsize=1 << 16)
def _gender_swapped(text: str, names: bool, believed: tuple[tuple[str, Gender], ...]) -> SwappedText:
    # Names of the table stand in for believed ones, of the same gender.
    genders = dict(believed)
    stand_ins = dict(zip(("F", "M"), name_pairs()[0], strict=True))
    found = [token for token in tokenize(text) if token.text in genders] if genders else []
    known = _replaced(text, [(token.start, token.text, stand_ins[genders[token.text]]) for token in found])
    swapped = swap(known.text, names=names)
    oriented = _replaced(known.text, [(start, old, new) for old, new, start in swapped.changes])
    if known.changes:
        # Every stand-in must be exchanged as the name that it stands for would be, or none is.
        if not {after for _, after in known.changes} <= {before for before, _ in oriented.changes}:
            return _gender_swapped(text, names, ())
        written = SwappedText(text, tuple((after, before) for before, after in known.changes))
        changes = tuple((written.place(old), new) for old, new in oriented.changes)
        return SwappedText(swapped.text, changes, False)
    back = swapped.text == text or swap(swapped.text, names=names).text == text
    return SwappedText(swapped.text, oriented.changes, back)


@dataclass(frozen=True)
class RowSwap:
    """Words exchanged by rows of counterparts, one word per group, wherever they stand; case is kept.

    A word of several rows is exchanged by the one whose words stand in the fewest rows: of black–Caucasian,
    African–Caucasian and black–white the last two, so that every exchange comes back. What has no such row
    (of Hindu–Christian and Muslim–Christian the one listed last) is exchanged and does not come back.
    """

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
        return len(self.rows[0])

    def __call__(self, text: str, orientation: int = 1) -> SwappedText:
        """The text in which the words of group c have become those of group c + orientation."""
        oriented = self._once(text, orientation % self.groups)
        back = self._once(oriented.text, -orientation % self.groups)
        return SwappedText(oriented.text, oriented.changes, back.text == text)

    def _once(self, text: str, orientation: int) -> SwappedText:
        pattern, place = self._words
        changes = []
        for match in pattern.finditer(text) if orientation else ():
            row, group = place[match[0].lower()]
            new = cased(row[(group + orientation) % self.groups], match[0])
            changes.append((match.start(), match[0], new))
        return _replaced(text, changes)

    def classes(self) -> tuple[tuple[frozenset[str], ...], ...]:
        return _connected(list(dict.fromkeys(row for row, _ in self._words[1].values())))

    @cached_property
    def _words(self) -> tuple[re.Pattern[str], dict[str, tuple[tuple[str, ...], int]]]:
        """What finds a word, and the row that exchanges it with the word's group."""
        place: dict[str, tuple[tuple[str, ...], int]] = {}
        listed = Counter(word.lower() for row in dict.fromkeys(self.rows) for word in row)
        for row in sorted(self.rows, key=lambda row: sum(listed[word.lower()] for word in row)):
            for group, word in enumerate(row):
                place.setdefault(word.lower(), (row, group))
        words = sorted(place, key=len, reverse=True)
        pattern = rf"(?<!\w)(?:{'|'.join(map(re.escape, words))})(?!\w)"
        return re.compile(pattern, re.IGNORECASE), place


GroupSwap = GenderSwap | RowSwap  # how the groups of one bias are exchanged in English text


def cased(word: str, like: str) -> str:
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
