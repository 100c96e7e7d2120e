"""What is read from runs alone: check, compare, card, report. A run is a result, or its folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path

from levelhead.api.shown import Line, SavedRecord, line_of, measured_cells
from levelhead.errors import BadOption
from levelhead.inference import check as checking
from levelhead.inference.check import Plan, Threshold
from levelhead.inference.comparing import Comparison
from levelhead.inference.comparing import compare as put_side_by_side
from levelhead.inference.contents import measurements, open_contents
from levelhead.measures.measurement import Measurement
from levelhead.pages.card import card as card_text
from levelhead.pages.chapters import Chapter
from levelhead.pages.charts.base import Chart, Labeled, intervals
from levelhead.pages.links import Document, Link, document_link, page_link
from levelhead.pages.page import render, report_html, write_page
from levelhead.pages.presented import comparison_page
from levelhead.runs.common import BASE
from levelhead.runs.study import AnyRun, Study

AnyFolder = AnyRun | str | Path
_COMPARING = "compare"  # the heading under which docs/report.md tells how runs are compared


def folder_of(run: AnyFolder) -> Path:
    """Where a run lies."""
    return run.folder if isinstance(run, Study) else Path(run)


# ---- check


@dataclass(frozen=True, repr=False)
class CheckResult(checking.Checked, SavedRecord):
    """Every threshold judged: `holds`, `verdict`, `thresholds`."""

    measured: tuple[Measurement, ...] = ()  # what was judged, of this variant

    __repr__ = SavedRecord.__repr__

    @property
    def holds(self) -> bool:
        """Whether all thresholds hold; a measure that was not measured does not."""
        return self.exit == 0

    def __bool__(self) -> bool:
        return self.holds

    @property
    def caption(self) -> str:
        """The verdict."""
        return f"{self.model}: {self.verdict}"

    @property
    def link(self) -> Link:
        """What was measured, on the page of the run; else how runs are checked."""
        return page_link(Path(self.run), Chapter.MEASURED) or document_link(Document.CHECK)

    def lines(self) -> Sequence[Line]:
        """One line a threshold."""
        return [line_of(each) for each in self.thresholds]

    def chart(self) -> Chart:
        """The measures that were judged, with their intervals."""
        return intervals([Labeled(each.name, each) for each in self.measured], self.caption)


def check(
    run: AnyFolder,
    at_most: Mapping[str, float] | None = None,
    at_least: Mapping[str, float] | None = None,
    *,
    baseline: AnyFolder | None = None,
    bound: bool = False,
    variant: str = BASE,
) -> CheckResult:
    """Does a run keep within thresholds? check(run, {"seat": 0.8}, {"lms": 0.9}). `if not check(...)` fails.

    baseline: a run, say of the last release; without thresholds no bias may be surely worse than there.
    bound: judge the interval's worse bound instead of the value. variant: a changed model of the run.
    """
    thresholds = [Threshold(name, "max", limit) for name, limit in (at_most or {}).items()]
    thresholds += [Threshold(name, "min", limit) for name, limit in (at_least or {}).items()]
    contents = open_contents(folder_of(run))
    before = None if baseline is None else open_contents(folder_of(baseline))
    result = CheckResult.of(contents, Plan(tuple(thresholds), bound, variant), before)
    names = {each.measure for each in result.thresholds}
    measured = tuple(m.measurement for m in measurements(contents, variant) if m.name in names)
    return replace(result, measured=measured)


# ---- compare


@dataclass(frozen=True, repr=False)
class ComparisonResult(Comparison, SavedRecord):
    """Runs side by side: `measures[name].values`, `.differences`, and `heads`."""

    __repr__ = SavedRecord.__repr__

    @property
    def caption(self) -> str:
        """The runs."""
        return " against ".join(self.runs)

    @property
    def link(self) -> Link:
        """How differences are found."""
        return document_link(Document.REPORT, _COMPARING)

    def lines(self) -> Sequence[Line]:
        """One line a measure and run; the difference is from the first run."""
        lines: list[Line] = []
        for name, compared in self.measures.items():
            for i, (label, measured) in enumerate(zip(self.runs, compared.values, strict=True)):
                difference = compared.differences[i - 1] if i else None
                low, high = (None, None) if difference is None else difference.interval or (None, None)
                cells: Line = {"measure": name} if measured is None else measured_cells(measured)
                lines.append(
                    {
                        "run": label,
                        "measure": name,
                        **{column: cells.get(column) for column in ("value", "low", "high", "n")},
                        "difference": None if difference is None else difference.value,
                        "difference_low": low,
                        "difference_high": high,
                        "paired": None if difference is None else difference.paired,
                    }
                )
        return lines

    def chart(self) -> Chart:
        """Every measure of every run, with intervals."""
        measured = [
            Labeled(label, value)
            for compared in self.measures.values()
            for label, value in zip(self.runs, compared.values, strict=True)
            if value is not None
        ]
        return intervals(measured, self.caption)

    def _write(self, work: Path) -> None:
        """The table, everything as JSON, and the comparison as a page."""
        super()._write(work)
        write_page(work / "comparison.html", render(comparison_page(self)))


def compare(*runs: AnyFolder) -> ComparisonResult:
    """Put runs side by side: models, or, with one audit, the model before and after."""
    if not runs:
        raise BadOption(
            "At least one run must be given. Give results or their folders: compare(first, second)."
        )
    comparison = put_side_by_side([folder_of(run) for run in runs])
    return ComparisonResult(comparison.runs, comparison.measures, comparison.heads)


# ---- card and report


def card(run: AnyFolder) -> str:
    """A model card's section on bias in Markdown, with intervals, limits and how to get the numbers again."""
    return card_text(open_contents(folder_of(run)))


@dataclass(frozen=True)
class ReportPage:
    """The report of a run: one HTML page that needs no network. In a notebook it shows itself."""

    html: str = field(repr=False)

    def save(self, path: str | Path) -> Path:
        """Write the page into a file; one that levelhead did not write is not replaced."""
        return write_page(Path(path), self.html)

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self.html)}" style="width: 100%; height: 80vh; border: 0"></iframe>'


def report(run: AnyFolder, path: str | Path | None = None) -> ReportPage:
    """The report of a run; with a path it is written there too."""
    page = ReportPage(report_html(open_contents(folder_of(run))))
    if path is not None:
        page.save(path)
    return page
