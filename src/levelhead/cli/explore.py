"""`levelhead explore`: try a sentence, its counterfactual and switches on heads on a page of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from levelhead.cli.app import Loading, app, loads
from levelhead.cli.options import Bias, ModelName


@app.command()
@loads
def explore(
    name: ModelName,
    run: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="A run of this model: its scores and recipes.")
    ] = None,
    second: Annotated[
        str | None, typer.Option(metavar="MODEL", help="A second model, whose answers stand beside.")
    ] = None,
    bias: Bias = "gender",
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Of 127.0.0.1. Default: one that is free.")
    ] = 0,
    opens: Annotated[bool, typer.Option("--open", help="Also open the page in your browser.")] = False,
    *,
    loading: Loading,
) -> None:
    """Try your own sentence: its counterfactual, heads switched off, odds that move. Ctrl-C ends it."""
    from levelhead.exploring.explorer import Explorer
    from levelhead.exploring.serving import Served, require_server
    from levelhead.models.model import load
    from levelhead.probes.words import load_words
    from levelhead.results.runs import open_run

    require_server()
    given = None if run is None else open_run(run)
    other = None if second is None else load(second, **loading)
    served = Served(Explorer(load(name, **loading), load_words(bias), given, other), port)
    print(f"{served.address}\nCtrl-C ends it.", flush=True)
    if opens:
        import webbrowser

        webbrowser.open(served.address)
    served.run()
