"""Mitigations that train, in a run: on request alone, resumable, and written as ordinary models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import levelhead as lh
from levelhead.edits.output import Reweighted, Symmetrized, weights_of
from levelhead.engine.distilling import Distilling
from levelhead.engine.readings import Pooled, TokenLogProbs
from levelhead.engine.run import read_one
from levelhead.engine.training import TrainingPlan
from levelhead.errors import BadOption
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.probes.contexts import template_contexts
from levelhead.probes.corpus import split_sentences
from levelhead.probes.group_swap import GenderSwap
from levelhead.probes.training_text import TrainingSentence, training_sentences
from levelhead.probes.words import load_words
from levelhead.scoring.battery import Battery
from levelhead.studies.glue import CHECKPOINTS
from levelhead.studies.mitigate import training
from levelhead.studies.mitigate.counterfactual_text import CounterfactualText
from levelhead.studies.mitigate.distillation import WAYS, Distillation
from levelhead.studies.mitigate.protocol import Candidate, mitigations
from levelhead.studies.mitigate.refitting import new_heads
from levelhead.studies.mitigate.run import mitigate, write_chosen
from levelhead.studies.mitigate.training import (
    Means,
    pairs,
    running,
    swapped_texts,
    trains,
    with_own_text,
)
from tests.studies.test_mitigating import ask_few
from tests.tiny import tiny
from tests.word_lists import GENDER

TEXT = "The nurse said that she was tired. The engineer said that he was not. Engineers work. Who knows?\n"


@pytest.fixture(autouse=True, scope="module")
def _few_items() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        ask_few(patch)
        yield


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def battery(test: Any = GENDER) -> Battery:
    return Battery(test, tuple(template_contexts(test, 1)))


@pytest.mark.slow
@pytest.mark.parametrize(("family", "head"), [("gpt2", "mlm"), ("bert", "nsp"), ("bert", "nli")])
def test_distilled_candidates_come_nearer_to_the_symmetrized_model(
    family: str, head: str, text: Path
) -> None:
    model = tiny(family, head)
    means = Means(str(text), steps=12)
    candidates = Distillation(means).candidates(model, battery())
    assert [each.strength for each in candidates] == list(WAYS)
    assert [each.name for each in candidates] == [f"distilled, {n} % of the way" for n in (60, 80, 100, 120)]
    if head == "mlm":
        she, he = (model.tokenizer.convert_tokens_to_ids(f"Ġ{word}") for word in ("she", "he"))
        asked = TokenLogProbs(["The nurse said that", "The engineer said that"], [she, he])
        variants = [(), *(each.edits for each in candidates), (Symmetrized(GenderSwap()),)]
        odds = np.abs(np.diff(read_one(model, asked, variants), axis=-1)).mean(axis=(1, 2))
        assert odds[-1] < 1e-5
        assert all(np.diff(odds) < 0)  # the further, the nearer
    if head == "nsp":  # what training leaves alone is refitted, on what the trained weights give it
        pairs = Pooled([Text("The nurse was tired.", f"{one} saw the engineer.") for one in ("She", "He")])
        logits = read_one(model, pairs, [(), candidates[-1].edits])
        apart = np.abs(logits[:, 0] - logits[:, 1]).sum(-1)
        assert apart[1] < apart[0]


@pytest.mark.slow
def test_a_training_has_the_steps_that_fit_into_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []

    def within(*given: Any) -> int:
        asked.append(given[3])
        assert given[5] > 0  # what texts take
        return 6

    monkeypatch.setattr(training, "steps_within", within)
    model = tiny("bert")
    trained = Distillation(Means(seconds=90.0, folder=tmp_path)).trained(model, battery())
    assert [kept.step for kept in trained.kept] == [3, 6]
    assert asked == [90.0]
    trained = Distillation(Means(seconds=90.0, steps=4)).trained(model, battery())
    assert [kept.step for kept in trained.kept] == [2, 4]
    assert asked == [90.0]


@pytest.mark.slow
def test_the_next_sentence_head_of_every_candidate_is_refitted_at_a_weighing_of_10(text: Path) -> None:
    model, means = tiny("bert", "nsp"), Means(str(text), steps=2)
    head = {"cls.seq_relationship.weight", "cls.seq_relationship.bias"}
    for each in Distillation(means).candidates(model, battery()):
        (weights,) = weights_of(each.edits)
        others = {name: value for name, value in weights.values.items() if name not in head}
        ((expected,),) = new_heads(model, battery(), [(Reweighted("others", others),)], [10.0], means)
        assert set(expected) == head
        for name, value in expected.items():
            torch.testing.assert_close(weights.values[name], value)


@pytest.mark.slow
@pytest.mark.parametrize("lora", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_a_candidate_lies_on_the_line_from_the_model_to_the_weights_that_were_kept_last(
    lora: bool, text: Path
) -> None:
    model, method = tiny("gpt2"), Distillation(Means(str(text), steps=4, lora=lora))
    last = method.trained(model, battery()).kept[-1].weights.values
    for each in method.candidates(model, battery()):
        (weights,) = weights_of(each.edits)
        assert set(weights.values) == set(last)
        for name, value in weights.values.items():
            own = model.hf.get_parameter(name).detach()
            torch.testing.assert_close(value, own + each.strength * (last[name] - own), rtol=0, atol=1e-6)
        assert any((value != model.hf.get_parameter(name)).any() for name, value in weights.values.items())


def written(lesson: Any, model: Model) -> list[str]:
    """The texts of a lesson, as they are read."""
    rows = [model.tokenizer.convert_ids_to_tokens(text.orientations[0].ids.tolist()) for text in lesson.texts]
    return ["".join(row).replace("Ġ", " ") for row in rows]


def test_a_quarter_of_what_a_causal_model_is_distilled_on_it_wrote_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, means = tiny("gpt2"), Means(steps=10)
    plain, apart = (written(lesson, model) for lesson in without_own_text(model, means))
    seeds: list[int] = []

    def samples(_: Model, starts: Any, length: int, seed: int) -> list[str]:
        seeds.append(seed)
        assert {len(start) for start in starts} == {1}
        return [f"The nurse has {n} books." if n % 8 else "\ufffd she" for n in range(len(starts))]

    monkeypatch.setattr(training, "sampled_texts", samples)
    some, few = (written(lesson, model) for lesson in Distillation(means).lessons(model, battery()))
    own = [text for text in some if "books" in text]
    quarter = round(len(plain) / 4)
    assert len(own) == quarter - len(range(0, quarter, 8))
    assert [text for text in some if text not in own] == plain[len(own) :]
    assert few == apart
    assert seeds == [0]


def without_own_text(model: Model, means: Means) -> tuple[Any, Any]:
    some, few = swapped_texts(model, battery(), means, Distillation(means).plan)
    return Distilling(model, GenderSwap(), some), Distilling(model, GenderSwap(), few)


def test_what_it_wrote_is_drawn_from_the_model_and_its_seed() -> None:
    model = tiny("gpt2")
    shipped = {*written(without_own_text(model, Means(steps=4))[0], model)}
    found = []
    for seed in (0, 0, 1):
        texts = with_own_text(model, battery(), without_own_text(model, Means(steps=4))[0].texts, seed)
        found.append([text for text in written(SimpleNamespace(texts=texts), model) if text not in shipped])
    assert 0 < len(found[0]) <= 32
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(("family", "head"), [("bert", "mlm"), ("bert", "nsp"), ("bert", "nli")])
def test_no_other_model_and_no_other_mitigation_gets_text_of_its_own(
    family: str, head: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def samples(*_: Any) -> list[str]:
        raise AssertionError

    monkeypatch.setattr(training, "sampled_texts", samples)
    model, means = tiny(family, head), Means(steps=4)
    some, _ = Distillation(means).lessons(model, battery())
    assert written(some, model) == written(without_own_text(model, means)[0], model)
    CounterfactualText(means).lessons(tiny("gpt2"), battery())


def topics_of(sentences: Sequence[TrainingSentence]) -> dict[str, set[str]]:
    """The topics that each sentence stands in."""
    topics: dict[str, set[str]] = {}
    for each in sentences:
        for part in split_sentences([each.text]):
            topics.setdefault(part, set()).add(each.topic)
    return topics


def test_pairs_follow_each_other_in_a_topic_and_half_of_them_end_in_another() -> None:
    sentences = training_sentences(560)
    topics = topics_of(sentences)
    near: list[tuple[bool, bool, bool]] = []
    far: list[tuple[bool, bool, bool]] = []
    for number, (pair, each) in enumerate(zip(pairs(sentences), sentences, strict=True)):
        assert pair.first in each.text
        told = bool(GenderSwap()(f"{pair.first} {pair.second}").changes)
        ends = set.union(*(topics[part] for part in split_sentences([str(pair.second)])))
        (far if number % 4 > 1 else near).append((each.grouped, told, each.topic in ends))
    assert all(grouped == told and same for grouped, told, same in near)
    assert sum(same for *_, same in far) < len(far) / 20
    assert {grouped for grouped, told, _ in far if told} == {True, False}  # in the second sentence too


def test_half_of_running_text_are_two_sentences_of_a_topic() -> None:
    sentences = training_sentences(400)
    topics = topics_of(sentences)
    texts = running(sentences)
    assert all(read.second is None for read in texts)
    for number, (read, written) in enumerate(zip(texts, sentences, strict=True)):
        if number % 4 > 1:
            assert read.first == written.text
            continue
        parts = list(split_sentences([read.first]))
        assert len(parts) >= 2
        assert set.intersection(*(topics[own] for own in parts))


def test_a_model_without_a_head_reads_running_text_and_one_with_a_head_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(training, "LENGTH", 250)
    plan = TrainingPlan(steps=4, batch_size=16)
    spoken, apart = swapped_texts(tiny("gpt2", max_position_embeddings=256), battery(), Means(), plan)
    lengths = np.asarray([max(len(row.ids) for row in t.orientations) for t in (*apart, *spoken)])
    alone = np.arange(len(lengths)) % 4 > 1
    assert np.median(lengths[~alone]) > 1.5 * np.median(lengths[alone])
    headed, _ = swapped_texts(tiny("bert", "nsp", max_position_embeddings=256), battery(), Means(), plan)
    assert all(text.orientations[0].types is not None and text.orientations[0].types.any() for text in headed)


def test_what_trains_runs_only_where_it_is_asked_for_by_name() -> None:
    (method,) = mitigations(["distilled"])
    assert trains(method)
    assert not getattr(method, "quick", True)


def test_it_says_why_it_cannot_run() -> None:
    model = tiny("bert")
    method = Distillation()
    assert method.why_not(model, battery()) == ""
    assert "no head that answers" in method.why_not(tiny("bert", "base"), battery())
    race = battery(load_words("race"))
    if race.test.pairs:
        assert "--text" in method.why_not(model, race)
        assert method.with_means(Means(text="some.txt")).why_not(model, race) == ""
    nobody = battery(replace(GENDER, pairs=()))
    assert "states no counterparts" in method.why_not(model, nobody)
    with pytest.raises(BadOption, match=r"steps must be at least 0 \(got -1\)"):
        lh.settings.MitigateSettings(steps=-1)


def test_options_of_training_are_refused_where_nothing_is_trained(tmp_path: Path) -> None:
    told = ({"lora": True}, {"steps": 4, "methods": ("symmetrized",)})
    for options in told:
        settings = replace(lh.settings.MitigateSettings(), **options)
        with pytest.raises(BadOption, match="would change nothing: no mitigation that trains is named"):
            mitigate(tiny("bert", "nsp"), settings, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.nightly
@pytest.mark.slow
def test_a_run_tries_distilled_models_and_leaves_no_checkpoints(tmp_path: Path, text: Path) -> None:
    model = tiny("bert", "nsp", max_position_embeddings=256)
    settings = lh.settings.MitigateSettings(methods=("distilled",), null=3, text=str(text), steps=4)
    run = mitigate(model, settings, tmp_path / "run")
    assert [each.name for each in sorted(run.candidates, key=lambda each: each.strength)] == [
        f"distilled, {n} % of the way" for n in (60, 80, 100, 120)
    ]
    assert not (run.folder / CHECKPOINTS).exists()
    assert (run.written_model is not None) == bool(run.certified)


@pytest.mark.slow
def test_the_certified_model_is_written_as_a_folder_that_transformers_loads(
    tmp_path: Path, text: Path
) -> None:
    model: Model = tiny("gpt2")
    (candidate,) = Distillation(Means(str(text), steps=4)).candidates(model, battery())[-1:]
    symmetrized = Candidate("symmetrized", "symmetrized", 1.0, (Symmetrized(GenderSwap()),))
    folder = tmp_path / "model"
    for _ in range(2):  # a run that was killed after it had written the folder
        write_chosen(model, [(symmetrized, "lowers it"), (candidate, "lowers it")], folder)
    again: Any = transformers.AutoModelForCausalLM.from_pretrained(folder)
    (weights,) = weights_of(candidate.edits)
    name = "transformer.h.0.mlp.c_fc.weight"
    np.testing.assert_array_equal(again.get_parameter(name).detach(), weights.values[name])
