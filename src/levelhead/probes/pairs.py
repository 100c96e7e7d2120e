"""Inputs that differ in gender and in nothing else (docs/method/projections.md, Gender subspace).

A gender subspace is fitted on them: on single sentences for an encoder, on (premise, hypothesis) inputs for a
pair classifier, which gives directions that change almost nothing when fitted on single sentences. Yours: a
tab-separated file with two columns, feminine and masculine sentence, or with four: feminine premise, feminine
hypothesis, masculine premise, masculine hypothesis.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from levelhead.errors import BadProbe
from levelhead.probes import DATA
from levelhead.probes.files import BadItem, Place, UnusableItem, nothing_left, read_text, usable

_ALLOWED = "two columns (feminine, masculine) or four (premise, hypothesis of each) are allowed, tabs between"
_HEADERS = (
    ("feminine", "masculine"),
    ("feminine premise", "feminine hypothesis", "masculine premise", "masculine hypothesis"),
)


@dataclass(frozen=True)
class InputPair:
    """One input in the feminine and in the masculine: a text and, for pair classifiers, a second text."""

    feminine: tuple[str, str | None]
    masculine: tuple[str, str | None]

    @property
    def aligned(self) -> bool:
        """Whether both forms have as many words, so that words match; other pairs serve at CLS and SENT."""
        return all(
            len((mine or "").split()) == len((theirs or "").split())
            for mine, theirs in zip(self.feminine, self.masculine, strict=True)
        )


@dataclass(frozen=True)
class PairFile:
    """The pairs of a file, and the lines of it that are none."""

    pairs: tuple[InputPair, ...]
    unusable: tuple[UnusableItem, ...] = ()


def gender_sentence_pairs() -> tuple[InputPair, ...]:
    """The 130 shipped pairs of single sentences; their words are aligned one to one."""
    return load_pairs(DATA / "pairs" / "sentences.tsv")


def nli_pair_inputs() -> tuple[InputPair, ...]:
    """The 125 shipped (premise, hypothesis) pairs; they differ in hypothesis, in premise or in both."""
    return load_pairs(DATA / "pairs" / "inputs.tsv")


def load_pairs(path: str | Path) -> tuple[InputPair, ...]:
    """The pairs of a file whose every line is one; read_pairs also reads files with bad lines."""
    return read_pairs(path, strict=True).pairs


def read_pairs(path: str | Path, *, strict: bool = False) -> PairFile:
    """The pairs of a tab-separated file with two or four columns; a header and empty lines are passed over.

    All lines must have as many columns as most of them. A line that is no pair is left out and kept with its
    number and reason; with strict=True it is an error. Pairs of unequal length are kept, not `aligned`.
    """
    file = Path(path)
    lines: list[tuple[Place, tuple[str, ...]]] = []
    text = read_text(file, "Give a tab-separated file of pairs in UTF-8.")
    # Not splitlines(): it also breaks at form feeds and U+2028 and would shift the line numbers after them.
    for number, line in enumerate(text.split("\n"), start=1):
        cells = tuple(cell.strip() for cell in line.rstrip("\r").split("\t"))
        is_header = number == 1 and tuple(cell.lower() for cell in cells) in _HEADERS
        if any(cells) and not is_header:
            lines.append((Place(file.name, number), cells))
    if not lines:
        raise BadProbe(f"{file.name}: no pairs in it; {_ALLOWED}.")
    widths = [len(cells) for _, cells in lines if len(cells) in (2, 4)]
    width = max(sorted(set(widths)), key=widths.count, default=2)
    left_out: list[UnusableItem] = []
    pairs = tuple(usable(lines, lambda line: _pair(*line, width), left_out, strict))
    if not pairs:
        raise nothing_left(file.name, "line", left_out)
    return PairFile(pairs, tuple(left_out))


def pairs_text(pairs: Iterable[InputPair]) -> str:
    """The pairs as a file that load_pairs reads back."""
    return "".join(
        "\t".join(text for form in (p.feminine, p.masculine) for text in form if text) + "\n" for p in pairs
    )


def _pair(place: Place, cells: tuple[str, ...], width: int) -> InputPair:
    if len(cells) != width:
        others = f", {width} in the other lines" if len(cells) in (2, 4) else ""
        complaint = f"{len(cells)} columns{others}; {_ALLOWED}, alike in all lines."
        raise BadItem(place, "another number of columns", complaint)
    if not all(cells):
        complaint = f"column {cells.index('') + 1} of {len(cells)} is empty; each needs a sentence."
        raise BadItem(place, "a column is empty", complaint)
    if width == 2:
        pair = InputPair((cells[0], None), (cells[1], None))
    else:
        pair = InputPair((cells[0], cells[1]), (cells[2], cells[3]))
    if pair.feminine == pair.masculine:
        same = " / ".join(filter(None, pair.feminine))
        raise BadItem(place, "both sides are the same", f"both sides are {same!r}; they must differ.")
    return pair
