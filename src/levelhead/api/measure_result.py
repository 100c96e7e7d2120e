"""Results of single measures: measurements of one model, with all that stands behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from levelhead.api.places import links
from levelhead.api.shown import Line, SavedRecord, measured_cells
from levelhead.api.studies import Folder
from levelhead.measures.catalog import DOUBT
from levelhead.measures.measurement import Measurement
from levelhead.models.model import Model
from levelhead.pages.charts.base import Chart
from levelhead.pages.charts.intervals import Labeled, intervals
from levelhead.pages.links import Link, measure_link
from levelhead.results.folder import versions
from levelhead.results.layout import DOUBT_FACT, OPENING_FACT


@dataclass(frozen=True, repr=False)
class MeasureResult(SavedRecord):
    """Measurements of one model, and what stands behind them: its weights, the data, versions."""

    model: str
    weights: str  # the model's fingerprint
    data: Mapping[str, str]  # name -> hash
    versions: Mapping[str, str]
    measurements: Mapping[str, Measurement]

    def __getitem__(self, name: str) -> Measurement:
        return self.measurements[name]

    @property
    def caption(self) -> str:
        """The model, the doubt about it where there is one, and the data."""
        data = [name for name in self.data if name not in (OPENING_FACT, DOUBT_FACT)]
        doubt = f" ({self.data[DOUBT_FACT]})" if DOUBT_FACT in self.data else ""
        return f"{self.model}{doubt}: {', '.join(data)}"

    def lines(self) -> Sequence[Line]:
        """One line a measurement."""
        return [{"item": name, **measured_cells(each)} for name, each in self.measurements.items()]

    def chart(self) -> Chart:
        """Every measurement with its interval."""
        return intervals([Labeled(name, each) for name, each in self.measurements.items()], self.model)

    @property
    def link(self) -> Link:
        """The equation of its first measure."""
        return measure_link(next((each.name for each in self.measurements.values()), ""))

    def _places(self) -> str:
        return links(self.weights)


class SingleResult(MeasureResult):
    """One measurement of a model."""

    @property
    def caption(self) -> str:
        """The model, the data and the number."""
        return f"{super().caption}: {self.measurement}"

    @property
    def measurement(self) -> Measurement:
        """The number with all that belongs to it."""
        return next(iter(self.measurements.values()))

    @property
    def value(self) -> float | None:
        """The number; None where it was not measured, and `measurement.reason` says why."""
        return self.measurement.value

    @property
    def interval(self) -> tuple[float, float] | None:
        """Its 95 % interval."""
        return self.measurement.interval

    @property
    def n(self) -> int:
        """How many items it rests on."""
        return self.measurement.n


M = TypeVar("M", bound=MeasureResult)


def measure_result(
    kind: type[M],
    model: Model,
    data: Mapping[str, str],
    measurements: Mapping[str, Measurement],
    folder: Folder,
    **items: Any,
) -> M:
    """A result; items: what it has beside its measurements. With a folder it is written there."""
    data = {**data, **model.facts()}
    if doubt := model.opening.doubt:
        measurements = {
            name: replace(each, settings={**each.settings, DOUBT: doubt})
            for name, each in measurements.items()
        }
    result = kind(model.name, model.fingerprint, data, versions(), measurements, **items)
    if folder is not None:
        result.save(folder)
    return result
