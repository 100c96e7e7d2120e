"""Settings of projections."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from levelhead.errors import BadOption
from levelhead.options import (
    Settings,
    ability,
    labels,
    occupations,
    option,
    probe,
    resamples,
    seed,
    strict,
    triples,
)
from levelhead.probes.nli import AbilitySet, NliProbe
from levelhead.probes.triples import TripleSet
from levelhead.runs.study import Stored

if TYPE_CHECKING:
    from levelhead.models.model import Model

FITS = ("base", "sequential")


@dataclass(frozen=True)
class ProjectionsSettings(Settings):
    """What projections are fitted on, and what both models are evaluated on."""

    nli: str | Model | None = option(None, "An NLI classifier, e.g. lh:nli-mini.", kind="model")
    depth: bool = option(False, "Also search token projections from any layer on.")
    fit: str = option(
        "base",
        "base, or sequential: fit each projection with the earlier ones on.",
        choices=FITS,
        old=("--sequential",),
        on="sequential",
    )
    pairs: str = option(
        "frames", "What the classifier's subspaces are fitted on: pairs, frames, single, or a .tsv file."
    )
    triples: str | Path | TripleSet | None = triples()
    labels: str | None = labels()
    ability: str | Path | AbilitySet | None = ability()
    limit: tuple[int, int] | None = occupations()
    probe: str | Path | NliProbe | None = probe()
    strict: bool = strict()
    resamples: int = resamples()
    seed: int = seed()

    def check(self) -> None:
        if self.nli is None:
            raise BadOption("nli must name an NLI classifier, e.g. lh:nli-mini (got none)")


@dataclass(frozen=True, kw_only=True)
class ProjectionsStored(Stored, ProjectionsSettings):
    """The settings as a run stores them."""

    nli: str | None = None
    triples: str | None = None
    ability: str | None = None
    probe: str | None = None
    triples_name: str  # the names of the data
    ability_name: str
    occupations: int
    contexts: int
    words: tuple[str, str]  # feminine, masculine, of the hypotheses
    form: str  # of the inputs that the next-sentence model's subspaces were fitted on
    nli_form: str
