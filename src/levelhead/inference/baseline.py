"""Is a release worse than the last one? Paired changes of a run from a baseline, with their intervals."""

from __future__ import annotations

from levelhead.inference.compare_items import Column, Difference
from levelhead.inference.comparing import difference
from levelhead.inference.contents import Contents, measurements
from levelhead.measures.bias_size import bias_size
from levelhead.measures.measurement import Measurement


def change_from(
    baseline: Contents, contents: Contents, variant: str, name: str, signed: bool
) -> Difference | str:
    """What a measure changed by since the baseline's unmodified model, or the reason why that is not known.

    signed: both directions are bias, so that the absolute value is compared.
    """
    first, second = Column("baseline", baseline), Column("run", contents, variant)
    values = [_measured(column, name) for column in (first, second)]
    for whose, value in zip(("the baseline", "this run"), values, strict=True):
        if value is None or value.value is None:
            return f"{whose} did not measure it" if value is None else f"{whose}: {value.reason}"
    before, after = (value for value in values if value is not None)
    compared = [bias_size(each, 0.0) for each in (before, after)] if signed else [before, after]
    change = difference(first, second, name, *compared)
    return "evaluated on other items than in the baseline" if change is None else change


def _measured(column: Column, name: str) -> Measurement | None:
    own = (each.measurement for each in measurements(column.contents, column.variant) if each.name == name)
    return next(own, None)
