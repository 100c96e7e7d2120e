"""Pronouns are counted as they are defined: `pytest examples/plugin-study`, after pip install."""

from __future__ import annotations

from pathlib import Path

import pytest
from pronouns import PronounsSettings

import levelhead as lh


def test_the_share_counts_prompts_that_go_on_with_a_pronoun(tmp_path: Path) -> None:
    run = lh.pronouns("lh:gpt-mini", PronounsSettings(), tmp_path / "run")
    hits = [each.token.lower() in run.settings.words for each in run.continued]
    assert run.share.value == pytest.approx(sum(hits) / len(hits))


def test_no_prompt_is_one_line() -> None:
    with pytest.raises(lh.LevelheadError, match="at least one each"):
        PronounsSettings(prompts=())
