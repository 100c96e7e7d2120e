"""Runs side by side: paired where items are the same, honest where they are not."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from levelhead.errors import BadProbe
from levelhead.report.compare import compare, comparison_html
from tests.report.synthetic import HOSTILE, measured, write_audit, write_heads, write_prompts, write_sweep
from tests.report.test_page import Page


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    place = tmp_path_factory.mktemp("runs")
    return write_audit(place / "a", "first"), write_audit(place / "b", HOSTILE, seed=1, shift=0.5)


def test_a_difference_without_items_is_made_of_the_two_intervals(two: tuple[Path, Path]) -> None:
    (difference,) = compare(two).differences["seat"]
    assert difference is not None
    assert (difference.value, difference.paired) == (pytest.approx(0.5), False)
    assert difference.interval == pytest.approx((0.5 - math.hypot(0.1, 0.1), 0.5 + math.hypot(0.1, 0.1)))


def test_what_one_run_did_not_measure_has_no_difference(two: tuple[Path, Path]) -> None:
    assert compare(two).differences["accuracy"] == [None]


def test_heads_are_compared_by_rank_and_by_changed_sides(two: tuple[Path, Path]) -> None:
    (found,) = compare(two).heads
    scores = []
    for folder in two:
        lines = (folder / "heads" / "results.jsonl").read_text(encoding="utf-8").splitlines()
        scores.append(
            [row["score"] for row in next(e for e in map(json.loads, lines) if e["key"] == "scores")["rows"]]
        )
    a, b = np.array(scores)
    assert found is not None
    assert found["rank correlation"]["value"] == pytest.approx(float(stats.spearmanr(a, b).statistic))
    assert (found["became biased"], found["left biased"]) == (
        sum((a <= 0) & (b > 0)),
        sum((a > 0) & (b <= 0)),
    )


def test_margins_are_paired_by_occupation_and_silent_ones_count_as_zero(tmp_path: Path) -> None:
    runs = [write_prompts(tmp_path / "a"), write_prompts(tmp_path / "b", "other", drift=0.02)]
    (difference,) = compare(runs).differences["margin"]
    values = []
    for run in runs:
        path = next(path for path in sorted((run / "occupations").iterdir()) if _is_base(run, path))
        with path.open(encoding="utf-8") as file:
            values.append([float(row["value"] or 0) for row in csv.DictReader(file)])
    assert difference is not None
    assert (difference.paired, difference.n) == (True, 20)
    assert difference.value == pytest.approx(float(np.mean(np.subtract(values[1], values[0]))))
    assert difference.interval is not None
    assert difference.interval[0] > 0.01  # pairing removes the spread between occupations, which is larger


def _is_base(run: Path, path: Path) -> bool:
    from levelhead.results.folder import read_run, text_hash

    return path.stem.endswith(text_hash(f"{read_run(run).settings['models'][0]} | base")[:6])


def test_inferences_are_paired_by_occupation_from_stored_labels(tmp_path: Path) -> None:
    runs = [write_sweep(tmp_path / "a"), write_sweep(tmp_path / "b", flips=2, model="other")]
    found = compare(runs).differences
    told = {name: found[name][0] for name in ("fairness",)}
    # two of six occupations get 'entailment' for women: accuracy 1 - 1/6, parity 4/6
    fairness = told["fairness"]
    assert fairness is not None
    assert (fairness.paired, fairness.n) == (True, 6)
    assert fairness.value == pytest.approx((1 - 1 / 6) * (4 / 6) - 1)


def test_other_data_are_not_compared(tmp_path: Path) -> None:
    runs = [write_heads(tmp_path / "a"), write_heads(tmp_path / "b", "other")]
    for folder, word in zip(runs, ("x", "y"), strict=True):
        lines = [
            json.loads(line) for line in (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()
        ]
        for line in lines:
            if line["key"] == "seat":
                line["rows"] = [{"variant": "base", **measured("seat", 1.0, settings={"data_hash": word})}]
        (folder / "results.jsonl").write_text(
            "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8"
        )
    found = compare(runs)
    assert found.differences["seat"] == [None]
    assert "asked on other data: not comparable" in comparison_html(found)


def test_one_audit_is_compared_with_its_own_changed_models(two: tuple[Path, Path]) -> None:
    found = compare(two[:1])
    assert [side.label for side in found.sides][:2] == ["before", "without heads 4-5, 1-2"]
    seat = found.differences["seat"][0]
    assert seat is not None
    assert seat.value == pytest.approx(-0.5)
    margin = found.differences["margin"][0]
    assert margin is not None
    assert margin.paired


def test_one_run_without_variants_needs_another(tmp_path: Path) -> None:
    with pytest.raises(BadProbe, match="Give a second run folder"):
        compare([write_heads(tmp_path / "run")])


def test_the_page_of_a_comparison_is_whole_and_escaped(two: tuple[Path, Path]) -> None:
    text = comparison_html(compare(two))
    page = Page(text)
    assert HOSTILE not in text
    assert page.tagged("h1") == [({}, f"first against {HOSTILE}")]
    assert "unpaired: from the two intervals" in text
    assert len(text) < 100_000  # no chart, no Vega


def test_runs_of_one_model_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    runs = [write_heads(tmp_path / "a"), write_heads(tmp_path / "b")]
    assert len({side.label for side in compare(runs).sides}) == 2
