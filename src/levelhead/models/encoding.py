"""From text to token rows, and from characters to token positions: never by tokenizing a word alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from levelhead.errors import BadProbe, CannotDo
from levelhead.models.concurrency import TOKENIZING
from levelhead.models.model import Model
from levelhead.models.once import once_a_model

Ints = NDArray[np.int32]
Span = tuple[int, int]  # characters, end excluded
_CHUNK = 512  # texts encoded at a time: the tokenizer's own records are a hundred times larger than a row
_KEPT = 1 << 16  # rows of a model, so that what is asked of it again and again is tokenized once


@dataclass(frozen=True)
class Text:
    """What the model is given: one sentence, or two as a pair; these characters of the first are masked."""

    first: str
    second: str | None = None
    masked: tuple[Span, ...] = ()
    whole: bool = False  # brings its special tokens along, as a chat does: the tokenizer adds none

    @classmethod
    def of(cls, given: Text | str) -> Text:
        """A text as it is, or a plain string as one sentence."""
        return cls(given) if isinstance(given, str) else given


@dataclass(frozen=True, eq=False)
class TokenRow:
    """One tokenized text. Offsets are characters in the sentence of `part`: 0 first, 1 second, -1 special."""

    ids: Ints
    types: Ints | None
    offsets: Ints  # [token, 2]
    part: Ints  # [token]

    @property
    def key(self) -> bytes:
        """Equal for rows that the model cannot tell apart."""
        return self.ids.tobytes() if self.types is None else self.ids.tobytes() + b"|" + self.types.tobytes()

    def tokens_of(self, span: Span, part: int = 0) -> Ints:
        """Positions of the tokens that touch the characters of a span."""
        start, end = span
        inside = (self.part == part) & (self.offsets[:, 0] < end) & (self.offsets[:, 1] > start)
        return np.flatnonzero(inside).astype(np.int32)

    def until(self, end: int) -> TokenRow:
        """The row's first tokens, so many of them."""
        types = None if self.types is None else self.types[:end]
        return TokenRow(self.ids[:end], types, self.offsets[:end], self.part[:end])

    def with_ids(self, ids: Ints) -> TokenRow:
        """The same row with other tokens at some positions."""
        return TokenRow(ids, self.types, self.offsets, self.part)


def encode(model: Model, texts: Iterable[Text | str], cut: int | None = None) -> Iterator[TokenRow]:
    """One row a text, in order, with the special tokens that the model's tokenizer adds, behind what opens
    the texts of this model (opening.py).

    A text that is too long for the model is refused; with `cut` it loses what is beyond that many tokens.
    """
    if isinstance(texts, str):
        raise BadProbe(f"One text came where several are asked: give a list, [{texts[:40]!r}].")
    chunk: list[Text] = []
    for text in texts:
        chunk.append(Text.of(text))
        if len(chunk) == _CHUNK:
            yield from _rows(model, chunk, cut)
            chunk = []
    if chunk:
        yield from _rows(model, chunk, cut)


@once_a_model
def _kept_rows(model: Model, cut: int | None) -> dict[Text, TokenRow]:
    """The rows of a model that have been made, up to so many."""
    return {}


def _rows(model: Model, texts: Sequence[Text], cut: int | None) -> Iterator[TokenRow]:
    kept = _kept_rows(model, cut)
    new = [text for text in dict.fromkeys(texts) if text not in kept]
    made = dict(zip(new, _encode_chunk(model, new, cut), strict=True))
    kept.update(islice(made.items(), max(0, _KEPT - len(kept))))  # another thread may have kept more
    for text in texts:
        yield made[text] if text in made else kept[text]


def _encode_chunk(model: Model, texts: Sequence[Text], cut: int | None) -> Iterator[TokenRow]:
    for text in texts:
        if not text.first.strip() or (text.second is not None and not text.second.strip()):
            raise BadProbe(
                f"An empty text cannot be asked (got {text.first!r}, {text.second!r}). Remove it or fill it."
            )
    rows: dict[int, TokenRow] = {}
    for form in {(text.second is None, text.whole) for text in texts}:
        own = [i for i, text in enumerate(texts) if (text.second is None, text.whole) == form]
        rows.update(zip(own, _tokenize(model, [texts[i] for i in own], cut), strict=True))
    for i, text in enumerate(texts):
        row = _opened(model, text, rows[i])
        _check_length(model, text, row)
        yield masked_row(model, row, text.masked) if text.masked else row


def _tokenize(model: Model, texts: Sequence[Text], cut: int | None) -> Iterator[TokenRow]:
    """Rows of texts that are all single or all pairs, and all whole or all not."""
    prefixes = [_prefix(model, text) for text in texts]
    firsts = [prefix + text.first for prefix, text in zip(prefixes, texts, strict=True)]
    seconds = None if texts[0].second is None else [str(text.second) for text in texts]
    cut = None if cut is None else max(1, cut - model.opening.more)
    form = {"truncation": False} if cut is None else {"truncation": True, "max_length": cut}
    form |= {"add_special_tokens": not texts[0].whole, "return_offsets_mapping": True, "padding": False}
    with TOKENIZING:
        encoded = model.tokenizer(firsts, seconds, **form)
    has_types = "token_type_ids" in model.tokenizer.model_input_names and "token_type_ids" in encoded
    written = set(model.tokenizer.all_special_ids) if texts[0].whole else set()
    for i, ids in enumerate(encoded["input_ids"]):
        sentences = zip(ids, encoded.sequence_ids(i), strict=True)
        part = [-1 if p is None or number in written else p for number, p in sentences]
        types = np.asarray(encoded["token_type_ids"][i], np.int32) if has_types else None
        offsets = np.asarray(encoded["offset_mapping"][i], np.int32).reshape(-1, 2)
        row = TokenRow(np.asarray(ids, np.int32), types, offsets, np.asarray(part, np.int32))
        yield _behind(row, len(prefixes[i])) if prefixes[i] else row


def _prefix(model: Model, text: Text) -> str:
    """The words that the model expects before this text; none before one that has them already."""
    prefix = model.opening.prefix
    return "" if text.whole or text.first.startswith(prefix) else prefix


def _behind(row: TokenRow, characters: int) -> TokenRow:
    """The row of a text behind a prefix: tokens of the prefix are special, others count from its end."""
    first = row.part == 0
    prefix = first & (row.offsets[:, 1] <= characters)
    offsets = np.where(first[:, None], np.maximum(row.offsets - characters, 0), row.offsets)
    return TokenRow(row.ids, row.types, offsets.astype(np.int32), np.where(prefix, -1, row.part))


def _opened(model: Model, text: Text, row: TokenRow) -> TokenRow:
    """The row with the model's opening in place of the special tokens that the tokenizer has put first.

    A text that brings special tokens along, or begins with the opening itself, gets none.
    """
    tokens = model.opening.tokens
    if tokens is None or (text.whole and len(row.part) and row.part[0] == -1):
        return row
    own = 0 if text.whole else model.opening.own
    if tuple(row.ids[own : own + len(tokens)].tolist()) == tokens:
        tokens = ()
    added = np.zeros(len(tokens), np.int32)
    return TokenRow(
        np.concatenate([np.asarray(tokens, np.int32), row.ids[own:]]),
        None if row.types is None else np.concatenate([added, row.types[own:]]),
        np.concatenate([np.zeros((len(tokens), 2), np.int32), row.offsets[own:]]),
        np.concatenate([added - 1, row.part[own:]]),
    )


def _check_length(model: Model, text: Text, row: TokenRow) -> None:
    if len(row.ids) == 0:
        raise BadProbe(f"The tokenizer of {model.name} makes no token of {text.first!r}. Use another text.")
    if model.max_tokens is not None and len(row.ids) > model.max_tokens:
        start = text.first[:40]
        raise BadProbe(
            f"A text of {len(row.ids)} tokens does not fit into the {model.max_tokens} positions of "
            f"{model.name}: {start!r}... Shorten or split it."
        )


def mask_id(model: Model) -> int:
    """The id of the model's own mask token."""
    if model.tokenizer.mask_token_id is None:
        raise CannotDo(f"{model.name} has no mask token, so nothing can be masked. Ask it as a causal model.")
    return int(model.tokenizer.mask_token_id)


def masked_row(model: Model, row: TokenRow, spans: Sequence[Span]) -> TokenRow:
    """The row with every token under the spans replaced by the mask token."""
    ids = row.ids.copy()
    for span in spans:
        tokens = row.tokens_of(span)
        if len(tokens) == 0:
            raise BadProbe(
                f"No token lies at characters {span[0]} to {span[1]}. Give a span inside the text."
            )
        ids[tokens] = mask_id(model)
    return row.with_ids(ids)


def find_word(text: str, word: str, occurrence: int = 0) -> Span:
    """Characters of a whole word in its sentence, whatever its case."""
    spans = [m.span() for m in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE)]
    if occurrence >= len(spans):
        times = f"{len(spans)} time(s)" if spans else "not at all"
        raise BadProbe(f"The word {word!r} occurs {times} in {text!r}. Give a sentence that contains it.")
    return spans[occurrence]


def token_id(model: Model, word: str) -> int | None:
    """The one token that stands for a word inside a sentence, or None when the word is split.

    A tokenizer that marks a preceding space (byte-level BPE, SentencePiece) has another token for a word in
    the middle of a sentence than for one at its start; the former is meant.
    """
    with TOKENIZING:
        encoded = model.tokenizer(f"a {word}", add_special_tokens=False, return_offsets_mapping=True)
    tokens = zip(encoded["input_ids"], encoded["offset_mapping"], strict=True)
    own = [token for token, (_, end) in tokens if end > len("a ")]
    return int(own[0]) if len(own) == 1 and own[0] != model.tokenizer.unk_token_id else None
