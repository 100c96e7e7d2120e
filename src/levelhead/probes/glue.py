"""GLUE tasks as published: files of labeled sentences and sentence pairs (docs/method.md, GLUE).

    DIR/RTE/train.tsv   DIR/RTE/dev.tsv   DIR/CoLA/train.tsv ...     or hub:glue

Files are tab-separated without quoting; some have a byte-order mark, CoLA has no header. A line without a
text or a label is counted; a label that the task does not have is an error. SNLI, on which classifiers for
`--nli` are trained, is read as probes.nli reads it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from levelhead.errors import BadOption, BadProbe
from levelhead.probes.files import Place, check_length, read_text
from levelhead.probes.nli import ability_pairs
from levelhead.probes.nli.labels import LABELS

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
        """Whether the label is a score."""
        return not self.labels


_ENTAILMENT = ("entailment", "not_entailment")
_SENTENCES = ("sentence1", "sentence2")
TASKS: Mapping[str, GlueTask] = {
    task.name: task
    for task in (
        GlueTask("rte", "RTE", _SENTENCES, "label", _ENTAILMENT, ("accuracy",)),
        GlueTask("sst2", "SST-2", ("sentence",), "label", ("0", "1"), ("accuracy",)),
        GlueTask("wnli", "WNLI", _SENTENCES, "label", ("0", "1"), ("accuracy",)),
        GlueTask("qnli", "QNLI", ("question", "sentence"), "label", _ENTAILMENT, ("accuracy",)),
        GlueTask(
            "cola",
            "CoLA",
            ("sentence",),
            "label",
            ("0", "1"),
            ("matthews", "accuracy"),
            header=("source", "label", "mark", "sentence"),
        ),
        GlueTask("mrpc", "MRPC", ("#1 String", "#2 String"), "Quality", ("0", "1"), ("f1", "accuracy")),
        GlueTask("qqp", "QQP", ("question1", "question2"), "is_duplicate", ("0", "1"), ("f1", "accuracy")),
        GlueTask("stsb", "STS-B", _SENTENCES, "score", (), ("pearson", "spearman")),
        GlueTask(
            "mnli",
            "MNLI",
            _SENTENCES,
            "gold_label",
            ("entailment", "neutral", "contradiction"),
            ("accuracy",),
            dev="dev_matched.tsv",
        ),
    )
}
SNLI = GlueTask("snli", "", ("premise", "hypothesis"), "label", LABELS, ("accuracy",))
_SNLI_FILES: Mapping[Split, tuple[str, ...]] = {  # without its training part, SNLI's validation part trains
    "train": (
        "train.tsv",
        "snli_1.0_train.jsonl",
        "snli_1.0_train.txt",
        "validation.tsv",
        "snli_1.0_dev.jsonl",
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
        """sha256 of all examples."""
        digest = hashlib.sha256()
        for item in self.items:
            digest.update(repr((item.first, item.second, item.label)).encode())
        return digest.hexdigest()

    def spread(self, rows: int | None) -> GlueSplit:
        """So many examples, evenly spread over the file, for a quick look; None: all."""
        if rows is None or rows >= len(self.items):
            return self
        if rows < 2:
            raise BadOption(f"{rows} rows came; allowed are 2 and more.")
        items = tuple(self.items[i * len(self.items) // rows] for i in range(rows))
        _check_classes(self.task, items, f"{rows} rows of {self.source}")
        return GlueSplit(self.task, self.source, items, self.unusable)


def glue_task(name: str) -> GlueTask:
    """A task of GLUE by its name."""
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
        return _load_snli(split, data)
    if str(data).startswith("hub:"):
        source = f"{data}, {task.name}, {split}"
        lines: Iterable[_Line] = _hub_lines(task, split, str(data).removeprefix("hub:"))
    else:
        path = _file(task, split, Path(data).expanduser())
        source, lines = str(path), _file_lines(task, path)
    items: list[GlueItem] = []
    unusable: Counter[str] = Counter()
    for where, cells in lines:
        texts = [(cells.get(name) or "").strip() for name in task.texts]
        written = (cells.get(task.label) or "").strip()
        if not all(texts):
            unusable["line without a text"] += 1
        elif written in _NO_LABEL:
            unusable["line without a label"] += 1
        else:
            second = texts[1] if len(texts) > 1 else None
            items.append(GlueItem(texts[0], second, _label(task, written, where)))
    if not items:
        reasons = ", ".join(f"{reason}: {n}" for reason, n in unusable.items())
        raise BadProbe(f"{source} has no usable example ({reasons or 'it is empty'}). Is it the right file?")
    _check_classes(task, items, source)
    return GlueSplit(task, source, tuple(items), dict(unusable))


def _label(task: GlueTask, written: str, where: str) -> float:
    """The number of a class, or a score from 0 to 5."""
    if not task.regression:
        if written not in task.labels:
            raise BadProbe(f"{where}: label {written[:40]!r}; allowed are {', '.join(task.labels)}.")
        return float(task.labels.index(written))
    try:
        score = float(written)
    except ValueError:
        score = -1.0
    if not 0 <= score <= 5:
        raise BadProbe(f"{where}: score {written[:40]!r}; allowed are numbers from 0 to 5.")
    return score


def _check_classes(task: GlueTask, items: Sequence[GlueItem], source: str) -> None:
    if len({item.label for item in items}) < 2:
        kind = "score" if task.regression else "class"
        raise BadProbe(f"{source} has examples of one {kind} only; nothing can be learned from it.")


# ---- where the lines come from


def _file(task: GlueTask, split: Split, folder: Path) -> Path:
    return folder / task.folder / ("train.tsv" if split == "train" else task.dev)


def _file_lines(task: GlueTask, path: Path) -> Iterator[_Line]:
    """Lines of a file as cells by column."""
    text = read_text(path, f"Give a folder that has {task.folder}/{path.name}.")
    lines = [line.rstrip("\r").split("\t") for line in text.split("\n")]
    columns = list(task.header) if task.header else lines.pop(0)
    if missing := [name for name in (*task.texts, task.label) if name not in columns]:
        raise BadProbe(f"{path} has no column {missing[0]!r}; it has {', '.join(columns)[:120] or 'none'}.")
    for number, cells in enumerate(lines, start=1 if task.header else 2):
        if cells != [""]:
            check_length(cells, Place(str(path), number))
            yield f"{path}, line {number}", dict(zip(columns, cells, strict=False))


def _hub_lines(task: GlueTask, split: Split, name: str) -> Iterator[_Line]:
    try:
        from datasets import load_dataset
    except ImportError:
        raise BadProbe(
            f"hub:{name} needs datasets: pip install 'levelhead[hub]', or pass a folder."
        ) from None
    part = "train" if split == "train" else "validation_matched" if task.name == "mnli" else "validation"
    try:
        table = load_dataset(_HUB_NAMES.get(name, name), task.name, split=part)
    except Exception as error:  # the hub's client has no common parent for its errors
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
        raise BadProbe(
            f"hub:{name} did not load ({reason}). Check the name and network, or pass a folder."
        ) from error
    columns = _HUB_COLUMNS.get(task.name, {})
    for number, example in enumerate(table):
        cells = {column: str(example[columns.get(column, column)]) for column in task.texts}
        label = example["label"]
        numbered = task.regression or not 0 <= int(label) < len(task.labels)
        cells[task.label] = str(label) if numbered else task.labels[int(label)]
        yield f"hub:{name}, {task.name}, entry {number}", cells


def _load_snli(split: Split, data: str | Path) -> GlueSplit:
    """SNLI; its test part stands for dev."""
    if str(data).startswith("hub:"):
        source = f"{data}@{'train' if split == 'train' else 'test'}"
    else:
        folder = Path(data).expanduser()
        files = [folder / name for name in _SNLI_FILES[split]]
        path = next((file for file in files if file.is_file()), None)
        if path is None:
            raise BadProbe(
                f"{folder} has none of {', '.join(_SNLI_FILES[split])}. Give a folder that has one."
            )
        source = str(path)
    pairs = ability_pairs(source)
    items = (GlueItem(p.premise, p.hypothesis, float(LABELS.index(p.label))) for p in pairs.pairs)
    return GlueSplit(SNLI, source, tuple(items), dict(pairs.skipped))
