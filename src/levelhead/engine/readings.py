"""What can be read from a model: small frozen values. Each says which rows are run, and which tokens
are read.

A reading is compiled into *asks*: (row, position) pairs. The engine answers every ask of a batch for every
variant with one tensor; a collector puts the parts together in the caller's order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, Literal, TypeVar, get_args

import numpy as np
import torch

from levelhead.edits.sites import Site
from levelhead.engine import collectors as collect
from levelhead.engine.batches import RowPool
from levelhead.engine.collectors import AttentionRow, Collector, Doubles, Floats, TokenScores, TopK
from levelhead.errors import BadOption, BadProbe, CannotDo
from levelhead.models.encoding import Ints, Span, TokenRow, encode, mask_id
from levelhead.models.encoding import Text as Text
from levelhead.models.encoding import find_word as find_word
from levelhead.models.model import Model

T = TypeVar("T")
Positions = Sequence[int] | None  # of tokens in a row; None: every token of the text itself


class Reading(ABC, Generic[T]):
    """A question to a model whose answer has type T."""

    @abstractmethod
    def prepare(self, model: Model, pool: RowPool, variants: int) -> Collector[T]:
        """Put the rows into the pool and tell a collector which of their tokens to read."""


Ask = Callable[[Sequence[Reading[Any]]], list[Any]]  # readings to a model in some variants -> their answers


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
        collector = kind(variants)
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
        collector = collect.WordCollector(variants, len(self.texts))
        for item, (row, tokens) in enumerate(words(model, self.texts, self.spans)):
            number = pool.add(_up_to(model, row, tokens))
            for position in tokens:
                collector.ask(number, int(position), item, share=1.0 / len(tokens))
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
        collector = collect.StaticCollector(variants, len(counts))
        for item, (row, tokens) in enumerate(words(model, self.texts, self.spans)):
            number = pool.add(_up_to(model, row, tokens))
            share = 1.0 / (len(tokens) * counts[self.word[item]])
            for position in tokens:
                collector.ask(number, int(position), self.word[item], share=share)
        return collector


def words(
    model: Model, texts: Sequence[Text | str], spans: Sequence[Span]
) -> Iterator[tuple[TokenRow, Ints]]:
    """Each text's row and the positions of its word's tokens."""
    if len(texts) != len(spans):
        raise BadProbe(
            f"spans must be as many as texts, {len(texts)} (got {len(spans)}): each text needs the span "
            "of its word."
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
    return row.until(int(tokens[-1]) + 1) if model.attends_back_only else row


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
            allowed = ", ".join(get_args(Pooling))
            raise BadOption(f"pooling must be one of {allowed} (got {self.pooling!r})")
        collector = collect.WordCollector(variants, len(self.texts))
        for item, row in enumerate(encode(model, self.texts)):
            own = np.flatnonzero(row.part != -1)
            every = np.arange(len(row.part))
            chosen = {"mean": own, "mean-special": every, "cls": every[:1], "last": own[-1:]}[self.pooling]
            for position in chosen:
                collector.ask(pool.add(row), int(position), item, share=1.0 / len(chosen))
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
            raise BadOption(f"k must be 1 to {vocabulary}, the size of the vocabulary (got {self.k}).")
        collector = collect.TopKCollector(variants, k=self.k)
        for row, position in blanks(model, self.texts):
            collector.ask(pool.add(row), position)
        return collector


@dataclass(frozen=True)
class TokenLogProbs(Reading[Floats]):
    """Log-probabilities of given tokens, [variant, text, token], at the blank or after a causal text."""

    texts: Sequence[Text | str]
    tokens: Sequence[int]

    def prepare(self, model: Model, pool: RowPool, variants: int) -> Collector[Floats]:
        tokens = torch.from_numpy(np.asarray(self.tokens, np.int64))  # of a range, much faster than a list
        collector = collect.TokenCollector(variants, vocabulary=tokens)
        for row, position in blanks(model, self.texts):
            collector.ask(pool.add(row), position)
        return collector


def blanks(model: Model, texts: Sequence[Text | str]) -> list[tuple[TokenRow, int]]:
    """Each text's row and the place of its blank: its own mask token, or the end of a causal model's text."""
    if "causal" in model.abilities:
        # a text to be continued must not end with an end-of-text token that the tokenizer has added
        own = ((row, np.flatnonzero(row.part[1:] != -1)) for row in encode(model, texts))
        ends = [row.until(int(there[-1]) + 2 if len(there) else 1) for row, there in own]
        return [(row, len(row.ids) - 1) for row in ends]
    model.require("mlm", "fill-in-the-blank")
    mask = mask_id(model)
    found = []
    given = [Text.of(text) for text in texts]
    unmasked = [Text(text.first, text.second) for text in given]
    for text, plain, row in zip(given, encode(model, unmasked), encode(model, given), strict=True):
        places = np.flatnonzero(plain.ids == mask)
        if len(places) != 1:
            raise BadProbe(
                f"Expected one {model.tokenizer.mask_token} in {text.first!r}, found {len(places)}. "
                "Write exactly one."
            )
        found.append((row, int(places[0])))
    return found


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
            collector.texts.append((row, scored))
            for number, position, token in likelihood_asks(model, pool, row, scored):
                collector.ask(number, position, token=token)
        return collector


@dataclass(frozen=True)
class TextLogProbs(Reading[Floats]):
    """Log-probabilities of given tokens where each scored token of causal texts stands, text after text.

    [variant, position, token]; the positions are those of TokenLikelihoods.
    """

    texts: Sequence[Text | str]
    tokens: Sequence[int]

    def prepare(self, model: Model, pool: RowPool, variants: int) -> Collector[Floats]:
        model.require("causal", "log-probabilities along a text")
        tokens = torch.from_numpy(np.asarray(self.tokens, np.int64))
        collector = collect.TokenCollector(variants, vocabulary=tokens)
        for row in encode(model, self.texts):
            for number, position, _ in likelihood_asks(model, pool, row, scored_positions(model, row, None)):
                collector.ask(number, position)
        return collector


@dataclass(frozen=True)
class TextPredictions(Reading[TopK]):
    """The k most probable tokens where each scored token of causal texts stands, text after text.

    Positions are those of TokenLikelihoods. Where a symmetrized model mixes a word as a whole, it has no next
    token inside the word: there ids are -1 and log-probabilities NaN.
    """

    texts: Sequence[Text | str]
    k: int

    def prepare(self, model: Model, pool: RowPool, variants: int) -> Collector[TopK]:
        model.require("causal", "predictions along a text")
        collector = collect.TopKCollector(variants, k=self.k)
        for row in encode(model, self.texts):
            for number, position, _ in likelihood_asks(model, pool, row, scored_positions(model, row, None)):
                collector.ask(number, position)
        return collector


@dataclass(frozen=True)
class RowLikelihoods(Reading[TokenScores]):
    """log p of every token behind the first in rows of tokens that a causal model is given as they are."""

    rows: Sequence[Ints]

    def prepare(self, model: Model, pool: RowPool, variants: int) -> Collector[TokenScores]:
        model.require("causal", "likelihoods of tokens")
        collector = collect.LikelihoodCollector(variants)
        for row in map(row_of, self.rows):
            scored = np.arange(1, len(row.ids), dtype=np.int32)
            collector.texts.append((row, scored))
            for number, position, token in likelihood_asks(model, pool, row, scored):
                collector.ask(number, position, token=token)
        return collector


@dataclass(frozen=True)
class RowPredictions(Reading[TopK]):
    """The k most probable tokens at every place behind the first in rows of tokens, row after row."""

    rows: Sequence[Ints]
    k: int

    def prepare(self, model: Model, pool: RowPool, variants: int) -> Collector[TopK]:
        model.require("causal", "predictions along rows of tokens")
        collector = collect.TopKCollector(variants, k=self.k)
        for row in map(row_of, self.rows):
            scored = np.arange(1, len(row.ids), dtype=np.int32)
            for number, position, _ in likelihood_asks(model, pool, row, scored):
                collector.ask(number, position)
        return collector


def row_of(ids: Ints) -> TokenRow:
    """Tokens as a row of which all are the text's own."""
    return TokenRow(ids, None, np.zeros((len(ids), 2), np.int32), np.zeros(len(ids), np.int32))


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
        yield pool.add(replace(row, ids=ids)), int(position), int(row.ids[position])


@dataclass(frozen=True)
class SpanLikelihoods(Reading[Doubles]):
    """Sum of log p over chosen tokens of each text, [variant, text], differentiable in the gates of heads.

        masked models    each chosen token masked alone, given all others
        causal models    given the tokens before it

    scored: for each text the positions of its tokens as `encode` gives them; None: every token of the text.
    instead: for a text the tokens that are scored at those positions in place of its own.
    items: the item that each text belongs to; standard errors of gradients come from the spread of items,
    which are the texts where none are given. The first token of a causal text that has nothing before it is
    never scored.
    """

    texts: Sequence[Text | str]
    scored: Sequence[Positions] | None = None
    items: Sequence[int] | None = None
    instead: Sequence[Sequence[int] | None] | None = None

    def prepare(self, model: Model, pool: RowPool, variants: int) -> collect.SpanCollector:
        if "causal" not in model.abilities:
            model.require("mlm", "token likelihoods")
        for name, given in (("scored", self.scored), ("items", self.items), ("instead", self.instead)):
            if given is not None and len(given) != len(self.texts):
                raise BadProbe(f"{name} must be as many as texts, {len(self.texts)} (got {len(given)}).")
        collector = collect.SpanCollector(variants, len(self.texts))
        collector.groups = None if self.items is None else np.asarray(self.items, np.int64)
        scored = self.scored or [None] * len(self.texts)
        for number, (row, positions) in enumerate(zip(encode(model, self.texts), scored, strict=True)):
            asks = list(likelihood_asks(model, pool, row, scored_positions(model, row, positions)))
            tokens = None if self.instead is None else self.instead[number]
            for place, (pooled, position, own) in enumerate(asks):
                collector.ask(pooled, position, number, token=own if tokens is None else tokens[place])
        return collector


@dataclass(frozen=True)
class PositionMasses(Reading[Floats]):
    """Probability of groups of tokens where chosen tokens of texts stand: [variant, position, group].

    positions: for each text those of its tokens, which follow each other in the answer, text by text. Causal
    models: given the tokens before.
    """

    texts: Sequence[Text | str]
    positions: Sequence[Sequence[int]]
    groups: Sequence[Sequence[int]]

    def prepare(self, model: Model, pool: RowPool, variants: int) -> Collector[Floats]:
        model.require("causal", "probabilities of words along a text")
        collector = collect.MassCollector(variants, self.groups)
        for row, positions in zip(encode(model, self.texts), self.positions, strict=True):
            for number, position, _ in likelihood_asks(
                model, pool, row, scored_positions(model, row, positions)
            ):
                collector.ask(number, position)
        return collector


def scored_positions(model: Model, row: TokenRow, positions: Positions) -> Ints:
    """The tokens of a row that are scored, of those that are given."""
    scored = np.flatnonzero(row.part != -1) if positions is None else np.asarray(positions, np.int64)
    if len(scored) and not 0 <= scored.min() <= scored.max() < len(row.ids):
        raise BadProbe(f"Tokens {list(scored)[:8]} are to be scored in a row of {len(row.ids)}.")
    return scored[scored > 0].astype(np.int32) if "causal" in model.abilities else scored.astype(np.int32)


def span_sums(model: Model, reading: SpanLikelihoods, scores: TokenScores) -> Doubles:
    """What the reading answers, [variant, text], from the scores of all tokens of its texts."""
    scored = reading.scored or [None] * len(reading.texts)
    chosen = [
        np.isin(positions, scored_positions(model, row, own))
        for row, positions, own in zip(scores.rows, scores.positions, scored, strict=True)
    ]
    by_variant = (zip(values, chosen, strict=True) for values in scores.values)
    return np.asarray([[float(v[own].sum(dtype=np.float64)) for v, own in of] for of in by_variant])


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
        kind = collect.PooledStateCollector if self.site.part == "pooled" else collect.StateCollector
        collector = kind(variants, len(self.texts))
        collector.site = self.site
        for number, row in enumerate(encode(model, self.texts)):
            every = range(1) if self.site.part in ("cls", "pooled") else range(len(row.ids))
            pooled = pool.add(row)
            for position in every if self.tokens is None else self.tokens[number]:
                collector.ask(pooled, position, number)
        return collector


@dataclass(frozen=True)
class Attention(Reading[list[list[AttentionRow]]]):
    """Attention from a target word to all tokens, and where the attribute is: `answer[variant][text]`."""

    texts: Sequence[Text | str]
    targets: Sequence[Span]
    attributes: Sequence[Span]

    def prepare(self, model: Model, pool: RowPool, variants: int) -> Collector[list[list[AttentionRow]]]:
        collector = collect.AttentionCollector(variants)
        targets = words(model, self.texts, self.targets)
        attributes = words(model, self.texts, self.attributes)
        for (row, target), (_, attribute), text in zip(targets, attributes, self.texts, strict=True):
            sentences = Text.of(text).first, Text.of(text).second or ""
            written = tuple(
                "" if part == -1 else sentences[0 if part == 0 else 1][start:end].strip()
                for part, (start, end) in zip(row.part, row.offsets, strict=True)
            )
            counted = np.asarray([any(c.isalnum() for c in word) for word in written]) & (row.part != -1)
            empty = np.empty(0, np.float32)
            collector.texts.append(AttentionRow(empty, target, attribute, counted, written))
            number = pool.add(row)
            for position in target:
                collector.ask(number, int(position), len(collector.texts) - 1)
        return collector
