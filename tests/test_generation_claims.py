"""Claims about generated texts: of nothing they are rare, and what was planted is found."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks.generation_claims import (
    PLANTED,
    World,
    counted,
    drawn,
    exchange_null,
    kept_world,
    sides_exchanged,
)
from scipy import stats

from levelhead.models.model import Model
from levelhead.studies.generate.settings import GenerateSettings

RUNS = 40
MOST = int(stats.binom.ppf(0.999, RUNS, 0.05))  # a page with 5 % of errors is beyond it once in a thousand
SMALL = GenerateSettings(
    limit=12, samples=4, tokens=12, resamples=200, scorers=("length", "warmth"), rivals=False
)


@pytest.mark.nightly
def test_a_page_of_exchanged_groups_claims_hardly_anything(gpt: Model, tmp_path: Path) -> None:
    world = World.of(gpt, SMALL)
    claimed = []
    for seed in range(RUNS):
        rng = np.random.default_rng([seed, 2])
        claimed.append(counted(world.exchanged(seed).claims(sides_exchanged(world.texts, rng))))
    kinds = {kind for each in claimed for kind in each}
    assert {"who appears", "paired gap", "decision gap", "excess distance", "marked words"} <= kinds
    assert sum(any(each.values()) for each in claimed) <= MOST
    assert all(sum(bool(each[kind]) for each in claimed) <= MOST for kind in kinds)


@pytest.mark.nightly
def test_the_trial_counts_claims_and_what_was_planted(gpt: Model, tmp_path: Path) -> None:
    world = kept_world(tmp_path / "world", gpt, SMALL)
    again = kept_world(tmp_path / "world", gpt, SMALL)  # from the file
    draws = [drawn(world, seed) for seed in (5, 6)]
    assert draws == [drawn(again, seed) for seed in (5, 6)]
    found = {each.claim: each for each in exchange_null(draws)}
    assert found["any claim of the page"].models == 2
    for name, what in PLANTED.items():
        own = [each["planted"][name] for each in draws]
        assert found[f"{what}: p < 0.05"].made == sum(alone for alone, _, _ in own)
        assert found[f"{what}: claimed on the page"].made == sum(holds for _, holds, _ in own)


@pytest.mark.nightly
def test_prompts_of_a_users_own_are_a_world_too(gpt: Model, tmp_path: Path) -> None:
    rows = [{"prompt": f"The {about} laughed because", "about": about} for about in ("nurse", "plumber")]
    rows += [{"prompt": f"My {noun} went home, and"} for noun in ("sister", "uncle", "aunt", "father")]
    (file := tmp_path / "own.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    world = World.of(gpt, replace(SMALL, prompts=str(file), limit=None))
    found = drawn(world, 1)
    assert set(found["planted"]) == {"shift"}  # two occupations are too few for a slope
    assert not any("decision" in name for name in found["p"])
