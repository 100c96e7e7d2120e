"""Mitigations judged by what candidates write: mirror divergence and who appears, objectives and columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tokenizers import decoders

from levelhead.edits.gates import gates
from levelhead.edits.output import SelfDebiased, Symmetrized
from levelhead.engine.sampling import Sampling
from levelhead.errors import BadOption, CannotDo
from levelhead.inference.contents import open_contents
from levelhead.inference.mitigating import findings, sentence, verdict
from levelhead.measures.certified import APPEARS, MIRROR, WRITTEN
from levelhead.models.model import Model, load
from levelhead.pages.page import report_html
from levelhead.probes.contexts import template_contexts
from levelhead.probes.generation import Prompt, load_prompts
from levelhead.probes.group_swap import GenderSwap
from levelhead.probes.words import load_words
from levelhead.scoring.battery import Battery
from levelhead.scoring.items import ItemValues
from levelhead.scoring.natural import COSINE, behaviors, natural_values, written_values
from levelhead.scoring.writing import Writing
from levelhead.studies.mitigate import Mitigate, protocol
from levelhead.studies.mitigate import parts as parts_module
from levelhead.studies.mitigate.budgeting import WRITING, Pace, planned, tokens_by_bias, whole_seconds
from levelhead.studies.mitigate.parts import Parts, parts, with_writing
from levelhead.studies.mitigate.protocol import Candidate, register_mitigation
from levelhead.studies.mitigate.run import detect, mitigate
from levelhead.studies.mitigate.settings import MitigateSettings
from tests.report.page_text import page_text
from tests.studies.test_mitigating import QUICK, ask_few, few
from tests.tiny import tiny, tokenizer_for

pytestmark = pytest.mark.nightly

SYMMETRIZED = (Symmetrized(GenderSwap()),)
SHORT = Sampling(samples=3, tokens=6)
TRIED = MitigateSettings(methods=("symmetrized",), null=3, spillover=False)


@pytest.fixture(autouse=True, scope="module")
def _few_items() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        ask_few(patch)
        patch.setattr(parts_module, "Writing", _short)
        patch.setattr(parts_module, "load_prompts", partial(load_prompts, limit=16))
        yield


def _short(prompts: Sequence[Prompt], objective: str = "") -> Writing:
    return Writing(tuple(prompts), objective, SHORT)


@pytest.fixture(scope="module")
def mumbler() -> Model:
    """A tiny model, which writes no words."""
    return tiny("gpt2", n_positions=512)


@pytest.fixture(scope="module")
def writer() -> Model:
    """One that writes *he* in place of much else."""
    tokenizer = deepcopy(tokenizer_for("gpt2"))
    tokenizer.backend_tokenizer.decoder = decoders.ByteLevel()
    model = tiny("gpt2", n_positions=512, tokenizer=tokenizer)
    (token,) = tokenizer(" he")["input_ids"]
    vector = model.hf.transformer.wte.weight[token]
    model.hf.transformer.ln_f.bias += 6 * vector / vector.square().sum()
    return model


def split_for(objective: str = "") -> Parts:
    return with_writing(parts(few(QUICK), seed=0), objective, 0)


class Nothing:
    """A candidate that changes nothing, and one that cannot write."""

    name, cost = "nothing", 1.0

    def why_not(self, model: Model, fit: Battery) -> str:
        return ""

    def candidates(self, model: Model, fit: Battery) -> Sequence[Candidate]:
        return [Candidate("nothing", self.name, 0.0, gates(model, {"1-1": 1.0}))]


class Mute(Nothing):
    name = "mute"

    def candidates(self, model: Model, fit: Battery) -> Sequence[Candidate]:
        return [Candidate("mute", self.name, 1.0, (SelfDebiased(("A text:",)),))]


# ---- items


def test_prompts_fall_into_parts_that_share_no_occupation() -> None:
    split = split_for(MIRROR)
    sides = [each.writing for each in (split.order, split.test, split.whole)]
    clusters = [{prompt.cluster for prompt in side.prompts} for side in sides if side is not None]
    assert all(clusters)
    assert not clusters[0] & clusters[1]
    assert clusters[0] | clusters[1] < clusters[2]


def test_columns_alone_take_one_prompt_of_each_occupation_of_part_c() -> None:
    split, whole = split_for(), split_for(MIRROR)
    assert split.order.writing is None
    assert split.whole.writing is None
    assert split.test.writing is not None
    assert whole.test.writing is not None
    clusters = [prompt.cluster for prompt in split.test.writing.prompts]
    assert len(clusters) == len(set(clusters))
    assert set(clusters) == {prompt.cluster for prompt in whole.test.writing.prompts}
    assert "continued prompts" in split.hashes()
    assert "continued prompts" not in parts(few(QUICK), seed=0).hashes()


def test_values_of_texts_change_nothing_that_is_asked_without_them(writer: Model) -> None:
    plain, with_texts = parts(few(QUICK), seed=0), split_for()
    before = natural_values(writer, plain.test, [(), SYMMETRIZED])
    after = natural_values(writer, with_texts.test, [(), SYMMETRIZED])
    assert [each.name for each in after.biases] == [*(each.name for each in before.biases), *WRITTEN]
    for one, other in zip(before.biases, after.biases, strict=False):
        assert np.array_equal(one.values, other.values)
    assert behaviors(writer, with_texts.test) == behaviors(writer, plain.test)


def test_a_symmetrized_model_is_its_own_mirror_image(writer: Model) -> None:
    writing = split_for(MIRROR).test.writing
    assert writing is not None
    mirror, _ = written_values(writer, writing, [(), SYMMETRIZED])
    items = mirror.paired(1)
    assert items.mean(items.before) > 0.01
    assert np.abs(items.after).max() < 1e-4


def test_unknown_items_are_left_out_and_kinds_keep_their_shares() -> None:
    nan = float("nan")
    values = ItemValues(
        "who appears",
        "log-odds",
        np.array([[1.0, 2.0, 3.0, 4.0, 5.0], [1.0, nan, 1.0, 1.0, 1.0], [nan] * 5]),
        np.array(list("abcde")),
        np.array([1 / 3, 1 / 3, 1 / 3, 1 / 2, 1 / 2]),
        strata=np.array([0, 0, 0, 1, 1]),
    )
    items = values.paired(1)
    assert items.weights is not None
    assert items.before.tolist() == [1.0, 3.0, 4.0, 5.0]
    assert items.mean(items.before) == pytest.approx((2.0 + 4.5) / 2)
    assert values.comparable(0)
    assert values.comparable(1)
    assert not values.comparable(2)
    assert values.paired(0).before.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]


# ---- runs


@pytest.fixture(scope="module")
def by_mirror(writer: Model, tmp_path_factory: pytest.TempPathFactory) -> Mitigate:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocol.MITIGATIONS, "own", {})
        register_mitigation(Nothing())
        register_mitigation(Mute())
        methods = ("symmetrized", "nothing", "mute")
        settings = replace(TRIED, methods=methods, objective=MIRROR)
        return mitigate(writer, settings, tmp_path_factory.mktemp("mirror") / "run")


def test_a_symmetrized_model_takes_all_of_the_divergence_and_nothing_none(
    by_mirror: Mitigate,
) -> None:
    tested = {each.name: each.certificate for each in by_mirror.candidates}
    own, nothing = tested["symmetrized"], tested["nothing"]
    assert own.bias == MIRROR
    assert own.after == pytest.approx(0, abs=1e-4)
    assert own.gain == pytest.approx(own.before, abs=1e-4)
    assert own.p_gain < 0.05
    assert nothing.interval is not None
    assert nothing.interval[0] - 1e-6 <= 0 <= nothing.interval[1] + 1e-6
    assert nothing.gain == pytest.approx(0, abs=1e-4)


def test_a_candidate_that_cannot_write_is_left_out_with_the_reason(by_mirror: Mitigate) -> None:
    assert [each.method for each in by_mirror.left_out] == ["mute"]
    assert "cannot write texts" in by_mirror.left_out[0].reason


def test_a_divergence_is_found_and_never_called_a_bias(by_mirror: Mitigate) -> None:
    found = by_mirror.detected
    assert found is not None
    assert (found.bias, found.null_models, found.detected) == (MIRROR, 0, True)
    assert "no claim of bias" in findings(by_mirror)[0]
    text = page_text(report_html(open_contents(by_mirror.folder)))
    assert "a size and no claim of bias" in text
    assert "biased" not in " ".join([sentence(by_mirror), *findings(by_mirror)])
    nothing_there = replace(found, detected=False, p=0.7, value=0.0)
    results = {**by_mirror.data.results, "detected": (nothing_there,)}
    unlike = Mitigate(replace(by_mirror.data, results=results))
    assert "is not clearly above 0 (p 0.70)" in sentence(unlike)
    (first, *_) = unlike.candidates
    passing = replace(first.certificate, p_gain=0.0, p_overshoot=0.0, p_costs={}, outside=None)
    assert verdict(unlike, replace(first, certificate=passing)) == "not tested (nothing to lower)"


def test_both_are_columns_unless_they_are_left_out(mumbler: Model, tmp_path: Path) -> None:
    run = mitigate(mumbler, replace(TRIED, objective=COSINE), tmp_path / "with")
    moved = {each.bias: each for each in run.moved}
    assert moved[MIRROR].after == pytest.approx(0, abs=1e-4)
    assert moved[MIRROR].low is not None
    assert set(WRITTEN) <= moved.keys()
    assert "Mirror divergence" in page_text(report_html(open_contents(run.folder)))
    without = mitigate(mumbler, replace(TRIED, objective=COSINE, writing=False), tmp_path / "without")
    assert {each.bias for each in without.moved} == {each.bias for each in run.moved} - set(WRITTEN)
    assert [each.certificate for each in without.candidates] == [each.certificate for each in run.candidates]
    assert not without.not_compared


def test_a_candidate_that_cannot_write_has_no_column_and_its_reason(
    writer: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol.MITIGATIONS, "own", {})
    register_mitigation(Mute())
    run = mitigate(writer, replace(TRIED, methods=("mute",), objective="preference"), tmp_path / "run")
    assert {each.bias for each in run.not_compared} == set(WRITTEN)
    assert not {each.bias for each in run.moved} & set(WRITTEN)
    assert "cannot write texts" in page_text(report_html(open_contents(run.folder)))


def test_a_model_that_cannot_write_is_told_why(tmp_path: Path) -> None:
    for objective in WRITTEN:
        with pytest.raises(CannotDo, match="predicts no next word, so it writes no text"):
            mitigate(tiny("bert"), replace(TRIED, objective=objective), tmp_path / "run")
    race = load_words("race")
    battery = Battery(race, tuple(template_contexts(race, 1)))
    with pytest.raises(CannotDo, match="is about gender; no prompts for it ship for race"):
        mitigate(tiny("gpt2"), replace(TRIED, objective=MIRROR), tmp_path / "run", battery)
    with pytest.raises(BadOption, match="leave --no-writing out"):
        replace(TRIED, objective=MIRROR, writing=False)


def test_who_appears_is_tested_by_labels_exchanged_among_occupations(
    mumbler: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    split = split_for(APPEARS)
    settings = replace(TRIED, objective=APPEARS)
    rng = np.random.default_rng(0)
    p = []
    for lean in (0.0, 1.5, np.nan):
        labels = np.repeat([1, -1], 24)
        log_odds = lean * labels + rng.normal(size=48)
        own = ItemValues(
            APPEARS,
            "log-odds",
            (labels * log_odds)[None],
            np.arange(48).astype(str),
            np.full(48, 1 / 24),
            strata=(labels > 0).astype(int),
        )
        monkeypatch.setattr("levelhead.studies.mitigate.run.natural_bias", lambda *_, own=own: own)
        if np.isnan(lean):
            with pytest.raises(CannotDo, match="too few to be judged by 'who appears'"):
                detect(mumbler, split, settings)
            continue
        found = detect(mumbler, split, settings)
        assert found.null_models == 0
        p.append((found.detected, found.p))
    assert [each[0] for each in p] == [False, True]


# ---- budget


def test_texts_are_planned_and_left_out_first() -> None:
    pace = Pace(choose=0, detect=1, order=5, test=10, others=4, writing=20)
    costs = {"symmetrized": 2.0, "heads": 6.0}
    enough, less = planned(pace, costs, 9, 600), planned(pace, costs, 9, 300)
    assert WRITING not in enough.skipped
    assert list(less.skipped) == [WRITING]
    assert less.skipped[WRITING] == 20 * 7
    assert whole_seconds(pace, costs, 9) == whole_seconds(replace(pace, writing=0), costs, 9) + 20 * 7


def test_texts_count_as_work_of_models_that_write_alone(writer: Model) -> None:
    split = split_for()
    assert tokens_by_bias(writer, split.test)[WRITING] > 0
    assert WRITING not in tokens_by_bias(tiny("bert"), split.test)
    assert WRITING not in tokens_by_bias(writer, split.order)


def test_a_budget_covers_texts(writer: Model, tmp_path: Path) -> None:
    run = mitigate(writer, replace(TRIED, objective=MIRROR, budget="10min"), tmp_path / "run")
    assert run.plan is not None
    assert not run.plan.skipped
    assert {each.bias for each in run.moved} >= {MIRROR}


def test_who_appears_is_an_objective_of_a_model_that_writes_words(tmp_path: Path) -> None:
    run = mitigate(load("lh:gpt-mini", device="cpu"), replace(TRIED, objective=APPEARS), tmp_path / "run")
    (tested,) = run.candidates
    assert tested.certificate.bias == APPEARS
    assert tested.certificate.interval is not None
    assert {each.bias for each in run.moved} >= set(WRITTEN)
    assert "Who appears" in page_text(report_html(open_contents(run.folder)))
