"""An NLI probe of the user's own as a TOML file (docs/own-prompts.md), in the form of Dev et al. 2020.

    name = "bakery"
    premise = "The {occupation} {context}."
    hypothesis = "The {gender} {context}."
    feminine = "lady"                             # optional; woman and man otherwise
    masculine = "gentleman"
    occupations = ["baker", "cashier"]
    contexts = ["bought a car", "lost an umbrella"]

Contexts can also be a table of verbs with their objects: [contexts] bought = ["a car", "an apple"].
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from levelhead.probes.checked_toml import Checked, Source, read_checked
from levelhead.probes.slots import SLOT

_PAGE = "docs/own-prompts.md"


def _as_contexts(value: Any) -> Any:
    """A table of verbs with their objects as a list of both."""
    if not isinstance(value, dict):
        return value
    if not all(isinstance(objects, list) for objects in value.values()):
        raise ValueError("a list of contexts, or a table of verbs with lists of objects, is needed")
    return [f"{verb} {thing}" for verb, objects in value.items() for thing in objects]


Text = Annotated[str, Field(min_length=1, pattern=r"\S")]
Texts = Annotated[tuple[Text, ...], Field(min_length=1)]


class NliTemplates(Checked):
    """Two templates and what fills them."""

    name: Text
    about: str = ""
    premise: Text
    hypothesis: Text
    feminine: Text = "woman"
    masculine: Text = "man"
    occupations: Texts
    contexts: Annotated[Texts, BeforeValidator(_as_contexts)]


def read_nli_templates(path: Path) -> NliTemplates:
    """The checked content of the file; every mistake is one line that names its key and line."""
    file, source = read_checked(path, NliTemplates, "an NLI probe", _PAGE)
    _check_template(source, "premise", file.premise, ("occupation", "context"))
    _check_template(source, "hypothesis", file.hypothesis, ("gender", "context"))
    for key, entries in (("occupations", file.occupations), ("contexts", file.contexts)):
        repeated = [entry for entry, times in Counter(entries).items() if times > 1]
        if repeated:
            raise source.fail((key,), f"{repeated[0]!r} stands twice; keep one.")
    if file.feminine == file.masculine:
        raise source.fail(("masculine",), f"{file.masculine!r} is the feminine word too; give two nouns.")
    for key, word in (("feminine", file.feminine), ("masculine", file.masculine)):
        if word in file.occupations:
            raise source.fail((key,), f"{word!r} is an occupation too: its pairs would be entailed. Drop it.")
    return file


def _check_template(source: Source, key: str, template: str, slots: tuple[str, ...]) -> None:
    """Each slot once, no other, and a full stop."""
    if sorted(SLOT.findall(template)) != sorted(slots) or "{" in SLOT.sub("", template):
        needed = " and ".join(f"{{{slot}}}" for slot in slots)
        raise source.fail((key,), f"{template!r} must have {needed}, each once, and no other. See {_PAGE}.")
    if not template.rstrip().endswith((".", "!", "?")):
        raise source.fail((key,), f"{template!r} does not end. Close the sentence with a full stop.")
