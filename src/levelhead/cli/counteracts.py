"""`levelhead prompts`: does a counterexample change the model's mind?"""

from __future__ import annotations

import json as plain_json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelhead.cli.app import Json, Loading, app, loads, print_json, print_table
from levelhead.cli.options import NullTwins, RecipeFile, RunFolderOrNone, Seed
from levelhead.cli.terminal import print_link
from levelhead.errors import BadOption

if TYPE_CHECKING:
    from levelhead.edits.head import Head
    from levelhead.measures.measurement import Measurement
    from levelhead.probes.cloze import ClozeSet
    from levelhead.results.records.cloze import ClozeCell, ClozeForm
    from levelhead.results.runs import PromptsRun
    from levelhead.studies.counteracts import Edited

_CHANGE, _SILENT, _ROBUSTNESS = "margin change", "share without group words", "robustness"
_LOG_ODDS, _LOG_ODDS_CHANGE, _CORRELATION = "log_odds", "log_odds change", "log_odds correlation"
_UNKNOWN = "not measured"


@app.command()
@loads
def prompts(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="MODEL...", help="One model or several.")
    ] = None,
    out: RunFolderOrNone = None,
    k: Annotated[
        list[int] | None, typer.Option(help="How many likeliest tokens count; repeat. [3, 5, 10]")
    ] = None,
    prompt_set: Annotated[
        str,
        typer.Option("--set", metavar="NAME|FILE", help="gender-occupation, age-pastime, or a TOML file."),
    ] = "gender-occupation",
    verbalizer: Annotated[Path | None, typer.Option(help="A .toml or .tsv file of words that count.")] = None,
    heads: Annotated[
        str | None, typer.Option(help="Also ask without these heads: layer-head, as in 3-5,2-1.")
    ] = None,
    recipe: RecipeFile = None,
    backgrounds: Annotated[
        int | None, typer.Option(help="How many backgrounds a word gets; fewer is faster.")
    ] = None,
    null: NullTwins = 9,
    chat: Annotated[
        bool, typer.Option("--chat", help="Ask through the tokenizer's chat template, not in plain text.")
    ] = False,
    seed: Seed = 0,
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
        _list(load_cloze(prompt_set, seed, backgrounds, verbalizer))
        return
    if not models or out is None:
        raise BadOption("Give a model and a run folder: `levelhead prompts lh:bert-mini -o RUN`; or --list.")
    from levelhead.models.model import load
    from levelhead.pages.figures.counteracts import counteracts_figures
    from levelhead.results.stored import RESULTS
    from levelhead.studies.counteracts import CounteractsSettings, counteracts

    settings = CounteractsSettings(
        prompts=prompt_set,
        verbalizer=None if verbalizer is None else str(verbalizer),
        seed=seed,
        per_background=backgrounds,
        ks=tuple(k or (3, 5, 10)),
        remove_heads=_heads(heads),
        null=null,
        chat=chat,
    )
    settings.load()  # a mistake in a file is said before a model is loaded
    edited = {} if recipe is None else _with_recipe(recipe)
    run = counteracts([load(name, **loading) for name in models], settings, out, edited)
    figures = counteracts_figures(out)
    if json:
        cells = [{**each.to_json(), "cells": run.cells_of(each.model, each.variant)} for each in run.forms]
        print_json({"run": str(out), "figures": [str(path) for path in figures], "models": cells})
        return
    _print(run, max(settings.ks))
    print(f"All numbers: {out / RESULTS}. Charts: {figures[0].parent}.")
    print_link(run.folder, run.LAYOUT)


def _list(cloze: ClozeSet) -> None:
    from levelhead.probes.cloze import prompt_rows

    for prompt in prompt_rows(cloze):
        print(plain_json.dumps(prompt, ensure_ascii=False))


def _print(run: PromptsRun, k: int) -> None:
    """Two tables a model and variant: what knowledge does to log-odds, and to the k likeliest tokens."""
    from levelhead.pages.fill_in import corrected

    judged = corrected(run, {})
    for form in run.forms:
        own = (form.model, form.variant)
        _print_verdicts(form, [cell for cell in judged if (cell.model, cell.variant) == own])
        _print_masses(form, run.cells_of(*own), k)


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


def _print_verdicts(form: ClozeForm, cells: Iterable[ClozeCell]) -> None:
    """What each kind of knowledge does to the log-odds: the main table."""
    from levelhead.results.records.common import BASE

    by_name = {(cell.name, cell.kind): cell for cell in cells if cell.k == 0}
    lines = [
        (kind, _from_to(cell.measurement), _with_interval(cell.measurement, "+.3f"), _p(cell), _verdict(cell))
        for (name, kind), cell in by_name.items()
        if name == _LOG_ODDS_CHANGE
    ]
    bare = {
        name: _with_interval(cell.measurement, "+.3f")
        for (name, kind), cell in by_name.items()
        if kind == BASE
    }
    note = (
        "Log-odds: half the gap in log p(one group's words) / p(the other's) between the two groups of "
        f"occupations; without knowledge {bare[_LOG_ODDS]}. Verdict: what the knowledge does to the "
        "stereotype; no change: the interval includes 0; not more than in null models: those change as much "
        "(p 0.05 or more after correction for all lines)."
    )
    if _CORRELATION in bare:
        note += f" Rank correlation with the groups' real shares: {bare[_CORRELATION]}."
    columns = ("knowledge", "log-odds: base → with", "change [95 %]", "p", "verdict")
    print_table(f"{_title(form)}, log-odds", columns, lines, note)


def _title(form: ClozeForm) -> str:
    from levelhead.results.records.common import BASE

    return form.model if form.variant == BASE else f"{form.model}, {form.variant}"


def _p(cell: ClozeCell) -> str:
    null = cell.measurement.null
    return "-" if null is None else f"{null.p_value:.4f}"


def _print_masses(form: ClozeForm, cells: Iterable[ClozeCell], k: int) -> None:
    """The paper's numbers: margins of the masses among the k likeliest tokens."""
    from levelhead.results.records.common import BASE

    by_name = {(cell.name, cell.kind): cell for cell in cells if cell.k == k and not cell.group}
    silent = {kind: cell.measurement for (name, kind), cell in by_name.items() if name == _SILENT}
    lines = [
        (
            kind,
            _from_to(cell.measurement),
            _with_interval(cell.measurement, "+.3f"),
            _verdict(cell),
            _percent(silent[kind]),
        )
        for (name, kind), cell in by_name.items()
        if name == _CHANGE
    ]
    note = (
        f"Margin: mass of the stereotyped group's words minus the other's among the {k} likeliest tokens. "
        "No change: the interval includes 0; untested: it does not, and no null model was asked "
        "(the verdicts are those on log-odds); "
        f"not measured: no word of either group in any top {k}. Silent: prompts without such a word; "
        f"{_percent(silent[BASE])} without knowledge. Asked as {form.form}."
    )
    for (name, _), cell in by_name.items():
        if name == _ROBUSTNESS:
            share = _with_interval(cell.measurement, ".2f")
            note += f" Preferences that survive unrelated knowledge: {share}, n = {cell.measurement.n}."
    columns = ("knowledge", "margin: base → with", "change [95 %]", "verdict", "silent")
    print_table(f"{_title(form)}, top {k}", columns, lines, note)


def _from_to(change: Measurement) -> str:
    if change.value is None:
        return "-"
    return f"{change.details['base']:+.3f} → {change.details['reached']:+.3f}"


def _with_interval(measurement: Measurement, form: str) -> str:
    if measurement.value is None:
        return _UNKNOWN
    if measurement.interval is None:
        return f"{measurement.value:{form}}"
    low, high = measurement.interval
    return f"{measurement.value:{form}} [{low:{form}}, {high:{form}}]"


def _percent(share: Measurement) -> str:
    return f"{share.value:.0%}"


def _verdict(cell: ClozeCell) -> str:
    """The word, and what the kind is designed to do where that is something else."""
    from levelhead.measures.cloze.verdicts import SPEAKING

    word, change = cell.verdict, cell.measurement.value
    if word is None or change is None:
        return _UNKNOWN
    if word in (_UNKNOWN, "untested", "too few null models"):
        return word
    direction = "none" if word not in SPEAKING else "strengthens" if change > 0 else "weakens"
    designed = "no change" if cell.expected == "none" else cell.expected
    return word if direction == cell.expected else f"{word} (designed: {designed})"
