"""GLUE tasks as published: files of labeled sentences and sentence pairs (docs/method/sentences.md, GLUE).

    DIR/RTE/train.tsv   DIR/RTE/dev.tsv   DIR/CoLA/train.tsv ...     or hub:glue

Files are tab-separated without quoting; some have a byte-order mark, CoLA has no header. A line without a
text or a label is counted; a label that the task does not have is an error. SNLI, on which classifiers for
`--nli` are trained, is read as probes.nli reads it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

from levelhead.errors import BadOption, BadProbe
from levelhead.probes import evenly, shipped_toml
from levelhead.probes.files import Place, check_length, hub_table, read_text
from levelhead.probes.nli import LABELS, ability_pairs

Metric = Literal["accuracy", "f1", "matthews", "pearson", "spearman"]
Split = Literal["train", "dev"]
_PARTS: tuple[Split, ...] = ("train", "dev")


@dataclass(frozen=True)
class GlueTask:
    """One task: where its columns are, what its labels mean, how it is scored (the first metric counts)."""

    name: str
    folder: str
    texts: tuple[str, ...]  # names of one or two columns
    label: str
    labels: tuple[str, ...]  # as the files write them; none for a score
    metrics: tuple[Metric, ...]
    header: tuple[str, ...] = ()  # of files that have none
    dev: str = "dev.tsv"

    @property
    def regression(self) -> bool:
        return not self.labels


TASKS: Mapping[str, GlueTask] = TypeAdapter(dict[str, GlueTask]).validate_python(
    {name: {"name": name, **task} for name, task in shipped_toml("glue/tasks").items()}
)
SNLI = GlueTask("snli", "", ("premise", "hypothesis"), "label", LABELS, ("accuracy",))
_SNLI_FILES: Mapping[Split, tuple[str, ...]] = {  # without its training part, SNLI's validation part trains
    "train": (
        *("train.tsv", "snli_1.0_train.jsonl", "snli_1.0_train.txt"),
        *("validation.tsv", "snli_1.0_dev.jsonl"),
    ),
    "dev": ("test.tsv", "snli_1.0_test.jsonl", "snli_1.0_test.txt"),
}
_HUB_NAMES = {"glue": "nyu-mll/glue"}
_HUB_COLUMNS: Mapping[str, Mapping[str, str]] = {
    "mrpc": {"#1 String": "sentence1", "#2 String": "sentence2"},
    "mnli": {"sentence1": "premise", "sentence2": "hypothesis"},
}
_NO_LABEL = ("", "-", "-1")
_Line = tuple[str, Mapping[str, str]]  # where it stands, its cells by column


@dataclass(frozen=True)
class GlueItem:
    """One labeled example; the label is the number of its class, or a score."""

    first: str
    second: str | None
    label: float


@dataclass(frozen=True)
class GlueSplit:
    """The examples of one file, and what of it could not be used."""

    task: GlueTask
    source: str
    items: tuple[GlueItem, ...]
    unusable: Mapping[str, int]  # reason -> lines

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for item in self.items:
            digest.update(repr((item.first, item.second, item.label)).encode())
        return digest.hexdigest()

    def spread(self, rows: int | None) -> GlueSplit:
        """So many examples, evenly spread over the file, for a quick run; None: all."""
        if rows is None or rows >= len(self.items):
            return self
        if rows < 2:
            raise BadOption(f"rows must be at least 2 (got {rows})")
        items = evenly(self.items, rows)
        _check_classes(self.task, items, f"{rows} rows of {self.source}")
        return GlueSplit(self.task, self.source, items, self.unusable)


def glue_task(name: str) -> GlueTask:
    try:
        return TASKS[name.strip().lower().replace("-", "")]
    except KeyError:
        raise BadOption(f"There is no GLUE task {name[:40]!r}. Known are {', '.join(TASKS)}.") from None


def tasks_at_hand(data: str | Path) -> list[str]:
    """Tasks of which a folder has both parts, in the order of TASKS."""
    folder = Path(data).expanduser()
    return [
        name for name, task in TASKS.items() if all(_file(task, part, folder).is_file() for part in _PARTS)
    ]


def load_task(task: GlueTask, split: Split, data: str | Path) -> GlueSplit:
    """The examples of a task from a folder as published, or from the hub (hub:glue, hub:snli)."""
    if task is SNLI:
        if str(data).startswith("hub:"):
            source = f"{data}@{'train' if split == 'train' else 'test'}"
        else:
            folder, names = Path(data).expanduser(), _SNLI_FILES[split]
            found = next((folder / name for name in names if (folder / name).is_file()), None)
            if found is None:
                raise BadProbe(f"{folder} has none of {', '.join(names)}. Give a folder that has one.")
            source = str(found)
        pairs = ability_pairs(source)
        of_pairs = (GlueItem(p.premise, p.hypothesis, float(LABELS.index(p.label))) for p in pairs.pairs)
        return GlueSplit(SNLI, source, tuple(of_pairs), dict(pairs.skipped))
    on_hub = str(data).startswith("hub:")
    source = f"{data}, {task.name}, {split}" if on_hub else str(_file(task, split, Path(data).expanduser()))
    items: list[GlueItem] = []
    unusable: Counter[str] = Counter()
    for where, cells in _hub_lines(task, split, str(data)) if on_hub else _file_lines(task, Path(source)):
        texts = [(cells.get(name) or "").strip() for name in task.texts]
        written = (cells.get(task.label) or "").strip()
        if not all(texts):
            unusable["line without a text"] += 1
        elif written in _NO_LABEL:
            unusable["line without a label"] += 1
        else:
            if not task.regression:
                if written not in task.labels:
                    raise BadProbe(f"{where}: label {written[:40]!r}; allowed are {', '.join(task.labels)}.")
                label = float(task.labels.index(written))
            else:
                try:
                    label = float(written)
                except ValueError:
                    label = -1.0
                if not 0 <= label <= 5:
                    raise BadProbe(f"{where}: score {written[:40]!r}; allowed are numbers from 0 to 5.")
            items.append(GlueItem(texts[0], texts[1] if len(texts) > 1 else None, label))
    if not items:
        reasons = ", ".join(f"{reason}: {n}" for reason, n in unusable.items())
        raise BadProbe(f"{source} has no usable example ({reasons or 'it is empty'}). Is it the right file?")
    _check_classes(task, items, source)
    return GlueSplit(task, source, tuple(items), dict(unusable))


def _check_classes(task: GlueTask, items: Sequence[GlueItem], source: str) -> None:
    if len({item.label for item in items}) < 2:
        kind = "score" if task.regression else "class"
        raise BadProbe(f"{source} has examples of one {kind} only; nothing can be learned from it.")


def _file(task: GlueTask, split: Split, folder: Path) -> Path:
    return folder / task.folder / ("train.tsv" if split == "train" else task.dev)


def _file_lines(task: GlueTask, path: Path) -> Iterator[_Line]:
    text = read_text(path, f"Give a folder that has {task.folder}/{path.name}.")
    lines = [line.rstrip("\r").split("\t") for line in text.split("\n")]
    columns = list(task.header) if task.header else lines.pop(0)
    if missing := [name for name in (*task.texts, task.label) if name not in columns]:
        raise BadProbe(f"{path} has no column {missing[0]!r}; it has {', '.join(columns)[:120] or 'none'}.")
    for number, cells in enumerate(lines, start=1 if task.header else 2):
        if cells != [""]:
            check_length(cells, Place(str(path), number))
            yield f"{path}, line {number}", dict(zip(columns, cells, strict=False))


def _hub_lines(task: GlueTask, split: Split, source: str) -> Iterator[_Line]:
    name = source.removeprefix("hub:")
    part = "train" if split == "train" else "validation_matched" if task.name == "mnli" else "validation"
    table = hub_table(source, "folder", _HUB_NAMES.get(name, name), task.name, split=part)
    columns = _HUB_COLUMNS.get(task.name, {})
    for number, example in enumerate(table):
        cells = {column: str(example[columns.get(column, column)]) for column in task.texts}
        label = example["label"]
        numbered = task.regression or not 0 <= int(label) < len(task.labels)
        cells[task.label] = str(label) if numbered else task.labels[int(label)]
        yield f"{source}, {task.name}, entry {number}", cells
