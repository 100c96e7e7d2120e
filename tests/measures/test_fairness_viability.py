"""What a mitigated model may lose: five points of an ability."""

from __future__ import annotations

import math

import pytest

from levelhead.measures.fairness import viable
from levelhead.probes.published import published_projections


def test_five_points_below_the_base_is_viable_and_more_is_not() -> None:
    assert viable(0.8389, 0.8889) is True
    assert viable(0.8388, 0.8889) is False
    assert viable(0.95, 0.8889) is True


def test_rounding_of_floats_makes_no_model_unviable() -> None:
    assert 0.54 - 0.05 > 0.49
    assert viable(0.49, 0.54) is True


@pytest.mark.parametrize("unknown", [None, math.nan])
def test_what_was_not_measured_is_neither_viable_nor_not(unknown: float | None) -> None:
    assert viable(unknown, 0.8889) is None
    assert viable(0.8889, unknown) is None


def test_20_of_the_papers_74_models_are_viable_but_its_best_of_layer_11_is_not() -> None:
    published = published_projections()
    base = published.models[0].ability
    assert sum(viable(model.ability, base) is True for model in published.models[2:]) == 20
    (best,) = [best for best in published.best if best.level == "Layer 11"]
    assert viable(best.ability, base) is False
