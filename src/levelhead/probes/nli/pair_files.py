"""Files of labeled pairs: SNLI in the forms it is published in, and tables of the user's own.

A TSV has premise, hypothesis, label (a name, or 0 entailment, 1 neutral, 2 contradiction); SNLI's own .jsonl
and .txt have sentence1, sentence2, gold_label; tables of the Hugging Face hub have either.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from levelhead.errors import BadProbe

_COLUMNS = (("premise", "hypothesis", "label"), ("sentence1", "sentence2", "gold_label"))
_FOLDER_FILES = ("test.tsv", "snli_1.0_test.jsonl", "snli_1.0_test.txt")
_HUB_NAMES = {"snli": "stanfordnlp/snli"}

_Record = tuple[str, Mapping[str, object]]  # where it stands, its cells by column


class WrittenPair(NamedTuple):
    """A premise, a hypothesis and a label as a file writes them, and where they stand in it."""

    where: str
    premise: str
    hypothesis: str
    label: str


def file_pairs(path: Path) -> Iterator[WrittenPair]:
    """The pairs of a file, or of the file in a folder that holds SNLI's test part."""
    path = _data_file(path)
    # Line by line, not as one CSV stream: a stray quotation mark then spoils one line, not the rest.
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise BadProbe(
            f"{path} is not readable UTF-8 text ({error}). Pass a .tsv, .jsonl or .txt file."
        ) from error
    numbered = [(f"{path}, line {n}", line.rstrip("\r")) for n, line in enumerate(lines, 1) if line.strip()]
    if not numbered:
        raise BadProbe(f"{path} is empty. Expected a header and labeled pairs.")
    records = (_json_records if numbered[0][1].startswith("{") else _tsv_records)(numbered)
    for where, record in records:
        yield WrittenPair(where, *_columns(record, where))


def hub_pairs(name: str) -> Iterator[WrittenPair]:
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
    names = getattr(table.features.get("label"), "names", None)
    for n, record in enumerate(table):
        where = f"hub:{name}, entry {n}"
        premise, hypothesis, label = _columns(record, where)
        # The table's own names beat the order 0, 1, 2, which other NLI sets do not share.
        named = names[int(label)] if names and label.isdecimal() else label
        yield WrittenPair(where, premise, hypothesis, named)


def _data_file(path: Path) -> Path:
    if path.is_dir():
        path = next((path / file for file in _FOLDER_FILES if (path / file).is_file()), path)
    if not path.is_file():
        raise BadProbe(
            f"No pairs at {path}. Pass a file, a folder with {', '.join(_FOLDER_FILES)}, or hub:snli."
        )
    return path


def _json_records(numbered: Sequence[tuple[str, str]]) -> Iterator[_Record]:
    for where, line in numbered:
        try:
            yield where, dict(json.loads(line))
        except (ValueError, TypeError) as error:
            raise BadProbe(
                f"{where}: {line[:40]!r} is not a JSON object. Expected one object a line."
            ) from error


def _tsv_records(numbered: Sequence[tuple[str, str]]) -> Iterator[_Record]:
    header = numbered[0][1].split("\t")
    _columns(dict.fromkeys(header, ""), numbered[0][0])
    # SNLI's own .txt is unquoted; tables written by csv libraries quote a cell and double its quotes.
    quoted = re.compile(r"(?!)" if "gold_label" in header else r'"((?:[^"]|"")*)"')
    for where, line in numbered[1:]:
        cells = [
            m[1].replace('""', '"') if (m := quoted.fullmatch(cell)) else cell for cell in line.split("\t")
        ]
        if len(cells) != len(header):
            raise BadProbe(
                f"{where}: {len(cells)} columns, the header has {len(header)}. Separate them by one tab."
            )
        yield where, dict(zip(header, cells, strict=True))


def _columns(record: Mapping[str, object], where: str) -> tuple[str, str, str]:
    for names in _COLUMNS:
        if set(names) <= record.keys():
            premise, hypothesis, label = ("" if record[k] is None else str(record[k]).strip() for k in names)
            return premise, hypothesis, label
    known = " or ".join(", ".join(names) for names in _COLUMNS)
    raise BadProbe(f"{where}: columns {', '.join(map(str, record))}. Expected {known}.")
