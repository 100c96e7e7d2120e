"""How much an audit asks."""

from __future__ import annotations

import pytest

from levelhead.probes.words import load_words
from levelhead.progress import Stage
from levelhead.runs.presets import (
    FULL,
    HUGE,
    LARGE,
    QUICK_LARGE,
    SMALL,
    SURVEY,
    AuditSizes,
    audit_preset,
)
from levelhead.studies.audit.extent import Extent
from levelhead.studies.audit.plan import audit_plan
from levelhead.studies.audit.settings import AuditSettings
from levelhead.studies.heads.settings import HeadsSettings
from tests.tiny import tiny
from tests.word_lists import GENDER

SIZES = AuditSizes(contexts=3, triples=40, occupations=(12, 3), abilities=30, sentences=40, null=0)


def test_an_audit_splits_the_words_once_and_a_full_one_twice() -> None:
    model = tiny("gpt2")
    assert Extent(AuditSettings(sizes=LARGE), model).heads.splits == 1
    assert Extent(AuditSettings(), model).heads.splits == 1
    assert Extent(AuditSettings(full=True), model).heads.splits == 2


def test_null_asks_as_many_null_models_at_every_question_that_has_some() -> None:
    model = tiny("bert", "nsp")
    default, given = Extent(AuditSettings(), model), Extent(AuditSettings(null=12), model)
    assert (default.heads.null, default.heads.scored_nulls) == (19, 0)
    assert (default.battery().null, default.counteracts.null) == (9, 9)
    assert (given.heads.null, given.heads.scored_nulls) == (12, 12)
    assert (given.battery().null, given.counteracts.null) == (12, 12)
    quick = Extent(AuditSettings(null=12, quick=True), model)
    assert (quick.heads.null, quick.battery().null, quick.counteracts.null) == (12, 12, 0)
    few = Extent(AuditSettings(null=5), model)
    assert (few.heads.null, few.heads.scored_nulls) == (5, 0)  # which could not answer about heads
    none = Extent(AuditSettings(null=0), model)
    assert (none.heads.null, none.heads.scored_nulls, none.battery().null, none.counteracts.null) == (
        0,
        0,
        0,
        0,
    )


def test_heads_of_a_small_model_are_scored_in_3_contexts_of_a_word_or_as_many_as_short_lists_get() -> None:
    model = tiny("bert", "nsp")
    long, short = (Extent(AuditSettings(bias), model).heads for bias in ("gender", GENDER))
    assert long.score_contexts_per_word(load_words("gender")) == 3
    study = HeadsSettings(GENDER, per_word=SMALL.contexts).score_contexts_per_word(GENDER)
    assert short.score_contexts_per_word(GENDER) == study > 3
    assert (LARGE.score_contexts, SURVEY.score_contexts, FULL.score_contexts) == (None, None, 8)


def test_a_very_large_model_on_a_cpu_is_evaluated_in_about_half_an_hour(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Gemma-3-270M: 604,000 tokens took an hour and a half on two cores."""
    model, work = tiny("gpt2"), []
    monkeypatch.setattr("levelhead.studies.audit.extent.MANY_PARAMETERS", 0)
    for most in (10**12, 0):
        monkeypatch.setattr("levelhead.studies.audit.extent.HUGE_PARAMETERS", most)
        asked = Extent(AuditSettings(), model)
        assert asked.sizes == (LARGE if most else HUGE)
        assert Extent(AuditSettings(full=True), model).sizes == FULL
        plan = audit_plan(asked, asked.battery(), [model], first_look=True)
        work.append(sum(tokens for name, tokens in plan.items() if name != Stage.CERTIFIED))
    assert work[1] < 0.6 * work[0]  # what mitigations take, where a bias is claimed, is the same


def test_a_full_audit_asks_everything_and_a_large_model_is_asked_no_more_than_a_small_one() -> None:
    everything = (FULL.contexts, FULL.backgrounds, FULL.null, FULL.head_nulls)
    assert everything == (None, None, 199, 199)
    assert (LARGE.null, LARGE.head_nulls, LARGE.triple_nulls, LARGE.prompt_nulls) == (9, 0, 9, 9)
    assert (QUICK_LARGE.contexts, QUICK_LARGE.null, QUICK_LARGE.triples) == (1, 3, 24)
    assert QUICK_LARGE.triple_nulls == QUICK_LARGE.prompt_nulls == 0
    assert audit_preset(full=False, quick=True, large=True) == QUICK_LARGE
    for name in ("contexts", "splits", "counter_sentences", "backgrounds", "null", "head_nulls"):
        assert getattr(LARGE, name) <= getattr(SMALL, name), name
