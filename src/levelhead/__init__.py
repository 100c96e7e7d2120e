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

_PUBLIC = {
    # models, and what they are asked
    "load": "models.model",
    "Model": "models.model",
    "Head": "edits.head",
    "gates": "edits.gates",
    "removed": "edits.gates",
    "read": "engine.run",
    "read_one": "engine.run",
    "gate_gradients": "engine.gradients",
    # measures
    "seat": "api.measured",
    "lpbs": "api.measured",
    "nsp": "api.measured",
    "nli": "api.measured",
    "fluency": "api.measured",
    "measure": "api.benchmarks",
    # studies
    "audit": "api.studies",
    "heads": "api.studies",
    "atlas": "api.studies",
    "planted": "api.studies",
    "sweep": "api.studies",
    "counteracts": "api.studies",
    "glue": "api.studies",
    "survey": "api.studies",
    "reproduce": "reproducing",
    "certify": "api.studies",
    # changed models
    "debias": "api.mitigated",
    "learn_gates": "api.mitigated",
    "coin": "probes.coin",
    "load_recipe": "mitigation.recipe",
    # what was found
    "report": "api.reports",
    "check": "api.reports",
    "compare": "api.reports",
    "card": "api.reports",
    "open_run": "api.opening",
    "explore": "api.exploring",
    # your own
    "load_words": "probes.words",
    "Measurement": "measures.measurement",
    "MeasureInfo": "measures.catalog",
    "register": "api.registering",
    "register_measure": "scoring.registry",
    "LevelheadError": "errors",
}
_RENAMED = {"read_recipe": "load_recipe"}
_MODULES = {"settings": "settings", "readings": "engine.readings"}  # groups of names
_MOVED = {  # names of 0.1, which 0.3 will not have here, and their modules
    "Attention": "engine.readings",
    "AuditSettings": "settings",
    "AuditSizes": "settings",
    "BenchmarkSettings": "settings",
    "Candidate": "studies.mitigating.protocol",
    "CounteractsSettings": "settings",
    "FluencySettings": "settings",
    "GlueSettings": "settings",
    "HeadGates": "edits.gates",
    "HeadsSettings": "settings",
    "Hyperparameters": "settings",
    "LearnedGatesSettings": "settings",
    "LpbsSettings": "settings",
    "MitigateSettings": "settings",
    "NliSettings": "settings",
    "NspSettings": "settings",
    "PlantedSettings": "settings",
    "Pooled": "engine.readings",
    "Predictions": "engine.readings",
    "Projection": "edits.projection",
    "ReproduceSettings": "settings",
    "Recipe": "mitigation.recipe",
    "Run": "results.folder",
    "SeatSettings": "settings",
    "Site": "edits.sites",
    "States": "engine.readings",
    "StaticVectors": "engine.readings",
    "SurveySettings": "settings",
    "Sweep": "settings",
    "SweepSettings": "settings",
    "Text": "models.encoding",
    "TokenLikelihoods": "engine.readings",
    "TokenLogProbs": "engine.readings",
    "WordTest": "probes.words",
    "WordVectors": "engine.readings",
    "compare_heads": "api.studies",
    "export": "mitigation.export",
    "find_word": "models.encoding",
    "mitigate": "mitigation.mitigate",
    "open_audit": "api.results",
    "open_glue": "api.results",
    "open_head_comparison": "api.results",
    "open_heads": "api.results",
    "open_mitigate": "api.results",
    "open_planted": "api.results",
    "open_prompts": "api.results",
    "open_survey": "api.results",
    "open_sweep": "api.results",
    "read_run": "results.folder",
    "register_benchmark": "scoring.benchmarks.protocol",
    "register_mitigation": "studies.mitigating.protocol",
    "sentence_seat": "scoring.seat",
    "read_recipe": "mitigation.recipe",
}

if TYPE_CHECKING:
    from levelhead import settings as settings
    from levelhead.api.benchmarks import measure as measure
    from levelhead.api.exploring import explore as explore
    from levelhead.api.measured import fluency as fluency
    from levelhead.api.measured import lpbs as lpbs
    from levelhead.api.measured import nli as nli
    from levelhead.api.measured import nsp as nsp
    from levelhead.api.measured import seat as seat
    from levelhead.api.mitigated import debias as debias
    from levelhead.api.mitigated import learn_gates as learn_gates
    from levelhead.api.opening import open_run as open_run
    from levelhead.api.registering import register as register
    from levelhead.api.reports import card as card
    from levelhead.api.reports import check as check
    from levelhead.api.reports import compare as compare
    from levelhead.api.reports import report as report
    from levelhead.api.studies import atlas as atlas
    from levelhead.api.studies import audit as audit
    from levelhead.api.studies import certify as certify
    from levelhead.api.studies import counteracts as counteracts
    from levelhead.api.studies import glue as glue
    from levelhead.api.studies import heads as heads
    from levelhead.api.studies import planted as planted
    from levelhead.api.studies import survey as survey
    from levelhead.api.studies import sweep as sweep
    from levelhead.edits.gates import gates as gates
    from levelhead.edits.gates import removed as removed
    from levelhead.edits.head import Head as Head
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
    from levelhead.reproducing import reproduce as reproduce
    from levelhead.scoring.registry import register_measure as register_measure

__all__ = [*_PUBLIC, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"levelhead.{_MODULES[name]}")
    if name in _MOVED:
        return _moved(name)
    if name not in _PUBLIC:
        raise AttributeError(f"module 'levelhead' has no attribute {name!r}")
    found = getattr(import_module(f"levelhead.{_PUBLIC[name]}"), name)
    if isinstance(found, type):
        return found
    return import_module("levelhead.kinds").checked_kinds(found, name)


def _moved(name: str) -> Any:
    """A name of version 0.1, with a warning that says where it lies now."""
    place, now = _MOVED[name], _RENAMED.get(name, name)
    where = f"levelhead.{now}" if now in _PUBLIC else f"{now} of levelhead.{place}"
    warnings.warn(
        f"levelhead.{name} has moved: use {where}. Version 0.3 will not have it here.",
        DeprecationWarning,
        stacklevel=3,
    )
    return getattr(import_module(f"levelhead.{place}"), now)


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])
