"""`levelhead audit`: one command, the whole story."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from levelhead.cli.app import Json, Loading, app, loads, print_json, print_table


@app.command()
@loads
def audit(
    name: Annotated[
        str, typer.Argument(metavar="MODEL", help="Shipped (lh:bert-mini), hub name, folder or .gguf.")
    ] = "lh:bert-mini",
    out: Annotated[
        Path, typer.Option("-o", "--output", metavar="RUN", help="Folder for results and report.")
    ] = Path("runs/audit"),
    nli: Annotated[str | None, typer.Option(help="An NLI classifier fine-tuned from the model.")] = None,
    bias: Annotated[
        str, typer.Option(help="gender, race, or your word list (docs/own-words.md).")
    ] = "gender",
    top: Annotated[int, typer.Option(help="How many of the most biased heads to remove.", min=1)] = 3,
    full: Annotated[bool, typer.Option("--full", help="Ask everything: hours instead of minutes.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every draw.")] = 0,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Measure a model's bias, find the heads that carry it, try two ways out, verify them, and write a
    report."""
    from levelhead.auditing import AuditSettings
    from levelhead.auditing import audit as run_audit

    settings = AuditSettings(bias=bias, nli=nli, top=top, full=full, seed=seed)
    found = run_audit(name, out, settings, **loading)
    if json:
        told: dict[str, Any] = {"run": str(out), "report": str(found.report), "headline": found.headline}
        print_json({**told, "findings": found.findings, "measurements": found.measurements})
        return
    print(f"\n{found.headline}\n")
    for finding in found.findings:
        print(f"- {finding}")
    _print_table(found.measurements)
    print(f"\nReport:  {found.report}\nResults: {out / 'results.jsonl'}")


def _print_table(measured: Any) -> None:
    """Before and after, side by side."""
    from levelhead.report.headline import valued

    names = [name for name, row in measured["base"].items() if row["value"] is not None]
    columns = ["measure", *measured]
    rows = [[name, *(valued(m[name]) if name in m else "" for m in measured.values())] for name in names]
    print_table("Before and after, with 95 % intervals", columns, rows)
