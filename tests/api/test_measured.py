"""Single measures from Python: the numbers of the functions behind them, and files only on request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import levelhead as lh
from levelhead.errors import BadOption, BadProbe, BadRun
from levelhead.measures.statistics import Resampling
from levelhead.probes.contexts import template_contexts
from levelhead.probes.nli import nli_probe
from levelhead.scoring.fluency import ask_fluency
from levelhead.scoring.lpbs import ask_lpbs
from levelhead.scoring.pairs import ask_ability, ask_nli, ask_nsp
from levelhead.scoring.seat import ask_seat, ask_sentence_seat
from tests.studies.projection_cases import ABLE, small_triples
from tests.tiny import tiny
from tests.word_lists import GENDER, gender_toml

FEW = Resampling(100, 0)
IN_MEMORY = {"name": "small-gender", "X": GENDER.X, "Y": list(GENDER.Y), "pairs": GENDER.pairs}


def test_seat_is_that_of_its_words_whether_they_come_as_file_dict_or_test(tmp_path: Path) -> None:
    model = tiny("bert")
    (wanted,) = ask_seat(model, GENDER, template_contexts(GENDER, 2), resampling=FEW)
    for bias in (gender_toml(tmp_path), IN_MEMORY, GENDER):
        result = lh.seat(model, lh.settings.SeatSettings(bias, per_word=2, resamples=100))
        assert (result.value, result.interval, result.n) == (wanted.value, wanted.interval, wanted.n)
        assert dict(result.data) == {"small-gender": GENDER.fingerprint(), **model.facts()}
        assert result.weights == model.fingerprint


def test_seat_of_a_sentence_test_takes_its_pooling(tmp_path: Path) -> None:
    sets = {"attr1": "She works.", "attr2": "He works.", "targ1": "A nurse.", "targ2": "An engineer."}
    data = {key: {"category": key, "examples": [text, f"{text} Who knows?"]} for key, text in sets.items()}
    path = tmp_path / "test.jsonl"
    path.write_text(json.dumps(data))
    model = tiny("bert")
    result = lh.seat(model, lh.settings.SeatSettings(sentences=path, pooling="cls", resamples=100))
    assert result.measurement == ask_sentence_seat(model, path, pooling="cls", resampling=FEW)[0]


def test_lpbs_has_one_score_a_list() -> None:
    model = tiny("bert")
    other = lh.load_words({**IN_MEMORY, "name": "turned", "X": GENDER.Y, "Y": GENDER.X})
    result = lh.lpbs(model, lh.settings.LpbsSettings([IN_MEMORY, other], resamples=100))
    assert result["small-gender"] == ask_lpbs(model, GENDER, resampling=FEW)[0]
    assert list(result.measurements) == ["small-gender", "turned"]
    with pytest.raises(BadOption, match="must be a list of word lists"):
        lh.lpbs(model, lh.settings.LpbsSettings("career"))


def test_next_sentences_inferences_and_fluency_are_those_of_their_functions(tmp_path: Path) -> None:
    next_sentence, classifier, triples = tiny("bert", "nsp"), tiny("bert", "nli"), small_triples(tmp_path)
    expected = lh.nsp(next_sentence, lh.settings.NspSettings(triples, resamples=100))
    assert dict(expected.measurements) == ask_nsp(next_sentence, triples, resampling=FEW)[0]
    assert expected.strength == expected["strength"]
    probe = nli_probe(limit=(3, 2))
    inferred = lh.nli(classifier, lh.settings.NliSettings(probe, ABLE, resamples=100))
    assert inferred.fairness == ask_nli(classifier, probe, resampling=FEW)[0]["fairness"]
    assert inferred.ability == ask_ability(classifier, ABLE)[0]
    sentences = ["The nurse said that she was tired.", "He saw him in the kitchen."]
    fluent = lh.fluency(next_sentence, lh.settings.FluencySettings(sentences, resamples=100))
    assert fluent.measurement == ask_fluency(next_sentence, sentences, resampling=FEW)[0]


def test_nothing_is_written_without_a_folder_and_everything_with_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = lh.settings.FluencySettings(["The nurse said that she was tired."] * 2, limit=1, resamples=100)
    result = lh.fluency(tiny("bert"), settings)
    assert list(tmp_path.iterdir()) == []
    again = lh.fluency(tiny("bert"), settings, tmp_path / "kept")
    written = json.loads((tmp_path / "kept" / "measured.json").read_text())
    assert again == result
    assert type(result).from_json(written) == result
    assert (
        (tmp_path / "kept" / "table.csv")
        .read_text()
        .splitlines()[0]
        .startswith("item,measure,value,low,high")
    )
    with pytest.raises(BadRun, match="not empty"):
        result.save(tmp_path / "kept")


def test_a_single_measure_draws_and_shows_itself() -> None:
    result = lh.seat(tiny("bert"), lh.settings.SeatSettings(GENDER, per_word=2, resamples=100))
    assert repr(result) == f"<SeatResult of tiny-bert: small-gender: {result.measurement}>"
    assert "tiny-bert: small-gender" in result._repr_html_()
    assert result.plot().to_dict()["title"]["text"] == "tiny-bert"
    assert list(result.to_frame()["measure"]) == ["seat"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"Z": ["word"]}, 'unknown key "Z"'),
        ({"X": []}, "the list X is empty"),
        ({"X": ["he"]}, '"he" is in X and in B; keep it in one of them'),
        ({"X": "nurse"}, "must be a list"),
        ({"pairs": [("she",)]}, "is not a pair"),
    ],
)
def test_mistakes_in_lists_in_memory_are_one_line_like_those_in_files(
    change: dict[str, object], complaint: str
) -> None:
    with pytest.raises(BadProbe, match=f"^own words: .*{complaint}"):
        lh.load_words({**IN_MEMORY, **change})


def test_lists_in_memory_without_a_name_have_one_all_the_same() -> None:
    nameless = {key: value for key, value in IN_MEMORY.items() if key != "name"}
    assert lh.load_words(nameless).name == "own words"
    assert lh.load_words(nameless, trim=True).fingerprint() == GENDER.fingerprint()
