"""Sentences for the log-probability bias score, with a mask for the group (docs/method.md, LPBS)."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from levelhead.errors import BadOption, CannotDo
from levelhead.probes import DATA
from levelhead.probes.contexts import surface
from levelhead.probes.slots import Span, filled

Kind = Literal["topic", "person", "trait", "words"]


@dataclass(frozen=True)
class LpbsTemplate:
    """A sentence with {attribute}, where a model chooses (she or he), and {target}, the word in question."""

    text: str
    kind: Kind


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
    shipped = tomllib.loads((DATA / "sentences" / "lpbs.toml").read_text(encoding="utf-8"))
    return tuple(LpbsTemplate(text, kind) for text in shipped[kind])


def lpbs_sentences(targets: Iterable[str], mask_token: str, kind: Kind = "topic") -> list[LpbsSentence]:
    """Every distinct target in every template of its kind, with the mask token where the pronoun belongs."""
    if not mask_token:
        raise CannotDo("No mask token: LPBS asks a masked model; for a causal model choose SEAT.")
    templates = lpbs_templates(kind)
    sentences = []
    for target in dict.fromkeys(targets):
        for template in templates:
            text, spans = filled(template.text, {"attribute": mask_token, "target": surface(target)})
            sentences.append(LpbsSentence(target, template, text, spans["attribute"], spans["target"]))
    return sentences
