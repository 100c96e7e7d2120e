"""What a run shows, as text: one renderer for each form.

The page's own is in page.py, the terminal's in cli/printed.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from levelhead.pages.blocks import Block, Code, Page, Points, Section, Shown
from levelhead.pages.latex import latex_table
from levelhead.pages.tables import Table

WRITTEN = "Written by levelhead"  # by which a file of ours is known


def markdown(page: Page) -> str:
    """The headline, the findings, and each chapter with its sentences, tables and commands."""
    parts = [f"# {_line(page.title)}", _line(page.headline)]
    parts += ["\n".join(f"- {_line(each.text)}" for each in page.findings)] if page.findings else []
    for section in page.sections:
        said = [text for block in section.blocks if (text := _markdown_block(block))]
        parts += [f"## {_line(section.title)}", *([_line(section.found)] if section.found else []), *said]
    return "\n\n".join(parts) + "\n"


def _markdown_block(block: Block) -> str:
    if isinstance(block, Shown):
        table = block.table
        return "" if table.folded else f"**{_line(table.caption)}**\n\n{markdown_table(table)}".rstrip()
    if isinstance(block, Points):
        return "\n".join(f"- {_line(each.whole)}" for each in block.items)
    if isinstance(block, Code) and not block.folded:
        return f"{_line(block.label)}\n\n" + "\n".join(f"    {line}" for line in block.text.splitlines())
    return ""


def markdown_table(table: Table) -> str:
    """A table as the page shows it; rows that stand out are bold."""
    lines = [[_cell(column) for column in table.columns], ["---"] * len(table.columns)]
    for place, row in enumerate(table.rows):
        cells = [_cell(cell.whole) for cell in row]
        lines.append([f"**{cell}**" if place in table.strong else cell for cell in cells])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    """Text that stays inside its cell."""
    return _line(text.replace("\\", "\\\\").replace("|", "\\|"))


def latex(page: Page) -> str:
    """Every table that the page does not fold, for booktabs."""
    return "\n".join(latex_table(table) for table in tables(page))


def csv(page: Page) -> str:
    """Every table that the page does not fold, with all digits, each under its name."""
    return "\n".join(f"# {table.name}\n{table.to_csv()}" for table in tables(page))


def tables(page: Page) -> list[Table]:
    """The tables that the page does not fold, in reading order."""
    return [table for section in page.sections for table in _tables(section) if not table.folded]


def _tables(section: Section) -> Iterator[Table]:
    return (block.table for block in section.blocks if isinstance(block, Shown))


RENDERERS: Mapping[str, Callable[[Page], str]] = {"markdown": markdown, "latex": latex, "csv": csv}
FORMS: Mapping[str, str] = {".md": "markdown", ".tex": "latex", ".csv": "csv"}  # by the ending of a file
_NOTED = {"markdown": f"<!-- {WRITTEN} -->\n\n", "latex": f"% {WRITTEN}\n", "csv": f"# {WRITTEN}\n"}


def file_text(page: Page, ending: str) -> str:
    """What is written into a file with this ending; it begins with who wrote it."""
    return _NOTED[FORMS[ending]] + RENDERERS[FORMS[ending]](page)
