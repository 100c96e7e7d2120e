"""Workers: the same bits whoever runs a batch and whoever dies, and never with other weights."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from levelhead.edits.gates import removed
from levelhead.edits.sites import Head
from levelhead.engine import gradients, run, shards
from levelhead.engine import ray_workers as crews
from levelhead.engine.hyperparameters import Hyperparameters
from levelhead.engine.ray_workers import Crew
from levelhead.engine.readings import TokenLikelihoods
from levelhead.engine.shards import crew_of
from levelhead.errors import CannotDo
from levelhead.mitigation.recipe import Recipe
from levelhead.models.copies import new_classifier
from levelhead.models.model import load
from levelhead.models.null_model import as_null_model, draw_null_model, null_model_copy
from levelhead.runs.folder import LOCK
from levelhead.studies.glue.run import glue
from levelhead.studies.glue.settings import GlueSettings
from levelhead.studies.heads.run import heads
from levelhead.studies.heads.settings import HeadsSettings
from levelhead.studies.planted.run import planted
from levelhead.studies.planted.settings import PlantedSettings
from levelhead.studies.survey.run import survey
from levelhead.studies.survey.settings import SurveySettings
from tests.engine.crew_cases import BATCH, TEXTS, answers, same_bits
from tests.glue_files import write_glue
from tests.tiny import tiny
from tests.word_lists import gender_toml

pytestmark = pytest.mark.nightly
SETTINGS = HeadsSettings(experiments=("scores",), null=2, splits=1, per_word=2, resamples=100)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A tiny BERT on disk. When the last test of it has ended, Ray's processes are gone."""
    place = tmp_path_factory.mktemp("crew") / "bert"
    model = tiny("bert", "nsp", layers=2)
    model.hf.save_pretrained(place)
    model.tokenizer.save_pretrained(place)
    yield place
    if not crews._CREWS:
        return
    (present,) = crews._CREWS.values()
    pids = worker_pids(present)
    crews.dismiss()
    wait_until(lambda: not any(map(is_alive, pids)))


def worker_pids(present: Crew) -> list[int]:
    return [crews._ray().get(hand.actor.hello.remote()) for hand in present.hands]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def is_gone(pid: int) -> bool:
    return not is_alive(pid)


def wait_until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many batches each pass sends to workers."""
    passes: list[int] = []
    whole = Crew.in_order

    def counted(self: Crew, sends: Sequence[Any], each: int) -> Iterator[Any]:
        passes.append(len(sends))
        return whole(self, sends, each)

    monkeypatch.setattr(Crew, "in_order", counted)
    return passes


def at_step(monkeypatch: pytest.MonkeyPatch, module: Any, number: int, act: Callable[[], object]) -> None:
    """Do something in the driver, once, when it has taken so many batches."""
    taken: list[int] = []

    def advance(rows: int) -> None:
        taken.append(rows)
        if len(taken) == number:
            act()

    @contextmanager
    def steps(label: str, total: int) -> Iterator[Callable[[int], None]]:
        yield advance

    monkeypatch.setattr(module, "steps", steps)


# ---- the same bits


def files(folder: Path) -> dict[str, bytes]:
    """Every file by its path; a report names the folder that it lies in."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != LOCK)
    here = str(folder).encode()
    return {str(path.relative_to(folder)): path.read_bytes().replace(here, b"HERE") for path in paths}


def test_survey_glue_and_planted_bias_have_the_same_bytes_with_workers(
    folder: Path, tmp_path: Path, sent: list[int]
) -> None:
    write_glue(tmp_path / "glue")
    training = Hyperparameters(epochs=1, batch_size=8)
    lessons = GlueSettings(str(tmp_path / "glue"), ("rte",), seeds=1, train_rows=16, training=training)
    questions = SurveySettings((gender_toml(tmp_path),), ("seat",), quick=True)
    plants = PlantedSettings(
        gender_toml(tmp_path), heads=1, seeds=2, kinds=("attention",), sentences="shipped", n_sentences=12
    )
    models: list[str | Path] = [folder, "lh:none"]
    for name, workers in (("alone", None), ("helped", 2)):
        model = load(folder, workers=workers)
        glue(model, lessons, tmp_path / name / "glue", {"fewer": Recipe(gates={Head(0, 1): 0.0})})
        survey(models, questions, tmp_path / name / "survey", workers=workers)
        planted(model, plants, tmp_path / name / "planted")
    assert sent[:2] == [2, 2]  # two recipes, two models
    assert sent[-1] == 2  # two seeds
    assert files(tmp_path / "alone") == files(tmp_path / "helped")
    failed = files(tmp_path / "helped")["survey/survey.csv"]
    assert b"lh:none" in failed


def test_a_worker_that_is_killed_is_replaced_and_its_batches_are_run_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    model = load(folder, workers=2)
    present = crew_of(model)
    assert present is not None
    before = worker_pids(present.crew)
    at_step(monkeypatch, run, 2, lambda: os.kill(before[0], signal.SIGKILL))
    assert same_bits(answers(model), answers(load(folder)))
    after = worker_pids(present.crew)
    assert after[0] != before[0]
    assert after[1:] == before[1:]
    assert capfd.readouterr().out == ""  # which is for results


@pytest.fixture(scope="module", params=[2, 1])
def workers(request: pytest.FixtureRequest) -> int:
    """How many there are; from many to few, so that nobody has to be hired twice."""
    return int(request.param)


@pytest.fixture(scope="module")
def alone(folder: Path) -> list[Any]:
    """The answers of a null model and of the model without workers."""
    model = load(folder)
    with as_null_model(model, draw_null_model(model, 4)):
        of_counterfactual = answers(model)
    return [*of_counterfactual, *answers(model)]


def chosen_in(place: Path) -> HeadsSettings:
    return replace(SETTINGS, bias=gender_toml(place))


class Killed(BaseException):
    pass


def break_off(folder: Path, place: Path) -> None:
    """Begin a study with workers, and end it when it has kept three batches of a reading."""
    write = shards.Shards.write

    def dying(self: shards.Shards, number: int, parcels: Any) -> None:
        write(self, number, parcels)
        if number == 2:
            raise Killed

    model = load(folder, workers=2, batch_tokens=BATCH)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "LONG", 0.0)
        patch.setattr(shards.Shards, "write", dying)
        with pytest.raises(Killed):
            heads(model, chosen_in(place), place / "killed")


def kill(folder: Path, place: Path) -> None:
    """The same in a process of its own, with a Ray of its own, by SIGKILL."""
    code = f"""
import os, signal
from levelhead.engine import shards
from levelhead.models.model import load
from levelhead.studies.heads.settings import HeadsSettings
from levelhead.studies.heads.run import heads
shards.LONG, write = 0.0, shards.Shards.write
def dying(self, number, parcels):
    write(self, number, parcels)
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
shards.Shards.write = dying
model = load({str(folder)!r}, workers=1, batch_tokens={BATCH})
heads(model, HeadsSettings(**{vars(chosen_in(place))!r}), {str(place / "killed")!r})
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert process.returncode == -signal.SIGKILL, process.stderr


@pytest.fixture(scope="module", params=[break_off, pytest.param(kill, marks=pytest.mark.nightly)])
def killed(request: pytest.FixtureRequest, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study that ran alone, and one whose driver ended when it had kept three batches of a reading."""
    place = tmp_path_factory.mktemp("killed")
    heads(load(folder, batch_tokens=BATCH), chosen_in(place), place / "alone")
    request.param(folder, place)
    return place


def test_readings_gradients_and_null_models_have_the_same_bits_with_any_number_of_workers(
    folder: Path, workers: int, alone: list[Any], sent: list[int]
) -> None:
    model = load(folder, workers=workers)
    with as_null_model(model, draw_null_model(model, 4)):
        of_counterfactual = answers(model)
    assert len(sent) >= 3  # the null model's passes went to workers too
    assert min(sent[-3:]) > 5
    assert same_bits([*of_counterfactual, *answers(model)], alone)


def test_a_study_has_the_same_bytes_with_any_number_of_workers_and_after_its_driver_was_killed(
    folder: Path, killed: Path, workers: int
) -> None:
    expected, chosen = files(killed / "alone"), chosen_in(killed)
    place = killed / ("killed" if workers == 2 else f"{workers} workers")
    assert place.name != "killed" or list((place / "shards").rglob("2.npz"))
    heads(load(folder, workers=workers, batch_tokens=BATCH), chosen, place)
    assert files(place) == expected


# ---- only for the weights that were loaded


def test_a_model_that_was_changed_here_is_asked_here(folder: Path, sent: list[int]) -> None:
    model, alone = load(folder, workers=1), load(folder)
    closed = removed(model, ["1-1"])
    with model.edited(*closed), alone.edited(*closed):
        assert crew_of(model) is None
        assert same_bits(answers(model), answers(alone))
    with as_null_model(model, draw_null_model(model, 1)), model.edited(*closed):
        assert crew_of(model) is None
    handle = model.hf.register_forward_hook(lambda *_: None)
    assert crew_of(model) is None
    handle.remove()
    model.hf.set_attn_implementation("eager")
    assert crew_of(model) is None
    model.hf.set_attn_implementation(alone.hf.config._attn_implementation)
    assert crew_of(model) is not None
    with torch.no_grad():
        next(model.hf.parameters()).mul_(0.5)
    assert crew_of(model) is None
    assert sent == []


def test_copies_of_a_model_have_no_workers(folder: Path) -> None:
    model = load(folder, workers=1)
    for copied in (null_model_copy(model, draw_null_model(model, 1)), new_classifier(model, ["a", "b"], 0)):
        assert copied.placement.workers is None
        assert crew_of(copied) is None


def test_workers_refuse_a_folder_whose_weights_are_others_by_now(tmp_path: Path, folder: Path) -> None:
    for name, more in (("mine", 0.0), ("other", 0.1)):
        written = tiny("bert", "nsp", layers=1)
        with torch.no_grad():
            next(written.hf.parameters()).add_(more)
        written.hf.save_pretrained(tmp_path / name)
        written.tokenizer.save_pretrained(tmp_path / name)
    model = load(tmp_path / "mine", workers=1)
    (tmp_path / "mine").rename(tmp_path / "gone")
    (tmp_path / "other").rename(tmp_path / "mine")
    with pytest.raises(
        CannotDo, match=r"is another model where a worker loads it\. Give all machines the same"
    ):
        run.read(model, [TokenLikelihoods(TEXTS[:1])])


# ---- Ray itself


def test_nobody_else_can_enter_the_folder_of_our_ray(folder: Path) -> None:
    assert crew_of(load(folder, workers=1)) is not None
    place = Path(crews._ray()._private.worker._global_node.temp_dir)
    assert list(place.rglob("sockets/*"))
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert place.parent.stat().st_uid == os.getuid()


# ---- shards


def test_a_pass_that_broke_off_asks_only_for_batches_that_are_not_kept(
    folder: Path, tmp_path: Path, sent: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "LONG", 0.0)
    model, expected = load(folder, workers=1), answers(load(folder))

    def kept_answers() -> list[Any]:
        with shards.keeping_shards([model], tmp_path / "shards"):
            return answers(model)

    for module in (run, gradients):  # the driver dies in its first pass, and when it goes on, in its last
        with monkeypatch.context() as patch:
            at_step(patch, module, 4, interrupt)
            with pytest.raises(KeyboardInterrupt):
                kept_answers()
    first, rest, second, third = sent
    assert first == rest + 4
    assert len(list(tmp_path.rglob("*.npz"))) == first + second + 4
    damaged = min(tmp_path.rglob("1.npz"))
    damaged.write_bytes(damaged.read_bytes()[:-200])
    sent.clear()
    assert same_bits(kept_answers(), expected)
    assert sorted(sent) == [0, 0, 1, third - 4]
    assert not (tmp_path / "shards").exists()


def interrupt() -> None:
    raise KeyboardInterrupt


# ---- Ray's own processes: last, because Ray begins anew


def test_a_process_of_ray_that_is_killed_costs_one_line_and_the_next_pass_has_a_new_ray(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    model = load(folder, workers=1)
    for daemon in ("gcs_server", "raylet"):
        present = crew_of(model)
        assert present is not None
        pids = worker_pids(present.crew)
        node = crews._ray()._private.worker._global_node
        place = Path(node.temp_dir).parent
        (started,) = node.all_processes[daemon]
        with monkeypatch.context() as patch:
            at_step(patch, run, 2, started.process.kill)  # when two batches have come from this Ray
            with pytest.raises(CannotDo, match=rf"^{daemon}, a process of Ray's [^\n]*; it goes on\.$"):
                answers(model)
        assert not place.exists()
        for pid in pids:
            wait_until(partial(is_gone, pid))
    assert capfd.readouterr() == ("", "")
