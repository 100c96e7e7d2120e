"""Every study from Python: study(model, settings, folder) gives what its run holds."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import levelhead as lh
from levelhead.api import studies
from levelhead.engine.readings import WordVectors
from levelhead.engine.run import read_one
from levelhead.errors import BadOption
from levelhead.mitigation.recipe import Recipe
from levelhead.models.encoding import find_word
from levelhead.runs.study import studies as declared
from levelhead.studies.heads import Heads
from tests.audit_sizes import ask_little
from tests.glue_files import write_glue
from tests.studies.projection_cases import small_projections
from tests.studies.test_learning import SMALL as LEARNING
from tests.tiny import tiny
from tests.word_lists import GENDER, OCCUPATIONS

SIZES = lh.settings.AuditSizes(
    ("scores",),
    2,
    triples=40,
    occupations=(3, 2),
    sentences=60,
    backgrounds=1,
    null=0,
)
QUICK = lh.settings.HeadsSettings(
    GENDER, experiments=("scores",), per_word=2, resamples=100, null=0, splits=0
)
SENTENCE = "The nurse said that she was tired."
READING = WordVectors([SENTENCE], [find_word(SENTENCE, "nurse")])


MEASURES = ("seat", "lpbs", "nsp", "nli", "fluency")


@pytest.mark.parametrize("name", [*MEASURES, *declared(), "debias", "learn_gates"])
def test_every_study_is_called_alike(name: str) -> None:
    given = list(inspect.signature(getattr(lh, name)).parameters.values())
    assert [each.name for each in given[:3]] == ["model", "settings", "folder"]
    assert given[2].default is None
    assert given[1].default is None


def test_heads_without_a_folder_leave_nothing_and_with_one_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    free = lh.heads(tiny("bert"), QUICK)
    assert list(tmp_path.iterdir()) == []
    kept = lh.heads(tiny("bert"), QUICK, tmp_path / "run")
    assert free.scores == kept.scores
    assert kept.folder == tmp_path / "run"
    assert kept.settings.bias == "small-gender"
    assert Heads.open(tmp_path / "run").scores == kept.scores


def test_planted_heads_of_words_in_memory_are_looked_for() -> None:
    settings = lh.settings.PlantedSettings(
        GENDER, heads=1, seeds=1, kinds=("value",), rise=0.01, words=4, sentences="shipped", n_sentences=4
    )
    result = lh.planted(tiny("bert"), settings)
    assert result.settings.bias == "small-gender"
    assert {trial.seed for trial in result.trials} == {0}
    assert len(result.to_frame()) == len(result.summary)
    assert result.plot().to_dict()


@pytest.mark.nightly
def test_a_sweep_asks_for_its_classifier_and_gives_all_settings(tmp_path: Path) -> None:
    next_sentence, classifier = tiny("bert", "nsp"), tiny("bert", "nli", seed=1)
    with pytest.raises(BadOption, match="nli must"):
        lh.projections(next_sentence)
    result = lh.projections(next_sentence, small_projections(tmp_path, classifier))
    assert len({each.variant for each in result.measured}) == len(result.table7) == 76
    assert result.plot().to_dict()


def test_prompts_are_asked_of_models_and_of_what_recipes_make_of_them(tmp_path: Path) -> None:
    (tmp_path / "set.toml").write_text(OCCUPATIONS)
    settings = lh.settings.CounteractsSettings(str(tmp_path / "set.toml"), draws=100, null=0)
    model = tiny("bert")
    halved = replace(settings, recipes={"halved": Recipe(gates={lh.Head(0, 1): 0.5})})
    gated = lh.counteracts(model, halved)
    assert gated.settings.variants == ("base", "halved")
    bare, changed = gated.log_odds(), gated.log_odds("halved")
    assert bare is not None
    assert changed is not None
    assert bare.measurement.value != changed.measurement.value
    several = lh.counteracts([model], settings)
    assert several.cells_of(model.name) == gated.cells_of(model.name)


def test_glue_says_what_a_model_can_learn(tmp_path: Path) -> None:
    data = str(write_glue(tmp_path / "glue"))
    training = lh.settings.Hyperparameters(epochs=1, batch_size=8)
    result = lh.glue(tiny("bert"), lh.settings.GlueSettings(data, ("rte",), 1, training=training))
    assert {cell.task for cell in result.cells} == {"rte"}
    assert result.plot().to_dict()


def test_an_audit_of_a_model_in_memory_and_of_words_in_memory_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    ask_little(monkeypatch, tmp_path)
    source = tiny("llama")
    model = lh.load(source.hf, source.tokenizer)
    result = lh.audit(model, lh.settings.AuditSettings(GENDER, top=1, sizes=SIZES))
    assert list((tmp_path / "empty").iterdir()) == []
    assert result.headline is not None
    assert result.model == "LlamaForCausalLM in memory"
    assert result.settings.bias == "small-gender"
    assert result["seat"].value is not None
    assert result.report.is_file()
    assert (result.save(tmp_path / "kept") / "report.html").is_file()
    assert lh.check(tmp_path / "kept", {"fluency": 1e9}).holds
    assert not lh.check(tmp_path / "kept", {"seat": 2.0}).holds  # random weights read no English: no verdict


# ---- changed models


def test_a_debiased_model_can_be_tried_shown_and_written(tmp_path: Path) -> None:
    model = tiny("bert")
    plain = read_one(model, READING)
    changed = lh.debias(model, {"1-2": 0.0, "3-4": 0.5})
    with changed.on() as edited:
        gated = read_one(edited, READING)
    assert np.array_equal(read_one(model, READING), plain)
    assert not np.array_equal(gated, plain)
    again = lh.load(str(changed.save(tmp_path / "quieter")), device="cpu")
    np.testing.assert_allclose(read_one(again, READING), gated, atol=1e-5)
    assert list(changed.to_frame()["place"]) == ["1-2", "3-4"]
    assert changed.plot().to_dict()
    same = lh.debias(model, lh.load_recipe(tmp_path / "quieter" / "levelhead_recipe.toml"))
    assert same.recipe.gates == changed.recipe.gates


def test_nothing_to_change_and_a_recipe_for_other_weights_are_one_line() -> None:
    with pytest.raises(BadOption, match="Nothing to change"):
        lh.debias(tiny("bert"))
    with pytest.raises(BadOption, match="Nothing to change"):
        lh.debias(tiny("bert"), Recipe())
    strange = Recipe(gates={lh.Head(0, 0): 0.0}, fingerprint="0" * 64)
    with pytest.raises(BadOption, match="was made for"):
        lh.debias(tiny("bert"), strange)


def test_learned_gates_say_what_they_reach_and_reload_with_the_same_behavior(tmp_path: Path) -> None:
    model = tiny("bert")
    result = lh.learn_gates(model, LEARNING, tmp_path / "learned")
    assert abs(result.learned.seat) < abs(result.learned.seat_before)
    assert "SEAT" in result._repr_html_()
    with result.on():
        gated = read_one(model, READING)
    again = lh.load(str(tmp_path / "learned"), device="cpu")
    np.testing.assert_allclose(read_one(again, READING), gated, atol=1e-5)


def test_a_model_may_be_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "load", lambda name: tiny("bert") if name == "my-model" else None)
    assert lh.heads("my-model", QUICK).model == "tiny-bert"
