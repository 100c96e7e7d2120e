"""`levelhead mitigate`: every mitigation on one model, and which of them is certified."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Annotated

import typer

from levelhead.cli.app import Json, Loading, app, loads, print_json
from levelhead.cli.grouped import Options
from levelhead.cli.learning import Glue, GlueRows, GlueTasks, learning
from levelhead.cli.options import Bias, Limit, ModelName, RunFolder, Seed, null_models
from levelhead.cli.preflight import listed
from levelhead.cli.terminal import print_link

if TYPE_CHECKING:
    from levelhead.results.runs import MitigateRun
    from levelhead.studies.mitigating.settings import MitigateSettings


@dataclass(frozen=True)
class MitigateOptions(Options):
    """What is tried, by which bias it is judged, and what it may cost."""

    bias: Bias = "gender"
    methods: Annotated[
        str, typer.Option(help="Names with commas, or all, or quickest; default: the quick ones.")
    ] = ""
    objective: Annotated[
        str,
        typer.Option(
            help="preference, log-odds, inferences, fill-in gap, cosine gap, or a benchmark; default: the "
            "clearest of what the model does."
        ),
    ] = ""
    data: Annotated[
        str, typer.Option(metavar="FILE", help="With a benchmark as --objective: its published file.")
    ] = ""
    limit: Limit = None
    gain: Annotated[float, typer.Option(min=0, help="What it must gain, in the bias's own unit.")] = 0.0
    max_perplexity: Annotated[float, typer.Option(min=0, help="Percent that perplexity may grow by.")] = 2.0
    max_loss: Annotated[float, typer.Option(min=0, help="Points that any ability may fall by.")] = 2.0
    null: Annotated[int, null_models("Null models that the bias must stand out from", none=False)] = 9
    text: Annotated[str, typer.Option(help="Text to train on, a file or folder; default: ours.")] = ""
    steps: Annotated[int, typer.Option(min=0, help="Steps of a training; 0: as many as it needs.")] = 0
    lora: Annotated[bool, typer.Option("--lora", help="Train low-rank adapters, not all weights.")] = False
    budget: Annotated[
        str, typer.Option(metavar="TIME", help="End within 90s, 10min, 2h: fewer items, the cheapest first.")
    ] = ""
    glue: Glue = None
    glue_tasks: GlueTasks = None
    train_rows: GlueRows = None
    max_glue: Annotated[
        float | None, typer.Option(min=0, help="With --glue: points that a task may fall by. Default: 1.")
    ] = None
    seed: Seed = 0

    def settings(self) -> MitigateSettings:
        """The study, whose settings have the options' names."""
        from levelhead.studies.mitigating.settings import MitigateSettings

        known = {each.name for each in fields(MitigateSettings)}
        told = {name: value for name, value in asdict(self).items() if name in known}
        learned = learning(self.glue, self.glue_tasks, self.train_rows, self.seed, self.max_glue)
        return MitigateSettings(**{**told, "methods": tuple(listed(self.methods)), "glue": learned})


@app.command()
@loads
def mitigate(
    name: ModelName, out: RunFolder, asked: MitigateOptions, json: Json = False, *, loading: Loading
) -> None:
    """Try mitigations on a model, and certify on held-out items what each buys and costs."""
    from levelhead.cli.printed import print_run
    from levelhead.engine.effort import now
    from levelhead.models.model import load
    from levelhead.pages.page import write_report
    from levelhead.studies.mitigating.study import run_mitigations

    began, settings = now(), asked.settings()
    run = run_mitigations(load(name, **loading), settings, out, began=began)
    write_report(out)
    if json:
        print_json(_stated(run))
        return
    print_run(out)
    print_link(run.folder, run.LAYOUT)
    if run.written_model is not None:
        print(f"Model: {run.written_model}")


def _stated(run: MitigateRun) -> dict[str, object]:
    """What `--json` prints."""
    from levelhead.inference.mitigating import sentence

    return {
        "run": str(run.folder),
        "sentence": sentence(run),
        "detected": run.detected,
        "certified": [each.name for each in run.certified],
        "candidates": run.candidates,
        "biases": run.moved,
        "left_out": run.left_out,
        "odds": run.odds,
        "spillover": run.spillover,
        "times": list(run.times.values()),
        "model": None if run.written_model is None else str(run.written_model),
    }
