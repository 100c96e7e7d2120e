"""The quickest mitigation inside an audit, certified on the audit's own items.

It is judged by a bias that the page claims, after correction for all of its claims. So nothing is tried on
a model of which nothing is claimed, and no change is recommended against a bias that the page does not show.
"""

from __future__ import annotations

from dataclasses import replace

from levelhead.inference import headline
from levelhead.ordinary import subfolder
from levelhead.probes.sense import SenseItem, sense_items
from levelhead.results import layout
from levelhead.results.folder import Run
from levelhead.results.runs import AuditRun
from levelhead.results.settings import AuditRunSettings
from levelhead.scoring.battery import Battery
from levelhead.scoring.lpbs import LPBS_TESTS
from levelhead.scoring.natural import BLANKS, COSINE, LOG_ODDS, PREFERENCE
from levelhead.scoring.word_table import word_table
from levelhead.studies.extent import Extent
from levelhead.studies.mitigating.protocol import QUICKEST
from levelhead.studies.mitigating.settings import FEWEST_NULLS, MitigateSettings
from levelhead.studies.mitigating.study import run_mitigations

_NULLS = 5  # null models: Student's p allows for so few
CONTEXTS = 2  # per word
_SENSE_EVERY = 3  # one of so many contexts of language sense
_FEWEST = 8  # texts, and triples
_JUDGED_BY = {  # a claim of the page -> the same bias in natural units; what a model does before its vectors
    headline.LOG_ODDS: LOG_ODDS,
    PREFERENCE: PREFERENCE,
    **{f"lpbs {test}": BLANKS for test in LPBS_TESTS},
    headline.ASSOCIATION: COSINE,
}


def certify_quickest(extent: Extent, battery: Battery, run: Run[AuditRunSettings]) -> None:
    """Run the arena's quickest form. Where nothing is claimed there is nothing to lower; with fewer null
    models, or with too few items for three parts, nothing can be certified: then nothing is tried."""
    objective = claimed_bias(AuditRun(run.data()))
    nulls = min(extent.sizes.null, _NULLS)
    if not objective:
        return
    if nulls < FEWEST_NULLS or len(battery.sentences) < _FEWEST or len(battery.triples.pairs) < _FEWEST:
        return
    words = word_table(battery.test, battery.contexts).first_contexts(CONTEXTS)
    items = replace(battery, contexts=words.contexts, null=0, sense_every=_SENSE_EVERY)
    asked, seed = extent.settings.bias, extent.settings.seed
    settings = MitigateSettings(asked, (QUICKEST,), objective, null=nulls, seed=seed, spillover=False)
    run_mitigations(extent.model, settings, subfolder(run.folder, layout.ARENA_PART), items)


def sense_asked() -> tuple[SenseItem, ...]:
    """The contexts of language sense that a mitigation is tested on."""
    return sense_items(_SENSE_EVERY)


def claimed_bias(run: AuditRun) -> str:
    """The bias in natural units that a page claims of the model; "" where it claims none of them."""
    holds = {name for name, _, ok in headline.headline_claims(run) if ok}
    return next((bias for claim, bias in _JUDGED_BY.items() if claim in holds), "")
