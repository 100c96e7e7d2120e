"""Ways out of a bias that an audit tries: the worst heads closed, subspaces projected away."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from levelhead.edits.gates import removed
from levelhead.edits.sites import Variant
from levelhead.inference.heads_in_words import removal_text
from levelhead.mitigation.fitting import baseline_pairs, pairs_about
from levelhead.mitigation.mitigate import biased_heads
from levelhead.mitigation.recipe import Recipe, recipe_file, recipe_text
from levelhead.probes.pairs import pairs_text
from levelhead.results import layout
from levelhead.results.folder import Run
from levelhead.results.keys import TextFile
from levelhead.results.records.audit import Mitigation, ProjectionCandidate
from levelhead.results.runs import HeadsRun
from levelhead.results.settings import AuditRunSettings
from levelhead.scoring.battery import Battery
from levelhead.studies.extent import Extent
from levelhead.studies.projections.candidates import OWN_PAIRS, Projections
from levelhead.studies.projections.settings import BASELINE_PAIRS


@dataclass(frozen=True)
class Way:
    """A way out: how it is recorded, and the edits themselves."""

    record: Mitigation
    edits: Variant

    @property
    def name(self) -> str:
        """The name of the changed model."""
        return self.record.variant


def write_recipes(extent: Extent, ways: Sequence[Way], choose: Battery, run: Run[AuditRunSettings]) -> None:
    """One recipe a way out, for `levelhead debias --recipe`, and beside them the pairs that they name."""
    for number, way in enumerate(ways, start=1):
        run.file(TextFile(f"{layout.RECIPES}/{recipe_file(number, way.name)}"), way.record.recipe)
    named = {OWN_PAIRS: pairs_about(extent.model, choose.test), BASELINE_PAIRS: baseline_pairs()}
    for name, pairs in named.items():
        if any(name in way.record.recipe for way in ways):
            run.file(TextFile(f"{layout.RECIPES}/{name}"), pairs_text(pairs))


def closed_heads(extent: Extent, located: HeadsRun) -> Way:
    model = extent.model
    closed = biased_heads(located, extent.settings.top, model)
    name = f"without heads {', '.join(map(str, closed))}"
    what = removal_text(located, closed)
    gates = dict.fromkeys(closed, 0.0)
    recipe = Recipe(gates=gates, title=name, model=model.name, fingerprint=model.fingerprint)
    record = Mitigation(name, what, tuple(closed), recipe_text(recipe), chosen=True)
    return Way(record, removed(model, closed))


def projected(projections: Projections, prefix: str, trials: Sequence[ProjectionCandidate]) -> Iterator[Way]:
    what = f"Directions that tell the groups apart are projected out of {projections.model.name}."
    for trial in trials:
        if trial.chosen:
            name = f"{prefix}{trial.variant}"
            edits = projections.variants([trial.variant])[0]
            yield Way(Mitigation(name, what, (), trial.recipe, chosen=True), edits)
