"""The rival mitigations: what each fits on part A, by hand on a tiny model, and what it writes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch

import levelhead as lh
from levelhead.edits.gates import HeadGates, NeuronGates, neuron_gates, removed
from levelhead.edits.sites import Edit, Site
from levelhead.edits.steering import Steering
from levelhead.edits.subspace import Projection
from levelhead.engine.own_forward import OwnForward
from levelhead.errors import CannotDo
from levelhead.mitigation.export import export, folded, plan_folding
from levelhead.mitigation.fitting import sentence_states
from levelhead.mitigation.mitigate import edits_of
from levelhead.mitigation.recipe import Recipe, parse_recipe, recipe_text
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.probes.contexts import template_contexts
from levelhead.probes.sentences import fluency_sentences
from levelhead.probes.triples import load_triples
from levelhead.probes.words import load_words
from levelhead.scoring.battery import Battery
from levelhead.scoring.natural import LOG_ODDS, PREFERENCE, log_losses
from levelhead.scoring.objectives import behavior, cosine_objective, objectives
from levelhead.scoring.seat import word_table
from levelhead.studies.heads.crossfit import highest
from levelhead.studies.mitigate import run as study
from levelhead.studies.mitigate.dama import Dama, projections
from levelhead.studies.mitigate.erasures import Erasure
from levelhead.studies.mitigate.fasp import Fasp, pruned, removal_costs
from levelhead.studies.mitigate.gate_learning import GateLearning
from levelhead.studies.mitigate.head_ablation import HeadAblation
from levelhead.studies.mitigate.neuron_ablation import NeuronAblation
from levelhead.studies.mitigate.parts import parts
from levelhead.studies.mitigate.protocol import Mitigation, mitigations
from levelhead.studies.mitigate.self_debiasing import SelfDebiasing, asking_for
from levelhead.studies.mitigate.steering import SteeringAway
from tests.tiny import tiny
from tests.word_lists import GENDER

TEXTS = [Text("The nurse said that she was tired."), Text("Engineers and nurses work.")]
RIVALS: tuple[Mitigation, ...] = (
    HeadAblation(PREFERENCE),
    HeadAblation(LOG_ODDS),
    NeuronAblation(),
    GateLearning(),
    Fasp(),
    Dama(),
    SteeringAway(gated=False),
    SteeringAway(gated=True),
    Erasure("SentenceDebias", "pca", (1, 2)),
    Erasure("INLP", "inlp", (1, 4)),
    Erasure("LEACE", "leace", (1, 2)),
    SelfDebiasing(),
)


@pytest.fixture(scope="module")
def fit() -> Battery:
    """Part A of a few items."""
    contexts = list(dict.fromkeys(pair.original.context for pair in load_triples().pairs))[:24]
    few = Battery(
        GENDER,
        tuple(template_contexts(GENDER, 1)),
        load_triples().about(contexts),
        sentences=tuple(text for text in fluency_sentences() if len(text) < 60)[:8],
    )
    own = parts(few, seed=0).fit
    assert own.prompts is not None
    return replace(own, prompts=replace(own.prompts, prompts=own.prompts.prompts[::4]))


@pytest.fixture(scope="module")
def bert() -> Model:
    return tiny("bert", "nsp", max_position_embeddings=256)


def outputs(model: Model, hf: Any = None) -> dict[str, torch.Tensor]:
    return OwnForward(model, TEXTS, first_token=True).outputs(model.hf if hf is None else hf)


def test_part_a_has_prompts_that_no_other_part_asks() -> None:
    test = load_words("gender")
    split = parts(Battery(test, tuple(template_contexts(test, 1))), seed=5)
    asked = [split.fit.prompts, split.order.prompts, split.test.prompts]
    occupations = [{p.occupation for p in each.prompts} for each in asked if each is not None]
    assert [bool(each) for each in occupations] == [True, True, True]
    assert sum(map(len, occupations)) == len(set.union(*occupations))


@pytest.mark.parametrize("rival", RIVALS, ids=lambda each: str(each.name))
def test_a_rival_makes_candidates_of_growing_strength(bert: Model, fit: Battery, rival: Mitigation) -> None:
    assert rival.why_not(bert, fit) == ""
    made = rival.candidates(bert, fit)
    assert made
    strengths = [each.strength for each in made]
    assert strengths == sorted(set(strengths))
    assert {each.method for each in made} == {rival.name}
    assert len({each.name for each in made}) == len(made)
    for each in made:
        if each.recipe is not None:
            assert parse_recipe(recipe_text(each.recipe), "recipe.toml") == each.recipe


def test_all_rivals_are_registered_and_the_quick_ones_run_by_default() -> None:
    assert study.BUILT_IN
    every = {each.name for each in mitigations(("all",))}
    assert {rival.name for rival in RIVALS} <= every
    quick = {each.name for each in mitigations()}
    assert {"symmetrized", "ablated heads", "ablated neurons", "DAMA"} <= quick < every
    assert not quick & {"FASP", "steering", "gated steering", "Self-Debias", "INLP", "SentenceDebias"}


def test_heads_by_log_odds_are_those_with_the_highest_gradient_of_it(bert: Model, fit: Battery) -> None:
    scores = objectives(bert, fit)[LOG_ODDS].gradients(bert).scores
    (one, three, _) = HeadAblation(LOG_ODDS).candidates(bert, fit)
    assert one.edits == removed(bert, [np.unravel_index(scores.argmax(), scores.shape)])  # type: ignore[list-item]
    assert three.edits == removed(bert, highest(scores, 3))


def test_ablated_neurons_fold_and_their_recipe_makes_them_again(
    bert: Model, fit: Battery, tmp_path: Path
) -> None:
    strongest = NeuronAblation().candidates(bert, fit)[-1]
    assert strongest.recipe is not None
    assert sum(len(cast(NeuronGates, edit).numbers) for edit in strongest.edits) == round(0.02 * 3 * 48)
    again = parse_recipe(recipe_text(strongest.recipe), "recipe.toml")
    assert edits_of(bert, again) == strongest.edits
    report = export(bert, strongest.edits, tmp_path / "folder", strongest.recipe)
    assert report.folded
    assert report.max_difference < 1e-5


def test_neurons_are_chosen_by_integrated_gradients(bert: Model, fit: Battery) -> None:
    objective = behavior(bert, fit)
    assert objective is not None
    scores = objective.neuron_scores(bert, 4)
    weakest = NeuronAblation().candidates(bert, fit)[0]
    (edit,) = (cast(NeuronGates, each) for each in weakest.edits)
    assert (edit.layer, edit.numbers) == (highest(scores, 1)[0].layer, (highest(scores, 1)[0].head,))


def test_learned_gates_lower_what_the_model_does_and_never_less_for_a_looser_bound(
    bert: Model, fit: Battery
) -> None:
    objective = behavior(bert, fit)
    assert objective is not None
    candidates = GateLearning().candidates(bert, fit)
    sizes = [abs(each) for each in objective.values(bert, [(), *(each.edits for each in candidates)])]
    assert candidates
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0]
    for each in candidates:
        assert each.recipe is not None
        assert edits_of(bert, parse_recipe(recipe_text(each.recipe), "recipe.toml")) == each.edits
    assert [each.strength for each in candidates] == sorted({each.strength for each in candidates})


def test_gates_are_learned_for_the_benchmark_that_is_the_target(bert: Model, fit: Battery) -> None:
    table = word_table(GENDER, template_contexts(GENDER, 1))
    target = replace(cosine_objective(table), name="some benchmark")
    strongest = GateLearning().candidates(bert, replace(fit, target=target))[-1]
    before, after = target.values(bert, [(), strongest.edits])
    assert abs(after) < abs(before)


def test_fasp_prunes_the_most_biased_of_the_heads_that_are_not_protected() -> None:
    scores = np.array([[5.0, 4.0], [3.0, 2.0]])
    costs = np.array([[9.0, 0.0], [8.0, 1.0]])
    assert [tuple(head) for head in pruned(scores, costs, 0.5, 1)] == [(0, 1)]
    assert [tuple(head) for head in pruned(scores, costs, 0.5, 3)] == [(0, 1), (1, 1)]
    assert [tuple(head) for head in pruned(scores, costs, 0.0, 2)] == [(0, 0), (0, 1)]


def test_the_cost_of_a_head_is_what_log_perplexity_grows_by_without_it(bert: Model, fit: Battery) -> None:
    texts = fit.sentences[:2]
    costs = removal_costs(bert, texts)
    losses = log_losses(bert, texts, [(), removed(bert, [(1, 2)])])
    own = np.average(losses.values, axis=1, weights=losses.weights)
    assert costs.shape == (3, 4)
    assert costs[1, 2] == pytest.approx(own[1] - own[0], abs=1e-6)


def test_fasp_closes_heads_only(bert: Model, fit: Battery) -> None:
    pruned_heads = Fasp().candidates(bert, fit)[-1]
    closed = [value for edit in pruned_heads.edits for value in cast(HeadGates, edit).values]
    assert closed.count(0.0) == round(0.2 * 12)


def test_dama_multiplies_the_down_projection_by_i_minus_p(bert: Model, fit: Battery) -> None:
    assert fit.prompts is not None
    edits = projections(bert, fit.prompts, 2)
    assert [edit.site for edit in edits] == [Site(1, "mlp"), Site(2, "mlp")]
    basis = cast(Projection, edits[0]).basis
    down = cast(Any, bert.down_projection(1))
    left = torch.eye(32) - basis.T @ basis
    expected, bias = left @ down.weight, left @ down.bias
    with bert.edited(*edits):
        edited = outputs(bert)
    with folded(bert, plan_folding(bert, edits)):
        torch.testing.assert_close(down.weight.data, expected, atol=1e-6, rtol=0)
        torch.testing.assert_close(down.bias.data, bias, atol=1e-6, rtol=0)
        for name, value in outputs(bert).items():
            torch.testing.assert_close(value, edited[name], atol=1e-5, rtol=0)


def test_a_steering_vector_leads_from_stereotyped_to_other_sentences(bert: Model, fit: Battery) -> None:
    site = Site(1, "block")
    stereotyped, other = sentence_states(bert, fit.triples, site)
    (edit,) = SteeringAway(gated=False).candidates(bert, fit)[1].edits
    assert isinstance(edit, Steering)
    assert (edit.site, edit.strength, edit.probe) == (site, 20.0, None)
    torch.testing.assert_close(edit.vector, torch.from_numpy(other.mean(0) - stereotyped.mean(0)).float())
    (gated,) = SteeringAway(gated=True).candidates(bert, fit)[0].edits
    assert isinstance(gated, Steering)
    assert gated.probe is not None
    yes = [float(gated.probe(torch.from_numpy(each)).mean()) for each in (stereotyped, other)]
    assert yes[0] > yes[1]


@pytest.mark.slow
def test_plain_steering_is_exported_and_one_with_a_probe_is_refused(
    bert: Model, fit: Battery, tmp_path: Path
) -> None:
    plain = SteeringAway(gated=False).candidates(bert, fit)[-1]
    report = export(bert, plain.edits, tmp_path / "folder")
    assert not report.folded  # the residual stream carries it on
    assert report.max_difference < 1e-5
    with pytest.raises(CannotDo, match="Steering with a probe cannot be exported"):
        export(bert, SteeringAway(gated=True).candidates(bert, fit)[0].edits, tmp_path / "other")


def test_strength_zero_changes_no_bit(bert: Model, fit: Battery) -> None:
    plain = outputs(bert)
    (edit,) = SteeringAway(gated=True).candidates(bert, fit)[0].edits
    assert fit.prompts is not None
    nothing: list[Edit] = [
        replace(cast(Steering, edit), strength=0.0),
        *neuron_gates(bert, {(0, 3): 1.0}),
        *(
            Projection(each.site, cast(Projection, each).basis, torch.zeros(1))
            for each in projections(bert, fit.prompts, 1)
        ),
    ]
    with bert.edited(*nothing):
        assert all(torch.equal(value, plain[name]) for name, value in outputs(bert).items())


@pytest.mark.slow
def test_an_erasure_is_what_its_recipe_says(bert: Model, fit: Battery) -> None:
    for rival in (each for each in RIVALS if isinstance(each, Erasure)):
        strongest = rival.candidates(bert, fit)[-1]
        assert strongest.recipe is not None
        made = edits_of(bert, strongest.recipe)
        with bert.edited(*made):
            expected = outputs(bert)
        with bert.edited(*strongest.edits):
            ours = outputs(bert)
        for name, value in ours.items():
            torch.testing.assert_close(value, expected[name], atol=1e-5, rtol=0)


def test_what_a_rival_cannot_do_it_says_in_one_line(fit: Battery) -> None:
    experts, race = tiny("mixtral"), load_words("race")
    assert "experts" in Dama().why_not(experts, fit)
    assert "experts" in NeuronAblation().why_not(experts, fit)
    without = replace(fit, prompts=None)
    assert "no prompts" in Dama().why_not(tiny("bert"), without)
    assert "log-odds" in HeadAblation(LOG_ODDS).why_not(tiny("bert"), without)
    other = replace(fit, test=race)
    assert "stereotyped sentences" in SteeringAway(gated=True).why_not(tiny("bert"), other)
    assert "predicts no words" in SelfDebiasing().why_not(tiny("bert", "nli"), fit)
    assert race.labels[0] in asking_for(race)


def test_a_recipe_of_neurons_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text("[[neurons]]\nlayer = 2\nnumbers = [3, 1]\nvalue = 0.5\n", encoding="utf-8")
    recipe = lh.load_recipe(path)
    assert dict(recipe.neurons) == {(1, 2): 0.5, (1, 0): 0.5}
    assert isinstance(recipe, Recipe)
    for wrong, match in [
        ("numbers = [0]", "counted from 1"),
        ("numbers = [2, 2]", "distinct"),
        ("numbers = []", "list of distinct"),
        ("numbers = [1]\nvalue = 'x'", "value must be a number"),
    ]:
        path.write_text(f"[[neurons]]\nlayer = 1\n{wrong}\n", encoding="utf-8")
        with pytest.raises(lh.LevelheadError, match=match):
            lh.load_recipe(path)
