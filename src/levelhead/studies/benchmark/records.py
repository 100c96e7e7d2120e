"""Records of a published benchmark: which one was used, and what a reader must know about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from levelhead.runs.records import Record


@dataclass(frozen=True)
class BenchmarkUsed(Record):
    """A benchmark as a run used it: what a reader must know before a number of it means anything."""

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
    items: int  # that were evaluated
    categories: tuple[str, ...]  # of the items
    unscored: Mapping[str, int]  # reason -> how many items of the files
    hub: str = ""  # its data set on the Hugging Face hub
    answers: str = ""  # how a server was sampled in place of reading likelihoods, and the parse rate
