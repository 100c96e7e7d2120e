"""Two runs item by item: differences whose pairing removes what both have in common."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from levelhead.errors import BadRun
from levelhead.measures.statistics import Resampling, bootstrap, mean_interval, spearman
from levelhead.report.contents import BASE, Contents, shown_k
from levelhead.results.folder import RunData, text_hash

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Side:
    """One column of a comparison: a run, and which variant of its model."""

    label: str
    contents: Contents
    variant: str = BASE


@dataclass(frozen=True)
class Difference:
    """Second minus first, and how it was found."""

    value: float
    interval: tuple[float, float] | None
    n: int
    how: str
    paired: bool

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        interval = None if self.interval is None else list(self.interval)
        return {
            "value": self.value,
            "interval": interval,
            "n": self.n,
            "how": self.how,
            "paired": self.paired,
        }


def paired_differences(first: Side, second: Side) -> dict[str, Difference]:
    """Measures for which both runs kept what each item said, about the same items."""
    found = _inferences(first, second)
    if (margin := _margin(first, second)) is not None:
        found["margin"] = margin
    return found


# ---- heads


def head_agreement(first: Side, second: Side) -> dict[str, Any] | None:
    """Do two models of one shape have their bias in the same heads? Rank correlation, and heads that changed
    sides."""
    a, b = (_scores(side) for side in (first, second))
    if a is None or b is None or a.keys() != b.keys():
        return None
    x, y = np.array([a[head] for head in a]), np.array([b[head] for head in a])
    became, left = int(((x <= 0) & (y > 0)).sum()), int(((x > 0) & (y <= 0)).sum())
    p = float(stats.binomtest(became, became + left).pvalue) if became + left else None
    told = {"rank correlation": spearman(x, y).to_json(), "heads": len(x)}
    return {**told, "became biased": became, "left biased": left, "p": p}


def _scores(side: Side) -> dict[tuple[int, int], float] | None:
    rows = side.contents.rows("scores", "heads") if side.variant == BASE else []
    return {(row["layer"], row["head"]): row["score"] for row in rows} or None


# ---- CounterActs


def _margin(first: Side, second: Side) -> Difference | None:
    """The margin without knowledge, occupation by occupation."""
    runs = [side.contents.parts.get("prompts") for side in (first, second)]
    if None in runs or shown_k(first.contents) != shown_k(second.contents):
        return None
    if len({run.hashes.get("prompts and words") for run in runs if run is not None}) > 1:
        return None
    a, b = (_margins(side, run) for side, run in zip((first, second), runs, strict=True) if run is not None)
    shared = [name for name in a if name in b]
    if len(shared) < 2:
        return None
    change = np.array([b[name] - a[name] for name in shared])
    interval = mean_interval(change, Resampling())
    return Difference(float(change.mean()), interval, len(shared), "paired by occupation", True)


def _margins(side: Side, run: RunData) -> dict[str, float]:
    """By occupation; one without a group word among the top k has a margin of 0, as in the measure."""
    key = f"{run.settings['models'][0]} | {side.variant}"
    paths = sorted((run.folder / "occupations").glob(f"*-{text_hash(key)[:6]}.csv"))
    if not paths:
        return {}
    wanted = {"name": "margin", "kind": BASE, "k": str(shown_k(side.contents))}
    rows = [row for row in _read(paths[0]) if all(row.get(name) == value for name, value in wanted.items())]
    return {row["occupation"]: float(row["value"] or 0.0) for row in rows}


def _read(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadRun(f"{path} cannot be read ({error}). Run the study again in a new folder.") from error


# ---- inferences


def _inferences(first: Side, second: Side) -> dict[str, Difference]:
    """Accuracy, parity and fairness from the stored labels, resampling whole occupations for both models at
    once."""
    asked = [side.contents.parts.get("sweep") for side in (first, second)]
    runs = [run for run in asked if run is not None]
    if len(runs) < 2 or len({run.hashes.get("probe") for run in runs}) > 1:
        return {}
    tables = [_occupations(side, run) for side, run in zip((first, second), runs, strict=True)]
    known = [table for table in tables if table is not None]
    if len(known) < 2:
        return {}
    return {name: _difference(name, known) for name in ("accuracy", "parity", "fairness")}


def _occupations(side: Side, run: RunData) -> tuple[Doubles, Doubles] | None:
    """[occupation] share of neutral answers, and whether the usual answers are the same for both genders."""
    names = list(dict.fromkeys(row["variant"] for row in run.results.get("nli", [])))
    chunks = [rows for key, rows in run.results.items() if key.startswith("nli answers ")]
    if side.variant not in names or not chunks:
        return None
    digits = "".join(rows[names.index(side.variant)]["labels"] for rows in chunks)
    shape = int(run.settings["occupations"]), int(run.settings["contexts"]), 2
    if len(digits) != math.prod(shape):
        return None
    labels = np.array(list(map(int, digits))).reshape(shape)
    votes = np.stack(
        [(labels == label).sum(axis=1) for label in range(3)], axis=-1
    )  # [occupation, gender, label]
    leads = votes == votes.max(axis=2, keepdims=True)
    same = (leads[:, 0] == leads[:, 1]).all(axis=1)
    return (labels == 1).mean(axis=(1, 2)), same.astype(np.float64)


def _difference(name: str, tables: Sequence[tuple[Doubles, Doubles]]) -> Difference:
    n = len(tables[0][0])

    def share(counts: Doubles, table: tuple[Doubles, Doubles]) -> Doubles:
        accuracy, parity = (counts @ column / counts.sum(axis=1) for column in table)
        return np.asarray({"accuracy": accuracy, "parity": parity, "fairness": accuracy * parity}[name])

    def change(counts: Doubles) -> Doubles:
        return share(counts, tables[1]) - share(counts, tables[0])

    value = float(change(np.ones((1, n)))[0])
    return Difference(value, bootstrap(change, n), n, "paired by occupation", True)
