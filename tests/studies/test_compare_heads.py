"""Comparison of models: flips by hand, runs that do not fit together, and Fig. 5."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from levelhead.errors import BadRun
from levelhead.report.figures.comparison import write_figures
from levelhead.results.folder import Run
from levelhead.studies.heads.comparison import compare_heads
from levelhead.studies.heads.study import HeadsSettings, heads
from tests.tiny import tiny
from tests.word_lists import gender_toml

BASE = [[0.3, -0.2], [-0.5, 0.1]]
OTHER = [[0.2, 0.4], [-0.6, -0.1]]


def scored(
    folder: Path,
    name: str,
    scores: list[list[float]],
    seat: float,
    words: str = "gender",
    q: float | None = 0.01,
) -> Path:
    """A heads run with these scores, of a list called gender whose hash is `words`."""
    rows = [
        {"layer": layer + 1, "head": head + 1, "score": score, "stderr": 0.1, "q": q}
        for layer, row in enumerate(scores)
        for head, score in enumerate(row)
    ]
    with Run.open(
        folder / name, {"study": "heads", "model": name}, hashes={"weights": name, "words": words}
    ) as run:
        run.result("words", lambda: {"test": "gender"})
        run.result("seat", lambda: {"name": "seat", "value": seat, "interval": None})
        run.result("scores", lambda: rows)
    return folder / name


def test_flips_and_counts_by_hand(tmp_path: Path) -> None:
    runs = [scored(tmp_path, "base", BASE, -0.8), scored(tmp_path, "chat", OTHER, 0.5)]
    found = compare_heads(runs, tmp_path / "out", top=1)
    (pair,) = found.results["pairs"]
    assert (pair["flips"], pair["flips_back"], pair["certain_flips"]) == (1, 1, 1)
    assert (pair["followed"], pair["followed_flips"]) == (["2-1"], 0)
    assert (pair["abs_seat_base"], pair["abs_seat"]) == (0.8, 0.5)
    assert pair["spearman"]["value"] == pytest.approx(0.4)
    (flip,) = found.results["flips"]
    assert (flip["layer"], flip["head"], flip["score_base"], flip["score"]) == (1, 2, -0.2, 0.4)
    base, other = found.results["models"]
    assert (base["biased"], base["anti_biased"], base["most_biased"]) == (2, 2, "1-1")
    assert other["most_anti_biased"] == "2-1"


def test_a_flip_of_uncertain_scores_is_not_a_certain_one(tmp_path: Path) -> None:
    for q in (0.5, None):
        runs = [scored(tmp_path, f"base {q}", BASE, 0.8), scored(tmp_path, f"chat {q}", OTHER, 0.5, q=q)]
        found = compare_heads(runs, tmp_path / f"out {q}").results
        assert (found["pairs"][0]["flips"], found["pairs"][0]["certain_flips"]) == (1, 0)
        assert [flip["certain"] for flip in found["flips"]] == [False]


def test_a_model_against_itself_flips_nothing(tmp_path: Path) -> None:
    run = scored(tmp_path, "base", BASE, 0.8)
    found = compare_heads([run, run], tmp_path / "out")
    assert found.results["flips"] == []
    assert found.results["pairs"][0]["spearman"]["value"] == pytest.approx(1.0)


def test_models_of_other_shapes_are_shown_but_have_no_counterparts(tmp_path: Path) -> None:
    runs = [scored(tmp_path, "base", BASE, 0.8), scored(tmp_path, "large", [[0.1, 0.2, -0.3]], 0.5)]
    found = compare_heads(runs, tmp_path / "out")
    assert found.results["pairs"][0]["flips"] is None
    assert "2 x 2 heads against 1 x 3" in found.results["pairs"][0]["reason"]
    assert len(write_figures(tmp_path / "out")) == 2


def test_runs_that_cannot_be_compared_are_one_clear_line(tmp_path: Path) -> None:
    gender, race = (
        scored(tmp_path, "base", BASE, 0.8),
        scored(tmp_path, "chat", OTHER, 0.5, "another"),
    )
    with pytest.raises(BadRun, match="different word lists"):
        compare_heads([gender, race], tmp_path / "out")
    with pytest.raises(BadRun, match="two runs or more"):
        compare_heads([gender], tmp_path / "out")
    with Run.open(tmp_path / "empty", {"study": "heads"}):
        pass
    with pytest.raises(BadRun, match="no head scores"):
        compare_heads([gender, tmp_path / "empty"], tmp_path / "out")
    with pytest.raises(BadRun, match="is not a comparison"):
        write_figures(gender)


def test_the_figure_shows_every_head_of_every_model_and_boxes_the_anti_biased_ones(tmp_path: Path) -> None:
    runs = [scored(tmp_path, "base", BASE, 0.8), scored(tmp_path, "chat", OTHER, 0.5)]
    compare_heads(runs, tmp_path / "out", top=1)
    plain, signed = write_figures(tmp_path / "out")
    for path in (plain, signed):
        text = path.read_text(encoding="utf-8")
        ElementTree.fromstring(text)
        assert "base: SEAT 0.80, 2 of 4 biased" in text
        assert "chat: SEAT 0.50, 2 of 4 biased" in text
    assert plain.read_text() != signed.read_text()


def test_two_real_runs_compare(tmp_path: Path) -> None:
    settings = HeadsSettings(gender_toml(tmp_path), experiments=("scores",), per_word=1, resamples=100)
    for seed in (0, 1):
        heads(tiny("bert", seed=seed), settings, tmp_path / f"run{seed}")
    found = compare_heads([tmp_path / "run0", tmp_path / "run1"], tmp_path / "out")
    scores = [[r["score"] for r in found.results["scores"] if r["number"] == n] for n in (1, 2)]
    base, other = (np.array(s) for s in scores)
    assert found.results["pairs"][0]["same_contexts"] is True
    heads(tiny("bert"), replace(settings, per_word=2), tmp_path / "run2")
    more = compare_heads([tmp_path / "run0", tmp_path / "run2"], tmp_path / "out2")
    assert more.results["pairs"][0]["same_contexts"] is False
    assert found.results["pairs"][0]["flips"] == int(((base < 0) & (other > 0)).sum())
