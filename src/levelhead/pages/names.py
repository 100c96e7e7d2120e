"""Short names of changed models: "projection 7", "without 3 heads". The long name is shown on hover.

Results, CSV files and model cards keep the long names; only what a reader sees on the page is shortened.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from levelhead.inference.contents import Contents
from levelhead.results.records.common import BASE
from levelhead.results.runs import AuditRun, SweepRun

NLI = "nli "  # how variants of the classifier beside a model begin
LONG = "long"  # the key of a long name in a chart's data
_OF_CLASSIFIER = "of the classifier, "  # what stands before its projections in sentences


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
            if number % 2 == 0:
                pieces.append(Piece(part))
                continue
            name = part.removeprefix(_OF_CLASSIFIER)
            pieces += [Piece(part.removesuffix(name)), Piece(self.told[part], name)]
        return [piece for piece in pieces if piece.text]

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
            return self._label(node)
        if isinstance(node, list | tuple):
            return [self.shorten(each) for each in node]
        if isinstance(node, Mapping):
            return {key: value if key == LONG else self.shorten(value) for key, value in node.items()}
        return node

    def _label(self, text: str) -> str:
        if text in self.short_names:
            return self.short_names[text]
        for long, short in self.told.items():
            if text.endswith(f", {long}"):  # a model and its variant
                return f"{text.removesuffix(long)}{short}"
        return text

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        longest_first = sorted(self.told, key=len, reverse=True)
        return re.compile(rf"(?<!\w)({'|'.join(map(re.escape, longest_first))})(?!\w)") if self.told else None


def names_of(contents: Contents) -> Names:
    """Short names of all variants of a run."""
    if contents.sweep is not None:
        return Names(_swept(contents.sweep))
    return Names() if contents.audit is None else _audited(contents.audit)


def _swept(run: SweepRun) -> dict[str, str]:
    return _numbered({each.variant: each.level for each in run.measured}, "projection")


def _audited(run: AuditRun) -> Names:
    own = _numbered({each.variant: each.level for each in run.candidates}, "projection")
    levels = {each.variant: each.level for each in run.nli_candidates}
    beside = _numbered(levels, "classifier projection")
    untouched = {f"{NLI}{BASE}": "untouched classifier"} if beside else {}
    known = {**own, **untouched, **{f"{NLI}{name}": short for name, short in beside.items()}}
    known |= {each.variant: _without(len(each.heads)) for each in run.mitigations if each.heads}
    told = {each.variant: known[each.variant] for each in run.mitigations if each.variant in known}
    for name, short in beside.items():
        if f"{NLI}{name}" in told:
            told[f"{_OF_CLASSIFIER}{name}"] = short
    return Names(known, told)


def _numbered(levels: Mapping[str, str], what: str) -> dict[str, str]:
    """Projections by their place among those that were tried, of which 0 is the unmodified model.

    levels: of every projection. One that has the name of its level, a published method, is short already.
    """
    return {
        name: f"{what} {number}"
        for number, (name, level) in enumerate(levels.items())
        if number and name != level
    }


def _without(heads: int) -> str:
    return f"without {heads} head{'' if heads == 1 else 's'}"
