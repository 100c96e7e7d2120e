"""The page of `levelhead explore` from Python: in a cell of a notebook, or at its address."""

from __future__ import annotations

from html import escape
from pathlib import Path

from levelhead.api.shown import OPEN
from levelhead.api.studies import AnyModel, loaded
from levelhead.exploring.explorer import Explorer
from levelhead.exploring.serving import Served
from levelhead.probes.words import Words, load_words
from levelhead.runs.study import AnyRun, Study, open_run

_HEIGHT = 900  # pixels of the frame


class Explored:
    """A page that is served until `close`; a notebook shows it in its cell."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self.address = served.address  # on this machine alone, with its token

    def close(self) -> None:
        """End the server."""
        for weights in [weights for weights, address in OPEN.items() if address == self.address]:
            del OPEN[weights]
        self._served.close()

    def _repr_html_(self) -> str:
        address = escape(self.address, quote=True)
        frame = f'<iframe src="{address}" width="100%" height="{_HEIGHT}" title="levelhead explore"></iframe>'
        return f'{frame}<p><a href="{address}">{address}</a></p>'

    def __repr__(self) -> str:
        return f"<levelhead explore at {self.address}>"


def explore(
    model: AnyModel,
    run: AnyRun | str | Path | None = None,
    bias: Words = "gender",
    second: AnyModel | None = None,
    port: int = 0,
) -> Explored:
    """Try sentences on a model: counterfactuals, heads switched off, odds that move (docs/explore.md).

    run: a run of this model, whose scores and recipes are offered. second: a model to stand beside. port: of
    127.0.0.1; 0 is any free one. The server runs in a thread of this process until `close`; meanwhile results
    about this model link to the page.
    """
    opened = run if run is None or isinstance(run, Study) else open_run(run)
    other = None if second is None else loaded(second)
    explorer = Explorer(loaded(model), load_words(bias), opened, other)
    served = Served(explorer, port, framed=True).start()
    OPEN[explorer.model.fingerprint] = served.address
    return Explored(served)
