"""What mitigated models can still learn, as a cost of the arena."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import levelhead as lh
from levelhead.edits.gates import removed
from levelhead.edits.output import SelfDebiased, Symmetrized
from levelhead.edits.sites import Variant
from levelhead.engine.finetuning import FineTuned, finetune
from levelhead.engine.hyperparameters import Hyperparameters
from levelhead.engine.readings import Pooled
from levelhead.engine.run import read_one
from levelhead.errors import BadOption, BadProbe, CannotDo
from levelhead.measures.certified import Certificate, Margins, PairedItems, certificate, p_of_cost, with_costs
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.pages.page import write_report
from levelhead.probes.group_swap import GenderSwap
from levelhead.studies.glue.run import exams_of
from levelhead.studies.glue.settings import GlueSettings
from levelhead.studies.mitigate import learning
from levelhead.studies.mitigate import run as study
from levelhead.studies.mitigate.learning import Schooling, with_learning
from levelhead.studies.mitigate.protocol import Candidate
from levelhead.studies.mitigate.run import mitigate
from tests.glue_files import write_glue
from tests.report.page_text import page_text
from tests.studies.test_mitigating import ask_few
from tests.tiny import tiny

TRAINING = Hyperparameters(epochs=1, batch_size=8, learning_rate=3e-3)
SYMMETRIZED = (Symmetrized(GenderSwap()),)
MARGINS = Margins(costs={"GLUE rte": 0.01})


@pytest.fixture(autouse=True, scope="module")
def _few_items() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        ask_few(patch)
        yield


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> GlueSettings:
    data = write_glue(tmp_path_factory.mktemp("glue"), dev=24)
    return GlueSettings(str(data), ("rte",), seeds=2, training=TRAINING)


@pytest.fixture(scope="module")
def bert() -> Model:
    return tiny("bert", "nsp", max_position_embeddings=256)


def candidate(*edits: object, name: str = "changed") -> Candidate:
    return Candidate(name, name, 1.0, tuple(edits))  # type: ignore[arg-type]


def passing(name: str = "changed") -> Certificate:
    """A certificate of which nothing is missed."""
    items = PairedItems("gap", "nats", np.full(9, 1.0), np.zeros(9), np.arange(9).astype(str))
    return certificate(name, items, 1, [], Margins())


def trained(model: Model, settings: GlueSettings, edits: Variant, seed: int) -> FineTuned:
    (exam,) = exams_of(settings)
    data = exam.tokenized(model, settings.training.max_length)
    return finetune(model, edits, data, settings.training, seed)


def gold(settings: GlueSettings) -> list[float]:
    (exam,) = exams_of(settings)
    return [item.label for item in exam.dev.items]


@pytest.mark.nightly
def test_a_cost_is_what_classifiers_answer_wrongly_with_the_edits_on_from_the_start(
    bert: Model, settings: GlueSettings, tmp_path: Path
) -> None:
    closed = removed(bert, [(0, 0), (1, 1)])
    (cost,) = Schooling(bert, settings, tmp_path).costs(candidate(*closed))
    for edits, given in (((), cost.before), (closed, cost.after)):
        tuned = [trained(bert, settings, edits, seed).predictions for seed in (0, 1)]
        np.testing.assert_array_equal(given, np.mean([own != gold(settings) for own in tuned], axis=0))
    assert (cost.name, cost.answers, len(set(cost.clusters))) == ("GLUE rte", 24, 24)


def test_what_changes_nothing_costs_nothing_to_the_last_answer(
    bert: Model, settings: GlueSettings, tmp_path: Path
) -> None:
    (cost,) = Schooling(bert, settings, tmp_path).costs(candidate())
    np.testing.assert_array_equal(cost.before, cost.after)


@pytest.mark.parametrize("longest", [128, 12])  # of 12 tokens most examples lose some
def test_symmetrization_is_put_on_the_trained_classifier(
    bert: Model, settings: GlueSettings, tmp_path: Path, longest: int
) -> None:
    one = replace(settings, seeds=1, training=replace(TRAINING, max_length=longest))
    (cost,) = Schooling(bert, one, tmp_path).costs(candidate(*SYMMETRIZED))
    tuned, swap = trained(bert, one, (), 0), GenderSwap()
    (exam,) = exams_of(one)
    texts = [Text(item.first, item.second) for item in exam.dev.items]
    turned = [Text(swap(text.first).text, swap(str(text.second)).text) for text in texts]
    p = [
        np.exp(z) / np.exp(z).sum(-1, keepdims=True)
        for z in (read_one(tuned.model, Pooled(some, cut=longest))[0] for some in (texts, turned))
    ]
    np.testing.assert_array_equal(cost.after, (p[0] + p[1]).argmax(-1) != gold(one))
    np.testing.assert_array_equal(cost.before, tuned.predictions != gold(one))


def test_examples_longer_than_the_model_are_cut_for_a_symmetrized_classifier_too(
    settings: GlueSettings, tmp_path: Path
) -> None:
    short = tiny("bert", "nsp", max_position_embeddings=12)
    (exam,) = exams_of(settings)
    texts = [Text(item.first, item.second) for item in exam.dev.items]
    with pytest.raises(BadProbe, match="does not fit into the 12 positions"):
        read_one(short, Pooled(texts))
    (cost,) = Schooling(short, replace(settings, seeds=1), tmp_path).costs(candidate(*SYMMETRIZED))
    assert len(cost.after) == len(texts)


def test_candidates_are_trained_in_their_order_until_one_fails(
    bert: Model, settings: GlueSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def costs(self: Schooling, own: Candidate) -> list[PairedItems]:
        asked.append(own.name)
        wrong = np.full(400, 0.0 if own.name != "third" else 1.0)
        return [PairedItems("GLUE rte", "share wrong", np.zeros(400), wrong, np.arange(400).astype(str))]

    monkeypatch.setattr(Schooling, "costs", costs)
    names = ["first", "second", "third", "fourth"]
    tested = [passing(name) for name in names]
    school = Schooling(bert, settings, tmp_path)
    found = with_learning(school, [candidate(name=name) for name in names], tested, MARGINS)
    assert asked == names[:3]
    assert [each.missed for each in found] == [(), (), ("GLUE rte",), ()]
    assert found[2].verdict == "effective, exceeds cost margin"
    asked.clear()
    failed = replace(tested[0], p_gain=0.5)
    assert with_learning(school, [candidate(name="first")], [failed], MARGINS) == [failed]
    assert not asked


def test_what_cannot_be_trained_is_not_shown_to_stay_within_the_margin(
    bert: Model, settings: GlueSettings, tmp_path: Path
) -> None:
    debiased = candidate(SelfDebiased(("She",)))
    (found,) = with_learning(Schooling(bert, settings, tmp_path), [debiased], [passing()], MARGINS)
    assert found.p == 1
    assert "GLUE rte" not in found.costs  # not measured, which is not 0
    assert found.missed == ("GLUE rte",)


def test_more_costs_are_tested_as_the_others_are() -> None:
    rng = np.random.default_rng(0)
    wrong = (rng.random((2, 300)) < 0.2).astype(float)
    numbers = np.arange(300).astype(str)
    cost = PairedItems("GLUE rte", "share wrong", wrong[0], wrong[1], numbers, answers=300)
    found = with_costs(passing(), [cost], MARGINS)
    assert found.p_costs == {"GLUE rte": p_of_cost(cost, 0.01)}
    assert found.costs["GLUE rte"] == pytest.approx(wrong[1].mean() - wrong[0].mean())


def test_its_margin_is_its_own_and_tasks_without_right_answers_are_refused(settings: GlueSettings) -> None:
    asked = lh.settings.MitigateSettings(glue=replace(settings, margin=0.5), max_loss=3.0)
    assert asked.margins.cost("GLUE rte") == pytest.approx(0.005)
    assert asked.margins.cost("agreement") == pytest.approx(0.03)
    with pytest.raises(BadOption, match="stsb has scores, not right answers"):
        lh.settings.MitigateSettings(glue=replace(settings, tasks=("stsb",)))


def test_a_model_that_cannot_be_trained_says_so_before_anything_is_asked(
    settings: GlueSettings, tmp_path: Path
) -> None:
    model = tiny("bert", "nsp", max_position_embeddings=256)
    model.hf.half()
    asked = lh.settings.MitigateSettings(methods=("symmetrized",), null=3, glue=settings)
    with pytest.raises(CannotDo, match="is float16, in which training overflows"):
        mitigate(model, asked, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.nightly
def test_a_run_shows_what_can_still_be_learned_and_how_it_was_asked(
    bert: Model, settings: GlueSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = study.detect

    def detected(*asked: object) -> object:
        return replace(found(*asked), detected=True)  # type: ignore[arg-type]

    monkeypatch.setattr(study, "detect", detected)
    monkeypatch.setattr(learning, "LEVEL", 1.0)  # tiny models pass nothing
    asked = lh.settings.MitigateSettings(methods=("symmetrized",), null=3, glue=settings)
    run = mitigate(bert, asked, tmp_path / "run")
    (tested,) = run.candidates
    assert "GLUE rte" in tested.certificate.costs
    assert (run.settings.glue, run.settings.glue_tasks) == (settings.data, ("rte",))
    assert run.settings.in_memory == ("glue",)  # two seeds, one epoch
    assert {"rte train", "rte dev"} <= set(run.data.hashes)
    assert not (run.folder / "checkpoints").exists()
    text = page_text(write_report(run.folder).read_text(encoding="utf-8"))
    assert "GLUE rte, points" in text
    assert "right answers after fine-tuning" in text
