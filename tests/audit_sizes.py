"""The smallest audit that asks everything: for tests of how audits run, not of what they measure."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from levelhead.mitigation import fitting
from levelhead.probes.pairs import gender_sentence_pairs
from levelhead.probes.words import WordTest, load_words
from levelhead.runs.presets import AuditSizes
from levelhead.scoring import lpbs
from levelhead.studies.audit import extent
from levelhead.studies.counteracts.settings import CounteractsSettings
from levelhead.studies.mitigate import parts
from tests.word_lists import OCCUPATIONS

FEWEST = AuditSizes(
    experiments=("scores", "counter"),
    contexts=1,
    score_contexts=1,
    counter_sentences=6,
    triples=20,
    occupations=(4, 1),
    abilities=12,
    sentences=80,
    backgrounds=1,
    null=2,
    head_nulls=2,
    prompt_nulls=0,
    resamples=100,
)

FEWEST_AT_FIRST = replace(FEWEST, experiments=("association",), splits=0, backgrounds=0)  # of the first look


def ask_little(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let audits ask few prompts and blanks, and fit projections on few pairs."""
    ask_few_prompts(patch, folder)
    ask_few_blanks(patch)
    fit_on_few_pairs(patch)


def fit_on_few_pairs(patch: pytest.MonkeyPatch) -> None:
    """Let projections be fitted on an eighth of the sentence pairs that ship."""
    patch.setattr(fitting, "gender_sentence_pairs", lambda: gender_sentence_pairs()[::8])
    patch.setattr(fitting, "_BASELINE_SENTENCES", 12)


def ask_few_blanks(patch: pytest.MonkeyPatch) -> None:
    """Let LPBS ask about two words on each side of the lists that ship."""

    def few(name: str) -> WordTest:
        test = load_words(name)
        return test.of({*test.A, *test.B, *test.X[:2], *test.Y[:2]})

    patch.setattr(lpbs, "load_words", few)


def ask_few_tests(patch: pytest.MonkeyPatch, *names: str) -> None:
    """Let mitigations be asked about the blanks of these tests alone."""
    patch.setattr(parts, "lpbs_tests", lambda: {name: load_words(name) for name in names})


def ask_few_prompts(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let audits ask the fill-in prompts of a file with 6 occupations, not those of the 58 that ship."""
    path = folder / "prompts.toml"
    path.write_text(OCCUPATIONS, encoding="utf-8")
    patch.setattr(extent, "CounteractsSettings", partial(CounteractsSettings, str(path)))
