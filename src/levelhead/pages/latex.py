"""Tables for a paper: booktabs, narrow enough for a column of two, and nothing that pdflatex refuses.

A table has at most six columns, as wide as a column of text at \\footnotesize; further columns follow in a
second table beside the same names, further rows in the next. What is long stands in notes below, by number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from textwrap import wrap

from levelhead.pages.tables import NOTHING, Cell, Table

MARK = r"% levelhead: needs \usepackage{array,booktabs}"
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


def latex_table(table: Table) -> str:
    """A table as one or more floats, the first with the table's name as its label."""
    table, notes = _with_notes(_spelled_out(_without_empty_columns(table)))
    parts = [part for rows in _pages(table) for part in _panels(rows)]
    return "\n".join(_float(part, notes, number) for number, part in enumerate(parts, start=1))


def latex_text(text: str) -> str:
    """A text that LaTeX sets as it is, on one line; letters that its own fonts lack are shown by number."""
    line = re.sub("-(?=-)", "-\0", _spelled(text))  # -- would become one dash
    return "".join("{}" if sign == "\0" else _SIGNS.get(sign, sign) for sign in line)


def _spelled(text: str) -> str:
    """On one line, with letters that LaTeX's own fonts lack by number."""
    line = " ".join(text.split())
    return "".join(s if s in _SIGNS or _LETTERS.fullmatch(s) else f"U+{ord(s):04X}" for s in line)


# ---- what does not fit


def _spelled_out(table: Table) -> Table:
    """The table with letters by number where LaTeX lacks them, and small p as papers print them."""

    def spelled(cell: Cell) -> Cell:
        text = "< 0.001" if cell.numeric and _SMALL_P.fullmatch(cell.text) else _spelled(cell.text)
        return replace(cell, parts=(replace(cell.parts[0], text=text),), small=_spelled(cell.small))

    rows = [[spelled(cell) for cell in row] for row in table.rows]
    columns, note = [_spelled(name) for name in table.columns], _spelled(table.note)
    return replace(table, caption=_spelled(table.caption), columns=columns, rows=rows, note=note)


def _without_empty_columns(table: Table) -> Table:
    places = range(len(table.columns))
    said = [i for i in places if i == 0 or any(row[i].whole != NOTHING for row in table.rows)]
    rows = [[row[i] for i in said] for row in table.rows]
    return replace(table, columns=[table.columns[i] for i in said], rows=rows)


def _with_notes(table: Table) -> tuple[Table, list[str]]:
    """The table with the numbers of notes in place of what is long, and the notes.

    The quieter line of a name is left out where names differ without it: it says what a measure asks.
    """
    notes: list[str] = []
    names = [row[0].text for row in table.rows]
    differ = len(set(names)) == len(names)

    def marked(text: str) -> str:
        if text not in notes:
            notes.append(text)
        return f"[{notes.index(text) + 1}]"

    def short(cell: Cell) -> Cell:
        if len(cell.whole) <= _LONG:
            return replace(cell, parts=(replace(cell.parts[0], text=cell.whole),), small="")
        numbered = cell.numeric and len(cell.text) + 4 <= _LONG
        text = f"{cell.text} {marked(cell.small)}" if numbered else marked(cell.whole)
        return replace(cell, parts=(replace(cell.parts[0], text=text),), small="")

    rows = [
        [replace(row[0], small="" if differ else row[0].small), *(short(cell) for cell in row[1:])]
        for row in table.rows
    ]
    return replace(table, rows=rows), notes


def _pages(table: Table) -> Iterator[Table]:
    """The table in parts of so many lines that each fits a page."""
    tallest = max((math.ceil(len(row[0].whole) / _NAME) for row in table.rows), default=1)
    many = max(1, _LINES // tallest)
    for start in range(0, max(1, len(table.rows)), many):
        strong = frozenset(place - start for place in table.strong if 0 <= place - start < many)
        yield replace(table, rows=table.rows[start : start + many], strong=strong)


def _panels(table: Table) -> Iterator[Table]:
    """The table in parts of so many columns that each fits a column of text; all begin with the names."""
    widths = [_width(table, place) for place in range(len(table.columns))]
    chosen = [0]
    for place in range(1, len(table.columns)):
        room = sum(widths[i] + _GAP for i in (*chosen, place))
        if len(chosen) > 1 and (len(chosen) == _COLUMNS or room > _WIDTH):
            yield _part(table, chosen)
            chosen = [0]
        chosen.append(place)
    yield _part(table, chosen)


def _part(table: Table, places: Sequence[int]) -> Table:
    rows = [[row[place] for place in places] for row in table.rows]
    return replace(table, columns=[table.columns[place] for place in places], rows=rows)


def _width(table: Table, place: int) -> int:
    """Characters that a column needs; its heading wraps between words, and so do the names in the first."""
    cells = [row[place].whole for row in table.rows]
    if place == 0:
        return min(_NAME, max(map(len, (table.columns[0], *cells))))
    return max(map(len, ("", *cells, *_heading(table.columns[place], cells))))


def _heading(title: str, cells: Sequence[str]) -> list[str]:
    return wrap(title, max((8, *map(len, cells))), break_long_words=True) or [""]


# ---- what is written


def _float(table: Table, notes: Sequence[str], number: int) -> str:
    caption, label = _breakable(table.caption), re.sub("[^A-Za-z0-9]+", "-", table.name)
    again = "" if number == 1 else f" (continued, {number})"
    own = "" if number == 1 else f"-{number}"
    width = _width(table, 0) / _WIDTH
    others = range(1, len(table.columns))
    kinds = "".join("r" if all(row[place].numeric for row in table.rows) else "l" for place in others)
    lines = [
        MARK if number == 1 else "",
        r"\begin{table}[tbp]",
        r"\centering\footnotesize\setlength{\tabcolsep}{3pt}",
        rf"\caption{{{caption}{again}}}\label{{tab:{label}{own}}}",
        rf"\begin{{tabular}}{{@{{}}>{{\raggedright\arraybackslash}}p{{{width:.2f}\linewidth}}{kinds}@{{}}}}",
        r"\toprule",
        _line([_breakable(table.columns[0]), *(_stacked(table, place, kinds) for place in others)]),
        r"\midrule",
        *(_row(row, place in table.strong) for place, row in enumerate(table.rows)),
        r"\bottomrule",
        r"\end{tabular}",
        *_note_lines(table, notes, number),
        r"\end{table}",
        "",
    ]
    return "\n".join(lines[not lines[0] :])


def _row(row: Sequence[Cell], strong: bool) -> str:
    cells = [_breakable(row[0].whole), *(latex_text(cell.whole) for cell in row[1:])]
    return _line([rf"\textbf{{{cell}}}" if strong and cell else cell for cell in cells])


def _line(cells: Sequence[str]) -> str:
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


def _stacked(table: Table, place: int, kinds: str) -> str:
    lines = _heading(table.columns[place], [row[place].whole for row in table.rows])
    words = r"\\".join(map(latex_text, lines))
    return words if len(lines) == 1 else rf"\shortstack[{kinds[place - 1]}]{{{words}}}"


def _note_lines(table: Table, notes: Sequence[str], number: int) -> Iterator[str]:
    """The notes to which this part refers, and, below the first, that of the whole table."""
    used = set(re.findall(r"\[(\d+)\]", " ".join(cell.whole for row in table.rows for cell in row[1:])))
    said = [f"[{place}] {note}" for place, note in enumerate(notes, start=1) if str(place) in used]
    said += [table.note] if table.note and number == 1 else []
    if said:
        text = r"\par ".join(map(_breakable, said))
        yield r"\par\smallskip"
        yield rf"\parbox{{\linewidth}}{{\raggedright\scriptsize {text}}}"
