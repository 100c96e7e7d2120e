"""A paper's tables and figures beside ours: run its study, or read a finished run, and hold both together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, Unpack, get_args

from levelhead.errors import BadOption
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model, load
from levelhead.models.placement import LoadOptions
from levelhead.pages.replication.index import beside_paper, write_reproduction
from levelhead.probes.nli import nli_probe
from levelhead.probes.published import published_counteracts, published_heads
from levelhead.results import layout
from levelhead.results.keys import Key
from levelhead.results.presets import PAPER_HEADS, QUICK_PAPER_HEADS, QUICK_PAPER_PROBE
from levelhead.results.records.reproduction import Reproduction
from levelhead.results.runs import (
    AnyRun,
    HeadsRun,
    PromptsRun,
    SweepRun,
    open_glue,
    open_run,
    open_sweep,
    prompts_label,
)
from levelhead.results.stored import SETTINGS
from levelhead.studies.counteracts import CounteractsSettings, counteracts
from levelhead.studies.heads.settings import HeadsSettings
from levelhead.studies.heads.study import heads
from levelhead.studies.projections.plan import Sweep
from levelhead.studies.projections.sweep import sweep

Paper = Literal["heads", "projections", "counteracts"]  # the names of their studies
Loader = Callable[[str], Model]
_LAST: dict[str, Key[Any]] = {  # what an experiment of the heads study writes last
    "ablation": layout.AGREEMENT,
    "counter": layout.COUNTER,
    "debias": layout.TRADEOFFS,
}
_BERT = "bert-base-uncased"


@dataclass(frozen=True)
class ReproduceSettings:
    """Whom to ask, and how much.

    models: none: the paper's own, by their names on the hub
    nli: of projections: an NLI classifier, which the paper does not publish
    labels: what its outputs mean, where its config does not say
    quick: ask less: wider intervals, sooner
    glue: of heads: a run of `levelhead glue`, for Table 2
    seed: of every draw
    """

    models: tuple[str, ...] = ()
    nli: str | None = None
    labels: str | None = None
    quick: bool = False
    glue: str | Path | None = None
    seed: int = 0


def reproduce(
    paper: Paper,
    folder: str | Path,
    settings: ReproduceSettings | None = None,
    **loading: Unpack[LoadOptions],
) -> Reproduction:
    """Every table and figure of a paper beside ours; reproduce.csv and reproduce.json in the run folder.

    A finished run of the paper's study in the folder is read as it is, whatever it was asked, and needs no
    model; without one the study is run, and a killed run goes on. loading: options of `levelhead.load`.
    """
    settings = settings or ReproduceSettings()
    if paper not in get_args(Paper):
        raise BadOption(f"{paper!r} came; the papers are {', '.join(get_args(Paper))}.")
    glue = None if settings.glue is None else open_glue(settings.glue)
    run = _finished(paper, Path(folder), settings)
    if run is None:
        run = _asked(paper, Path(folder), settings, partial(load, **loading))
    reproduction = beside_paper(run, glue)
    write_reproduction(run, reproduction)
    return reproduction


# ---- runs that are there


def _finished(paper: Paper, folder: Path, settings: ReproduceSettings) -> AnyRun | None:
    """The finished run of a folder; None where there is none, or one that has to go on."""
    if not (folder / SETTINGS).is_file():
        return None
    run = open_run(folder)
    if run.settings.study != paper:
        raise BadOption(
            f"{folder} holds a run of {run.settings.study}, not of {paper}. "
            "Name that paper, or give another folder."
        )
    if not _is_finished(run):
        return None
    if settings.models and run.model != ", ".join(settings.models):
        raise BadOption(
            f"{folder} holds a finished run of {run.model}, not of {', '.join(settings.models)}. "
            "Leave --model out to read it, or give another folder."
        )
    return run


def _is_finished(run: AnyRun) -> bool:
    """Whether all that was asked is there."""
    match run:
        case HeadsRun():
            keys = [key for name, key in _LAST.items() if name in run.settings.experiments]
            return layout.SCORES in run.data and all(key in run.data for key in keys)
        case SweepRun():
            return layout.CORRELATION in run.data and bool(layout.TABLE7.read(run.folder))
        case PromptsRun():
            labels = [prompts_label(m, v) for m in run.settings.models for v in run.settings.variants]
            return all(layout.CLOZE_CELLS.of(label) in run.data for label in labels)
        case _:
            return False


# ---- runs that are made


def _asked(paper: Paper, folder: Path, settings: ReproduceSettings, load_model: Loader) -> AnyRun:
    """Run the study of a paper."""
    if paper == "counteracts":
        return _prompts(folder, settings, load_model)
    if len(settings.models) > 1:
        raise BadOption(f"{len(settings.models)} models came; {paper} asks one at a time.")
    if paper == "heads":
        name = (settings.models or (published_heads().models[0].hub,))[0]
        return heads(load_model(name), _heads_settings(settings), folder)
    return _sweep(folder, settings, load_model)


def _heads_settings(settings: ReproduceSettings) -> HeadsSettings:
    """The paper has no null and no cross-fit, so neither is asked."""
    preset: dict[str, Any] = dict(QUICK_PAPER_HEADS if settings.quick else PAPER_HEADS)
    return HeadsSettings(**preset, seed=settings.seed)


def _sweep(folder: Path, settings: ReproduceSettings, load_model: Loader) -> SweepRun:
    if settings.nli is None:
        raise BadOption(
            "The paper's NLI classifier is not published. Give one with --nli, for example lh:nli-mini, "
            "or make one with levelhead finetune --task snli."
        )
    plan = Sweep(
        probe=nli_probe(limit=QUICK_PAPER_PROBE if settings.quick else None),
        labels=settings.labels,
        resampling=Resampling(300 if settings.quick else 2_000, settings.seed),
    )
    nsp, nli = (load_model(name) for name in ((settings.models or (_BERT,))[0], settings.nli))
    with plan.open(folder, nsp, nli) as run:
        sweep(nsp, nli, plan, run)
    return open_sweep(folder)


def _prompts(folder: Path, settings: ReproduceSettings, load_model: Loader) -> PromptsRun:
    names = settings.models or tuple(model.name for model in published_counteracts().models)
    models = [load_model(name) for name in names]
    asked = CounteractsSettings(seed=settings.seed, null=0, per_background=1 if settings.quick else None)
    return counteracts(models, asked, folder)
