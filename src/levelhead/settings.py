"""Settings of every measure and study, by their names: `lh.settings.HeadsSettings(...)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from levelhead.api.measured_settings import FluencySettings as FluencySettings
from levelhead.api.measured_settings import LpbsSettings as LpbsSettings
from levelhead.api.measured_settings import NliSettings as NliSettings
from levelhead.api.measured_settings import NspSettings as NspSettings
from levelhead.api.measured_settings import SeatSettings as SeatSettings
from levelhead.engine.hyperparameters import Hyperparameters as Hyperparameters
from levelhead.runs.presets import AuditSizes as AuditSizes
from levelhead.runs.study import studies
from levelhead.studies.heads.learning import LearnedGatesSettings as LearnedGatesSettings

if TYPE_CHECKING:
    from levelhead.studies.atlas.settings import AtlasSettings as AtlasSettings
    from levelhead.studies.audit.settings import AuditSettings as AuditSettings
    from levelhead.studies.benchmark.settings import BenchmarkSettings as BenchmarkSettings
    from levelhead.studies.counteracts.settings import CounteractsSettings as CounteractsSettings
    from levelhead.studies.generate.settings import GenerateSettings as GenerateSettings
    from levelhead.studies.glue.settings import GlueSettings as GlueSettings
    from levelhead.studies.heads.settings import HeadsSettings as HeadsSettings
    from levelhead.studies.mitigate.settings import MitigateSettings as MitigateSettings
    from levelhead.studies.planted.settings import PlantedSettings as PlantedSettings
    from levelhead.studies.projections.settings import ProjectionsSettings as ProjectionsSettings
    from levelhead.studies.survey.settings import SurveySettings as SurveySettings


def __getattr__(name: str) -> Any:
    if name == "SweepSettings":  # of version 0.2, with a plan beside the classifier
        raise AttributeError("levelhead.settings.SweepSettings is gone. Use ProjectionsSettings(nli=...).")
    for study in studies().values():
        if study.settings_type.__name__ == name:
            return study.settings_type
    raise AttributeError(f"module 'levelhead.settings' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *(study.settings_type.__name__ for study in studies().values())])
