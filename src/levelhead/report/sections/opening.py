"""What a report says first: the findings in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from levelhead.report.contents import Contents, Reported, measurements
from levelhead.report.glossary import measure_of, verdict
from levelhead.report.sections.measured import in_reading_order
from levelhead.report.tables import Cell, Part, digits_of, reported, words


@dataclass(frozen=True)
class Opening:
    """One or two sentences, and the findings one by one."""

    text: str
    findings: Sequence[Cell]


def opening(contents: Contents) -> Opening:
    """The audit's own headline, or a sentence for each measure of bias of a single study."""
    if contents.audit is not None and (headline := contents.audit.headline) is not None:
        return Opening(headline.text, [words(finding) for finding in headline.findings])
    known = [each for each in measurements(contents) if each.measurement.value is not None]
    biases = [each for each in in_reading_order(known) if measure_of(each.name).side == "bias"]
    findings = [_finding(each, contents.model) for each in biases]
    if contents.audit is not None:
        text = f"The audit of {contents.model} is not finished: run the same command again, it goes on."
        return Opening(text, findings)
    return Opening(f"What was measured on {contents.model}", findings)


def _finding(each: Reported, model: str) -> Cell:
    whose = f" of {each.model}" if each.model != model else ""
    meaning = verdict(each.measurement)
    return Cell(
        (
            Part(f"{measure_of(each.name).title}{whose}: "),
            *reported(each, digits_of(each.name)).parts,
            Part(f" — {meaning}." if meaning else "."),
        )
    )
