"""`levelhead prompts`: does a counterexample change the model's mind?"""

from __future__ import annotations

import json as plain_json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelhead.cli.app import Json, Loading, app, loads, print_json
from levelhead.cli.grouped import Options
from levelhead.cli.options import NullTwins, RecipeFile, RunFolderOrNone, Seed
from levelhead.cli.terminal import print_link
from levelhead.errors import BadOption

if TYPE_CHECKING:
    from levelhead.edits.head import Head
    from levelhead.probes.cloze import ClozeSet
    from levelhead.results.runs import PromptsRun
    from levelhead.studies.counteracts import CounteractsSettings, Edited


@dataclass(frozen=True)
class PromptsOptions(Options):
    """What models are asked, bare and after knowledge."""

    k: Annotated[
        list[int] | None, typer.Option(help="How many likeliest tokens count; repeat. [3, 5, 10]")
    ] = None
    prompt_set: Annotated[
        str,
        typer.Option("--set", metavar="NAME|FILE", help="gender-occupation, age-pastime, or a TOML file."),
    ] = "gender-occupation"
    verbalizer: Annotated[Path | None, typer.Option(help="A .toml or .tsv file of words that count.")] = None
    heads: Annotated[
        str | None, typer.Option(help="Also ask without these heads: layer-head, as in 3-5,2-1.")
    ] = None
    recipe: RecipeFile = None
    backgrounds: Annotated[
        int | None, typer.Option(min=1, help="How many backgrounds a word gets; fewer is faster.")
    ] = None
    null: NullTwins = 9
    chat: Annotated[
        bool, typer.Option("--chat", help="Ask through the tokenizer's chat template, not in plain text.")
    ] = False
    seed: Seed = 0

    def settings(self) -> CounteractsSettings:
        """The study; a mistake in a file is said before a model is loaded."""
        from levelhead.studies.counteracts import CounteractsSettings

        settings = CounteractsSettings(
            prompts=self.prompt_set,
            verbalizer=None if self.verbalizer is None else str(self.verbalizer),
            seed=self.seed,
            per_background=self.backgrounds,
            ks=tuple(self.k or (3, 5, 10)),
            remove_heads=_heads(self.heads),
            null=self.null,
            chat=self.chat,
        )
        settings.load()
        return settings


@app.command()
@loads
def prompts(
    asked: PromptsOptions,
    models: Annotated[
        list[str] | None, typer.Argument(metavar="MODEL...", help="One model or several.")
    ] = None,
    out: RunFolderOrNone = None,
    list_prompts: Annotated[
        bool, typer.Option("--list", help="Print the prompts as JSON lines and stop.")
    ] = False,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Ask who works as a nurse, bare and after a sentence of knowledge: does a counterexample change it?"""
    from levelhead.probes.cloze import load_cloze

    if list_prompts:
        _list(load_cloze(asked.prompt_set, asked.seed, asked.backgrounds, asked.verbalizer))
        return
    if not models or out is None:
        raise BadOption("Give a model and a run folder: `levelhead prompts lh:bert-mini -o RUN`; or --list.")
    from levelhead.models.model import load
    from levelhead.pages.figures.counteracts import counteracts_figures
    from levelhead.studies.counteracts import counteracts

    settings = asked.settings()
    edited = {} if asked.recipe is None else _with_recipe(asked.recipe)
    run = counteracts([load(name, **loading) for name in models], settings, out, edited)
    figures = counteracts_figures(out)
    if json:
        cells = [{**each.to_json(), "cells": run.cells_of(each.model, each.variant)} for each in run.forms]
        print_json({"run": str(out), "figures": [str(path) for path in figures], "models": cells})
    else:
        _print(run, figures[0].parent)


def _print(run: PromptsRun, charts: Path) -> None:
    from levelhead.cli.printed import print_run
    from levelhead.results.stored import RESULTS

    print_run(run.folder)
    print(f"All numbers: {run.folder / RESULTS}. Charts: {charts}.")
    print_link(run.folder, run.LAYOUT)


def _list(cloze: ClozeSet) -> None:
    from levelhead.probes.cloze import prompt_rows

    for prompt in prompt_rows(cloze):
        print(plain_json.dumps(prompt, ensure_ascii=False))


def _heads(text: str | None) -> tuple[Head, ...]:
    """The heads of a list such as 3-5,2-1, each once."""
    from levelhead.edits.head import Head

    return () if text is None else tuple(dict.fromkeys(Head.parse(part) for part in text.split(",")))


def _with_recipe(path: Path) -> dict[str, Edited]:
    """One more variant: the model with a recipe's edits."""
    from levelhead.mitigation.mitigate import edits_of
    from levelhead.mitigation.recipe import load_recipe
    from levelhead.studies.counteracts import Edited

    recipe = load_recipe(path)
    edited = Edited(lambda model: edits_of(model, recipe), path.read_text(encoding="utf-8"), str(path))
    return {f"with {path.name}": edited}
