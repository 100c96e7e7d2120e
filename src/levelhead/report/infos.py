"""How the measures of a run are shown and judged, also those that its user brought along."""

from __future__ import annotations

from levelhead.measures.catalog import CATALOG, Catalog, MeasureInfo
from levelhead.measures.measurement import Measurement
from levelhead.report.contents import Contents


def catalog_of(contents: Contents) -> Catalog:
    """The built-in measures and those of the run, whose own come first."""
    return CATALOG if contents.audit is None else CATALOG.joined_by(*contents.audit.measures)


def info_of(contents: Contents, name: str) -> MeasureInfo:
    """How a measure of a run is shown and judged."""
    return catalog_of(contents).info(name)


def verdict_of(contents: Contents, measurement: Measurement) -> str:
    """What a number of a run says, and no more."""
    return catalog_of(contents).verdict(measurement)


def p_of(measurement: Measurement) -> float | None:
    """The p that a verdict rests on: that of the null, else that of the measure's own test."""
    return measurement.details.get("p_value") if measurement.null is None else measurement.null.p_value


def claimed(contents: Contents, measurement: Measurement) -> bool:
    """Whether the verdict says that there is a bias."""
    info = info_of(contents, measurement.name)
    return info.side == "bias" and verdict_of(contents, measurement) in (info.above, info.below)
