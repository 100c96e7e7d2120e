"""`levelhead debias` from recipes, heads and heads runs; mistakes are one line."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

from levelhead.cli.commands import app
from levelhead.edits.gates import gates
from levelhead.edits.sites import Head, Variant
from levelhead.edits.subspace import Projection
from levelhead.engine.readings import Pooled
from levelhead.engine.run import read_one
from levelhead.errors import BadOption, BadRun, LevelheadError
from levelhead.mitigation.export import RECIPE_FILE
from levelhead.mitigation.mitigate import biased_heads, edits_of
from levelhead.mitigation.recipe import Fit, Recipe, load_recipe, recipe_text, step
from levelhead.models.encoding import Text
from levelhead.models.model import Model, load
from levelhead.studies.glue.run import parsed_gates
from levelhead.studies.heads import Heads, open_heads
from levelhead.studies.heads.records import HeadScore
from tests.sealing import reseal
from tests.studies.head_runs import empty_run
from tests.tiny import tiny

READING = Pooled([Text("The nurse said that she was tired.", "He gave her a book.")])


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
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def same_answers(exported: str, model: Model, variant: Variant) -> None:
    again = load(exported, device="cpu")
    wanted = read_one(model, READING, [(), variant])
    np.testing.assert_allclose(read_one(again, READING)[0], wanted[1], atol=1e-5)
    assert np.abs(wanted[0] - wanted[1]).max() > 1e-4


def heads_run(place: Path, scores: Mapping[Head, float], weights: str) -> Heads:
    """A finished heads run with these scores."""
    records = [
        HeadScore(head, score, 0.1, 0.2, 0.2, rank, objective=1.0)
        for rank, (head, score) in enumerate(sorted(scores.items(), key=lambda item: -item[1]), start=1)
    ]
    with empty_run(place, "some model", {"weights": weights}) as run:
        run.results(Heads.scores, lambda: sorted(records, key=lambda record: record.head))
    return open_heads(place)


def test_heads_are_removed_and_scaled(folder: Path, model: Model, tmp_path: Path) -> None:
    report = debias(folder, "--heads", "1-2, 3-4=0.5", "-o", tmp_path / "out")
    assert report["folded"] is True
    assert report["max_difference"] <= 1e-5
    same_answers(report["folder"], model, gates(model, {Head(0, 1): 0.0, Head(2, 3): 0.5}))


@pytest.mark.parametrize("fit", ["base", "sequential"])
def test_a_recipe_becomes_the_model_that_it_describes(
    folder: Path, model: Model, tmp_path: Path, fit: Fit
) -> None:
    steps = (step("tokens", dimensions=2, soft=True), step("query"), step("cls"), step("sent"))
    recipe = Recipe(gates={Head(0, 0): 0.0}, projections=steps, fit=fit, fingerprint=model.fingerprint)
    (tmp_path / "r.toml").write_text(recipe_text(recipe), encoding="utf-8")
    report = debias(folder, "--recipe", tmp_path / "r.toml", "-o", tmp_path / "out")
    assert report["folded"] is False
    (obstacle,) = report["obstacles"]
    assert obstacle.startswith("the tokens of layer 2: ")
    same_answers(report["folder"], model, edits_of(model, recipe))
    assert load_recipe(Path(report["folder"]) / RECIPE_FILE).projections == steps


def test_sequential_fitting_sees_the_gates_and_base_does_not(model: Model) -> None:
    def basis(fit: Fit, closed: Mapping[Head, float]) -> NDArray[np.float32]:
        edit = edits_of(model, Recipe(closed, (step("sent"),), fit))[-1]
        assert isinstance(edit, Projection)
        vectors: NDArray[np.float32] = edit.basis.numpy()
        return vectors

    closed = {Head(0, head): 0.0 for head in range(4)}
    np.testing.assert_array_equal(basis("base", closed), basis("base", {}))
    assert np.abs(basis("sequential", closed) - basis("sequential", {})).max() > 1e-3


def test_the_most_biased_heads_of_a_run_are_removed(folder: Path, model: Model, tmp_path: Path) -> None:
    scores = {Head(0, 0): 0.1, Head(0, 1): -0.9, Head(1, 2): 0.7, Head(2, 3): 0.3}
    run = heads_run(tmp_path / "run", scores, model.fingerprint)
    assert biased_heads(run, 9, model) == [Head(1, 2), Head(2, 3), Head(0, 0)]  # never the anti-biased one
    report = debias(folder, "--from-heads", run.folder, "--top", 2, "-o", tmp_path / "out")
    closed = {Head(1, 2): 0.0, Head(2, 3): 0.0}
    assert load_recipe(Path(report["folder"]) / RECIPE_FILE).gates == closed
    same_answers(report["folder"], model, gates(model, closed))


def test_a_heads_run_about_other_weights_is_refused_in_one_line(
    folder: Path, model: Model, tmp_path: Path
) -> None:
    run = heads_run(tmp_path / "other", {Head(0, 0): 1.0}, "123")
    with pytest.raises(BadRun, match="is about some model, with other weights than those of ") as caught:
        debias(folder, "--from-heads", run.folder, "-o", tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_run_without_a_biased_head_and_a_folder_that_is_no_heads_run_are_refused(
    folder: Path, model: Model, tmp_path: Path
) -> None:
    anti = heads_run(tmp_path / "anti", {Head(0, 0): -1.0}, model.fingerprint)
    with pytest.raises(BadRun, match="no head with a score above 0"):
        biased_heads(anti, 3, model)
    with pytest.raises(BadRun, match="not a run folder"):
        debias(folder, "--from-heads", tmp_path / "none", "-o", tmp_path / "out")
    other = anti.folder / "settings.json"
    other.write_text(other.read_text(encoding="utf-8").replace('"heads"', '"planted"', 1), encoding="utf-8")
    reseal(anti.folder)
    with pytest.raises(BadRun, match="Give a folder that `levelhead heads` wrote"):
        debias(folder, "--from-heads", anti.folder, "-o", tmp_path / "out")


def test_heads_are_parsed_as_people_write_them() -> None:
    parsed = parsed_gates("3-5,7-2=0.5, 12-1 = 2")
    assert parsed == {Head(2, 4): 0.0, Head(6, 1): 0.5, Head(11, 0): 2.0}


@pytest.mark.parametrize(
    "text", ["3", "0-1", "3-0", "3-5=", "3-5=x", "3-5=nan", "3-5-1", "a-b", "-3-5", "3-5,3-5"]
)
def test_heads_that_mean_nothing_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(BadOption, match=r"heads must") as raised:
        parsed_gates(text)
    assert "\n" not in str(raised.value)


def test_mistakes_are_one_line_and_write_nothing(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with pytest.raises(BadOption, match="Nothing to change: give --recipe"):
        debias(folder, "-o", out)
    with pytest.raises(LevelheadError, match="has heads 1-1 to 3-4; 9-9"):
        debias(folder, "--heads", "9-9", "-o", out)
    recipe = Recipe(gates={Head(0, 0): 0.0}, model="lh:other", fingerprint="123")
    (tmp_path / "r.toml").write_text(recipe_text(recipe), encoding="utf-8")
    with pytest.raises(BadOption, match="made for lh:other"):
        debias(folder, "--recipe", tmp_path / "r.toml", "-o", out)
    with pytest.raises(LevelheadError, match="not empty"):
        debias(folder, "--heads", "1-1", "-o", tmp_path)
    assert not out.exists()


def test_the_words_for_a_person_say_how_to_load_it(folder: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["debias", str(folder), "--heads", "1-1", "-o", str(tmp_path / "out")])
    assert done.exit_code == 0
    assert "max difference after reload" in done.stdout
    assert f"from_pretrained('{tmp_path / 'out'}')" in done.stdout


def test_a_coin_belongs_to_a_recipe_that_symmetrizes(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(BadOption, match="--coin would change nothing"):
        debias(folder, "--heads", "1-1", "--coin", "3", "-o", tmp_path / "none")
    (tmp_path / "r.toml").write_text('[symmetrize]\nwords = "gender"\n', encoding="utf-8")
    report = debias(folder, "--recipe", tmp_path / "r.toml", "--coin", "3", "-o", tmp_path / "out")
    assert report["opens_here"] is False
    assert load_recipe(Path(report["folder"]) / RECIPE_FILE).coin == 3
