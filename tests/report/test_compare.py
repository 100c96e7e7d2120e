"""Runs side by side: paired where items are the same, honest where they are not."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from levelhead.errors import BadOption
from levelhead.inference.comparing import Comparison, Difference, compare, measured_difference
from levelhead.measures.catalog import MeasureInfo
from levelhead.measures.statistics import Resampling
from levelhead.pages.page import render
from levelhead.pages.presented import comparison_page
from levelhead.probes.contexts import template_contexts
from levelhead.probes.words import load_words
from levelhead.runs.common import BASE, MeasuredVariant
from levelhead.runs.folder import Run
from levelhead.scoring.seat import ask_seat
from levelhead.studies.audit import Audit
from levelhead.studies.counteracts import Counteracts
from levelhead.studies.heads import Heads
from tests.report.own_measure import bring
from tests.report.synthetic import (
    HOSTILE,
    heads_settings,
    measured,
    write_audit,
    write_heads,
    write_prompts,
    write_sweep,
)
from tests.sealing import reseal
from tests.tiny import tiny


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    place = tmp_path_factory.mktemp("runs")
    return write_audit(place / "a", "first"), write_audit(place / "b", HOSTILE, seed=1, shift=0.5)


def difference_of(runs: Sequence[Path], measure: str) -> Difference:
    """The difference of the second run from the first, which must be there."""
    difference = compare(runs).measures[measure].differences[0]
    assert difference is not None
    return difference


def test_a_difference_without_items_is_made_of_the_two_intervals(two: tuple[Path, Path]) -> None:
    difference = difference_of(two, "seat")
    assert difference.value == pytest.approx(0.5)
    assert not difference.paired
    assert difference.interval == pytest.approx((0.5 - math.hypot(0.1, 0.1), 0.5 + math.hypot(0.1, 0.1)))


def test_what_one_run_did_not_measure_has_no_difference(two: tuple[Path, Path]) -> None:
    assert compare(two).measures["accuracy"].differences == (None,)


def test_heads_are_compared_by_rank_and_by_changed_sides(two: tuple[Path, Path]) -> None:
    (changes,) = compare(two).heads
    runs = [Audit.open(folder).heads for folder in two]
    a, b = (np.array([score.score for score in run.scores]) for run in runs if run is not None)
    assert changes is not None
    assert changes.rank_correlation.value == pytest.approx(float(stats.spearmanr(a, b).statistic))
    became, left = sum((a <= 0) & (b > 0)), sum((a > 0) & (b <= 0))
    assert (changes.heads, changes.became_biased, changes.left_biased) == (20, became, left)
    assert changes.p == pytest.approx(float(stats.binomtest(became, became + left).pvalue))


def test_margins_are_paired_by_occupation_and_silent_ones_count_as_zero(tmp_path: Path) -> None:
    runs = [write_prompts(tmp_path / "a"), write_prompts(tmp_path / "b", "other", drift=0.02)]
    difference = difference_of(runs, "margin")
    a, b = (
        [line.value or 0.0 for line in run.occupations(run.model) if line.name == "margin"]
        for run in map(Counteracts.open, runs)
    )
    assert a[0] == b[0] == 0.0
    assert (difference.paired, difference.n) == (True, 20)
    assert difference.value == pytest.approx(float(np.mean(np.subtract(b, a))))
    assert difference.interval is not None
    assert difference.interval[0] > 0.01  # pairing removes the spread between occupations, which is larger


def test_inferences_are_paired_by_occupation_from_stored_labels(tmp_path: Path) -> None:
    runs = [write_sweep(tmp_path / "a"), write_sweep(tmp_path / "b", flips=2, model="other")]
    # two of six occupations get 'entailment' for women: accuracy 1 - 1/6, parity 4/6
    fairness = difference_of(runs, "fairness")
    assert (fairness.paired, fairness.n) == (True, 6)
    assert fairness.value == pytest.approx((1 - 1 / 6) * (4 / 6) - 1)


def test_inferences_to_other_probes_are_not_paired(tmp_path: Path) -> None:
    runs = [write_sweep(tmp_path / "a"), write_sweep(tmp_path / "b", flips=2, model="other")]
    path = runs[1] / "settings.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**stored, "hashes": {**stored["hashes"], "probe": "another"}}))
    reseal(runs[1])
    assert not difference_of(runs, "fairness").paired


def test_other_data_are_not_compared(tmp_path: Path) -> None:
    for name in ("x", "y"):
        seat = MeasuredVariant(BASE, name, measured("seat", 1.0, settings={"data_hash": name}))
        with Run.open(tmp_path / name, Heads, heads_settings(name)) as run:
            run.results(Heads.seat, [seat].copy)
    comparison = compare([tmp_path / "x", tmp_path / "y"])
    assert comparison.measures["seat"].differences == (None,)
    assert "evaluated on other data: not comparable" in render(comparison_page(comparison))


def test_an_audit_of_race_is_not_subtracted_from_one_of_gender(tmp_path: Path) -> None:
    model = tiny("bert", "mlm")
    lists = [load_words(name) for name in ("gender", "race")]
    seats = [
        ask_seat(model, test, template_contexts(test, 2), resampling=Resampling(100))[0] for test in lists
    ]
    assert measured_difference(*seats) is None
    assert measured_difference(seats[0], seats[0]) is not None
    runs = [write_heads(tmp_path / "a"), write_heads(tmp_path / "b")]
    path = runs[1] / "settings.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**stored, "hashes": {**stored["hashes"], "words": "another"}}))
    reseal(runs[1])
    assert compare(runs).heads == (None,)


def test_one_audit_is_compared_with_its_own_changed_models(two: tuple[Path, Path]) -> None:
    assert compare(two[:1]).runs[:2] == ("before", f"tokens: soft, 2-d {HOSTILE}")
    assert difference_of(two[:1], "seat").value == pytest.approx(-1.12)  # from the same items, not from all


def test_one_run_without_variants_needs_another(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="Give a second run folder"):
        compare([write_heads(tmp_path / "run")])


def test_a_measure_of_the_users_own_is_compared_under_its_own_title(tmp_path: Path) -> None:
    infos = [
        MeasureInfo("pronoun gap", f"{title} gap", reading=title, digits=1) for title in ("First", "Other")
    ]
    values = [measured("pronoun gap", value, neutral=0.0) for value in (0.25, 0.75)]
    runs = [
        bring(write_audit(tmp_path / info.reading, info.reading), info, value)
        for info, value in zip(infos, values, strict=True)
    ]
    compared = compare(runs).measures["pronoun gap"]
    assert (compared.title, compared.reading, compared.digits) == ("First gap", "First", 1)
    assert difference_of(runs, "pronoun gap").value == pytest.approx(0.5)
    assert "First gap" in render(comparison_page(compare(runs)))


def test_a_comparison_comes_back_from_its_json(two: tuple[Path, Path]) -> None:
    comparison = compare(two)
    assert Comparison.from_json(json.loads(json.dumps(comparison.to_json()))) == comparison


def test_the_page_of_a_comparison_is_whole_and_escaped(two: tuple[Path, Path]) -> None:
    text = render(comparison_page(compare(two)))
    assert HOSTILE not in text
    assert f"<h1>first against {html.escape(HOSTILE)}</h1>" in text
    assert "unpaired: from the two intervals" in text
    assert len(text) < 100_000  # no chart, no Vega


def test_runs_of_one_model_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    runs = [write_heads(tmp_path / "a"), write_heads(tmp_path / "b")]
    assert compare(runs).runs == tuple(f"lh:tiny ({run})" for run in runs)
