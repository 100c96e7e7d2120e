"""What models say about one sentence and its counterfactual: likeliest words, the odds of a pair of words
beside those of other texts and of null models; which heads and neurons move these odds; and short texts.

All texts of a page share one stream of random numbers (engine/sampling.py): the sentence and its
counterfactual, the unmodified and the changed model. Where two of them would continue alike, they do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from levelhead.edits.sites import Variant
from levelhead.engine.readings import TokenLogProbs
from levelhead.engine.run import read_one
from levelhead.engine.sampling import Continuation, Sampling, continuations
from levelhead.errors import BadProbe, CannotDo
from levelhead.escaping import escaped
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
from levelhead.models.hooks import checked
from levelhead.models.memoize import once_a_model
from levelhead.models.model import Model
from levelhead.models.null_model import as_null_model, draw_null_model
from levelhead.probes.swap import GenderedWord
from levelhead.runs.records import Record, StoredNeuron
from levelhead.scoring.cloze import token_forms

Floats = NDArray[np.float32]
NULL_MODELS = 9  # that a band is drawn from
_TOP, _SHOWN = 6, 9  # likeliest words of each side, and words of a text at most
_LEVEL = 0.95
TEXTS, TOKENS = 3, 24  # behind either sentence, and of each text at most
_STREAM = "explore"
Group = Literal["", "first", "second"]
GroupWords = Callable[[str], Sequence[GenderedWord]]  # the words of a text that state a group


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


@once_a_model
def _spelled(model: Model) -> tuple[tuple[str, ...], dict[str, list[int]]]:
    """Every token of the vocabulary as it is read, without spaces, and the tokens that are spelled so."""
    forms = tuple(form.surface.strip() for form in token_forms(model)[: int(model.config.vocab_size)])
    numbers: dict[str, list[int]] = {}
    for token, word in enumerate(forms):
        numbers.setdefault(word, []).append(token)
    return forms, numbers


def ask(sides: Sequence[Side], sentences: Sequence[str], pair: Pair) -> tuple[TextAnswer, ...]:
    """What every side says about every sentence: each network is read once, for all of its variants."""
    read: list[tuple[Model, tuple[Question, ...], Floats]] = []  # logs: [variant, text, token]
    for side in sides:
        questions = tuple(question(side.model, sentence, pair) for sentence in sentences)
        vocabulary = range(int(side.model.config.vocab_size))
        reading = TokenLogProbs([each.text for each in questions], vocabulary)
        read.append((side.model, questions, read_one(side.model, reading, side.variants, label="Sentence")))
    answers = []
    for text in range(len(sentences)):
        rows = [(model, each[text], logs[text]) for model, each, variants in read for logs in variants]
        best: dict[str, float] = {}
        for model, _, logs in rows:
            top = np.argpartition(-logs, min(_TOP, len(logs) - 1))[:_TOP]
            likeliest = top[np.argsort(-logs[top], kind="stable")]
            forms, _ = _spelled(model)
            words = {forms[token]: float(np.exp(np.float64(logs[token]))) for token in likeliest}
            for word, p in words.items():
                best[word] = max(p, best.get(word, 0.0))
        shown = sorted(best, key=lambda word: -best[word])[:_SHOWN]
        columns: list[list[float | None]] = []
        for model, _, logs in rows:
            _, known = _spelled(model)
            # the likeliest token where several are spelled alike
            each = ([float(np.exp(np.float64(logs[t]))) for t in known.get(word, ())] for word in shown)
            columns.append([max(alike, default=None) for alike in each])
        bars = tuple(Bar(word, p) for word, p in zip(shown, zip(*columns, strict=True), strict=True))
        odds = []
        for _, own, logs in rows:
            a, b = (np.float64(logs[token]) for token in own.tokens)
            odds.append(Odds(float(a - b), float(np.exp(a)), float(np.exp(b))))
        answers.append(TextAnswer(rows[0][1].text, tuple(odds), bars))
    return tuple(answers)


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
    original = question(side.model, sentence, pair)
    occupation = occupation_in(original.text)
    if not occupation:
        return None
    others = other_occupations(occupation)
    texts = [about_instead(original.text, occupation, other) for other in (PERSON, *others)]
    reading = TokenLogProbs(texts, original.tokens)
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

    floor ± t(0.975, K − 1) · spread · sqrt(1 + 1/K)     K null models (models/null_model.py)
    """
    questions = [question(model, sentence, pair) for sentence in sentences]
    reading = TokenLogProbs([each.text for each in questions], [t for q in questions for t in q.tokens])

    def log_odds(label: str) -> NDArray[np.float64]:
        # [text, 2 · text]: every text is read at the tokens of all, of which two are its own
        logs = read_one(model, reading, label=label)[0].astype(np.float64)
        each = [float(of_text[2 * i] - of_text[2 * i + 1]) for i, of_text in enumerate(logs)]
        return np.asarray([*each, each[0] - each[1]])

    own, drawn = log_odds("Sentence"), []
    for number in range(NULL_MODELS):
        with as_null_model(model, draw_null_model(model, seed + number)):
            drawn.append(log_odds("Null models"))
    found = []
    for value, values in zip(own, np.stack(drawn).T, strict=True):
        null = NullDistribution(values)
        width = float(stats.t.ppf((1 + _LEVEL) / 2, len(null) - 1))
        half = width * null.spread * float(np.sqrt(1 + 1 / len(null)))
        found.append(Band(null.floor - half, null.floor + half, null.p_value(value, "student"), len(null)))
    return tuple(found)


# ---- why a model answers so


@dataclass(frozen=True)
class Why(Record):
    """d log-odds / d gate of every head with the change on: exact, for this sentence alone."""

    log_odds: float
    scores: tuple[tuple[float, ...], ...]  # [layer][head]


@dataclass(frozen=True)
class NeuronScore(Record):
    """A neuron, and d log-odds / d gate of it in this sentence."""

    neuron: StoredNeuron
    score: float


@dataclass(frozen=True)
class NeuronsWhy(Record):
    """The neurons that move the odds of this sentence most, largest first, and those that were switched."""

    neurons: tuple[NeuronScore, ...]


@dataclass(frozen=True)
class Attention(Record):
    """Attention from one word to all tokens, in every head: the mean over the word's subword tokens."""

    tokens: tuple[str, ...]
    source: tuple[int, ...]  # positions of the word's tokens
    weights: tuple[tuple[tuple[float, ...], ...], ...]  # [layer][head][token]
    words: tuple[tuple[int, int], ...]  # that can be chosen, by their characters
    word: tuple[int, int]
    text: str


@dataclass(frozen=True)
class Piece(Record):
    """A piece of a text; side: of which group it is a word."""

    text: str
    side: Group = ""


@dataclass(frozen=True)
class WrittenText(Record):
    """A text behind a sentence, without the sentence."""

    pieces: tuple[Piece, ...]
    ended: bool  # by the model, not by the limit


@dataclass(frozen=True)
class Writes(Record):
    """What one side writes."""

    side: str
    texts: tuple[tuple[WrittenText, ...], ...]  # [sentence or counterfactual][text]
    line: str = ""  # why there is none


@dataclass(frozen=True)
class Continuations(Record):
    """What every side writes behind the sentence and behind its counterfactual."""

    fragment: str  # of the state that it is about
    seed: int
    prompts: tuple[tuple[Piece, ...], ...]
    sides: tuple[Writes, ...]


def sampled(
    model: Model, prompt: str, variant: Variant, seed: int, check: Callable[[], None]
) -> tuple[Continuation, ...] | str:
    """What a model writes behind one prompt, or why it cannot. check: called at every token."""
    sampling = Sampling(TEXTS, TOKENS, seed=seed)
    try:
        with checked(model.hf, check):
            (found,) = continuations(model, [prompt], [_STREAM], sampling, variant)
    except (BadProbe, CannotDo) as error:  # the prompt is too long, or the change cannot write
        return str(error)
    return tuple(found)


def written(
    side: str, prompts: Sequence[str], found: Sequence[tuple[Continuation, ...] | str], words: GroupWords
) -> Writes:
    """The texts behind every prompt, ready to be shown."""
    texts = []
    for prompt, several in zip(prompts, found, strict=True):
        if isinstance(several, str):
            return Writes(side, (), several)
        whole = [(prompt + each.text, each.ended) for each in several]
        own = (WrittenText(pieces(text, words(text), len(prompt)), ended) for text, ended in whole)
        texts.append(tuple(own))
    return Writes(side, tuple(texts))


def pieces(text: str, words: Sequence[GenderedWord], start: int = 0) -> tuple[Piece, ...]:
    """The text from a character on, cut where its group words begin and end."""
    found, at = [], start
    for word in words:
        begins, ends = max(at, word.start), word.start + len(word.word)
        if ends > begins:
            side: Group = "first" if word.gender == "F" else "second"
            found += [Piece(escaped(text[at:begins])), Piece(escaped(text[begins:ends]), side)]
            at = ends
    return tuple(piece for piece in (*found, Piece(escaped(text[at:]))) if piece.text)
