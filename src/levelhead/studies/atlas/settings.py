"""Settings of the atlas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from levelhead.errors import BadOption
from levelhead.options import Settings, bias, null_models, option, seed
from levelhead.probes.words import Words
from levelhead.runs.study import Stored


@dataclass(frozen=True)
class AtlasSettings(Settings):
    """Which objectives are mapped, and what the maps are compared with."""

    objectives: tuple[str, ...] = option(
        (),
        "preference, log-odds, cosine-gap, seat, benchmarks, your own; with commas. Default: ours.",
        kind="objective",
    )
    data: Mapping[str, str | Path] = option(
        dict, "A benchmark's published file; repeatable.", metavar="NAME=FILE"
    )
    bias: Words = bias()
    localizer: str = option("gradient", "gradient, ablation, or one of your own.", kind="localizer")
    splits: int = option(2, "How often items are split into halves.", least=1)
    null: int = null_models(19)
    limit: int | None = option(
        None, "At most so many items of every benchmark, next-sentence pairs and prompts.", least=2
    )
    seed: int = seed()
    transfer: int = option(
        0,
        "Ablate K heads of each objective, and measure everything on held-out items; 0: none.",
        least=0,
        metavar="K",
    )

    def check(self) -> None:
        given: object = self.objectives
        if isinstance(given, str):
            raise BadOption(f"objectives must be a tuple, ({given!r},) (got {given!r})")


@dataclass(frozen=True, kw_only=True)
class AtlasStored(Stored, AtlasSettings):
    """The settings as a run stores them."""

    bias: str = "gender"
