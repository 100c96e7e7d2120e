"""The files that triples come in, each read so that every complaint names the file and the line.

- `.jsonl`: ours, one triple a line with context, stereotype, anti, unrelated and optional id, target, topic
  and gender (F or M)
- `.csv` or `.tsv`, one next sentence a line or one triple a line: triples/tables.py
- `.json`: StereoSet's own dev.json
- `hub:stereoset`: the same through the package `datasets`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from levelhead.errors import BadProbe
from levelhead.probes.files import BadItem, Place, UnusableItem, parse_json, read_text, shown, usable
from levelhead.probes.triples.tables import read_table
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

HUB_NAMES = {"stereoset": "McGill-NLP/stereoset"}
OTHER_BIAS = "bias_type is not gender"

_KEYS = ("context", "stereotype", "anti", "unrelated")
_EXTRA_KEYS = ("id", "target", "gender", "topic")
_HUB_LABELS = ("anti-stereotype", "stereotype", "unrelated")  # the hub's ClassLabel 0, 1, 2


def read_triple_file(path: Path, strict: bool = False) -> TripleFile:
    """The triples of a file; its ending and its columns tell the form."""
    text = read_text(path, "Allowed: shipped, hub:stereoset, or a .jsonl, .csv, .tsv or .json file in UTF-8.")
    match path.suffix.lower():
        case ".jsonl":
            return _json_lines(path.name, text, strict)
        case ".json":
            return _stereoset_json(path.name, text, strict)
        case ".csv" | ".tsv":
            return read_table(path.name, text, "\t" if path.suffix.lower() == ".tsv" else ",", strict)
    raise BadProbe(f"{path.name}: triples come as .jsonl, .csv, .tsv or .json; rename or convert the file.")


def read_hub(name: str, strict: bool = False) -> TripleFile:
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
    return _stereoset_entries(f"hub:{name}", table, strict)


def _json_lines(name: str, text: str, strict: bool) -> TripleFile:
    lines = ((Place(name, n), line) for n, line in enumerate(text.split("\n"), start=1) if line.strip())
    left_out: list[UnusableItem] = []
    first: dict[str, int] = {}

    def triple(numbered: tuple[Place, str]) -> WrittenTriple:
        place, line = numbered
        written = _json_triple(place, line)
        known = first.setdefault(written.id, place.number)
        if known != place.number:
            complaint = f"id {written.id!r} is also in line {known}; ids must differ."
            raise BadItem(place, "its id is taken", complaint)
        return written

    triples = tuple(usable(lines, triple, left_out, strict))
    return TripleFile("pairs", triples, unusable=tuple(left_out))


def _json_triple(place: Place, line: str) -> WrittenTriple:
    record, reason, _ = parse_json(line)
    if reason:
        raise BadItem(place, "not JSON", f"{reason}; one triple a line with {', '.join(_KEYS)}.")
    if not isinstance(record, dict) or not all(isinstance(value, str) for value in record.values()):
        raise BadItem(place, "no triple", f"a triple is an object of texts with {', '.join(_KEYS)}.")
    known = (*_KEYS, *_EXTRA_KEYS)
    need_columns(place, record, _KEYS, known)
    unknown = [key for key in record if key not in known]
    if unknown:
        complaint = f"unknown {', '.join(unknown)}; allowed are {', '.join(known)}."
        raise BadItem(place, "an unknown key", complaint)
    texts = Texts(*full_texts(place, record, _KEYS))
    gender = gender_of_cell(place, record.get("gender", ""))
    return WrittenTriple(
        place, record.get("id") or str(place.number), record.get("target", ""), texts, gender
    )


def _stereoset_json(name: str, text: str, strict: bool) -> TripleFile:
    content, reason, line = parse_json(text)
    if reason:
        raise BadProbe(f"{name} line {line}: {reason}.")
    part = content.get("data") if isinstance(content, dict) else None
    entries = part.get("intersentence") if isinstance(part, dict) else None
    if not isinstance(entries, list):
        raise BadProbe(
            f"{name}: no list at data.intersentence, so not StereoSet; one triple a line is .jsonl."
        )
    return _stereoset_entries(name, entries, strict)


def _stereoset_entries(name: str, entries: Iterable[Any], strict: bool) -> TripleFile:
    numbered = [(Place(name, n, "entry"), entry) for n, entry in enumerate(entries, start=1)]
    kinds = Counter(_bias_type(entry) for _, entry in numbered)
    if not kinds["gender"]:
        came = ", ".join(sorted(kinds)) or "no entries"
        raise BadProbe(f"{name}: no entry has bias_type gender; it has {came}.")
    left_out: list[UnusableItem] = []
    about_gender = (item for item in numbered if _bias_type(item[1]) == "gender")
    triples = tuple(usable(about_gender, _stereoset_entry, left_out, strict))
    others = kinds.total() - kinds["gender"]
    problems = Counter({OTHER_BIAS: others} if others else {})
    return TripleFile("stereoset", triples, problems, tuple(left_out))


def _bias_type(entry: Any) -> str:
    """The bias an entry is about; one that does not say is read, and found wanting, as one about gender."""
    stated = entry.get("bias_type", "gender") if isinstance(entry, Mapping) else "gender"
    return stated if isinstance(stated, str) else "gender"


def _stereoset_entry(numbered: tuple[Place, Any]) -> WrittenTriple:
    place, entry = numbered
    if not isinstance(entry, Mapping):
        raise BadItem(place, "no entry", f"{shown(entry)} is no entry of StereoSet, which is an object.")
    need_columns(place, entry, ("target", "context", "sentences"), ("id", "bias_type"))
    pairs = list(labeled_sentences(place, entry["sentences"]))
    labels = [label for label, _ in pairs]
    if sorted(labels) != sorted(LABELS):
        complaint = f"labels {', '.join(labels)}; one each of {', '.join(LABELS)} is needed."
        raise BadItem(place, "not one sentence of each label", complaint)
    for key in ("target", "context"):
        if not isinstance(entry[key], str):
            raise BadItem(place, f"{key} is no text", f"{key} is {shown(entry[key])}; it must be a text.")
    cells = {"context": entry["context"], **dict(pairs)}
    texts = intersentence(place, Texts(*full_texts(place, cells, ("context", *LABELS))))
    return WrittenTriple(place, str(entry.get("id", place)), entry["target"], texts)


def labeled_sentences(place: Place, sentences: Any) -> Iterator[tuple[str, str]]:
    """(label, sentence) of an entry: a list of records, or, as the hub stores it, a record of lists."""
    records = _records(sentences) if isinstance(sentences, Mapping) else sentences
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
        yield label_of(place, label), text


def _records(lists: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """A record of two lists as a list of records; None if they are not two lists of one length."""
    labels, texts = lists.get("gold_label"), lists.get("sentence")
    if not isinstance(labels, list) or not isinstance(texts, list) or len(labels) != len(texts):
        return None
    return [{"gold_label": label, "sentence": text} for label, text in zip(labels, texts, strict=True)]
