"""The papers, and the run of each beside it."""

from __future__ import annotations

from levelhead.errors import BadRun
from levelhead.files import write_text_inside
from levelhead.pages.replication.counteracts import prompts_reproduction
from levelhead.pages.replication.heads import heads_reproduction
from levelhead.pages.replication.projections import sweep_reproduction
from levelhead.results import layout
from levelhead.results.records.reproduction import Reproduction
from levelhead.results.runs import AnyRun, GlueRun, HeadsRun, PromptsRun, SweepRun


def beside_paper(run: AnyRun, glue: GlueRun | None = None) -> Reproduction:
    """A run beside the paper that its study follows; glue: a run of `levelhead glue`, for Table 2."""
    match run:
        case HeadsRun():
            return heads_reproduction(run, glue)
        case SweepRun():
            return sweep_reproduction(run)
        case PromptsRun():
            return prompts_reproduction(run)
    raise BadRun(f"{run.folder} is a run of {run.settings.study}; heads, prompts and sweep follow a paper.")


def write_reproduction(run: AnyRun, reproduction: Reproduction) -> None:
    """Keep a reproduction in its run folder, as a table and as JSON."""
    write_text_inside(
        run.folder, layout.REPRODUCED_CELLS.name, layout.REPRODUCED_CELLS.text(reproduction.cells)
    )
    write_text_inside(run.folder, layout.REPRODUCTION.name, layout.REPRODUCTION.text(reproduction))
