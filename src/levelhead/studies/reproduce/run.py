"""A paper's tables and figures beside ours: run its study, or read a finished run, and hold both together."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Unpack

from levelhead.errors import BadOption
from levelhead.models.model import Model, load
from levelhead.models.placement import LoadOptions
from levelhead.pages.replication import beside_paper
from levelhead.probes.published import published_counteracts, published_heads
from levelhead.runs.folder import RESULTS, Run, file_hash
from levelhead.runs.presets import PAPER_HEADS, QUICK_PAPER_HEADS, QUICK_PAPER_PROBE
from levelhead.runs.study import Study, stored_as
from levelhead.safe_files import subfolder
from levelhead.scoring.placed import loaded_by
from levelhead.studies.counteracts import Counteracts
from levelhead.studies.counteracts.run import counteracts
from levelhead.studies.counteracts.settings import CounteractsSettings
from levelhead.studies.glue import Glue
from levelhead.studies.heads import Heads
from levelhead.studies.heads.run import heads
from levelhead.studies.heads.settings import HeadsSettings
from levelhead.studies.projections import Projections
from levelhead.studies.projections.run import projections
from levelhead.studies.projections.settings import ProjectionsSettings
from levelhead.studies.reproduce import Reproduce
from levelhead.studies.reproduce.records import REPRODUCED_CELLS, REPRODUCTION, Reproduction
from levelhead.studies.reproduce.settings import ReproduceSettings, ReproduceStored

_BERT = "bert-base-uncased"
_FOLLOWS: dict[str, type[Study[Any]]] = {each.name: each for each in (Heads, Projections, Counteracts)}


def reproduce(
    models: None, settings: ReproduceSettings | None, folder: str | Path, **loading: Unpack[LoadOptions]
) -> Reproduce:
    """Every table and figure of a paper beside ours; reproduce.csv and reproduce.json in the run folder.

    A finished run of the paper's study that the settings name is read as it is, whatever its settings, and
    needs no model; without one the study is run inside the folder, and a killed run goes on.

    loading: options of `load`
    """
    settings = settings or ReproduceSettings()  # which says that a paper is missing
    glue = None if settings.glue is None else Glue.open(settings.glue)
    given = None if settings.run is None else _FOLLOWS[settings.paper].open(settings.run)
    if given is not None and not given.finished:
        raise BadOption(f"run must be a finished one: run the command of {settings.run} again; it goes on")
    nli = settings.nli.name if isinstance(settings.nli, Model) else settings.nli
    stored = stored_as(
        ReproduceStored,
        settings,
        study=Reproduce.name,
        nli=nli,
        in_memory=("nli",) if isinstance(settings.nli, Model) else (),
        loading=loaded_by(loading),
    )
    read = {"run": given, "glue": glue}
    hashes = {name: file_hash(each.folder / RESULTS) for name, each in read.items() if each is not None}
    with Run.open(folder, Reproduce, stored, hashes=hashes) as run:

        def found() -> Reproduction:
            """A paper's study that is run here has no null models and no cross-fitting."""
            inside, quick, seed = subfolder(run.folder, settings.paper), settings.quick, settings.seed
            if given is not None:
                return beside_paper(given, glue)
            if settings.paper == "counteracts":
                names = settings.models or [model.name for model in published_counteracts().models]
                prompts = CounteractsSettings(seed=seed, null=0, per_background=1 if quick else None)
                models = [load(name, **loading) for name in names]
                return beside_paper(counteracts(models, prompts, inside), glue)
            if settings.paper == "heads":
                (name,) = settings.models or (published_heads().models[0].hub,)
                preset: dict[str, Any] = dict(QUICK_PAPER_HEADS if quick else PAPER_HEADS)
                ours = heads(load(name, **loading), HeadsSettings(**preset, seed=seed), inside)
                return beside_paper(ours, glue)
            (name,) = settings.models or (_BERT,)
            sizes: dict[str, Any] = {"limit": QUICK_PAPER_PROBE, "resamples": 300} if quick else {}
            classifier = settings.nli
            if isinstance(classifier, str):
                classifier = load(classifier, **loading)
            plan = ProjectionsSettings(classifier, labels=settings.labels, seed=seed, **sizes)
            return beside_paper(projections(load(name, **loading), plan, inside), glue)

        reproduction = run.result(Reproduce.found, found)
        run.file(REPRODUCED_CELLS, reproduction.cells)
        run.file(REPRODUCTION, reproduction)
        return Reproduce(run.data())
