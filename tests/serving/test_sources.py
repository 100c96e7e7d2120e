"""What is served: a model, with a recipe, a run that certified a mitigation, an exported folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from levelhead.edits.gates import removed
from levelhead.edits.output import Symmetrized
from levelhead.edits.sites import Head
from levelhead.engine.readings import TokenLikelihoods
from levelhead.engine.run import read_one
from levelhead.engine.sampling import Sampling, continuations, text_seed
from levelhead.errors import BadOption, BadRun, CannotDo
from levelhead.mitigation.mitigate import mitigate
from levelhead.mitigation.recipe import Recipe, recipe_text
from levelhead.models.model import Model, load
from levelhead.probes.group_swap import GenderSwap
from levelhead.runs.folder import Run
from levelhead.serving.served import deployed
from levelhead.studies.mitigate import Mitigate
from levelhead.studies.mitigate.records import ModelWritten
from tests.report.test_mitigations import SETTINGS, a_candidate
from tests.serving.clients import serving, texts
from tests.tiny import saved, tiny

TEXTS = ["The nurse said that she was tired.", "The nurse said that he was tired."]


def likelihoods(model: Model, variant: Any) -> Any:
    return [values.sum() for values in read_one(model, TokenLikelihoods(TEXTS), [variant]).values[0]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny causal model as a folder."""
    return Path(saved(tmp_path / "plain", "gpt2"))


def test_a_folder_is_served_under_its_own_name(folder: Path) -> None:
    found = deployed(str(folder), None, {})
    assert (found.name, found.variant, found.changes) == ("plain", (), "")
    assert found.fingerprint == load(folder).fingerprint


def test_a_recipe_is_a_part_of_the_name_and_of_the_fingerprint(folder: Path, tmp_path: Path) -> None:
    file = tmp_path / "my words.toml"
    file.write_text('title = "Both ways, at once"\n[symmetrize]\nwords = "gender"\n')
    plain, found = deployed(str(folder), None, {}), deployed(str(folder), str(file), {})
    assert found.name == "plain+Both-ways-at-once"
    assert found.fingerprint != plain.fingerprint
    first, second = likelihoods(found.model, found.variant)
    assert abs(first - second) < 1e-5


@pytest.mark.nightly
def test_an_exported_symmetrized_folder_is_symmetrized_without_its_code(folder: Path, tmp_path: Path) -> None:
    model = load(folder)
    closed = Head(0, 1)  # in the weights of the folder, and in its recipe
    mitigate(model, Recipe(gates={closed: 0.0}, symmetrize="gender", title="fair"), tmp_path / "fair")
    found = deployed(str(tmp_path / "fair"), None, {})
    assert found.name == "fair"
    expected = likelihoods(model, (*removed(model, [closed]), Symmetrized(GenderSwap())))
    assert np.allclose(likelihoods(found.model, found.variant), expected, atol=1e-4)
    with pytest.raises(BadOption, match="--recipe must be left out"):
        deployed(str(tmp_path / "fair"), "x.toml", {})


@pytest.mark.nightly
def test_a_coin_writes_no_texts(folder: Path, tmp_path: Path) -> None:
    mitigate(load(folder), Recipe(symmetrize="gender", coin=1), tmp_path / "tossed")
    with pytest.raises(CannotDo, match="Coined cannot write texts"):
        deployed(str(tmp_path / "tossed"), None, {})


@pytest.mark.parametrize("in_folder", [True, False])
@pytest.mark.nightly
def test_a_run_is_served_as_what_it_certified(folder: Path, tmp_path: Path, in_folder: bool) -> None:
    recipe = Recipe(symmetrize="gender", title="one")
    settings = replace(SETTINGS, models=(str(folder),))
    with Run.open(tmp_path / "run", Mitigate, settings, hashes={}) as run:
        if in_folder:
            mitigate(load(folder), recipe, tmp_path / "run" / "model")
        chosen = ModelWritten("one", "transformers.AutoModelForCausalLM...", "")
        run.result(Mitigate.written, lambda: chosen)
        best = replace(a_candidate("one", 0.05, 0.01, True), recipe=recipe_text(recipe))
        run.results(Mitigate.candidates, lambda: [best])
    found = deployed(str(tmp_path / "run"), None, {})
    assert found.name.endswith("plain+one")
    first, second = likelihoods(found.model, found.variant)
    assert abs(first - second) < 1e-5
    opened = Mitigate.open(tmp_path / "run")
    assert opened.serve_command == f"levelhead serve {tmp_path / 'run'}"
    assert (f"Serve it: {opened.serve_command}" in opened.notes()) == in_folder


@pytest.mark.parametrize("kind", ["merged", "distilled"])
def test_a_certified_model_of_plain_weights_writes_what_its_folder_writes(
    folder: Path, tmp_path: Path, kind: str
) -> None:
    """A gate merged into the weights, and a student that has learned from another model: neither is edited
    when it is served."""
    model, written = load(folder), tmp_path / "run" / "model"
    with Run.open(tmp_path / "run", Mitigate, replace(SETTINGS, models=(str(folder),)), hashes={}) as run:
        if kind == "merged":
            mitigate(model, Recipe(gates={Head(0, 1): 0.0}, title=kind), written)
        else:
            student = tiny("gpt2", seed=5)
            student.hf.save_pretrained(written)
            model.tokenizer.save_pretrained(written)
        run.result(Mitigate.written, lambda: ModelWritten(kind, "transformers.AutoModelForCausalLM...", ""))
        run.results(Mitigate.candidates, lambda: [a_candidate(kind, 0.05, 0.01, True)])
    found = deployed(str(tmp_path / "run"), None, {})
    assert (found.variant, found.changes) == ((), kind)
    assert found.name.endswith(f"+{kind}")
    own = load(written)
    assert np.allclose(likelihoods(found.model, ()), likelihoods(own, ()), atol=1e-5)
    assert not np.allclose(likelihoods(model, ()), likelihoods(own, ()), atol=1e-2)
    expected = continuations(own, [TEXTS[0]], ["a"], Sampling(1, 8, seed=7))[0][0].text
    with serving(found.model, found.variant) as served:
        assert texts(served, TEXTS[0], seed=text_seed("a", 0, 7), max_tokens=8) == [expected]


def test_a_run_without_a_certified_mitigation_says_so(tmp_path: Path) -> None:
    with Run.open(tmp_path, Mitigate, SETTINGS, hashes={}) as run:
        run.results(Mitigate.candidates, lambda: [a_candidate("two", 0.1, 0.9, False)])
    with pytest.raises(BadRun, match="no mitigation is certified"):
        deployed(str(tmp_path), None, {})
    with pytest.raises(BadOption, match="--recipe belongs to a model"):
        deployed(str(tmp_path), "x.toml", {})
