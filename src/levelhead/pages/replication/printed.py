"""A number that a paper prints, where it stands, and ours beside it."""

from __future__ import annotations

from dataclasses import dataclass

from levelhead.measures.measurement import Measurement
from levelhead.results.records.reproduction import Agreement, ReproducedCell


@dataclass(frozen=True)
class Printed:
    """A number of a paper, or words in its place, and where they stand."""

    table: str
    cell: str
    value: float | None = None
    words: str = ""  # what is printed, where that is no number

    def beside(self, measured: Measurement | None, otherwise: str, note: str = "") -> ReproducedCell:
        """A measurement beside the paper's number; otherwise: the reason where there is no measurement."""
        if measured is None:
            return self.missing(otherwise)
        if measured.value is None:
            return self.missing(measured.reason)
        return self._cell(measured.value, measured.interval, note)

    def beside_value(self, value: float | None, otherwise: str, note: str = "") -> ReproducedCell:
        """A plain number of ours, which has no interval."""
        return self.missing(otherwise) if value is None else self._cell(value, None, note)

    def judged(self, holds: bool, measured: Measurement, note: str) -> ReproducedCell:
        """Ours beside a sentence of the paper that holds here, or does not."""
        low, high = measured.interval or (None, None)
        agreement: Agreement = "as printed" if holds else "not as printed"
        return ReproducedCell(
            self.table, self.cell, self.words, self.value, measured.value, low, high, agreement, note
        )

    def missing(self, reason: str) -> ReproducedCell:
        """The paper's number alone, with the reason why there is none of ours."""
        return ReproducedCell(
            self.table, self.cell, self._text, self.value, None, None, None, "not measured", reason
        )

    def _cell(self, value: float, interval: tuple[float, float] | None, note: str) -> ReproducedCell:
        low, high = interval or (None, None)
        agreement = self._agreement(value, interval)
        return ReproducedCell(
            self.table, self.cell, self._text, self.value, value, low, high, agreement, note
        )

    def _agreement(self, value: float, interval: tuple[float, float] | None) -> Agreement:
        if self.value is None:
            return "no number"
        if interval is None:
            return "equal" if value == self.value else "no interval"
        return "within" if interval[0] <= self.value <= interval[1] else "outside"

    @property
    def _text(self) -> str:
        return self.words or ("" if self.value is None else f"{self.value:g}")
