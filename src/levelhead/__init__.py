"""levelhead: measure bias inside language models, find what carries it, take it out, and see what that bought
and cost.

    import levelhead as lh
    model = lh.load("lh:bert-mini")
    with model.edited(*lh.removed(model, [(2, 5)])):
        ...

Names are imported when first used, so that `levelhead --help` does not wait for torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_PUBLIC = {
    "load": "models.model",
    "Model": "models.model",
    "Site": "edits.sites",
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
    "Measurement": "measures.measurement",
    "Head": "edits.head",
    "gates": "edits.gates",
    "removed": "edits.gates",
    "HeadGates": "edits.gates",
    "Projection": "edits.projection",
    "MeasureInfo": "measures.catalog",
    "register_measure": "scoring.registry",
    "audit": "auditing",
    "Audit": "auditing",
    "AuditSettings": "studies.extent",
    "AuditSizes": "results.settings",
    "read_audit": "auditing",
    "reproduce": "reproducing",
    "ReproduceSettings": "reproducing",
    "heads": "studies.heads.study",
    "HeadsSettings": "studies.heads.settings",
    "sentence_seat": "scoring.seat",
    "sweep": "studies.projections.sweep",
    "Sweep": "studies.projections.plan",
    "mitigate": "mitigation.mitigate",
    "read_recipe": "mitigation.recipe",
    "counteracts": "studies.counteracts",
    "CounteractsSettings": "studies.counteracts",
    "glue": "studies.glue",
    "GlueSettings": "studies.glue",
    "Hyperparameters": "engine.finetuning",
    "Run": "results.folder",
    "read_run": "results.folder",
    "open_run": "results.runs",
    "open_audit": "results.runs",
    "open_glue": "results.runs",
    "open_heads": "results.runs",
    "open_prompts": "results.runs",
    "open_sweep": "results.runs",
    "LevelheadError": "errors",
}

if TYPE_CHECKING:
    from levelhead.auditing import Audit as Audit
    from levelhead.auditing import audit as audit
    from levelhead.auditing import read_audit as read_audit
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
    from levelhead.mitigation.mitigate import mitigate as mitigate
    from levelhead.mitigation.recipe import read_recipe as read_recipe
    from levelhead.models.encoding import Text as Text
    from levelhead.models.encoding import find_word as find_word
    from levelhead.models.model import Model as Model
    from levelhead.models.model import load as load
    from levelhead.reproducing import ReproduceSettings as ReproduceSettings
    from levelhead.reproducing import reproduce as reproduce
    from levelhead.results.folder import Run as Run
    from levelhead.results.folder import read_run as read_run
    from levelhead.results.runs import open_audit as open_audit
    from levelhead.results.runs import open_glue as open_glue
    from levelhead.results.runs import open_heads as open_heads
    from levelhead.results.runs import open_prompts as open_prompts
    from levelhead.results.runs import open_run as open_run
    from levelhead.results.runs import open_sweep as open_sweep
    from levelhead.results.settings import AuditSizes as AuditSizes
    from levelhead.scoring.registry import register_measure as register_measure
    from levelhead.scoring.seat import sentence_seat as sentence_seat
    from levelhead.studies.counteracts import CounteractsSettings as CounteractsSettings
    from levelhead.studies.counteracts import counteracts as counteracts
    from levelhead.studies.extent import AuditSettings as AuditSettings
    from levelhead.studies.glue import GlueSettings as GlueSettings
    from levelhead.studies.glue import glue as glue
    from levelhead.studies.heads.settings import HeadsSettings as HeadsSettings
    from levelhead.studies.heads.study import heads as heads
    from levelhead.studies.projections.plan import Sweep as Sweep
    from levelhead.studies.projections.sweep import sweep as sweep

__all__ = [*_PUBLIC, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'levelhead' has no attribute {name!r}")
    return getattr(import_module(f"levelhead.{_PUBLIC[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
