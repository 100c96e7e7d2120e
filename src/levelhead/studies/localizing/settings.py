"""What can be asked of the atlas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from levelhead.errors import BadOption
from levelhead.probes.words import Words
from levelhead.results.presets import check_null
from levelhead.scoring.benchmarks.catalog import benchmarks
from levelhead.scoring.benchmarks.protocol import BENCHMARKS
from levelhead.scoring.natural import COSINE, LOG_ODDS, PREFERENCE
from levelhead.scoring.objective import OBJECTIVES
from levelhead.scoring.objectives import SEAT

SHIPPED = {"preference": PREFERENCE, "log-odds": LOG_ODDS, "cosine-gap": COSINE, "seat": SEAT}
for _registry in (OBJECTIVES, BENCHMARKS):
    _registry.taken |= {name: f"the objective {name}" for name in SHIPPED}


@dataclass(frozen=True)
class AtlasSettings:
    """Which objectives are mapped, and what the maps are held against.

    objectives: of preference, log-odds, cosine-gap, seat, benchmarks and those of your own; none: all shipped
        ones that the model has, and the benchmarks of `data`
    data: the published file of every benchmark, by the benchmark's name
    bias: a word list by its name or path, or in memory
    localizer: what scores heads: gradient, ablation, or one of your own
    splits: how often the items are split into halves, to see what of a map holds on other items
    null: how many null models (vocabulary-permuted twins) are mapped too; 0: none
    limit: at most so many items of every benchmark, next-sentence pairs and prompts; None: all
    seed: of every draw
    transfer: so many of the highest heads of each objective are ablated, and every measure is asked on items
        that they were not chosen on; 0: none
    """

    objectives: tuple[str, ...] = ()
    data: Mapping[str, str | Path] = field(default_factory=dict)
    bias: Words = "gender"
    localizer: str = "gradient"
    splits: int = 2
    null: int = 19
    limit: int | None = None
    seed: int = 0
    transfer: int = 0

    def __post_init__(self) -> None:
        given: object = self.objectives
        if isinstance(given, str):
            raise BadOption(f"objectives is {given!r}; give a tuple, ({given!r},).")
        known, own = benchmarks(), OBJECTIVES.known()
        if both := known.keys() & own.keys():
            raise BadOption(
                f"A benchmark and an objective are both called {both.pop()!r}. Rename one of them."
            )
        every = (*SHIPPED, *known, *own)
        if unknown := [name for name in (*self.objectives, *self.data) if name not in every]:
            raise BadOption(f"No objective is called {unknown[0]!r}. There are: {', '.join(every)}.")
        if without := [name for name in self.names if name in known and name not in self.data]:
            raise BadOption(
                f"The objective {without[0]} needs its published file: --data {without[0]}=FILE, or "
                f"data={{{without[0]!r}: FILE}} in Python."
            )
        if idle := [name for name in self.data if name not in known or name not in self.names]:
            raise BadOption(f"Data for {idle[0]!r} came, which is no benchmark among the objectives.")
        if self.transfer < 0:
            raise BadOption(f"transfer={self.transfer} came; give how many heads are ablated, or 0.")
        check_null(self.null)
        if self.splits < 1 or (self.limit is not None and self.limit < 2):
            values = f"splits={self.splits}, limit={self.limit}"
            raise BadOption(f"{values} came; splits needs 1 or more, limit 2 or more.")

    @property
    def names(self) -> tuple[str, ...]:
        """The objectives that are asked for, each once."""
        return tuple(dict.fromkeys(self.objectives or (*SHIPPED, *self.data)))
