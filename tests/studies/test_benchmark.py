"""A benchmark as a run: it goes on after a kill, and page, check, comparison and card read it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from huggingface_hub import ModelCard, ModelCardData

from levelhead.errors import BadRun, CannotDo
from levelhead.inference.check import Plan, Threshold, check
from levelhead.inference.comparing import compare
from levelhead.inference.contents import measurements, open_contents
from levelhead.inference.verdicts import claimed, info_of
from levelhead.measures.catalog import CATALOG, main_names
from levelhead.measures.measurement import Measurement, Null
from levelhead.measures.null import looks
from levelhead.models.opening import Opening
from levelhead.pages.card import card, model_index
from levelhead.pages.page import report_html
from levelhead.runs.common import BASE, MeasuredVariant
from levelhead.runs.folder import RESULTS
from levelhead.runs.presets import BENCHMARK_NULLS
from levelhead.scoring.benchmarks.catalog import BUILT_IN, LoadedBenchmark
from levelhead.scoring.benchmarks.crows_pairs import CROWS_PAIRS
from levelhead.scoring.benchmarks.sentence_seat import SENTENCE_SEAT
from levelhead.studies.benchmark import Benchmark
from levelhead.studies.benchmark.run import benchmark
from levelhead.studies.benchmark.settings import BenchmarkSettings
from tests.scoring.benchmarks.test_crows_pairs import PAIRS, write
from tests.tiny import tiny


@pytest.fixture(scope="module", autouse=True)
def undoubted() -> Iterator[None]:
    """A tiny model has read nothing; its numbers are judged all the same."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Opening, "doubt", "")
        yield


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    empty = ("", "Men are tired.", "stereo", "gender", "w9")
    return write(tmp_path_factory.mktemp("data"), [*PAIRS, empty])


@pytest.fixture(scope="module")
def run(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Benchmark:
    settings = BenchmarkSettings("crows-pairs", file, null=3)
    return benchmark(tiny("gpt2"), settings, tmp_path_factory.mktemp("runs") / "a")


def test_null_models_are_asked_unless_somebody_says_no(file: Path, tmp_path: Path) -> None:
    usual = benchmark(tiny("gpt2"), BenchmarkSettings("crows-pairs", file), tmp_path / "usual")
    assert usual.settings.null is None
    assert len(usual.data.labeled("null_scores")) in looks(BENCHMARK_NULLS)
    assert usual["crows-pairs share"].held_against_models
    none = benchmark(tiny("gpt2"), BenchmarkSettings("crows-pairs", file, null=0), tmp_path / "none")
    assert not none["crows-pairs share"].held_against_models
    assert none["crows-pairs share"].value == usual["crows-pairs share"].value


def test_a_killed_run_ends_with_the_same_bytes_and_asks_only_what_is_missing(
    run: Benchmark, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, asked = BenchmarkSettings("crows-pairs", file, null=3), []
    one = LoadedBenchmark.null_scores

    def killed(self: LoadedBenchmark, model: object, number: int) -> object:
        asked.append(number)
        if number == 2 and len(asked) == 3:
            raise KeyboardInterrupt
        return one(self, model, number)  # type: ignore[arg-type]

    monkeypatch.setattr(LoadedBenchmark, "null_scores", killed)
    with pytest.raises(KeyboardInterrupt):
        benchmark(tiny("gpt2"), settings, tmp_path / "killed")
    resumed = benchmark(tiny("gpt2"), settings, tmp_path / "killed")
    assert asked == [0, 1, 2, 2]
    assert (resumed.folder / RESULTS).read_bytes() == (run.folder / RESULTS).read_bytes()
    with pytest.raises(BadRun):
        benchmark(tiny("gpt2"), BenchmarkSettings("crows-pairs", file, null=4), tmp_path / "killed")


def test_the_page_names_rule_interval_unscored_and_artificial_answerers(run: Benchmark) -> None:
    page = report_html(open_contents(run.folder))
    for text in ("CrowS-Pairs", "rule levelhead", "sent_more is empty", "Always stereotype", "CC BY-SA 4.0"):
        assert text in page
    assert "public since 2020" in page


@pytest.mark.parametrize(
    ("p_values", "method", "speak"),
    [
        ([0.02] * 10, "null models", 0),  # each alone would speak
        ([0.004, *[0.02] * 9], "null models", 1),
        ([0.001] * 10, "sign flips", 0),  # no null model was asked
    ],
)
def test_a_page_claims_what_holds_among_all_of_its_scores_against_null_models(
    run: Benchmark, monkeypatch: pytest.MonkeyPatch, p_values: list[float], method: str, speak: int
) -> None:
    share = Measurement("crows-pairs share", 0.7, (0.6, 0.8), n=90, neutral=0.5)
    names = ["crows-pairs share", *(f"crows-pairs share, {kind}" for kind in range(len(p_values) - 1))]
    scores = tuple(
        MeasuredVariant(BASE, run.model, replace(share, name=name, null=Null(method, 9, 0.5, 0.05, p)))
        for name, p in zip(names, p_values, strict=True)
    )
    monkeypatch.setattr(Benchmark, "scores", scores)
    contents = open_contents(run.folder)
    assert sum(claimed(contents, each) for each in measurements(contents)) == speak


def test_a_score_is_checked_by_its_own_name_with_and_without_its_interval(run: Benchmark) -> None:
    contents, share = open_contents(run.folder), run["crows-pairs share"]
    assert share.value is not None
    assert share.interval is not None
    limit = (share.value + share.interval[1]) / 2
    (value,) = check(contents, Plan((Threshold("crows-pairs share", "max", limit),)))
    (bound,) = check(contents, Plan((Threshold("crows-pairs share", "max", limit),), bound=True))
    assert (value.outcome, bound.outcome) == ("holds", "fails")
    (gap,) = check(contents, Plan((Threshold("crows-pairs gap", "max", 1e9),)))
    assert gap.reason == "absolute value"
    (other,) = check(contents, Plan((Threshold("seat", "max", 1.0),)))
    assert other.outcome == "not measured"


def test_two_models_are_compared_item_by_item_and_two_rules_are_not(
    run: Benchmark, file: Path, tmp_path: Path
) -> None:
    other = benchmark(tiny("llama"), BenchmarkSettings("crows-pairs", file, null=0), tmp_path / "b")
    by_name = compare([run.folder, other.folder]).measures
    (difference,) = by_name["crows-pairs gap"].differences
    assert difference is not None
    assert difference.paired
    first, second = (each["crows-pairs gap"].value for each in (run, other))
    assert first is not None
    assert second is not None
    assert difference.value == pytest.approx(second - first)
    ruled = BenchmarkSettings("crows-pairs", file, "lm-eval", null=0)
    third = benchmark(tiny("gpt2"), ruled, tmp_path / "c")
    assert compare([run.folder, third.folder]).measures["crows-pairs gap"].differences == (None,)


def test_card_and_model_index_carry_benchmark_rule_interval_and_unscored(run: Benchmark) -> None:
    contents = open_contents(run.folder)
    assert "CrowS-Pairs: share (crows-pairs share)" in card(contents)
    metadata = yaml.safe_load(model_index(contents).strip("-\n"))
    results = metadata["model-index"][0]["results"]
    first = results[0]
    assert first["dataset"]["name"] == "CrowS-Pairs, rule levelhead"
    assert first["task"]["type"] == "text-generation"
    (metric,) = first["metrics"]
    share = run["crows-pairs share"]
    assert metric["args"] == {
        "interval": list(share.interval or ()),
        "n": 5,
        "neutral": 0.5,
        "rule": "levelhead",
        "unscored": 1,
    }
    parsed = ModelCard(model_index(contents)).data
    assert isinstance(parsed, ModelCardData)
    assert parsed.eval_results is not None
    assert parsed.eval_results[0].metric_value == share.value


def test_every_score_of_a_built_in_benchmark_is_declared_with_its_neutral_value(run: Benchmark) -> None:
    for each in BUILT_IN:
        assert each.info.scores, each.info.name
        in_nats = any(score.nats for score in each.info.scores)
        assert in_nats == (each is not SENTENCE_SEAT), each.info.name
    contents = open_contents(run.folder)
    for name, measured in run.measurements.items():
        info = info_of(contents, name)
        assert info.title.startswith("CrowS-Pairs: ")
        assert info.neutral == measured.neutral
    assert CATALOG.info("crows-pairs share").title == "crows-pairs share"  # nothing is known without the run


def test_main_scores_are_those_of_all_items() -> None:
    names = ["bbq bias, ambiguous", "bbq gap", "bbq bias, ambiguous, Age", "bbq gap, Age"]
    assert main_names(names) == names[:2]


def test_a_model_without_the_ability_is_one_line(file: Path, tmp_path: Path) -> None:
    settings = BenchmarkSettings("crows-pairs", file, "original")
    with pytest.raises(CannotDo, match="asks a model that can do mlm"):
        benchmark(tiny("gpt2"), settings, tmp_path / "none")
    assert not (tmp_path / "none").exists()
    assert CROWS_PAIRS.why_not(tiny("gpt2"), "lm-eval") == ""
