"""Neurons, steering, strengths and the menu of benchmarks, without a page: numbers are those of the API."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from levelhead.edits.gates import gates, neuron_gates
from levelhead.edits.sites import Head, Neuron, Variant
from levelhead.errors import BadOption
from levelhead.exploring import benchmarks as menu
from levelhead.exploring.answers import Side, ask
from levelhead.exploring.benchmarks import ASKS, LPBS, benchmarks
from levelhead.exploring.changes import BeingFitted, Preset, presets
from levelhead.exploring.explorer import Explorer, saved
from levelhead.exploring.state import PageState
from levelhead.measures.certified import PERPLEXITY
from levelhead.mitigation import fitting
from levelhead.mitigation.fitting import steering_triples
from levelhead.mitigation.mitigate import edits_of
from levelhead.mitigation.recipe import Recipe, Step, parse_recipe
from levelhead.models.model import Model
from levelhead.probes.triples import load_triples
from levelhead.probes.words import load_words
from levelhead.runs.folder import Run
from levelhead.runs.study import open_run
from levelhead.scoring.battery import Battery
from levelhead.scoring.lpbs import lpbs_biases
from levelhead.scoring.natural import (
    COSINE,
    LOG_ODDS,
    PREFERENCE,
    NaturalItems,
    log_losses,
    lpbs_items,
    natural_bias,
)
from levelhead.studies.audit import Audit
from levelhead.studies.audit.settings import AuditStored
from tests.exploring.mitigated_runs import mitigated_run
from tests.tiny import tiny

GENDER = load_words("gender")
SENTENCE = "My mother said that ___ was tired."
COUNTERFACTUAL = "My father said that ___ was tired."
NEURONS = {Neuron(0, 7): 0.0, Neuron(2, 40): 2.0}


@pytest.fixture(scope="module")
def model() -> Model:
    return tiny("bert")


@pytest.fixture
def explorer(model: Model) -> Explorer:
    return Explorer(model, GENDER)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twelve shipped triples, to fit steering on and to measure on."""
    some = load_triples().at_most(12)
    monkeypatch.setattr(fitting, "load_triples", lambda: some)
    monkeypatch.setattr(menu, "load_triples", lambda: some)


def once_fitted(question: Any, state: PageState) -> Any:
    """The answer, once what it needs is fitted."""
    for _ in range(3000):
        try:
            return question(state)
        except BeingFitted:
            threading.Event().wait(0.02)
    raise AssertionError("nothing was fitted within a minute")


def log_odds(model: Model, variant: Variant) -> list[float]:
    """Of the sentence and its counterfactual, as the API gives them."""
    texts = ask([Side(model, [variant])], (SENTENCE, COUNTERFACTUAL), ("she", "he"))
    return [text.odds[0].log_odds for text in texts]


def changed(explorer: Explorer, state: PageState) -> list[float]:
    """Of the sentence and its counterfactual in the changed model, as the page shows them."""
    return [text.odds[1].log_odds for text in once_fitted(explorer.answer, state).texts]


# ---- neurons


def test_odds_are_those_of_the_api_for_the_same_neurons(explorer: Explorer, model: Model) -> None:
    state = PageState(SENTENCE, gates={Head(0, 1): 0.0}, neurons=NEURONS)
    expected = log_odds(model, (*gates(model, state.gates), *neuron_gates(model, NEURONS)))
    np.testing.assert_allclose(changed(explorer, state), expected, atol=1e-6)
    assert abs(np.subtract(expected, log_odds(model, gates(model, state.gates)))).max() > 1e-4


def test_scores_of_neurons_and_heads_are_gradients_with_the_whole_change_on(
    explorer: Explorer, model: Model
) -> None:
    on, step = {Head(1, 0): 0.0}, 1e-2
    state = PageState(SENTENCE, gates=on, neurons=NEURONS)
    top, *rest = explorer.neurons(state).neurons
    ends = [
        log_odds(model, (*gates(model, on), *neuron_gates(model, {**NEURONS, top.neuron: at})))[0]
        for at in (NEURONS.get(top.neuron, 1) - step, NEURONS.get(top.neuron, 1) + step)
    ]
    assert top.score == pytest.approx((ends[1] - ends[0]) / (2 * step), rel=0.02, abs=1e-4)
    assert all(abs(top.score) >= abs(each.score) for each in rest)
    assert set(NEURONS) <= {each.neuron for each in (top, *rest)}
    ends = [
        log_odds(model, (*gates(model, {**on, Head(0, 2): at}), *neuron_gates(model, NEURONS)))[0]
        for at in (1 - step, 1 + step)
    ]
    slope = (ends[1] - ends[0]) / (2 * step)
    assert explorer.why(state).scores[0][2] == pytest.approx(slope, rel=0.02, abs=1e-4)


def test_neurons_travel_in_the_recipe(explorer: Explorer, model: Model) -> None:
    taken = explorer.answer(PageState(SENTENCE, neurons=NEURONS)).taken
    assert "--recipe recipe.toml" in taken.command
    edits = edits_of(model, parse_recipe(taken.recipe, "recipe.toml"))
    assert edits == neuron_gates(model, NEURONS)


def test_a_neuron_that_the_model_lacks_is_one_line(explorer: Explorer) -> None:
    with pytest.raises(BadOption, match=r"^[^\n]+ 1-49 was asked for\.$"):
        explorer.answer(PageState(SENTENCE, neurons={Neuron(0, 48): 0.0}))


# ---- steering and strengths


def test_steering_is_fitted_in_the_background_once_and_asked_at_any_strength(
    explorer: Explorer, model: Model, few: None
) -> None:
    with pytest.raises(BeingFitted):
        explorer.answer(PageState(SENTENCE, steering=20.0))
    shown = changed(explorer, PageState(SENTENCE, steering=20.0))
    progress = explorer.jobs().fitting
    assert progress is not None
    assert progress.finished
    expected = log_odds(model, edits_of(model, Recipe(steering=20.0)))
    np.testing.assert_allclose(shown, expected, atol=1e-6)
    assert abs(np.subtract(expected, log_odds(model, ()))).max() > 1e-3
    explorer.answer(PageState(SENTENCE, steering=7.0))  # raises nothing: it is fitted
    assert "[steering]\nstrength = 7.0" in explorer.answer(PageState(SENTENCE, steering=7.0)).taken.recipe
    explorer.background.close()


def test_a_bias_without_stereotyped_sentences_cannot_be_steered() -> None:
    explorer = Explorer(tiny("bert"), replace(GENDER, name="own", axis="height"))
    assert explorer.facts.no_steering
    with pytest.raises(BadOption, match="steer"):
        explorer.answer(PageState(SENTENCE, steering=1.0))


def test_what_cannot_be_fitted_says_so_and_is_not_begun_again(
    explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise BadOption("no states here.")

    monkeypatch.setattr("levelhead.exploring.changes.steering_vector", refused)
    for _ in range(2):
        with pytest.raises(BadOption, match="no states here"):
            once_fitted(explorer.answer, PageState(SENTENCE, steering=1.0))
    explorer.background.close()


@pytest.mark.parametrize("fit", ["base", "sequential"])
def test_the_strength_of_projections_is_that_of_the_recipe_that_is_taken_along(
    model: Model, fit: Any
) -> None:
    steps = (Step("tokens", 1), Step("tokens", 2, strength=0.5))
    recipe = Recipe(projections=steps, fit=fit, neurons={Neuron(0, 7): 0.0})
    explorer = Explorer(model, GENDER)
    explorer._presets = (Preset("projected", recipe),)
    whole = changed(explorer, PageState(SENTENCE, preset="projected"))
    np.testing.assert_allclose(whole, log_odds(model, edits_of(model, recipe)), atol=1e-5)
    state = PageState(SENTENCE, preset="projected", strength=0.3)
    half = changed(explorer, state)
    taken = parse_recipe(explorer.answer(state).taken.recipe, "recipe.toml")
    assert [step.strength for step in taken.projections] == pytest.approx([0.3, 0.15])
    assert taken.neurons == {Neuron(0, 7): 0.7}
    np.testing.assert_allclose(half, log_odds(model, edits_of(model, taken)), atol=1e-5)
    assert abs(np.subtract(half, whole)).max() > 1e-4
    nothing = explorer.answer(PageState(SENTENCE, preset="projected", strength=0.0))
    assert not nothing.changed
    explorer.background.close()


def test_a_slider_fits_nothing_anew(model: Model) -> None:
    steps = (Step("tokens", 1, strength=0.3), Step("cls", -1, strength=0.15))
    explorer = Explorer(model, GENDER)
    explorer._presets = (Preset("projected", Recipe(projections=steps)),)
    state = PageState(SENTENCE, preset="projected")
    with pytest.raises(BeingFitted):
        explorer.answer(state)
    changed(explorer, state)
    explorer.answer(replace(state, strength=0.5))  # raises nothing: it is fitted
    explorer.background.close()


def test_certified_mitigations_of_an_audit_are_presets_too(tmp_path: Path, model: Model) -> None:
    settings = AuditStored(study="audit", models=(model.name,))
    with Run.open(tmp_path / "audit", Audit, settings, hashes={"weights": model.fingerprint}):
        mitigated_run(tmp_path / "audit" / Audit.mitigate.folder, model)
    first, second = presets(open_run(tmp_path / "audit"), model)
    assert (first.name, first.certified) == ("two heads", True)
    assert not second.certified
    other = presets(open_run(tmp_path / "audit"), tiny("bert", seed=5))
    assert all(preset.why_not for preset in other)


# ---- the menu of benchmarks


def test_the_menu_holds_what_a_model_can_be_asked() -> None:
    masked = [each.name for each in benchmarks(tiny("bert"), GENDER)]
    assert masked == [LOG_ODDS, LPBS, COSINE, PERPLEXITY]
    causal = [each.name for each in benchmarks(tiny("gpt2"), GENDER)]
    assert causal == [LOG_ODDS, PREFERENCE, COSINE, PERPLEXITY]
    race = load_words("race")
    assert [each.name for each in benchmarks(tiny("gpt2"), race)] == [COSINE, PERPLEXITY]
    assert [each.cost for each in benchmarks(tiny("gpt2"), race)] == [False, True]


@pytest.mark.slow
def test_every_benchmark_in_portions_is_that_of_all_items(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(menu, "_FEW_TARGETS", 5)
    monkeypatch.setattr(menu, "_FEW_TEXTS", 6)
    variants = [(), gates(model, {Head(0, 1): 0.0})]
    battery = Battery(GENDER, ())
    sides = [side[:: len(side) // 5][:5] for side in (GENDER.X, GENDER.Y)]  # at equal distances
    few = GENDER.of({*GENDER.A, *GENDER.B, *sides[0], *sides[1]})
    asked = lpbs_biases(model, few, variants)
    assert asked is not None
    whole = {
        LOG_ODDS: natural_bias(model, NaturalItems(battery, menu._prompts()), LOG_ODDS, variants),
        LPBS: lpbs_items(LPBS, few, *asked),
        PERPLEXITY: log_losses(model, battery.sentences[::40][:6], variants),
    }
    for name, expected in whole.items():
        assert expected is not None
        told: list[tuple[int, int]] = []
        found = ASKS[name](model, GENDER, variants, lambda *done, told=told: told.append(done))
        assert told[-1][0] == told[-1][1] >= 2
        for variant in (0, 1):
            values, own = found.paired(1), expected.paired(1)
            side = ("before", "after")[variant]
            assert values.mean(getattr(values, side)) == pytest.approx(own.mean(getattr(own, side)), abs=1e-5)
        assert len(found.clusters) == len(expected.clusters)


def test_with_steering_on_preference_is_measured_on_triples_that_it_was_not_fitted_on(few: None) -> None:
    model = tiny("gpt2")
    variant = edits_of(model, Recipe(steering=5.0))
    found = ASKS[PREFERENCE](model, GENDER, [(), variant], lambda *_: None)
    fitted_on = {pair.original.context for pair in steering_triples().pairs}
    assert len(found.clusters) == 6
    assert not fitted_on & set(found.clusters.tolist())


def test_a_comparison_is_of_the_change_and_the_benchmark_and_of_the_tab_that_asked(
    explorer: Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(menu, "_FEW_TEXTS", 3)
    one = PageState(SENTENCE, gates={Head(0, 1): 0.0}, benchmark=PERPLEXITY)
    other = replace(one, gates={Head(1, 1): 0.0})
    for tab, state in {"a": one, "b": other}.items():
        explorer.measure(state, tab)
    for tab in "ab":
        while not (progress := explorer.jobs(tab).benchmark) or not progress.finished:
            threading.Event().wait(0.02)
    first, second = (explorer.answer(state).key for state in (one, other))
    assert explorer.jobs("a").compared.key == first != second  # type: ignore[union-attr]
    assert explorer.jobs("b").compared.key == second  # type: ignore[union-attr]
    assert explorer.jobs("c").compared is None
    assert explorer.answer(replace(one, benchmark="")).key != first
    whole = saved(explorer, one, "a")
    assert whole.jobs.compared is not None
    assert whole.jobs.compared.key == whole.answer.key
    with pytest.raises(BadOption, match="No benchmark 'nothing'"):
        explorer.answer(replace(one, benchmark="nothing"))
    explorer.background.close()
