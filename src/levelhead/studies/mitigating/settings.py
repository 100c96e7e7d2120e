"""What can be asked of a run of mitigations."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from levelhead.errors import BadOption
from levelhead.measures.certified import PERPLEXITY, Margins, learned_cost
from levelhead.probes.words import Words
from levelhead.results.presets import check_null
from levelhead.studies.glue import GlueSettings

FEWEST_NULLS = 3  # null models that a spread is estimated from
_UNITS = {"s": 1, "min": 60, "h": 3600}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|h)")


@dataclass(frozen=True)
class MitigateSettings:
    """Which mitigations are tried, and what they must gain and may cost.

    bias: a word list by its name or path, or in memory
    methods: names of mitigations; none: all that are quick; "all" alone: every one; "quickest" alone: one
    objective: the bias that they are judged by: inferences, preference, log-odds, fill-in gap, cosine gap, or
        a benchmark; "": of what the model does, the one that part B shows most clearly
    gain: what a mitigation must gain at least, in the bias's own unit
    max_perplexity: percent that perplexity may grow by
    max_loss: points that any other ability may fall by
    null: null models that the bias must stand out from
    seed: of every draw
    text: what mitigations that train are trained on: a file or folder; "": sentences that ship
    steps: of a training; 0: as many as each method takes by itself
    lora: train low-rank adapters instead of all weights
    spillover: whether candidates are also asked about biases that they were not fitted on
    data: the published file of the benchmark that is the objective
    limit: at most so many of its items; None: all
    budget: "90s", "10min" or "2h" for everything: fewer items, fewer null models, what is cheapest; "": none
    glue: which tasks of GLUE are trained, and the points that accuracy there may fall by; None: none
    """

    bias: Words = "gender"
    methods: tuple[str, ...] = ()
    objective: str = ""
    gain: float = 0.0
    max_perplexity: float = 2.0
    max_loss: float = 2.0
    null: int = 9
    seed: int = 0
    text: str = ""
    steps: int = 0
    lora: bool = False
    budget: str = ""
    spillover: bool = True
    data: str = ""
    limit: int | None = None
    glue: GlueSettings | None = None

    def __post_init__(self) -> None:
        check_null(self.null, none=False)
        if (self.data and not self.objective) or (self.limit is not None and not self.data):
            raise BadOption("data and limit are of a benchmark: name it as the objective, and give its file.")
        if self.steps < 0:
            raise BadOption(f"steps={self.steps} came; allowed is 0 or more.")
        if min(self.gain, self.max_perplexity, self.max_loss) < 0:
            raise BadOption("A margin below 0 came; margins are 0 or more.")
        if self.glue is not None and (scored := [t.name for t in self.glue.chosen() if t.regression]):
            raise BadOption(f"{scored[0]} has scores, not right answers: name other tasks, --glue-tasks.")
        if self.budget and self.glue is not None:
            raise BadOption("budget does not cover fine-tuning on GLUE: leave budget out, or glue.")
        if self.budget and not _DURATION.fullmatch(self.budget):
            raise BadOption(f"budget={self.budget!r} came; write a time such as 90s, 10min or 2h.")

    @property
    def seconds(self) -> float | None:
        """The budget; None where there is none."""
        found = _DURATION.fullmatch(self.budget)
        return float(found[1]) * _UNITS[found[2]] if found else None

    @property
    def margins(self) -> Margins:
        """The margins in the units of the items."""
        costs = {PERPLEXITY: math.log1p(self.max_perplexity / 100)}
        if self.glue is not None:
            costs |= {learned_cost(task.name): self.glue.margin / 100 for task in self.glue.chosen()}
        return Margins(self.gain, costs=costs, other=self.max_loss / 100)
