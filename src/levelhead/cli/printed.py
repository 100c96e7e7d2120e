"""What a run shows, in a terminal: the blocks of its page as text and tables.

Of `levelhead audit` it is a reader's five questions, the first findings, and every mitigation with its
verdict, in 40 lines of 100 columns; of `levelhead generate` what was found, and one sentence per chapter. The
page and `levelhead report` have the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import indent

from levelhead.cli.app import print_table
from levelhead.cli.terminal import columns_of_terminal, print_link, print_wrapped
from levelhead.inference.claims import valued
from levelhead.inference.contents import open_contents
from levelhead.pages.blocks import Code, HeadMap, Matrix, Points, Shown
from levelhead.pages.chapters import Chapter
from levelhead.pages.names import names_of
from levelhead.pages.presented import presented
from levelhead.pages.tables import NOTHING, Cell, Table
from levelhead.pages.what_now import FIRST_LOOK, what_now
from levelhead.progress import say
from levelhead.studies.audit import Audit
from levelhead.studies.mitigate.chapter import tested_table
from levelhead.studies.reproduce import Reproduce

# chapters that a terminal leaves to the page
_ON_THE_PAGE = (Chapter.ABOUT, Chapter.LIMITS, Chapter.AGAIN, Chapter.GLOSSARY)
_HEADS = 5  # at either end of a map
_SMALL = 20  # characters of a cell's second line that are shown
_NAME = 40  # characters of a line's name that are kept in one line
_FINDINGS = 3  # of an audit, that stand below the headline
_BORDERS = 3  # characters that a table needs beside each of its columns


def print_run(folder: str | Path) -> None:
    """What the page of a run shows, but for its charts: what was found first, then what that rests on."""
    contents = open_contents(folder)
    page = presented(contents)
    if isinstance(contents.run, Reproduce):  # the page shows the run that it holds beside the paper, too
        page = replace(page, sections=[each for each in page.sections if each.id == Reproduce.name])
    print_wrapped(page.headline)
    for finding in page.findings:
        print_wrapped(finding.text, "- ", "  ")
    for section in page.sections:
        if section.id in _ON_THE_PAGE:
            continue
        print(f"\n{section.title}: {section.found or section.question}")
        for block in section.blocks:  # charts are left to the page
            match block:
                case Shown(table) if not table.folded:
                    _print_table(table)
                case Points():
                    for each in block.items:
                        print_wrapped(each.whole, "- ", "  ")
                case Code(folded=False):
                    print(f"\n{block.label}\n{indent(block.text, '    ')}")
                case HeadMap():
                    heads = sorted((cell for layer in block.layers for cell in layer), key=lambda c: -c.share)
                    print("Most biased and most anti-biased heads")
                    for cell in dict.fromkeys((*heads[:_HEADS], *heads[-_HEADS:])):
                        print_wrapped(cell.label, "  ", "    ")
                case Matrix():
                    names = [name for name, _ in block.names]
                    rows = zip(names, block.cells, strict=True)
                    lines = [[name, *(cell.text for cell in row)] for name, row in rows]
                    print_table(block.caption, ["", *names], lines, block.note)


def print_brief(folder: str | Path) -> None:
    """What was found, one sentence per chapter, and where the tables are."""
    contents = open_contents(folder)
    page = presented(contents)
    print_wrapped(page.headline)
    for finding in page.findings:
        print_wrapped(finding.text, "- ", "  ")
    print()
    for section in page.sections:
        if section.id.startswith(contents.run.name) and section.found.rstrip(".") != page.headline.rstrip(
            "."
        ):
            print_wrapped(section.found, f"{section.title}: ", "  ")
    print()
    print_wrapped(f"Every table: levelhead report {folder} --as text")


def _print_table(table: Table) -> None:
    """A table where it fits into the terminal, intervals below their values if need be; else line by line.
    Columns that say nothing in any line are left out."""
    if said := [i for i in range(len(table.columns)) if any(row[i].text != NOTHING for row in table.rows)]:
        rows = [[row[i] for i in said] for row in table.rows]
        table = replace(table, columns=[table.columns[i] for i in said], rows=rows)
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


def _in_short(cell: Cell) -> str:
    """A cell without a long second line, which is left to the page."""
    return cell.whole if len(cell.small) <= _SMALL else cell.text


def _fits(table: Table, lines: Sequence[Sequence[str]]) -> bool:
    """Whether no cell but those of the first column, which may wrap, needs more room than there is."""
    columns = zip(table.columns, *lines, strict=True)
    widths = [max(len(part) for text in column for part in text.split("\n")) for column in columns]
    widths[0] = min(widths[0], _NAME)
    return sum(widths) + _BORDERS * len(widths) <= columns_of_terminal()


# ---- an audit, when it is made


def print_audit(result: Audit) -> None:
    """The answers first, then what they rest on, then where everything lies."""
    contents = open_contents(result.folder)
    names = names_of(contents)
    box = what_now(contents)
    if box is not None:  # the questions of the page's first box, and the command of what is recommended
        margin = max(len(question) for question, _ in box.answers) + 2
        print()
        for question, answer in box.answers:
            print_wrapped(names.short(answer), f"{question:{margin}}", " " * margin)
        for command in box.commands:
            print(f"\n{command.label}\n    {command.text}")
        print()
    headline = result.headline
    said = () if headline is None else headline.findings
    if headline is not None:
        print_wrapped(names.short(headline.text))
    print()
    for finding in said[:_FINDINGS]:
        print_wrapped(names.short(finding), "- ", "  ")
    if runs := [run for run in contents.arenas if run.candidates]:
        table = tested_table(contents, runs)
        name, verdict, gain, p = (
            table.columns.index(title) for title in ("Mitigation", "Verdict", "Gain", "p")
        )
        print(f"\n{table.caption}:")
        for row in table.rows:
            moved = f"gain {row[gain].text} {row[gain].small}".rstrip()
            print_wrapped(f"{row[name].text}: {row[verdict].whole}; {moved}, p {row[p].text}", "- ", "  ")
    for info in result.measures:  # the user's own, and published benchmarks
        print_wrapped(f"{info.title}: {valued(result[info.name])}", "- ", "  ")
    more = f"{len(said) - _FINDINGS} more findings, every" if len(said) > _FINDINGS else "Every"
    print()
    print_wrapped(f"{more} measure, and what was left out: levelhead report {result.folder} --as text")
    print_link(result)


def print_first_look(result: Audit, page: Path) -> None:
    """The answers of a first look, beside the progress of the audit that goes on."""
    contents = open_contents(result.folder)
    box = what_now(contents)
    answers = [] if box is None else box.answers
    margin = max((len(question) for question, _ in answers), default=0) + 2
    say(f"First look at {contents.model}: {FIRST_LOOK}")
    for question, answer in answers:
        say(f"{question:{margin}}{answer}")
    say(f"Page: {page} (it reloads itself; the audit goes on)")
