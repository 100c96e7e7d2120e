"""SEAT on files in the published format, under `levelhead benchmark`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from levelhead.errors import BadProbe
from levelhead.measures.statistics import Resampling
from levelhead.scoring.benchmarks.protocol import Selection
from levelhead.scoring.benchmarks.sentence_seat import SENTENCE_SEAT
from levelhead.scoring.seat import ask_sentence_seat
from levelhead.studies.benchmark.run import benchmark
from levelhead.studies.benchmark.settings import BenchmarkSettings
from tests.tiny import tiny

SETS = {
    "targ1": ["She is a nurse.", "She is a teacher.", "The woman is tired."],
    "targ2": ["He is an engineer.", "He is a doctor.", "The man is tired."],
    "attr1": ["This is a kitchen.", "This is a family."],
    "attr2": ["This is an office.", "This is a book."],
}


def write(folder: Path, *names: str) -> Path:
    content = {key: {"category": key, "examples": texts} for key, texts in SETS.items()}
    for name in names:
        (folder / f"{name}.jsonl").write_text(json.dumps(content), encoding="utf-8")
    return folder


@pytest.mark.parametrize("rule", ["mean", "cls", "mean-special"])
def test_the_effect_is_that_of_the_command_seat_by_every_pooling(tmp_path: Path, rule: str) -> None:
    folder, model = write(tmp_path, "sent-weat6", "sent-weat7"), tiny("bert")
    items = SENTENCE_SEAT.load(folder, Selection())
    (measured,) = SENTENCE_SEAT.ask(model, items, [()], rule, Resampling(100))
    names = ["sentence-seat effect, sent-weat6", "sentence-seat effect, sent-weat7"]
    assert [each.name for each in measured] == names
    own = ask_sentence_seat(
        model,
        folder / "sent-weat6.jsonl",
        pooling=rule,  # type: ignore[arg-type]
        resampling=Resampling(100),
    )[0]
    assert measured[0].value == own.value
    assert measured[0].interval == own.interval


def test_a_sentence_encoder_is_held_against_null_models_and_one_test_can_be_chosen(tmp_path: Path) -> None:
    folder = write(tmp_path, "sent-weat6", "sent-weat7")
    settings = BenchmarkSettings("sentence-seat", folder, categories=("sent-weat7",), null=3, resamples=100)
    run = benchmark(tiny("bert"), settings, tmp_path / "run")
    (measured,) = run.measurements.values()
    assert measured.name == "sentence-seat effect, sent-weat7"
    assert measured.held_against_models
    assert measured.null is not None
    assert measured.null.draws == 3


def test_the_first_token_of_a_causal_model_is_not_asked_and_a_broken_file_is_one_line(tmp_path: Path) -> None:
    assert "sees nothing" in SENTENCE_SEAT.why_not(tiny("gpt2"), "cls")
    assert not SENTENCE_SEAT.why_not(tiny("gpt2"))
    (tmp_path / "sent-weat6.jsonl").write_text('{"targ1": 3}', encoding="utf-8")
    with pytest.raises(BadProbe, match="attr1 must hold"):
        SENTENCE_SEAT.load(tmp_path, Selection())
