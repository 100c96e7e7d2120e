"""Debiasing: strategies by hand, a run on a tiny model, learned gates, and the claim on a shipped model."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from levelhead.edits.gates import HeadGates
from levelhead.edits.sites import Head
from levelhead.engine.gradients import gate_gradients
from levelhead.errors import BadOption
from levelhead.measures.measurement import Measurement
from levelhead.models.model import Model
from levelhead.probes.contexts import template_contexts
from levelhead.probes.sentences import fluency_sentences
from levelhead.probes.words import load_words
from levelhead.scoring.objectives import word_objective
from levelhead.scoring.seat import word_table
from levelhead.studies.heads import Heads, open_heads
from levelhead.studies.heads.bench import (
    OTHER_WORDS,
    UNTOUCHED_MODEL,
    Bench,
    WordScores,
    drawn,
    strategies,
    sweep,
    top,
)
from levelhead.studies.heads.crossfit import halves, highest
from levelhead.studies.heads.learned_gates import (
    GateProblem,
    Point,
    blanks,
    learn_gates,
    sampled_objective,
    step,
)
from levelhead.studies.heads.records import LearnedMeasured, RandomMeasured, Rival, StrategyMeasured
from levelhead.studies.heads.run import debias, tradeoffs, verdict
from levelhead.studies.heads.scores import head_scores
from levelhead.studies.heads.settings import DebiasSettings, LearnSettings
from tests.audit_sizes import ask_few_blanks
from tests.studies.head_runs import empty_run
from tests.tiny import tiny
from tests.word_lists import GENDER

SCORES = np.array([[0.3, -0.2, 0.0, 0.1], [0.5, -0.9, 0.2, -0.1], [0.0, 0.4, -0.3, 0.05]])
CONTEXTS = template_contexts(GENDER, 2)
PARTS = halves(word_table(GENDER, CONTEXTS), GENDER, 0)
WORD_SCORES = WordScores(SCORES, (SCORES, SCORES[::-1]))
LEARN = LearnSettings(bounds=(1.05, 1.2), steps=2, words=6, blanks=12)
SEAT_OF_WORDS = sampled_objective(GENDER, CONTEXTS, LEARN)
FAST = DebiasSettings(k=2, seeds=3, costly_seeds=2, sentences=4, learn=LEARN, resamples=100)


def debiased(model: Model, folder: Path, settings: DebiasSettings = FAST) -> Heads:
    """A run that holds the debias experiment of a model, with scores that are given."""
    with empty_run(folder) as run:
        debias(Bench(model, GENDER, CONTEXTS, settings, PARTS), WORD_SCORES, run)
    return open_heads(folder)


@pytest.fixture(autouse=True, scope="module")
def _few_blanks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        ask_few_blanks(patch)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Heads:
    return debiased(tiny("bert"), tmp_path_factory.mktemp("debias") / "run")


def values(measured: Iterable[StrategyMeasured], measure: str) -> dict[str, float | None]:
    """One measure by strategy."""
    return {each.strategy: each.measurement.value for each in measured if each.measurement.name == measure}


# ---- strategies


def test_strategies_of_table_1_by_hand() -> None:
    heads = {s.name: s.heads for s in strategies(tiny("bert"), SCORES, DebiasSettings(k=2))}
    assert heads["base"] == ()
    assert heads["top-2"] == (Head(1, 0), Head(2, 1))
    assert heads["bottom-2"] == (Head(1, 1), Head(2, 2))
    assert set(heads["all"]) == {(0, 0), (0, 3), (1, 0), (1, 2), (2, 1), (2, 3)}
    assert heads["amplify-bottom-2"] == heads["bottom-2"]


def test_amplifying_sets_the_gate_above_one_and_removing_to_zero() -> None:
    by_name = {s.name: s.variant for s in strategies(tiny("bert"), SCORES, DebiasSettings(k=1, amplify=1.5))}
    assert by_name["amplify-bottom-1"] == (HeadGates(1, (1.0, 1.5, 1.0, 1.0)),)
    assert by_name["top-1"] == (HeadGates(1, (0.0, 1.0, 1.0, 1.0)),)


def test_ranks_go_from_most_biased_to_most_anti_biased() -> None:
    order = highest(SCORES, SCORES.size)
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
    base, none, amplified = bench.measure([UNTOUCHED_MODEL, top(model, SCORES, 0), same])
    assert none == base
    assert amplified[0].value == pytest.approx(base[0].value, abs=1e-6)
    assert amplified[-1].value == pytest.approx(1.0, abs=1e-6)
    assert (amplified[0].name, amplified[-1].name) == ("seat", "fluency change")


def test_heads_are_judged_on_the_words_that_they_were_not_chosen_on_both_ways_round() -> None:
    model = tiny("bert")
    strategy = WORD_SCORES.chosen(lambda scores: [top(model, scores, 2)])[0]
    chosen = [top(model, scores, 2).variant for scores in (SCORES, SCORES[::-1])]
    assert strategy.halves == tuple(chosen)
    seat = Bench(model, GENDER, CONTEXTS, FAST, PARTS).seats([strategy])[0]
    first = word_objective(PARTS[1]).sizes(model, chosen[:1])
    second = word_objective(PARTS[0]).sizes(model, chosen[1:])
    assert seat.value == pytest.approx((first[0] + second[0]) / 2, abs=1e-6)
    assert seat.settings["judged on"] == OTHER_WORDS
    whole = Bench(model, GENDER, CONTEXTS, FAST).seats([strategy])[0]
    assert whole.value == pytest.approx(abs(seat.details["all words, chosen on them"] or 0), abs=1e-6)
    assert whole.settings["judged on"] == "the words it was chosen on"


# ---- a whole run


def test_a_run_has_the_tables_of_the_paper(run: Heads) -> None:
    assert list(values(run.strategies, "seat")) == ["base", "top-2", "bottom-2", "all", "amplify-bottom-2"]
    of_base = [each.measurement.name for each in run.strategies if each.strategy == "base"]
    assert of_base == ["seat", "lpbs career", "lpbs math", "lpbs science", "fluency", "fluency change"]
    assert {each.strategy for each in run.random_strategies} == {"random-2", "random-all"}
    assert list(values(run.top_sweep, "seat")) == [f"top-{k}" for k in (0, 1, 2, 3, 5, 6)]
    assert [each.strategy for each in run.tradeoffs] == ["learned, at most 1.05", "learned, at most 1.2"]


@pytest.mark.nightly
def test_a_killed_run_learns_its_gates_again_and_ends_with_the_same_bytes(run: Heads, tmp_path: Path) -> None:
    lines = (run.folder / "results.jsonl").read_bytes().splitlines(keepends=True)
    assert b"learned_gates" in lines[4]
    with empty_run(tmp_path / "run"):
        (tmp_path / "run" / "results.jsonl").write_bytes(b"".join(lines[:5]))
    again = debiased(tiny("bert"), tmp_path / "run")
    assert (again.folder / "results.jsonl").read_bytes() == b"".join(lines)


def test_learned_gates_are_stored_with_what_they_reach(run: Heads) -> None:
    stored = {each.strategy: each for each in run.learned_gates}
    assert [each.bound for each in stored.values()] == [1.05, 1.2]
    for each in stored.values():
        assert np.shape(each.gates) == (3, 4)
        assert each.learned_on.ratio <= each.bound
    measured = {each.strategy for each in run.learned if each.learned}
    assert measured == {"base", "top-2", *stored}
    unseen = [each for each in run.learned if not each.learned]
    assert {each.strategy for each in unseen} == measured
    assert {each.measurement.n for each in unseen} == {22}  # of 44 contexts, one for each word was learned on


def test_base_equals_top_0_of_the_sweep_and_all_equals_its_last_step(run: Heads) -> None:
    for measure in ("seat", "fluency", "fluency change"):
        table, swept = values(run.strategies, measure), values(run.top_sweep, measure)
        assert swept["top-0"] == pytest.approx(table["base"], abs=1e-6)
        assert swept["top-6"] == pytest.approx(table["all"], abs=1e-5)


def test_random_strategies_are_means_over_seeds(run: Heads) -> None:
    draws = {(each.strategy, each.measurement.name): each for each in run.random_strategies}
    seat, fluency = draws["random-2", "seat"], draws["random-2", "fluency"]
    counts = [each.measurement.n for each in (seat, fluency, draws["random-all", "seat"])]
    assert counts == [3, 2, 2]
    drawn_values = np.array(seat.values, np.float64)
    assert seat.measurement.value == pytest.approx(drawn_values.mean())
    assert seat.measurement.details["sd"] == pytest.approx(drawn_values.std(ddof=1))
    assert seat.mean_abs == pytest.approx(np.abs(drawn_values).mean())
    assert fluency.mean_abs is None


def test_a_list_without_she_and_he_gets_the_lpbs_of_its_own_words() -> None:
    test = replace(GENDER, A=("women",), B=("men",), pairs=())
    bench = Bench(tiny("bert"), test, template_contexts(test, 1), FAST)
    ((lpbs,),) = bench.lpbs([()])
    assert (lpbs.name, lpbs.reason) == ("lpbs", "")
    assert lpbs.settings["attributes"] == [["women"], ["men"]]


def test_a_model_that_predicts_no_tokens_still_gets_its_seat_table(tmp_path: Path) -> None:
    run = debiased(tiny("bert", "base"), tmp_path / "run")
    assert values(run.strategies, "seat")["top-2"] is not None
    for measure in ("fluency", "fluency change"):
        assert set(values(run.strategies, measure).values()) == {None}
    (learned,) = run.learned
    assert "cannot be bounded" in learned.measurement.reason
    assert (run.learned_gates, run.tradeoffs) == ((), ())


@pytest.mark.nightly
def test_a_causal_model_is_debiased_by_perplexity(tmp_path: Path) -> None:
    learned = debiased(tiny("gpt2"), tmp_path / "run").learned
    fluency = [each.measurement for each in learned if each.measurement.name == "fluency"]
    assert {measured.settings["kind"] for measured in fluency} == {"perplexity"}


def test_wrong_settings_and_scores_are_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match=r"k must be at least 0 \(got -1\)"):
        DebiasSettings(k=-1)
    with pytest.raises(BadOption, match=r"amplify must be a number \(got nan\)"):
        DebiasSettings(amplify=float("nan"))
    with pytest.raises(BadOption, match="in rising order"):
        LearnSettings(bounds=(1.1, 1.05))
    with pytest.raises(BadOption, match=r"words must be at least 2 \(got 1\)"):
        LearnSettings(words=1)
    bench = Bench(tiny("bert"), GENDER, CONTEXTS, FAST)
    with empty_run(tmp_path / "run") as run, pytest.raises(BadOption, match="scores must be finite"):
        debias(bench, WordScores(SCORES[:2]), run)


# ---- verdict and trade-off


def test_the_verdict_compares_top_k_with_the_mean_of_random_heads() -> None:
    def table(top_3: float) -> list[StrategyMeasured]:
        seats = (("base", 0.5), ("top-3", top_3))
        return [StrategyMeasured(name, (), Measurement("seat", value)) for name, value in seats]

    chance = [RandomMeasured("random-3", 3, Measurement("seat", 0.3, n=3), (0.45, -0.3, 0.75), 0.5)]
    good = verdict(table(-0.4), chance, 3)
    assert (good.holds, good.random_lower, good.top) == (True, 1, 0.4)
    assert verdict(table(0.6), chance, 3).holds is False


def test_the_verdict_is_open_where_random_heads_have_no_seat() -> None:
    table = [StrategyMeasured(name, (), Measurement("seat", 0.5)) for name in ("base", "top-3")]
    chance = [RandomMeasured("random-3", 3, Measurement.missing("seat", "no words"), (None, None), None)]
    assert verdict(table, chance, 3).holds is None
    assert verdict(table, chance, 3).random_lower is None


def test_the_rival_of_learned_gates_is_the_best_top_k_that_costs_no_more() -> None:
    def both(seat: float, ratio: float) -> list[Measurement]:
        return [Measurement("seat", seat), Measurement("fluency change", ratio)]

    def learned(name: str, seat: float, ratio: float, seen: bool = True) -> list[LearnedMeasured]:
        return [LearnedMeasured(name, (), seen, measured) for measured in both(seat, ratio)]

    swept = [
        StrategyMeasured(name, (), measured)
        for name, seat, ratio in (("top-0", 0.5, 1.0), ("top-1", -0.3, 1.04), ("top-2", 0.1, 1.2))
        for measured in both(seat, ratio)
    ]
    unseen = learned("learned, at most 1.05", 0.01, 1.0, seen=False)
    beside = learned("base", 0.5, 1.0)
    (trade,) = tradeoffs([*beside, *learned("learned, at most 1.05", 0.35, 1.05), *unseen], swept)
    assert (trade.abs_seat, trade.rival) == (0.35, Rival("top-1", 0.3, 1.04))
    (trade,) = tradeoffs(learned("learned, at most 1.02", 0.35, 0.99), swept)
    assert trade.rival == Rival("top-0", 0.5, 1.0)
    (trade,) = tradeoffs(learned("learned, at most 1.02", 0.35, 0.99), [])
    assert trade.rival is None


# ---- learned gates


def test_a_step_goes_down_the_bias_when_the_bound_is_far() -> None:
    here = Point(np.ones((1, 2)), bias=0.5, loss=0.0)
    moved = step(here, bias=np.array([[3.0, -4.0]]), cost=np.zeros((1, 2)), slack=1.0, radius=0.5)
    np.testing.assert_allclose(moved, [[0.7, 1.4]])


def test_a_step_spends_no_more_than_the_slack_and_stays_in_the_box() -> None:
    here = Point(np.array([[0.0, 2.0, 1.0]]), bias=0.5, loss=0.0)
    bias, cost = np.array([[1.0, -1.0, 2.0]]), np.array([[0.0, 0.0, -1.0]])
    moved = step(here, bias, cost, slack=0.1, radius=5.0)
    np.testing.assert_allclose(moved[0, :2], [0.0, 2.0])
    assert ((moved - here.values) * cost).sum() <= 0.1 + 1e-6
    assert moved[0, 2] == pytest.approx(0.9)


def test_a_step_bends_around_a_head_that_fluency_needs() -> None:
    here = Point(np.ones((1, 2)), bias=0.5, loss=0.0)
    moved = step(here, bias=np.array([[1.0, 0.9]]), cost=np.array([[-1.0, 0.0]]), slack=0.0, radius=0.5)
    np.testing.assert_allclose(moved, [[1.0, 0.5]], atol=1e-6)


def test_learned_gates_keep_their_bounds_and_never_get_worse() -> None:
    model = tiny("bert")
    learned = learn_gates(model, SEAT_OF_WORDS, fluency_sentences()[:10], LEARN)
    sizes = [abs(learned[0].start), *(abs(point.bias) for point in learned)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0]
    for point in learned:
        assert point.ratio <= point.bound
        assert (point.values >= 0).all()
        assert (point.values <= 2).all()


def test_the_problem_measures_the_untouched_model_as_loss_zero() -> None:
    problem = GateProblem(tiny("bert"), SEAT_OF_WORDS, fluency_sentences()[:10], LEARN)
    assert problem.at(np.ones((3, 4))).loss == 0.0
    worse = problem.at(np.zeros((3, 4)))
    assert worse.loss != 0.0


def test_gradients_at_other_gates_agree_with_differences_also_at_zero() -> None:
    problem = GateProblem(tiny("llama"), SEAT_OF_WORDS, fluency_sentences()[:10], LEARN)
    at = np.random.default_rng(0).uniform(0, 2, (3, 4))
    at[1, 2] = 0.0
    slope = gate_gradients(problem.model, problem.fluency, problem.cost, at=at).scores
    for place in ((0, 0), (1, 2), (2, 3)):
        nudge = np.zeros((3, 4))
        nudge[place] = 0.01
        up, down = problem.measure([at + nudge, at - nudge])
        assert slope[place] == pytest.approx((up.loss - down.loss) / 0.02, rel=0.02, abs=1e-4)


@pytest.mark.parametrize("at", [np.ones((2, 4)), np.full((3, 4), np.nan)])
def test_gates_of_another_shape_or_nan_are_refused(at: NDArray[np.float64]) -> None:
    table = word_table(GENDER, CONTEXTS)
    with pytest.raises(BadOption, match="must be finite and of shape"):
        gate_gradients(tiny("bert"), table.static(), lambda v: v.sum(), at=at)


def test_blanks_of_a_masked_model_hold_one_mask_and_those_of_a_causal_one_end_before_the_word() -> None:
    masked, tokens = blanks(tiny("bert"), ["The nurse saw a book."], 10, 0)
    assert len(masked) == len(tokens) > 0
    assert all(text.first.count("[MASK]") == 1 for text in masked)
    causal, _ = blanks(tiny("gpt2"), ["The nurse saw a book."], 10, 0)
    assert all("The nurse saw a book.".startswith(text.first) for text in causal)


# ---- a shipped model


@pytest.mark.nightly
def test_top_3_of_bert_mini_lowers_seat_more_than_random_triples_do(bert: Model) -> None:
    test = load_words("gender")
    contexts = template_contexts(test, 1)
    scores = head_scores(bert, word_table(test, contexts)).scores
    bench = Bench(bert, test, contexts, DebiasSettings(resamples=100))
    tried = [UNTOUCHED_MODEL, top(bert, scores, 3), *drawn(bert, "random-3", 3, range(4))]
    base, best, *chance = (abs(m.value or math.nan) for m in bench.seats(tried))
    assert best < base
    assert best < np.mean(chance)


# ---- real models of other families


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("smollm2", marks=[pytest.mark.smollm2, pytest.mark.nightly]),
        pytest.param("minilm", marks=pytest.mark.minilm),
    ],
)
def test_debiasing_runs_on_real_models_of_other_families(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    model: Model = request.getfixturevalue(name)
    words = GENDER.of({*GENDER.A[:3], *GENDER.B[:3], *GENDER.X[:3], *GENDER.Y[:3]})
    contexts = template_contexts(words, 1)
    scores = head_scores(model, word_table(words, contexts)).scores
    few = LearnSettings(bounds=(1.2,), steps=1, words=4, blanks=4)
    settings = DebiasSettings(k=3, ks=(0, 3), seeds=2, costly_seeds=1, sentences=3, learn=few, resamples=100)
    with empty_run(tmp_path / "run") as opened:
        debias(Bench(model, words, contexts, settings), WordScores(scores), opened)
    run = open_heads(tmp_path / "run")
    seats = values(run.strategies, "seat")
    assert len(seats) == 5
    assert all(value is not None for value in seats.values())
    assert seats["all"] != seats["base"]
    fluent = values(run.strategies, "fluency change")
    predicts = bool(model.abilities & {"mlm", "causal"})
    assert all((value is not None) == predicts for value in fluent.values())
    assert (len(run.tradeoffs) == 1) == predicts
