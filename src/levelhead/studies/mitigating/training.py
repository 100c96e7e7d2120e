"""What mitigations that train have in common: their means, their text, and candidates from kept weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Protocol, Self, runtime_checkable

from levelhead.engine.reweighing import Lesson, TrainingPlan, train_weights
from levelhead.models.copied import why_no_copy
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender, swap_for
from levelhead.probes.corpus import split_sentences
from levelhead.probes.training_text import TrainingSentence, training_text
from levelhead.results.keys import file_label
from levelhead.scoring.battery import Battery
from levelhead.studies.mitigating.protocol import Candidate, Mitigation

APART = 192  # texts that decide when to stop, and are not trained on
LENGTH = 48  # tokens of a text; longer ones are cut
_MOST = 24_000  # texts


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

    def plan(self, plan: TrainingPlan) -> TrainingPlan:
        """A method's own plan with what was asked for."""
        return replace(plan, steps=self.steps or plan.steps, lora=self.lora or plan.lora)


NO_MEANS = Means()


@runtime_checkable
class Trains(Mitigation, Protocol):
    """A mitigation that trains: it takes minutes, so it runs where it is asked for by its name."""

    def with_means(self, means: Means) -> Self:
        """The same with these means."""
        ...


def why_no_training(model: Model, fit: Battery, means: Means) -> str:
    """Why a model cannot be trained about this bias; empty where it can."""
    if not fit.test.pairs:
        return f"{fit.test.name} states no counterparts to exchange"
    if not about_gender(fit.test) and not means.text:
        return f"no text ships for {fit.test.name}; give one that has its words, with --text"
    return why_no_copy(model) and f"{model.name} cannot be trained: {why_no_copy(model)}"


def texts(fit: Battery, means: Means, plan: TrainingPlan) -> tuple[TrainingSentence, ...]:
    """As many sentences as a training meets, and those apart."""
    most = min(_MOST, plan.steps * plan.batch_size) + APART
    return training_text(means.text or None, swap_for(fit.test), most, means.seed)


def pairs(sentences: Sequence[TrainingSentence]) -> list[Text]:
    """Sentences as pairs, for models that judge: two that follow each other, or neighbors of one topic."""
    found = []
    for number, sentence in enumerate(sentences):
        parts = list(split_sentences([sentence.text]))
        after = sentences[(number + 1) % len(sentences)].text
        found.append(Text(parts[0], " ".join(parts[1:]) or after))
    return found


def trained_candidates(
    method: Mitigation, model: Model, lessons: tuple[Lesson, Lesson], plan: TrainingPlan, means: Means
) -> list[Candidate]:
    """One candidate for each number of steps after which the weights were kept."""
    folder = None if means.folder is None else means.folder / file_label(method.name)
    trained = train_weights(model, method.name, lessons, plan, means.seed, folder)
    return [
        Candidate(kept.weights.name, method.name, float(kept.step), (kept.weights,)) for kept in trained.kept
    ]


def apart(number: int) -> int:
    """How many of so many texts are not trained on."""
    return min(APART, ceil(number / 5))
