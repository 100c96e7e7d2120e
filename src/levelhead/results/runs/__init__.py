"""Runs of every study as objects with attributes: what reports, checks, comparisons and Python users read."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from levelhead.ordinary import subfolder
from levelhead.results import layout
from levelhead.results.folder import read_run
from levelhead.results.runs.audit import AuditRun as AuditRun
from levelhead.results.runs.benchmarks import BenchmarkRun as BenchmarkRun
from levelhead.results.runs.glue import GlueRun as GlueRun
from levelhead.results.runs.heads import HeadComparisonRun as HeadComparisonRun
from levelhead.results.runs.heads import HeadsRun as HeadsRun
from levelhead.results.runs.heads import PlantedRun as PlantedRun
from levelhead.results.runs.localizing import AtlasRun as AtlasRun
from levelhead.results.runs.mitigating import MitigateRun as MitigateRun
from levelhead.results.runs.projections import SweepRun as SweepRun
from levelhead.results.runs.prompts import PromptsRun as PromptsRun
from levelhead.results.runs.prompts import prompts_label as prompts_label
from levelhead.results.runs.study import StudyRun as StudyRun
from levelhead.results.runs.survey import SurveyRun as SurveyRun
from levelhead.results.runs.survey import survey_label as survey_label
from levelhead.results.stored import SETTINGS

AnyRun = (
    HeadsRun
    | HeadComparisonRun
    | PlantedRun
    | SweepRun
    | PromptsRun
    | GlueRun
    | AuditRun
    | SurveyRun
    | MitigateRun
    | AtlasRun
    | BenchmarkRun
)

_KINDS: tuple[type[AnyRun], ...] = get_args(AnyRun)


def open_run(folder: str | Path) -> AnyRun:
    """Any run, as the object of its study."""
    data = read_run(folder, layout.LAYOUTS)
    return next(kind(data) for kind in _KINDS if kind.LAYOUT is data.layout)


def open_heads(folder: str | Path) -> HeadsRun:
    """A run of `levelhead heads`, or the one inside an audit."""
    inside = Path(folder) / layout.HEADS_PART
    audited = (inside / SETTINGS).is_file() and (Path(folder) / SETTINGS).is_file()
    return HeadsRun.open(subfolder(Path(folder), layout.HEADS_PART) if audited else folder)


open_head_comparison = HeadComparisonRun.open
open_planted = PlantedRun.open
open_sweep = SweepRun.open
open_prompts = PromptsRun.open
open_glue = GlueRun.open
open_audit = AuditRun.open
open_survey = SurveyRun.open
open_mitigate = MitigateRun.open
open_atlas = AtlasRun.open
open_benchmark = BenchmarkRun.open
