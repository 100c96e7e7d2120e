"""Why a model answers so: which heads and neurons move the odds of this sentence, and where they look."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from torch import Tensor

from levelhead.edits.gates import HeadGates
from levelhead.edits.head import Head
from levelhead.edits.neuron import Neuron
from levelhead.edits.neurons import NeuronGates
from levelhead.edits.sites import Edit, Variant, inside
from levelhead.engine.gradients import Doubles, gate_gradients, neuron_gradients
from levelhead.engine.readings import Attention, TokenLogProbs
from levelhead.engine.run import read_one
from levelhead.exploring.sentences import Pair, Words, question
from levelhead.models.model import Model
from levelhead.results.codec import Record, StoredNeuron

C = TypeVar("C", Head, Neuron)
_DIGITS = 4
NEURONS = 8  # that move the odds most


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
class Changed(Generic[C]):
    """All that is changed, and the gates of heads or of neurons among it: those that are differentiated."""

    variant: Variant
    gates: Mapping[C, float]

    def at(self, layers: int, width: int) -> Doubles:
        """The gates of every layer: [layer, component]."""
        at = np.ones((layers, width))
        for place, value in self.gates.items():
            at[place] = value
        return at

    def without(self, kind: type[Edit]) -> Iterator[Edit]:
        """The other edits inside the network."""
        return (edit for edit in inside(self.variant) if not isinstance(edit, kind))


def why(model: Model, sentence: str, pair: Pair, changed: Changed[Head]) -> Why:
    """How the log-odds of a pair in one sentence change with every head's gate."""
    at, asked = changed.at(model.layers, model.heads), _asked(model, sentence, pair)
    with model.edited(*changed.without(HeadGates)):
        found = gate_gradients(model, asked, _log_odds, label="Why", at=at)
    return Why(found.objective, tuple(tuple(map(float, row)) for row in found.scores))


def neurons_why(
    model: Model, sentence: str, pair: Pair, changed: Changed[Neuron], switched: Sequence[Neuron]
) -> NeuronsWhy:
    """How they change with the gates of neurons. switched: those that are shown in any case."""
    at, asked = changed.at(model.layers, model.neurons), _asked(model, sentence, pair)
    with model.edited(*changed.without(NeuronGates)):
        scores = neuron_gradients(model, asked, _log_odds, label="Why", at=at).scores
    largest = np.argsort(-np.abs(scores), axis=None, kind="stable")[:NEURONS]
    most = [Neuron(*divmod(int(number), model.neurons)) for number in largest]
    shown = dict.fromkeys((*most, *sorted(switched)))
    return NeuronsWhy(tuple(NeuronScore(neuron, float(scores[neuron])) for neuron in shown))


def _asked(model: Model, sentence: str, pair: Pair) -> TokenLogProbs:
    asked = question(model, sentence, pair)
    return TokenLogProbs([asked.text], asked.tokens)


def _log_odds(answer: Tensor) -> Tensor:
    return answer[0, 0] - answer[0, 1]


@dataclass(frozen=True)
class Look(Record):
    """Attention from one word to all tokens, in every head: the mean over the word's subword tokens."""

    tokens: tuple[str, ...]
    source: tuple[int, ...]  # positions of the word's tokens
    weights: tuple[tuple[tuple[float, ...], ...], ...]  # [layer][head][token]
    words: tuple[tuple[int, int], ...]  # that can be looked from, by their characters
    word: tuple[int, int]
    text: str


def look(model: Model, sentence: str, pair: Pair, variant: Variant, character: int | None) -> Look:
    """Where each head looks from the word at a character; by default from the blank."""
    asked = question(model, sentence, pair)
    words = Words.of(asked.text, model.tokenizer.mask_token)
    span = words.at(character, asked.blank)
    reading = Attention([asked.text], [span], [span])
    (row,) = read_one(model, reading, [inside(variant)], label="Attention")[0]
    weights = row.weights.astype(np.float64).mean(axis=2).round(_DIGITS)
    return Look(
        tuple(token or "·" for token in row.tokens),
        tuple(map(int, row.target)),
        tuple(tuple(tuple(map(float, head)) for head in layer) for layer in weights),
        words.spans,
        span,
        asked.text,
    )
