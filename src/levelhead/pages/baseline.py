"""Is a release worse than the last one? Paired changes of a run from a baseline, with their intervals."""

from __future__ import annotations

from dataclasses import replace

from levelhead.measures.measurement import Measurement
from levelhead.pages.compare import difference
from levelhead.pages.compare_items import Column, Difference
from levelhead.pages.contents import Contents, measurements


def change_from(
    baseline: Contents, contents: Contents, variant: str, name: str, signed: bool
) -> Difference | str:
    """What a measure changed by since the baseline's untouched model, or the reason why that is not known.

    signed: both directions are bias, so that the absolute value is compared.
    """
    first, second = Column("baseline", baseline), Column("run", contents, variant)
    values = [_measured(column, name) for column in (first, second)]
    for whose, value in zip(("the baseline", "this run"), values, strict=True):
        if value is None or value.value is None:
            return f"{whose} did not ask it" if value is None else f"{whose}: {value.reason}"
    before, after = (value for value in values if value is not None)
    change = difference(
        first, second, name, *(map(_absolute, (before, after)) if signed else (before, after))
    )
    return "it was asked on other data than the baseline's" if change is None else change


def _measured(column: Column, name: str) -> Measurement | None:
    own = (each.measurement for each in measurements(column.contents, column.variant) if each.name == name)
    return next(own, None)


def _absolute(measurement: Measurement) -> Measurement:
    """The measurement of the size alone: a negative value, its interval and its items are mirrored."""
    if measurement.value is None or measurement.value >= 0:
        return measurement
    mirrored = None if measurement.interval is None else (-measurement.interval[1], -measurement.interval[0])
    items = {kind: tuple(-each for each in own) for kind, own in measurement.influence.items()}
    return replace(measurement, value=-measurement.value, interval=mirrored, influence=items)
