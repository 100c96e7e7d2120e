"""From text to token rows, and from characters to token positions: never by tokenizing a word alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from levelhead.errors import BadProbe, CannotDo
from levelhead.models.model import Model

Ints = NDArray[np.int32]
Span = tuple[int, int]  # characters, end excluded
_CHUNK = 512  # texts encoded at a time: the tokenizer's own records are a hundred times larger than a row


@dataclass(frozen=True)
class Text:
    """What the model is given: one sentence, or two as a pair. `hide` masks these characters of the first."""

    first: str
    second: str | None = None
    hide: tuple[Span, ...] = ()


@dataclass(frozen=True, eq=False)
class Row:
    """One encoded text. Offsets are characters in the sentence that `part` names: 0 first, 1 second, -1
    special."""

    ids: Ints
    types: Ints | None
    offsets: Ints  # [token, 2]
    part: Ints  # [token]

    @property
    def key(self) -> bytes:
        """Equal for rows that the model cannot tell apart."""
        return self.ids.tobytes() if self.types is None else self.ids.tobytes() + b"|" + self.types.tobytes()

    def pieces(self, span: Span, part: int = 0) -> Ints:
        """Positions of the tokens that touch the characters of a span."""
        start, end = span
        inside = (self.part == part) & (self.offsets[:, 0] < end) & (self.offsets[:, 1] > start)
        return np.flatnonzero(inside).astype(np.int32)

    def with_ids(self, ids: Ints) -> Row:
        """The same row with other tokens at some positions."""
        return Row(ids, self.types, self.offsets, self.part)


def encode(model: Model, texts: Iterable[Text]) -> Iterator[Row]:
    """One row a text, in order, with the special tokens that the model's tokenizer adds."""
    chunk: list[Text] = []
    for text in texts:
        chunk.append(text)
        if len(chunk) == _CHUNK:
            yield from _encode_chunk(model, chunk)
            chunk = []
    if chunk:
        yield from _encode_chunk(model, chunk)


def _encode_chunk(model: Model, texts: Sequence[Text]) -> Iterator[Row]:
    for text in texts:
        if not text.first.strip() or (text.second is not None and not text.second.strip()):
            raise BadProbe(
                f"An empty text cannot be asked (got {text.first!r}, {text.second!r}). Remove it or fill it."
            )
    single = [i for i, text in enumerate(texts) if text.second is None]
    paired = [i for i, text in enumerate(texts) if text.second is not None]
    rows: dict[int, Row] = {}
    if single:
        rows.update(zip(single, _tokenize(model, [texts[i].first for i in single], None), strict=True))
    if paired:
        seconds = [str(texts[i].second) for i in paired]
        rows.update(zip(paired, _tokenize(model, [texts[i].first for i in paired], seconds), strict=True))
    for i, text in enumerate(texts):
        row = rows[i]
        _check_length(model, text, row)
        yield hidden(model, row, text.hide) if text.hide else row


def _tokenize(model: Model, firsts: list[str], seconds: list[str] | None) -> Iterator[Row]:
    found = model.tokenizer(firsts, seconds, return_offsets_mapping=True, truncation=False, padding=False)
    has_types = "token_type_ids" in model.tokenizer.model_input_names and "token_type_ids" in found
    for i, ids in enumerate(found["input_ids"]):
        part = [-1 if p is None else p for p in found.sequence_ids(i)]
        types = np.asarray(found["token_type_ids"][i], np.int32) if has_types else None
        offsets = np.asarray(found["offset_mapping"][i], np.int32).reshape(-1, 2)
        yield Row(np.asarray(ids, np.int32), types, offsets, np.asarray(part, np.int32))


def _check_length(model: Model, text: Text, row: Row) -> None:
    if len(row.ids) == 0:
        raise BadProbe(f"The tokenizer of {model.name} makes no token of {text.first!r}. Use another text.")
    if model.max_tokens is not None and len(row.ids) > model.max_tokens:
        start = text.first[:40]
        raise BadProbe(
            f"A text of {len(row.ids)} tokens does not fit into the {model.max_tokens} positions of {model.name}: "
            f"{start!r}... Shorten or split it."
        )


def mask_id(model: Model) -> int:
    """The id of the model's own mask token."""
    if model.tokenizer.mask_token_id is None:
        raise CannotDo(f"{model.name} has no mask token, so nothing can be masked. Ask it as a causal model.")
    return int(model.tokenizer.mask_token_id)


def hidden(model: Model, row: Row, spans: Sequence[Span]) -> Row:
    """The row with every token under the spans replaced by the mask token."""
    ids = row.ids.copy()
    for span in spans:
        pieces = row.pieces(span)
        if len(pieces) == 0:
            raise BadProbe(
                f"No token lies at characters {span[0]} to {span[1]}. Give a span inside the text."
            )
        ids[pieces] = mask_id(model)
    return row.with_ids(ids)


def find_word(text: str, word: str, occurrence: int = 0) -> Span:
    """Characters of a whole word in its sentence, whatever its case."""
    found = [m.span() for m in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE)]
    if occurrence >= len(found):
        times = f"{len(found)} time(s)" if found else "not at all"
        raise BadProbe(f"The word {word!r} occurs {times} in {text!r}. Give a sentence that contains it.")
    return found[occurrence]


def token_id(model: Model, word: str) -> int | None:
    """The one token that stands for a word inside a sentence, or None when the word is split.

    A tokenizer that marks a preceding space (byte-level BPE, SentencePiece) has another token for a word in
    the middle of a sentence than for one at its start; the former is meant.
    """
    probe = f"a {word}"
    found = model.tokenizer(probe, add_special_tokens=False, return_offsets_mapping=True)
    pieces = [
        i for i, (start, end) in zip(found["input_ids"], found["offset_mapping"], strict=True) if end > 2
    ]
    return int(pieces[0]) if len(pieces) == 1 and pieces[0] != model.tokenizer.unk_token_id else None
