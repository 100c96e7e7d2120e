"""Mitigations within a budget: what a plan leaves out, on given speeds and an injected clock."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from levelhead.models.model import Model
from levelhead.progress import plain_lines
from levelhead.studies.mitigate import budgeting, protocol
from levelhead.studies.mitigate.budgeting import (
    NO_BUDGET,
    OTHERS,
    THINNED,
    Budget,
    Pace,
    pace_of,
    planned,
    tokens_by_bias,
    told,
    whole_seconds,
)
from levelhead.studies.mitigate.parts import parts
from levelhead.studies.mitigate.protocol import Mitigation
from levelhead.studies.mitigate.run import mitigate, shipped_battery
from levelhead.studies.mitigate.settings import MitigateSettings
from tests.studies.test_arena import Counted
from tests.studies.test_mitigating import ask_few, few
from tests.tiny import tiny

SLOW = Pace(choose=60, detect=120, order=150, test=300, others=40)  # seconds, as SmolLM2 on two busy cores
COSTS = {"symmetrized": 2.0, "projected": 2.5, "heads": 6.0, "gates": 40.0}


@pytest.fixture(autouse=True)
def _few_items(monkeypatch: pytest.MonkeyPatch) -> None:
    ask_few(monkeypatch)


@pytest.mark.parametrize("minutes", [2, 5, 10, 30, 120, 600])
def test_a_plan_fits_its_budget_and_has_time_for_the_cheapest_mitigation(minutes: int) -> None:
    plan = planned(SLOW, COSTS, 9, 60 * minutes)
    assert plan.seconds <= 60 * minutes
    assert next(iter(plan.methods)) == "symmetrized"
    assert {*plan.methods, *plan.skipped} - {OTHERS} == set(COSTS)
    thin = SLOW.at(plan.every)
    assert plan.seconds >= thin.unmodified(plan.null) + sum(plan.methods.values()) - 1e-6


def test_more_time_evaluates_no_less() -> None:
    plans = [planned(SLOW, COSTS, 9, 60 * minutes) for minutes in (2, 5, 10, 30, 120, 600)]
    assert [plan.every for plan in plans] == sorted((plan.every for plan in plans), reverse=True)
    assert plans[0].every > 1
    assert (plans[-1].every, plans[-1].null) == (1, 9)
    assert plans[-1].methods.keys() == COSTS.keys()
    assert not plans[-1].skipped


def test_what_does_not_fit_is_said_with_its_time_before_anything_begins() -> None:
    plan = planned(SLOW, COSTS, 9, 600)
    first, skipped = told(plan, "10min", 9)
    assert f"one of {plan.every} items" in first
    assert "symmetrized" in first
    assert all(name in skipped for name in plan.skipped)
    assert "gates" in plan.skipped
    assert "min" in skipped


def test_a_budget_too_short_for_null_models_says_that_no_bias_can_be_shown() -> None:
    plan = planned(SLOW, COSTS, 9, 20)
    assert (plan.every, plan.null) == (THINNED[-1], 0)
    assert list(plan.methods) == ["symmetrized"]
    assert "cannot be tested within 20s: 3 null models" in told(plan, "20s", 9)[1]
    few_nulls = planned(SLOW, COSTS, 9, 43)
    assert few_nulls.null == 3


def test_what_there_is_time_for_is_not_skipped_and_what_a_whole_run_takes_is_more_than_its_parts() -> None:
    assert planned(SLOW, {}, 9, 1e6).methods == {}
    assert whole_seconds(SLOW, COSTS, 9) > SLOW.unmodified(9) + sum(
        SLOW.method(c, alone=True) for c in COSTS.values()
    )


def test_thinned_parts_share_no_item_and_keep_enough_of_each_kind() -> None:
    battery = shipped_battery(MitigateSettings(), tiny("gpt2"))
    whole, thin = parts(battery, 0), parts(battery, 0, 32)
    assert len(thin.test.sense) < len(whole.test.sense) / 4
    assert len(thin.whole.battery.contexts) < len(whole.whole.battery.contexts) / 4
    for one, other in ((thin.order, thin.test),):
        contexts = [{pair.original.context for pair in part.battery.triples.pairs} for part in (one, other)]
        assert not contexts[0] & contexts[1]
        assert min(map(len, contexts)) >= 3
        assert min(len(part.battery.sentences) for part in (one, other)) >= 3
    assert thin.words_apart


@pytest.mark.parametrize(
    ("family", "objective"), [("gpt2", ""), ("gpt2", "log-odds"), ("bert", "cosine gap")]
)
def test_a_pace_is_the_tokens_of_the_items_at_the_speed_of_the_machine(family: str, objective: str) -> None:
    model, split = tiny(family), parts(few(MitigateSettings()), 0)
    slow, fast = (pace_of(model, split, objective, seconds) for seconds in (0.01, 0.001))
    assert slow.test == pytest.approx(10 * fast.test)
    assert (slow.choose == 0) == bool(objective)
    assert slow.test > slow.order > 0
    assert slow.detect > 0
    assert slow.detect == pytest.approx(0.01 * tokens_by_bias(model, split.whole)[objective or "preference"])


def test_null_models_leave_the_cheapest_mitigation_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned(SLOW, COSTS, 9, 600)
    monkeypatch.setattr(budgeting, "now", lambda: 600 - plan.reserved)
    assert Budget(plan, 600).stops_nulls
    assert not NO_BUDGET.stops_nulls
    assert not Budget(plan, 600 + plan.reserved + 2 * plan.null_seconds).stops_nulls


def test_a_mitigation_that_took_longer_than_planned_makes_the_next_one_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = replace(
        planned(SLOW, COSTS, 9, 600), methods={"symmetrized": 100.0, "projected": 100.0}, skipped={}
    )
    budget = Budget(plan, 600)
    monkeypatch.setattr(budgeting, "now", lambda: 400.0)
    assert budget.why_not("projected", tried=True) == ""
    budget.took("symmetrized", 300)
    assert "it would take about 5 min" in budget.why_not("projected", tried=True)
    assert budget.why_not("projected", tried=False) == ""  # one mitigation is always tried


@pytest.mark.nightly
def test_a_run_within_a_budget_tries_the_cheapest_and_says_before_what_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    registered: dict[str, Mitigation] = {
        name: Counted(name, cost) for name, cost in (("dear", 900), ("cheap", 1))
    }
    monkeypatch.setattr(protocol.MITIGATIONS, "shipped", registered)
    monkeypatch.setattr("levelhead.studies.mitigate.run.pace_of", lambda *given: SLOW)
    model: Model = tiny("gpt2")
    settings = MitigateSettings(null=9, budget="10min", spillover=False)
    with plain_lines():
        run = mitigate(model, settings, tmp_path / "run", few(settings))
    told_first = capsys.readouterr().err
    assert [each.name for each in run.candidates] == ["cheap"]
    assert [(each.method, "would take" in each.reason) for each in run.left_out] == [("dear", True)]
    assert told_first.index("Does not fit") < told_first.index("Null models")
    assert run.detected is not None
    assert run.detected.null_models <= 9
    monkeypatch.setattr("levelhead.studies.mitigate.run.pace_of", lambda *given: replace(SLOW, test=1))
    again = mitigate(model, settings, tmp_path / "run", few(settings))
    assert again.candidates == run.candidates  # a run that goes on keeps its plan
