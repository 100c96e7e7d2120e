"""`levelhead debias`: a mitigated model as a folder that anyone can load."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelhead.cli.app import Json, Loading, app, loads, print_json, refuse_idle
from levelhead.cli.endings import output_folder
from levelhead.cli.grouped import Options
from levelhead.cli.options import HeadGates, RecipeFile
from levelhead.edits.head import Head
from levelhead.errors import BadOption

if TYPE_CHECKING:
    from levelhead.mitigation.export import ExportReport
    from levelhead.mitigation.recipe import Recipe

_TOP = 3  # heads that --from-heads removes


@dataclass(frozen=True)
class Changes(Options):
    """What is changed in a model: by a recipe, by heads, by gates that are learned."""

    recipe: RecipeFile = None
    heads: HeadGates = ""
    from_heads: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Remove the heads that a heads run found.")
    ] = None
    learned: Annotated[
        float | None,
        typer.Option(metavar="FACTOR", help="Learn gates; perplexity may grow by this factor, e.g. 1.05."),
    ] = None
    bias: Annotated[
        str, typer.Option(help="With --learned: gender, race, or your word list (docs/own-words.md).")
    ] = "gender"
    top: Annotated[
        int | None,
        typer.Option(min=1, help="With --from-heads: how many, the most biased first. Default: 3."),
    ] = None
    coin: Annotated[
        int | None,
        typer.Option(metavar="SEED", help="With a recipe that symmetrizes: ask each text once, by a coin."),
    ] = None

    def check(self) -> None:
        """Refuse no change at all, and an option that would change nothing."""
        if self.recipe is None and not self.heads and self.from_heads is None and self.learned is None:
            raise BadOption(
                "Nothing to change: give --recipe FILE, --heads 3-5,7-2, --from-heads RUN or --learned 1.05."
            )
        refuse_idle(self.from_heads is not None, "--from-heads", {"--top": self.top})

    def plan(self) -> Recipe:
        """The recipe's own changes."""
        from levelhead.mitigation.recipe import Recipe, load_recipe

        plan = Recipe() if self.recipe is None else load_recipe(self.recipe)
        refuse_idle(bool(plan.symmetrize), "a recipe with [symmetrize]", {"--coin": self.coin})
        return plan if self.coin is None else replace(plan, coin=self.coin)


@app.command()
@loads
def debias(
    model: Annotated[str, typer.Argument(help="Shipped model, folder, .gguf file or hub name.")],
    output: Annotated[Path, output_folder("The folder to write; new or empty.", "DIR")],
    changes: Changes,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Write a mitigated model: plain weights where the edits fold, else an adapter with its own code."""
    changes.check()
    named = parse_heads(changes.heads)
    from levelhead.inference.heads_in_words import removal_text
    from levelhead.mitigation.mitigate import biased_heads, mitigate
    from levelhead.models.model import load
    from levelhead.results.runs import open_heads
    from levelhead.studies.heads.learning import LearnedGatesSettings, learned_recipe

    search = None if changes.learned is None else LearnedGatesSettings(changes.learned, changes.bias)
    plan = changes.plan()
    run = None if changes.from_heads is None else open_heads(changes.from_heads)
    loaded = load(model, **loading)
    biased = [] if run is None else biased_heads(run, changes.top or _TOP, loaded)
    weights = None if search is None else learned_recipe(loaded, search)
    own = {} if weights is None else weights.recipe.gates
    title = plan.title or ("" if weights is None else weights.recipe.title)
    gates = {**plan.gates, **own, **dict.fromkeys(biased, 0.0), **named}
    report = mitigate(loaded, replace(plan, gates=gates, title=title), output)
    if json:
        print_json({**report.to_json(), **({} if weights is None else {"learned": weights.reached})})
        return
    why = [] if weights is None else [weights.in_words]
    _print(model, report, [*why, *([] if run is None else [removal_text(run, biased)])])


def parse_heads(text: str) -> dict[Head, float]:
    """`3-5,7-2=0.5` -> {Head(2, 4): 0.0, Head(6, 1): 0.5}: people count layers and heads from 1."""
    gates: dict[Head, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        written, has_gate, gate = part.partition("=")
        try:
            head, value = Head.parse(written), float(gate) if has_gate else 0.0
        except (BadOption, ValueError):
            head, value = None, math.nan
        if head is None or not math.isfinite(value):
            raise BadOption(
                f"--heads has {part!r}; write LAYER-HEAD or LAYER-HEAD=GATE, counted from 1: 3-5,7-2=0.5"
            )
        if head in gates:
            raise BadOption(f"--heads names head {head} twice.")
        gates[head] = value
    return gates


def _print(name: str, report: ExportReport, reasons: Sequence[str]) -> None:
    """What was written and how to load it; reasons: why these edits."""
    kind = (
        "plain weights, nothing of levelhead needed"
        if report.folded
        else "an adapter with self-contained code"
    )
    print(f"{name}, edited, is now in {report.folder}: {kind}.")
    for why in report.obstacles:
        print(f"  not folded: {why}")
    print(f"  max difference after reload  {report.max_difference:.2g}")
    print(f"  the edits change outputs by up to  {report.effect:.3g}")
    print(f"  load with  {report.load_with}")
    if report.opens_here:
        print(f"         or  levelhead.load({str(report.folder)!r})   (runs no remote code)")
    if report.note:
        print(f"  note: {report.note}")
    for reason in reasons:
        print(f"  {reason}")
