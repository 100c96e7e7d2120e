"""Reproduce: a paper's tables and figures beside what is measured here."""

from __future__ import annotations

from levelhead.runs.study import Inside, One, Study
from levelhead.studies.counteracts import Counteracts
from levelhead.studies.heads import Heads
from levelhead.studies.projections import Projections
from levelhead.studies.reproduce.records import Reproduction
from levelhead.studies.reproduce.settings import ReproduceSettings, ReproduceStored


class Reproduce(Study[ReproduceStored]):
    """A paper's tables beside ours: `found.cells`; the run of its study inside, `heads` ..."""

    name = "reproduce"
    title = "Beside the paper"
    question = "Does the paper's every number hold here?"
    about = (
        "Print every table and figure of a paper beside ours: published, measured, interval, what differed."
    )
    settings_type = ReproduceSettings
    stored = ReproduceStored
    takes = "nothing"
    loads = False
    order = 95
    document = "reproduce.md"

    found = One(Reproduction, "Every cell of the paper beside ours.")

    heads = Inside(Heads)
    projections = Inside(Projections)
    counteracts = Inside(Counteracts)

    @property
    def model(self) -> str:
        """The model, or the models, of the paper's study."""
        return self.settings.model if self.found is None else self.found.model

    def stated(self) -> dict[str, object]:
        """What `--json` prints: the paper beside ours."""
        return {} if self.found is None else self.found.to_json()
