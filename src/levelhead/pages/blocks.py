"""What a report is made of: sections of blocks. Each block has its own piece of template."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

from levelhead.edits.head import Head
from levelhead.escaping import escaped_in
from levelhead.inference.sizes import Size
from levelhead.pages.charts.base import Chart, Control
from levelhead.pages.first_arcs import FirstArcs
from levelhead.pages.names import Names
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
    size: Size  # of the bias, in a word
    share: float  # 0 to 1: how far it is colored


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
    change: float | None  # of attention to the group word when stereotypes are turned, on average
    sentences: int  # that the average rests on


@dataclass(frozen=True)
class HeadMap:
    """Every head as a button, and the sentences on which its attention can be seen."""

    layers: Sequence[Sequence[HeadCell]]  # [layer, head], the last layer first, as the paper draws it
    largest: str
    pairs: Sequence[ArcPair]
    first: FirstArcs  # what is shown until the reader chooses
    kind: str = field(default="headmap", init=False)


@dataclass(frozen=True)
class MatrixCell:
    """One cell of a matrix: a number that leads to what it is made of."""

    text: str
    label: str  # for screen readers and the hover text
    share: float  # -1 to 1, by which it is colored
    strong: bool = False
    to: str = ""  # the id that it leads to
    at: str = ""  # the address of the record that holds the number


@dataclass(frozen=True)
class Matrix:
    """Everything against everything, each cell a link."""

    caption: str
    names: Sequence[tuple[str, str]]  # of rows and columns, each with the id that it leads to
    cells: Sequence[Sequence[MatrixCell]]  # [row, column]
    note: str
    kind: str = field(default="matrix", init=False)


@dataclass(frozen=True)
class SettingRecipe:
    """What makes the model of one setting."""

    name: str  # of the setting
    short: str  # the same, as the page calls it
    group: str  # of settings that act on the same place
    recipe: str  # TOML; "" for the unmodified model
    chosen: bool = False


@dataclass(frozen=True)
class Frontier:
    """Settings as points, and their recipes."""

    charts: Sequence[Chart]
    recipes: Sequence[SettingRecipe]

    @property
    def first(self) -> int:
        """The place of the setting that is shown first: the chosen one, if there is one."""
        return next((number for number, each in enumerate(self.recipes) if each.chosen), 0)

    @property
    def groups(self) -> dict[str, list[tuple[int, SettingRecipe]]]:
        """Settings with their places in the list, by group."""
        grouped: dict[str, list[tuple[int, SettingRecipe]]] = {}
        for number, each in enumerate(self.recipes):
            grouped.setdefault(each.group, []).append((number, each))
        return grouped

    kind: str = field(default="frontier", init=False)


@dataclass(frozen=True)
class Points:
    """Sentences, one under the other."""

    items: Sequence[Cell]
    kind: str = field(default="points", init=False)


@dataclass(frozen=True)
class Definitions:
    """Terms with what they mean, each under an id that links lead to."""

    items: Sequence[tuple[str, str, str]]  # id, term, meaning
    kind: str = field(default="definitions", init=False)


@dataclass(frozen=True)
class Code:
    """A command or file to copy."""

    label: str
    text: str
    folded: bool = False
    kind: str = field(default="code", init=False)


Block = Cards | Shown | Drawn | HeadMap | Matrix | Frontier | Points | Definitions | Code


@dataclass(frozen=True)
class Said:
    """A sentence, and what this model makes of it."""

    sentence: str
    number: str


@dataclass(frozen=True)
class Example:
    """Two sentences that differ in one thing, and what to see in them."""

    first: Said
    second: Said
    note: str


@dataclass(frozen=True)
class Section:
    """A chapter of the report: the question that it answers, how to read it, an example, and the answer."""

    id: str
    title: str
    question: str
    how: str  # to read what follows
    blocks: Sequence[Block]
    example: Example | None = None
    found: str = ""  # the answer in one sentence, which stands where the chapter is folded
    basis: bool = False  # whether the answers of an audit rest on it, so that paper shows it

    @property
    def draws(self) -> bool:
        """Whether it has charts that Vega draws."""
        return any(isinstance(block, Drawn | Frontier) for block in self.blocks)


@dataclass(frozen=True)
class Found:
    """What one kind of question showed: how large, in a plain sentence, and the numbers behind it."""

    size: Size
    sentence: str
    numbers: Sequence[Cell]


@dataclass(frozen=True)
class WayOut:
    """Something that can be done, what it buys and what it costs."""

    name: str
    buys: Cell
    costs: Cell
    verdict: str
    recommended: bool
    command: Code | None  # that writes the model


@dataclass(frozen=True)
class Answer:
    """A reader's question, the answer in short, and what else belongs to it."""

    question: str
    short: str
    more: str = ""

    @property
    def text(self) -> str:
        """The whole answer."""
        return f"{self.short} {self.more}".rstrip()


@dataclass(frozen=True)
class WhatNow:
    """What a reader who decides has to know: questions with their answers, findings, and ways out."""

    said: Sequence[Answer]
    picture: Chart | None  # of the bias; None where no measure has a scale
    found: Sequence[Found]
    ways: Sequence[WayOut]
    rule: str  # what the words for sizes mean

    @property
    def answers(self) -> list[tuple[str, str]]:
        """Questions with their whole answers."""
        return [(each.question, each.text) for each in self.said]

    @property
    def commands(self) -> list[Code]:
        """How to get what is recommended."""
        return [way.command for way in self.ways if way.recommended and way.command is not None]

    @property
    def other_commands(self) -> list[Code]:
        """How to get what else was tried."""
        return [way.command for way in self.ways if not way.recommended and way.command is not None]


@dataclass(frozen=True)
class Page:
    """A whole page: what is said first, and its chapters. All its texts are escaped (escaping.py)."""

    title: str
    study: str
    headline: str
    findings: Sequence[Cell]
    facts: Sequence[tuple[str, str]]  # name, value
    sections: Sequence[Section]
    what_now: WhatNow | None = None
    names: Names = field(default_factory=Names)
    notice: str = ""  # what must be known before anything is read
    reload: int | None = None  # after so many seconds
    folded: bool = False  # whether chapters are unfolded by the reader

    def __post_init__(self) -> None:
        for each in fields(self):
            object.__setattr__(self, each.name, escaped_in(getattr(self, each.name)))

    @property
    def appendix(self) -> list[Section]:
        """Chapters that paper leaves out, where some are marked as those that answers rest on."""
        rest = [each for each in self.sections if not each.basis]
        return rest if len(rest) < len(self.sections) else []

    @property
    def draws(self) -> bool:
        """Whether it has charts that Vega draws."""
        pictured = self.what_now is not None and self.what_now.picture is not None
        return pictured or any(section.draws for section in self.sections)
