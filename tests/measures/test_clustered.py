"""Means of items that hang together, against statsmodels' cluster-robust errors."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray

from levelhead.errors import BadProbe
from levelhead.measures.clustered import cluster_t, cluster_test, clustered_mean


def together(
    groups: int, size: int, seed: int, mean: float = 0.0
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Items whose groups differ more than the items within them."""
    rng = np.random.default_rng(seed)
    label = np.repeat(np.arange(groups), size)
    return mean + rng.normal(size=groups)[label] + 0.3 * rng.normal(size=label.size), label


def test_t_by_hand() -> None:
    """Values 1, 3 | 2, 6, mean 3: sums of deviations −2 and 2, so t = 3 · 4 / sqrt(2 · 8)."""
    assert cluster_t(np.array([1.0, 3.0, 2.0, 6.0]), np.array([0, 0, 1, 1])) == 3.0


@pytest.mark.parametrize("seed", range(3))
def test_t_is_that_of_statsmodels(seed: int) -> None:
    values, label = together(14, 5, seed, 0.4)
    fit = sm.OLS(values, np.ones(values.size)).fit(cov_type="cluster", cov_kwds={"groups": label})
    assert cluster_t(values, label) == pytest.approx(float(fit.tvalues[0]), rel=1e-10)


def test_with_one_item_a_cluster_t_is_students() -> None:
    values = np.random.default_rng(4).normal(0.3, 1.0, size=30)
    expected = values.mean() / (values.std(ddof=1) / np.sqrt(30))
    assert cluster_t(values, np.arange(30)) == pytest.approx(expected)


def test_clusters_make_the_test_honest() -> None:
    """200 means of nothing: by item a third is 'significant', by cluster 5 %."""
    samples = [together(12, 20, seed) for seed in range(200)]
    by_item = [abs(cluster_t(values, np.arange(values.size))) > 1.97 for values, _ in samples]
    by_cluster = [cluster_test(values, label).p_value < 0.05 for values, label in samples]
    assert np.mean(by_item) > 0.3
    assert np.mean(by_cluster) < 0.1


def test_the_clustering_that_is_least_sure_counts() -> None:
    values, template = together(20, 6, 1, 1.0)
    target = np.tile(np.arange(6), 20)
    measured = clustered_mean("change", values, {"template": template, "target": target})
    assert measured.value == pytest.approx(values.mean())
    p = {key: measured.details[f"p by {key}"] for key in ("template", "target")}
    assert measured.details["p_value"] == max(p["template"] or 0, p["target"] or 0)
    assert measured.details["clusters by template"] == 20
    assert measured.details["clusters by target"] == 6
    one = clustered_mean("change", values, {"template": template}).interval
    other = clustered_mean("change", values, {"target": target}).interval
    assert measured.interval in (one, other)
    assert one is not None
    assert other is not None
    assert measured.interval is not None
    assert measured.interval[1] - measured.interval[0] == max(one[1] - one[0], other[1] - other[0])


def test_turning_all_signs_turns_the_value_and_leaves_p() -> None:
    values, label = together(15, 4, 2, 0.5)
    one, other = (clustered_mean("d", sign * values, {"template": label}) for sign in (1, -1))
    assert other.value == pytest.approx(-(one.value or 0))
    assert other.details["p_value"] == pytest.approx(one.details["p_value"], abs=0.01)


def test_unscored_items_are_counted_and_too_few_are_not_measured() -> None:
    values, label = together(5, 3, 3)
    values[4] = np.nan
    measured = clustered_mean("d", values, {"template": label})
    assert measured.n == 14
    assert measured.unscored == {"item without a value": 1}
    assert clustered_mean("d", [1.0, np.nan], {"t": [0, 1]}).value is None
    assert clustered_mean("d", values, {}).reason == "no clustering given"
    with pytest.raises(BadProbe, match="one label"):
        cluster_test([1.0, 2.0], [0, 1, 2])
