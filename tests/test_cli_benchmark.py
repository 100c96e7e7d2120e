"""`levelhead benchmark` and `lh.benchmark` are one path; what is typed wrong is one line."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

import levelhead as lh
from levelhead.models.opening import Opening
from levelhead.pages.tables import shown
from levelhead.scoring.benchmarks import protocol
from levelhead.scoring.benchmarks.catalog import benchmarks
from levelhead.scoring.benchmarks.crows_pairs import CROWS_PAIRS
from levelhead.scoring.benchmarks.protocol import BenchmarkInfo, register_benchmark
from levelhead.studies.benchmark import Benchmark
from tests.scoring.benchmarks import test_stereoset as stereoset
from tests.scoring.benchmarks.test_crows_pairs import PAIRS, write
from tests.tiny import tiny
from tests.typed import Typed


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    made = tiny("gpt2")
    made.hf.save_pretrained(folder)
    made.tokenizer.save_pretrained(folder)
    return str(folder)


def test_the_command_prints_what_the_function_gives(typed: Typed, saved: str, tmp_path: Path) -> None:
    file = write(tmp_path, PAIRS)
    words = ("benchmark", "crows-pairs", saved, "--data", str(file), "--rule", "lm-eval", "--null", "2")
    code, printed, error = typed(*words, "--categories", "gender", "--json")
    assert code == 0, error
    settings = lh.settings.BenchmarkSettings("crows-pairs", file, "lm-eval", ("gender",), null=2)
    result = lh.benchmark(saved, settings, tmp_path / "result")
    shown = json.loads(printed)
    assert shown["measurements"] == json.loads(
        json.dumps({name: each.to_json() for name, each in result.measurements.items()})
    )
    assert result.used is not None
    assert shown["benchmark"]["rule"] == result.used.rule == "lm-eval"
    assert result["crows-pairs share"].held_against_models
    assert Benchmark.open(tmp_path / "result").measurements == result.measurements


def test_a_table_says_what_artificial_answerers_get_and_a_file_is_written(
    typed: Typed, saved: str, tmp_path: Path
) -> None:
    file, out = write(tmp_path, PAIRS), tmp_path / "scores.csv"
    code, printed, error = typed("benchmark", "crows-pairs", saved, "--data", str(file), "-o", str(out))
    assert code == 0, error
    text = " ".join(printed.replace("│", " ").replace("┃", " ").split())
    assert "Always stereotype" in text
    assert re.search(r"crows-pairs share \d\.\d{3} 1\.000 0\.000", text)
    assert "Null models" in text
    assert "Read on" not in printed  # nobody keeps the run
    assert out.read_text(encoding="utf-8").startswith("measure,value")


def test_a_run_that_is_kept_prints_its_scores_and_leads_to_its_page(
    typed: Typed, saved: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Opening, "doubt", "")  # a model that reads English
    file, out = write(tmp_path, PAIRS), tmp_path / "run"
    words = ("benchmark", "crows-pairs", saved, "--data", str(file), "--null", "0")
    code, printed, error = typed(*words, "-o", str(out))
    assert code == 0, error
    scores = Benchmark.open(out).measurements.values()
    assert all(shown(each.value) in printed for each in scores if each.value is not None)
    assert f"Read on: {(out / 'report.html').resolve().as_uri()}#benchmark" in printed
    note = "not compared with null models (--null 0)"
    page = html.unescape((out / "report.html").read_text(encoding="utf-8"))
    for shown_there in (printed, page):
        assert note in shown_there
        assert "different from null models" not in shown_there
    code, printed, error = typed(*words, "-o", str(out), "--json")
    assert code == 0, error
    assert json.loads(printed)["null_models"] == note


def test_the_list_says_licence_source_and_warning_of_every_benchmark(typed: Typed) -> None:
    code, printed, _ = typed("benchmark", "--list", "--json")
    assert code == 0
    infos = json.loads(printed)
    assert [info["name"] for info in infos][:1] == ["crows-pairs"]
    for info in infos:
        assert all(info[key] for key in ("question", "needs", "neutral", "rules", "licence", "source"))
        assert info["warning"]
        assert info["year"] > 2010
    assert typed("benchmark", "--list")[1].count("warning: ") == len(infos)


def test_published_predictions_need_no_model(typed: Typed, tmp_path: Path) -> None:
    data, file = stereoset.write(tmp_path), tmp_path / "predictions.json"
    entries = [{"id": f"intrasentence0{label}", "score": i} for i, label in enumerate(stereoset.LABELS)]
    file.write_text(json.dumps({"intrasentence": entries}), encoding="utf-8")
    words = ("benchmark", "stereoset", "--data", str(data), "--from-predictions", str(file), "--json")
    code, printed, error = typed(*words)
    assert code == 0, error
    assert json.loads(printed)["measurements"]["stereoset ss"]["value"] == 0.0


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("benchmark",), "Give a benchmark"),
        (("benchmark", "no-such", "lh:bert-mini", "--data", "."), "No benchmark is called"),
        (("benchmark", "crows-pairs", "lh:bert-mini", "--data", "no such file"), "does not exist"),
        (("benchmark", "crows-pairs", "lh:bert-mini"), "--data"),
    ],
)
def test_what_is_typed_wrong_is_one_line(typed: Typed, words: tuple[str, ...], complaint: str) -> None:
    code, _, error = typed(*words)
    assert code in (2, 3, 4)
    assert complaint in error
    assert len(error.strip().splitlines()) == 1


def test_a_control_without_an_effect_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path, PAIRS)
    with pytest.raises(lh.LevelheadError, match="asks no questions"):
        lh.benchmark(tiny("gpt2"), lh.settings.BenchmarkSettings("crows-pairs", file, chat=True))
    with pytest.raises(lh.LevelheadError, match=r"null must be 0 or at least 2 \(got 1\)"):
        lh.settings.BenchmarkSettings("crows-pairs", file, null=1)
    with pytest.raises(lh.LevelheadError, match="Leave both out"):
        lh.settings.BenchmarkSettings("crows-pairs", file, null=2, from_predictions=file)
    with pytest.raises(lh.LevelheadError, match="No published predictions"):
        lh.benchmark(None, lh.settings.BenchmarkSettings("crows-pairs", file, from_predictions=file))
    for model, predictions in ((None, None), (tiny("gpt2"), file)):
        with pytest.raises(lh.LevelheadError, match="Give a model, or published predictions"):
            lh.benchmark(
                model, lh.settings.BenchmarkSettings("crows-pairs", file, from_predictions=predictions)
            )


def test_a_benchmark_of_ones_own_is_known_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol.BENCHMARKS, "own", {})

    class Mine(type(CROWS_PAIRS)):  # type: ignore[misc]
        info = BenchmarkInfo(
            "mine", "Mine", "?", ("mlm",), "0", CROWS_PAIRS.info.rules, "CC0", "me", "none", 2026, ("a.csv",)
        )

    register_benchmark(Mine())
    assert "mine" in benchmarks()
    with pytest.raises(lh.LevelheadError, match="benchmark"):
        register_benchmark(object())  # type: ignore[arg-type]
