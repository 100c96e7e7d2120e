"""Sentences for the log-probability bias score, with a mask for the group (docs/method/words.md, LPBS)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from levelhead.errors import BadOption, BadProbe, CannotDo
from levelhead.probes import json_hash, shipped_toml
from levelhead.probes.contexts import surface
from levelhead.probes.files import BadItem, Place, UnusableItem, nothing_left, read_text, usable
from levelhead.probes.slots import Span, filled, without_the

Kind = Literal["topic", "person", "trait", "words"]
LPBS_TESTS = ("career", "math", "science")  # word lists that the topic templates are about
OWN = "own"  # the kind of a template that a user's file brings

_SLOTS = {"[ATTRIBUTE]": "{attribute}", "[MASK]": "{attribute}", "[TARGET]": "{target}"}
_BRACKETS = re.compile(r"\[[^\[\]]*\]")


@dataclass(frozen=True)
class LpbsTemplate:
    """A sentence with {attribute}, where a model chooses (she or he), and {target}, the word in question."""

    text: str
    kind: str  # a Kind, or OWN


@dataclass(frozen=True)
class LpbsTemplates:
    """The templates of a user's file, and the lines of it that are none."""

    name: str
    templates: tuple[LpbsTemplate, ...]
    fingerprint: str  # sha256 of the templates in order
    unusable: tuple[UnusableItem, ...] = ()


@dataclass(frozen=True)
class LpbsSentence:
    """A sentence with a mask token for the attribute; masking target_span too gives the score's prior."""

    target: str
    template: LpbsTemplate
    text: str
    mask_span: Span
    target_span: Span


def lpbs_templates(kind: Kind = "topic") -> tuple[LpbsTemplate, ...]:
    """The shipped templates for one kind of target.

    topic suits things, subjects and groups (salary, poetry, NASA), person suits nurse, trait suits gentle,
    and words suits any word.
    """
    if kind not in get_args(Kind):
        raise BadOption(f"{kind!r} is no kind of target; there are {', '.join(get_args(Kind))}.")
    shipped = shipped_toml("sentences/lpbs")
    return tuple(LpbsTemplate(text, kind) for text in shipped[kind])


def load_lpbs_templates(path: str | Path, *, strict: bool = False) -> LpbsTemplates:
    """Templates of the user's own: a text file, one a line, with [TARGET] and [ATTRIBUTE] or [MASK].

        Everybody knows that [ATTRIBUTE] works as a [TARGET].

    Empty lines and lines that begin with # are passed over. A line that is no template is left out and kept
    with its number and reason; with strict=True it is an error.
    """
    file = Path(path)
    lines = read_text(file, "Give a text file of templates, one a line.").split("\n")
    numbered = ((Place(file.name, n), line.strip()) for n, line in enumerate(lines, start=1))
    written = [(place, line) for place, line in numbered if line and not line.startswith("#")]
    left_out: list[UnusableItem] = []
    templates = tuple(dict.fromkeys(usable(written, _template, left_out, strict)))
    if not templates and left_out:
        raise nothing_left(file.name, "template", left_out)
    if not templates:
        raise BadProbe(f"{file.name}: no templates in it; write one a line, with [ATTRIBUTE] and [TARGET].")
    fingerprint = json_hash([template.text for template in templates])
    return LpbsTemplates(file.stem, templates, fingerprint, tuple(left_out))


def lpbs_sentences(
    targets: Iterable[str], mask_token: str, templates: Kind | Sequence[LpbsTemplate] = "topic"
) -> list[LpbsSentence]:
    """Every distinct target in every template, with the mask token where the pronoun belongs.

    templates: a kind of the shipped ones, or those that load_lpbs_templates read.
    """
    if not mask_token:
        raise CannotDo("No mask token: LPBS asks a masked model; for a causal model choose SEAT.")
    chosen = lpbs_templates(templates) if isinstance(templates, str) else templates
    sentences = []
    for target in dict.fromkeys(targets):
        for template in chosen:
            words = {"attribute": mask_token, "target": surface(target)}
            text, spans = filled(without_the(template.text, words), words)
            sentences.append(LpbsSentence(target, template, text, spans["attribute"], spans["target"]))
    return sentences


def _template(line: tuple[Place, str]) -> LpbsTemplate:
    place, text = line
    if "{" in text or "}" in text:
        raise BadItem(place, "braces", "braces { } are not allowed; slots stand in brackets, as [TARGET].")
    slots = _BRACKETS.findall(text)
    kinds = sorted(_SLOTS.get(slot, slot) for slot in slots)
    if kinds != ["{attribute}", "{target}"]:
        came = ", ".join(slots) or "no slot"
        complaint = f"{came}; one [TARGET] and one [ATTRIBUTE] (or [MASK]) are needed, and nothing else."
        raise BadItem(place, "not one slot of each kind", complaint)
    return LpbsTemplate(_BRACKETS.sub(lambda slot: _SLOTS[slot[0]], text), OWN)
