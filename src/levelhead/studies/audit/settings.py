"""Settings of an audit, and how much of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from levelhead.errors import BadOption
from levelhead.options import (
    ABOUT,
    benchmarks,
    bias,
    fluency_text,
    null_models,
    option,
    own_measures,
    per_word,
    seed,
)
from levelhead.probes.words import Words
from levelhead.runs.presets import SMALL, AuditSizes
from levelhead.runs.study import Stored
from levelhead.studies.glue.settings import GlueSettings, Learning

if TYPE_CHECKING:
    from levelhead.models.model import Model


@dataclass(frozen=True)
class AuditSettings(Learning):
    """What a model is evaluated on, and how much of it."""

    bias: Words = bias()
    nli: str | Model | None = option(None, "An NLI classifier fine-tuned from the model.", kind="model")
    top: int = option(3, "How many of the most biased heads to ablate.", least=1)
    full: bool = option(False, "Ask everything: hours instead of minutes.")
    quick: bool = option(False, "The first look alone: a minute, wide intervals, no mitigation tried.")
    per_word: int | None = per_word()
    null: int | None = null_models(
        None,
        "Null models to compare with, for every claim; heads from 9 on. Default: 19 for the association "
        "(9 of large models), 9 for next sentences and prompts, none for heads",
    )
    generate: bool = option(False, "Also let a causal model write: who appears, and its mirror divergence.")
    text: str | None = fluency_text()
    own_measures: tuple[str, ...] = own_measures()
    benchmarks: Mapping[str, str | Path] = benchmarks()
    sizes: AuditSizes | None = option(None, "How much each study asks.", python_only=True)
    about: str | None = option(None, ABOUT, metavar="FILE", kind="file")
    seed: int = seed()

    def check(self) -> None:
        if self.full and self.quick:
            raise BadOption("full and quick exclude each other: an audit asks everything or little.")
        if (learned := self.learned) is not None:
            learned.chosen()  # a task that is not there is said before anything is evaluated
        sizes = self.sizes
        if sizes is not None and min(sizes.triples, sizes.sentences) < 1:
            given = f"triples={sizes.triples}, sentences={sizes.sentences}"
            raise BadOption(f"sizes must be at least 1, as one of so many is evaluated (got {given})")

    @property
    def learned(self) -> GlueSettings | None:
        """What is fine-tuned on GLUE; None: nothing."""
        return self.learning(self.seed)


@dataclass(frozen=True, kw_only=True)
class AuditStored(Stored, AuditSettings):
    """The settings as a run stores them."""

    bias: str = "gender"
    nli: str | None = None
    glue: str | None = None
    benchmarks: Mapping[str, str] = option(dict)
    abilities: tuple[str, ...] = ()
    layers: int = 0
    heads: int = 0
    large: bool = False  # so large that an audit asks less, unless it is a full one
    huge: bool = False  # so large that an audit on a CPU evaluates still less
    all_sizes: AuditSizes = SMALL  # that were evaluated
    questions: tuple[str, ...] = ()  # names of the user's own measures
