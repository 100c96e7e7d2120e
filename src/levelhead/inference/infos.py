"""How the measures of a run are shown and judged, also those that its user brought along."""

from __future__ import annotations

import math

from levelhead.inference.claims import SILENT
from levelhead.inference.contents import Contents, Reported, measurements
from levelhead.inference.headline import asks_null_models, spoken_measures
from levelhead.measures.catalog import (
    ALPHA,
    CATALOG,
    DOUBTED,
    NOT_COMPARED,
    TOO_FEW,
    UNTESTED,
    Catalog,
    MeasureInfo,
)
from levelhead.measures.corrections import holm
from levelhead.measures.measurement import Measurement
from levelhead.measures.rounds import says_too_little
from levelhead.results.records.common import BASE
from levelhead.results.runs import AuditRun


def catalog_of(contents: Contents) -> Catalog:
    """The built-in measures and those of the run, whose own come first."""
    run = contents.audit or contents.benchmark
    return CATALOG if run is None else CATALOG.joined_by(*run.measures)


def info_of(contents: Contents, name: str) -> MeasureInfo:
    """How a measure of a run is shown and judged."""
    return catalog_of(contents).info(name)


def verdict_of(contents: Contents, each: Reported) -> str:
    """What a number of a run says, and no more.

    On the page of an audit a verdict that claims a bias is one of the page's claims: it must hold after
    correction for all of them, and so it must among all scores of a benchmark. Of changed models only paired
    changes are tested, each by itself. Without null models audits and benchmarks test nothing.
    """
    verdict = catalog_of(contents).verdict(each.measurement)
    if verdict and each.measurement.value is not None and each.model in contents.run.doubts:
        return DOUBTED
    if (benchmark := contents.benchmark) is not None:
        asked_none = bool(benchmark.settings.model) and not benchmark.settings.null
        if asked_none and verdict and each.measurement.value is not None:
            return NOT_COMPARED
        return _among_scores(contents, each, verdict)
    return verdict if contents.audit is None else _in_audit(contents, contents.audit, each, verdict)


def _in_audit(contents: Contents, audit: AuditRun, each: Reported, verdict: str) -> str:
    """A verdict as one of the claims of an audit's page."""
    if verdict and not asks_null_models(audit):
        untested = UNTESTED if audit.settings.sizes.null else NOT_COMPARED
        return verdict if each.measurement.value is None else untested
    if not _speaks(contents, each.measurement, verdict):
        return verdict
    if each.variant != BASE:
        return UNTESTED
    return verdict if each.name in spoken_measures(audit) else _unsaid(each.measurement)


def _among_scores(contents: Contents, each: Reported, verdict: str) -> str:
    """A verdict on one of a benchmark's scores: of all items, and of each category."""
    if not _speaks(contents, each.measurement, verdict):
        return verdict
    if not each.measurement.held_against_models:
        return UNTESTED
    scores = [one for one in measurements(contents) if info_of(contents, one.name).side == "bias"]
    p = [one.measurement.p_value for one in scores]
    corrected = holm([math.nan if value is None else value for value in p])
    own = next(value for one, value in zip(scores, corrected, strict=True) if one.name == each.name)
    return verdict if own < ALPHA else f"{SILENT}, all {len(scores)} scores of the page counted"


def _unsaid(measurement: Measurement) -> str:
    """Why a verdict does not hold once all claims of the page are counted."""
    if says_too_little(measurement.null):
        return TOO_FEW
    return f"{SILENT}, all claims of the page counted"


def claimed(contents: Contents, each: Reported) -> bool:
    """Whether the verdict says that there is a bias."""
    return _speaks(contents, each.measurement, verdict_of(contents, each))


def _speaks(contents: Contents, measurement: Measurement, verdict: str) -> bool:
    info = info_of(contents, measurement.name)
    return info.side == "bias" and info.biased != "none" and verdict in (info.above, info.below)
