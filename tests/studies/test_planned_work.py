"""The work that is planned is the work that is done: in tokens, stage by stage, by no clock."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.time_left import ledger

from levelhead.models.model import Model
from levelhead.probes.bias import swap_for
from levelhead.progress import Stage, counted_work, plain_lines
from levelhead.scoring.natural import COSINE, natural_readings, natural_values
from levelhead.scoring.outside import drawn_outside, outside_text, outside_values
from levelhead.scoring.pairs import related_answers
from levelhead.studies.audit.arena import tried_methods
from levelhead.studies.audit.run import audit
from levelhead.studies.audit.settings import AuditSettings
from levelhead.studies.heads.run import heads
from levelhead.studies.heads.settings import HeadsSettings
from levelhead.studies.mitigate.budgeting import pace_of, tokens_by_bias
from levelhead.studies.mitigate.parts import Parts, gender_items, parts
from levelhead.studies.mitigate.protocol import Candidate, cost_of
from levelhead.studies.mitigate.run import shipped_battery
from levelhead.studies.mitigate.settings import MitigateSettings
from levelhead.studies.mitigate.spillover import spilled
from tests.audit_sizes import ask_few_tests, ask_little
from tests.studies.test_mitigating import ask_few_frames
from tests.test_auditing_certified import ENOUGH, take_for_detected
from tests.tiny import tiny
from tests.word_lists import gender_toml

KINDS = [("bert", "nsp"), ("bert", "nli"), ("gpt2", "mlm")]


def split_of(model: Model) -> Parts:
    """One of 24 of the items that ship, in their parts."""
    return parts(shipped_battery(MitigateSettings(), model), 0, 24)


def model_of(family: str, head: str) -> Model:
    return tiny(family, head, max_position_embeddings=256) if family == "bert" else tiny(family)


@pytest.mark.parametrize(("family", "head"), KINDS)
def test_every_bias_and_every_cost_is_planned_as_it_is_read(family: str, head: str) -> None:
    model = model_of(family, head)
    items = split_of(model).test
    planned = tokens_by_bias(model, items)
    assert {*natural_readings(model, items)} == {*planned}
    with counted_work() as done:
        natural_values(model, items, [()])
    assert sum(planned.values()) == pytest.approx(sum(done), rel=0.02)
    assert planned[COSINE] > 0


@pytest.mark.parametrize(("family", "head"), KINDS)
def test_other_biases_and_text_outside_are_planned_as_they_are_read(family: str, head: str) -> None:
    model = model_of(family, head)
    split = split_of(model)
    test = split.test.battery.test
    method = next(each for each in tried_methods(model, 3) if each.name == "symmetrized")
    plain = replace(method.candidates(model, split.fit)[0], edits=())
    with counted_work() as done:
        spilled(model, test, [plain])
    pace = pace_of(model, split, COSINE, 1.0)
    assert pace.others == pytest.approx(sum(done), rel=0.02)
    if head == "nli":  # which predicts no words
        return
    drawn = drawn_outside(model, outside_text(model, "", test), 0, 4)
    with counted_work() as done:
        outside_values(model, drawn, swap_for(test), [()])
    with_text = pace_of(model, replace(split, outside=drawn), COSINE, 1.0)
    assert with_text.test - pace.test == pytest.approx(sum(done), rel=0.02)


@pytest.mark.parametrize(("family", "head"), KINDS)
def test_what_a_mitigation_of_another_bias_does_to_gender_is_measured_and_planned(
    family: str, head: str
) -> None:
    model = model_of(family, head)
    split = parts(shipped_battery(MitigateSettings(bias="religion"), model), 0, 24)
    plain = Candidate("plain", "symmetrized", 1.0, ())
    with counted_work() as done:
        rows = spilled(model, split.test.battery.test, [plain])
    with counted_work() as again:  # next sentences, which are read variant by variant: here one of them twice
        if head != "nli":
            related_answers(model, gender_items().battery.triples)
    behaviors = {"nsp": {"preference", "log-odds"}, "nli": {"inferences"}, "mlm": {"preference", "log-odds"}}
    assert {f"gender: {name}" for name in behaviors[head]} <= {each.bias for each in rows}
    once = sum(done) - sum(again)
    assert pace_of(model, split, COSINE, 1.0).others == pytest.approx(once, rel=0.02)


@pytest.mark.parametrize(("family", "head"), [("bert", "nsp"), ("gpt2", "mlm")])
def test_mitigations_of_an_audit_take_as_many_passes_as_they_say(family: str, head: str) -> None:
    model = model_of(family, head)
    split = split_of(model)
    once = sum(tokens_by_bias(model, split.test).values())
    methods = [each for each in tried_methods(model, 3) if not each.why_not(model, split.fit)]
    assert len(methods) == 3
    done = 0.0
    for method in methods:
        with counted_work() as tested:
            natural_values(model, split.test, [each.edits for each in method.candidates(model, split.fit)])
        done += sum(tested)
    assert sum(map(cost_of, methods)) == pytest.approx(done / once, rel=0.25)


@pytest.mark.nightly
def test_what_an_audit_plans_for_each_stage_is_within_a_quarter_of_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask_little(monkeypatch, tmp_path)
    ask_few_tests(monkeypatch, "career")
    ask_few_frames(monkeypatch)
    monkeypatch.setattr("levelhead.studies.audit.run.claimed_bias", lambda _: COSINE)
    take_for_detected(monkeypatch)
    model = tiny("bert", "nsp", max_position_embeddings=256)
    with plain_lines(), ledger() as works:
        audit(model, AuditSettings(bias=gender_toml(tmp_path), sizes=ENOUGH), tmp_path / "run")
    assert {Stage.WORDS, Stage.SENTENCES, Stage.TEXT, Stage.PROMPTS, Stage.CERTIFIED} <= {*works.planned}
    wrong = {
        str(name): round(works.planned[name] / done, 2)
        for name, done in works.worked.items()
        if done > 0.02 * sum(works.worked.values()) and abs(works.planned[name] / done - 1) > 0.25
    }
    assert not wrong


@pytest.mark.slow
def test_a_heads_study_shows_one_bar_whose_plan_holds(tmp_path: Path) -> None:
    settings = HeadsSettings("career", per_word=2, null=3, splits=0, resamples=100)
    with plain_lines(), ledger() as works:
        heads(tiny("bert", "nsp"), settings, tmp_path / "run")
    assert {Stage.WORDS, Stage.NULLS, Stage.HEADS, Stage.ATTENTION} <= {*works.planned}
    for name in (Stage.WORDS, Stage.NULLS, Stage.HEADS):
        assert works.planned[name] == pytest.approx(works.worked[name], rel=0.25), name
