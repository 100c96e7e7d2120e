"""From text to token rows, from characters to token positions, and what the tokens of a vocabulary are.

Words are never tokenized alone: they are written inside a text, and their tokens read there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from levelhead.errors import BadProbe, CannotDo
from levelhead.models.concurrency import TOKENIZING
from levelhead.models.memoize import once_a_model
from levelhead.models.model import Model

Ints = NDArray[np.int32]
Span = tuple[int, int]  # characters, end excluded
_CHUNK = 512  # texts encoded at a time: the tokenizer's own records are a hundred times larger than a row
_KEPT = 1 << 16  # rows of a model, so that what is run again and again is tokenized once
_PROBE_WORDS = ("a", "the", "is", "I")  # any word that the tokenizer keeps whole shows how it writes words


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


# ---- texts


def encode(model: Model, texts: Iterable[Text | str], cut: int | None = None) -> Iterator[TokenRow]:
    """One row per text, in order, with the special tokens that the model's tokenizer adds, behind what opens
    the texts of this model (opening.py).

    A text that is too long for the model is refused; with `cut` it loses what is beyond that many tokens.
    """
    if isinstance(texts, str):
        raise BadProbe(f"Texts must be a list (got one string): give a list, [{texts[:40]!r}].")
    kept, waiting = _kept_rows(model, cut), iter(texts)
    while chunk := [Text.of(text) for text in islice(waiting, _CHUNK)]:
        new = [text for text in dict.fromkeys(chunk) if text not in kept]
        for text in new:
            if not text.first.strip() or (text.second is not None and not text.second.strip()):
                raise BadProbe(
                    f"A text must not be empty (got {text.first!r}, {text.second!r}). Remove it or fill it."
                )
        plain: dict[Text, TokenRow] = {}
        for form in {(text.second is None, text.whole) for text in new}:
            own = [text for text in new if (text.second is None, text.whole) == form]
            plain.update(zip(own, _tokenize(model, own, cut), strict=True))
        made = {text: _finished(model, text, plain[text]) for text in new}
        kept.update(islice(made.items(), max(0, _KEPT - len(kept))))  # another thread may have kept more
        for text in chunk:
            yield made[text] if text in made else kept[text]


def fits(model: Model, text: Text) -> bool:
    """Whether a text has no more tokens than the model has positions."""
    if model.max_tokens is None or len(text.first.encode()) < model.max_tokens // 2:
        return True  # no token is shorter than a byte
    # One token beyond the last position is kept. That the last characters are covered would not do: one
    # character may have several tokens.
    (row,) = _tokenize(model, [text], model.max_tokens + 1)
    return len(row.ids) + model.opening.more <= model.max_tokens


@once_a_model
def _kept_rows(model: Model, cut: int | None) -> dict[Text, TokenRow]:
    """The rows of a model that have been made, up to so many."""
    return {}


def forget_rows(model: Model) -> None:
    """Keep no row of a model any longer: a server is given ever new texts."""
    _kept_rows(model, None).clear()


def _tokenize(model: Model, texts: Sequence[Text], cut: int | None) -> Iterator[TokenRow]:
    """Rows of texts that are all single or all pairs, and all whole or all not."""
    # words that the model expects before a text, where the text does not have them already
    words = model.opening.prefix
    prefixes = ["" if text.whole or text.first.startswith(words) else words for text in texts]
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
        part = np.asarray([-1 if p is None or number in written else p for number, p in sentences], np.int32)
        types = np.asarray(encoded["token_type_ids"][i], np.int32) if has_types else None
        offsets = np.asarray(encoded["offset_mapping"][i], np.int32).reshape(-1, 2)
        if before := len(prefixes[i]):  # tokens of the prefix are special, others count from its end
            first = part == 0
            part = np.where(first & (offsets[:, 1] <= before), -1, part)
            offsets = np.where(first[:, None], np.maximum(offsets - before, 0), offsets).astype(np.int32)
        yield TokenRow(np.asarray(ids, np.int32), types, offsets, part)


def _finished(model: Model, text: Text, row: TokenRow) -> TokenRow:
    """The row with the model's opening in place of the special tokens that the tokenizer has put first, and
    with the text's masks; a row that the model cannot be given is refused.

    A text that brings special tokens along, or begins with the opening itself, gets none.
    """
    tokens = model.opening.tokens
    if tokens is not None and not (text.whole and len(row.part) and row.part[0] == -1):
        own = 0 if text.whole else model.opening.own
        if tuple(row.ids[own : own + len(tokens)].tolist()) == tokens:
            tokens = ()
        added = np.zeros(len(tokens), np.int32)
        row = TokenRow(
            np.concatenate([np.asarray(tokens, np.int32), row.ids[own:]]),
            None if row.types is None else np.concatenate([added, row.types[own:]]),
            np.concatenate([np.zeros((len(tokens), 2), np.int32), row.offsets[own:]]),
            np.concatenate([added - 1, row.part[own:]]),
        )
    if len(row.ids) == 0:
        raise BadProbe(f"The tokenizer of {model.name} makes no token of {text.first!r}. Use another text.")
    if model.max_tokens is not None and len(row.ids) > model.max_tokens:
        raise BadProbe(
            f"A text of {len(row.ids)} tokens does not fit into the {model.max_tokens} positions of "
            f"{model.name}: {text.first[:40]!r}... Shorten or split it."
        )
    if not text.masked:
        return row
    ids = row.ids.copy()
    for span in text.masked:
        places = row.tokens_of(span)
        if len(places) == 0:
            raise BadProbe(
                f"No token lies at characters {span[0]} to {span[1]}. Give a span inside the text."
            )
        ids[places] = mask_id(model)
    return replace(row, ids=ids)


def mask_id(model: Model) -> int:
    """The id of the model's own mask token."""
    if model.tokenizer.mask_token_id is None:
        raise CannotDo(f"{model.name} has no mask token, so nothing can be masked. Ask it as a causal model.")
    return int(model.tokenizer.mask_token_id)


# ---- words


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


def token_counts(model: Model, words: list[str]) -> dict[str, int]:
    """How many tokens each word is inside a text."""
    texts = [f"a {word}" for word in words]
    with TOKENIZING:
        encodings = model.tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True)
    counts = [sum(end > len("a ") for _, end in spans) for spans in encodings["offset_mapping"]]
    return dict(zip(words, counts, strict=True))


# ---- the vocabulary


@dataclass(frozen=True)
class WordShape:
    """How a tokenizer writes a whole word: what stands before and after its letters, and what never begins
    one."""

    before: str
    after: str
    continuing: str

    def begins_word(self, token: str) -> bool:
        """Whether this token can be a word; one that continues a word cannot."""
        if self.continuing and token.startswith(self.continuing):
            return False
        return token.startswith(self.before) and token.endswith(self.after)


def word_shape(model: Model, after_space: bool = True) -> WordShape:
    """The shape of words inside a text, or of the text's first word.

    Found by writing words and reading their tokens, so that no table of tokenizers is needed.
    """
    backend = model.tokenizer.backend_tokenizer
    continuing = getattr(backend.model, "continuing_subword_prefix", None) or ""
    for word in _PROBE_WORDS:
        text = f"{word} {word}" if after_space else word
        with TOKENIZING:
            written = backend.encode(text, add_special_tokens=False).tokens
        if len(written) == 1 + after_space and word.casefold() in written[-1].casefold():
            start = written[-1].casefold().index(word.casefold())
            return WordShape(written[-1][:start], written[-1][start + len(word) :], continuing)
    raise CannotDo(
        f"The tokenizer of {model.name} splits even 'a' and 'the', so no token is a word it could fill in."
    )


@once_a_model
def token_kinds(model: Model) -> NDArray[np.str_]:
    """The kind of every row of the embedding matrix: [token]

    word: begins a word and is two or more letters, all small ("nurse", "Ġnurse", the first token "mascul")
    Word: the same with a capital letter
    continuation: two or more letters that continue a word ("##ess"; in BPE also a text's first word, "The")
    other: special and added tokens, single letters, figures, punctuation, parts of characters, padding rows
    """
    backend: Any = model.tokenizer.backend_tokenizer
    shape = word_shape(model)
    added = set(backend.get_added_tokens_decoder()) | set(model.tokenizer.all_special_ids)
    kinds = np.full(int(model.hf.get_input_embeddings().num_embeddings), "other", dtype="<U12")
    for token, number in backend.get_vocab().items():
        if number in added or number >= len(kinds):
            continue
        begins = shape.begins_word(token)
        letters = (
            token[len(shape.before) : len(token) - len(shape.after)]
            if begins
            else token.removeprefix(shape.continuing)
        )
        if len(letters) >= 2 and letters.isalpha():
            kinds[number] = "continuation" if not begins else "word" if letters.islower() else "Word"
    kinds.flags.writeable = False
    return kinds


def vocabulary_parameters(model: Model) -> dict[str, Tensor]:
    """The parameters that have one row per token, by their names: input vectors, and output vectors and bias
    of a model that predicts tokens. Tied ones come once."""
    head = model.hf.get_output_embeddings() if model.abilities & {"mlm", "causal"} else None
    tables = [model.hf.get_input_embeddings().weight]
    tables += [] if head is None else [head.weight, head.bias]
    own = {id(table) for table in tables}
    return {name: weight for name, weight in model.hf.named_parameters() if id(weight) in own}
