"""The same seed gives the same bytes, killed or not; closed heads stay as they were."""

from __future__ import annotations

import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from levelhead.edits.gates import removed
from levelhead.edits.sites import Edit, Head, Site
from levelhead.edits.subspace import Projection
from levelhead.engine import finetuning, training
from levelhead.engine.batches import SimilarLengths
from levelhead.engine.collectors import Doubles
from levelhead.engine.finetuning import FineTuned, Labeled, TaskData, finetune, head_slices, labeled
from levelhead.engine.hyperparameters import Hyperparameters
from levelhead.errors import BadOption, CannotDo
from levelhead.models.identity import fingerprint
from levelhead.models.model import Model
from levelhead.probes.glue import TASKS, GlueItem, load_task
from tests.glue_files import write_glue
from tests.tiny import tiny

PLAN = Hyperparameters(epochs=3, batch_size=8, learning_rate=2e-3, weight_decay=0.1)
CLOSED = Head(1, 2)
PEOPLE = ("nurse", "engineer", "teacher", "mother", "father")


def accuracy(gold: Doubles, predicted: Doubles) -> float:
    return float((gold == predicted).mean())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_glue(tmp_path_factory.mktemp("glue"))


def data_of(model: Model, folder: Path, task: str = "rte") -> TaskData:
    train, dev = (labeled(model, load_task(TASKS[task], part, folder).items, 40) for part in ("train", "dev"))
    return TaskData(TASKS[task].labels, train, dev, accuracy)


def tuned(
    family: str, folder: Path, plan: Hyperparameters = PLAN, seed: int = 0, place: Path | None = None
) -> FineTuned:
    model = tiny(family)
    return finetune(model, removed(model, [CLOSED]), data_of(model, folder), plan, seed, place)


@cache
def undisturbed(family: str, folder: Path, plan: Hyperparameters = PLAN) -> FineTuned:
    """A training that ends by itself, run once for all tests that compare others with it."""
    return tuned(family, folder, plan)


def same(one: FineTuned, other: FineTuned) -> bool:
    return (
        fingerprint(one.model.hf) == fingerprint(other.model.hf)
        and one.curve == other.curve
        and bool((one.predictions == other.predictions).all())
    )


# ---- determinism


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_the_same_seed_gives_the_same_bytes_and_another_one_does_not(family: str, folder: Path) -> None:
    first = undisturbed(family, folder)
    assert same(first, tuned(family, folder))
    assert not same(first, tuned(family, folder, seed=1))


@pytest.mark.slow
def test_two_threads_that_train_at_once_end_with_the_same_bytes(folder: Path) -> None:
    alone, models = undisturbed("bert", folder), [tiny("bert"), tiny("bert")]
    given = [(model, removed(model, [CLOSED]), data_of(model, folder), PLAN) for model in models]
    with ThreadPoolExecutor(2) as pool:
        trained = [pool.submit(finetune, *each) for each in given]
        assert all(same(each.result(), alone) for each in trained)


def test_the_callers_random_numbers_and_model_stay_as_they_were(folder: Path) -> None:
    model = tiny("bert")
    before = fingerprint(model.hf)
    states = random.getstate(), str(np.random.get_state()), torch.random.get_rng_state()
    finetune(model, (), data_of(model, folder), PLAN)
    assert random.getstate() == states[0]
    assert str(np.random.get_state()) == states[1]
    assert torch.equal(torch.random.get_rng_state(), states[2])
    assert fingerprint(model.hf) == before
    assert not any(weight.requires_grad for weight in model.hf.parameters())


class Killed(Exception):
    """What stands for SIGKILL."""


@pytest.mark.parametrize(
    ("family", "lora", "step"),
    [
        ("bert", False, 5),
        *(
            pytest.param(*each, marks=pytest.mark.nightly)
            for each in (("bert", False, 4), ("bert", True, 5), ("gpt2", False, 8), ("bert", False, 9))
        ),
    ],
)
def test_a_killed_training_goes_on_and_ends_with_the_same_bytes(
    family: str, lora: bool, step: int, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three steps are an epoch: it is killed inside one, at its end, and behind the last."""
    plan = replace(PLAN, lora=lora)
    whole = undisturbed(family, folder, plan)
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    moved = training.Progress.on_step_end

    def die(self: Any, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == step:
            raise Killed
        moved(self, args, state, control)

    with monkeypatch.context() as patch:
        patch.setattr(training.Progress, "on_step_end", die)
        with pytest.raises(Killed):
            tuned(family, folder, plan, place=tmp_path)
    last = training.last_checkpoint(tmp_path)
    assert last is not None
    assert last.endswith(f"checkpoint-{step - 1}")
    assert same(tuned(family, folder, plan, place=tmp_path), whole)


def test_a_training_that_was_killed_after_its_last_step_only_answers(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    assert same(tuned("bert", folder, place=tmp_path), undisturbed("bert", folder))
    assert same(tuned("bert", folder, place=tmp_path), undisturbed("bert", folder))


def test_a_checkpoint_that_is_not_whole_is_passed_over(tmp_path: Path) -> None:
    for step, text in ((3, "{}"), (12, "{"), (20, None)):
        (tmp_path / f"checkpoint-{step}").mkdir()
        if text is not None:
            (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text(text)
    assert training.last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-3")


def test_the_order_of_examples_is_drawn_anew_for_each_epoch_and_keeps_lengths_together() -> None:
    lengths = np.random.default_rng(0).integers(5, 60, 1000)
    order = SimilarLengths(lengths.tolist(), 10, seed=3)
    first, again = list(order), list(order)
    order.epoch = 1
    second = list(order)
    assert first == again
    assert sorted(first) == sorted(second) == list(range(1000))
    assert first != second
    padded = lengths[np.array(first)].reshape(-1, 10).max(1).sum() * 10
    assert padded < 1.1 * lengths.sum()


# ---- edits


@pytest.mark.parametrize("lora", [False, True])
@pytest.mark.parametrize("family", ["bert", "gpt2", "llama"])
def test_a_closed_heads_parameters_do_not_change_in_training_and_an_open_ones_do(
    family: str, lora: bool, folder: Path
) -> None:
    model = tiny(family)
    pair = [Head(1, 2), Head(1, 3)]  # in llama they share keys and values
    plan = Hyperparameters(epochs=3, batch_size=8, learning_rate=2e-3, weight_decay=0.3, lora=lora)
    trained = finetune(model, removed(model, pair), data_of(model, folder), plan).model
    for before, after in zip(head_slices(model, pair), head_slices(trained, pair), strict=True):
        assert torch.equal(before.values(), after.values())
    opened = [Head(1, 0), Head(1, 1)]
    moved = [
        not torch.equal(before.values(), after.values())
        for before, after in zip(head_slices(model, opened), head_slices(trained, opened), strict=True)
    ]
    assert sum(moved) >= 3


@pytest.mark.nightly
def test_in_bfloat16_closed_heads_stay_weights_are_float32_and_a_killed_training_goes_on(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = Hyperparameters(epochs=2, batch_size=8, learning_rate=2e-3, weight_decay=0.3)
    rough = replace(plan, bf16=True)
    model, exact, trained = tiny("bert"), tuned("bert", folder, plan), tuned("bert", folder, rough)
    for before, after in zip(head_slices(model, [CLOSED]), head_slices(trained.model, [CLOSED]), strict=True):
        assert torch.equal(before.values(), after.values())
    assert trained.model.hf.dtype == torch.float32
    assert not same(exact, trained)
    losses = [[point.loss for point in one.curve if point.loss is not None] for one in (exact, trained)]
    assert losses[0] == pytest.approx(losses[1], abs=0.02)
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    tuned("bert", folder, rough, place=tmp_path)
    shutil.rmtree(sorted(tmp_path.glob("checkpoint-*"), key=lambda path: int(path.name[11:]))[-1])
    assert same(tuned("bert", folder, rough, place=tmp_path), trained)


def test_weight_decay_alone_would_move_a_closed_head(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finetuning.ClosedHeads, "on_optimizer_step", lambda *_, **__: None)
    model = tiny("bert")
    trained = tuned("bert", folder).model
    parts = zip(head_slices(model, [CLOSED]), head_slices(trained, [CLOSED]), strict=True)
    assert any(not torch.equal(before.values(), after.values()) for before, after in parts)


def some_edits(model: Model) -> list[Edit]:
    axis = torch.zeros(1, model.config.hidden_size)
    axis[0, 3] = 1.0
    query = torch.zeros(model.heads, 1, model.head_dim)
    query[..., 0] = 1.0
    return [
        Projection(Site(1, "block"), axis, torch.ones(1)),
        Projection(Site(0, "query"), query, torch.ones(model.heads, 1)),
    ]


@pytest.mark.parametrize("lora", [False, True])
def test_edits_are_on_in_training_and_in_evaluation(lora: bool, folder: Path) -> None:
    model = tiny("bert")
    data, plan = data_of(model, folder), Hyperparameters(epochs=2, learning_rate=2e-3, lora=lora)
    edits = some_edits(model)
    trained, plain = finetune(model, edits, data, plan), finetune(model, (), data, plan)
    assert fingerprint(trained.model.hf) != fingerprint(plain.model.hf)
    with trained.model.edited(*edits):
        edited = logits(trained.model, data.dev)
    assert (edited.argmax(-1).numpy() == trained.predictions).all()
    assert not torch.allclose(edited, logits(trained.model, data.dev), atol=1e-4)


def logits(model: Model, part: Labeled) -> torch.Tensor:
    rows = []
    for tokens, _ in (part[i] for i in range(len(part))):
        ids = torch.tensor(tokens.ids[None].astype(np.int64))
        types = None if tokens.types is None else torch.tensor(tokens.types[None].astype(np.int64))
        extra = {} if types is None else {"token_type_ids": types}
        with torch.no_grad():
            rows.append(model.hf(input_ids=ids, **extra).logits[0])
    return torch.stack(rows)


def test_lora_trains_few_weights_and_leaves_an_ordinary_network(folder: Path) -> None:
    model = tiny("bert")
    plan = Hyperparameters(epochs=1, batch_size=8, learning_rate=2e-3, lora=True)
    trained = finetune(model, (), data_of(model, folder), plan).model
    assert not any("lora" in name for name, _ in trained.hf.named_parameters())
    changed = {
        name
        for name, weight in trained.base.named_parameters()
        if name in dict(model.base.named_parameters())
        and not torch.equal(weight, dict(model.base.named_parameters())[name])
    }
    assert changed
    assert all(any(part in name for part in ("query", "key", "value")) for name in changed)


# ---- what is learned


def test_a_causal_model_reads_pairs_as_two_lines_and_learns(folder: Path) -> None:
    model = tiny("gpt2")
    data = data_of(model, folder)
    first = load_task(TASKS["rte"], "train", folder).items[0]
    whole = model.tokenizer(f"{first.first}\n{first.second}")["input_ids"]
    assert data.train[0][0].ids.tolist() == whole[:40]
    plan = Hyperparameters(epochs=12, batch_size=8, learning_rate=3e-3)
    losses = [point.loss for point in finetune(model, (), data, plan).curve if point.loss is not None]
    assert losses[-1] < 0.5 * losses[0]


def test_a_score_is_learned_as_a_number() -> None:
    model = tiny("bert")
    items = [GlueItem(f"the {who} said {'she' * (i % 3)}", None, i % 3) for i, who in enumerate(PEOPLE * 6)]
    train = labeled(model, items, 40)
    data = TaskData((), train, train, lambda gold, predicted: float(np.corrcoef(gold, predicted)[0, 1]))
    trained = finetune(model, (), data, Hyperparameters(epochs=15, batch_size=8, learning_rate=3e-3))
    assert np.corrcoef(trained.predictions, [label for _, label in train])[0, 1] > 0.8
    assert len(set(trained.predictions)) > 5


def test_the_curve_has_losses_and_one_score_an_epoch_and_ends_with_the_answers(folder: Path) -> None:
    trained = undisturbed("bert", folder)
    scores = [point for point in trained.curve if point.score is not None]
    assert [point.epoch for point in scores] == [1.0, 2.0, 3.0]
    assert len([point for point in trained.curve if point.loss is not None]) == 9
    gold = np.array([label for _, label in data_of(tiny("bert"), folder).dev])
    assert scores[-1].score == accuracy(gold, trained.predictions)


# ---- one line


@pytest.mark.parametrize(
    "wrong",
    [
        {"epochs": 0},
        {"batch_size": 0},
        {"max_length": 4},
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"warmup": 1.5},
        {"weight_decay": -0.1},
    ],
)
def test_hyperparameters_that_make_no_sense_are_one_line(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadOption, match=r" must be .* \(got "):
        Hyperparameters(**wrong)


def test_the_learning_rate_goes_by_the_models_size(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny("bert")
    assert Hyperparameters().rate(training.is_large(model)) == 3e-4
    assert Hyperparameters(lora=True).rate(training.is_large(model)) == 5e-4
    assert Hyperparameters(learning_rate=1e-3, lora=True).rate(training.is_large(model)) == 1e-3
    monkeypatch.setattr(training, "LARGE", 10)
    assert Hyperparameters().rate(training.is_large(model)) == 2e-5


@pytest.mark.parametrize(("absent", "lora"), [("accelerate", False), ("peft", True)])
def test_a_missing_package_is_one_line(
    absent: str, lora: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny("bert")
    monkeypatch.setattr(training, "find_spec", lambda name: None if name == absent else 1)
    with pytest.raises(CannotDo, match=rf"needs the package {absent}: pip install 'levelhead\[glue\]'"):
        finetune(model, (), data_of(model, folder), Hyperparameters(lora=lora))


def test_a_training_that_diverges_and_half_precision_are_one_line(folder: Path) -> None:
    model = tiny("bert")
    data = data_of(model, folder)
    with pytest.raises(CannotDo, match=r"diverges at a learning rate of 0\.9\. Give a lower one"):
        finetune(model, (), broken(data), Hyperparameters(epochs=1, learning_rate=0.9))
    model.hf.half()
    with pytest.raises(CannotDo, match="is float16, in which training overflows"):
        finetune(model, (), data, PLAN)


def broken(data: TaskData) -> TaskData:
    """A score to learn that no number can hold."""
    endless = [(tokens, 1e39) for tokens, _ in data.train]
    return TaskData((), endless, data.dev, lambda gold, predicted: 0.0)
