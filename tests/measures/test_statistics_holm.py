"""Holm's correction by hand, against statsmodels, and how often a page of claims then claims too much."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats
from statsmodels.stats.multitest import multipletests

from levelhead.errors import BadProbe
from levelhead.measures.statistics import FloatArray, holm, q_values

P_VALUES = arrays.arrays(np.float64, st.integers(1, 30), elements=st.floats(0, 1))


def test_three_claims_by_hand() -> None:
    # sorted 0.01, 0.02, 0.04: times 3, 2, 1; the last is raised to the one before it
    assert holm([0.04, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.5, 0.6]) == pytest.approx([1.0, 1.0])


def test_weights_by_hand() -> None:
    # p / w: 0.01, 0.015, 0.04; remaining weights 4, 2, 1
    assert holm([0.02, 0.015, 0.04], [2, 1, 1]) == pytest.approx([0.04, 0.04, 0.04])
    assert holm([0.03, 0.2, 0.3], [2, 1, 1]) == pytest.approx([0.06, 0.4, 0.4])
    with pytest.raises(BadProbe, match="weights"):
        holm([0.1, 0.2], [1.0, 0.0])


@pytest.mark.parametrize("seed", range(8))
def test_holm_is_that_of_statsmodels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = np.round(rng.random(1 + 5 * seed) ** 3, 2)  # rounded, so that ties occur
    assert holm(p, np.full(p.size, 0.3)) == pytest.approx(holm(p))
    assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])


@given(P_VALUES)
def test_no_claim_gets_easier_and_one_alone_stays_as_it_was(p: FloatArray) -> None:
    adjusted = holm(p)
    assert (adjusted >= p).all()
    assert (adjusted >= q_values(p) - 1e-12).all()
    assert holm(p[:1]) == pytest.approx(p[:1])


def test_claims_without_a_test_are_not_counted() -> None:
    adjusted = holm([[0.02, np.nan], [0.04, np.nan]])
    assert adjusted[:, 0] == pytest.approx([0.04, 0.04])
    assert np.isnan(adjusted[:, 1]).all()


def test_a_page_of_twenty_claims_about_nothing_is_false_in_five_percent_and_was_in_most() -> None:
    rng = np.random.default_rng(0)
    z = rng.normal(size=(1_000, 20)) + rng.normal(size=(1_000, 1))  # claims of one page depend on each other
    p = 2 * stats.norm.sf(np.abs(z) / np.sqrt(2))
    for weights in (np.ones(20), np.r_[19.0, np.ones(19)]):
        false = sum(bool((holm(page, weights) < 0.05).any()) for page in p)
        assert false <= stats.binom.ppf(0.9995, 1_000, 0.05)
    assert np.mean((p < 0.05).any(axis=1)) > 0.4


def test_what_is_no_p_value_is_refused() -> None:
    with pytest.raises(BadProbe, match=r"must lie in 0\.\.1"):
        holm([0.2, 1.4])
