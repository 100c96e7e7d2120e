"""How the measures of a run are shown and judged, also those that its user brought along."""

from __future__ import annotations

from levelhead.inference.claims import SILENT
from levelhead.inference.contents import Contents, Reported
from levelhead.inference.headline import asks_null_models, spoken_measures
from levelhead.measures.catalog import CATALOG, DOUBTED, TOO_FEW, UNTESTED, Catalog, MeasureInfo
from levelhead.measures.measurement import Measurement
from levelhead.measures.rounds import says_too_little
from levelhead.results.records.common import BASE


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
    correction for all of them. Of changed models only paired changes are tested, each by itself. Without null
    models an audit tests nothing.
    """
    verdict = catalog_of(contents).verdict(each.measurement)
    if verdict and each.measurement.value is not None and each.model in contents.run.doubts:
        return DOUBTED
    if contents.audit is not None and verdict and not asks_null_models(contents.audit):
        return verdict if each.measurement.value is None else UNTESTED
    if contents.audit is None or not _speaks(contents, each.measurement, verdict):
        return verdict
    if each.variant != BASE:
        return UNTESTED
    return verdict if each.name in spoken_measures(contents.audit) else _unsaid(each.measurement)


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
