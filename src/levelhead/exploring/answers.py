"""What models say about one sentence and its counterfactual: likeliest words, and the odds of a pair of words
beside those of other texts and of null models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from levelhead.edits.sites import Variant
from levelhead.engine.readings import TokenLogProbs
from levelhead.engine.run import read_one
from levelhead.exploring.sentences import (
    PERSON,
    Pair,
    Question,
    about_instead,
    occupation_in,
    other_occupations,
    question,
)
from levelhead.measures.null import NullDistribution
from levelhead.models.model import Model
from levelhead.models.once import once_a_model
from levelhead.models.twins import draw_twin, twinned
from levelhead.results.codec import Record
from levelhead.scoring.cloze import token_forms

Floats = NDArray[np.float32]
NULL_MODELS = 9  # that a band is drawn from
_TOP, _SHOWN = 6, 9  # likeliest words of each side, and words of a text at most
_LEVEL = 0.95


@dataclass(frozen=True)
class Odds(Record):
    """log p(first) − log p(second) of a pair of words, and both probabilities."""

    log_odds: float
    first: float
    second: float


@dataclass(frozen=True)
class Bar(Record):
    """A word with its probability on every side; None where it is no single token of that model."""

    word: str
    p: tuple[float | None, ...]


@dataclass(frozen=True)
class TextAnswer(Record):
    """What every side says about one text."""

    text: str  # as the first model reads it
    odds: tuple[Odds, ...]  # [side]
    bars: tuple[Bar, ...]


@dataclass(frozen=True, eq=False)
class Side:
    """Models whose answers stand side by side: one network in some variants."""

    model: Model
    variants: Sequence[Variant]


@dataclass(frozen=True, eq=False)
class _Read:
    """The answers of one network: log-probabilities of its vocabulary, [variant, text, token]."""

    model: Model
    questions: tuple[Question, ...]
    logs: Floats

    def words(self, text: int, variant: int) -> dict[str, float]:
        """The likeliest words of a text, with their probabilities."""
        logs, forms = self.logs[variant, text], _spelled(self.model)
        top = np.argpartition(-logs, min(_TOP, len(logs) - 1))[:_TOP]
        ranked = top[np.argsort(-logs[top], kind="stable")]
        return {forms[token]: float(np.exp(np.float64(logs[token]))) for token in ranked}

    def odds(self, text: int, variant: int) -> Odds:
        """The odds of the pair."""
        a, b = (np.float64(self.logs[variant, text, token]) for token in self.questions[text].tokens)
        return Odds(float(a - b), float(np.exp(a)), float(np.exp(b)))

    def p(self, text: int, variant: int, words: Sequence[str]) -> list[float | None]:
        """Probabilities of words; the likeliest token where several are spelled alike."""
        logs, known = self.logs[variant, text], _numbers(self.model)
        return [
            max((float(np.exp(np.float64(logs[token]))) for token in known.get(word, ())), default=None)
            for word in words
        ]


@once_a_model
def _spelled(model: Model) -> tuple[str, ...]:
    """Every token of the vocabulary as it is read, without spaces."""
    return tuple(form.surface.strip() for form in token_forms(model)[: int(model.config.vocab_size)])


@once_a_model
def _numbers(model: Model) -> dict[str, list[int]]:
    """The tokens that are spelled so."""
    numbers: dict[str, list[int]] = {}
    for token, word in enumerate(_spelled(model)):
        numbers.setdefault(word, []).append(token)
    return numbers


def ask(sides: Sequence[Side], sentences: Sequence[str], pair: Pair) -> tuple[TextAnswer, ...]:
    """What every side says about every sentence: each network is asked once, for all of its variants."""
    answered = [_read(side, sentences, pair) for side in sides]
    return tuple(_text_answer(answered, text) for text in range(len(sentences)))


def _read(side: Side, sentences: Sequence[str], pair: Pair) -> _Read:
    questions = tuple(question(side.model, sentence, pair) for sentence in sentences)
    vocabulary = range(int(side.model.config.vocab_size))
    reading = TokenLogProbs([each.text for each in questions], vocabulary)
    return _Read(side.model, questions, read_one(side.model, reading, side.variants, label="Sentence"))


def _text_answer(answered: Sequence[_Read], text: int) -> TextAnswer:
    of_side = [(read, variant) for read in answered for variant in range(len(read.logs))]
    likeliest = [read.words(text, variant) for read, variant in of_side]
    best: dict[str, float] = {}
    for words in likeliest:
        for word, p in words.items():
            best[word] = max(p, best.get(word, 0.0))
    shown = sorted(best, key=lambda word: -best[word])[:_SHOWN]
    columns = [read.p(text, variant, shown) for read, variant in of_side]
    bars = tuple(Bar(word, tuple(column[i] for column in columns)) for i, word in enumerate(shown))
    odds = tuple(read.odds(text, variant) for read, variant in of_side)
    return TextAnswer(answered[0].questions[text].text, odds, bars)


# ---- what other texts show, in which nothing states a group either


@dataclass(frozen=True)
class References(Record):
    """Log-odds of the same text about a person and about other occupations, in every variant."""

    occupation: str
    person: tuple[float, ...]  # [variant]
    others: tuple[str, ...]
    odds: tuple[tuple[float, ...], ...]  # [variant][other]


def references(side: Side, sentence: str, pair: Pair) -> References | None:
    """The neutral reference and the other occupations; None where the text names no occupation."""
    asked = question(side.model, sentence, pair)
    occupation = occupation_in(asked.text)
    if not occupation:
        return None
    others = other_occupations(occupation)
    texts = [about_instead(asked.text, occupation, other) for other in (PERSON, *others)]
    reading = TokenLogProbs(texts, asked.tokens)
    logs = read_one(side.model, reading, side.variants, label="Other occupations").astype(np.float64)
    odds = [tuple(map(float, each)) for each in logs[..., 0] - logs[..., 1]]
    return References(occupation, tuple(e[0] for e in odds), others, tuple(e[1:] for e in odds))


# ---- what null models show


@dataclass(frozen=True)
class Band(Record):
    """Where a null model's log-odds lie with 95 % probability, and how the model's own compare."""

    low: float
    high: float
    p: float  # two-sided, of the model's own value
    null_models: int


def bands(model: Model, sentences: Sequence[str], pair: Pair, seed: int = 0) -> tuple[Band, ...]:
    """Bands of the log-odds of each sentence, then of the first less the second.

    floor ± t(0.975, K − 1) · spread · sqrt(1 + 1/K)     K null models (models/twins.py)
    """
    questions = [question(model, sentence, pair) for sentence in sentences]
    reading = TokenLogProbs([each.text for each in questions], [t for q in questions for t in q.tokens])
    own = _log_odds(read_one(model, reading, label="Sentence")[0])
    null = []
    for number in range(NULL_MODELS):
        with twinned(model, draw_twin(model, seed + number)):
            null.append(_log_odds(read_one(model, reading, label="Null models")[0]))
    return tuple(_band(value, values) for value, values in zip(own, np.stack(null).T, strict=True))


def _log_odds(logs: Floats) -> NDArray[np.float64]:
    """Log-odds of every text at its own two tokens, [text, 2 · text], and the difference of the first two."""
    each = [float(of_text[2 * i] - of_text[2 * i + 1]) for i, of_text in enumerate(logs.astype(np.float64))]
    return np.asarray([*each, each[0] - each[1]])


def _band(value: float, values: NDArray[np.float64]) -> Band:
    null = NullDistribution(values)
    width = float(stats.t.ppf((1 + _LEVEL) / 2, len(null) - 1))
    half = width * null.spread * float(np.sqrt(1 + 1 / len(null)))
    return Band(null.floor - half, null.floor + half, null.student_p_value(value), len(null))
