"""Comparison of models: flips by hand, runs that do not fit together, and Fig. 5."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from levelhead.edits.sites import Head
from levelhead.errors import BadOption, BadRun
from levelhead.studies.compare_heads import CompareHeads, CompareHeadsSettings
from levelhead.studies.compare_heads.chapter import figures
from levelhead.studies.compare_heads.records import HeadAgreement
from levelhead.studies.compare_heads.run import compare_heads
from levelhead.studies.heads.run import heads
from levelhead.studies.heads.settings import HeadsSettings
from tests.studies.head_runs import empty_run, scored_run
from tests.tiny import tiny
from tests.word_lists import gender_toml

BASE = [[0.3, -0.2], [-0.5, 0.1]]
OTHER = [[0.2, 0.4], [-0.6, -0.1]]


def only_agreement(run: CompareHeads) -> HeadAgreement:
    """How the heads of the run's two models relate."""
    (pair,) = run.pairs
    assert pair.agreement is not None
    return pair.agreement


def test_flips_and_counts_by_hand(tmp_path: Path) -> None:
    runs = [scored_run(tmp_path, "base", BASE, -0.8), scored_run(tmp_path, "chat", OTHER, 0.5)]
    comparison = compare_heads(runs, CompareHeadsSettings(top=1), tmp_path / "out")
    agreement = only_agreement(comparison)
    assert (agreement.flips, agreement.flips_back, agreement.clear_flips) == (1, 1, 1)
    assert (agreement.followed, agreement.followed_flips) == ((Head(1, 0),), 0)
    assert agreement.spearman.value == pytest.approx(0.4)
    (pair,) = comparison.pairs
    assert (pair.abs_seat_base, pair.abs_seat) == (0.8, 0.5)
    (flip,) = comparison.flips
    assert (flip.head, flip.score_base, flip.score) == (Head(0, 1), -0.2, 0.4)
    base, other = comparison.models
    assert (base.biased, base.anti_biased, base.most_biased) == (2, 2, Head(0, 0))
    assert other.most_anti_biased == Head(1, 0)


def test_the_comparison_is_read_back_as_it_was_returned(tmp_path: Path) -> None:
    runs = [scored_run(tmp_path, "base", BASE, -0.8), scored_run(tmp_path, "chat", OTHER, 0.5)]
    comparison = compare_heads(runs, None, tmp_path / "out")
    again = CompareHeads.open(tmp_path / "out")
    assert again.data.results == comparison.data.results
    assert again.settings.models == tuple(map(str, runs))
    assert again.model == "base, chat"


def test_a_flip_of_heads_that_are_not_clear_is_not_a_clear_one(tmp_path: Path) -> None:
    for p in (0.5, None):
        base = scored_run(tmp_path, f"base {p}", BASE, 0.8)
        other = scored_run(tmp_path, f"chat {p}", OTHER, 0.5, p=p)
        comparison = compare_heads([base, other], None, tmp_path / f"out {p}")
        agreement = only_agreement(comparison)
        assert (agreement.flips, agreement.clear_flips) == (1, 0)
        assert [flip.clear for flip in comparison.flips] == [False]


def test_a_model_against_itself_flips_nothing(tmp_path: Path) -> None:
    run = scored_run(tmp_path, "base", BASE, 0.8)
    comparison = compare_heads([run, run], None, tmp_path / "out")
    assert comparison.flips == ()
    assert only_agreement(comparison).spearman.value == pytest.approx(1.0)


def test_models_of_other_shapes_are_shown_but_have_no_counterparts(tmp_path: Path) -> None:
    runs = [scored_run(tmp_path, "base", BASE, 0.8), scored_run(tmp_path, "large", [[0.1, 0.2, -0.3]], 0.5)]
    comparison = compare_heads(runs, None, tmp_path / "out")
    assert comparison.pairs[0].agreement is None
    assert "2 x 2 heads against 1 x 3" in comparison.pairs[0].reason
    assert len(figures(tmp_path / "out")) == 2


def test_runs_that_cannot_be_compared_are_one_clear_line(tmp_path: Path) -> None:
    gender = scored_run(tmp_path, "base", BASE, 0.8)
    race = scored_run(tmp_path, "chat", OTHER, 0.5, "another")
    with pytest.raises(BadRun, match="different word lists"):
        compare_heads([gender, race], None, tmp_path / "out")
    with pytest.raises(BadOption, match="two runs or more"):
        compare_heads([gender], None, tmp_path / "out")
    with empty_run(tmp_path / "empty"):
        pass
    with pytest.raises(BadRun, match="no head scores"):
        compare_heads([gender, tmp_path / "empty"], None, tmp_path / "out")
    with pytest.raises(BadRun, match="compare-heads"):
        figures(gender)


def test_the_figure_shows_every_head_of_every_model_and_boxes_the_anti_biased_ones(tmp_path: Path) -> None:
    runs = [scored_run(tmp_path, "base", BASE, 0.8), scored_run(tmp_path, "chat", OTHER, 0.5)]
    compare_heads(runs, CompareHeadsSettings(top=1), tmp_path / "out")
    plain, signed = figures(tmp_path / "out")
    for path in (plain, signed):
        text = path.read_text(encoding="utf-8")
        ElementTree.fromstring(text)
        assert "base: SEAT 0.80, 2 of 4 biased" in text
        assert "chat: SEAT 0.50, 2 of 4 biased" in text
    assert plain.read_text() != signed.read_text()


def test_two_real_runs_compare(tmp_path: Path) -> None:
    settings = HeadsSettings(
        gender_toml(tmp_path), experiments=("scores",), per_word=1, resamples=100, null=0, splits=0
    )
    for seed in (0, 1):
        heads(tiny("bert", seed=seed), settings, tmp_path / f"run{seed}")
    comparison = compare_heads([tmp_path / "run0", tmp_path / "run1"], None, tmp_path / "out")
    scores = [[each.score for each in comparison.scores if each.number == n] for n in (1, 2)]
    base, other = (np.array(of_model) for of_model in scores)
    assert only_agreement(comparison).flips == int(((base < 0) & (other > 0)).sum())
    assert comparison.pairs[0].same_contexts is True
    heads(tiny("bert"), replace(settings, per_word=2), tmp_path / "run2")
    other_contexts = compare_heads([tmp_path / "run0", tmp_path / "run2"], None, tmp_path / "out2")
    assert other_contexts.pairs[0].same_contexts is False
