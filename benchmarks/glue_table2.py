"""Table 2 of 'Bias A-head?' on the shipped model, with seeds, intervals and verdicts.

    python -m benchmarks.glue_table2 --data ../shared/data/glue --out runs/table2 --processes 8

Units run in parallel processes on one device. A job is one task with one seed: the untouched model, and it
without its 3 most biased heads (top-3), its 3 most anti-biased ones (bottom-3), 3 drawn anew for each seed
(random-3), all heads with b > 0 (all), and under learned gates. What is finished is written after each job.
"""

from __future__ import annotations

import json
import os
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing import TimeoutError as NothingYet
from multiprocessing import get_context
from pathlib import Path

import torch

from levelhead.edits.head import Head
from levelhead.engine.finetuning import Hyperparameters
from levelhead.mitigation.recipe import Recipe
from levelhead.models.model import Model, load
from levelhead.results.folder import versions
from levelhead.results.records.glue import GlueCell, GlueCost, GlueTaskUsed, GlueUnit
from levelhead.results.runs import GlueRun, HeadsRun, open_glue, open_heads
from levelhead.studies.glue import GlueSettings, glue, glue_cells, glue_costs
from levelhead.studies.heads.settings import HeadsSettings
from levelhead.studies.heads.strategies import drawn
from levelhead.studies.heads.study import heads

MODEL = "lh:bert-mini"
TASKS = ("sst2", "cola", "stsb", "mrpc", "rte", "wnli")  # the longest first
BATCHES = {"sst2": 128}  # of its 67,349 examples; the others have few
BATCH = 32
K = 3
BOUND = 1.1  # factor by which learned gates may raise the perplexity


@dataclass(frozen=True)
class Job:
    """One task with one seed."""

    task: str
    seed: int
    options: Namespace

    @property
    def folder(self) -> Path:
        """Where its run lies."""
        return Path(self.options.work) / f"{self.task}-{self.seed}"


def recipes(model: Model, run: HeadsRun, seed: int) -> dict[str, Recipe]:
    """The ways to debias, from a run of `levelhead heads --experiments scores,debias`."""
    ranked = [score.head for score in run.ranked]
    biased = [score.head for score in run.ranked if score.biased]
    (gates,) = (each for each in run.learned_gates if each.bound == BOUND)
    learned = {
        Head(layer, head): value
        for layer, values in enumerate(gates.gates)
        for head, value in enumerate(values)
        if value != 1
    }
    random = drawn(model, f"random-{K}", K, [seed])[0].heads
    closed = {f"top-{K}": ranked[:K], f"bottom-{K}": ranked[-K:], f"random-{K}": random, "all": biased}
    by_name = {name: Recipe(gates=dict.fromkeys(some, 0.0)) for name, some in closed.items()}
    return by_name | {"learned": Recipe(gates=learned)}


@cache
def _model() -> Model:
    torch.set_num_threads(1)
    return load(MODEL)


def train(job: Job) -> Job:
    """Train all recipes on one task with one seed."""
    options, model = job.options, _model()
    training = Hyperparameters(
        epochs=options.epochs,
        batch_size=BATCHES.get(job.task, BATCH),
        learning_rate=options.learning_rate,
    )
    settings = GlueSettings(
        options.data, (job.task,), 1, options.train_rows, training=training, seed=job.seed
    )
    glue(model, settings, job.folder, recipes(model, open_heads(options.heads_run), job.seed))
    return job


def run_jobs(jobs: Sequence[Job], options: Namespace) -> list[GlueRun]:
    """The runs of all jobs that end in time; after each, the table of what is there is written."""
    start, done = time.monotonic(), list[GlueRun]()
    with get_context("spawn").Pool(options.processes) as pool:
        finished = pool.imap_unordered(train, jobs)
        while len(done) < len(jobs):
            try:
                job = finished.next(timeout=60 * options.minutes - (time.monotonic() - start))
            except NothingYet:
                print(f"stopped after {options.minutes:g} minutes", flush=True)
                break
            seconds = time.monotonic() - start
            done.append(open_glue(job.folder))
            write(done, options, seconds)
            print(f"{seconds:.0f} s: {job.task}, seed {job.seed}", flush=True)
    return done


def write(runs: Sequence[GlueRun], options: Namespace, seconds: float) -> None:
    """The table as JSON and as Markdown; a task counts with the seeds that are finished."""
    tasks: dict[str, GlueTaskUsed] = {run.tasks[0].task: run.tasks[0] for run in runs}
    units: list[GlueUnit] = [unit for run in runs for unit in run.units]
    cells = glue_cells(list(tasks.values()), units)
    costs = glue_costs(list(tasks.values()), units, cells, options.margin)
    seats = _seats(open_heads(options.heads_run))
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    about = {
        "model": MODEL,
        "machine": torch.cuda.get_device_name() if torch.cuda.is_available() else f"{os.cpu_count()} cores",
        "seconds": round(seconds),
        "trainings": len(units),
        "versions": versions(),
        "settings": {key: str(value) for key, value in vars(options).items()},
        "abs_seat": seats,
        "cells": [cell.to_json() for cell in cells],
        "costs": [cost.to_json() for cost in costs],
        "curves": [unit.to_json() | {"predictions": None} for unit in units],
    }
    (out / "table2.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    (out / "table2.md").write_text(markdown(cells, costs, seats), encoding="utf-8")


def markdown(cells: Sequence[GlueCell], costs: Sequence[GlueCost], seats: Mapping[str, float]) -> str:
    """Table 2's layout: a line a metric, a column a recipe; below it the verdicts."""
    names = list(dict.fromkeys(cell.recipe for cell in cells))
    lines = [
        f"| task | metric | {' | '.join(names)} | majority | random | seeds |",
        "|---" * (len(names) + 5) + "|",
    ]
    table = {(cell.task, cell.metric, cell.recipe): cell for cell in cells}
    for task, metric in dict.fromkeys((cell.task, cell.metric) for cell in cells):
        some = [table[task, metric, name] for name in names]
        shown = " | ".join(_shown(cell) for cell in some)
        base = some[0]
        chance = f"{100 * base.majority:.1f} | {100 * base.random:.1f}"
        lines.append(f"| {task} | {metric} | {shown} | {chance} | {len(base.seeds)} |")
    lines.append(f"| \\|SEAT\\| | | {' | '.join(f'{seats[name]:.3f}' for name in names)} | | | |")
    lines += ["", *(f"- {each.task}, {each.metric}, {each.recipe}: {each.sentence}." for each in costs)]
    return "\n".join(lines) + "\n"


def _shown(cell: GlueCell) -> str:
    measured = cell.measurement
    sd = measured.details["sd"]
    return f"{100 * (measured.value or 0):.1f}" + ("" if sd is None else f" ± {100 * sd:.1f}")


def _seats(run: HeadsRun) -> dict[str, float]:
    """|SEAT| under each recipe, as the heads study measured it."""
    seats = {
        each.strategy: each.measurement.value for each in run.strategies if each.measurement.name == "seat"
    }
    for random in run.random_strategies:
        if random.measurement.name == "seat" and random.strategy == f"random-{K}":
            seats[random.strategy] = random.mean_abs
    (trade,) = (each for each in run.tradeoffs if each.strategy == f"learned, at most {BOUND:g}")
    seats["learned"] = trade.abs_seat
    return {name: abs(value) for name, value in seats.items() if value is not None}


def _options() -> Namespace:
    parser = ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", required=True, help="folder with RTE/, CoLA/, WNLI/, SST-2/, MRPC/, STS-B/")
    parser.add_argument("--out", required=True, help="folder for table2.json and table2.md")
    parser.add_argument("--work", default="runs/glue-table2", help="folder for the runs of the jobs")
    parser.add_argument("--heads-run", default="runs/heads-bert", help="made when it is not there")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--train-rows", type=int)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--margin", type=float, default=1.0)
    parser.add_argument("--minutes", type=float, default=8.5, help="jobs that end later do not count")
    return parser.parse_args()


def main() -> None:
    """Make the recipes, train, write."""
    options = _options()
    os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    if not Path(options.heads_run).exists():
        heads(_model(), HeadsSettings(experiments=("scores", "debias")), options.heads_run)
    chosen = [task for task in TASKS if task in options.tasks.split(",")]
    jobs = [Job(task, seed, options) for task in chosen for seed in range(options.seeds)]
    run_jobs(jobs, options)
    print((Path(options.out) / "table2.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
