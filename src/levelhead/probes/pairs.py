"""Inputs that differ in gender and in nothing else: what a gender subspace is fitted on (SPEC B5).

Single sentences for encoders, (premise, hypothesis) inputs for pair classifiers: a pair classifier that is
fitted on single sentences gives directions that change almost nothing (SPEC B8). Yours: a tab-separated file
with two columns,

    She went home early.    He went home early.

or with four: feminine premise, feminine hypothesis, masculine premise, masculine hypothesis.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from levelhead.errors import BadProbe

_DATA = Path(__file__).parent / "data" / "pairs"
_ALLOWED = "two columns (feminine, masculine) or four (premise and hypothesis of each) are allowed, separated by tabs"
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
        """Whether both forms have as many words, to be matched one to one; other pairs serve at CLS and SENT
        only."""
        return all(
            len((mine or "").split()) == len((theirs or "").split())
            for mine, theirs in zip(self.feminine, self.masculine, strict=True)
        )


def gender_sentence_pairs() -> tuple[InputPair, ...]:
    """The shipped single sentences, 130 pairs, words aligned one to one."""
    return load_pairs(_DATA / "sentences.tsv")


def nli_pair_inputs() -> tuple[InputPair, ...]:
    """The shipped (premise, hypothesis) inputs, 125 pairs that differ in the hypothesis, in the premise or in
    both."""
    return load_pairs(_DATA / "inputs.tsv")


def load_pairs(path: str | Path) -> tuple[InputPair, ...]:
    """The pairs of a tab-separated file with two or four columns; a header may stand first, empty lines are
    skipped.

    Pairs of unequal length are kept and carry `aligned == False`; no pair is dropped.
    """
    file = Path(path)
    rows = list(_rows(file))
    if not rows:
        raise BadProbe(f"{file.name}: no pairs in it; {_ALLOWED}.")
    width = len(rows[0][1])
    pairs = []
    for line, cells in rows:
        if len(cells) not in (2, 4) or len(cells) != width:
            before = f", {width} in the lines before" if width in (2, 4) and len(cells) in (2, 4) else ""
            raise BadProbe(
                f"{file.name} line {line}: {len(cells)} columns{before}; {_ALLOWED}, alike in all lines."
            )
        pairs.append(_pair(f"{file.name} line {line}", cells))
    return tuple(pairs)


def _rows(file: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise BadProbe(
            f"{file}: cannot be read ({error.strerror}); give a tab-separated file of pairs."
        ) from error
    except UnicodeDecodeError as error:
        raise BadProbe(f"{file.name}: not UTF-8 text; save it as UTF-8, tab-separated.") from error
    # Not splitlines(): it also breaks at form feeds and U+2028, which would shift every line number after
    # them.
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
