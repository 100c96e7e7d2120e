"""What a report is made of: sections of blocks. Each block has its own piece of template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from levelhead.report.charts.base import Chart, Control
from levelhead.report.glossary import Measure
from levelhead.report.tables import Cell, Table
from levelhead.results.folder import Row


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

    measure: Measure
    value: Cell
    bounds: Cell
    n: Cell
    verdict: str
    bar: Bar | None
    tone: str  # "biased", "neutral" or "use"


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

    layer: int
    head: int
    label: str  # for screen readers and the hover text
    share: float  # -1 to 1, of the largest score


@dataclass(frozen=True)
class HeadMap:
    """Every head as a button, and the sentences on which its attention can be seen."""

    rows: Sequence[Sequence[HeadCell]]  # [layer, head], the last layer first, as the paper draws it
    largest: str
    arcs: Sequence[Row]
    kind: str = field(default="headmap", init=False)


@dataclass(frozen=True)
class Frontier:
    """Settings as points, and their recipes."""

    charts: Sequence[Chart]
    settings: Sequence[dict[str, Any]]  # {"name", "recipe"}
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
