"""A comparison of runs as a page."""

from __future__ import annotations

from levelhead.inference.compare_items import Difference
from levelhead.inference.comparing import Comparison
from levelhead.measures.measurement import Measurement
from levelhead.pages.blocks import Block, Page, Section, Shown
from levelhead.pages.chapters import Chapter
from levelhead.pages.glossary import glossary_section
from levelhead.pages.limits import ALWAYS
from levelhead.pages.page import render
from levelhead.pages.sections.closing import not_shown
from levelhead.pages.tables import NOTHING, Cell, Part, Table, measured, probability, shown, words


def comparison_html(comparison: Comparison) -> str:
    """The comparison as one self-contained page."""
    return render(comparison_page(comparison))


def comparison_page(comparison: Comparison) -> Page:
    """The comparison as sections of blocks."""
    blocks: list[Block] = [Shown(_measures_table(comparison))]
    if any(comparison.heads):
        blocks.append(Shown(_heads_table(comparison)))
    lead = (
        f"Differences are from {comparison.runs[0]}, with 95 % intervals. A paired difference compares item "
        "by item and is the surer one; an unpaired one is made of the two intervals and is, on the same "
        "probes, as a rule too wide."
    )
    sections = [
        Section(Chapter.COMPARED, "Side by side", "Which differences can be told from chance?", lead, blocks),
        not_shown(ALWAYS),
        glossary_section(),
    ]
    title = " against ".join(comparison.runs)
    return Page(title, "comparison", _headline(comparison), (), (), sections)


def _headline(comparison: Comparison) -> str:
    """How many measures differ for sure."""
    all_differences = [each for compared in comparison.measures.values() for each in compared.differences]
    intervals = [each.interval for each in all_differences if each is not None and each.interval is not None]
    sure = [(low, high) for low, high in intervals if not low <= 0 <= high]
    return f"{len(sure)} of {len(intervals)} differences have an interval that excludes 0."


def _measures_table(comparison: Comparison) -> Table:
    body = []
    for compared in comparison.measures.values():
        first = compared.values[0]
        cells = [words(compared.title, compared.reading), _value_cell(first, compared.digits)]
        for other, difference in zip(compared.values[1:], compared.differences, strict=True):
            cells += [_value_cell(other, compared.digits)]
            cells += [_difference_cell(difference, compared.digits, first, other)]
        body.append(cells)
    columns = ["Measure", comparison.runs[0]]
    columns += [part for label in comparison.others for part in (label, "Difference")]
    return Table("comparison", "Every measure", columns, body)


def _value_cell(measurement: Measurement | None, digits: int) -> Cell:
    """A value without an address, which would not say of which run."""
    return measured(measurement, digits=digits)


def _difference_cell(
    difference: Difference | None, digits: int, first: Measurement | None, second: Measurement | None
) -> Cell:
    if difference is None:
        known = first is not None and second is not None and None not in (first.value, second.value)
        return words(None, "asked on other data: not comparable" if known else "")
    text = shown(difference.value, digits)
    if difference.interval is not None:
        text += f" [{shown(difference.interval[0], digits)}, {shown(difference.interval[1], digits)}]"
    return Cell((Part(text),), repr(difference.value), True, difference.how)


def _heads_table(comparison: Comparison) -> Table:
    body = []
    for label, each in zip(comparison.others, comparison.heads, strict=True):
        if each is None:
            continue
        rho = each.rank_correlation
        bounds = "" if rho.interval is None else f" [{shown(rho.interval[0])}, {shown(rho.interval[1])}]"
        correlation = NOTHING if rho.value is None else f"{shown(rho.value)}{bounds}"
        counts = [words(each.heads), words(each.became_biased), words(each.left_biased)]
        body.append([words(label), words(correlation), *counts, probability(each.p)])
    note = (
        "Became biased: score above 0 here, not in the first run. p: exact test that both ways are equally "
        "frequent."
    )
    columns = ("Against the first run", "Rank correlation", "Heads", "Became biased", "Left biased", "p")
    return Table("head-agreement", "Are the same heads biased?", columns, body, note)
