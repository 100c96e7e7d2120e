"""What mitigations that train have in common: their means, their text, and candidates from kept weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from math import ceil
from pathlib import Path
from typing import ClassVar, Protocol, Self, TypeGuard, runtime_checkable

from levelhead.engine.distilling import AlignedText, aligned
from levelhead.engine.reweighing import Lesson, Trained, TrainingPlan, train_weights
from levelhead.engine.sampling import sampled_texts
from levelhead.errors import CannotDo
from levelhead.models.copied import why_no_copy
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender, swap_for
from levelhead.probes.corpus import split_sentences
from levelhead.probes.training_text import TrainingSentence, training_text
from levelhead.results.keys import file_label
from levelhead.scoring.battery import Battery
from levelhead.studies.mitigating.protocol import Candidate, Mitigation

APART = 96  # texts that decide when to stop, and are not trained on
LENGTH = 48  # tokens of a text; longer ones are cut
OWN = 0.25  # of the texts that a causal model is distilled on: those that it wrote itself
_OWN_LENGTH = 32  # tokens of one of those
_UNREADABLE = "\ufffd"  # stands for bytes that are no character
_MOST = 24_000  # texts
_FAR = 9  # pairs further on; odd: of the sentences that ship every other has words for a group


@dataclass(frozen=True)
class Means:
    """What a mitigation may train with.

    text: a file or folder of the user's; "": what ships
    steps: of the optimizer; 0: each method's own number
    lora: low-rank adapters instead of all weights
    folder: of checkpoints, one folder per method inside; None: a killed training begins anew
    """

    text: str = ""
    steps: int = 0
    lora: bool = False
    seed: int = 0
    folder: Path | None = None


NO_MEANS = Means()


@runtime_checkable
class Trains(Mitigation, Protocol):
    """A mitigation that trains, with the means that a run gives it."""

    def with_means(self, means: Means) -> Self:
        """The same with these means."""
        ...


def trains(method: Mitigation) -> TypeGuard[Trains]:
    """Whether a mitigation trains; isinstance would not see the members of one that is behind a guard."""
    return hasattr(method, "with_means")


def why_no_training(model: Model, fit: Battery, means: Means) -> str:
    """Why a model cannot be trained about this bias; empty where it can."""
    if why := why_no_text(fit, means):
        return why
    return why_no_copy(model) and f"{model.name} cannot be trained: {why_no_copy(model)}"


def why_no_text(fit: Battery, means: Means = NO_MEANS) -> str:
    """Why there is no text whose groups can be exchanged; empty where there is."""
    if not fit.test.pairs:
        return f"{fit.test.name} states no counterparts to exchange"
    if not about_gender(fit.test) and not means.text:
        return f"no text ships for {fit.test.name}; give one that has its words, with --text"
    return ""


def turned_texts(
    model: Model, fit: Battery, means: Means, plan: TrainingPlan
) -> tuple[Sequence[AlignedText], Sequence[AlignedText]]:
    """As many texts as a training meets, at every turn of the groups, and texts apart: pairs for a
    classification head, else every other one a pair as running text."""
    swap = swap_for(fit.test)
    most = min(_MOST, plan.steps * plan.batch_size) + APART
    sentences = training_text(means.text or None, swap, most, means.seed)
    given = pairs(sentences) if has_head(model) else running(sentences)
    found = aligned(model, swap, given, LENGTH).texts
    if not any(len(text.turns) > 1 for text in found):
        raise CannotDo(f"{model.name}: no text has a word of {swap.name} of one token on every side.")
    split = apart(len(found))
    return found[split:], found[:split]


def with_own_text(
    model: Model, fit: Battery, texts: Sequence[AlignedText], seed: int
) -> Sequence[AlignedText]:
    """Of a causal model a quarter of the texts in favor of samples of its own, so that it is held where it
    was on more than our sentences; of any other model the texts as they are.

    A sample begins as the text does whose place it takes: with what opens it, or else with its first token.
    Those that decode to no plain characters, or cannot be aligned, leave the place to the text. The texts
    apart, which decide when to stop, have none.
    """
    if "causal" not in model.abilities:
        return texts
    given = texts[: round(OWN * len(texts))]
    opening = max(1, min((int(text.words[0].min()) for text in given), default=1))
    starts = [text.turns[0].ids[:opening].tolist() for text in given]
    samples = sampled_texts(model, starts, _OWN_LENGTH, seed)
    clean = [Text(each) for each in samples if each.strip() and _UNREADABLE not in each]
    own = aligned(model, swap_for(fit.test), clean, LENGTH).texts
    return [*own, *texts[len(own) :]]


def has_head(model: Model) -> bool:
    """Whether it answers to pairs of sentences."""
    return model.classification_head is not None


def pairs(sentences: Sequence[TrainingSentence]) -> list[Text]:
    """Sentences as pairs, for models with a classification head: two that follow each other, or two of one
    topic, where behind a sentence with words for a group every other one has none, as next sentences often
    do, and behind a sentence without, none has any. Half of them end as a pair further on does, of another
    topic, with words for a group where the first has none: there the head is held where it says no."""
    alike: dict[tuple[str, bool], list[str]] = {}
    for each in sentences:
        alike.setdefault((each.topic, each.grouped), []).append(each.text)
    after = {kind: cycle([*texts[1:], texts[0]]) for kind, texts in alike.items()}
    coins: dict[str, Iterator[bool]] = {topic: cycle((True, False)) for topic, _ in alike}
    found = []
    for each in sentences:
        own = list(split_sentences([each.text]))
        grouped = each.grouped and (next(coins[each.topic]) or (each.topic, False) not in after)
        other = next(after[each.topic, grouped])
        found.append(Text(own[0], " ".join(own[1:]) or other))
    far = [found[(number + _FAR) % len(found)].second for number in range(len(found))]
    return [Text(pair.first, far[n]) if n % 4 > 1 else pair for n, pair in enumerate(found)]


def running(sentences: Sequence[TrainingSentence]) -> list[Text]:
    """Half of the sentences as they are, half with the other one of their pair behind them: what one sentence
    says of a group is then also read in the next."""
    return [
        Text(f"{pair.first} {pair.second}" if n % 4 < 2 else each.text)
        for n, (each, pair) in enumerate(zip(sentences, pairs(sentences), strict=True))
    ]


@dataclass(frozen=True)
class TrainedMitigation(ABC):
    """A mitigation that is a lesson and a plan; one candidate for each number of steps that is kept."""

    means: Means = NO_MEANS
    quick: ClassVar[bool] = False
    name: ClassVar[str]
    own_plan: ClassVar[TrainingPlan]

    def with_means(self, means: Means) -> Self:
        """The same with these means."""
        return replace(self, means=means)

    @property
    def plan(self) -> TrainingPlan:
        """Its own plan with what was asked for."""
        steps, lora = self.means.steps or self.own_plan.steps, self.means.lora or self.own_plan.lora
        return replace(self.own_plan, steps=steps, lora=lora)

    @abstractmethod
    def why_not(self, model: Model, fit: Battery) -> str:
        """Why it cannot run on this model and bias; empty where it can."""

    @abstractmethod
    def lessons(self, model: Model, fit: Battery) -> tuple[Lesson, Lesson]:
        """What is trained, and the same on texts apart."""

    def trained(self, model: Model, fit: Battery) -> Trained:
        """Train by its plan."""
        folder = None if self.means.folder is None else self.means.folder / file_label(self.name)
        return train_weights(model, self.name, self.lessons(model, fit), self.plan, self.means.seed, folder)

    def candidates(self, model: Model, fit: Battery) -> list[Candidate]:
        """Train, and take the weights that were kept."""
        return [
            Candidate(kept.weights.name, self.name, float(kept.step), (kept.weights,))
            for kept in self.trained(model, fit).kept
        ]


def apart(number: int) -> int:
    """How many of so many texts are not trained on."""
    return min(APART, ceil(number / 5))
