"""`levelhead heads`: which heads carry a bias, and what removing them buys."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from levelhead.cli.app import Json, Loading, app, loads, print_json, refuse_idle
from levelhead.cli.atlas import map_objectives
from levelhead.cli.grouped import Options
from levelhead.cli.options import (
    Bias,
    FluencyText,
    ModelName,
    NullTwins,
    PerWord,
    RunFolder,
    Seed,
    Stereotypes,
)
from levelhead.cli.preflight import listed
from levelhead.cli.terminal import print_link

if TYPE_CHECKING:
    from levelhead.results.runs import HeadsRun
    from levelhead.studies.heads.settings import HeadsSettings
    from levelhead.studies.localizing.settings import AtlasSettings

_CONTEXTS, _EXPERIMENTS = "templates", "scores,ablation,counter"
_SHOWN = 5  # heads at either end of the ranking


@dataclass(frozen=True)
class HeadsOptions(Options):
    """What `levelhead heads` is asked: the study of |SEAT|, or the map of one objective."""

    bias: Bias = "gender"
    contexts: Annotated[
        str, typer.Option(help="templates, a .txt or .jsonl file, a folder, or hub:NAME.")
    ] = _CONTEXTS
    experiments: Annotated[
        str, typer.Option(help="Of scores, ablation, counter, debias; separated by commas.")
    ] = _EXPERIMENTS
    per_word: PerWord = None
    score_contexts: Annotated[
        int | None,
        typer.Option(help="Of them, for scores and removals. Default: 2 to 16 templates, all of a corpus."),
    ] = None
    sentences: Stereotypes = None
    top: Annotated[
        int | None,
        typer.Option(min=1, help="With debias: how many of the most biased heads to remove. Default: 3."),
    ] = None
    text: FluencyText = None
    null: NullTwins = 19
    trim: Annotated[bool, typer.Option("--trim", help="Cut X and Y to equal size.")] = False
    objective: Annotated[
        str | None,
        typer.Option(
            help="Map the heads behind this instead: log-odds, crows-pairs, one of your own ... (atlas)."
        ),
    ] = None
    data: Annotated[
        str | None, typer.Option(metavar="FILE", help="With --objective: the benchmark's published file.")
    ] = None
    localizer: Annotated[
        str | None, typer.Option(help="With --objective: gradient, ablation, or one of your own.")
    ] = None
    seed: Seed = 0

    def study(self) -> HeadsSettings:
        """The study of |SEAT|; what would change nothing is refused."""
        from levelhead.studies.heads.settings import HeadsSettings

        chosen = tuple(listed(self.experiments))
        refuse_idle(False, "--objective", {"--data": self.data, "--localizer": self.localizer})
        refuse_idle("debias" in chosen, "the experiment debias", {"--top": self.top, "--text": self.text})
        refuse_idle("counter" in chosen, "the experiment counter", {"--sentences": self.sentences})
        return HeadsSettings(
            self.bias,
            self.contexts,
            chosen,
            self.per_word,
            self.sentences,
            top=self.top or HeadsSettings.top,
            text=self.text,
            trim=self.trim,
            null=self.null,
            seed=self.seed,
            score_contexts=self.score_contexts,
        )

    def map_of(self, objective: str) -> AtlasSettings:
        """The map of one objective, which the other options have no part in."""
        from levelhead.studies.localizing.settings import AtlasSettings

        others: dict[str, object] = {
            "--per-word": self.per_word,
            "--score-contexts": self.score_contexts,
            "--sentences": self.sentences,
            "--top": self.top,
            "--text": self.text,
            "--trim": self.trim or None,
        }
        if (self.contexts, self.experiments) != (_CONTEXTS, _EXPERIMENTS):
            others["--contexts or --experiments"] = True
        refuse_idle(False, "the study of |SEAT|, which runs without --objective", others)
        data = {} if self.data is None else {objective: self.data}
        localizer = self.localizer or AtlasSettings.localizer
        return AtlasSettings((objective,), data, self.bias, localizer, null=self.null, seed=self.seed)


@app.command()
@loads
def heads(
    name: ModelName, out: RunFolder, asked: HeadsOptions, json: Json = False, *, loading: Loading
) -> None:
    """Find the attention heads that carry a bias, and check that they are the ones."""
    from levelhead.cli.printed import print_run
    from levelhead.models.model import load
    from levelhead.pages.figures.heads import write_figures
    from levelhead.studies.heads.study import heads as find_heads

    if asked.objective is not None:
        one = asked.map_of(asked.objective)
        map_objectives(load(name, **loading), one, out, json)
        return
    settings = asked.study()
    run = find_heads(load(name, **loading), settings, out)
    figures = write_figures(out)
    if json:
        print_json({**_json(run), "figures": [str(path) for path in figures]})
        return
    print_run(out)
    print_link(run.folder, run.LAYOUT)


def _json(run: HeadsRun) -> dict[str, object]:
    """What a program wants to know of a run; experiments that were not asked for are left out."""
    everything: dict[str, object] = {
        "run": str(run.folder),
        "model": run.model,
        "words": run.words,
        "seat": run.seat,
        "seat_rows": run.seat_rows,
        "cross_fit": run.cross_fit,
        "clear_heads": run.clear_heads,
        "heads": len(run.scores),
        "biased": sum(score.biased for score in run.scores),
        "most_biased": run.ranked[:_SHOWN],
        "most_anti_biased": run.ranked[: -_SHOWN - 1 : -1],
        "sources": run.sources,
        "agreement": run.agreement,
        "contrasts": run.contrasts,
        "counter": run.counter,
        "counter_sides": run.counter_sides,
        "strategies": run.strategies,
        "random_strategies": run.random_strategies,
        "verdict": run.verdict,
        "top_sweep": run.top_sweep,
        "learned": run.learned,
        "learned_gates": run.learned_gates,
        "tradeoffs": run.tradeoffs,
    }
    return {name: value for name, value in everything.items() if value not in (None, ())}
