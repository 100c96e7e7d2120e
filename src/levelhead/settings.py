"""Settings of every measure and study, by their names: `lh.settings.HeadsSettings(...)`."""

from __future__ import annotations

from levelhead.api.measured import FluencySettings as FluencySettings
from levelhead.api.measured import LpbsSettings as LpbsSettings
from levelhead.api.measured import NliSettings as NliSettings
from levelhead.api.measured import NspSettings as NspSettings
from levelhead.api.measured import SeatSettings as SeatSettings
from levelhead.api.studies import SweepSettings as SweepSettings
from levelhead.engine.finetuning import Hyperparameters as Hyperparameters
from levelhead.reproducing import ReproduceSettings as ReproduceSettings
from levelhead.results.presets import AuditSizes as AuditSizes
from levelhead.studies.benchmark import BenchmarkSettings as BenchmarkSettings
from levelhead.studies.counteracts import CounteractsSettings as CounteractsSettings
from levelhead.studies.extent import AuditSettings as AuditSettings
from levelhead.studies.glue import GlueSettings as GlueSettings
from levelhead.studies.heads.learning import LearnedGatesSettings as LearnedGatesSettings
from levelhead.studies.heads.settings import HeadsSettings as HeadsSettings
from levelhead.studies.localizing.settings import AtlasSettings as AtlasSettings
from levelhead.studies.mitigating.settings import MitigateSettings as MitigateSettings
from levelhead.studies.planted.settings import PlantedSettings as PlantedSettings
from levelhead.studies.projections.plan import Sweep as Sweep
from levelhead.surveying import SurveySettings as SurveySettings
