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

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

try:
    __version__ = version("levelhead")  # it stands once, in pyproject.toml
except PackageNotFoundError:
    __version__ = "0+unknown"  # a source tree that was not installed

_PUBLIC = {
    "load": "models.model",
    "Model": "models.model",
    "Site": "edits.sites",
    "Head": "edits.head",
    "gates": "edits.gates",
    "removed": "edits.gates",
    "HeadGates": "edits.gates",
    "Projection": "edits.projection",
    "Text": "models.encoding",
    "find_word": "models.encoding",
    "read": "engine.run",
    "read_one": "engine.run",
    "gate_gradients": "engine.gradients",
    "Pooled": "engine.readings",
    "WordVectors": "engine.readings",
    "StaticVectors": "engine.readings",
    "Predictions": "engine.readings",
    "TokenLogProbs": "engine.readings",
    "TokenLikelihoods": "engine.readings",
    "States": "engine.readings",
    "Attention": "engine.readings",
    "Hyperparameters": "engine.finetuning",
    "load_words": "probes.words",
    "WordTest": "probes.words",
    "Measurement": "measures.measurement",
    "MeasureInfo": "measures.catalog",
    "register_measure": "scoring.registry",
    "sentence_seat": "scoring.seat",
    "export": "mitigation.export",
    "mitigate": "mitigation.mitigate",
    "Recipe": "mitigation.recipe",
    "read_recipe": "mitigation.recipe",
    "AuditSettings": "studies.extent",
    "AuditSizes": "results.presets",
    "HeadsSettings": "studies.heads.settings",
    "LearnedGatesSettings": "studies.heads.learning",
    "PlantedSettings": "studies.planted.settings",
    "MitigateSettings": "studies.mitigating.settings",
    "register_mitigation": "studies.mitigating.protocol",
    "Candidate": "studies.mitigating.protocol",
    "AtlasSettings": "studies.localizing.settings",
    "register_localizer": "studies.localizing.protocol",
    "ComponentScores": "studies.localizing.protocol",
    "Sweep": "studies.projections.plan",
    "CounteractsSettings": "studies.counteracts",
    "GlueSettings": "studies.glue",
    "SurveySettings": "surveying",
    "reproduce": "reproducing",
    "ReproduceSettings": "reproducing",
    "seat": "api.measured",
    "lpbs": "api.measured",
    "nsp": "api.measured",
    "nli": "api.measured",
    "fluency": "api.measured",
    "SeatSettings": "api.measured",
    "LpbsSettings": "api.measured",
    "NspSettings": "api.measured",
    "NliSettings": "api.measured",
    "FluencySettings": "api.measured",
    "measure": "api.benchmarks",
    "BenchmarkSettings": "api.benchmarks",
    "register_benchmark": "scoring.benchmarks.protocol",
    "audit": "api.studies",
    "heads": "api.studies",
    "compare_heads": "api.studies",
    "planted": "api.studies",
    "certify": "api.studies",
    "sweep": "api.studies",
    "SweepSettings": "api.studies",
    "counteracts": "api.studies",
    "atlas": "api.studies",
    "glue": "api.studies",
    "survey": "api.studies",
    "debias": "api.mitigated",
    "learn_gates": "api.mitigated",
    "check": "api.reports",
    "compare": "api.reports",
    "card": "api.reports",
    "report": "api.reports",
    "open_run": "api.results",
    "open_audit": "api.results",
    "open_heads": "api.results",
    "open_head_comparison": "api.results",
    "open_planted": "api.results",
    "open_mitigate": "api.results",
    "open_atlas": "api.results",
    "open_sweep": "api.results",
    "open_prompts": "api.results",
    "open_glue": "api.results",
    "open_survey": "api.results",
    "Run": "results.folder",
    "read_run": "results.folder",
    "LevelheadError": "errors",
}

if TYPE_CHECKING:
    from levelhead.api.benchmarks import BenchmarkSettings as BenchmarkSettings
    from levelhead.api.benchmarks import measure as measure
    from levelhead.api.measured import FluencySettings as FluencySettings
    from levelhead.api.measured import LpbsSettings as LpbsSettings
    from levelhead.api.measured import NliSettings as NliSettings
    from levelhead.api.measured import NspSettings as NspSettings
    from levelhead.api.measured import SeatSettings as SeatSettings
    from levelhead.api.measured import fluency as fluency
    from levelhead.api.measured import lpbs as lpbs
    from levelhead.api.measured import nli as nli
    from levelhead.api.measured import nsp as nsp
    from levelhead.api.measured import seat as seat
    from levelhead.api.mitigated import debias as debias
    from levelhead.api.mitigated import learn_gates as learn_gates
    from levelhead.api.reports import card as card
    from levelhead.api.reports import check as check
    from levelhead.api.reports import compare as compare
    from levelhead.api.reports import report as report
    from levelhead.api.results import open_atlas as open_atlas
    from levelhead.api.results import open_audit as open_audit
    from levelhead.api.results import open_glue as open_glue
    from levelhead.api.results import open_head_comparison as open_head_comparison
    from levelhead.api.results import open_heads as open_heads
    from levelhead.api.results import open_mitigate as open_mitigate
    from levelhead.api.results import open_planted as open_planted
    from levelhead.api.results import open_prompts as open_prompts
    from levelhead.api.results import open_run as open_run
    from levelhead.api.results import open_survey as open_survey
    from levelhead.api.results import open_sweep as open_sweep
    from levelhead.api.studies import SweepSettings as SweepSettings
    from levelhead.api.studies import atlas as atlas
    from levelhead.api.studies import audit as audit
    from levelhead.api.studies import certify as certify
    from levelhead.api.studies import compare_heads as compare_heads
    from levelhead.api.studies import counteracts as counteracts
    from levelhead.api.studies import glue as glue
    from levelhead.api.studies import heads as heads
    from levelhead.api.studies import planted as planted
    from levelhead.api.studies import survey as survey
    from levelhead.api.studies import sweep as sweep
    from levelhead.edits.gates import HeadGates as HeadGates
    from levelhead.edits.gates import gates as gates
    from levelhead.edits.gates import removed as removed
    from levelhead.edits.head import Head as Head
    from levelhead.edits.projection import Projection as Projection
    from levelhead.edits.sites import Site as Site
    from levelhead.engine.finetuning import Hyperparameters as Hyperparameters
    from levelhead.engine.gradients import gate_gradients as gate_gradients
    from levelhead.engine.readings import Attention as Attention
    from levelhead.engine.readings import Pooled as Pooled
    from levelhead.engine.readings import Predictions as Predictions
    from levelhead.engine.readings import States as States
    from levelhead.engine.readings import StaticVectors as StaticVectors
    from levelhead.engine.readings import TokenLikelihoods as TokenLikelihoods
    from levelhead.engine.readings import TokenLogProbs as TokenLogProbs
    from levelhead.engine.readings import WordVectors as WordVectors
    from levelhead.engine.run import read as read
    from levelhead.engine.run import read_one as read_one
    from levelhead.errors import LevelheadError as LevelheadError
    from levelhead.measures.catalog import MeasureInfo as MeasureInfo
    from levelhead.measures.measurement import Measurement as Measurement
    from levelhead.mitigation.export import export as export
    from levelhead.mitigation.mitigate import mitigate as mitigate
    from levelhead.mitigation.recipe import Recipe as Recipe
    from levelhead.mitigation.recipe import read_recipe as read_recipe
    from levelhead.models.encoding import Text as Text
    from levelhead.models.encoding import find_word as find_word
    from levelhead.models.model import Model as Model
    from levelhead.models.model import load as load
    from levelhead.probes.words import WordTest as WordTest
    from levelhead.probes.words import load_words as load_words
    from levelhead.reproducing import ReproduceSettings as ReproduceSettings
    from levelhead.reproducing import reproduce as reproduce
    from levelhead.results.folder import Run as Run
    from levelhead.results.folder import read_run as read_run
    from levelhead.results.presets import AuditSizes as AuditSizes
    from levelhead.scoring.benchmarks.protocol import register_benchmark as register_benchmark
    from levelhead.scoring.registry import register_measure as register_measure
    from levelhead.scoring.seat import sentence_seat as sentence_seat
    from levelhead.studies.counteracts import CounteractsSettings as CounteractsSettings
    from levelhead.studies.extent import AuditSettings as AuditSettings
    from levelhead.studies.glue import GlueSettings as GlueSettings
    from levelhead.studies.heads.learning import LearnedGatesSettings as LearnedGatesSettings
    from levelhead.studies.heads.settings import HeadsSettings as HeadsSettings
    from levelhead.studies.localizing.protocol import ComponentScores as ComponentScores
    from levelhead.studies.localizing.protocol import register_localizer as register_localizer
    from levelhead.studies.localizing.settings import AtlasSettings as AtlasSettings
    from levelhead.studies.mitigating.protocol import Candidate as Candidate
    from levelhead.studies.mitigating.protocol import register_mitigation as register_mitigation
    from levelhead.studies.mitigating.settings import MitigateSettings as MitigateSettings
    from levelhead.studies.planted.settings import PlantedSettings as PlantedSettings
    from levelhead.studies.projections.plan import Sweep as Sweep
    from levelhead.surveying import SurveySettings as SurveySettings

__all__ = [*_PUBLIC, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'levelhead' has no attribute {name!r}")
    found = getattr(import_module(f"levelhead.{_PUBLIC[name]}"), name)
    if isinstance(found, type):
        return found
    return import_module("levelhead.kinds").checked_kinds(found, name)


def __dir__() -> list[str]:
    return sorted(__all__)
