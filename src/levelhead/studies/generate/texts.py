"""The texts of one variant beside their prompts: what is compared with what, and what a pilot says about the
sample.

Few measures of texts are claims, and which they are follows from the prompts and the scorers, before any text
is sampled (`Texts.main`). Each further claim would lower the power of all others. All else is description.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from levelhead.inference.claims import least_level
from levelhead.measures.gaps import Design
from levelhead.measures.judged import Calibration
from levelhead.measures.measurement import Measurement
from levelhead.measures.mirror import MirrorScores
from levelhead.measures.power import detectable, needed, spread
from levelhead.measures.statistics import Resampling
from levelhead.probes.generation import SEXES, Prompt
from levelhead.probes.swap import name_pairs, stated_genders
from levelhead.scoring.scorers.refusal import REFUSAL, is_refusal
from levelhead.studies.generate.records import GenerationMeasured, GenerationPlan, Spread, WrittenText
from levelhead.studies.generate.settings import GenerateSettings

NEUTRAL = ("occupations", "situations")
NOT_SWAPPED = ("age", "religion", "origin")  # sets whose groups the swap of genders does not exchange
OTHERS = "others"
_GENDERS = {"F": "feminine", "M": "masculine"}
Doubles = NDArray[np.float64]


def places(kept: NDArray[np.bool_]) -> list[int]:
    """The places of what is kept."""
    return [int(place) for place in np.flatnonzero(kept)]


@dataclass(frozen=True)
class Comparison:
    """Prompts whose frames have the same groups."""

    label: str  # the set, or the set and its groups
    set: str
    groups: tuple[str, ...]
    prompts: tuple[Prompt, ...]


def comparisons(prompts: Sequence[Prompt]) -> list[Comparison]:
    """Everything that differs in a group, set by set."""
    frames: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        if prompt.group:
            frames.setdefault(prompt.frame, []).append(prompt)
    found: dict[tuple[str, tuple[str, ...]], list[Prompt]] = {}
    for own in frames.values():
        groups = tuple(dict.fromkeys(each.group for each in own))
        found.setdefault((own[0].set, tuple(sorted(groups, key=first_of_two))), []).extend(own)
    several = [set_name for set_name, _ in found]
    return [
        Comparison(
            name if several.count(name) == 1 else f"{name} ({', '.join(groups)})", name, groups, tuple(own)
        )
        for (name, groups), own in found.items()
        if len(groups) > 1
    ]


def main_comparison(compared: Sequence[Comparison]) -> Comparison | None:
    """Women and men in all sets together; without them the only set, if it has two groups."""
    two = [each for each in compared if each.groups == SEXES]
    if len(two) > 1:
        label = " + ".join(each.label for each in two)
        return Comparison(label, label, SEXES, tuple(prompt for each in two for prompt in each.prompts))
    if two:
        return two[0]
    return compared[0] if len(compared) == 1 and len(compared[0].groups) == 2 else None


def first_of_two(group: str) -> tuple[bool, str]:
    """Feminine stands before masculine, and older before younger."""
    return group in ("masculine", "younger"), group


def named_by(prompts: Sequence[Prompt]) -> list[str] | None:
    """The pair of names, as the swap exchanges them, of each prompt, or its cluster where it has no name;
    None where no prompt has one."""
    if not any(each.name for each in prompts):
        return None
    pairs = {name: "-".join(pair) for pair in name_pairs() for name in pair}
    return [pairs.get(each.name, each.name) or each.cluster for each in prompts]


@dataclass(frozen=True)
class Texts:
    """The texts of one variant beside their prompts, and their scores."""

    variant: str
    model: str
    prompts: Mapping[str, Prompt]  # by id
    written: Sequence[WrittenText]
    scores: Mapping[str, Doubles]  # scorer -> [text], averaged over the swap; NaN: cannot be scored
    resampling: Resampling
    judges: Mapping[str, Calibration] = field(default_factory=dict)  # scorers that err at known rates
    unasked: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)  # texts that they were not given

    @cached_property
    def of(self) -> list[Prompt]:
        """The prompt of every text."""
        return [self.prompts[each.prompt] for each in self.written]

    @cached_property
    def compared(self) -> list[Comparison]:
        """Everything that differs in a group."""
        used = {each.prompt for each in self.written}
        return comparisons([each for each in self.prompts.values() if each.id in used])

    @cached_property
    def main(self) -> Comparison | None:
        """The comparison of which every measure is a claim."""
        return main_comparison(self.compared)

    @cached_property
    def detailed(self) -> list[Comparison]:
        """The main comparison first, then every set by itself."""
        main = [] if self.main is None else [self.main]
        return main + [each for each in self.compared if each not in main]

    @cached_property
    def paired(self) -> list[Comparison]:
        """Comparisons of two groups whose texts are compared as texts: sets that the main one holds are not
        compared again."""
        two = [each for each in self.detailed if len(each.groups) == 2]
        return [each for each in two if each == self.main or each.groups != SEXES]

    @cached_property
    def empty(self) -> NDArray[np.bool_]:
        return np.array([not each.text.strip() for each in self.written])

    @cached_property
    def refusals(self) -> NDArray[np.bool_]:
        return np.array([is_refusal(each.text) for each in self.written])

    @cached_property
    def firsts(self) -> list[str]:
        """The group of the first word for a person in every text; empty where there is none."""
        said = (stated_genders(each.text, names=True) for each in self.written)
        return [_GENDERS[words[0].gender] if words else "" for words in said]

    def where(self, *sets: str) -> NDArray[np.bool_]:
        return np.array([each.set in sets for each in self.of], np.bool_)

    def inside(self, compared: Comparison) -> NDArray[np.bool_]:
        ids = {each.id for each in compared.prompts}
        return np.array([each.prompt in ids for each in self.written], np.bool_)

    def design(self, kept: NDArray[np.bool_], order: tuple[str, ...]) -> Design:
        own = [self.of[i] for i in places(kept)]
        frames, groups = [each.frame for each in own], [each.group for each in own]
        return Design(frames, groups, [each.cluster for each in own], order, named_by(own))

    def said(
        self, name: str, compared: Comparison, found: Measurement, group: str = ""
    ) -> GenerationMeasured:
        """A measurement under the page's name; a claim where it is one of the main comparison.

        group: the one that is compared with all others, of more than two.
        """
        own = f"{name}/{compared.label}" + (f", {group}" if group else "")
        sides = (group, OTHERS) if group else (compared.groups[0], compared.groups[1])
        named = replace(found, name=own)
        claim = compared == self.main
        return GenerationMeasured(self.variant, self.model, compared.label, claim, named, sides)

    def mirror(self, kept: NDArray[np.bool_]) -> tuple[MirrorScores, list[str]]:
        """Likelihoods of some texts, and their clusters."""
        own = [(self.written[i], self.of[i]) for i in places(kept)]
        known = [each for each in own if each[0].log_p is not None and each[0].log_p_mirror is not None]
        scores = MirrorScores(
            np.array([text.log_p for text, _ in known], np.float64),
            np.array([text.log_p_mirror for text, _ in known], np.float64),
            np.array([text.tokens for text, _ in known], np.int64),
            np.array([text.exact for text, _ in known], np.bool_),
        )
        return scores, [prompt.cluster for _, prompt in known]


# ---- how much


def planned(prompts: Sequence[Prompt], pilot: Texts, settings: GenerateSettings) -> GenerationPlan:
    """What the sample can show, by the spread of scores in a pilot, at the level that a claim must reach on a
    page of all claims. With `detect`, what must be shown, the samples follow from it."""
    continued = [each for each in prompts if each.kind == ""]
    compared = comparisons(continued)
    two = [each for each in compared if len(each.groups) == 2]
    main, of_all = main_comparison(two), main_comparison(compared)
    # claims beside who appears, at most: of the main comparison one per score, of texts that say nothing, of
    # distance and of words; one of each further set; decisions by sex and by origin
    others = len({*pilot.scores} - {REFUSAL.name}) + 3 if of_all is not None else 0
    others += sum(each != of_all and each.groups != SEXES for each in compared)
    decided = ((each.group, each.origin) for each in prompts if each.kind)
    others += sum(len({*own} - {""}) > 1 for own in zip(*decided, strict=True))
    appear = any(each.about and not each.group for each in continued)
    level = least_level(others, appear)
    counted = two if main is None else [main]
    most = max((len({p.cluster for p in each.prompts}) for each in counted), default=0)
    spreads = (
        {name: found for name in pilot.scores if (found := _spread(pilot, name)) is not None}
        if most > 1
        else {}
    )
    samples, reaches = settings.samples, True
    if settings.detect is not None:
        wanted = [
            needed(settings.detect * sd, between, within, most, level=level)
            for between, within, sd in spreads.values()
        ]
        samples = max(2, *(k for _, k in wanted)) if wanted else samples
        reaches = bool(wanted) and all(n <= most for n, _ in wanted)
    texts = sum(samples if each.group else settings.neutral for each in continued)
    return GenerationPlan(
        prompts=len(continued),
        pairs=sum(len({p.frame for p in each.prompts}) for each in two),
        samples=samples,
        neutral=settings.neutral,
        texts=texts,
        tokens=texts * settings.tokens,
        pilot=len({each.prompt for each in pilot.written}),
        spreads=tuple(
            Spread(name, between, within, sd, detectable(between, within, most, samples, level=level) / sd)
            for name, (between, within, sd) in spreads.items()
        ),
        claims=others + appear,
        reaches=reaches,
    )


def _spread(pilot: Texts, scorer: str) -> tuple[float, float, float] | None:
    """Between and within prompts, and of all texts; None for a score that does not vary."""
    values = {(t.prompt, t.sample): v for t, v in zip(pilot.written, pilot.scores[scorer], strict=True)}
    numbers = sorted({t.sample for t in pilot.written})
    sides: tuple[list[list[float]], list[list[float]]] = ([], [])
    for compared in pilot.compared:
        frames: dict[str, dict[str, Prompt]] = {}
        for prompt in compared.prompts if len(compared.groups) == 2 else ():
            frames.setdefault(prompt.frame, {})[prompt.group] = prompt
        for own in frames.values():
            for side, group in zip(sides, compared.groups, strict=True):
                side.append([values.get((own[group].id, k), math.nan) for k in numbers])
    known = np.array([value for side in sides for row in side for value in row], np.float64)
    sd = float(np.nanstd(known)) if np.isfinite(known).any() else 0.0
    if len(sides[0]) < 2 or not sd > 0:
        return None
    found = spread(np.array(sides[0]), np.array(sides[1]))
    return found.between, found.within, sd
