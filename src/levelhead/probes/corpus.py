"""Sentences of a text file, a .jsonl file, a folder of both or a hub dataset, never all in memory."""

from __future__ import annotations

import codecs
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from levelhead.errors import BadOption, BadProbe
from levelhead.probes.files import parse_json
from levelhead.progress import counted

PIECE = 1 << 16  # characters read at once; a text without line breaks comes in pieces of this size
HEAD = 100  # records that are looked at to see which columns hold text
HUB = "hub:"
COLUMN = "text"
NOT_TEXT, NO_CELL, NO_RECORD = "not UTF-8 text", "record without text", "line that is no JSON object"
OTHER_FILE, NO_FILE = "file that is no plain text", "file that cannot be read"
_PARAGRAPH_END = ("\n", "\n")  # the first closes a line without a line break, the second is an empty line

_ROWS = ".jsonl"
_NO_PLAIN_TEXT = re.compile(
    r"\.(?:json|ndjson|csv|tsv|parquet|arrow|xml|html?|pdf|docx?|odt|rtf|epub|xlsx?|db|sqlite"
    r"|gz|tgz|bz2|xz|zst|zip|7z|tar)",
    re.IGNORECASE,
)
_BOMS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",  # before UTF-16, whose mark begins like theirs
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}

# UTF-16 without a mark, undecodable bytes, halves of a character.
_UNREADABLE = re.compile("[\0\ufffd\ud800-\udfff]")
_END = re.compile(r"[.!?…]+[\"'”’)\]]*\s+")
_OPENING = "\"'“‘(["
_ABBREVIATION = re.compile(
    r"[A-HJ-Z] | (?:[A-Z]\.)+[A-Z] | (?i:mr|mrs|ms|dr|prof|st|gen|col|sgt|lt|capt|rev|hon|pres|gov|sen|rep"
    r" | jr|sr|vs|vol|fig|dept|inc|ltd|co|corp|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
    r" | e\.g|i\.e|cf|ca|approx)",
    re.VERBOSE,
)


def corpus_sentences(source: str | Path, skipped: Counter[str] | None = None) -> Iterator[str]:
    """Every sentence of a source that can be read, in order, with single spaces; none at all is an error.

    source: a text file, a .jsonl file (the column `text`, else the only one that holds text), a folder (its
    .txt and .jsonl files, sorted by path), or `hub:NAME`, `hub:NAME/CONFIG:SPLIT:COLUMN`. skipped: counts,
    reason by reason, what is left out while the sentences are read.
    """
    skipped = Counter() if skipped is None else skipped
    if isinstance(source, str) and source.startswith(HUB):
        lines = _hub_lines(source, skipped)
    else:
        path = Path(source).expanduser()
        files = _corpus_files(path, skipped)
        size = sum(file.stat().st_size for file in files)
        lines = counted(_file_lines(files, path.is_file(), skipped), f"Reading {path.name}", size, len)
    return _readable(source, split_sentences(lines), skipped)


def _readable(source: str | Path, sentences: Iterable[str], skipped: Counter[str]) -> Iterator[str]:
    read = 0
    for sentence in sentences:
        if _UNREADABLE.search(sentence):
            skipped[NOT_TEXT] += 1
        else:
            read += 1
            yield sentence
    if not read:
        reason = top_reasons(skipped) or "it is empty"
        raise BadProbe(f"{source}: no sentence can be read ({reason}). Give text, saved as UTF-8.")


def top_reasons(skipped: Counter[str]) -> str:
    """The three commonest reasons with their counts."""
    return ", ".join(f"{reason}: {count}" for reason, count in skipped.most_common(3))


def check_sample(n: int, seed: int, what: str) -> None:
    """Refuse a sample of nothing, and a seed that no generator takes."""
    if n < 1:
        raise BadOption(f"{n} {what} were asked for; it takes at least 1.")
    if seed < 0:
        raise BadOption(f"Seed {seed} came; seeds are whole numbers from 0 on.")


def split_sentences(pieces: Iterable[str]) -> Iterator[str]:
    """Sentences from pieces of text. A piece ends in a line break unless the line goes on in the next piece.

    A line break ends a sentence (headings and list items have no full stop), except in hard-wrapped text:
    where a line stops without a full stop and the next begins, not indented, with a small letter.
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
            if len(held) > PIECE:  # without a full stop, holding on would let memory grow with the file
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


def _corpus_files(path: Path, skipped: Counter[str]) -> list[Path]:
    if path.is_dir():
        inside = sorted(_inside(path, skipped))
        files = [file for file in inside if file.suffix.lower() in (".txt", _ROWS)]
        if left := sum(_NO_PLAIN_TEXT.fullmatch(file.suffix) is not None for file in inside):
            skipped[OTHER_FILE] += left
        if not files:
            raise BadProbe(f"{path}: no .txt or .jsonl file in this folder; save the texts as one of them.")
        return files
    if not path.is_file():
        raise BadProbe(
            f"{path}: no such corpus; name a text file, a .jsonl file, a folder of them or {HUB}NAME."
        )
    if _NO_PLAIN_TEXT.fullmatch(path.suffix):
        raise BadProbe(
            f"{path}: a {path.suffix} file is no plain text; save the texts as .txt, or as {_ROWS} with one "
            f'{{"{COLUMN}": "..."}} a line.'
        )
    return [path]


def _inside(folder: Path, skipped: Counter[str]) -> Iterator[Path]:
    """The files of a folder and of those below it; closed folders and dead links are counted."""

    def closed(_: OSError) -> None:
        skipped[NO_FILE] += 1

    for root, _, names in os.walk(folder, onerror=closed):
        for name in names:
            file = Path(root, name)
            if file.is_file():
                yield file
            elif file.suffix.lower() in (".txt", _ROWS):
                skipped[NO_FILE] += 1


def _file_lines(files: list[Path], alone: bool, skipped: Counter[str]) -> Iterator[str]:
    """The lines of files; a closed file of a folder is counted, one that stands alone is an error."""
    for file in files:
        try:
            with file.open(encoding=_encoding(file), errors="replace") as handle:
                if file.suffix.lower() == _ROWS:
                    advice = f'Call the one to read "{COLUMN}".'
                    yield from _column_lines(_json_records(handle, skipped), str(file), "", advice, skipped)
                else:
                    yield from iter(partial(handle.readline, PIECE), "")
        except OSError as error:
            if alone:
                raise BadProbe(f"{file}: cannot be read ({error.strerror}). Give another file.") from None
            skipped[NO_FILE] += 1
        yield from _PARAGRAPH_END


def _encoding(file: Path) -> str:
    """What the byte order mark says; UTF-8, with or without its own mark, where there is none."""
    with file.open("rb") as handle:
        start = handle.read(4)
    return next((encoding for mark, encoding in _BOMS.items() if start.startswith(mark)), "utf-8-sig")


def _json_records(lines: Iterable[str], skipped: Counter[str]) -> Iterator[Mapping[str, object]]:
    for line in lines:
        if line.strip():
            record, _, _ = parse_json(line)
            if isinstance(record, dict):
                yield record
            else:
                skipped[NO_RECORD] += 1


def _column_lines(
    records: Iterable[Mapping[str, object]], where: str, named: str, advice: str, skipped: Counter[str]
) -> Iterator[str]:
    """Lines of one column, the same for all records; cells that are not text are counted and not read."""
    records = iter(records)
    head = list(islice(records, HEAD))
    column = _column(head, where, named, advice) if head else ""
    for record in chain(head, records):
        cell = record.get(column)
        if not isinstance(cell, str):
            skipped[NO_CELL] += 1
            continue
        yield from cell.splitlines(keepends=True)
        yield from _PARAGRAPH_END


def _column(head: Iterable[Mapping[str, object]], where: str, named: str, advice: str) -> str:
    """The named column, else `text`, else the only one with text; a column of nulls may hold text later."""
    kinds: dict[str, set[type]] = {}
    for record in head:
        for key, cell in record.items():
            kinds.setdefault(key, set()).add(type(cell))
    texts = [key for key, types in kinds.items() if str in types]
    wanted = named or COLUMN
    if wanted in texts or kinds.get(wanted) == {type(None)}:
        return wanted
    if not named and len(texts) == 1:
        return texts[0]
    raise BadProbe(
        f'{where}: no text column "{wanted}"; text columns: {", ".join(texts) or "none"}. {advice}'
    )


def _hub_lines(source: str, skipped: Counter[str]) -> Iterator[str]:
    """Lines of a column of a streamed hub dataset; `datasets` is an optional package, imported only here."""
    try:
        from datasets import load_dataset
    except ImportError:
        raise BadProbe(
            f"{source}: needs the package datasets; install it with: pip install levelhead[hub]"
        ) from None
    name, split, column = [*source.removeprefix(HUB).split(":"), "", ""][:3]
    if not name:
        raise BadProbe(f"{source!r}: no dataset named; write {HUB}NAME or {HUB}NAME/CONFIG:SPLIT:COLUMN.")
    try:
        records = _hub_records(load_dataset, name, split or "train")
        yield from _column_lines(records, source, column, f"Write {HUB}NAME/CONFIG:SPLIT:COLUMN.", skipped)
    except BadProbe:
        raise
    except Exception as error:  # the hub's libraries raise errors of many unrelated kinds
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadProbe(
            f"{source}: the dataset cannot be read ({reason[:200]}). "
            "Check the name, config, split and network, or use a text file."
        ) from None


def _hub_records(load_dataset: Any, name: str, split: str) -> Iterable[dict[str, object]]:
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
