"""Steering and partial least squares by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from levelhead.edits.sites import Site
from levelhead.edits.steering import Probe, Steering, difference_of_means, fit_probe, partial_least_squares
from levelhead.errors import BadProbe

SITE = Site(0, "block")


def test_states_move_by_c_times_the_difference_of_means() -> None:
    v = difference_of_means(to=[[1.0, 2.0], [3.0, 4.0]], away=[[0.0, 1.0]])
    assert v.tolist() == [2.0, 2.0]
    h = torch.tensor([[1.0, -1.0], [0.5, 0.0]])
    assert torch.equal(Steering(SITE, v, 0.5)(h), h + 1)
    assert Steering(SITE, v, 0.0)(h) is h


def test_a_probe_opens_steering_only_where_it_says_yes() -> None:
    probe = Probe(torch.tensor([1.0, 0.0]), -1.0)  # yes where the first coordinate is above 1
    h = torch.tensor([[[2.0, 0.0], [1.0, 0.0], [0.0, 5.0]]])
    steered = Steering(SITE, torch.tensor([0.0, 3.0]), 2.0, probe)(h)
    assert torch.equal(steered, torch.tensor([[[2.0, 6.0], [1.0, 0.0], [0.0, 5.0]]]))


def test_a_fitted_probe_tells_its_groups_apart_and_is_undecided_halfway_between_their_means() -> None:
    generator = np.random.default_rng(0)
    yes, no = generator.normal(1, 1, (60, 4)), generator.normal(-1, 1, (40, 4))
    probe = fit_probe(yes, no)
    said = [float(probe(torch.from_numpy(each).float()).mean()) for each in (yes, no)]
    assert said[0] > 0.9
    assert said[1] < 0.1
    middle = torch.from_numpy((yes.mean(0) + no.mean(0)) / 2).float()
    assert float(middle @ probe.weights) + probe.bias == pytest.approx(0, abs=1e-5)
    with pytest.raises(BadProbe, match="both groups"):
        fit_probe([], no)


def test_the_first_direction_of_partial_least_squares_is_that_of_the_largest_covariance() -> None:
    x = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    y = np.array([2.0, -2.0, 1.0, -1.0])
    found = partial_least_squares(x, y, 1)
    np.testing.assert_allclose(found, [[2 / 5**0.5, 1 / 5**0.5]])


def test_further_directions_are_orthonormal_and_explain_what_is_left() -> None:
    generator = np.random.default_rng(1)
    x = generator.normal(size=(50, 6)) * np.arange(1, 7)
    y = x @ np.array([1.0, -2.0, 0.5, 0.0, 0.0, 3.0])
    found = partial_least_squares(x, y, 6)
    np.testing.assert_allclose(found @ found.T, np.eye(6), atol=1e-9)
    centered, left = x - x.mean(0), []
    for rank in (1, 3, 6):
        t = centered @ found[:rank].T
        fitted = t @ np.linalg.lstsq(t, y - y.mean(), rcond=None)[0]
        left.append(float(np.linalg.norm(y - y.mean() - fitted)))
    assert left[0] > left[1] > left[2]
    assert left[2] < 1e-8
    with pytest.raises(BadProbe, match="fewer than states \\(got 2 of 2 states\\)"):
        partial_least_squares([[1.0, 0.0], [-1.0, 0.0]], [1.0, -1.0], 2)
    with pytest.raises(BadProbe, match="at most 1 \\(got 2\\)"):
        partial_least_squares([[1.0, 0.0], [-1.0, 0.0], [2.0, 0.0], [-2.0, 0.0]], [1.0, -1.0, 2.0, -2.0], 2)
