"""Holm's correction, against statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.stats.multitest import multipletests

from levelhead.errors import BadProbe
from levelhead.measures.corrections import corrected, holm


def test_three_claims_by_hand() -> None:
    np.testing.assert_allclose(holm([0.02, 0.01, 0.5]), [0.04, 0.03, 0.5])
    np.testing.assert_allclose(holm([0.04, 0.03, 0.02]), [0.06, 0.06, 0.06])


@pytest.mark.parametrize("seed", range(5))
def test_holm_is_that_of_statsmodels(seed: int) -> None:
    p = np.random.default_rng(seed).uniform(size=17) ** 3
    np.testing.assert_allclose(holm(p), multipletests(p, method="holm")[1], atol=1e-15)


def test_what_was_not_tested_is_no_claim_and_shapes_stay() -> None:
    grid = holm([[0.01, np.nan], [0.04, np.nan]])
    np.testing.assert_array_equal(grid, [[0.02, np.nan], [0.04, np.nan]])
    assert corrected({"seat": 0.01, "heads": None, "lpbs": 0.04}) == {
        "seat": 0.02,
        "heads": None,
        "lpbs": 0.04,
    }
    assert corrected({}) == {}


def test_pages_without_anything_are_wrong_in_at_most_five_percent() -> None:
    p = np.random.default_rng(9).uniform(size=(2_000, 12))
    wrong = np.mean([holm(page).min() < 0.05 for page in p])
    assert 0.03 < wrong < 0.065
    assert np.mean(p.min(axis=1) < 0.05) > 0.4  # uncorrected


def test_numbers_that_are_no_probabilities_are_refused() -> None:
    with pytest.raises(BadProbe, match=r"outside 0\.\.1"):
        holm([0.5, 1.5])
