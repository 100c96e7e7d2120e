"""Rows of tokens with their groups exchanged, and which tokens stand for each other before and after.

The words of a row are put together from its tokens, exchanged as text (group_swap), and only the tokens of
exchanged words are made anew: masks, separators and everything else stay as they came.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from levelhead.probes.group_swap import GroupSwap

_CLOSES, _OPENS = frozenset(".,;:!?%)]}'’-"), frozenset("([{-")  # no space before, none behind
_SHORTENED = frozenset(("s", "t", "d", "m", "re", "ve", "ll"))  # words that go on behind an apostrophe
_SPACE, _GOES_ON = "▁", "##"  # how SentencePiece writes a space, and WordPiece none
_SHOWN = [*range(33, 127), *range(161, 173), *range(174, 256)]  # bytes that stand for themselves
_HIDDEN = [each for each in range(256) if each not in _SHOWN]
_BYTES = {chr(each): each for each in _SHOWN} | {chr(256 + i): each for i, each in enumerate(_HIDDEN)}


@dataclass(frozen=True)
class Row:
    """The tokens of a text that are really there, without padding, and their types."""

    ids: Sequence[int]
    types: Sequence[int]


@dataclass(frozen=True)
class SwappedRow:
    """A row after an orientation. places: for each token of the row, the one that answers for it; -1: none
    does."""

    ids: Sequence[int]
    types: Sequence[int]
    places: Sequence[int]
    reversible: bool = True  # whether an exchange back gives the row again


class Orienter:
    """Orients rows of one tokenizer."""

    def __init__(self, tokenizer: Any, swap: GroupSwap, causal: bool) -> None:
        self.tokenizer, self.swap, self._causal = tokenizer, swap, causal
        words = {tokenizer.mask_token_id, tokenizer.unk_token_id}  # they stand inside texts
        self._special = set(tokenizer.all_special_ids) - words
        self._spaceless = self._ids("a.") == self._ids("a .")
        self._bytes = "\u0120" in "".join(tokenizer.convert_ids_to_tokens(self._ids("a she")))
        self._pieces: dict[int, str] = {}

    def __call__(self, row: Row, orientation: int) -> SwappedRow:
        """The row after an orientation of the groups; orientation 0 leaves it as it is."""
        if not orientation:
            return SwappedRow(row.ids, row.types, range(len(row.ids)))
        ids: list[int] = []
        types: list[int] = []
        places: list[int] = []
        reversible, at = True, 0
        for first, last, new, back in self._exchanges(row.ids, orientation):
            places += range(len(ids), len(ids) + first - at)
            ids += row.ids[at:first]
            types += row.types[at:first]
            if last - first == len(new):
                places += range(len(ids), len(ids) + len(new))
            else:  # none but the last of a model that reads ahead
                places += [-1] * (last - first - 1)
                places.append(len(ids) + len(new) - 1 if self._causal else -1)
            ids += new
            types += [row.types[first]] * len(new)
            reversible, at = reversible and back, last
        places += range(len(ids), len(ids) + len(row.ids) - at)
        return SwappedRow([*ids, *row.ids[at:]], [*types, *row.types[at:]], places, reversible)

    def texts(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Rows of tokens as text, without special tokens."""
        special = set(self.tokenizer.all_special_ids)
        return [self._text([token for token in row if token not in special])[0] for row in rows]

    def _exchanges(self, ids: Sequence[int], orientation: int) -> Iterator[tuple[int, int, list[int], bool]]:
        """First and last token (excluded) of every exchanged word, its new tokens, and if that comes back."""
        start = 0
        while start < len(ids):
            if ids[start] in self._special:
                start += 1
                continue
            end = start
            while end < len(ids) and ids[end] not in self._special:
                end += 1
            text, spans = self._text(ids[start:end])
            oriented = self.swap(text, orientation)
            done = 0
            for (a, b), (c, d) in oriented.changes:
                inside = [i for i, (first, last) in enumerate(spans) if first < b and last > a]
                if not inside or inside[0] < done:
                    continue
                first, end_before, done = inside[0], done, inside[-1] + 1
                while first > end_before and spans[first - 1][0] == spans[first - 1][1]:
                    first -= 1  # a token that is nothing but the space before the word
                left, right = spans[inside[0]][0], spans[done - 1][1]
                word = text[left:a] + oriented.text[c:d] + text[b:right]
                gap = text[spans[first - 1][1] if first else 0 : left]
                before = text[slice(*spans[first - 1])] if first else ""
                # as tokens that stand behind another word, or at the start of a text
                known, whole = self._ids(before) if before else [], self._ids(before + gap + word)
                goes_on = before and whole[: len(known)] == known
                new = whole[len(known) :] if goes_on else self._ids(gap + word)
                yield start + first, start + done, new, oriented.reversible
            start = end

    def _text(self, ids: Sequence[int]) -> tuple[str, list[tuple[int, int]]]:
        """Tokens as text, and the characters of each."""
        text, spans = "", []
        for token in ids:
            if token not in self._pieces:  # as it stands inside a text: with a space before it, if it has one
                shown = str(self.tokenizer.convert_ids_to_tokens(token))
                if self._bytes:
                    shown = bytes(_BYTES.get(each, 32) for each in shown).decode("utf-8", "replace")
                starts = self._spaceless and not shown.startswith(_GOES_ON)
                self._pieces[token] = " " * starts + shown.replace(_SPACE, " ").removeprefix(_GOES_ON)
            piece = self._pieces[token]
            goes_on = text[-1:] in ("'", "’") and piece.strip() in _SHORTENED
            joins = goes_on or piece.strip() in _CLOSES or text[-1:] in _OPENS
            if self._spaceless and text and joins:
                piece = piece.strip()
            start = len(text) + len(piece) - len(piece.lstrip())
            text += piece
            spans.append((start, len(text)))
        return text, spans

    def _ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])
