"""Records of a run of `levelhead measure`: which benchmark, and what null models score on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from levelhead.results.codec import Record


@dataclass(frozen=True)
class BenchmarkUsed(Record):
    """A benchmark as a run asked it: what a reader must know before a number of it means anything."""

    benchmark: str  # its name, as the command takes it
    title: str
    question: str
    rule: str
    rule_says: str
    neutral: str
    licence: str
    source: str
    warning: str
    contamination: str
    items: int  # that were asked
    categories: tuple[str, ...]  # of the items
    unscored: Mapping[str, int]  # reason -> how many items of the files
    hub: str = ""  # its data set on the Hugging Face hub


@dataclass(frozen=True)
class NullScore(Record):
    """A score of one null model, relative to the scale of its own differences; None: it has none."""

    name: str
    relative: float | None
