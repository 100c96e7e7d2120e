"""`levelhead explore`: try a sentence, its counterfactual and switches on heads on a page of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from levelhead.cli.app import Loading, ModelName, loads
from levelhead.options import Settings, bias, option


@dataclass(frozen=True)
class Page(Settings):
    """What the page shows, and where."""

    run: str | None = option(
        None, "A run of this model: its scores and recipes.", argument=True, metavar="RUN"
    )
    second: str | None = option(
        None, "A second model, whose answers stand beside.", metavar="MODEL", kind="model"
    )
    bias: str = bias()
    port: int = option(0, "Of 127.0.0.1. Default: one that is free.", least=0, most=65_535)


@loads
def explore(
    name: ModelName,
    page: Page,
    opens: Annotated[bool, typer.Option("--open", help="Also open the page in your browser.")] = False,
    *,
    loading: Loading,
) -> None:
    """Try your own sentence: its counterfactual, heads switched off, odds that move. Ctrl-C ends it."""
    from levelhead.exploring.explorer import Explorer
    from levelhead.exploring.serving import Served
    from levelhead.models.model import load
    from levelhead.probes.words import load_words
    from levelhead.runs.study import open_run
    from levelhead.serving.listening import require_server

    require_server("explore")
    given = None if page.run is None else open_run(page.run)
    other = None if page.second is None else load(page.second, **loading)
    served = Served(Explorer(load(name, **loading), load_words(page.bias), given, other), page.port)
    print(f"{served.address}\nCtrl-C ends it.", flush=True)
    if opens:
        import webbrowser

        webbrowser.open(served.address)
    served.run()
