"""The smallest audit that asks everything: for tests of how audits run, not of what they measure."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from levelhead.results.settings import AuditSizes
from levelhead.studies import extent
from levelhead.studies.counteracts import CounteractsSettings
from tests.word_lists import OCCUPATIONS

FEWEST = AuditSizes(
    experiments=("scores", "counter"),
    contexts=1,
    score_contexts=1,
    counter_sentences=6,
    triples=60,
    occupations=(4, 1),
    abilities=12,
    sentences=200,
    backgrounds=1,
    starts=0,
    screen=(2, 1),
    null=2,
    prompt_twins=0,
    resamples=100,
)


def ask_few_prompts(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let audits ask the fill-in prompts of a file with 6 occupations, not those of the 58 that ship."""
    path = folder / "prompts.toml"
    path.write_text(OCCUPATIONS, encoding="utf-8")
    patch.setattr(extent, "CounteractsSettings", partial(CounteractsSettings, str(path)))
