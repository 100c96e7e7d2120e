"""Files of labeled pairs: SNLI in the forms it is published in, and tables of the user's own.

A TSV has premise, hypothesis, label (a name, or 0 entailment, 1 neutral, 2 contradiction); SNLI's own .jsonl
and .txt have sentence1, sentence2, gold_label; tables of the Hugging Face hub have either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from levelhead.errors import BadProbe
from levelhead.probes.files import BadItem, Place, UnusableItem, is_whole, parse_json, read_text, usable

_COLUMNS = (("premise", "hypothesis", "label"), ("sentence1", "sentence2", "gold_label"))
_EXPECTED = " or ".join(", ".join(names) for names in _COLUMNS)
_FOLDER_FILES = ("test.tsv", "snli_1.0_test.jsonl", "snli_1.0_test.txt")
_HUB_NAMES = {"snli": "stanfordnlp/snli"}

_Line = tuple[Place, str]


class WrittenPair(NamedTuple):
    """A premise, a hypothesis and a label as a file writes them, and where they stand in it."""

    place: Place
    premise: str
    hypothesis: str
    label: str


def file_pairs(path: Path, left_out: list[UnusableItem], strict: bool = False) -> Iterator[WrittenPair]:
    """The pairs of a file, or of SNLI's test file in a folder; bad lines go to left_out."""
    path = _data_file(path)
    # Line by line, not as one CSV stream: a stray quotation mark then spoils one line, not the rest.
    lines = read_text(path, "Pass a .tsv, .jsonl or .txt file in UTF-8.").split("\n")
    numbered = [(Place(str(path), n), line.rstrip("\r")) for n, line in enumerate(lines, 1) if line.strip()]
    if not numbered:
        raise BadProbe(f"{path} is empty. Expected a header and labeled pairs.")
    if numbered[0][1].startswith("{"):
        return usable(numbered, _json_pair, left_out, strict)
    return usable(numbered[1:], _tsv_reader(numbered[0]), left_out, strict)


def hub_pairs(name: str, left_out: list[UnusableItem], strict: bool = False) -> Iterator[WrittenPair]:
    """The pairs of a table of the Hugging Face hub; `name` is what follows `hub:`."""
    try:
        import datasets
    except ImportError as error:
        raise BadProbe(f"hub:{name} needs datasets: pip install 'levelhead[hub]', or pass a file.") from error
    repository, _, split = name.partition("@")
    try:
        table = datasets.load_dataset(_HUB_NAMES.get(repository, repository), split=split or "test")
    except Exception as error:  # the hub's client has no common parent for its errors
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
        raise BadProbe(
            f"hub:{name} did not load ({reason}). Check the name and network, or pass a file."
        ) from error
    names = getattr(table.features.get("label"), "names", None) or ()

    def pair(numbered: tuple[int, Mapping[str, object]]) -> WrittenPair:
        written = _pair(Place(f"hub:{name}", numbered[0], "entry"), numbered[1])
        known = written.label.isdecimal() and int(written.label) < len(names)
        # The table's own names beat the order 0, 1, 2, which other NLI sets do not share.
        return written._replace(label=names[int(written.label)]) if known else written

    return usable(enumerate(table, start=1), pair, left_out, strict)


def _data_file(path: Path) -> Path:
    if path.is_dir():
        path = next((path / file for file in _FOLDER_FILES if (path / file).is_file()), path)
    if not path.is_file():
        raise BadProbe(
            f"No pairs at {path}. Pass a file, a folder with {', '.join(_FOLDER_FILES)}, or hub:snli."
        )
    return path


def _json_pair(line: _Line) -> WrittenPair:
    place, text = line
    record, reason, _ = parse_json(text)
    if reason or not isinstance(record, dict):
        complaint = f"{text[:40]!r} is {reason or 'not a JSON object'}. Expected one object a line."
        raise BadItem(place, "not a JSON object", complaint)
    return _pair(place, record)


def _tsv_reader(header_line: _Line) -> Callable[[_Line], WrittenPair]:
    """What reads a line of a table with this header."""
    header = header_line[1].split("\t")
    _pair(header_line[0], dict.fromkeys(header, ""))
    # SNLI's own .txt is unquoted; tables written by csv libraries quote a cell and double its quotes.
    quoted = re.compile(r"(?!)" if "gold_label" in header else r'"((?:[^"]|"")*)"')

    def pair(line: _Line) -> WrittenPair:
        place, text = line
        cells = [
            m[1].replace('""', '"') if (m := quoted.fullmatch(cell)) else cell for cell in text.split("\t")
        ]
        if len(cells) != len(header):
            complaint = f"{len(cells)} columns, the header has {len(header)}. Separate them by one tab."
            raise BadItem(place, "another number of columns than the header", complaint)
        return _pair(place, dict(zip(header, cells, strict=True)))

    return pair


def _pair(place: Place, record: Mapping[str, object]) -> WrittenPair:
    columns = next((names for names in _COLUMNS if set(names) <= record.keys()), None)
    if columns is None:
        complaint = f"columns {', '.join(map(str, record))[:120]}. Expected {_EXPECTED}."
        raise BadItem(place, "a column is missing", complaint)
    premise, hypothesis, label = ("" if record[k] is None else str(record[k]).strip() for k in columns)
    if not is_whole(premise + hypothesis):
        complaint = "a text has half a character (a lone surrogate, \\ud800 to \\udfff). Write it whole."
        raise BadItem(place, "half a character", complaint)
    return WrittenPair(place, premise, hypothesis, label)
