"""levelhead: measure bias inside language models, find what carries it, take it out, and see what that bought
and cost.

    import levelhead as lh
    model = lh.load("lh:bert-mini")
    lh.seat(model).value
    with model.without_heads(["3-6"]):
        ...

Names are imported when first used, so that `levelhead --help` does not wait for torch.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

try:
    __version__ = version("levelhead")  # it stands once, in pyproject.toml
except PackageNotFoundError:
    __version__ = "0+unknown"  # a source tree that was not installed

_ROOMS = {  # where public names stand
    "models.model": ("load", "Model"),
    "edits.sites": ("Head",),
    "edits.gates": ("gates", "removed"),
    "engine.run": ("read", "read_one"),
    "engine.gradients": ("gate_gradients",),
    "api.measured": ("seat", "lpbs", "nsp", "nli", "fluency"),
    "api.mitigated": ("debias", "learn_gates"),
    "probes.coin": ("coin",),
    "mitigation.recipe": ("load_recipe",),
    "api.reports": ("report", "check", "compare", "card"),
    "api.reading_runs": ("open_run",),
    "api.exploring": ("explore",),
    "probes.words": ("load_words",),
    "measures.measurement": ("Measurement",),
    "measures.catalog": ("MeasureInfo",),
    "api.registering": ("register",),
    "scoring.registry": ("register_measure",),
    "errors": ("LevelheadError",),
}
_PUBLIC = {name: room for room, names in _ROOMS.items() for name in names}
_MODULES = {"settings": "settings", "readings": "engine.readings"}  # groups of names
_OLD = {"measure": "benchmark", "certify": "mitigate", "sweep": "projections"}  # names of 0.2, gone in 0.4

if TYPE_CHECKING:
    from levelhead import settings as settings
    from levelhead.api.exploring import explore as explore
    from levelhead.api.measured import fluency as fluency
    from levelhead.api.measured import lpbs as lpbs
    from levelhead.api.measured import nli as nli
    from levelhead.api.measured import nsp as nsp
    from levelhead.api.measured import seat as seat
    from levelhead.api.mitigated import debias as debias
    from levelhead.api.mitigated import learn_gates as learn_gates
    from levelhead.api.reading_runs import open_run as open_run
    from levelhead.api.registering import register as register
    from levelhead.api.reports import card as card
    from levelhead.api.reports import check as check
    from levelhead.api.reports import compare as compare
    from levelhead.api.reports import report as report
    from levelhead.api.studies import StudyCall
    from levelhead.edits.gates import gates as gates
    from levelhead.edits.gates import removed as removed
    from levelhead.edits.sites import Head as Head
    from levelhead.engine import readings as readings
    from levelhead.engine.gradients import gate_gradients as gate_gradients
    from levelhead.engine.run import read as read
    from levelhead.engine.run import read_one as read_one
    from levelhead.errors import LevelheadError as LevelheadError
    from levelhead.measures.catalog import MeasureInfo as MeasureInfo
    from levelhead.measures.measurement import Measurement as Measurement
    from levelhead.mitigation.recipe import load_recipe as load_recipe
    from levelhead.models.model import Model as Model
    from levelhead.models.model import load as load
    from levelhead.probes.coin import coin as coin
    from levelhead.probes.words import load_words as load_words
    from levelhead.scoring.registry import register_measure as register_measure
    from levelhead.studies.atlas import Atlas
    from levelhead.studies.atlas.settings import AtlasSettings
    from levelhead.studies.audit import Audit
    from levelhead.studies.audit.settings import AuditSettings
    from levelhead.studies.benchmark import Benchmark
    from levelhead.studies.benchmark.settings import BenchmarkSettings
    from levelhead.studies.compare_heads import CompareHeads, CompareHeadsSettings
    from levelhead.studies.counteracts import Counteracts
    from levelhead.studies.counteracts.settings import CounteractsSettings
    from levelhead.studies.generate import Generate
    from levelhead.studies.generate.settings import GenerateSettings
    from levelhead.studies.glue import Glue
    from levelhead.studies.glue.settings import GlueSettings
    from levelhead.studies.heads import Heads
    from levelhead.studies.heads.settings import HeadsSettings
    from levelhead.studies.mitigate import Mitigate
    from levelhead.studies.mitigate.settings import MitigateSettings
    from levelhead.studies.planted import Planted
    from levelhead.studies.planted.settings import PlantedSettings
    from levelhead.studies.projections import Projections
    from levelhead.studies.projections.settings import ProjectionsSettings
    from levelhead.studies.survey import Survey
    from levelhead.studies.survey.settings import SurveySettings

    audit: StudyCall[AuditSettings, Audit]
    heads: StudyCall[HeadsSettings, Heads]
    atlas: StudyCall[AtlasSettings, Atlas]
    planted: StudyCall[PlantedSettings, Planted]
    projections: StudyCall[ProjectionsSettings, Projections]
    counteracts: StudyCall[CounteractsSettings, Counteracts]
    generate: StudyCall[GenerateSettings, Generate]
    glue: StudyCall[GlueSettings, Glue]
    survey: StudyCall[SurveySettings, Survey]
    mitigate: StudyCall[MitigateSettings, Mitigate]
    benchmark: StudyCall[BenchmarkSettings, Benchmark]
    compare_heads: StudyCall[CompareHeadsSettings, CompareHeads]

__all__ = [*_PUBLIC, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"levelhead.{_MODULES[name]}")
    if name.startswith("_"):
        raise AttributeError(f"module 'levelhead' has no attribute {name!r}")
    if name in _OLD:
        text = f"levelhead.{name} is now levelhead.{_OLD[name]}; version 0.4 will not know the old name."
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(import_module("levelhead.api.studies"), f"{name}_of_0_2")
    checked = import_module("levelhead.kinds").checked_kinds
    if name in _PUBLIC:
        found = getattr(import_module(f"levelhead.{_PUBLIC[name]}"), name)
        return found if isinstance(found, type) else checked(found, name)
    declared = import_module("levelhead.runs.study")
    if (study := declared.studies().get(name)) is not None:
        return checked(import_module("levelhead.api.studies").function_of(study), name)
    if (line := declared.unusable_studies().get(name)) is not None:
        raise import_module("levelhead.errors").CannotDo(line)
    raise AttributeError(f"module 'levelhead' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES, *import_module("levelhead.runs.study").studies()])
