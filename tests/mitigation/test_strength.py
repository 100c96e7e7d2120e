"""Strengths of a recipe: part of a projection, and steering by a multiple of a difference of means."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from levelhead.edits.sites import Site
from levelhead.edits.steering import Steering, difference_of_means
from levelhead.edits.subspace import AffineErasure, Projection
from levelhead.errors import BadOption
from levelhead.mitigation import fitting
from levelhead.mitigation.fitting import middle, sentence_states, steering_triples, triple_contexts
from levelhead.mitigation.mitigate import edits_of
from levelhead.mitigation.recipe import Recipe, Step, parse_recipe
from levelhead.probes.triples import load_triples
from tests.tiny import tiny

SITE = Site(1, "block")


def test_a_scaled_edit_moves_a_state_by_that_share_of_its_step() -> None:
    h = torch.tensor([[3.0, 4.0, 5.0]])
    hard = Projection(SITE, torch.tensor([[1.0, 0.0, 0.0]]), torch.ones(1))
    assert hard.scaled(0.25)(h).tolist() == [[2.25, 4.0, 5.0]]
    left, right = torch.tensor([[1.0], [0.0], [0.0]]), torch.tensor([[1.0, 0.0, 0.0]])
    erasure = AffineErasure(SITE, left, right, torch.tensor([1.0, 0.0, 0.0]))
    assert erasure.scaled(0.5)(h).tolist() == [[2.0, 4.0, 5.0]]


@pytest.mark.parametrize("method", ["pca", "inlp"])
def test_a_recipes_strength_is_that_of_its_fitted_projection(method: str) -> None:
    model = tiny("bert")
    whole, half = (
        edits_of(model, Recipe(projections=(Step("tokens", 1, method=method, strength=s),)))  # type: ignore[arg-type]
        for s in (1.0, 0.5)
    )
    (one,), (other,) = whole, half
    assert isinstance(one, Projection)
    assert isinstance(other, Projection)
    torch.testing.assert_close(other.basis, one.basis)
    torch.testing.assert_close(other.weights, 0.5 * one.weights)


def test_steering_of_a_recipe_is_a_multiple_of_the_difference_of_means_in_the_middle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few, model = load_triples().at_most(12), tiny("bert")
    monkeypatch.setattr(fitting, "load_triples", lambda: few)
    fit, held_out = steering_triples(), steering_triples(held_out=True)
    assert sorted(triple_contexts(fit) + triple_contexts(held_out)) == sorted(triple_contexts(few))
    (edit,) = edits_of(model, parse_recipe("[steering]\nstrength = 20.0\n", "recipe.toml"))
    assert isinstance(edit, Steering)
    assert (edit.site, edit.strength) == (Site(1, "block"), 20.0)
    stereotyped, other = sentence_states(model, fit, middle(model))
    expected = difference_of_means(to=other, away=stereotyped)
    np.testing.assert_allclose(edit.vector, expected, atol=1e-5)
    assert expected.abs().max() > 1e-4


@pytest.mark.parametrize("given", ["", "strength = 0", "strength = true"])
def test_steering_without_a_strength_changes_nothing_and_is_one_line(given: str) -> None:
    with pytest.raises(BadOption, match=r"^recipe.toml: [^\n]+$"):
        parse_recipe(f"[steering]\n{given}\n", "recipe.toml")
