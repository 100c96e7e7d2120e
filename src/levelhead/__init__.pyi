"""The public names of levelhead and their types, declared once: `__init__.py` reads here where each stands,
and imports it when it is first used."""

from typing import Any

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

__version__: str

def __getattr__(name: str) -> Any: ...  # studies of installed packages
