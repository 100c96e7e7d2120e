"""Every claim of a page is held against what a null model shows, not against 0.

Each case lies clearly on one side of 0 with a tiny p, and not on that side of its floor.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from levelhead.inference.claims import Claim
from levelhead.inference.headline import headline_claims
from levelhead.measures.catalog import MeasureInfo, verdict
from levelhead.measures.measurement import Measurement, Null
from levelhead.runs.common import BASE, MeasuredVariant
from levelhead.runs.folder import Run
from levelhead.studies.audit import Audit
from levelhead.studies.heads import Heads
from levelhead.studies.heads.records import HEAD_AGREEMENT
from tests.report.synthetic import heads_settings, measured
from tests.report.test_headline import SETTINGS, cross_fitted

WIDTH = MeasureInfo("width", "Width", neutral=0.0, above="is wide", below="is narrow")


def held_against(name: str, value: float, floor: float, half: float = 0.02) -> Measurement:
    """A measurement with a narrow interval and a tiny p against a null with this floor."""
    null = Null("null models", 19, floor, 0.03, 0.0001)
    return measured(name, value, half, neutral=0.0, null=null)


def claims_of(
    folder: Path, base: list[Measurement], cross_fit: list[Measurement] | None = None
) -> dict[str, tuple[Claim, bool]]:
    """The claims of an audit with these numbers: each with whether it holds."""
    with Run.open(folder, Audit, SETTINGS) as run:
        run.results(Audit.measured.of("all"), [MeasuredVariant(BASE, "tiny", each) for each in base].copy)
        run.results(Audit.measures, [WIDTH].copy)
    with Run.open(folder / Audit.heads.folder, Heads, heads_settings()) as run:
        run.results(Heads.cross_fit, (cross_fit or []).copy)
    return {name: (claim, holds) for name, claim, holds in headline_claims(Audit.open(folder))}


@pytest.mark.parametrize("name", ["preference", "strength", "log_odds", "width"])
def test_a_value_within_noise_of_its_floor_is_not_claimed_however_far_from_0(
    name: str, tmp_path: Path
) -> None:
    near = claims_of(tmp_path / "near", [held_against(name, 0.41, floor=0.4)])
    assert [holds for _, holds in near.values()] == [False]
    far = claims_of(tmp_path / "far", [held_against(name, 0.41, floor=0.3)])
    assert [holds for _, holds in far.values()] == [True]


def test_an_association_below_that_of_models_without_meaning_is_the_reverse(tmp_path: Path) -> None:
    seat = held_against("seat", 0.1, floor=0.4)
    ((claim, holds),) = claims_of(tmp_path, [seat]).values()
    assert holds
    assert "the reverse of stereotypes: SEAT 0.10" in claim.spoken
    assert verdict(seat) == "runs against the stereotype"


def test_odds_and_measures_of_yours_below_their_floor_run_the_other_way(tmp_path: Path) -> None:
    claims = claims_of(tmp_path, [held_against("log_odds", 0.1, 0.4), held_against("width", 0.1, 0.4)])
    texts = [claim.spoken for claim, holds in claims.values() if holds]
    assert len(texts) == 2
    assert [text for text in texts if "run against" in text or "is narrow" in text] == texts


def test_heads_must_agree_more_than_those_of_models_without_meaning(tmp_path: Path) -> None:
    weak = [cross_fitted(HEAD_AGREEMENT, 0.2, 0.5, 0.0001)]
    assert [holds for _, holds in claims_of(tmp_path / "weak", [], weak).values()] == [False]
    clear = [cross_fitted(HEAD_AGREEMENT, 0.6, 0.5, 0.0001)]
    assert [holds for _, holds in claims_of(tmp_path / "clear", [], clear).values()] == [True]
