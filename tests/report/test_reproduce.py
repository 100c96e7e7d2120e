"""The command in a report is the one that makes the run again: the command line reads back its settings."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from levelhead.cli.app import app
from levelhead.cli.main import COMMANDS
from levelhead.edits.head import Head
from levelhead.pages.contents import open_contents
from levelhead.pages.reproduce import command
from levelhead.results import layout
from levelhead.results.folder import Run
from levelhead.results.keys import Layout
from levelhead.results.settings import (
    AuditRunSettings,
    GlueRunSettings,
    HeadsRunSettings,
    PlantedRunSettings,
    PromptsRunSettings,
    SweepRunSettings,
)

HOSTILE = "it's; rm -rf ~"
AUDIT = AuditRunSettings("audit", 3, HOSTILE, ("mlm",), 4, 5, False, "race", "my nli", 7, True)
HEADS = HeadsRunSettings(
    study="heads",
    seed=3,
    model="m",
    layers=4,
    heads=5,
    bias="race",
    contexts="a b.txt",
    experiments=("scores", "debias"),
    per_word=6,
    contexts_per_word=6,
    sentences="shipped",
    n_sentences=500,
    top=4,
    trim=True,
    resamples=200,
    text="my text.txt",
)
PROMPTS = PromptsRunSettings(
    study="counteracts",
    seed=3,
    models=("one", "two"),
    variants=("base", "without heads 8-6, 1-2"),
    prompts="age-pastime",
    verbalizer="my words.tsv",
    per_background=2,
    ks=(3, 7),
    draws=2000,
    remove_heads=(Head(7, 5), Head(0, 1)),
    groups=("old", "young"),
    kinds=("base",),
    n_prompts=8,
)
SWEEP = SweepRunSettings(
    study="projections",
    seed=3,
    model="one",
    nli_model="two",
    fit="sequential",
    depth=True,
    labels="entailment,neutral,contradiction",
    triples="shipped",
    ability="ours",
    occupations=12,
    contexts=4,
    words=("woman", "man"),
    resamples=200,
    pairs="single",
    form="single",
    nli_form="single",
)
GLUE = GlueRunSettings(
    study="glue",
    seed=3,
    model="m",
    published="my glue",
    tasks=("rte", "cola"),
    recipes=("closed",),
    seeds=2,
    train_rows=100,
    margin=0.5,
    epochs=4,
    batch_size=8,
    learning_rate=1.23456789e-4,
    warmup=0.2,
    weight_decay=0.3,
    max_length=64,
    lora=True,
)


def options(folder: Path, study: Layout[Any], settings: Any) -> dict[str, Any]:
    """What the command line understands of the command that is given for a run."""
    with Run.open(folder, study, settings) as run:
        key = study.keys[0] if study.keys else layout.CLOZE_CELLS.of("none")
        run.results(key, list)
    assert COMMANDS  # importing them has registered them
    program, name, *arguments = shlex.split(command(open_contents(folder)), comments=True)
    assert program == "levelhead"
    group: Any = typer.main.get_command(app)
    with group.commands[name].make_context(name, arguments) as context:
        return dict(context.params)


def test_an_audit(tmp_path: Path) -> None:
    read = options(tmp_path, layout.AUDIT, replace(AUDIT, text="my text.txt"))
    assert read["text"] == "my text.txt"
    assert (read["name"], read["out"], read["seed"]) == (HOSTILE, tmp_path, 3)
    assert (read["nli"], read["bias"], read["top"], read["full"]) == ("my nli", "race", 7, True)


def test_an_audit_with_measures_of_the_users_own_asks_for_their_file_and_stays_one_line(
    tmp_path: Path,
) -> None:
    settings = replace(AUDIT, measures=("pronoun gap", "two\nlines"))
    assert options(tmp_path, layout.AUDIT, settings)["name"] == HOSTILE
    line = command(open_contents(tmp_path))
    assert line.endswith(r"  # and --measure FILE for 'pronoun gap', 'two\nlines'")
    assert "\n" not in line


def test_a_heads_run(tmp_path: Path) -> None:
    read = options(tmp_path, layout.HEADS, HEADS)
    assert read["text"] == "my text.txt"
    assert (read["name"], read["out"], read["seed"]) == ("m", tmp_path, 3)
    assert (read["bias"], read["contexts"], read["experiments"]) == ("race", "a b.txt", "scores,debias")
    assert (read["per_word"], read["sentences"], read["top"], read["trim"]) == (6, "shipped", 4, True)


def test_a_prompts_run(tmp_path: Path) -> None:
    read = options(tmp_path, layout.PROMPTS, PROMPTS)
    assert (list(read["models"]), read["out"], read["seed"]) == (["one", "two"], tmp_path, 3)
    assert (list(read["k"]), read["prompt_set"], read["backgrounds"]) == ([3, 7], "age-pastime", 2)
    assert (read["verbalizer"], read["heads"]) == (Path("my words.tsv"), "8-6,1-2")


def test_a_sweep(tmp_path: Path) -> None:
    read = options(tmp_path, layout.SWEEP, SWEEP)
    assert (read["model"], read["nli"], read["out"], read["seed"]) == ("one", "two", tmp_path, 3)
    assert (read["depth"], read["sequential"], read["pairs"]) == (True, True, "single")
    assert (read["labels"], read["limit"]) == ("entailment,neutral,contradiction", (12, 4))


def test_a_glue_run(tmp_path: Path) -> None:
    read = options(tmp_path, layout.GLUE, GLUE)
    assert (read["name"], read["out"], read["seed"], read["data"]) == ("m", tmp_path, 3, "my glue")
    assert (read["tasks"], read["seeds"], read["train_rows"], read["margin"]) == ("rte,cola", 2, 100, 0.5)
    assert (read["epochs"], read["batch_size"], read["learning_rate"]) == (4, 8, 1.23456789e-4)
    assert (read["warmup"], read["weight_decay"], read["max_length"], read["lora"]) == (0.2, 0.3, 64, True)
    assert command(open_contents(tmp_path)).endswith("  # and --recipe FILE for 'closed'")


def test_an_audit_with_glue(tmp_path: Path) -> None:
    settings = replace(AUDIT, glue="my glue")
    options(tmp_path, layout.AUDIT, settings)
    Run.open(tmp_path / layout.GLUE_PART, layout.GLUE, GLUE).close()
    read = options(tmp_path, layout.AUDIT, settings)
    assert (read["glue"], read["glue_tasks"], read["train_rows"]) == ("my glue", "rte,cola", 100)


def test_a_study_whose_settings_do_not_hold_its_options_says_so(tmp_path: Path) -> None:
    settings = PlantedRunSettings(
        "planted", 0, "m", 4, 20, "gender", 3, 5, ("value",), 0.1, 0.5, 10, None, 50
    )
    with Run.open(tmp_path, layout.PLANTED, settings) as run:
        run.results(layout.PLANT_SUMMARY, list)
    assert command(open_contents(tmp_path)).startswith("# the study 'planted' does not say")
