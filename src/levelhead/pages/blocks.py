"""What a report is made of: sections of blocks. Each block has its own piece of template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from levelhead.edits.head import Head
from levelhead.pages.charts.base import Chart, Control
from levelhead.pages.tables import Cell, Table
from levelhead.results.records.heads import ArcPair


@dataclass(frozen=True)
class Bar:
    """An interval drawn on its measure's scale; all places are percent of its width."""

    value: float
    low: float
    high: float
    neutral: float | None
    ends: tuple[str, str]


@dataclass(frozen=True)
class Card:
    """One key number."""

    title: str
    about: str  # what it asks and how it is read
    value: Cell
    bounds: Cell
    n: Cell
    verdict: str
    bar: Bar | None
    tone: Literal["biased", "neutral"]


@dataclass(frozen=True)
class Cards:
    """Key numbers side by side."""

    cards: Sequence[Card]
    kind: str = field(default="cards", init=False)


@dataclass(frozen=True)
class Shown:
    """A table."""

    table: Table
    kind: str = field(default="table", init=False)


@dataclass(frozen=True)
class Drawn:
    """Charts that share their controls."""

    charts: Sequence[Chart]
    controls: Sequence[Control] = ()
    kind: str = field(default="charts", init=False)


@dataclass(frozen=True)
class HeadCell:
    """One head of the map."""

    head: Head
    label: str  # for screen readers and the hover text
    share: float  # -1 to 1, of the largest score


@dataclass(frozen=True)
class HeadMap:
    """Every head as a button, and the sentences on which its attention can be seen."""

    layers: Sequence[Sequence[HeadCell]]  # [layer, head], the last layer first, as the paper draws it
    largest: str
    pairs: Sequence[ArcPair]
    kind: str = field(default="headmap", init=False)


@dataclass(frozen=True)
class SettingRecipe:
    """What makes the model of one setting."""

    name: str  # of the setting
    recipe: str  # TOML; "" for the untouched model


@dataclass(frozen=True)
class Frontier:
    """Settings as points, and their recipes."""

    charts: Sequence[Chart]
    recipes: Sequence[SettingRecipe]
    kind: str = field(default="frontier", init=False)


@dataclass(frozen=True)
class Points:
    """Sentences, one under the other."""

    items: Sequence[Cell]
    kind: str = field(default="points", init=False)


@dataclass(frozen=True)
class Code:
    """A command or file to copy."""

    label: str
    text: str
    folded: bool = False
    kind: str = field(default="code", init=False)


Block = Cards | Shown | Drawn | HeadMap | Frontier | Points | Code


@dataclass(frozen=True)
class Section:
    """A chapter of the report."""

    id: str
    title: str
    lead: str  # what it asks, in a sentence or two
    blocks: Sequence[Block]

    @property
    def draws(self) -> bool:
        """Whether it has charts that Vega draws."""
        return any(isinstance(block, Drawn | Frontier) for block in self.blocks)


@dataclass(frozen=True)
class Page:
    """A whole page: what is said first, and its chapters."""

    title: str
    study: str
    headline: str
    findings: Sequence[Cell]
    facts: Sequence[tuple[str, str]]  # name, value
    sections: Sequence[Section]
