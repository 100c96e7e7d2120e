"""A run of mitigations that is written by hand: one certified recipe, one that is not."""

from __future__ import annotations

from pathlib import Path

from levelhead.edits.sites import Head
from levelhead.measures.certified import Certificate
from levelhead.mitigation.recipe import Recipe, recipe_text
from levelhead.models.model import Model
from levelhead.runs.folder import Run
from levelhead.studies.mitigate import Mitigate
from levelhead.studies.mitigate.records import CandidateTested
from levelhead.studies.mitigate.settings import MitigateStored


def mitigated_run(folder: Path, model: Model) -> Path:
    """The folder of the run: "two heads" is certified, "one head" is not shown to help."""
    settings = MitigateStored(study="mitigate", models=(model.name,))
    candidates = [
        _candidate(model, "one head", {Head(0, 3): 0.0}, False),
        _candidate(model, "two heads", {Head(0, 0): 0.0, Head(1, 1): 0.5}, True),
    ]
    with Run.open(folder, Mitigate, settings, hashes={"weights": model.fingerprint}) as run:
        run.results(Mitigate.candidates, lambda: candidates)
    return folder


def _candidate(model: Model, name: str, gates: dict[Head, float], certified: bool) -> CandidateTested:
    p = 0.01 if certified else 0.4
    certificate = Certificate(
        name, "preference", "nats", 0.5, 0.2, 0.3, (0.1, 0.5), p, 0.01, {"perplexity": 0.01}, {}, certified
    )
    recipe = Recipe(gates=gates, title=name, model=model.name, fingerprint=model.fingerprint)
    return CandidateTested(name, "ablated heads", 1.0, recipe_text(recipe), 0.2, certificate)
