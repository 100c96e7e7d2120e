"""What can be read from a model: small frozen values. Each says which rows it asks, and at which tokens.

A reading is compiled into *asks*: (row, position) pairs. The engine answers every ask of a batch for every
variant with one tensor; a collector puts the parts together in the caller's order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar, get_args

import numpy as np
import torch

from levelhead.edits.sites import Site
from levelhead.engine import collectors as collect
from levelhead.engine import inner_collectors as inner
from levelhead.engine.batches import RowPool
from levelhead.engine.collectors import Collector, Doubles, Floats, TokenScores, TopK
from levelhead.engine.inner_collectors import AttentionRow
from levelhead.errors import BadOption, BadProbe, CannotDo
from levelhead.models.encoding import Ints, Span, TokenRow, encode, mask_id
from levelhead.models.encoding import Text as Text
from levelhead.models.encoding import find_word as find_word
from levelhead.models.model import Model

T = TypeVar("T")


class Reading(ABC, Generic[T]):
    """A question to a model whose answer has type T."""

    @abstractmethod
    def prepare(self, model: Model, pool: RowPool, variants: int) -> Collector[T]:
        """Put the rows into the pool and tell a collector which of their tokens to read."""


# ---- pooled vectors and judgments


@dataclass(frozen=True)
class Pooled(Reading[Floats]):
    """Logits of the next-sentence head or classifier, [variant, text, label].

    vectors=True: the pooled vectors that it reads instead, [variant, text, hidden]. cut: tokens that a text
    may have; None: all, and one that is too long for the model is refused.
    """

    texts: Sequence[Text | str]
    vectors: bool = False
    cut: int | None = None

    def prepare(self, model: Model, pool: RowPool, variants: int) -> Collector[Floats]:
        if not self.vectors and model.classification_head is None:
            raise CannotDo(f"{model.name} has neither a next-sentence head nor a classifier.")
        kind = collect.PooledCollector if self.vectors else collect.ClassifiedCollector
        collector = kind(len(self.texts), variants)
        for row in encode(model, self.texts, self.cut):
            last = len(row.ids) - 1
            collector.ask(pool.add(row), last if model.family.causal else 0)
        return collector


# ---- words


@dataclass(frozen=True)
class WordVectors(Reading[Floats]):
    """Vector of a word in each text: the mean of last_hidden_state over its subword tokens.

    [variant, text, hidden]

    The word is named by its characters, so it is found where it stands, however the tokenizer splits it.
    """

    texts: Sequence[Text | str]
    spans: Sequence[Span]

    def prepare(self, model: Model, pool: RowPool, variants: int) -> Collector[Floats]:
        collector = collect.WordCollector(len(self.texts), variants)
        for item, (row, tokens) in enumerate(words(model, self.texts, self.spans)):
            number = pool.add(_up_to(model, row, tokens))
            for position in tokens:
                collector.token(item, number, int(position), len(tokens))
        return collector


@dataclass(frozen=True)
class StaticVectors(Reading[Doubles]):
    """Static vector of each word: the mean of its vectors over all its texts. [variant, word, hidden]

    word[i] is the number of the word that stands in texts[i]. Memory does not grow with the number of texts.
    """

    texts: Sequence[Text | str]
    spans: Sequence[Span]
    word: Sequence[int]

    def prepare(self, model: Model, pool: RowPool, variants: int) -> Collector[Doubles]:
        counts = np.bincount(np.asarray(self.word, np.int64))
        if len(counts) == 0 or (counts == 0).any():
            raise BadProbe("Every word needs at least one text; number the words 0, 1, 2 ... without gaps.")
        collector = collect.StaticCollector(len(counts), variants)
        for item, (row, tokens) in enumerate(words(model, self.texts, self.spans)):
            number = pool.add(_up_to(model, row, tokens))
            share = 1.0 / (len(tokens) * counts[self.word[item]])
            for position in tokens:
                collector.token(self.word[item], number, int(position), share)
        return collector


def words(
    model: Model, texts: Sequence[Text | str], spans: Sequence[Span]
) -> Iterator[tuple[TokenRow, Ints]]:
    """Each text's row and the positions of its word's tokens."""
    if len(texts) != len(spans):
        raise BadProbe(
            f"{len(texts)} texts came with {len(spans)} spans; each text needs the span of its word."
        )
    for text, span, row in zip(texts, spans, encode(model, texts), strict=True):
        start, end, sentence = *span, Text.of(text).first
        tokens = row.tokens_of(span)
        if not 0 <= start < end <= len(sentence) or len(tokens) == 0:
            raise BadProbe(
                f"No word at characters {start} to {end} of {sentence!r}. Use find_word(text, word)."
            )
        yield row, tokens


def _up_to(model: Model, row: TokenRow, tokens: Ints) -> TokenRow:
    """The part of a row that the vectors of some tokens depend on: later tokens may not be seen."""
    return row.until(int(tokens[-1]) + 1) if model.looks_back_only else row


Pooling = Literal["mean", "mean-special", "cls", "last"]


@dataclass(frozen=True)
class SentenceVectors(Reading[Floats]):
    """One vector for each text, from last_hidden_state. [variant, text, hidden]

    mean: over the text's own tokens, without special ones; mean-special: over all tokens; cls: the first
    token, special or not; last: the text's own last.
    """

    texts: Sequence[Text | str]
    pooling: Pooling = "mean"

    def prepare(self, model: Model, pool: RowPool, variants: int) -> Collector[Floats]:
        if self.pooling not in get_args(Pooling):
            raise BadOption(f"Pooling {self.pooling!r} came; allowed are {', '.join(get_args(Pooling))}.")
        collector = collect.WordCollector(len(self.texts), variants)
        for item, row in enumerate(encode(model, self.texts)):
            own = np.flatnonzero(row.part != -1)
            every = np.arange(len(row.part))
            chosen = {"mean": own, "mean-special": every, "cls": every[:1], "last": own[-1:]}[self.pooling]
            for position in chosen:
                collector.token(item, pool.add(row), int(position), len(chosen))
        return collector


# ---- tokens


@dataclass(frozen=True)
class Predictions(Reading[TopK]):
    """The k most probable tokens at the blank (masked models) or after the text (causal models)."""

    texts: Sequence[Text | str]
    k: int

    def prepare(self, model: Model, pool: RowPool, variants: int) -> Collector[TopK]:
        vocabulary = int(model.config.vocab_size)
        if not 1 <= self.k <= vocabulary:
            raise BadOption(
                f"k = {self.k} asked of a vocabulary of {vocabulary} tokens; use 1 to {vocabulary}."
            )
        collector = collect.TopKCollector((variants, len(self.texts), self.k))
        _ask_blanks(model, self.texts, pool, collector)
        return collector


@dataclass(frozen=True)
class TokenLogProbs(Reading[Floats]):
    """Log-probabilities of given tokens, [variant, text, token], at the blank or after a causal text."""

    texts: Sequence[Text | str]
    tokens: Sequence[int]

    def prepare(self, model: Model, pool: RowPool, variants: int) -> Collector[Floats]:
        tokens = torch.from_numpy(np.asarray(self.tokens, np.int64))  # of a range, much faster than a list
        collector = collect.TokenCollector(len(self.texts), variants, tokens)
        _ask_blanks(model, self.texts, pool, collector)
        return collector


def _ask_blanks(model: Model, texts: Sequence[Text | str], pool: RowPool, collector: Collector[T]) -> None:
    for row, position in blanks(model, texts):
        collector.ask(pool.add(row), position)


def blanks(model: Model, texts: Sequence[Text | str]) -> list[tuple[TokenRow, int]]:
    """Each text's row and where to look: at its own mask token, or at the end of a causal model's text."""
    if "causal" in model.abilities:
        ends = [_without_closing(model, row) for row in encode(model, texts)]
        return [(row, len(row.ids) - 1) for row in ends]
    model.require("mlm", "fill-in-the-blank")
    mask = mask_id(model)
    looks = []
    given = [Text.of(text) for text in texts]
    unmasked = [Text(text.first, text.second) for text in given]
    for text, plain, row in zip(given, encode(model, unmasked), encode(model, given), strict=True):
        places = np.flatnonzero(plain.ids == mask)
        if len(places) != 1:
            raise BadProbe(
                f"Expected one {model.tokenizer.mask_token} in {text.first!r}, found {len(places)}. "
                "Write exactly one."
            )
        looks.append((row, int(places[0])))
    return looks


def _without_closing(model: Model, row: TokenRow) -> TokenRow:
    """A text to be continued must not end with an end-of-text token that the tokenizer has added."""
    keep = len(row.ids)
    while keep > 1 and row.part[keep - 1] == -1:
        keep -= 1
    return row.until(keep)


@dataclass(frozen=True)
class TokenLikelihoods(Reading[TokenScores]):
    """log p of every real token: masked one at a time, or in causal models given those before it."""

    texts: Sequence[Text | str]

    def prepare(self, model: Model, pool: RowPool, variants: int) -> Collector[TokenScores]:
        causal = "causal" in model.abilities
        if not causal:
            model.require("mlm", "token likelihoods")
        collector = collect.LikelihoodCollector(variants)
        for row in encode(model, self.texts):
            real = np.flatnonzero(row.part != -1).astype(np.int32)
            scored = real[real > 0] if causal else real
            collector.text(row, scored)
            for ask in likelihood_asks(model, pool, row, scored):
                collector.want(*ask)
        return collector


def likelihood_asks(
    model: Model, pool: RowPool, row: TokenRow, scored: Ints
) -> Iterator[tuple[int, int, int]]:
    """Where log p of each scored token of a row is read: a row of the pool, a position in it, the token."""
    if "causal" in model.abilities:
        number = pool.add(_up_to(model, row, scored - 1)) if len(scored) else -1
        yield from ((number, int(position) - 1, int(row.ids[position])) for position in scored)
        return
    mask = mask_id(model)
    for position in scored:
        ids = row.ids.copy()
        ids[position] = mask
        yield pool.add(row.with_ids(ids)), int(position), int(row.ids[position])


# ---- inside the model


@dataclass(frozen=True)
class States(Reading[list[list[Floats]]]):
    """The tensor at a site for every token of each text: `answer[variant][text]` is `[token, ...]`.

    Pooled and cls sites have one token a text. tokens: positions of some, in this order, for each text.
    """

    texts: Sequence[Text | str]
    site: Site
    tokens: Sequence[Sequence[int]] | None = None

    def prepare(self, model: Model, pool: RowPool, variants: int) -> Collector[list[list[Floats]]]:
        model.check_site(self.site)
        collector = (
            inner.PooledStateCollector(variants)
            if self.site.part == "pooled"
            else inner.StateCollector(variants)
        )
        collector.site = self.site
        for number, row in enumerate(encode(model, self.texts)):
            every = range(1) if self.site.part in ("cls", "pooled") else range(len(row.ids))
            collector.text(pool.add(row), every if self.tokens is None else self.tokens[number])
        return collector


@dataclass(frozen=True)
class Attention(Reading[list[list[AttentionRow]]]):
    """Attention from a target word to all tokens, and where the attribute is: `answer[variant][text]`."""

    texts: Sequence[Text | str]
    targets: Sequence[Span]
    attributes: Sequence[Span]

    def prepare(self, model: Model, pool: RowPool, variants: int) -> Collector[list[list[AttentionRow]]]:
        collector = inner.AttentionCollector(variants)
        targets = words(model, self.texts, self.targets)
        attributes = words(model, self.texts, self.attributes)
        for (row, target), (_, attribute), text in zip(targets, attributes, self.texts, strict=True):
            written = tuple(_written(Text.of(text), row, i) for i in range(len(row.ids)))
            counted = np.asarray([any(c.isalnum() for c in word) for word in written]) & (row.part != -1)
            collector.text(pool.add(row), target, attribute, counted, written)
        return collector


def _written(text: Text, row: TokenRow, position: int) -> str:
    if row.part[position] == -1:
        return ""
    sentence = text.first if row.part[position] == 0 else str(text.second)
    start, end = row.offsets[position]
    return sentence[start:end].strip()
