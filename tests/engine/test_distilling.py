"""Distillation: the targets are those of the symmetrized model, and training brings the student there."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from levelhead.edits.output import Symmetrized
from levelhead.engine import training
from levelhead.engine.distilling import (
    Aligned,
    AlignedText,
    Distilling,
    TokenMixture,
    aligned,
    answered,
    divergence,
)
from levelhead.engine.readings import Pooled, TokenLogProbs
from levelhead.engine.run import read_one
from levelhead.engine.symmetry import TokenClasses, token_classes
from levelhead.engine.training import Trained, TrainingPlan, apart_loss, train_weights
from levelhead.errors import BadOption, CannotDo
from levelhead.models.copies import copied
from levelhead.models.encoding import Text
from levelhead.models.identity import fingerprint
from levelhead.models.model import Model
from levelhead.probes.group_swap import GenderSwap
from tests.tiny import tiny

SWAP = GenderSwap()
SYMMETRIZED = (Symmetrized(SWAP),)
TEXTS = [
    "She saw him in the kitchen.",
    "The nurse said that she was tired.",
    "He gave her a book.",
    "The engineer was tired.",
    "Engineers and nurses work.",
    "The engineer said that he saw her yesterday.",
]
SPOKEN = [*TEXTS[1::2][:2], TEXTS[4], "The engineer said that he was not tired."]  # she and he are one token
PLAN = TrainingPlan(steps=16, batch_size=4, learning_rate=1e-3, keep=(0.5, 1.0))


def lesson(model: Model, texts: Sequence[Text | str] = ()) -> Distilling:
    texts = texts or (SPOKEN if model.family.causal else TEXTS)
    found = aligned(model, SWAP, [Text.of(text) for text in texts], 40)
    assert not found.left_out
    return Distilling(model, SWAP, found.texts)


def distilled(model: Model, plan: TrainingPlan = PLAN, folder: Path | None = None, seed: int = 0) -> Trained:
    return train_weights(model, "distilled", (lesson(model), lesson(model)), plan, seed, folder)


# ---- the targets


def test_a_causal_target_is_what_the_symmetrized_model_answers_after_every_prefix() -> None:
    model = tiny("gpt2")
    own = lesson(model)
    target = own.targets(own.batch(range(4), (0, 0)))
    first = 0  # answer of a text's first row
    for number, text in enumerate(SPOKEN):
        answers = own.texts[number].words.shape[1] - 1
        for words in range(2, len(text.split())):
            prefix = " ".join(text.split()[:words])
            asked = TokenLogProbs([prefix], range(model.config.vocab_size))
            at = first + len(model.tokenizer(prefix)["input_ids"]) - 1
            expected = read_one(model, asked, [SYMMETRIZED])[0, 0]
            np.testing.assert_allclose(np.log(target[at].numpy()), expected, atol=1e-4)
        first += answers * len(own.texts[number].orientations)
    assert first == len(target)


def test_a_masked_target_is_what_the_symmetrized_model_answers_at_the_blank() -> None:
    model = tiny("bert")
    own = lesson(model)
    compared = 0
    for number in range(len(TEXTS)):
        batch = own.batch([number], (3, number))
        target = own.targets(batch)
        row = batch["input_ids"][0]
        if int((row == model.tokenizer.mask_token_id).sum()) == 1:  # as many as a reading has
            text = " ".join(model.tokenizer.convert_ids_to_tokens(row[1:-1].tolist()))
            asked = TokenLogProbs([text], range(model.config.vocab_size))
            expected = read_one(model, asked, [SYMMETRIZED])[0, 0]
            np.testing.assert_allclose(np.log(target[0].numpy()), expected, atol=1e-4)
            compared += len(own.texts[number].orientations) == 2
    assert compared


def test_a_classifiers_target_is_the_symmetrized_answer_to_the_pair() -> None:
    model = tiny("bert", "nli")
    pairs = [Text(TEXTS[0], TEXTS[1]), Text(TEXTS[3], TEXTS[4]), Text(TEXTS[3], TEXTS[2])]
    own = lesson(model, pairs)
    expected = read_one(model, Pooled(pairs), [SYMMETRIZED])[0]
    for number in range(3):
        judged = own.targets(own.batch([number], (0, number)))
        given = np.log(judged[0].numpy())
        np.testing.assert_allclose(given - given[0], expected[number] - expected[number, 0], atol=1e-4)
        assert torch.allclose(judged[0], judged[-1])  # both orientations get one answer


def test_the_next_sentence_head_of_a_masked_model_is_left_to_be_solved_for() -> None:
    model = tiny("bert", "nsp")
    own = lesson(model, [Text(first, TEXTS[1]) for first in TEXTS])
    student = copied(model, "student", "")
    student.hf.requires_grad_(True)
    own.loss(student, own.batch(range(6), (0, 0))).backward()
    judge: Any = student.classification_head
    assert judge.weight.grad is None
    assert student.hf.get_input_embeddings().weight.grad.any()


def test_the_mixture_of_tensors_is_the_mixture_of_arrays() -> None:
    classes = TokenClasses((((1,), (4, 5)), ((2,), (3,))), ())
    rng = np.random.default_rng(0)
    logs = [np.log(rng.dirichlet(np.ones(7), size=3)) for _ in range(2)]
    mixture = TokenMixture.of(classes, 2, torch.device("cpu"))
    answers = torch.from_numpy(np.exp(np.concatenate(logs)))
    partners = torch.tensor([[0, 3], [1, 4], [2, 5]])
    np.testing.assert_allclose(
        mixture(answers, partners).log().numpy(), classes.mixed(logs, range(7)), atol=1e-12
    )


def test_what_lies_between_groups_is_the_middle_part_of_the_chain_rule() -> None:
    """By hand: KL = classes' masses + groups given the class + words given class and group."""
    classes = TokenClasses((((1,), (4, 5)), ((2,), (3,))), ())
    mixture = TokenMixture.of(classes, 2, torch.device("cpu"))
    rng = np.random.default_rng(0)
    target, answer = rng.dirichlet(np.ones(7), size=3), rng.dirichlet(np.ones(7), size=3)
    cells = [[1], [4, 5], [2], [3]]
    whole = [[0], [6], [1, 4, 5], [2, 3]]

    def divergence(parts: list[list[int]]) -> float:
        p, q = (np.stack([own[:, part].sum(1) for part in parts], 1) for own in (target, answer))
        return float((p * np.log(p / q)).sum() / 3)

    between = divergence([*whole[:2], *cells]) - divergence(whole)
    found = mixture.between_groups(torch.from_numpy(target), torch.from_numpy(np.log(answer)))
    assert between > 0.01
    assert float(found) == pytest.approx(between, abs=1e-12)
    alike = answer.copy()  # all that differs is how likely a class is, and which of two words it is
    alike[:, [1, 4, 5]] *= 2
    alike[:, [4, 5]] = alike[:, [4, 5]].sum(1, keepdims=True) * [0.3, 0.7]
    logs = torch.from_numpy(np.log(alike / alike.sum(1, keepdims=True)))
    assert float(mixture.between_groups(torch.from_numpy(answer), logs)) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_the_loss_counts_what_lies_between_groups_seven_times(family: str) -> None:
    model, student = tiny(family), copied(tiny(family), "student", "")
    with torch.no_grad():
        student.hf.get_input_embeddings().weight.mul_(1.1)
    own = lesson(model)
    batch = own.batch(range(4), (0, 0))
    with torch.no_grad():
        answer, target = answered(student, batch)[0], own.targets(batch)
        between = own._mixture.between_groups(target, answer.log_softmax(-1))
        loss = own.loss(student, batch)
    assert float(between) > 0
    assert float(loss) == pytest.approx(float(divergence([answer], [target]) + 6 * between), rel=1e-5)


def test_a_model_that_is_symmetric_already_has_nothing_to_learn() -> None:
    model = tiny("gpt2")
    assert apart_loss(model, lesson(model)) > 1e-4
    rows = model.hf.get_input_embeddings().weight
    with torch.no_grad():
        for groups in token_classes(model, SWAP).classes:
            rows[groups[1][0]] = rows[groups[0][0]]
    assert apart_loss(model, lesson(model)) < 1e-6


# ---- alignment


def spelled(model: Model, text: AlignedText, group: bool) -> list[str]:
    """The taught words of every orientation that change, or that do not."""
    taught = text.words[:, text.group == group]
    rows = zip(text.orientations, taught, strict=True)
    return [" ".join(model.tokenizer.convert_ids_to_tokens(row.ids[own].tolist())) for row, own in rows]


def test_words_of_groups_and_all_others_are_taught_in_their_places() -> None:
    model = tiny("bert")
    (text,) = aligned(model, SWAP, [Text(TEXTS[0])], 40).texts
    assert spelled(model, text, group=True) == ["she him", "he her"]
    assert spelled(model, text, group=False) == ["saw in the kitchen ."] * 2


def test_around_a_word_with_another_number_of_tokens_the_rest_is_taught() -> None:
    model = tiny("bert")
    found = aligned(model, SWAP, [Text("Her grandmother said that she saw him.", "She works.")], 60)
    (text,) = found.texts
    assert not found.left_out
    assert len({len(row.ids) for row in text.orientations}) == 2
    women, men = spelled(model, text, group=True)
    assert (women.split()[-3:], men.split()[-3:]) == (["she", "him", "she"], ["he", "her", "he"])
    assert {"said", "that", "saw", "."} < set(spelled(model, text, group=False)[0].split())
    assert len(set(spelled(model, text, group=False))) == 1


def test_a_target_behind_a_word_with_another_number_of_tokens_is_the_symmetrized_answer() -> None:
    model = tiny("gpt2")
    prefix = "My wife said that"
    own = lesson(model, [f"{prefix} she was tired."])
    (text,) = own.texts
    assert len({len(row.ids) for row in text.orientations}) == 2
    asked = text.words[0].tolist().index(len(model.tokenizer(prefix)["input_ids"]))
    taught = int((text.words[:, :asked].min(axis=0) > 0).sum())
    target = own.targets(own.batch([0], (0, 0)))[taught]
    expected = read_one(model, TokenLogProbs([prefix], range(model.config.vocab_size)), [SYMMETRIZED])[0, 0]
    np.testing.assert_allclose(np.log(target.numpy()), expected, atol=1e-4)


def test_a_text_of_which_nothing_can_be_taught_is_counted_and_left_out() -> None:
    model = tiny("bert")
    found: Aligned = aligned(model, SWAP, [Text("grandmother"), Text(TEXTS[0])], 40)
    assert (len(found.texts), found.left_out) == (1, 1)


# ---- training


@pytest.mark.slow
@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_training_brings_the_student_toward_the_symmetrized_model(family: str) -> None:
    model = tiny(family)
    before = fingerprint(model.hf)
    trained = distilled(model)
    losses = [trained.before, *(kept.loss for kept in trained.kept)]
    assert losses[2] < losses[1] < losses[0]
    assert [kept.step for kept in trained.kept] == [8, 16]
    assert fingerprint(model.hf) == before
    with model.edited(trained.kept[-1].weights):
        student = copied(model, "student", "")
    assert apart_loss(student, lesson(model)) == pytest.approx(losses[2], rel=1e-4)


@pytest.mark.slow
def test_lora_changes_the_weights_of_queries_keys_and_values_alone() -> None:
    model = tiny("gpt2")
    plan = TrainingPlan(steps=16, batch_size=4, learning_rate=5e-3, lora=True, keep=(1.0,))
    trained = distilled(model, plan)
    (kept,) = trained.kept
    assert all(name.endswith("attn.c_attn.weight") for name in kept.weights.values)
    assert kept.loss < trained.before
    with model.edited(kept.weights):
        student = copied(model, "student", "")
    assert apart_loss(student, lesson(model)) == pytest.approx(kept.loss, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "head"), [("gpt2", "mlm"), ("bert", "nsp")])
def test_word_vectors_of_other_words_stay_bit_for_bit_where_a_plan_says_so(family: str, head: str) -> None:
    model = tiny(family, head)
    own = lesson(model, [Text(text, TEXTS[1]) for text in TEXTS] if head == "nsp" else ())
    plan = TrainingPlan(steps=2, batch_size=4, warmup=0.0, word_vectors=False, keep=(1.0,))
    assert plan.rate(model) == pytest.approx({"mlm": 1e-4, "nsp": 5e-5}[head])
    (kept,) = train_weights(model, "distilled", (own, own), plan).kept
    rows = model.hf.get_input_embeddings().weight
    (name,) = (name for name, weight in model.hf.named_parameters() if weight is rows)
    moved = (kept.weights.values[name] != rows).any(1).nonzero().flatten().tolist()
    assert moved
    assert set(moved) <= set(own.own_words)


class Killed(BaseException):
    """What ends a process in a test."""


@pytest.mark.nightly
def test_a_killed_training_goes_on_and_ends_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny("bert")
    whole = distilled(model, seed=3)
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    calls = 0
    real = Distilling.loss

    def dying(self: Distilling, student: Model, batch: Any) -> torch.Tensor:
        nonlocal calls
        calls += student.hf.get_input_embeddings().weight.requires_grad and torch.is_grad_enabled()
        if calls == 9:
            raise Killed
        return real(self, student, batch)

    monkeypatch.setattr(Distilling, "loss", dying)
    with pytest.raises(Killed):
        distilled(model, folder=tmp_path / "a", seed=3)
    monkeypatch.setattr(Distilling, "loss", real)
    assert list((tmp_path / "a").glob("checkpoint-*"))
    again = distilled(model, folder=tmp_path / "a", seed=3)
    assert [kept.weights.digest for kept in again.kept] == [kept.weights.digest for kept in whole.kept]
    shutil.rmtree(next((tmp_path / "a").glob("checkpoint-*")))
    done = distilled(model, folder=tmp_path / "a", seed=3)  # nothing is trained again
    assert [kept.loss for kept in done.kept] == [kept.loss for kept in whole.kept]
    other = distilled(model, seed=4)
    assert other.kept[-1].weights.digest != whole.kept[-1].weights.digest


@pytest.mark.nightly
def test_the_mean_of_the_weights_is_kept_and_goes_on_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, plan = tiny("gpt2"), replace(PLAN, average=0.5, schedule="cosine")
    whole = distilled(model, plan, seed=3)
    assert (
        whole.kept[-1].weights.digest
        != distilled(model, replace(plan, average=0.0), seed=3).kept[-1].weights.digest
    )
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    real, calls = training.AveragingAdamW.step, 0

    def dying(self: Any, closure: Any = None) -> Any:
        nonlocal calls
        calls += 1
        if calls == 9:
            raise Killed
        return real(self, closure)

    monkeypatch.setattr(training.AveragingAdamW, "step", dying)
    with pytest.raises(Killed):
        distilled(model, plan, folder=tmp_path / "a", seed=3)
    monkeypatch.setattr(training.AveragingAdamW, "step", real)
    again = distilled(model, plan, folder=tmp_path / "a", seed=3)
    assert [kept.weights.digest for kept in again.kept] == [kept.weights.digest for kept in whole.kept]


def test_a_mean_forgets_by_its_memory_and_weights_are_back_afterwards() -> None:
    weight = torch.nn.Parameter(torch.tensor([1.0]))
    optimizer, seen = training.AveragingAdamW([weight], memory=0.5), []
    for _ in range(4):
        weight.grad = torch.tensor([1.0])
        optimizer.step()
        seen.append(float(weight.detach()))
    mean = seen[1]  # of a memory of one step until then
    for t, value in ((3, seen[2]), (4, seen[3])):
        mean += (value - mean) / (0.5 * t)
    with optimizer.averaged():
        assert float(weight.detach()) == pytest.approx(mean, abs=1e-7)
    assert float(weight.detach()) == seen[-1]


def test_steps_fit_into_a_time_and_a_training_that_goes_on_has_as_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, ticks = tiny("gpt2"), itertools.count(step=2.0)
    monkeypatch.setattr(training, "now", lambda: next(ticks))
    assert training.steps_within(model, lesson(model), PLAN, 60.0, tmp_path / "a") == 30
    assert training.steps_within(model, lesson(model), PLAN, 600.0, tmp_path / "a") == 30
    assert training.steps_within(model, lesson(model), PLAN, 600.0) == 300
    assert training.steps_within(model, lesson(model), PLAN, 600.0, making=1.0) == 200
    assert training.steps_within(model, lesson(model), PLAN, 0.1) == 1


@pytest.mark.slow
def test_a_training_that_makes_it_worse_is_said_and_wrong_plans_are_refused() -> None:
    with pytest.raises(CannotDo, match="makes it worse at a rate of"):
        distilled(tiny("gpt2"), TrainingPlan(steps=6, batch_size=4, learning_rate=0.9, keep=(1.0,)))
    for wrong in ({"steps": 0}, {"learning_rate": 2.0}, {"keep": ()}, {"average": 1.0}):
        with pytest.raises(BadOption):
            TrainingPlan(**wrong)
