"""`levelhead debias` from recipes, heads and heads runs; mistakes are one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from levelhead.cli import app
from levelhead.cli import debias as command
from levelhead.edits.gates import gates
from levelhead.edits.sites import Variant
from levelhead.engine.readings import Pooled
from levelhead.engine.run import read_one
from levelhead.errors import BadProbe, BadRun, LevelheadError
from levelhead.mitigation.export import RECIPE_FILE
from levelhead.mitigation.mitigate import biased_heads, edits_of
from levelhead.mitigation.recipe import Recipe, read_recipe, step, write_recipe
from levelhead.models.encoding import Text
from levelhead.models.model import Model, load
from levelhead.results.folder import Run
from tests.tiny import tiny

ASKED = Pooled([Text("The nurse said that she was tired.", "He gave her a book.")])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small classifier on disk."""
    model, place = tiny("bert", "nli"), tmp_path_factory.mktemp("model")
    model.hf.save_pretrained(place)
    model.tokenizer.save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def model(folder: Path) -> Model:
    return load(str(folder), device="cpu")


def debias(*arguments: object) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["debias", *map(str, arguments), "--device", "cpu", "--json"])
    if done.exception is not None:
        raise done.exception
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def same_answers(exported: str, model: Model, variant: Variant) -> None:
    again = load(exported, device="cpu")
    wanted = read_one(model, ASKED, [(), variant])
    np.testing.assert_allclose(read_one(again, ASKED)[0], wanted[1], atol=1e-5)
    assert np.abs(wanted[0] - wanted[1]).max() > 1e-4


def write_scores(place: Path, scores: dict[str, float], weights: str) -> Path:
    table = "layer,head,score,stderr,q\n" + "".join(
        f"{head.replace('-', ',')},{score},0.1,0.2\n" for head, score in scores.items()
    )
    with Run.open(place, {"model": "some model"}, hashes={"weights": weights}) as run:
        run.artifact("head_scores.csv", lambda path: path.write_text(table))
    return place


def test_heads_are_removed_and_scaled(folder: Path, model: Model, tmp_path: Path) -> None:
    told = debias(folder, "--heads", "1-2, 3-4=0.5", "-o", tmp_path / "out")
    assert told["folded"] is True
    assert told["max_difference"] <= 1e-5
    same_answers(told["folder"], model, gates(model, {(0, 1): 0.0, (2, 3): 0.5}))


@pytest.mark.parametrize("fit", ["base", "sequential"])
def test_a_recipe_becomes_the_model_that_it_describes(
    folder: Path, model: Model, tmp_path: Path, fit: Any
) -> None:
    steps = (step("tokens", dimensions=2, soft=True), step("query"), step("cls"), step("sent"))
    recipe = Recipe(gates={(0, 0): 0.0}, projections=steps, fit=fit, fingerprint=model.fingerprint)
    write_recipe(tmp_path / "r.toml", recipe)
    told = debias(folder, "--recipe", tmp_path / "r.toml", "-o", tmp_path / "out")
    assert told["folded"] is False
    assert told["obstacles"] == ["the tokens of layer 2: the residual stream carries it on"]
    same_answers(told["folder"], model, edits_of(model, recipe))
    assert read_recipe(Path(told["folder"]) / RECIPE_FILE).projections == steps


def test_sequential_fitting_sees_the_gates_and_base_does_not(model: Model) -> None:
    def basis(fit: Any, closed: dict[tuple[int, int], float]) -> np.ndarray[Any, Any]:
        found = edits_of(model, Recipe(closed, (step("sent"),), fit))[-1]
        return found.basis.numpy()  # type: ignore[attr-defined, no-any-return]

    closed = {(0, head): 0.0 for head in range(4)}
    np.testing.assert_array_equal(basis("base", closed), basis("base", {}))
    assert np.abs(basis("sequential", closed) - basis("sequential", {})).max() > 1e-3


def test_the_most_biased_heads_of_a_run_are_removed(folder: Path, model: Model, tmp_path: Path) -> None:
    scores = {"1-1": 0.1, "1-2": -0.9, "2-3": 0.7, "3-4": 0.3}
    run = write_scores(tmp_path / "run", scores, model.fingerprint)
    assert biased_heads(run, 9, model) == [(1, 2), (2, 3), (0, 0)]  # never the anti-biased one
    told = debias(folder, "--from-heads", run, "--top", 2, "-o", tmp_path / "out")
    assert read_recipe(Path(told["folder"]) / RECIPE_FILE).gates == {(1, 2): 0.0, (2, 3): 0.0}
    same_answers(told["folder"], model, gates(model, {(1, 2): 0.0, (2, 3): 0.0}))


def test_a_heads_run_of_another_model_or_without_scores_is_refused(model: Model, tmp_path: Path) -> None:
    with pytest.raises(BadRun, match="other weights"):
        biased_heads(write_scores(tmp_path / "other", {"1-1": 1.0}, "123"), 3, model)
    with pytest.raises(BadRun, match="no head with a score above 0"):
        biased_heads(write_scores(tmp_path / "anti", {"1-1": -1.0}, model.fingerprint), 3, model)
    with pytest.raises(BadRun, match="not a run folder"):
        biased_heads(tmp_path / "none", 3, model)
    with Run.open(tmp_path / "bare", {}) as run, pytest.raises(BadRun, match="no table of head scores"):
        biased_heads(run.folder, 3, model)


def test_heads_are_parsed_as_people_write_them() -> None:
    assert command.parse_heads("3-5,7-2=0.5, 12-1 = 2") == {(2, 4): 0.0, (6, 1): 0.5, (11, 0): 2.0}


@pytest.mark.parametrize(
    "text", ["3", "0-1", "3-0", "3-5=", "3-5=x", "3-5=nan", "3-5-1", "a-b", "-3-5", "3-5,3-5"]
)
def test_heads_that_mean_nothing_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(BadProbe, match="--heads") as raised:
        command.parse_heads(text)
    assert "\n" not in str(raised.value)


def test_mistakes_are_one_line_and_write_nothing(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(BadProbe, match="Nothing to change: give --recipe"):
        debias(folder, "-o", out)
    with pytest.raises(BadProbe, match="has heads 1-1 to 3-4; 9-9"):
        debias(folder, "--heads", "9-9", "-o", out)
    write_recipe(tmp_path / "r.toml", Recipe(gates={(0, 0): 0.0}, model="lh:other", fingerprint="123"))
    with pytest.raises(BadProbe, match="made for lh:other"):
        debias(folder, "--recipe", tmp_path / "r.toml", "-o", out)
    with pytest.raises(LevelheadError, match="not empty"):
        debias(folder, "--heads", "1-1", "-o", tmp_path)
    assert not out.exists()


def test_the_words_for_a_person_say_how_to_load_it(folder: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["debias", str(folder), "--heads", "1-1", "-o", str(tmp_path / "out")])
    assert done.exit_code == 0
    assert "max difference after reload" in done.stdout
    assert f"from_pretrained('{tmp_path / 'out'}')" in done.stdout
