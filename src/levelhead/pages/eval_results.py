"""The scores of a benchmark run as the Hugging Face hub reads them: .eval_results/*.yaml of a model.

Format: https://huggingface.co/docs/hub/eval-results: a list of results, each with a data set on the hub, a
task, a value, a date and notes. Strings are written as JSON, which YAML reads as the same.
"""

from __future__ import annotations

import json
from pathlib import Path

from levelhead.errors import CannotDo
from levelhead.escaping import escaped
from levelhead.inference.claims import floor_text
from levelhead.inference.contents import Contents, Reported, main_scores, measurements
from levelhead.measures.measurement import Measurement
from levelhead.pages.about import about_of
from levelhead.results.records.benchmarks import BenchmarkUsed

FOLDER = ".eval_results"
MARK = "# Written by levelhead"  # by which a file of ours is known
_HUB = "hub:"


def eval_results_path(contents: Contents, folder: Path) -> Path:
    """Where the results of a run lie in a model repository."""
    return folder / FOLDER / f"levelhead-{_used(contents).benchmark}.yaml"


def eval_results(contents: Contents) -> str:
    """YAML with the scores of all items of a benchmark; rule, interval, n and null models in the notes."""
    used = _used(contents)
    about = about_of(contents)
    date = [] if about is None or not about.date else [f"  date: {json.dumps(about.date)}"]
    lines = [f"{MARK} {contents.run.data.versions.get('levelhead', '')}"]
    for each in main_scores(measurements(contents)):
        if each.measurement.value is not None:
            lines += [
                "- dataset:",
                f"    id: {json.dumps(_data_set(contents, used))}",
                f"    task_id: {json.dumps(_task(used, each))}",
                f"  value: {each.measurement.value!r}",
                *date,
                f"  notes: {json.dumps(_notes(used, each.measurement), ensure_ascii=False)}",
            ]
    return escaped("\n".join([*lines, ""]))


def _used(contents: Contents) -> BenchmarkUsed:
    used = None if contents.benchmark is None else contents.benchmark.used
    if used is None:
        raise CannotDo(
            f"{contents.folder} is no whole run of `levelhead measure`: the hub files results by benchmark."
        )
    return used


def _data_set(contents: Contents, used: BenchmarkUsed) -> str:
    """The data set on the hub: the one that was asked, else the one that the benchmark declares."""
    asked = "" if contents.benchmark is None else contents.benchmark.settings.published
    name = (
        asked.removeprefix(_HUB).partition("@")[0].partition(":")[0] if asked.startswith(_HUB) else used.hub
    )
    if not name:
        raise CannotDo(f"{used.title} is no data set on the hub, by which results are filed there.")
    return name


def _task(used: BenchmarkUsed, each: Reported) -> str:
    """The name of a score within its benchmark."""
    return each.name.removeprefix(f"{used.benchmark} ").replace(", ", "_").replace(" ", "_")


def _notes(used: BenchmarkUsed, measurement: Measurement) -> str:
    parts = [f"rule {used.rule}", f"n {measurement.n}"]
    if measurement.interval is not None:
        parts.append("95 % interval {:.4g} to {:.4g}".format(*measurement.interval))
    if measurement.neutral is not None:
        parts.append(f"neutral {measurement.neutral:g}")
    if measurement.null is not None:
        parts.append(floor_text(measurement.null))
    if left := sum(measurement.unscored.values()):
        parts.append(f"{left} not scored")
    return "; ".join(parts)
