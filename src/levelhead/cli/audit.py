"""`levelhead audit`: one command, the whole story."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levelhead.cli.app import Json, Loading, app, loads, print_json
from levelhead.cli.grouped import Options
from levelhead.cli.learning import Glue, GlueRows, GlueTasks, learning
from levelhead.cli.options import (
    AboutFile,
    Benchmarks,
    Bias,
    FluencyText,
    ModelName,
    OwnMeasures,
    PerWord,
    RunFolder,
    Seed,
    null_models,
)
from levelhead.cli.preflight import files_by_name

if TYPE_CHECKING:
    from levelhead.studies.extent import AuditSettings


@dataclass(frozen=True)
class AuditOptions(Options):
    """What an audit asks, and how much of it."""

    nli: Annotated[str | None, typer.Option(help="An NLI classifier fine-tuned from the model.")] = None
    bias: Bias = "gender"
    top: Annotated[int, typer.Option(help="How many of the most biased heads to remove.", min=1)] = 3
    full: Annotated[bool, typer.Option("--full", help="Ask everything: hours instead of minutes.")] = False
    quick: Annotated[
        bool,
        typer.Option("--quick", help="The first look alone: a minute, wide intervals, no change tried."),
    ] = False
    per_word: PerWord = None
    null: Annotated[
        int | None,
        null_models(
            "Null models to hold numbers against, for every claim; heads from 9 on. Default: 19 for the "
            "association (9 of large models), 9 for next sentences and prompts, none for heads"
        ),
    ] = None
    text: FluencyText = None
    measure: OwnMeasures = None
    benchmark: Benchmarks = None
    glue: Glue = None
    glue_tasks: GlueTasks = None
    train_rows: GlueRows = None
    seed: Seed = 0

    def settings(self) -> AuditSettings:
        """The audit; a measure of the user's own is known from here on."""
        from levelhead.scoring.registry import load_measures
        from levelhead.studies.extent import AuditSettings

        learned = learning(self.glue, self.glue_tasks, self.train_rows, self.seed)
        for file in self.measure or ():
            load_measures(file)
        return AuditSettings(
            self.bias,
            self.nli,
            self.top,
            self.full,
            self.null,
            self.text,
            self.seed,
            learned,
            quick=self.quick,
            per_word=self.per_word,
            benchmarks=files_by_name("--benchmark", self.benchmark or []),
        )


@app.command()
@loads
def audit(
    asked: AuditOptions,
    name: ModelName = "lh:bert-mini",
    out: RunFolder = Path("runs/audit"),
    about: AboutFile = None,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Measure a model's bias, find the heads that carry it, try two ways out, verify them, write a report."""
    from levelhead.auditing import audit as run_audit
    from levelhead.cli.audit_printed import print_audit, print_first_look
    from levelhead.pages.about import keep_about, read_about
    from levelhead.pages.page import write_report

    settings = asked.settings()
    stated = None if about is None else read_about(about)
    result = run_audit(name, out, settings, first_look=print_first_look, **loading)
    if stated is not None:
        keep_about(out, stated)
        write_report(out)
    if json:
        summary = {"run": str(out), "report": str(result.report), "headline": result.headline}
        print_json({**summary, "findings": result.findings, "measurements": result.measurements})
        return
    print_audit(result)
