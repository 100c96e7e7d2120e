"""Settings of many models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from levelhead.errors import BadOption
from levelhead.options import Settings, benchmarks, biases, option, own_measures, seed
from levelhead.probes.words import Words, words_name
from levelhead.runs.presets import QUICK_SURVEY, SURVEY, AuditSizes
from levelhead.runs.study import Stored


@dataclass(frozen=True)
class SurveySettings(Settings):
    """What every model is evaluated on, and how much of it."""

    biases: tuple[Words, ...] = biases(("gender",), old=("--bias",))
    measures: tuple[str, ...] = option(
        (), "Of seat, lpbs, triples, inference, fluency, your own. Default: all."
    )
    quick: bool = option(False, "Fewer items: wider intervals, sooner.")
    seed: int = seed()
    sizes: AuditSizes | None = option(None, "How much each model is evaluated on.", python_only=True)
    benchmarks: Mapping[str, str | Path] = benchmarks()
    own_measures: tuple[str, ...] = own_measures()

    def check(self) -> None:
        names = [words_name(bias) for bias in self.biases]
        if not names or len(set(names)) < len(names):
            raise BadOption(f"biases must be one or more, each once (got {', '.join(names) or 'none'})")

    @property
    def all_sizes(self) -> AuditSizes:
        """How much every model is evaluated on: given sizes, else a preset."""
        return self.sizes or (QUICK_SURVEY if self.quick else SURVEY)


@dataclass(frozen=True, kw_only=True)
class SurveyStored(Stored, SurveySettings):
    """The settings as a run stores them."""

    biases: tuple[str, ...] = ("gender",)
    benchmarks: Mapping[str, str] = option(dict)
    questions: tuple[str, ...]
    all_sizes: AuditSizes = SURVEY  # that were evaluated
    dtype: str | None = None  # as `loading` has it
