"""What a run shows, as text: one renderer for each form.

The page's own is in page.py, the terminal's in cli/printed.py. Tables for a paper use booktabs, are narrow
enough for a column of two, and hold nothing that pdflatex refuses. Such a table has at most six columns, as
wide as a column of text at \\footnotesize; further columns follow in a second table beside the same names,
further rows in the next. What is long stands in notes below, by number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from textwrap import wrap

from levelhead.escaping import escaped
from levelhead.inference.claims import valued
from levelhead.inference.head_claims import Measured
from levelhead.pages.blocks import Code, Page, Points, Shown
from levelhead.pages.tables import NOTHING, Cell, Table
from levelhead.runs.common import BASE

WRITTEN = "Written by levelhead"  # by which a file of ours is known
LATEX_MARK = r"% levelhead: needs \usepackage{array,booktabs}"
_COLUMNS = 6
_WIDTH = 54  # characters of a line at \footnotesize, in the column of a two-column article
_GAP = 1.5  # characters between two columns
_NAME, _LONG = 14, 24  # characters of a line's name before it wraps, and of a cell before it is a note
_LINES = 45  # of a table, so that it fits a page
_SIGNS = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    **{"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "`": r"\textasciigrave{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''"},
    **{"−": "$-$", "±": r"$\pm$", "×": r"$\times$", "·": r"$\cdot$", "≤": r"$\leq$", "≥": r"$\geq$"},
    **{"≠": r"$\neq$", "≈": r"$\approx$", "∞": r"$\infty$", "ρ": r"$\rho$", "½": r"$\frac{1}{2}$"},
    **{"→": r"$\rightarrow$", "←": r"$\leftarrow$", "↑": r"$\uparrow$", "↓": r"$\downarrow$"},
    **{"–": "--", "—": "---", "…": r"\ldots{}", "’": "'", "‘": "`", "“": "``", "”": "''", "\u00a0": "~"},
}
_SMALL_P = re.compile(r"\d\.\de-\d+")  # as pages show a p below 0.001
_LETTERS = re.compile("[ -~ÀÁÂÃÄÅÇÈÉÊËÌÍÎÏÑÒÓÔÕÖÙÚÛÜÝàáâãäåçèéêëìíîïñòóôõöùúûüýÿßæøœÆØŒłŁšŠžŽčČřŘěĚńŃśŚćĆ]")


def markdown(page: Page) -> str:
    """The headline, the findings, and each chapter with its sentences, tables and commands."""
    parts = [f"# {_line(page.title)}", _line(page.headline)]
    parts += ["\n".join(f"- {_line(each.text)}" for each in page.findings)] if page.findings else []
    for section in page.sections:
        parts += [f"## {_line(section.title)}", *([_line(section.found)] if section.found else [])]
        for block in section.blocks:
            if isinstance(block, Shown) and not block.table.folded:
                table = block.table
                lines = [[_cell(column) for column in table.columns], ["---"] * len(table.columns)]
                for place, row in enumerate(table.rows):
                    cells = [_cell(cell.whole) for cell in row]
                    lines.append([f"**{cell}**" if place in table.strong else cell for cell in cells])
                body = "".join(f"| {' | '.join(line)} |\n" for line in lines)
                parts.append(f"**{_line(table.caption)}**\n\n{body}".rstrip())
            elif isinstance(block, Points) and block.items:
                parts.append("\n".join(f"- {_line(each.whole)}" for each in block.items))
            elif isinstance(block, Code) and not block.folded:
                text = "\n".join(f"    {line}" for line in block.text.splitlines())
                parts.append(f"{_line(block.label)}\n\n{text}")
    return "\n\n".join(parts) + "\n"


def _line(text: str) -> str:
    return " ".join(text.split())


def _cell(text: str) -> str:
    """Text that stays inside its cell."""
    return _line(text.replace("\\", "\\\\").replace("|", "\\|"))


def csv(page: Page) -> str:
    """Every table that the page does not fold, with all digits, each under its name."""
    return "\n".join(f"# {table.name}\n{table.to_csv()}" for table in _tables(page))


def latex(page: Page) -> str:
    """Every table that the page does not fold, for booktabs."""
    return "\n".join(latex_table(table) for table in _tables(page))


def _tables(page: Page) -> list[Table]:
    """The tables that the page does not fold, in reading order."""
    blocks = (block for section in page.sections for block in section.blocks)
    return [block.table for block in blocks if isinstance(block, Shown) and not block.table.folded]


RENDERERS: Mapping[str, Callable[[Page], str]] = {"markdown": markdown, "latex": latex, "csv": csv}
FORMS: Mapping[str, str] = {".md": "markdown", ".tex": "latex", ".csv": "csv"}  # by the ending of a file
NOTED = {"markdown": f"<!-- {WRITTEN} -->\n\n", "latex": f"% {WRITTEN}\n", "csv": f"# {WRITTEN}\n"}


def notebook_html(text: str, findings: Sequence[str], measurements: Measured) -> str:
    """An audit as a small table, for notebooks."""
    lines = "".join(
        f"<tr><th scope='row' style='text-align:left'>{escape(name)}</th>"
        f"<td>{escape(valued(measurement))}</td><td>{measurement.n}</td></tr>"
        for name, measurement in measurements.get(BASE, {}).items()
    )
    points = "".join(f"<li>{escape(finding)}</li>" for finding in findings)
    head = "<tr><th>measure</th><th>value [95 % interval]</th><th>n</th></tr>"
    return escaped(f"<p><b>{escape(text)}</b></p><ul>{points}</ul><table>{head}{lines}</table>")


# ---- LaTeX


def latex_table(table: Table) -> str:
    """A table as one or more floats, the first with the table's name as its label."""
    places = range(len(table.columns))
    said = [i for i in places if i == 0 or any(row[i].whole != NOTHING for row in table.rows)]
    table = _with_columns(table, said)
    # letters by number where LaTeX lacks them, and small p as papers print them
    rows: list[list[Cell]] = []
    for row in table.rows:
        rows.append([])
        for cell in row:
            text = "< 0.001" if cell.numeric and _SMALL_P.fullmatch(cell.text) else _spelled(cell.text)
            parts = (replace(cell.parts[0], text=text),)
            rows[-1].append(replace(cell, parts=parts, small=_spelled(cell.small)))
    columns, note = [_spelled(name) for name in table.columns], _spelled(table.note)
    spelled = replace(table, caption=_spelled(table.caption), columns=columns, rows=rows, note=note)
    whole, notes = _with_notes(spelled)

    floats = []
    for number, part in enumerate(_parts(whole), start=1):
        again, own = ("", "") if number == 1 else (f" (continued, {number})", f"-{number}")
        label = re.sub("[^A-Za-z0-9]+", "-", part.name)
        width = _width(part, 0) / _WIDTH
        headings, kinds = [_breakable(part.columns[0])], ""
        for place in range(1, len(part.columns)):
            kind = "r" if all(row[place].numeric for row in part.rows) else "l"
            lines = _heading(part, place)
            words = r"\\".join(map(latex_text, lines))
            headings.append(words if len(lines) == 1 else rf"\shortstack[{kind}]{{{words}}}")
            kinds += kind
        body = []
        for place, row in enumerate(part.rows):
            cells = [_breakable(row[0].whole), *(latex_text(cell.whole) for cell in row[1:])]
            body.append(
                _row([rf"\textbf{{{cell}}}" if place in part.strong and cell else cell for cell in cells])
            )
        # the notes to which this part refers, and, below the first, that of the whole table
        used = set(re.findall(r"\[(\d+)\]", " ".join(cell.whole for row in part.rows for cell in row[1:])))
        below = [f"[{place}] {text}" for place, text in enumerate(notes, start=1) if str(place) in used]
        below += [part.note] if part.note and number == 1 else []
        if below:
            text = r"\par ".join(map(_breakable, below))
            below = [r"\par\smallskip", rf"\parbox{{\linewidth}}{{\raggedright\scriptsize {text}}}"]
        first = rf"p{{{width:.2f}\linewidth}}"
        floats += [
            *([LATEX_MARK] if number == 1 else []),
            r"\begin{table}[tbp]",
            r"\centering\footnotesize\setlength{\tabcolsep}{3pt}",
            rf"\caption{{{_breakable(part.caption)}{again}}}\label{{tab:{label}{own}}}",
            rf"\begin{{tabular}}{{@{{}}>{{\raggedright\arraybackslash}}{first}{kinds}@{{}}}}",
            r"\toprule",
            _row(headings),
            r"\midrule",
            *body,
            r"\bottomrule",
            r"\end{tabular}",
            *below,
            r"\end{table}",
            "",
        ]
    return "\n".join(floats)


def latex_text(text: str) -> str:
    """A text that LaTeX sets as it is, on one line; letters that its own fonts lack are shown by number."""
    line = re.sub("-(?=-)", "-\0", _spelled(text))  # -- would become one dash
    return "".join("{}" if sign == "\0" else _SIGNS.get(sign, sign) for sign in line)


def _spelled(text: str) -> str:
    """On one line, with letters that LaTeX's own fonts lack by number."""
    return "".join(s if s in _SIGNS or _LETTERS.fullmatch(s) else f"U+{ord(s):04X}" for s in _line(text))


def _with_columns(table: Table, places: Sequence[int]) -> Table:
    rows = [[row[place] for place in places] for row in table.rows]
    return replace(table, columns=[table.columns[place] for place in places], rows=rows)


def _with_notes(table: Table) -> tuple[Table, list[str]]:
    """The table with the numbers of notes in place of what is long, and the notes.

    The quieter line of a name is left out where names differ without it: it says what a measure asks.
    """
    notes: list[str] = []
    names = [row[0].text for row in table.rows]
    differ = len(set(names)) == len(names)
    rows: list[list[Cell]] = []
    for row in table.rows:
        rows.append([replace(row[0], small="" if differ else row[0].small)])
        for cell in row[1:]:
            text = cell.whole
            if len(text) > _LONG:
                # a number stays where it is, and what stands small beside it becomes the note
                stays = cell.numeric and len(cell.text) + 4 <= _LONG
                note = cell.small if stays else text
                if note not in notes:
                    notes.append(note)
                mark = f"[{notes.index(note) + 1}]"
                text = f"{cell.text} {mark}" if stays else mark
            rows[-1].append(replace(cell, parts=(replace(cell.parts[0], text=text),), small=""))
    return replace(table, rows=rows), notes


def _parts(table: Table) -> Iterator[Table]:
    """The table in parts that each fit a page and a column of text; all begin with the names."""
    tallest = max((math.ceil(len(row[0].whole) / _NAME) for row in table.rows), default=1)
    many = max(1, _LINES // tallest)
    for start in range(0, max(1, len(table.rows)), many):
        strong = frozenset(place - start for place in table.strong if 0 <= place - start < many)
        part = replace(table, rows=table.rows[start : start + many], strong=strong)
        widths = [_width(part, place) for place in range(len(part.columns))]
        chosen = [0]
        for place in range(1, len(part.columns)):
            room = sum(widths[i] + _GAP for i in (*chosen, place))
            if len(chosen) > 1 and (len(chosen) == _COLUMNS or room > _WIDTH):
                yield _with_columns(part, chosen)
                chosen = [0]
            chosen.append(place)
        yield _with_columns(part, chosen)


def _width(table: Table, place: int) -> int:
    """Characters that a column needs; its heading wraps between words, and so do the names in the first."""
    cells = [row[place].whole for row in table.rows]
    if place == 0:
        return min(_NAME, max(map(len, (table.columns[0], *cells))))
    return max(map(len, ("", *cells, *_heading(table, place))))


def _heading(table: Table, place: int) -> list[str]:
    width = max((8, *(len(row[place].whole) for row in table.rows)))
    return wrap(table.columns[place], width, break_long_words=True) or [""]


def _row(cells: Sequence[str]) -> str:
    """A line; what begins like an argument of the line end before it does not stand for one."""
    first = "{}" if cells[0][:1] in ("[", "*") else ""
    return f"{first}{' & '.join(cells)} \\\\"


def _breakable(text: str) -> str:
    """A name that wraps also where it has no spaces; capitals and digits are wider than other letters."""
    words = []
    for word in text.split():
        wide = len(word) + 0.4 * sum(sign.isupper() or sign.isdigit() for sign in word)
        pieces = wrap(word, _NAME // 2, break_on_hyphens=False) if wide > _NAME else [word]
        words.append(r"\allowbreak{}".join(map(latex_text, pieces)))
    return " ".join(words)
