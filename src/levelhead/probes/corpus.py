"""Sentences of a text file, a folder of .txt files or a hub dataset, one after the other, never all in memory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from levelhead.errors import BadProbe

PIECE = 1 << 16  # characters read at once; a text without line breaks comes in pieces of this size
HUB = "hub:"
_PARAGRAPH_END = ("\n", "\n")  # the first closes a last line without a line break, the second is an empty line

_END = re.compile(r"[.!?…]+[\"'”’)\]]*\s+")
_OPENING = "\"'“‘(["
_ABBREVIATION = re.compile(
    r"[A-HJ-Z] | (?:[A-Z]\.)+[A-Z] | (?i:mr|mrs|ms|dr|prof|st|gen|col|sgt|lt|capt|rev|hon|pres|gov|sen|rep|jr|sr|vs"
    r" | vol|fig|dept|inc|ltd|co|corp|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|e\.g|i\.e|cf|ca|approx)",
    re.VERBOSE,
)


def corpus_sentences(source: str | Path) -> Iterator[str]:
    """Every sentence of a source, in order, with single spaces.

    source: a text file, a folder (its .txt files, sorted by path), or `hub:NAME`, `hub:NAME/CONFIG:SPLIT:COLUMN`.
    """
    if isinstance(source, str) and source.startswith(HUB):
        return split_sentences(_hub_lines(source))
    return split_sentences(_file_lines(_text_files(Path(source).expanduser())))


def split_sentences(pieces: Iterable[str]) -> Iterator[str]:
    """Sentences from pieces of text. A piece ends in a line break unless the line goes on in the next piece.

    A line break ends a sentence (headings and list items have no full stop), except in hard-wrapped text: where a line
    stops without a full stop and the next begins, not indented, with a small letter.
    """
    held, open_line = "", False
    for piece in pieces:
        if open_line:
            held += piece
        elif held and not _goes_on(held, piece):
            yield from _spaced(_cut(held))
            held = piece
        else:
            held = f"{held}{piece}"
        open_line = not piece.endswith("\n")
        if len(held) > PIECE:
            *done, held = _cut(held)
            yield from _spaced(done)
            if len(held) > PIECE:  # no full stop in so long a text: holding it would let memory grow with the file
                yield from _spaced([held])
                held = ""
    yield from _spaced(_cut(held))


def _goes_on(held: str, piece: str) -> bool:
    return piece[:1].islower() and held.rstrip()[-1:] not in ".!?…:"


def _cut(text: str) -> list[str]:
    """Cut after . ! ? where a capital, a digit or an opening sign follows and no abbreviation precedes."""
    sentences, start = [], 0
    for match in _END.finditer(text):
        following = text[match.end() : match.end() + 2].lstrip(_OPENING)[:1]
        if (following.isupper() or following.isdigit()) and not _abbreviated(text, match):
            sentences.append(text[start : match.end()])
            start = match.end()
    return [*sentences, text[start:]]


def _spaced(texts: Iterable[str]) -> Iterator[str]:
    return (" ".join(text.split()) for text in texts if text.strip())


def _abbreviated(text: str, match: re.Match[str]) -> bool:
    """Whether the full stop ends "Mr", an initial or "U.S" rather than a sentence. "I." does end one."""
    if match.group().rstrip() != ".":
        return False
    last = re.split(r"\s", text[max(0, match.start() - 12) : match.start()])[-1]
    return _ABBREVIATION.fullmatch(last.lstrip(_OPENING)) is not None


def _text_files(path: Path) -> list[Path]:
    if path.is_dir():
        files = sorted(file for file in path.rglob("*.txt") if file.is_file())
        if not files:
            raise BadProbe(f"{path}: no .txt file in this folder; name a text file or a folder of .txt files.")
        return files
    if not path.is_file():
        raise BadProbe(f"{path}: no such corpus; name a text file, a folder of .txt files or {HUB}NAME.")
    return [path]


def _file_lines(files: list[Path]) -> Iterator[str]:
    for file in files:
        try:
            with file.open(encoding="utf-8-sig", errors="replace") as handle:
                while piece := handle.readline(PIECE):
                    yield piece
        except OSError as error:
            raise BadProbe(f"{file}: cannot be read ({error.strerror}).") from None
        yield from _PARAGRAPH_END


def _hub_lines(source: str) -> Iterator[str]:
    """Lines of a column of a streamed hub dataset; `datasets` is imported only here, when asked for."""
    try:
        from datasets import load_dataset
    except ImportError:
        raise BadProbe(f"{source}: needs the package datasets; install it with: pip install levelhead[hub]") from None
    name, split, column = [*source.removeprefix(HUB).split(":"), "", ""][:3]
    if not name:
        raise BadProbe(f"{source!r}: no dataset named; write {HUB}NAME or {HUB}NAME/CONFIG:SPLIT:COLUMN.")
    try:
        rows = _hub_rows(load_dataset, name, split or "train")
        for row in rows:
            yield from _hub_text(source, row, column).splitlines(keepends=True)
            yield from _PARAGRAPH_END
    except BadProbe:
        raise
    except Exception as error:  # the hub's libraries raise errors of many unrelated kinds
        said = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadProbe(
            f"{source}: the dataset cannot be read ({said[:200]}). "
            "Check the name, config, split and network, or use a text file."
        ) from None


def _hub_rows(load_dataset: Any, name: str, split: str) -> Iterable[dict[str, Any]]:
    """ORG/NAME/CONFIG is plain; of two parts, ORG/NAME is tried first and NAME/CONFIG second."""
    parts = name.split("/")
    attempts = [("/".join(parts[:2]), "/".join(parts[2:]) or None)]
    if len(parts) == 2:
        attempts.append((parts[0], parts[1]))
    for i, (path, config) in enumerate(attempts):
        try:
            return load_dataset(path, config, split=split, streaming=True)  # type: ignore[no-any-return]
        except Exception:
            if i == len(attempts) - 1:
                raise
    return ()


def _hub_text(source: str, row: dict[str, Any], column: str) -> str:
    texts = [key for key, value in row.items() if isinstance(value, str)]
    chosen = column or ("text" if "text" in texts else next(iter(texts), ""))
    if chosen not in texts:
        raise BadProbe(
            f'{source}: no text column "{column}" in this dataset; text columns: {", ".join(texts) or "none"}. '
            f"Write {HUB}NAME/CONFIG:SPLIT:COLUMN."
        )
    return str(row[chosen])
