"""Short names of changed models: "projection 7". The long name is shown on hover.

Results, CSV files and model cards keep the long names; only what a reader sees on the page is shortened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from levelhead.inference.contents import Contents
from levelhead.studies.audit import NLI

LONG = "long"  # the key of a long name in a chart's data


@dataclass(frozen=True)
class Piece:
    """A piece of a text; a short name has the long one as its title."""

    text: str
    title: str = ""


@dataclass(frozen=True)
class Names:
    """Long names with their short ones.

    A text that is nothing but a name is found among all of them; in sentences only those of `told` are looked
    for, since short names of settings are also plain words.
    """

    short_names: Mapping[str, str] = field(default_factory=dict)
    told: Mapping[str, str] = field(default_factory=dict)  # what is replaced in sentences

    def pieces(self, text: str) -> list[Piece]:
        """A text in pieces, of which some are short names."""
        if text in self.short_names:
            return [Piece(self.short_names[text], text)]
        if self._pattern is None:
            return [Piece(text)]
        pieces: list[Piece] = []
        for number, part in enumerate(self._pattern.split(text)):
            found = Piece(self.told[part], part) if number % 2 else Piece(part)  # every second one is a name
            pieces += [found] if found.text else []
        return pieces

    def short(self, text: str) -> str:
        """A text with short names."""
        return "".join(piece.text for piece in self.pieces(text))

    def long(self, text: str) -> str:
        """The text itself where it has a name that is shortened, for hovering; else nothing."""
        return text if self.short(text) != text else ""

    def shorten(self, node: Any) -> Any:
        """The data of a chart with short names wherever a text is, or ends with, nothing but a name.

        What stands under the key "long" stays.
        """
        if isinstance(node, str):
            if node in self.short_names:
                return self.short_names[node]
            ends = (name for name in self.told if node.endswith(f", {name}"))  # a model and its variant
            name = next(ends, "")
            return f"{node.removesuffix(name)}{self.told[name]}" if name else node
        if isinstance(node, list | tuple):
            return [self.shorten(each) for each in node]
        if isinstance(node, Mapping):
            return {key: value if key == LONG else self.shorten(value) for key, value in node.items()}
        return node

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        longest_first = sorted(self.told, key=len, reverse=True)
        return re.compile(rf"(?<!\w)({'|'.join(map(re.escape, longest_first))})(?!\w)") if self.told else None


def names_of(contents: Contents) -> Names:
    """Short names of all variants of a run.

    Projections have their place among those that were tried, of which 0 is the unmodified model. One that has
    the name of its level, a published method, is short already.
    """
    if contents.projections is not None:
        levels = {each.variant: each.level for each in contents.projections.measured}
        placed = enumerate(levels.items())
        return Names({name: f"projection {n}" for n, (name, level) in placed if n and name != level})
    audit = contents.audit
    arena = None if audit is None else audit.nli_mitigate
    if audit is None or arena is None:
        return Names()
    beside = [name for name in audit.recommended if name.startswith(NLI)]
    known = {name: f"{name.removeprefix(NLI)} ({arena.model})" for name in beside}
    return Names(known, known)
