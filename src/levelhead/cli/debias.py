"""`levelhead debias`: a mitigated model as a folder that anyone can load."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from levelhead.cli.app import Json, Loading, loads, print_json
from levelhead.cli.endings import output_folder
from levelhead.errors import BadOption
from levelhead.options import Settings, bias, closed_heads, option, recipe


@dataclass(frozen=True)
class Changes(Settings):
    """What is changed in a model: by a recipe, by heads, by gates that are learned."""

    recipe: str | None = recipe()
    heads: str = closed_heads()
    from_heads: str | None = option(
        None, "Ablate the heads that a heads run found.", metavar="RUN", kind="run"
    )
    learned: float | None = option(
        None, "Learn gates; perplexity may grow by this factor, e.g. 1.05.", metavar="FACTOR"
    )
    bias: str = bias(needs="learned")
    top: int = option(3, "How many, the most biased first.", least=1, needs="from_heads")
    coin: int | None = option(
        None, "With a recipe that symmetrizes: ask each text once, by a coin.", metavar="SEED"
    )

    def check(self) -> None:
        if self.recipe is None and not self.heads and self.from_heads is None and self.learned is None:
            raise BadOption(
                "Nothing to change: give --recipe FILE, --heads 3-5,7-2, --from-heads RUN or --learned 1.05."
            )


@loads
def debias(
    name: Annotated[
        str, typer.Argument(metavar="MODEL", help="Shipped model, folder, .gguf file or hub name.")
    ],
    output: Annotated[Path, output_folder("The folder to write; new or empty.", "DIR")],
    changes: Changes,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Write a mitigated model: plain weights where the edits fold, else an adapter with its own code."""
    from levelhead.inference.head_claims import removal_text
    from levelhead.mitigation.mitigate import biased_heads, mitigate
    from levelhead.mitigation.recipe import Recipe, load_recipe
    from levelhead.models.model import load
    from levelhead.studies.glue.run import parsed_gates
    from levelhead.studies.heads import open_heads
    from levelhead.studies.heads.learning import LearnedGatesSettings, learned_recipe

    named = parsed_gates(changes.heads)
    search = None if changes.learned is None else LearnedGatesSettings(changes.learned, changes.bias)
    plan = Recipe() if changes.recipe is None else load_recipe(changes.recipe)
    if changes.coin is not None:
        if not plan.symmetrize:
            raise BadOption(
                "--coin would change nothing without a recipe with [symmetrize]. Add that, or leave it out."
            )
        plan = replace(plan, coin=changes.coin)
    run = None if changes.from_heads is None else open_heads(changes.from_heads)
    loaded = load(name, **loading)
    biased = [] if run is None else biased_heads(run, changes.top, loaded)
    weights = None if search is None else learned_recipe(loaded, search)
    own = {} if weights is None else weights.recipe.gates
    title = plan.title or ("" if weights is None else weights.recipe.title)
    gates = {**plan.gates, **own, **dict.fromkeys(biased, 0.0), **named}
    report = mitigate(loaded, replace(plan, gates=gates, title=title), output)
    if json:
        print_json({**report.to_json(), **({} if weights is None else {"learned": weights.reached})})
        return
    kind = "plain weights, nothing of levelhead needed"
    if not report.folded:
        kind = "an adapter with self-contained code"
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
    if weights is not None:
        print(f"  {weights.in_words}")
    if run is not None:
        print(f"  {removal_text(run, biased)}")
