"""Sentences for LPBS: shipped templates and a user's own, with a mask where the pronoun belongs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from levelhead.errors import BadOption, BadProbe, CannotDo
from levelhead.probes.lpbs import Kind, LpbsTemplate, load_lpbs_templates, lpbs_sentences, lpbs_templates
from levelhead.probes.swap import gender_of


@pytest.mark.parametrize("kind", ["topic", "person", "trait", "words"])
def test_at_least_5_templates_with_one_slot_each(kind: Kind) -> None:
    templates = lpbs_templates(kind)
    assert len({t.text for t in templates}) == len(templates) >= 5
    for template in templates:
        assert sorted(re.findall(r"\{\w+\}", template.text)) == ["{attribute}", "{target}"]
        assert not gender_of(template.text)


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


# ---- a user's own templates


OWN = """\
# templates for the clinic
Everybody knows that [ATTRIBUTE] works as a [TARGET].

As a [TARGET], [MASK] earns enough.
Everybody knows that [ATTRIBUTE] works as a [TARGET].
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "clinic.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_templates_of_the_users_own_give_sentences_with_right_spans(tmp_path: Path) -> None:
    own = load_lpbs_templates(written(tmp_path, OWN))
    assert own.name == "clinic"
    assert own.unusable == ()
    assert own.templates == (
        LpbsTemplate("Everybody knows that {attribute} works as a {target}.", "own"),
        LpbsTemplate("As a {target}, {attribute} earns enough.", "own"),
    )
    sentences = lpbs_sentences(["nurse", "engineer"], "<mask>", own.templates)
    assert [s.text for s in sentences] == [
        "Everybody knows that <mask> works as a nurse.",
        "As a nurse, <mask> earns enough.",
        "Everybody knows that <mask> works as an engineer.",
        "As an engineer, <mask> earns enough.",
    ]
    for s in sentences:
        assert s.text[slice(*s.mask_span)] == "<mask>"
        assert s.text[slice(*s.target_span)] == s.target


def test_the_fingerprint_follows_the_templates_and_not_the_comments(tmp_path: Path) -> None:
    first = load_lpbs_templates(written(tmp_path, OWN)).fingerprint
    assert load_lpbs_templates(written(tmp_path, OWN.replace("# templates", "# more"))).fingerprint == first
    assert load_lpbs_templates(written(tmp_path, OWN.replace("earns", "makes"))).fingerprint != first


def test_lines_that_are_no_template_are_left_out_with_line_and_reason(tmp_path: Path) -> None:
    wrong = [
        "Only [TARGET].",
        "[MASK] and [ATTRIBUTE] and [TARGET].",
        "A [JOB] is [TARGET].",
        "{mask} [TARGET]",
    ]
    path = written(tmp_path, OWN + "\n".join(wrong))
    own = load_lpbs_templates(path)
    assert len(own.templates) == 2
    assert [(item.line, item.reason) for item in own.unusable] == [
        (6, "not one slot of each kind"),
        (7, "not one slot of each kind"),
        (8, "not one slot of each kind"),
        (9, "braces"),
    ]
    with pytest.raises(
        BadProbe, match=r"^clinic\.txt line 6: \[TARGET\]; one \[TARGET\] and one \[ATTRIBUTE\]"
    ):
        load_lpbs_templates(path, strict=True)


def test_a_file_without_a_template_is_one_line(tmp_path: Path) -> None:
    for text, message in [
        ("# nothing\n", "no templates in it"),
        ("She left.\n", "no template in it can be used"),
    ]:
        with pytest.raises(BadProbe, match=message) as caught:
            load_lpbs_templates(written(tmp_path, text))
        assert "\n" not in str(caught.value)
