"""Settings of a paper."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from levelhead.errors import BadOption
from levelhead.options import Settings, labels, option, seed
from levelhead.runs.study import Stored

if TYPE_CHECKING:
    from levelhead.models.model import Model

PAPERS = ("heads", "projections", "counteracts")  # the names of their studies


@dataclass(frozen=True)
class ReproduceSettings(Settings):
    """Which paper, and how much of its study is run."""

    paper: str = option("", "heads, projections or counteracts: whose tables and figures.", argument=True)
    models: tuple[str, ...] = option(
        (),
        "Default: the paper's own, from the hub. Several for counteracts.",
        metavar="NAME",
        kind="model",
        old=("--model",),
    )
    nli: str | Model | None = option(
        None,
        "Of projections: an NLI classifier, which the paper does not publish, e.g. lh:nli-mini.",
        kind="model",
    )
    labels: str | None = labels()
    run: str | Path | None = option(
        None,
        "A finished run of the paper's study, which is read in place of running it.",
        metavar="RUN",
        kind="run",
    )
    glue: str | Path | None = option(
        None, "Of heads: a run of levelhead glue, for Table 2.", metavar="RUN", kind="run"
    )
    quick: bool = option(False, "Ask less: minutes instead of an hour.")
    seed: int = seed()

    def check(self) -> None:
        if self.paper not in PAPERS:
            raise BadOption(f"paper must be of {', '.join(PAPERS)} (got {self.paper!r})")
        if len(self.models) > 1 and self.paper != "counteracts":
            raise BadOption(f"models must be one for {self.paper} (got {len(self.models)})")
        if self.run is not None and (self.models or self.nli is not None or self.quick):
            raise BadOption("A finished run is read as it is. Leave out models, nli and quick, or run.")
        if self.paper == "projections" and self.run is None and self.nli is None:
            raise BadOption(
                "The paper's NLI classifier is not published. Give one with --nli, for example lh:nli-mini, "
                "or make one with levelhead finetune --task snli."
            )


@dataclass(frozen=True, kw_only=True)
class ReproduceStored(Stored, ReproduceSettings):
    """The settings as a run stores them."""

    models: tuple[str, ...] = ()
    nli: str | None = None
    run: str | None = None
    glue: str | None = None
