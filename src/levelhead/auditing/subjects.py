"""Who is audited, what each is asked, and the run folder that keeps it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from levelhead.models.model import Model
from levelhead.probes.words import in_memory, words_name
from levelhead.results import layout
from levelhead.results.folder import Run
from levelhead.results.keys import Key
from levelhead.results.records.audit import Mitigation, ProjectionCandidate
from levelhead.results.settings import AuditRunSettings
from levelhead.scoring.battery import Battery
from levelhead.scoring.benchmarks.questions import benchmark_hashes
from levelhead.scoring.placed import loaded_as
from levelhead.scoring.registry import (
    Question,
    own_files,
    own_hashes,
    own_in_memory,
    own_questions,
    questions,
)
from levelhead.studies.extent import Extent

Open = Run[AuditRunSettings]


@dataclass(frozen=True)
class Subject:
    """A model under audit, what it is asked, and where its ways out are kept."""

    model: Model
    questions: tuple[Question, ...]
    candidates: Key[ProjectionCandidate] = layout.CANDIDATES
    mitigations: Key[Mitigation] = layout.MITIGATIONS
    prefix: str = ""  # of its variants' names


def subjects_of(extent: Extent, classifier: Model | None) -> list[Subject]:
    """The model, and the classifier beside it, which then gets the questions for classifiers."""
    asked = (*questions(), *extent.benchmarks)
    if classifier is None:
        return [Subject(extent.model, asked)]
    own = tuple(question for question in asked if not question.of_classifier)
    others = tuple(question for question in asked if question.of_classifier)
    beside = Subject(classifier, others, layout.NLI_CANDIDATES, layout.NLI_MITIGATIONS, "nli ")
    return [Subject(extent.model, own), beside]


def models_of(subjects: Sequence[Subject]) -> list[Model]:
    return [subject.model for subject in subjects]


def opened(folder: Path, extent: Extent, battery: Battery, classifier: Model | None) -> Open:
    model, settings = extent.model, extent.settings
    stored = AuditRunSettings(
        study=layout.AUDIT.study,
        seed=settings.seed,
        model=model.name,
        abilities=tuple(sorted(model.abilities)),
        layers=model.layers,
        heads=model.heads,
        large=extent.large,
        huge=extent.huge,
        bias=words_name(settings.bias),
        nli=settings.nli.name if isinstance(settings.nli, Model) else settings.nli,
        top=settings.top,
        full=settings.full,
        text=settings.text,
        sizes=extent.sizes,
        quick=settings.quick,
        measures=tuple(question.name for question in own_questions()),
        measure_files=own_files(),
        measures_in_memory=own_in_memory(),
        words_in_memory=in_memory(settings.bias),
        benchmark_files={name: str(file) for name, file in settings.benchmarks.items()},
        loading=loaded_as([model, *([] if classifier is None else [classifier])]),
        **({} if settings.glue is None else settings.glue.stored(settings.seed)),
    )
    hashes = {"weights": model.fingerprint, **model.facts(), **battery.hashes(), **own_hashes()}
    hashes |= benchmark_hashes(extent.benchmarks)
    if classifier is not None:
        hashes |= {"nli weights": classifier.fingerprint, **classifier.facts("nli")}
    return Run.open(folder, layout.AUDIT, stored, hashes=hashes)
