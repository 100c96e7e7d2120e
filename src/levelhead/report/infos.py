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
