"""Inputs that differ in gender and in nothing else (docs/method.md, Gender subspace).

A gender subspace is fitted on them: on single sentences for an encoder, on (premise, hypothesis) inputs for a
pair classifier, which gives directions that change almost nothing when fitted on single sentences. Yours: a
tab-separated file with two columns,

    She went home early.    He went home early.

or with four: feminine premise, feminine hypothesis, masculine premise, masculine hypothesis.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from levelhead.errors import BadProbe
from levelhead.probes import DATA

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


def gender_sentence_pairs() -> tuple[InputPair, ...]:
    """The 130 shipped pairs of single sentences; their words are aligned one to one."""
    return load_pairs(DATA / "pairs" / "sentences.tsv")


def nli_pair_inputs() -> tuple[InputPair, ...]:
    """The 125 shipped (premise, hypothesis) pairs; they differ in hypothesis, in premise or in both."""
    return load_pairs(DATA / "pairs" / "inputs.tsv")


def load_pairs(path: str | Path) -> tuple[InputPair, ...]:
    """The pairs of a tab-separated file with two or four columns; a header and empty lines are passed over.

    Pairs of unequal length are kept and carry `aligned == False`; no pair is dropped.
    """
    file = Path(path)
    lines = list(_lines(file))
    if not lines:
        raise BadProbe(f"{file.name}: no pairs in it; {_ALLOWED}.")
    width = len(lines[0][1])
    pairs = []
    for line, cells in lines:
        if len(cells) not in (2, 4) or len(cells) != width:
            before = f", {width} in the lines before" if width in (2, 4) and len(cells) in (2, 4) else ""
            raise BadProbe(
                f"{file.name} line {line}: {len(cells)} columns{before}; {_ALLOWED}, alike in all lines."
            )
        pairs.append(_pair(f"{file.name} line {line}", cells))
    return tuple(pairs)


def _lines(file: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadProbe(
            f"{file}: cannot be read ({error.strerror}); give a tab-separated file of pairs."
        ) from error
    except UnicodeDecodeError as error:
        raise BadProbe(f"{file.name}: not UTF-8 text; save it as UTF-8, tab-separated.") from error
    # Not splitlines(): it also breaks at form feeds and U+2028 and would shift the line numbers after them.
    for number, line in enumerate(text.split("\n"), start=1):
        cells = tuple(cell.strip() for cell in line.rstrip("\r").split("\t"))
        is_header = number == 1 and tuple(cell.lower() for cell in cells) in _HEADERS
        if any(cells) and not is_header:
            yield number, cells


def _pair(where: str, cells: tuple[str, ...]) -> InputPair:
    if not all(cells):
        raise BadProbe(
            f"{where}: column {cells.index('') + 1} of {len(cells)} is empty; each needs a sentence."
        )
    if len(cells) == 2:
        pair = InputPair((cells[0], None), (cells[1], None))
    else:
        pair = InputPair((cells[0], cells[1]), (cells[2], cells[3]))
    if pair.feminine == pair.masculine:
        raise BadProbe(
            f"{where}: both sides are {' / '.join(filter(None, pair.feminine))!r}; they must differ."
        )
    return pair
