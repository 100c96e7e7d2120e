"""Sentences for LPBS: shipped templates with a mask where the pronoun belongs."""

from __future__ import annotations

import re

import pytest

from levelhead.errors import BadOption, CannotDo
from levelhead.probes.lpbs import Kind, lpbs_sentences, lpbs_templates
from levelhead.probes.swap import is_gendered


@pytest.mark.parametrize("kind", ["topic", "person", "trait", "words"])
def test_at_least_5_templates_with_one_slot_each(kind: Kind) -> None:
    templates = lpbs_templates(kind)
    assert len({t.text for t in templates}) == len(templates) >= 5
    for template in templates:
        assert sorted(re.findall(r"\{\w+\}", template.text)) == ["{attribute}", "{target}"]
        assert not is_gendered(template.text)


@pytest.mark.parametrize("mask", ["[MASK]", "<mask>"])
def test_lpbs_spans_hold_the_mask_and_the_target(mask: str) -> None:
    sentences = lpbs_sentences(
        ["salary", "algebra", "poetry", "children", "NASA", "hair_salon", "salary"], mask
    )
    assert len(sentences) == len({s.text for s in sentences}) == 6 * len(lpbs_templates())
    for s in sentences:
        assert s.text[slice(*s.mask_span)] == mask
        assert s.text[slice(*s.target_span)] == s.target.replace("_", " ")
        assert s.text.count(mask) == 1


def test_lpbs_targets_read_as_english() -> None:
    texts = {s.text for s in lpbs_sentences(["children", "NASA", "algebra"], "[MASK]")}
    topics = ("the children", "NASA", "algebra")
    assert {f"Then [MASK] asked about {topic}." for topic in topics} <= texts
    texts = {s.text for s in lpbs_sentences(["engineer", "nurse"], "[MASK]", "person")}
    assert {"These days [MASK] is an engineer.", "These days [MASK] is a nurse."} <= texts
    assert "At work [MASK] is very gentle." in {s.text for s in lpbs_sentences(["gentle"], "[MASK]", "trait")}


def test_lpbs_refuses_a_missing_mask_and_an_unknown_kind() -> None:
    with pytest.raises(CannotDo, match="No mask token"):
        lpbs_sentences(["salary"], "")
    with pytest.raises(BadOption, match="'verb' is no kind of target; there are topic, person, trait, words"):
        lpbs_templates("verb")  # type: ignore[arg-type]
