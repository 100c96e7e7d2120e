"""What a model answers about next sentences, those of triples and others, before anything is measured
(docs/method.md, Next-sentence probability)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.sites import UNTOUCHED, Variant
from levelhead.engine.readings import Pooled, TokenLikelihoods
from levelhead.engine.run import read_one
from levelhead.models.chat import chat_texts, require_chat
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.probes.sense import SenseItem
from levelhead.probes.triples import TripleSet

Doubles = NDArray[np.float64]
HEAD = "next-sentence head"
LIKELIHOOD = "mean log-likelihood per token, softmax over the three sentences"
CHAT_LIKELIHOOD = f"{LIKELIHOOD}; the context is a user's turn, the sentence the model's"
_KINDS = ("stereotype", "anti", "unrelated")  # of next sentences, as a triple names them
_LABEL = "Next sentences"
_Columns = Sequence[Sequence[str]]  # contexts, then their next sentences of each kind


@dataclass(frozen=True, eq=False)
class TripleAnswers:
    """Answers about all originals, then about the gender-swapped ones that exist.

    The columns are stereotype, anti-stereotype and, where it was asked, unrelated.
    """

    p: Doubles  # [triple, kind] probabilities
    x: Doubles  # [triple, kind] the logits or mean log-likelihoods behind them
    probability: str  # HEAD, LIKELIHOOD or CHAT_LIKELIHOOD


def head_answers(
    model: Model, triples: TripleSet, variants: Sequence[Variant] = UNTOUCHED
) -> list[TripleAnswers]:
    """The answers of the model's own next-sentence head in every variant.

    p(NS | A, B) = softmax(logits)[0],   x = logits[0] − logits[1]     index 0: "is the next sentence"
    """
    return _by_head(model, _columns(triples, _KINDS), variants)


def likelihood_answers(
    model: Model, triples: TripleSet, variants: Sequence[Variant] = UNTOUCHED, chat: bool = False
) -> list[TripleAnswers]:
    """The answers of a causal model in every variant.

    x(B) = mean over the tokens t of B of log p(t | A, tokens of B before t)
    p(B) = exp x(B) / Σ over the triple's three sentences of exp x(B')

    chat: A is what a user says and B what the model answers, in the tokenizer's chat template; else A B is
    plain text.
    """
    return _by_likelihood(model, _columns(triples, _KINDS), variants, chat)


def triple_reading(model: Model, triples: TripleSet) -> Pooled | TokenLikelihoods:
    """What a model is asked about triples."""
    return _reading(model, _columns(triples, _KINDS))


def sense_reading(model: Model, items: Sequence[SenseItem]) -> Pooled | TokenLikelihoods:
    """What a model is asked about language sense."""
    return _reading(model, _sense_columns(items))


def next_sentence_answers(model: Model, triples: TripleSet, likelihood: bool, chat: bool) -> TripleAnswers:
    """The unmodified model's answers, by its next-sentence head or, of a causal model, by likelihood."""
    if likelihood:
        return likelihood_answers(model, triples, chat=chat)[0]
    return head_answers(model, triples)[0]


def related_answers(model: Model, triples: TripleSet, variant: Variant = ()) -> TripleAnswers:
    """Answers about stereotypes and anti-stereotypes, which is all that a preference needs.

    A next-sentence head answers about each sentence alone, so the unrelated ones are not asked; the
    probabilities of a causal model need all three.
    """
    if "nsp" in model.abilities:
        return _by_head(model, _columns(triples, _KINDS[:2]), [variant])[0]
    return likelihood_answers(model, triples, [variant])[0]


def sense_answers(model: Model, items: Sequence[SenseItem], variants: Sequence[Variant]) -> list[Doubles]:
    """p of the related and of the unrelated sentence of every item, [item, 2], in every variant: by the head
    where there is one, else by likelihood, over the two."""
    columns = _sense_columns(items)
    ask = _by_head if "nsp" in model.abilities else _by_likelihood
    return [answers.p for answers in ask(model, columns, variants)]


def _by_likelihood(
    model: Model, columns: _Columns, variants: Sequence[Variant], chat: bool = False
) -> list[TripleAnswers]:
    model.require("causal", "triples by likelihood")
    sentences = _pairs(columns)
    if chat:
        require_chat(model)
        texts = chat_texts(model, sentences)
    else:
        texts = _continued(columns)
    scores = read_one(model, TokenLikelihoods(texts), variants, label=_LABEL)
    starts = [len(text.first) - len(sentence) for text, (_, sentence) in zip(texts, sentences, strict=True)]
    chosen = [
        tokens.offsets[positions, 1] > start
        for tokens, positions, start in zip(scores.rows, scores.positions, starts, strict=True)
    ]
    means = np.asarray(
        [[v[own].mean() for v, own in zip(values, chosen, strict=True)] for values in scores.values]
    )
    x = means.astype(np.float64).reshape(len(variants), -1, len(columns) - 1)
    stated = CHAT_LIKELIHOOD if chat else LIKELIHOOD
    return [TripleAnswers(*of_variant, stated) for of_variant in zip(softmax(x), x, strict=True)]


def _by_head(model: Model, columns: _Columns, variants: Sequence[Variant]) -> list[TripleAnswers]:
    model.require("nsp", "the next-sentence measures (ss, lms, icat, preference, strength, distance)")
    logits = read_one(model, Pooled(_texts(columns)), variants, label=_LABEL).astype(np.float64)
    p = softmax(logits)[:, :, 0].reshape(len(variants), -1, len(columns) - 1)
    x = (logits[:, :, 0] - logits[:, :, 1]).reshape(p.shape)
    return [TripleAnswers(*of_variant, HEAD) for of_variant in zip(p, x, strict=True)]


def _columns(triples: TripleSet, kinds: Sequence[str]) -> _Columns:
    """All originals, then the swapped triples that exist."""
    originals = [pair.original for pair in triples.pairs]
    swapped = [pair.swapped for pair in triples.pairs if pair.swapped is not None]
    return [[str(getattr(each, name)) for each in (*originals, *swapped)] for name in ("context", *kinds)]


def _pairs(columns: _Columns) -> list[tuple[str, str]]:
    """Every context with each of its sentences."""
    return [(context, each) for context, *sentences in zip(*columns, strict=True) for each in sentences]


def _sense_columns(items: Sequence[SenseItem]) -> _Columns:
    return list(zip(*((item.context, item.related, item.unrelated) for item in items), strict=True))


def _reading(model: Model, columns: _Columns) -> Pooled | TokenLikelihoods:
    return Pooled(_texts(columns)) if "nsp" in model.abilities else TokenLikelihoods(_continued(columns))


def _texts(columns: _Columns) -> list[Text]:
    return [Text(context, sentence) for context, sentence in _pairs(columns)]


def _continued(columns: _Columns) -> list[Text]:
    return [Text(f"{context} {sentence}") for context, sentence in _pairs(columns)]


def softmax(x: Doubles) -> Doubles:
    """Probabilities over the last axis."""
    shifted = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True), dtype=np.float64)
