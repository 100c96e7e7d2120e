"""What an audit plans is what it does: null models at each question, contexts, prompts."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from benchmarks.audit_cost import recorded

from levelhead.models.model import Model
from levelhead.progress import Stage
from levelhead.runs.presets import SMALL, AuditSizes
from levelhead.studies.audit.extent import Extent
from levelhead.studies.audit.plan import audit_plan
from levelhead.studies.audit.settings import AuditSettings
from levelhead.studies.heads.run import heads
from tests.tiny import tiny


@cache
def model() -> Model:
    return tiny("bert", "nsp", max_position_embeddings=256)  # the prompts fit


@cache
def planned(sizes: AuditSizes) -> dict[Stage, float]:
    extent = Extent(AuditSettings(sizes=sizes), model())
    return audit_plan(extent, extent.battery(), [model()], first_look=False)


@pytest.mark.nightly
def test_null_models_are_planned_question_by_question() -> None:
    whole = planned(replace(SMALL, head_nulls=5))
    alone = planned(replace(SMALL, head_nulls=0, triple_nulls=0, prompt_nulls=0))
    none = planned(SMALL.with_null(0))
    seats, fit = (alone[Stage.NULLS] - none[Stage.NULLS]) / 9, none[Stage.NULLS]  # 9 of 19 are likely asked
    assert seats == pytest.approx(2 * whole[Stage.WORDS] / 6, rel=0.25)  # two contexts per word of six
    assert whole[Stage.NULLS] == pytest.approx(9 * seats + (3 + 1) * fit)  # heads of 3 of 5, and the model's
    assert planned(SMALL)[Stage.NULLS] == alone[Stage.NULLS]  # by default the heads of none
    asked = none[Stage.SENTENCES]
    assert whole[Stage.SENTENCES] == pytest.approx(
        asked * (1 + 5 * 2 / 3), rel=0.1
    )  # 5 of 9, no unrelated ones
    per_null = (whole[Stage.PROMPTS] - alone[Stage.PROMPTS]) / 5
    assert per_null == pytest.approx(alone[Stage.PROMPTS] * 10 / 16, rel=0.1)  # one background of three
    assert {stage: tokens for stage, tokens in whole.items() if stage not in _OF_NULLS} == pytest.approx(
        {stage: tokens for stage, tokens in none.items() if stage not in _OF_NULLS}
    )


_OF_NULLS = (Stage.NULLS, Stage.SENTENCES, Stage.PROMPTS, Stage.CERTIFIED)


@pytest.mark.nightly
def test_prompts_are_planned_by_their_backgrounds() -> None:
    """58 x (1 + 6 + 3 x backgrounds) prompts."""
    own = {n: planned(replace(SMALL, backgrounds=n, prompt_nulls=0))[Stage.PROMPTS] for n in (0, 1, 3, None)}
    assert own[0] / own[1] == pytest.approx(1 / 10, rel=0.5)  # no knowledge
    assert own[3] / own[1] == pytest.approx(16 / 10, rel=0.15)
    assert own[None] / own[1] == pytest.approx(46 / 10, rel=0.15)  # 13 of them


@pytest.mark.slow
def test_the_null_models_of_a_heads_study_are_as_much_work_as_is_planned(tmp_path: Path) -> None:
    sizes = replace(SMALL, experiments=("scores",), contexts=4, splits=1, null=4, head_nulls=2, resamples=100)
    extent = Extent(AuditSettings(bias="career", sizes=sizes), model())
    plan = audit_plan(extent, extent.battery(), [model()], first_look=False)
    with recorded() as done:
        heads(model(), extent.heads, tmp_path / "run")
    share = done.tokens[Stage.NULLS] / done.tokens[Stage.WORDS]
    assert share == pytest.approx(plan[Stage.NULLS] / plan[Stage.WORDS], rel=0.2)
