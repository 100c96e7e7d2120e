"""What a report is made of: sections of blocks. Each block has its own piece of template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Literal

from levelhead.edits.sites import Head
from levelhead.escaping import escaped_in
from levelhead.inference.verdicts import Size
from levelhead.pages.charts.base import Chart, Control
from levelhead.pages.names import Names
from levelhead.pages.tables import Cell, Table
from levelhead.studies.heads.records import ArcPair


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
    change: float | None  # of attention to the group word in counter-stereotypes, on average
    sentences: int  # that the average rests on


@dataclass(frozen=True)
class FirstArcs:
    """A head, and the place of a pair among the pairs."""

    head: Head
    pair: int


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


@dataclass(frozen=True)
class MarkedPiece:
    """A piece of a text; one that is marked belongs to the first or the second side."""

    text: str
    side: Literal["", "first", "second"] = ""


@dataclass(frozen=True)
class Written:
    """What was given, and what the model wrote behind it."""

    heading: str
    given: str
    said: Sequence[MarkedPiece]
    number: str = ""


@dataclass(frozen=True)
class SideBySide:
    """Texts in twos that differ in one thing."""

    caption: str
    pairs: Sequence[tuple[Written, Written]]
    note: str
    kind: str = field(default="pairs", init=False)


@dataclass(frozen=True)
class ListedText:
    """A text among many, with what it can be found by."""

    set: str
    group: str
    variant: str
    given: str
    said: str
    numbers: Mapping[str, float]  # that it can be sorted by

    @property
    def note(self) -> str:
        """What stands below it."""
        named = [f"{name} {value:.3g}".replace("-", "−") for name, value in self.numbers.items() if value]
        return " · ".join([each for each in (self.set, self.group, self.variant) if each] + named)


@dataclass(frozen=True)
class Texts:
    """Every text: to be filtered, sorted and saved by script, and a plain list without."""

    name: str  # of the file that is saved
    caption: str
    texts: Sequence[ListedText]
    note: str = ""
    kind: str = field(default="texts", init=False)

    @property
    def sorts(self) -> list[str]:
        """The numbers that texts can be sorted by."""
        return list(dict.fromkeys(name for each in self.texts for name in each.numbers))


Block = Cards | Shown | Drawn | HeadMap | Matrix | Frontier | Points | Definitions | Code | SideBySide | Texts


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


@dataclass(frozen=True)
class Found:
    """What one kind of question showed: how large, in a plain sentence, and the numbers behind it."""

    size: Size
    sentence: str
    numbers: Sequence[Cell]


@dataclass(frozen=True)
class Answer:
    """A reader's question, the answer in short, and what else belongs to it."""

    question: str
    short: str
    more: str = ""
    evidence: str = ""  # the chapter that it rests on


@dataclass(frozen=True)
class WhatNow:
    """What a reader who decides has to know: questions with their answers, and findings."""

    said: Sequence[Answer]
    picture: Chart | None  # of the bias; None where no measure has a scale
    found: Sequence[Found]
    commands: Sequence[Code]  # that write what is recommended
    rule: str  # what the words for sizes mean

    @property
    def answers(self) -> list[tuple[str, str]]:
        """Questions with their whole answers."""
        return [(each.question, f"{each.short} {each.more}".rstrip()) for each in self.said]


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
        blocks = (block for section in self.sections for block in section.blocks)
        return pictured or any(isinstance(block, Drawn | Frontier) for block in blocks)
