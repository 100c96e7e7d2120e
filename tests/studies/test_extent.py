"""How much an audit asks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from levelhead.results.presets import LARGE, AuditSizes
from levelhead.studies.extent import AuditSettings, Extent
from tests.tiny import tiny

SIZES = AuditSizes(contexts=3, triples=40, occupations=(12, 3), abilities=30, sentences=40, null=0)


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


def test_a_quick_audit_of_a_large_model_splits_the_words_once() -> None:
    model = tiny("gpt2")
    assert Extent(AuditSettings(sizes=LARGE), model).heads.splits == 1
    assert Extent(AuditSettings(), model).heads.splits == 2
