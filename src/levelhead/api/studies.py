"""Every study as study(model, settings=None, folder=None) -> its result.

A model is one that `load` gave, or a name for it. Without a folder nothing is written to a place of yours:
the run lies in a temporary folder that goes with its result, and `result.save(folder)` keeps it. With one, a
killed run goes on where it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from levelhead import auditing, surveying
from levelhead.api.results import (
    AtlasResult,
    AuditResult,
    GlueResult,
    HeadComparisonResult,
    HeadsResult,
    MitigateResult,
    PlantedResult,
    PromptsResult,
    SurveyResult,
    SweepResult,
)
from levelhead.api.shown import Scratch
from levelhead.errors import BadOption
from levelhead.mitigation.mitigate import edits_of
from levelhead.mitigation.recipe import Recipe, recipe_text
from levelhead.models.model import Model, load
from levelhead.probes.words import Words
from levelhead.results.runs import HeadsRun, open_audit
from levelhead.studies import counteracts as prompting
from levelhead.studies import glue as learning
from levelhead.studies.extent import AuditSettings
from levelhead.studies.heads import comparison, study
from levelhead.studies.heads.settings import HeadsSettings
from levelhead.studies.localizing import study as localizing
from levelhead.studies.localizing.settings import AtlasSettings
from levelhead.studies.mitigating.settings import MitigateSettings
from levelhead.studies.mitigating.study import run_mitigations
from levelhead.studies.planted.settings import PlantedSettings
from levelhead.studies.planted.study import plant_and_find
from levelhead.studies.projections.plan import Sweep
from levelhead.studies.projections.sweep import sweep as project
from levelhead.surveying.listing import Models

Folder = str | Path | None
Recipes = Mapping[str, Recipe] | None


@dataclass(frozen=True)
class SweepSettings:
    """The classifier beside the next-sentence model, and what both are asked.

    nli: the classifier beside the model: loaded, or by its name
    plan: what both models are asked
    """

    nli: str | Model | None = None
    plan: Sweep = field(default_factory=Sweep)


AnyModel = Model | str | Path  # loaded already, or by its name
K = TypeVar("K")


def loaded(model: AnyModel) -> Model:
    """A model that is loaded already, or one by its name."""
    return model if isinstance(model, Model) else load(model)


def settings_of(kind: type[K], given: K | Words | None) -> K:
    """Settings: given ones, the usual ones, or the usual ones about a word list that came in their place."""
    if isinstance(given, kind):
        return given
    return kind() if given is None else kind(bias=given)  # type: ignore[call-arg]  # those that have a bias


@dataclass(frozen=True)
class Place:
    """Where a run lies: the user's folder, or one in a temporary place."""

    run: Path
    scratch: Scratch | None

    @classmethod
    def of(cls, folder: Folder) -> Place:
        """The place for a folder that was given, or not."""
        if folder is not None:
            return cls(Path(folder), None)
        scratch = Scratch()
        return cls(scratch.path / "run", scratch)


def audit(
    model: AnyModel, settings: AuditSettings | Words | None = None, folder: Folder = None
) -> AuditResult:
    """Measure a model's bias, find the heads that carry it, try ways out, verify them, write a report."""
    place = Place.of(folder)
    auditing.audit(loaded(model), place.run, settings_of(AuditSettings, settings))
    return AuditResult(open_audit(place.run).data, place.scratch)


def heads(
    model: AnyModel, settings: HeadsSettings | Words | None = None, folder: Folder = None
) -> HeadsResult:
    """Find the attention heads that carry a bias, and check that they are the ones."""
    place = Place.of(folder)
    asked = settings_of(HeadsSettings, settings)
    return HeadsResult(study.heads(loaded(model), asked, place.run).data, place.scratch)


def planted(
    model: AnyModel, settings: PlantedSettings | Words | None = None, folder: Folder = None
) -> PlantedResult:
    """Plant a bias into known heads of a copy of the model, and see which localizer finds them."""
    place = Place.of(folder)
    asked = settings_of(PlantedSettings, settings)
    return PlantedResult(plant_and_find(loaded(model), asked, place.run).data, place.scratch)


def atlas(
    model: AnyModel, settings: AtlasSettings | Words | None = None, folder: Folder = None
) -> AtlasResult:
    """Map which heads carry each of several bias measures, and say whether the maps agree."""
    place = Place.of(folder)
    asked = settings_of(AtlasSettings, settings)
    return AtlasResult(localizing.atlas(loaded(model), asked, place.run).data, place.scratch)


def certify(
    model: AnyModel, settings: MitigateSettings | Words | None = None, folder: Folder = None
) -> MitigateResult:
    """Try mitigations on a model, and certify on held-out items what each buys and costs."""
    place = Place.of(folder)
    asked = settings_of(MitigateSettings, settings)
    return MitigateResult(run_mitigations(loaded(model), asked, place.run).data, place.scratch)


def sweep(model: AnyModel, settings: SweepSettings | None = None, folder: Folder = None) -> SweepResult:
    """Project gender out of a next-sentence model and of a classifier, which settings name, in 76 ways."""
    settings = settings or SweepSettings()
    if settings.nli is None:
        raise BadOption('A sweep asks a classifier too. Name it: SweepSettings(nli="lh:nli-mini").')
    place, first, second = Place.of(folder), loaded(model), loaded(settings.nli)
    with settings.plan.open(place.run, first, second) as run:
        project(first, second, settings.plan, run)
        return SweepResult(run.data(), place.scratch)


def counteracts(
    model: AnyModel | Sequence[AnyModel],
    settings: prompting.CounteractsSettings | None = None,
    folder: Folder = None,
    *,
    recipes: Recipes = None,
) -> PromptsResult:
    """Ask a model, or several, who works as a nurse, bare and after a sentence of knowledge.

    recipes: by name; what each makes of the model is asked too.
    """
    several = [model] if isinstance(model, Model | str | Path) else model
    models = [loaded(each) for each in several]
    edited = {
        name: prompting.Edited(partial(edits_of, recipe=recipe), recipe_text(recipe))
        for name, recipe in (recipes or {}).items()
    }
    place = Place.of(folder)
    run = prompting.counteracts(models, settings or prompting.CounteractsSettings(), place.run, edited)
    return PromptsResult(run.data, place.scratch)


def glue(
    model: AnyModel, settings: learning.GlueSettings, folder: Folder = None, *, recipes: Recipes = None
) -> GlueResult:
    """Fine-tune a model, and what each recipe makes of it, on GLUE: what can it still learn?"""
    place = Place.of(folder)
    return GlueResult(learning.glue(loaded(model), settings, place.run, recipes).data, place.scratch)


def compare_heads(
    runs: Sequence[HeadsRun | str | Path], top: int = 5, folder: Folder = None
) -> HeadComparisonResult:
    """Hold results of `heads`, or their folders, against the first: which heads changed sides?

    top: how many of the first model's most anti-biased heads are followed into the others.
    """
    place = Place.of(folder)
    folders = [run.folder if isinstance(run, HeadsRun) else run for run in runs]
    return HeadComparisonResult(comparison.compare_heads(folders, place.run, top).data, place.scratch)


def survey(
    models: Models,
    settings: surveying.SurveySettings | None = None,
    folder: Folder = None,
) -> SurveyResult:
    """Ask many models about many biases, rank them, and say which of their differences are real.

    models: loaded ones, names, text files with a name a line, folders of checkpoints.
    """
    place = Place.of(folder)
    return SurveyResult(surveying.survey(models, place.run, settings).data, place.scratch)
