"""What the model is given: prompts in fixed parts, and the texts that it writes behind them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import groupby
from operator import itemgetter

import numpy as np

from levelhead.edits.sites import Variant
from levelhead.engine.sampling import Continuation, Sampling, continuations
from levelhead.engine.served.writing import gives_likelihoods, sampled
from levelhead.models.chat import chat_texts
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.models.served import ServedModel
from levelhead.probes.generation import Prompt, PromptSet
from levelhead.runs.folder import Run
from levelhead.scoring.generation import first_person_shares, mirror_scores, served_mirror_scores
from levelhead.studies.generate import Generate
from levelhead.studies.generate.records import WrittenText
from levelhead.studies.generate.settings import GenerateSettings, GenerateStored
from levelhead.studies.generate.texts import NOT_SWAPPED

DECISIONS = "decisions"
_PART = 1024  # texts per part: batches of prompts of one length are full, and a kill loses few minutes
_PILOT, _LEAST_PILOT = 10, 8  # one frame of so many is in the pilot, and so many at least
Open = Run[GenerateStored]


@dataclass(frozen=True)
class Edited:
    """A variant of the model: its edits, and a text that says them, since another text is another run."""

    name: str
    edits: Variant = ()
    stated: str = ""
    file: str | None = None


@dataclass(frozen=True)
class Inputs:
    """What the model is given: its prompts in the form that it reads, and in what order."""

    model: Model | ServedModel
    settings: GenerateSettings
    prompts: PromptSet
    variants: tuple[Edited, ...]

    @property
    def continued(self) -> tuple[Prompt, ...]:
        """The prompts behind which texts are sampled, those of the pilot first."""
        first = {each.id for each in self.pilot}
        rest = (each for each in self.prompts.prompts if each.set != DECISIONS and each.id not in first)
        return (*self.pilot, *rest)

    @cached_property
    def pilot(self) -> tuple[Prompt, ...]:
        """The prompts of the pilot: a tenth of the frames, evenly spread, and a few at least."""
        own = [each for each in self.prompts.prompts if each.set != DECISIONS]
        frames = list(dict.fromkeys(each.frame for each in own))
        chosen = set(frames[:: max(1, min(_PILOT, len(frames) // _LEAST_PILOT))])
        return tuple(each for each in own if each.frame in chosen)

    def several(self, prompt: Prompt, samples: int) -> int:
        """How many texts are sampled behind a prompt."""
        return samples if prompt.group else self.settings.neutral

    def parts(self, samples: int) -> list[tuple[Prompt, ...]]:
        """All prompts in fixed parts: the pilot, then so many that they give 1,024 texts."""
        rest = self.continued[len(self.pilot) :]
        before = np.cumsum([0, *(self.several(each, samples) for each in rest)])[:-1]
        numbered = zip((before // _PART).tolist(), rest, strict=True)
        return [self.pilot, *(tuple(each for _, each in own) for _, own in groupby(numbered, itemgetter(0)))]

    def given(self, prompts: Sequence[Prompt]) -> list[Text]:
        """Prompts as the model reads them."""
        if self.settings.chat and isinstance(self.model, Model):  # a server has the template itself
            return chat_texts(self.model, [(each.text, "") for each in prompts])
        return [Text(each.text) for each in prompts]


def sample_part(run: Open, inputs: Inputs, edited: Edited, samples: int, number: int) -> None:
    parts = inputs.parts(samples)
    label = f"{edited.name}: part {number + 1} of {len(parts)}"
    sample = partial(sampled_texts, inputs, edited, samples, parts[number], label)
    run.results(Generate.written.of(part_label(edited, number)), sample)


def part_label(edited: Edited, number: int) -> str:
    return f"{edited.name} | {number:04d}"


def sampled_texts(
    inputs: Inputs, edited: Edited, samples: int, prompts: Sequence[Prompt], label: str
) -> list[WrittenText]:
    """Texts behind some prompts, with their likelihoods and those of their counterfactuals."""
    if not prompts:
        return []
    settings, given = inputs.settings, inputs.given(prompts)
    before = {prompt.id: text for prompt, text in zip(prompts, given, strict=True)}
    written: dict[str, list[Continuation]] = {}
    for several in dict.fromkeys(inputs.several(each, samples) for each in prompts):
        some = [each for each in prompts if inputs.several(each, samples) == several]
        streams = [each.frame for each in some]  # a prompt and its counterfactual share their random numbers
        drawn = Sampling(several, settings.tokens, settings.temperature, settings.seed)
        if isinstance(inputs.model, ServedModel):
            said = [each.text for each in some]
            found = sampled(inputs.model, said, streams, drawn, settings.chat, label)
        else:
            texts_before = [before[each.id] for each in some]
            found = continuations(inputs.model, texts_before, streams, drawn, edited.edits, label)
        written |= zip((each.id for each in some), found, strict=True)
    flat = [(prompt, place, one) for prompt in prompts for place, one in enumerate(written[prompt.id])]
    # the swap is about gender: age, religion and origin have no mirror image in it
    mirrored = [(prompt, one) for prompt, _, one in flat if prompt.set not in NOT_SWAPPED]
    likely: Iterator[tuple[float, float, bool]] = iter([(math.nan, math.nan, False)] * len(mirrored))
    if mirrored and (isinstance(inputs.model, Model) or reads_likelihoods(inputs.model, settings)):
        starts = [before[prompt.id] for prompt, _ in mirrored]
        if isinstance(inputs.model, ServedModel):
            said = [one.text for _, one in mirrored]
            mirror = served_mirror_scores(inputs.model, [start.first for start in starts], said)
        else:
            (mirror,) = mirror_scores(inputs.model, starts, [one for _, one in mirrored], (edited.edits,))
        likely = zip(mirror.log_p.tolist(), mirror.log_p_mirror.tolist(), mirror.exact.tolist(), strict=True)
    about = [(prompt, one) for prompt, _, one in flat if prompt.about]
    shares: Iterator[tuple[float, float]] = iter([(math.nan, math.nan)] * len(about))
    if isinstance(inputs.model, Model):
        found_shares = first_person_shares(
            inputs.model,
            [before[prompt.id] for prompt, _ in about],
            [one.text for _, one in about],
            edited.edits,
        )
        shares = iter(found_shares.tolist())
    texts = []
    for prompt, place, one in flat:
        text = WrittenText(prompt.id, place, one.text, one.tokens, one.ended)
        if prompt.about:
            feminine, masculine = next(shares)
            text = replace(text, feminine=finite(feminine), masculine=finite(masculine))
        if prompt.set not in NOT_SWAPPED:
            log_p, log_p_mirror, exact = next(likely)
            text = replace(text, log_p=finite(log_p), log_p_mirror=finite(log_p_mirror), exact=bool(exact))
        texts.append(text)
    return texts


def finite(value: float) -> float | None:
    return round(float(value), 6) if math.isfinite(value) else None


def reads_likelihoods(model: ServedModel, settings: GenerateSettings) -> bool:
    """Whether a server tells how likely the answers of decisions are: chats have no likelihoods."""
    return not settings.chat and gives_likelihoods(model)
