"""Learned gates that can be kept: as a recipe, and as a folder that behaves like the gated model."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from levelhead.cli.commands import app
from levelhead.edits.gates import gates
from levelhead.engine.readings import WordVectors
from levelhead.engine.run import read_one
from levelhead.errors import BadOption, CannotDo
from levelhead.mitigation.export import RECIPE_FILE
from levelhead.mitigation.recipe import load_recipe
from levelhead.models.encoding import find_word
from levelhead.models.model import Model, load
from levelhead.probes.contexts import template_contexts
from levelhead.probes.sentences import fluency_sentences
from levelhead.probes.words import load_words
from levelhead.scoring.fluency import ask_fluency_and_change
from levelhead.scoring.seat import ask_seat, sample_contexts
from levelhead.studies.heads import learning
from levelhead.studies.heads.bench import Bench, split_text
from levelhead.studies.heads.learned_gates import learn_gates, sampled_objective
from levelhead.studies.heads.learning import LearnedGatesSettings, LearnedRecipe, learned_recipe
from levelhead.studies.heads.prepared import prepare
from levelhead.studies.heads.settings import DebiasSettings
from tests.tiny import tiny
from tests.word_lists import GENDER, gender_toml

SMALL = LearnedGatesSettings(1.1, GENDER, sentences=6, per_word=1, steps=2, words=6, blanks=12)
SENTENCE = "The nurse said that she was tired."
READING = WordVectors([SENTENCE], [find_word(SENTENCE, "nurse")])


@pytest.fixture(scope="module")
def model() -> Model:
    return tiny("bert")


@pytest.fixture(scope="module")
def learned(model: Model) -> LearnedRecipe:
    return learned_recipe(model, SMALL)


def test_learned_gates_lower_seat_within_their_bound_and_the_cost_is_told_of_other_sentences(
    model: Model, learned: LearnedRecipe
) -> None:
    assert abs(learned.seat) < abs(learned.seat_before)
    assert 0 < learned.ratio <= 1.1
    _, judging = split_text(model, None, 6)
    ((_, change),) = ask_fluency_and_change(model, judging, [learned.edits])
    assert learned.fluency_change == change
    contexts = prepare(model, SMALL.heads).scored.contexts
    assert learned.seats == tuple(ask_seat(model, GENDER, contexts, [(), learned.edits], intervals=False))
    assert f"SEAT {learned.seat_before:.3f} -> {learned.seat:.3f}" in learned.in_words


def test_learned_gates_of_a_bound_are_those_of_the_debias_experiment(
    model: Model, learned: LearnedRecipe
) -> None:
    prepared = prepare(model, SMALL.heads)
    bench = Bench(model, GENDER, prepared.scored.contexts, DebiasSettings(sentences=6))
    assert SMALL.search(GENDER).bounds == (1.02, 1.05, 1.1)
    search = SMALL.search(GENDER)
    objective = sampled_objective(GENDER, bench.contexts, search)
    *_, of_bound = learn_gates(model, objective, bench.learning, search)
    values = {head: value for head, value in np.ndenumerate(np.round(of_bound.values, 6)) if value != 1}
    assert dict(learned.recipe.gates) == values


def test_words_of_a_short_list_are_learned_in_several_contexts_and_those_of_a_long_one_in_one() -> None:
    assert LearnedGatesSettings().search(load_words("gender")).contexts == 1
    assert LearnedGatesSettings().search(GENDER).contexts == 250 // 6
    contexts = template_contexts(GENDER, 4)
    several = sample_contexts(GENDER, contexts, 6, 0, per_word=3)
    assert len(several) == 3 * len({context.word for context in contexts}) == len(set(several))
    first = sample_contexts(GENDER, contexts, 6, 0)
    assert set(first) <= set(several)
    assert len(sample_contexts(GENDER, contexts, 6, 0, per_word=99)) == len(contexts)


def test_sentences_to_judge_on_are_none_of_those_to_learn_on(model: Model) -> None:
    own, others = split_text(model, None, 6)
    assert own
    assert not set(own) & set(others)
    assert {*own, *others} <= set(fluency_sentences())


def test_gates_that_change_nothing_are_refused_with_what_to_do(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = SMALL.search(GENDER)
    objective = sampled_objective(GENDER, prepare(model, SMALL.heads).scored.contexts, search)
    one = learn_gates(model, objective, [SENTENCE], search)[0]
    values = np.ones((model.layers, model.heads))
    monkeypatch.setattr(learning, "learn_gates", lambda *_: [type(one)(1.1, values, 0.1, 1.0, 0.1, 0)])
    with pytest.raises(CannotDo, match="Allow a larger factor"):
        learned_recipe(model, SMALL)


def test_a_bound_below_one_and_a_model_that_predicts_no_words_are_one_line() -> None:
    with pytest.raises(BadOption, match=r"bound must be at least 1 \(got 0.9\)"):
        LearnedGatesSettings(0.9)
    with pytest.raises(BadOption, match=r"bound must be a number \(got nan\)"):
        LearnedGatesSettings(float("nan"))
    with pytest.raises(CannotDo, match="learning gates under a bound on fluency"):
        learned_recipe(tiny("bert", "base"), SMALL)


def test_the_command_writes_a_folder_that_behaves_like_the_gated_model(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.hf.save_pretrained(tmp_path / "model")
    model.tokenizer.save_pretrained(tmp_path / "model")

    def small(bound: float, bias: str) -> LearnedGatesSettings:
        return LearnedGatesSettings(bound, bias, sentences=6, per_word=1, steps=2, words=6, blanks=12)

    importlib.import_module("levelhead.cli.debias")  # registers the command
    monkeypatch.setattr(learning, "LearnedGatesSettings", small)
    given = ["--learned", "1.1", "--bias", gender_toml(tmp_path), "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(
        app, ["debias", str(tmp_path / "model"), *given, "--device", "cpu", "--json"], catch_exceptions=False
    )
    reached = json.loads(done.stdout)["learned"]
    assert abs(reached["seat"]) < abs(reached["seat_before"])
    recipe = load_recipe(tmp_path / "out" / RECIPE_FILE)
    assert all(term in recipe.title for term in (gender_toml(tmp_path), "1.1"))
    before = load(str(tmp_path / "model"), device="cpu")
    untouched, gated = read_one(before, READING, [(), gates(before, recipe.gates)])
    again = read_one(load(str(tmp_path / "out"), device="cpu"), READING)[0]
    np.testing.assert_allclose(again, gated, atol=1e-5)
    assert np.abs(untouched - gated).max() > 1e-3
