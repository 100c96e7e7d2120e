"""How much an audit asks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from levelhead.auditing.plan import audit_plan
from levelhead.probes.words import load_words
from levelhead.results.presets import FULL, HUGE, LARGE, QUICK_LARGE, SMALL, SURVEY, AuditSizes, audit_preset
from levelhead.studies.extent import AuditSettings, Extent
from levelhead.studies.heads.settings import HeadsSettings
from tests.tiny import tiny
from tests.word_lists import GENDER

SIZES = AuditSizes(
    contexts=3, triples=40, occupations=(12, 3), abilities=30, sentences=40, verify_contexts=6, null=0
)


def contexts_a_word(words: list[str]) -> set[int]:
    """How many contexts the words have."""
    return set(Counter(words).values())


def test_projections_are_chosen_on_few_contexts_of_a_word_and_reported_on_all() -> None:
    for few, expected in ((None, {3}), (2, {2})):
        sizes = replace(SIZES, screen_contexts=few)
        extent = Extent(AuditSettings(bias="career", sizes=sizes), tiny("bert", "nsp"))
        parts = extent.halves(extent.battery())
        assert contexts_a_word([context.word for context in parts.choose.contexts]) == expected
        assert contexts_a_word([context.word for context in parts.report.contexts]) == {3}
        assert parts.choose.null == parts.report.null == 0


def test_changes_are_verified_on_few_contexts_of_a_word_unless_they_are_judged_by_those() -> None:
    sizes = replace(SIZES, verify_contexts=2)
    by_strength, by_seat = tiny("bert", "nsp"), tiny("gpt2")
    for model, expected in ((by_strength, {2}), (by_seat, {3})):
        extent = Extent(AuditSettings(bias="career", sizes=sizes), model)
        parts = extent.halves(extent.battery())
        assert contexts_a_word([context.word for context in parts.report.contexts]) == expected
        assert contexts_a_word([context.word for context in parts.choose.contexts]) == {3}


def test_an_audit_splits_the_words_once_and_a_full_one_twice() -> None:
    model = tiny("gpt2")
    assert Extent(AuditSettings(sizes=LARGE), model).heads.splits == 1
    assert Extent(AuditSettings(), model).heads.splits == 1
    assert Extent(AuditSettings(full=True), model).heads.splits == 2


def test_projections_are_chosen_on_every_second_item_of_a_half() -> None:
    parts = {}
    for step in (1, 2):
        extent = Extent(
            AuditSettings(sizes=replace(SIZES, triples=4, screen_every=step)), tiny("bert", "nsp")
        )
        parts[step] = extent.halves(extent.battery())
    one, two = parts[1].choose, parts[2].choose
    assert two.triples.pairs == one.triples.pairs[::2]
    assert two.sentences == one.sentences[::2]
    assert two.probe.occupations == one.probe.occupations[::2]
    assert {pair.occupation for pair in two.probe.pairs} == set(two.probe.occupations)
    premises = [list(dict.fromkeys(pair.premise for pair in each.ability.pairs)) for each in (one, two)]
    assert premises[1] == premises[0][::2]
    assert two.contexts == one.contexts  # words stay
    assert parts[2].report == parts[1].report


def test_null_asks_as_many_null_models_at_every_question_that_has_some() -> None:
    model = tiny("bert", "nsp")
    default, given = Extent(AuditSettings(), model), Extent(AuditSettings(null=12), model)
    assert (default.heads.null, default.heads.scored_twins) == (19, 0)
    assert (default.battery().null, default.prompts.null) == (9, 9)
    assert (given.heads.null, given.heads.scored_twins) == (12, 12)
    assert (given.battery().null, given.prompts.null) == (12, 12)
    quick = Extent(AuditSettings(null=12, quick=True), model)
    assert (quick.heads.null, quick.battery().null, quick.prompts.null) == (12, 12, 0)
    few = Extent(AuditSettings(null=5), model)
    assert (few.heads.null, few.heads.scored_twins) == (5, 0)  # which could not answer about heads
    none = Extent(AuditSettings(null=0), model)
    assert (none.heads.null, none.heads.scored_twins, none.battery().null, none.prompts.null) == (0, 0, 0, 0)


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
    """Gemma-3-270M: 604,000 tokens took an hour and a half on two cores, 225,000 would take 34 minutes."""
    model, work = tiny("gpt2"), []
    monkeypatch.setattr("levelhead.studies.extent.MANY_PARAMETERS", 0)
    for most in (10**12, 0):
        monkeypatch.setattr("levelhead.studies.extent.HUGE_PARAMETERS", most)
        asked = Extent(AuditSettings(), model)
        assert asked.sizes == (LARGE if most else HUGE)
        assert Extent(AuditSettings(full=True), model).sizes == FULL
        work.append(sum(audit_plan(asked, asked.battery(), [model], looks=True).values()))
    assert work[1] < min(225_000, work[0] / 2)


def test_a_full_audit_asks_everything_and_a_large_model_is_asked_no_more_than_a_small_one() -> None:
    everything = (FULL.contexts, FULL.backgrounds, FULL.screen_every, FULL.null, FULL.head_twins)
    assert everything == (None, None, 1, 199, 199)
    assert (LARGE.null, LARGE.head_twins, LARGE.triple_twins, LARGE.prompt_twins) == (9, 0, 9, 9)
    assert (QUICK_LARGE.contexts, QUICK_LARGE.null, QUICK_LARGE.triples) == (1, 3, 24)
    assert QUICK_LARGE.asked_triples == QUICK_LARGE.asked_prompts == 0
    assert audit_preset(full=False, quick=True, large=True) == QUICK_LARGE
    for name in ("contexts", "splits", "counter_sentences", "backgrounds", "starts", "null", "head_twins"):
        assert getattr(LARGE, name) <= getattr(SMALL, name), name
