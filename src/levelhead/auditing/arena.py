"""The quickest mitigations inside an audit: fitted, ordered and certified on the audit's own items."""

from __future__ import annotations

from dataclasses import replace

from levelhead.ordinary import subfolder
from levelhead.results import layout
from levelhead.results.folder import Run
from levelhead.results.settings import AuditRunSettings
from levelhead.scoring.battery import Battery
from levelhead.scoring.word_table import word_table
from levelhead.studies.extent import Extent
from levelhead.studies.mitigating.protocol import QUICKEST
from levelhead.studies.mitigating.settings import FEWEST_NULLS, MitigateSettings
from levelhead.studies.mitigating.study import run_mitigations

_NULLS = 5  # null models: Student's p allows for so few
_CONTEXTS = 2  # per word
_FEWEST = 8  # texts, and triples


def certify_quickest(extent: Extent, battery: Battery, run: Run[AuditRunSettings]) -> None:
    """Run the arena's quickest form. With fewer null models, or with too few items for three parts, nothing
    can be certified, so nothing is tried."""
    nulls = min(extent.sizes.null, _NULLS)
    if nulls < FEWEST_NULLS or len(battery.sentences) < _FEWEST or len(battery.triples.pairs) < _FEWEST:
        return
    words = word_table(battery.test, battery.contexts).first_contexts(_CONTEXTS)
    items = replace(battery, contexts=words.contexts, null=0)
    asked, seed = extent.settings.bias, extent.settings.seed
    settings = MitigateSettings(asked, (QUICKEST,), null=nulls, seed=seed, spillover=False)
    run_mitigations(extent.model, settings, subfolder(run.folder, layout.ARENA_PART), items)
