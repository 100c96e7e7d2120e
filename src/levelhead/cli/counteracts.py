"""`levelhead prompts`: does a counterexample change the model's mind?"""

from __future__ import annotations

import json as plain_json
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from levelhead.cli.app import Json, Loading, app, loads, print_json, print_table
from levelhead.errors import BadProbe


@app.command()
@loads
def prompts(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="MODEL...", help="One model or several.")
    ] = None,
    run: Annotated[
        Path | None, typer.Option("-o", "--output", help="The run folder; resumes one begun before.")
    ] = None,
    k: Annotated[
        list[int] | None, typer.Option(help="How many likeliest tokens count; repeat. [3, 5, 10]")
    ] = None,
    prompt_set: Annotated[
        str,
        typer.Option("--set", metavar="NAME|FILE", help="gender-occupation, age-pastime, or a TOML file."),
    ] = "gender-occupation",
    verbalizer: Annotated[Path | None, typer.Option(help="A .toml or .tsv file of words that count.")] = None,
    remove_heads: Annotated[
        str | None, typer.Option(help="Also ask without these heads: layer-head, as in 3-5,2-1.")
    ] = None,
    recipe: Annotated[
        Path | None, typer.Option(help="Also ask with the edits of a recipe file on (TOML).")
    ] = None,
    backgrounds: Annotated[
        int | None, typer.Option(help="How many backgrounds a word gets; fewer is faster.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the drawn backgrounds and of the intervals.")] = 0,
    list_prompts: Annotated[
        bool, typer.Option("--list", help="Print the prompts as JSON lines and stop.")
    ] = False,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Ask who works as a nurse, bare and after a sentence of knowledge: does a counterexample change the
    answer?"""
    from levelhead.probes.cloze import load_cloze, prompt_rows

    if list_prompts:
        for row in prompt_rows(load_cloze(prompt_set, seed, backgrounds, verbalizer)):
            print(plain_json.dumps(row, ensure_ascii=False))
        return
    if not models or run is None:
        raise BadProbe("Give a model and a run folder: `levelhead prompts lh:bert-mini -o RUN`; or --list.")
    from levelhead.mitigation.mitigate import edits_of
    from levelhead.mitigation.recipe import read_recipe
    from levelhead.models.model import load
    from levelhead.report.figures.counteracts import counteracts_figures
    from levelhead.studies.counteracts import CounteractsSettings, Edited, counteracts, open_counteracts

    settings = CounteractsSettings(
        prompts=prompt_set,
        verbalizer=None if verbalizer is None else str(verbalizer),
        seed=seed,
        per_background=backgrounds,
        ks=tuple(k or (3, 5, 10)),
        remove_heads=_heads(remove_heads),
    )
    settings.load()  # a mistake in a file is said before a model is loaded
    edited = {}
    if recipe is not None:
        steps = read_recipe(recipe)
        edited[f"with {recipe.name}"] = Edited(
            lambda model: edits_of(model, steps), recipe.read_text(encoding="utf-8")
        )
    loaded = [load(name, **loading) for name in models]
    with open_counteracts(run, loaded, settings, edited) as folder:
        rows = counteracts(loaded, settings, folder, edited)
    figures = counteracts_figures(run)
    found = _by_variant(rows)
    if json:
        print_json({"run": str(run), "figures": [str(path) for path in figures], "models": found})
        return
    for entry in found:
        _print_verdicts(entry, max(settings.ks))
    print(f"All numbers: {run / 'results.jsonl'}. Charts: {figures[0].parent}.")


def _heads(text: str | None) -> tuple[tuple[int, int], ...]:
    """'3-5,2-1', counted from 1, to indices."""
    if text is None:
        return ()
    heads = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*([1-9]\d*)-([1-9]\d*)\s*", part)
        if found is None:
            raise BadProbe(
                f"{part.strip()!r} is not a head. Write layer-head, both counted from 1, as in 3-5,2-1."
            )
        heads.append((int(found[1]) - 1, int(found[2]) - 1))
    return tuple(dict.fromkeys(heads))


def _by_variant(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each model and variant: how it was asked, and its measurements."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        label = {"model": row.pop("model"), "variant": row.pop("variant")}
        del row["study"]
        if row["name"] == "how it was asked":
            label |= {"asked_as": row["form"], "words_it_cannot_say": row["absent"], "measurements": []}
            found[label["model"], label["variant"]] = label
        else:
            found[label["model"], label["variant"]]["measurements"].append(row)
    return list(found.values())


def _print_verdicts(entry: dict[str, Any], k: int) -> None:
    cells = {
        (row["name"], row["kind"]): row for row in entry["measurements"] if row["k"] == k and not row["group"]
    }
    table = []
    for (name, kind), row in cells.items():
        if name == "margin change":
            silent = cells["share without group words", kind]["value"]
            table.append((kind, _from_to(row), _number(row, "+.3f"), _verdict(row), f"{silent:.0%}"))
    silent = cells["share without group words", "base"]["value"]
    robust = cells.get(("robustness", "unrelated"))
    note = (
        f"Margin: mass of the stereotyped group's words minus the other's among the {k} likeliest tokens. Verdict: "
        "what the knowledge does to the stereotype; no change: the interval includes 0; not measured: no word of "
        f"either group in any top {k}. Silent: prompts without such a word; {silent:.0%} without knowledge. "
        f"Asked as {entry['asked_as']}."
    )
    if robust is not None:
        note += f" Preferences that survive unrelated knowledge: {_number(robust, '.2f')}, n = {robust['n']}."
    variant = "" if entry["variant"] == "base" else f", {entry['variant']}"
    columns = ("knowledge", "margin: base → with", "change [95 %]", "verdict", "silent")
    print_table(f"{entry['model']}{variant}, top {k}", columns, table, note)


def _from_to(row: dict[str, Any]) -> str:
    details = row["details"]
    return "-" if row["value"] is None else f"{details['base']:+.3f} → {details['margin']:+.3f}"


def _number(row: dict[str, Any], form: str) -> str:
    if row["value"] is None:
        return "not measured"
    low, high = row["interval"] or (None, None)
    return f"{row['value']:{form}}" + ("" if low is None else f" [{low:{form}}, {high:{form}}]")


def _verdict(row: dict[str, Any]) -> str:
    """The word, and whether that is what the kind is designed to do."""
    word: str = row["verdict"]
    if word == "not measured":
        return word
    direction = "none" if word == "no change" else "strengthens" if row["value"] > 0 else "weakens"
    return word if direction == row["expected"] else f"{word} (designed: {_DESIGNED[row['expected']]})"


_DESIGNED = {"none": "no change", "strengthens": "strengthens", "weakens": "weakens"}
