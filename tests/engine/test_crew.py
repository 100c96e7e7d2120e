"""Workers: the same bits whoever runs a batch and whoever dies, and never with other weights."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from levelhead.edits.gates import removed
from levelhead.edits.head import Head
from levelhead.edits.projection import Projection
from levelhead.edits.sites import Site, Variant
from levelhead.engine import crew as crews
from levelhead.engine import gradients, run, shards
from levelhead.engine.crew import Crew
from levelhead.engine.finetuning import Hyperparameters
from levelhead.engine.helped import crew_of
from levelhead.engine.readings import (
    Attention,
    Predictions,
    SentenceVectors,
    States,
    StaticVectors,
    TokenLikelihoods,
    TokenLogProbs,
)
from levelhead.errors import BadOption, CannotDo
from levelhead.mitigation.recipe import Recipe
from levelhead.models.classifier import new_classifier
from levelhead.models.encoding import Text
from levelhead.models.model import Model, load
from levelhead.models.twins import draw_twin, twin_copy, twinned
from levelhead.probes.contexts import template_contexts
from levelhead.results.folder import LOCK
from levelhead.scoring.word_table import word_table
from levelhead.studies.glue import GlueSettings, glue
from levelhead.studies.heads.scores import absolute_seat
from levelhead.studies.heads.settings import HeadsSettings
from levelhead.studies.heads.study import heads
from levelhead.surveying import SurveySettings, survey
from tests.glue_files import write_glue
from tests.tiny import tiny
from tests.word_lists import GENDER, gender_toml

pytestmark = pytest.mark.slow
TABLE = word_table(GENDER, template_contexts(GENDER, 2))
TEXTS = [Text(context.text) for context in TABLE.contexts[:12]]
BLANKS = [Text(f"The {word} is [MASK].") for word in ("nurse", "engineer", "book")]
SPANS = [(context.start, context.end) for context in TABLE.contexts[:2]]
BATCH = 256  # tokens: every pass has many batches
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
    return [crews._ray().get(hand.actor.hello.remote()) for hand in present._hands]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.05)


def answers(model: Model) -> list[Any]:
    """Readings of every stage, untouched and under edits; and the gradients of the gates."""
    readings: list[Any] = [
        StaticVectors(
            [Text(c.text) for c in TABLE.contexts], [(c.start, c.end) for c in TABLE.contexts], word()
        ),
        SentenceVectors(TEXTS),
        TokenLikelihoods(TEXTS[:4]),
        TokenLogProbs(BLANKS, [5, 6, 7]),
        Predictions(BLANKS, 3),
        States(TEXTS[:3], Site(1, "query")),
        Attention(TEXTS[:2], SPANS, SPANS),
    ]
    edits: Variant = (
        *removed(model, ["1-2"]),
        Projection(Site(1, "block"), torch.eye(32)[:1], torch.ones(1)),
    )
    collected = run.read(model, readings, [(), edits], batch_tokens=BATCH)
    slopes = gradients.gate_gradients(model, readings[0], absolute_seat(TABLE.sets), batch_tokens=BATCH)
    top = collected[readings[4]]
    return [
        *(collected[readings[number]] for number in (0, 1, 3)),
        *(np.concatenate(each) for each in collected[readings[2]].values),
        *(top.ids, top.log_probs),
        *(np.concatenate(each) for each in collected[readings[5]]),
        *(text.weights for each in collected[readings[6]] for text in each),
        *(slopes.scores, slopes.stderr),
    ]


def word() -> list[int]:
    words = sorted({context.word for context in TABLE.contexts})
    return [words.index(context.word) for context in TABLE.contexts]


def same_bits(own: Sequence[Any], others: Sequence[Any]) -> bool:
    return [np.asarray(x).tobytes() for x in own] == [np.asarray(x).tobytes() for x in others]


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


def test_readings_gradients_and_twins_have_the_same_bits_with_0_1_2_and_3_workers(
    folder: Path, sent: list[int]
) -> None:
    alone = load(folder)
    twin = draw_twin(alone, 4)
    with twinned(alone, twin):
        expected = [*answers(alone), *answers(load(folder))]
    for workers in (3, 2, 1):
        sent.clear()
        model = load(folder, workers=workers)
        with twinned(model, twin):
            of_twin = answers(model)
            assert len(sent) >= 3  # the twin's passes went to workers
        assert min(sent[-3:]) > 5
        assert same_bits([*of_twin, *answers(model)], expected), workers


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
    assert after[1] == before[1]
    assert capfd.readouterr().out == ""  # which is for results


# ---- only for the weights that were loaded


def test_a_model_that_was_changed_here_is_asked_here(folder: Path, sent: list[int]) -> None:
    model, alone = load(folder, workers=1), load(folder)
    closed = removed(model, ["1-1"])
    with model.edited(*closed), alone.edited(*closed):
        assert crew_of(model) is None
        assert same_bits(answers(model), answers(alone))
    with twinned(model, draw_twin(model, 1)), model.edited(*closed):
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
    for copied in (twin_copy(model, draw_twin(model, 1)), new_classifier(model, ["a", "b"], 0)):
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


def test_what_an_order_is_called_depends_on_its_values_and_not_on_objects_or_processes() -> None:
    def tokens(change: float) -> tuple[Any, ...]:
        array = np.arange(4)
        return (torch.ones(2, 3) * change, array, {"b", "a"}, "part", array)

    def name(value: object) -> bytes:
        written: list[bytes] = []
        shards._Canonical(written.append).dump(value)
        return b"".join(written)

    assert name(tokens(1.0)) == name(tokens(1.0))
    assert name(tokens(1.0)) == name((*tokens(1.0)[:4], np.arange(4)))
    assert name(tokens(1.0)) != name(tokens(2.0))


# ---- whole studies


def files(folder: Path) -> dict[str, bytes]:
    """Every file by its path; a report names the folder that it lies in."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != LOCK)
    here = str(folder).encode()
    return {str(path.relative_to(folder)): path.read_bytes().replace(here, b"HERE") for path in paths}


def test_a_study_has_the_same_bytes_with_workers_and_after_its_driver_was_killed(
    folder: Path, tmp_path: Path
) -> None:
    settings = f"HeadsSettings(**{ {**vars(SETTINGS), 'bias': gender_toml(tmp_path)}!r})"
    killed = f"""
import os, signal
from levelhead.engine import run, shards
from levelhead.models.model import load
from levelhead.studies.heads.settings import HeadsSettings
from levelhead.studies.heads.study import heads
shards.LONG, write = 0.0, shards.Shards.write
def dying(self, number, parcels):
    write(self, number, parcels)
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
shards.Shards.write = dying
heads(load({str(folder)!r}, workers=2, batch_tokens={BATCH}), {settings}, {str(tmp_path / "killed")!r})
"""
    process = subprocess.run([sys.executable, "-c", killed], capture_output=True, check=False)
    assert process.returncode == -signal.SIGKILL, process.stderr
    assert list((tmp_path / "killed" / "shards").rglob("2.npz"))
    chosen = HeadsSettings(**{**vars(SETTINGS), "bias": gender_toml(tmp_path)})
    heads(load(folder, batch_tokens=BATCH), chosen, tmp_path / "alone")
    expected = files(tmp_path / "alone")
    for name, workers in (("killed", 3), ("two", 2), ("one", 1)):
        heads(load(folder, workers=workers, batch_tokens=BATCH), chosen, tmp_path / name)
        assert files(tmp_path / name) == expected, name


def test_a_survey_and_glue_have_the_same_bytes_with_workers(
    folder: Path, tmp_path: Path, sent: list[int]
) -> None:
    write_glue(tmp_path / "glue")
    training = Hyperparameters(epochs=1, batch_size=8)
    lessons = GlueSettings(str(tmp_path / "glue"), ("rte",), seeds=2, train_rows=16, training=training)
    questions = SurveySettings((gender_toml(tmp_path), "gender"), ("seat",), quick=True)
    models: list[str | Path] = [folder, "lh:none"]
    for name, workers in (("alone", None), ("two", 2)):
        model = load(folder, workers=workers)
        glue(model, lessons, tmp_path / name / "glue", {"fewer": Recipe(gates={Head(0, 1): 0.0})})
        survey(models, tmp_path / name / "survey", questions, workers=workers)
    assert sent == [4, 4]  # 2 seeds x 2 recipes, 2 models x 2 biases
    assert files(tmp_path / "alone") == files(tmp_path / "two")
    failed = files(tmp_path / "two")["survey/survey.csv"]
    assert b"lh:none" in failed


# ---- mistakes


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "workers=0, gpus_per_worker=0 came; allowed are 1 to 4096, and from 0"),
        ({"workers": 1, "gpus_per_worker": -1}, "gpus_per_worker=-1 came"),
        ({"workers": 2, "gpus_per_worker": 99}, r"99 came; this machine has \d+ cards"),
        ({"gpus_per_worker": 1}, "gpus_per_worker would change nothing without workers"),
        ({"ray": "auto"}, "ray would change nothing without workers"),
    ],
)
def test_wrong_options_of_workers_are_one_line(options: Any, message: str) -> None:
    with pytest.raises(BadOption, match=message):
        load("lh:bert-mini", **options)


def test_without_ray_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levelhead.models.placement.find_spec", lambda name: None)
    with pytest.raises(BadOption, match=r"pip install 'levelhead\[ray\]'"):
        load("lh:bert-mini", workers=2)


def test_a_model_in_memory_takes_no_workers() -> None:
    model = tiny("bert")
    with pytest.raises(BadOption, match="workers came with a model in memory"):
        load(model.hf, model.tokenizer, workers=2)
