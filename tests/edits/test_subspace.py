"""Subspaces, projections, LEACE and INLP against arithmetic by hand and independent libraries."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
import torch
from concept_erasure import LeaceEraser
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression

from levelhead.edits.sites import Edit, Site
from levelhead.edits.subspace import (
    Projection,
    fit_subspace,
    inlp,
    largest_on,
    largest_on_host,
    leace,
    projection,
)
from levelhead.errors import BadOption, BadProbe

Doubles = npt.NDArray[np.float64]
TOKENS, VALUES = Site(1, "block"), Site(1, "value")


@pytest.fixture
def differences() -> Doubles:
    rng = np.random.default_rng(3)
    spread, shared = np.array([5.0, 3.0, 2.0] + [0.5] * 9), np.array([4.0] + [0.0] * 11)
    return np.asarray(rng.normal(size=(40, 12)) * spread + shared)


def test_directions_of_two_pairs_by_hand() -> None:
    space = fit_subspace(TOKENS, [[3.0, 0.0, 0.0], [0.0, 0.0, -4.0]])
    assert torch.allclose(space.basis, torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]))
    assert torch.allclose(space.explained, torch.tensor([16 / 25, 9 / 25]))


def test_subspace_equals_sklearns_pca_of_both_halves(differences: Doubles) -> None:
    halves = np.concatenate([differences / 2, -differences / 2])
    reference = PCA(n_components=4).fit(halves)
    space = fit_subspace(TOKENS, differences)
    assert np.allclose(space.explained[:4].numpy(), reference.explained_variance_ratio_, atol=1e-5)
    cosines = np.abs((space.basis[:4].numpy() * reference.components_).sum(axis=1))
    assert np.allclose(cosines, 1, atol=1e-5)


def test_a_difference_common_to_all_pairs_is_found_not_centered_away() -> None:
    rng = np.random.default_rng(0)
    shared = np.zeros(6)
    shared[2] = 3.0
    space = fit_subspace(TOKENS, shared + 0.01 * rng.normal(size=(20, 6)))
    assert space.explained[0] > 0.99
    assert abs(float(space.basis[0, 2])) > 0.999


def test_swapping_all_pairs_changes_no_subspace(differences: Doubles) -> None:
    one, other = fit_subspace(TOKENS, differences), fit_subspace(TOKENS, -differences)
    assert torch.allclose(one.basis, other.basis, atol=1e-6)
    assert torch.allclose(one.explained, other.explained, atol=1e-6)


def test_every_head_gets_its_own_subspace(differences: Doubles) -> None:
    heads = differences.reshape(40, 3, 4)
    space = fit_subspace(VALUES, heads)
    for head in range(3):
        alone = fit_subspace(VALUES, heads[:, head])
        assert torch.allclose(space.basis[head], alone.basis, atol=1e-6)
        assert torch.allclose(space.explained[head], alone.explained, atol=1e-6)


@pytest.mark.parametrize("dimensions", [1, 2, 4])
def test_after_a_hard_projection_the_component_is_zero_and_twice_is_once(
    differences: Doubles, dimensions: int
) -> None:
    edit = projection(fit_subspace(TOKENS, differences), dimensions)
    h = torch.randn(3, 5, 12, generator=torch.Generator().manual_seed(1)) * 10
    once = edit(h)
    assert (once @ edit.basis.T).abs().max() < 1e-5
    assert torch.allclose(edit(once), once, atol=1e-5)
    assert not torch.allclose(once, h, atol=0.1)


def test_hard_projection_of_heads_zeroes_each_heads_own_component(differences: Doubles) -> None:
    edit = projection(fit_subspace(VALUES, differences.reshape(40, 3, 4)), 1)
    h = torch.randn(2, 5, 3, 4, generator=torch.Generator().manual_seed(1))
    once = edit(h)
    assert (once * edit.basis[:, 0]).sum(-1).abs().max() < 1e-5
    assert torch.allclose(edit(once), once, atol=1e-5)


def test_soft_with_v_0_changes_nothing_and_with_v_1_equals_hard(differences: Doubles) -> None:
    hard = projection(fit_subspace(TOKENS, differences), 2)
    h = torch.randn(4, 12, generator=torch.Generator().manual_seed(1))
    assert torch.equal(Projection(TOKENS, hard.basis, torch.zeros(2))(h), h)
    assert torch.equal(Projection(TOKENS, hard.basis, torch.ones(2))(h), hard(h))


def test_soft_projection_takes_out_the_share_that_a_direction_explains(differences: Doubles) -> None:
    space = fit_subspace(TOKENS, differences)
    h = torch.randn(4, 12, generator=torch.Generator().manual_seed(1))
    left = projection(space, 2, soft=True)(h) @ space.basis[:2].T
    assert torch.allclose(left, (h @ space.basis[:2].T) * (1 - space.explained[:2]), atol=1e-5)


def test_more_dimensions_than_pairs_is_one_clear_sentence() -> None:
    space = fit_subspace(TOKENS, np.eye(6)[:2] * 3)
    with pytest.raises(BadOption, match=r"1 to 2 \(got 3\): .* layer 2 .* 2 pairs"):
        projection(space, 3)


def test_tokens_of_one_pair_do_not_count_as_several_pairs(differences: Doubles) -> None:
    space = fit_subspace(TOKENS, differences, pairs=1)
    assert (space.pairs, space.vectors, space.dimensions) == (1, 40, 1)
    with pytest.raises(BadOption, match=r"1 to 1 \(got 2\): .* on 1 pairs"):
        projection(space, 2)


@pytest.mark.parametrize("bad", [np.zeros((0, 4)), np.zeros(4), np.full((2, 4), np.nan)])
def test_differences_that_cannot_be_fitted_are_refused(bad: Doubles) -> None:
    with pytest.raises(BadProbe, match="cannot be fitted"):
        fit_subspace(TOKENS, bad)


def test_pairs_that_make_no_difference_are_refused() -> None:
    with pytest.raises(BadProbe, match="make no difference at the tokens of layer 2"):
        fit_subspace(TOKENS, np.zeros((5, 4)))


# ---- LEACE and INLP


def two_groups(seed: int = 0, n: int = 200) -> tuple[Doubles, Doubles]:
    rng = np.random.default_rng(seed)
    mixing = rng.normal(size=(6, 6))
    apart = np.array([2.0, -1.0, 0.0, 0.0, 1.0, 0.0])
    return rng.normal(size=(n, 6)) @ mixing + apart, rng.normal(size=(n, 6)) @ mixing - apart


def probe_accuracy(first: Doubles, second: Doubles) -> float:
    states, labels = np.concatenate([first, second]), np.arange(len(first) * 2) < len(first)
    return float(LogisticRegression(C=1e4, max_iter=2000).fit(states, labels).score(states, labels))


def edited(edit: Edit, states: Doubles) -> Doubles:
    return np.asarray(edit(torch.from_numpy(states).float()), np.float64)


def test_leace_equals_the_reference_and_no_linear_probe_beats_chance() -> None:
    first, second = two_groups()
    edit = leace(TOKENS, first, second)
    states = torch.from_numpy(np.concatenate([first, second]))
    reference = LeaceEraser.fit(states, (torch.arange(400) < 200).long())
    assert np.allclose(edited(edit, first), reference(states)[:200].numpy(), atol=1e-4)
    assert probe_accuracy(first, second) > 0.75
    assert probe_accuracy(edited(edit, first), edited(edit, second)) < 0.55


def test_leace_at_heads_erases_each_head_by_itself() -> None:
    first, second = two_groups()
    edit = leace(VALUES, first.reshape(200, 2, 3), second.reshape(200, 2, 3))
    out = edited(edit, first.reshape(1, 200, 2, 3))
    for head in range(2):
        alone = leace(VALUES, first.reshape(200, 2, 3)[:, head], second.reshape(200, 2, 3)[:, head])
        assert np.allclose(out[0, :, head], edited(alone, first.reshape(200, 2, 3)[:, head]), atol=1e-4)


def test_each_round_of_inlp_leaves_less_to_tell_the_groups_apart() -> None:
    first, second = two_groups()
    accuracies = [probe_accuracy(first, second)]
    for rounds in (1, 3, 5):
        edit = inlp(TOKENS, first, second, rounds=rounds)
        assert torch.allclose(edit.basis @ edit.basis.T, torch.eye(rounds), atol=1e-5)
        assert np.abs(edited(edit, first) @ edit.basis.numpy().T).max() < 1e-4
        accuracies.append(probe_accuracy(edited(edit, first), edited(edit, second)))
    assert accuracies == sorted(accuracies, reverse=True)
    assert accuracies[-1] < 0.6 < 0.9 < accuracies[0]


def test_first_direction_of_inlp_is_the_least_squares_classifier() -> None:
    first, second = two_groups()
    states = np.concatenate([first, second])
    target = np.where(np.arange(400) < 200, 1.0, -1.0)
    weights = np.linalg.lstsq(states - states.mean(axis=0), target, rcond=None)[0]
    cosine = float(inlp(TOKENS, first, second, rounds=1).basis[0].numpy() @ weights / np.linalg.norm(weights))
    assert abs(cosine) > 0.999


def test_inlp_refuses_more_rounds_than_coordinates_and_groups_of_other_width() -> None:
    first, second = two_groups()
    with pytest.raises(BadOption, match="6 rounds of INLP on 6 coordinates"):
        inlp(TOKENS, first, second, rounds=6)
    with pytest.raises(BadProbe, match="must be \\[vector, hidden\\] of both"):
        leace(TOKENS, first, second[:, :4])


@pytest.mark.parametrize(("shape", "weakest"), [((30, 90), 0.5), ((90, 30), 0.5), ((30, 90), 1e-7)])
def test_directions_from_a_second_moment_are_those_of_an_svd(shape: tuple[int, int], weakest: float) -> None:
    """Wide and tall, and where the last direction asked for is so weak that squares would lose it."""
    differences = with_singular_values(shape, [9.0, 7.0, 5.0, 4.0, 3.0, 2.0, 1.0, weakest])
    fitted = fit_subspace(TOKENS, differences)
    _, expected, directions = np.linalg.svd(differences, full_matrices=False)
    assert fitted.dimensions == 8
    overlap = np.abs((fitted.basis.double().numpy() * directions[:8]).sum(axis=1))
    np.testing.assert_allclose(overlap, 1.0, atol=1e-6)
    np.testing.assert_allclose(fitted.explained, expected[:8] ** 2 / (expected**2).sum(), atol=1e-6)


@pytest.mark.parametrize(("shape", "weakest"), [((30, 90), 0.5), ((90, 30), 0.5), ((30, 90), 1e-7)])
def test_directions_computed_on_a_device_are_those_of_the_host(
    shape: tuple[int, int], weakest: float
) -> None:
    differences = with_singular_values(shape, [9.0, 5.0, 2.0, weakest])
    sizes, directions, total = largest_on(torch.device("cpu"), differences, 4)
    expected_sizes, expected, expected_total = largest_on_host(differences, 4)
    assert total == pytest.approx(expected_total) == pytest.approx((differences**2).sum())
    np.testing.assert_allclose(sizes, expected_sizes, rtol=1e-6)
    np.testing.assert_allclose(np.abs((directions * expected).sum(axis=1)), 1, atol=1e-6)


def with_singular_values(shape: tuple[int, int], sizes: list[float]) -> Doubles:
    """A matrix of this shape with these singular values and no other."""
    rng = np.random.default_rng(0)
    u, v = (np.linalg.qr(rng.normal(size=(n, len(sizes))))[0] for n in shape)
    return np.asarray(u * np.array(sizes) @ v.T)
