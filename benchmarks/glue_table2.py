"""Table 2 of 'Bias A-head?' on the shipped model, with seeds, intervals and verdicts.

    python -m benchmarks.glue_table2 --data DIR --work WORK --out OUT --processes 16 --minutes 4

Trainings run in parallel processes on one device: the unmodified model, and it without its 3 most biased
heads (top-3), its 3 most anti-biased ones (bottom-3), 3 drawn anew for each seed (random-3), all heads with
b > 0 (all), and under learned gates. They come seed by seed, and the table takes a seed of a task only with
all recipes, so that it is balanced after any cut. Each training is stored in WORK as soon as it is
finished: the same command goes on, and with --minutes 0 it only writes the table of what is there."""

from __future__ import annotations

import json
import os
import shutil
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing import TimeoutError as NothingYet
from multiprocessing import get_context
from pathlib import Path

import torch

from levelhead.edits.sites import Head, Variant
from levelhead.engine.finetuning import TaskData, finetune
from levelhead.engine.hyperparameters import Hyperparameters
from levelhead.mitigation.mitigate import edits_of
from levelhead.mitigation.recipe import Recipe
from levelhead.models.model import Model, load
from levelhead.probes.glue import glue_task
from levelhead.runs.common import BASE
from levelhead.runs.folder import versions
from levelhead.studies.glue.records import GlueCell, GlueCost, GlueTaskUsed, GlueUnit
from levelhead.studies.glue.run import Exam, glue_cells, glue_costs, glue_unit
from levelhead.studies.heads import Heads, open_heads
from levelhead.studies.heads.bench import drawn
from levelhead.studies.heads.run import heads
from levelhead.studies.heads.settings import HeadsSettings

MODEL = "lh:bert-mini"
TASKS = ("sst2", "cola", "stsb", "mrpc", "rte", "wnli")  # the longest first
BATCHES = {"sst2": 128}  # of its 67,349 examples; the others have few
BATCH = 32
K = 3
RECIPES = (BASE, f"top-{K}", "all", f"random-{K}", "learned", f"bottom-{K}")  # what matters most first
BOUND = 1.1  # factor by which learned gates may raise the perplexity


@dataclass(frozen=True)
class Job:
    """One training: a task, a seed, a recipe."""

    task: str
    seed: int
    recipe: str
    options: Namespace

    @property
    def file(self) -> Path:
        """Where its unit is stored: trainings with other options lie in another folder."""
        options = self.options
        how = f"{options.train_rows}-rows-{options.epochs}-epochs-{options.learning_rate}"
        return Path(options.work) / how / f"{self.task}-{self.seed}-{self.recipe}.json"

    def unit(self) -> GlueUnit | None:
        """The training as it was stored; None while it is not finished."""
        return GlueUnit.from_json(json.loads(self.file.read_text("utf-8"))) if self.file.exists() else None


def recipes(model: Model, run: Heads, seed: int) -> dict[str, Recipe]:
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


@cache
def _exam(task: str, data: str, train_rows: int | None) -> Exam:
    return Exam.of(glue_task(task), data, train_rows)


@cache
def _data(task: str, data: str, train_rows: int | None) -> TaskData:
    return _exam(task, data, train_rows).tokenized(_model(), Hyperparameters().max_length)


@cache
def _edits(heads_run: str, seed: int, recipe: str) -> Variant:
    if recipe == BASE:
        return ()
    return edits_of(_model(), recipes(_model(), open_heads(heads_run), seed)[recipe])


def train(job: Job) -> Job:
    """One training; its file appears whole or not at all."""
    options = job.options
    training = Hyperparameters(
        epochs=options.epochs,
        batch_size=BATCHES.get(job.task, BATCH),
        learning_rate=options.learning_rate,
    )
    named = (job.task, options.data, options.train_rows)
    edits = _edits(options.heads_run, job.seed, job.recipe)
    checkpoints = job.file.with_suffix(".checkpoints")
    tuned = finetune(_model(), edits, _data(*named), training, job.seed, checkpoints)
    part = job.file.with_suffix(".part")
    part.write_text(
        json.dumps(glue_unit(_exam(*named), tuned, job.recipe, job.seed).to_json()), encoding="utf-8"
    )
    part.replace(job.file)
    shutil.rmtree(checkpoints, ignore_errors=True)
    return job


def in_order(options: Namespace) -> list[Job]:
    """All trainings: seed by seed, in each the longest task first, in each the unmodified model first."""
    chosen = [task for task in TASKS if task in options.tasks.split(",")]
    return [
        Job(task, seed, recipe, options)
        for seed in range(options.seeds)
        for task in chosen
        for recipe in RECIPES
    ]


def run_jobs(jobs: Sequence[Job], options: Namespace) -> None:
    """Train what is not there yet until the time is over; a training that is cut goes on the next time."""
    end, left = time.monotonic() + 60 * options.minutes, [job for job in jobs if not job.file.exists()]
    if not left or options.minutes <= 0:
        return
    left[0].file.parent.mkdir(parents=True, exist_ok=True)
    with get_context("spawn").Pool(options.processes) as pool:
        finished = pool.imap_unordered(train, left)
        for number in range(1, len(left) + 1):
            try:
                job = finished.next(timeout=max(0.0, end - time.monotonic()))
            except NothingYet:
                print(f"stopped after {options.minutes:g} minutes", flush=True)
                break
            print(f"{number} of {len(left)}: {job.task}, seed {job.seed}, {job.recipe}", flush=True)


def balanced(units: Sequence[GlueUnit]) -> list[GlueUnit]:
    """The trainings of those seeds of a task that have every recipe."""
    blocks: dict[tuple[str, int], set[str]] = {}
    for unit in units:
        blocks.setdefault((unit.task, unit.seed), set()).add(unit.recipe)
    return [unit for unit in units if blocks[unit.task, unit.seed] == set(RECIPES)]


def write(units: Sequence[GlueUnit], options: Namespace) -> None:
    """The table as JSON and as Markdown; a task counts with the seeds that are finished."""
    names = list(dict.fromkeys(unit.task for unit in units))
    tasks: list[GlueTaskUsed] = [_exam(name, options.data, options.train_rows).used() for name in names]
    cells = glue_cells(tasks, units)
    costs = glue_costs(tasks, units, cells, options.margin)
    seats = _seats(open_heads(options.heads_run))
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    about = {
        "model": MODEL,
        "machine": torch.cuda.get_device_name() if torch.cuda.is_available() else f"{os.cpu_count()} cores",
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


def _seats(run: Heads) -> dict[str, float]:
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
    parser.add_argument("--work", default="runs/glue-table2", help="folder for finished trainings")
    parser.add_argument("--heads-run", default="runs/heads-bert", help="made when it is not there")
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tasks", default=",".join(TASKS))
    parser.add_argument("--train-rows", type=int)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--learning-rate", type=float)
    parser.add_argument("--margin", type=float, default=1.0)
    parser.add_argument("--minutes", type=float, default=4.0, help="of training; 0: only the table")
    return parser.parse_args()


def main() -> None:
    """Make the recipes, train, write."""
    options = _options()
    os.environ |= {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    if not Path(options.heads_run).exists():
        heads(_model(), HeadsSettings(experiments=("scores", "debias"), null=0), options.heads_run)
    jobs = in_order(options)
    run_jobs(jobs, options)
    units = balanced([unit for job in jobs if (unit := job.unit()) is not None])
    if not units:
        print("no task has a whole seed yet: run the same command again, it goes on")
        return
    write(units, options)
    print((Path(options.out) / "table2.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
