"""Settings of a run of mitigations."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from levelhead.errors import BadOption
from levelhead.measures.certificate import LEARNED, PERPLEXITY, WRITTEN, Margins
from levelhead.options import bias, null_models, option, seed
from levelhead.probes.words import Words
from levelhead.runs.study import Stored
from levelhead.studies.glue.settings import GlueSettings, Learning

FEWEST_NULLS = 3  # null models that a spread is estimated from
_UNITS = {"s": 1, "min": 60, "h": 3600}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|min|h)")


@dataclass(frozen=True)
class MitigateSettings(Learning):
    """Which mitigations are tried, and what they must gain and may cost."""

    bias: Words = bias()
    methods: tuple[str, ...] = option((), "Names with commas, or all, or quickest; default: the quick ones.")
    objective: str = option(
        "",
        "preference, log-odds, inferences, fill-in gap, cosine gap, mirror divergence, who appears, or a "
        "benchmark; default: the clearest of what the model does.",
    )
    data: str = option(
        "",
        "The published file, where it is a benchmark.",
        needs="objective",
        metavar="FILE",
        kind="file",
    )
    limit: int | None = option(None, "At most so many of its items, evenly spread.", least=1, needs="data")
    gain: float = option(0.0, "What it must gain, in the bias's own unit.", least=0)
    max_perplexity: float = option(2.0, "Percent that perplexity may grow by.", least=0)
    max_loss: float = option(2.0, "Points that any ability may fall by.", least=0)
    null: int = null_models(9, "Null models that the bias must stand out from", none=False)
    text: str = option("", "Text to train on, a file or folder; default: ours.", kind="corpus")
    steps: int = option(0, "Steps of a training; 0: as many as it needs.", least=0)
    lora: bool = option(False, "Train low-rank adapters, not all weights.")
    budget: str = option("", "End within 90s, 10min, 2h: fewer items, the cheapest first.", metavar="TIME")
    spillover: bool = option(
        True, "Also test biases that candidates were not fitted on; --no-spillover: without."
    )
    writing: bool = option(True, "Also let candidates of a causal model write; --no-writing: without.")
    outside: str = option(
        "",
        "Text that certificates are evaluated on too, a file, a folder or hub:NAME, or none; default: ours.",
        kind="corpus",
    )
    max_glue: float = option(1.0, "Points that a task may fall by.", least=0, needs="glue")
    seed: int = seed()

    def check(self) -> None:
        if (self.data and not self.objective) or (self.limit is not None and not self.data):
            raise BadOption("data and limit are of a benchmark: name it as the objective, and give its file.")
        if self.budget and self.glue is not None:
            raise BadOption("budget does not cover fine-tuning on GLUE: leave budget out, or glue.")
        if self.budget and not _DURATION.fullmatch(self.budget):
            raise BadOption(f"budget must be a time such as 90s, 10min or 2h (got {self.budget!r})")
        if self.objective in WRITTEN and not self.writing:
            raise BadOption(f"The objective {self.objective} is read off texts: leave --no-writing out.")
        learned = self.learned
        if learned is not None and (scored := [t.name for t in learned.chosen() if t.regression]):
            raise BadOption(f"{scored[0]} has scores, not right answers: name other tasks, --glue-tasks.")

    @property
    def learned(self) -> GlueSettings | None:
        """What is fine-tuned on GLUE; None: nothing."""
        return self.learning(self.seed, self.max_glue)

    @property
    def seconds(self) -> float | None:
        """The budget; None where there is none."""
        found = _DURATION.fullmatch(self.budget)
        return float(found[1]) * _UNITS[found[2]] if found else None

    @property
    def margins(self) -> Margins:
        """The margins in the units of the items."""
        costs = {PERPLEXITY: math.log1p(self.max_perplexity / 100)}
        if (learned := self.learned) is not None:
            costs |= {f"{LEARNED}{task.name}": learned.margin / 100 for task in learned.chosen()}
        return Margins(self.gain, costs=costs, other=self.max_loss / 100)


@dataclass(frozen=True, kw_only=True)
class MitigateStored(Stored, MitigateSettings):
    """The settings as a run stores them."""

    bias: str = "gender"
    glue: str | None = None
