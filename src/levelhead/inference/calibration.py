"""How often a page's claims were wrong in null models; cited only at the setting of that trial."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from levelhead.results.layout import WORDS_HASH
from levelhead.results.runs import AuditRun
from levelhead.results.settings import AuditSizes


@dataclass(frozen=True)
class Calibration:
    """How many null models were audited, how many got a claim, and what they were asked."""

    version: str  # of levelhead that was tried
    models: int
    false_alarms: int
    bias: str
    words: str  # the hash of the word list
    null_models: int  # of each model, and so on: an audit that asks less was not tried
    null_models_of_heads: int
    null_models_of_triples: int
    null_models_of_prompts: int
    templates: int  # that words were asked in
    splits: int
    counter_sentences: int
    triples: int  # one of so many was asked

    def cited(self, run: AuditRun) -> str:
        """What is known about the error of a page: the figures, or what was not tried."""
        if run.data.hashes.get(WORDS_HASH) != self.words:
            return "how often they are wrong was not tried with this list"
        if self._asks_less(run.settings.sizes):
            return "how often they are wrong was not tried with so few null models or items"
        if run.settings.measures:
            return "how often they are wrong was not tried with measures of your own"
        got = f"{self.false_alarms} of {self.models} null models got one"
        got += "" if run.settings.sizes.scored_heads else ", on pages with claims about heads too"
        return f"tried on {self.bias} with levelhead {self.version}: {got}"

    def _asks_less(self, sizes: AuditSizes) -> bool:
        return (
            (sizes.contexts is not None and sizes.contexts < self.templates)
            or sizes.null < self.null_models
            or 0 < sizes.scored_heads < self.null_models_of_heads
            or sizes.asked_triples < self.null_models_of_triples
            or sizes.asked_prompts < self.null_models_of_prompts
            or sizes.splits < self.splits
            or sizes.counter_sentences < self.counter_sentences
            or sizes.triples > self.triples
        )


@cache
def calibration() -> Calibration:
    """The calibration that ships."""
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    figures: dict[str, Any] = tomllib.loads(text)
    return Calibration(**figures)
