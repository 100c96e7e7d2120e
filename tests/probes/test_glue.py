"""GLUE's files as published: every column, the byte-order mark, and one line for whatever is wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from levelhead.errors import BadOption, BadProbe
from levelhead.probes.glue import SNLI, TASKS, glue_task, load_task, tasks_at_hand
from tests.glue_files import write_glue, write_snli

SHARED = next(
    (p / "shared/data/glue" for p in Path(__file__).parents if (p / "shared/data/glue").is_dir()), None
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_glue(tmp_path / "glue")


def test_every_task_of_the_benchmark_is_known_with_its_metric_of_the_papers_table_2() -> None:
    first = {name: task.metrics[0] for name, task in TASKS.items()}
    assert first == {
        "rte": "accuracy",
        "sst2": "accuracy",
        "wnli": "accuracy",
        "qnli": "accuracy",
        "cola": "matthews",
        "mrpc": "f1",
        "qqp": "f1",
        "stsb": "pearson",
        "mnli": "accuracy",
    }
    assert TASKS["stsb"].metrics == ("pearson", "spearman")
    assert TASKS["mrpc"].metrics == TASKS["qqp"].metrics == ("f1", "accuracy")
    assert [name for name, task in TASKS.items() if task.regression] == ["stsb"]


@pytest.mark.parametrize("name", ["sst2", "SST-2", " STS-B "])
def test_names_are_read_as_people_write_them(name: str) -> None:
    assert glue_task(name).name == name.strip().lower().replace("-", "")


def test_an_unknown_task_is_one_line() -> None:
    with pytest.raises(BadOption, match=r"no GLUE task 'ax'\. Known are rte, sst2"):
        glue_task("ax")


@pytest.mark.parametrize("name", ["rte", "sst2", "cola", "mrpc", "stsb"])
def test_files_of_each_form_are_read(folder: Path, name: str) -> None:
    train, dev = (load_task(TASKS[name], part, folder) for part in ("train", "dev"))
    assert (len(train.items), len(dev.items)) == (24, 16)
    assert train.unusable == {}
    assert all("\ufeff" not in item.first and item.first.startswith("the ") for item in train.items)
    assert all((item.second is None) == (name in ("sst2", "cola")) for item in train.items)
    labels = {item.label for item in train.items}
    assert labels == ({0.0, 0.5, 1.0, 4.0, 4.5, 5.0} if name == "stsb" else {0.0, 1.0})


def test_the_first_class_of_rte_is_entailment(folder: Path) -> None:
    items = load_task(TASKS["rte"], "train", folder).items
    by_label = {TASKS["rte"].labels[int(item.label)]: item for item in items}
    nurse = by_label["entailment"]
    assert nurse.second is not None
    assert nurse.second.split()[1] == nurse.first.split()[1]


def test_tasks_at_hand_have_both_parts(folder: Path) -> None:
    assert tasks_at_hand(folder) == ["rte", "sst2", "cola", "mrpc", "stsb"]
    (folder / "RTE" / "train.tsv").unlink()
    assert "rte" not in tasks_at_hand(folder)


def test_lines_without_a_text_or_a_label_are_counted(folder: Path) -> None:
    path = folder / "RTE" / "dev.tsv"
    path.write_text(path.read_text() + "90\t\tb\tentailment\n91\ta\tb\t-\n92\ta\n", encoding="utf-8")
    dev = load_task(TASKS["rte"], "dev", folder)
    assert len(dev.items) == 16
    assert dev.unusable == {"line without a text": 2, "line without a label": 1}


def test_a_quick_look_takes_examples_from_all_over_the_file(folder: Path) -> None:
    train = load_task(TASKS["sst2"], "train", folder)
    assert [item.first for item in train.spread(4).items] == [train.items[i].first for i in (0, 6, 12, 18)]
    assert train.spread(None) == train.spread(99) == train
    assert train.spread(8).fingerprint != train.fingerprint
    with pytest.raises(BadOption, match=r"rows must be at least 2 \(got 1\)"):
        train.spread(1)


def replaced(old: str, new: str) -> Callable[[Path], object]:
    def damage(path: Path) -> object:
        return path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")

    return damage


@pytest.mark.parametrize(
    ("task", "damage", "line"),
    [
        ("rte", replaced("sentence2", "hypothesis"), "has no column 'sentence2'; it has index, sentence1"),
        (
            "rte",
            replaced("not_entailment", "neutral"),
            r"line 2: label 'neutral'; allowed are entailment, not_",
        ),
        ("rte", replaced("not_entailment", "entailment"), "has examples of one class only"),
        ("rte", lambda path: path.write_text("index\tsentence1\tsentence2\tlabel\n"), "no usable example"),
        ("rte", lambda path: path.write_text(""), "has no column 'sentence1'; it has none"),
        ("rte", lambda path: path.unlink(), r"cannot be read \(No such file.*Give a folder that has RTE/dev"),
        ("rte", lambda path: path.write_bytes(b"\xff\xfe\x00"), "not UTF-8"),
        ("cola", lambda path: path.write_text(""), r"no usable example \(it is empty\)"),
        ("cola", replaced("own\t1", "own\tyes"), "label 'yes'; allowed are 0, 1"),
        ("stsb", replaced("4.500", "6.5"), "score '6.5'; allowed are numbers from 0 to 5"),
        ("stsb", replaced("4.500", "high"), "score 'high'; allowed are numbers from 0 to 5"),
        ("stsb", replaced("4.500", "nan"), "score 'nan'; allowed are numbers from 0 to 5"),
    ],
)
def test_a_damaged_file_is_one_line(
    folder: Path, task: str, damage: Callable[[Path], object], line: str
) -> None:
    damage(folder / TASKS[task].folder / "dev.tsv")
    with pytest.raises(BadProbe, match=line) as error:
        load_task(TASKS[task], "dev", folder)
    assert "\n" not in str(error.value)


# ---- SNLI


def test_snli_is_read_and_its_validation_part_trains_where_there_is_no_other(tmp_path: Path) -> None:
    folder = write_snli(tmp_path)
    assert load_task(SNLI, "train", folder).source == str(folder / "train.tsv")
    (folder / "train.tsv").rename(folder / "validation.tsv")
    train, dev = load_task(SNLI, "train", folder), load_task(SNLI, "dev", folder)
    assert (train.source, len(train.items)) == (str(folder / "validation.tsv"), 30)
    assert (dev.source, len(dev.items)) == (str(folder / "test.tsv"), 18)
    assert {item.label for item in dev.items} == {0.0, 1.0, 2.0}
    (folder / "test.tsv").unlink()
    with pytest.raises(BadProbe, match=r"has none of test\.tsv"):
        load_task(SNLI, "dev", folder)


# ---- the hub, which tests never reach


class Hub(ModuleType):
    """A stand-in for `datasets` that remembers what it was asked."""

    def __init__(self, examples: list[dict[str, Any]]) -> None:
        super().__init__("datasets")
        self.examples = examples
        self.calls: list[tuple[str, str, str]] = []

    def load_dataset(self, name: str, task: str, split: str) -> list[dict[str, Any]]:
        self.calls.append((name, task, split))
        if not self.examples:
            raise ConnectionError("no network\nat all")
        return self.examples


def test_tables_of_the_hub_give_the_same_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = {"premise": "a", "hypothesis": "b"}
    hub = Hub([{**pair, "label": 2}, {**pair, "label": 0}, {**pair, "label": -1}])
    monkeypatch.setitem(sys.modules, "datasets", hub)
    dev = load_task(TASKS["mnli"], "dev", "hub:glue")
    assert hub.calls == [("nyu-mll/glue", "mnli", "validation_matched")]
    assert [item.label for item in dev.items] == [2.0, 0.0]
    assert dev.unusable == {"line without a label": 1}
    hub.examples = [{"sentence1": "a", "sentence2": "b", "label": score} for score in (0.5, 4.25)]
    train = load_task(TASKS["stsb"], "train", "hub:glue")
    assert [item.label for item in train.items] == [0.5, 4.25]


def test_a_hub_that_does_not_answer_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", Hub([]))
    with pytest.raises(BadProbe, match=r"hub:glue did not load \(no network\)\. Check the name"):
        load_task(TASKS["rte"], "train", "hub:glue")


# ---- the published files


@pytest.mark.skipif(SHARED is None, reason="the published files do not lie beside the checkout")
def test_published_files_have_their_known_numbers_of_examples() -> None:
    assert SHARED is not None
    sizes = {
        name: tuple(len(load_task(TASKS[name], part, SHARED).items) for part in ("train", "dev"))
        for name in ("rte", "cola", "wnli", "mrpc", "stsb")
    }
    assert sizes == {
        "rte": (2490, 277),
        "cola": (8551, 1043),
        "wnli": (635, 71),
        "mrpc": (3667, 408),
        "stsb": (5749, 1500),
    }
