"""Null models of a benchmark: on how many items, how many of them, and what they are held against."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from levelhead.edits.sites import Variant
from levelhead.measures.measurement import Measurement, Null
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model
from levelhead.scoring.benchmarks.catalog import (
    FEWEST_ITEMS,
    LoadedBenchmark,
    NullPlan,
    usual_nulls,
    with_nulls,
)
from levelhead.scoring.benchmarks.crows_pairs import CROWS_PAIRS
from levelhead.scoring.benchmarks.protocol import Item, Items
from tests.tiny import tiny

FAR = Null("sign flips", 999, 0.0, 0.1, 0.001)
NEAR = Null("sign flips", 999, 0.0, 0.1, 0.4)


class Scored:
    """A benchmark whose scores are given: of the model, of the model on some items, of null models."""

    info = CROWS_PAIRS.info

    def __init__(self, items: int, model: float, some: float, nulls: Sequence[float]) -> None:
        self.items, self._model, self._some, self._nulls = items, model, some, list(nulls)
        self.evaluated: list[tuple[str, int]] = []

    def ask(
        self, model: Model, items: Items, variants: Sequence[Variant], *_: Any
    ) -> list[list[Measurement]]:
        """One score; what is not the model itself is its next null model."""
        null = bool(model.standing)
        value = self._nulls.pop(0) if null else self._model if len(items.items) == self.items else self._some
        self.evaluated.append(("null" if null else "model", len(items.items)))
        return [[Measurement("share", value, n=len(items.items), neutral=0.0, details={"rms": 1.0})]]


def asked(scored: Scored) -> LoadedBenchmark:
    items = Items("f.csv", tuple(Item(str(i), "gender", str(i)) for i in range(scored.items)))
    return LoadedBenchmark(scored, items, "levelhead", Resampling(100))  # type: ignore[arg-type]


def held(scored: Scored, own: Null | None, plan: NullPlan) -> Measurement:
    measured = [Measurement("share", 1.0, n=scored.items, neutral=0.0, details={"rms": 1.0}, null=own)]
    (found,) = with_nulls(asked(scored), measured, plan, tiny("gpt2"))
    return found


@pytest.mark.parametrize("items", [60, 300, 301, 599, 1508, 30_000])
def test_by_default_null_models_of_a_long_benchmark_cost_no_more_than_it_does(items: int) -> None:
    scored = Scored(items, 1.0, 1.0, [0.0, 0.1, -0.1, 0.05, -0.05])
    plan = usual_nulls(items)
    held(scored, FAR, plan)
    work = sum(n for _, n in scored.evaluated)
    assert all(n >= min(items, FEWEST_ITEMS) for _, n in scored.evaluated)
    if items >= 300:
        assert work <= 1.02 * items
        assert plan.work <= 1


def test_null_models_are_held_against_the_model_on_the_same_items() -> None:
    nulls = [0.0, 0.1, -0.1, 0.05, -0.05]
    outside = held(Scored(1508, 1.0, 1.0, nulls), FAR, usual_nulls(1508))
    inside = held(Scored(1508, 1.0, 0.04, nulls), FAR, usual_nulls(1508))  # not so on these items
    assert outside.null is not None
    assert outside.null.p_value < 0.01
    assert outside.settings["null models"] == "on one of 6 items"
    assert inside.null is not None
    assert inside.null.p_value > 0.5
    assert inside.value == outside.value == 1.0


def test_null_models_that_cannot_change_the_verdict_are_not_asked() -> None:
    nulls = [0.9, 1.1, 0.95, 1.05, 1.2]
    among = Scored(1508, 1.0, 1.0, nulls)
    found = held(among, FAR, usual_nulls(1508))
    assert among.evaluated == [("model", 252), *[("null", 252)] * 3]  # futile after 3 of 5
    assert found.null is not None
    assert found.null.futile
    assert found.null.p_value > 0.05
    own = Scored(1508, 1.0, 1.0, [0.0, 0.1, -0.1, 0.05, -0.05])
    assert held(own, NEAR, usual_nulls(1508)).null == NEAR  # its own test says no already
    assert len(own.evaluated) == 4


def test_a_number_that_was_asked_for_is_asked_on_all_items() -> None:
    scored = Scored(1508, 1.0, 1.0, [0.9, 1.1, 0.95, 1.05, 1.2])
    held(scored, FAR, NullPlan(5))
    assert scored.evaluated == [("null", 1508)] * 5
