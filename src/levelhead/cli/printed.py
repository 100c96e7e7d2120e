"""What a run shows, in a terminal: the blocks of its page as text and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch
from pathlib import Path
from textwrap import indent

from levelhead.cli.app import print_table
from levelhead.cli.terminal import columns_of_terminal, print_wrapped
from levelhead.inference.contents import open_contents
from levelhead.pages.blocks import Block, Code, HeadMap, Matrix, Page, Points, Shown
from levelhead.pages.chapters import Chapter
from levelhead.pages.presented import presented
from levelhead.pages.tables import NOTHING, Cell, Table

_ON_THE_PAGE = (
    Chapter.ABOUT,
    Chapter.LIMITS,
    Chapter.REPRODUCE,
    Chapter.GLOSSARY,
)  # chapters that a terminal leaves to the page
_HEADS = 5  # at either end of a map
_SMALL = 20  # characters of a cell's second line that are shown
_NAME = 40  # characters of a line's name that are kept in one line
_BORDERS = 3  # characters that a table needs beside each of its columns


def print_run(folder: str | Path) -> None:
    """What the page of a run shows, but for its charts: what was found first, then what that rests on."""
    print_page(presented(open_contents(folder)))


def print_page(page: Page) -> None:
    """Headline and findings, then each chapter."""
    print_wrapped(page.headline)
    for finding in page.findings:
        print_wrapped(finding.text, "- ", "  ")
    for section in page.sections:
        if section.id not in _ON_THE_PAGE:
            print(f"\n{section.title}: {section.found or section.question}")
            for block in section.blocks:
                print_block(block)


@singledispatch
def print_block(block: Block) -> None:
    """A block as text; charts are left to the page."""


@print_block.register
def _(block: Shown) -> None:
    if not block.table.folded:
        _print_table(block.table)


@print_block.register
def _(block: Points) -> None:
    for each in block.items:
        print_wrapped(each.whole, "- ", "  ")


@print_block.register
def _(block: Code) -> None:
    if not block.folded:
        print(f"\n{block.label}\n{indent(block.text, '    ')}")


@print_block.register
def _(block: HeadMap) -> None:
    ranked = sorted((cell for layer in block.layers for cell in layer), key=lambda cell: -cell.share)
    print("Most biased and most anti-biased heads")
    for cell in dict.fromkeys((*ranked[:_HEADS], *ranked[-_HEADS:])):
        print_wrapped(cell.label, "  ", "    ")


@print_block.register
def _(block: Matrix) -> None:
    names = [name for name, _ in block.names]
    lines = [[name, *(cell.text for cell in row)] for name, row in zip(names, block.cells, strict=True)]
    print_table(block.caption, ["", *names], lines, block.note)


def _print_table(table: Table) -> None:
    """A table where it fits into the terminal, intervals below their values if need be; else line by line."""
    table = _without_empty_columns(table)
    lines = [[_in_short(cell) for cell in row] for row in table.rows]
    if not _fits(table, lines):
        lines = [[cell.replace(" [", "\n[") for cell in line] for line in lines]
    if _fits(table, lines):
        print_table(table.caption, table.columns, lines, table.note)
        return
    print(f"\n{table.caption}")
    for row in table.rows:
        cells = [pair for pair in zip(table.columns[1:], row[1:], strict=True) if pair[1].text != NOTHING]
        print(f"  {row[0].whole if len(row[0].small) <= _NAME else row[0].text}")
        print_wrapped("; ".join(f"{name}: {_in_short(cell)}" for name, cell in cells), "    ", "    ")
    if table.note:
        print_wrapped(table.note)


def _without_empty_columns(table: Table) -> Table:
    """A table without columns that say nothing in any line."""
    said = [i for i in range(len(table.columns)) if any(row[i].text != NOTHING for row in table.rows)]
    rows = [[row[i] for i in said] for row in table.rows]
    return replace(table, columns=[table.columns[i] for i in said], rows=rows) if said else table


def _in_short(cell: Cell) -> str:
    """A cell without a long second line, which is left to the page."""
    return cell.whole if len(cell.small) <= _SMALL else cell.text


def _fits(table: Table, lines: Sequence[Sequence[str]]) -> bool:
    """Whether no cell but those of the first column, which may wrap, needs more room than there is."""
    columns = zip(table.columns, *lines, strict=True)
    widths = [max(len(part) for text in column for part in text.split("\n")) for column in columns]
    widths[0] = min(widths[0], _NAME)
    return sum(widths) + _BORDERS * len(widths) <= columns_of_terminal()
