"""What mitigations that train have in common: their means, their text, and candidates from kept weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from math import ceil
from pathlib import Path
from typing import ClassVar, Self, TypeGuard

from levelhead.engine.distilling import AlignedText, aligned
from levelhead.engine.effort import now
from levelhead.engine.own_forward import sampled_texts
from levelhead.engine.preference_losses import Choice, choices
from levelhead.engine.training import Lesson, Trained, TrainingPlan, steps_within, train_weights
from levelhead.errors import CannotDo
from levelhead.models.copies import why_no_copy
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender, none_ships, swap_for
from levelhead.probes.corpus import split_sentences
from levelhead.probes.training_text import TrainingSentence, training_text
from levelhead.runs.files import file_label
from levelhead.scoring.battery import Battery
from levelhead.studies.mitigate.protocol import Candidate, Mitigation

APART = 96  # texts that decide when to stop, and are not trained on
LENGTH = 48  # tokens of a text; longer ones are cut
OWN = 0.25  # of the texts that a causal model is distilled on: those that it wrote itself
_OWN_LENGTH = 32  # tokens of one of those
_UNREADABLE = "\ufffd"  # stands for bytes that are no character
_MOST = 24_000  # texts
_FEW = 8  # steps whose texts tell how long texts take to be made
_FAR = 9  # pairs further on; odd: of the sentences that ship every other has words for a group


@dataclass(frozen=True)
class Means:
    """What a mitigation may train with.

    text: a file or folder of the user's; "": what ships
    steps: of the optimizer; 0: each method's own number, or as many as fit into `seconds`
    seconds: that a training may take, its texts included; 0: no matter
    lora: low-rank adapters instead of all weights
    folder: of checkpoints, one folder per method inside; None: a killed training begins anew
    """

    text: str = ""
    steps: int = 0
    lora: bool = False
    seed: int = 0
    folder: Path | None = None
    seconds: float = 0.0


NO_MEANS = Means()


def trains(method: Mitigation) -> TypeGuard[TrainedMitigation]:
    """Whether a mitigation trains, so that it takes means; isinstance would not see the members of one that
    is behind a guard."""
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


def swapped_texts(
    model: Model, fit: Battery, means: Means, plan: TrainingPlan
) -> tuple[Sequence[AlignedText], Sequence[AlignedText]]:
    """As many texts as a training meets, at every orientation of the groups, and texts apart: pairs for a
    classification head, else every other one a pair as running text."""
    swap = swap_for(fit.test)
    most = min(_MOST, plan.steps * plan.batch_size) + APART
    sentences = training_text(means.text or None, swap, most, means.seed)
    given = running(sentences) if model.classification_head is None else pairs(sentences)
    found = aligned(model, swap, given, LENGTH).texts
    if not any(len(text.orientations) > 1 for text in found):
        raise CannotDo(f"{model.name}: no text has a word of {swap.name} of one token on every side.")
    split = apart(len(found))
    return found[split:], found[:split]


def with_own_text(
    model: Model, fit: Battery, texts: Sequence[AlignedText], seed: int
) -> Sequence[AlignedText]:
    """Of a causal model a quarter of the texts in favor of samples of its own, so that it is held where it
    was on more than our sentences; of any other model the texts as they are.

    A sample begins as the text does whose place it takes: with the tokens that open every text, or else with
    the first one.
    Those that decode to no plain characters, or cannot be aligned, leave the place to the text. The texts
    apart, which decide when to stop, have none.
    """
    if "causal" not in model.abilities:
        return texts
    given = texts[: round(OWN * len(texts))]
    opening = max(1, min((int(text.words[0].min()) for text in given), default=1))
    starts = [text.orientations[0].ids[:opening].tolist() for text in given]
    samples = sampled_texts(model, starts, _OWN_LENGTH, seed)
    clean = [Text(each) for each in samples if each.strip() and _UNREADABLE not in each]
    own = aligned(model, swap_for(fit.test), clean, LENGTH).texts
    return [*own, *texts[len(own) :]]


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
        """Its own plan, with the steps and adapters of its means."""
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
        means, method = self.means, self
        folder = None if means.folder is None else means.folder / file_label(self.name)
        if means.seconds and not means.steps:
            few, begun = self.with_means(replace(means, steps=_FEW)), now()
            lesson, others = few.lessons(model, fit)
            each = (now() - begun) / (len(lesson.lengths) + len(others.lengths))
            making = each * self.plan.batch_size
            steps = steps_within(model, lesson, self.plan, means.seconds, folder, making)
            method = self.with_means(replace(means, steps=steps))
        return train_weights(model, self.name, method.lessons(model, fit), method.plan, means.seed, folder)

    def candidates(self, model: Model, fit: Battery) -> list[Candidate]:
        """Train, and take the weights that were kept."""
        return [
            Candidate(kept.weights.name, self.name, float(kept.step), (kept.weights,))
            for kept in self.trained(model, fit).kept
        ]


def apart(number: int) -> int:
    """How many of so many texts are not trained on."""
    return min(APART, ceil(number / 5))


# ---- next sentences of part A as choices between a stereotype and its opposite, of both genders


def why_no_choices(model: Model, fit: Battery) -> str:
    """Why a model cannot be shown stereotypes of part A; empty where it can."""
    if not about_gender(fit.test):
        return none_ships("next sentences", fit.test)
    if not model.abilities & {"nsp", "causal"}:
        return f"{model.name} cannot judge a next sentence"
    return why_no_copy(model) and f"{model.name} cannot be changed: {why_no_copy(model)}"


def fitted_choices(model: Model, fit: Battery) -> tuple[list[Choice], list[Choice]]:
    """Every triple of part A that has a counterfactual, and the counterfactual, which says of men what it
    says of women; the second list is apart from training."""
    counterfactuals = [
        (pair.original, pair.swapped) for pair in fit.triples.pairs if pair.swapped is not None
    ]
    split = apart(len(counterfactuals))
    some, few = (
        [(triple.context, triple.stereotype, triple.anti) for pair in part for triple in pair]
        for part in (counterfactuals[split:], counterfactuals[:split])
    )
    return choices(model, some), choices(model, few)
