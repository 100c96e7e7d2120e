"""Sentences of a text file, a .jsonl file, a folder of both or a hub dataset, never all in memory.

plain_sentences takes off the marks of WikiText's raw form and leaves everything else as it is:

    = Robert Boulter =                                     a heading: no sentence, left out
    He had a guest @-@ starring role , and won .           He had a guest-starring role, and won.
"""

from __future__ import annotations

import codecs
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain, islice
from pathlib import Path

from levelhead.errors import BadOption, BadProbe
from levelhead.probes.files import parse_json
from levelhead.progress import counted

PIECE = 1 << 16  # characters read at once; a text without line breaks comes in pieces of this size
HEAD = 100  # records that are read to see which columns hold text
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
_HEADING = re.compile(r"(?:= )+[^=].*?(?: =)+")
_JOINED = re.compile(r" @([-,.])@ ")  # a hyphen, a comma or a point inside a word or a number
_QUOTED = re.compile(r'(?<!\S)" ([^"]+?) "(?!\w)')
_BEFORE = re.compile(r" (?=(?:[,.;:!?%)\]]|'s|'re|'ve|'ll|'d|'m|n't)(?:\W|$))")
_AFTER = re.compile(r"(?<=[(\[$£€]) ")


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
        alone, files = path.is_file(), [path]
        if path.is_dir():
            files, others = [], 0
            for root, _, names in os.walk(path, onerror=lambda _: skipped.update([NO_FILE])):
                for file in (Path(root, name) for name in names):
                    if file.suffix.lower() not in (".txt", _ROWS):
                        others += file.is_file() and _NO_PLAIN_TEXT.fullmatch(file.suffix) is not None
                    elif file.is_file():
                        files.append(file)
                    else:
                        skipped[NO_FILE] += 1
            if others:
                skipped[OTHER_FILE] += others
            if not files:
                raise BadProbe(
                    f"{path}: no .txt or .jsonl file in this folder; save the texts as one of them."
                )
            files.sort()
        elif not alone:
            raise BadProbe(
                f"{path}: no such corpus; name a text file, a .jsonl file, a folder of them or {HUB}NAME."
            )
        elif _NO_PLAIN_TEXT.fullmatch(path.suffix):
            raise BadProbe(
                f"{path}: a {path.suffix} file is no plain text; save the texts as .txt, or as {_ROWS} with "
                f'one {{"{COLUMN}": "..."}} a line.'
            )
        size = sum(file.stat().st_size for file in files)
        lines = counted(_file_lines(files, alone, skipped), f"Reading {path.name}", size, len)
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


def plain_sentences(sentences: Iterable[str]) -> Iterator[str]:
    """Sentences without headings, hyphens and punctuation where a writer puts them."""
    for sentence in sentences:
        if not _HEADING.fullmatch(sentence):
            joined = _QUOTED.sub(r'"\1"', _JOINED.sub(r"\1", sentence))
            yield _AFTER.sub("", _BEFORE.sub("", joined))


def top_reasons(skipped: Counter[str]) -> str:
    """The three commonest reasons with their counts."""
    return ", ".join(f"{reason}: {count}" for reason, count in skipped.most_common(3))


def check_sample(n: int, seed: int, what: str) -> None:
    """Refuse a sample of nothing, and a seed that no generator takes."""
    if n < 1:
        raise BadOption(f"{n} {what} were asked for; it takes at least 1.")
    if seed < 0:
        raise BadOption(f"seed must be 0 or greater (got {seed})")


def split_sentences(pieces: Iterable[str]) -> Iterator[str]:
    """Sentences from pieces of text. A piece ends in a line break unless the line goes on in the next piece.

    A line break ends a sentence (headings and list items have no full stop), except in hard-wrapped text:
    where a line stops without a full stop and the next begins, not indented, with a small letter.
    """
    held, open_line = "", False
    for piece in pieces:
        wrapped = piece[:1].islower() and held.rstrip()[-1:] not in ".!?…:"
        if held and not open_line and not wrapped:
            yield from _spaced(_cut(held))
            held = piece
        else:
            held += piece
        open_line = not piece.endswith("\n")
        if len(held) > PIECE:
            *done, held = _cut(held)
            yield from _spaced(done)
            if len(held) > PIECE:  # without a full stop, holding on would let memory grow with the file
                yield from _spaced([held])
                held = ""
    yield from _spaced(_cut(held))


def _cut(text: str) -> list[str]:
    """Cut after . ! ? where a capital, a digit, a bracket or a quote follows and no abbreviation precedes."""
    sentences, start = [], 0
    for match in _END.finditer(text):
        following = text[match.end() : match.end() + 2].lstrip(_OPENING)[:1]
        if not (following.isupper() or following.isdigit()):
            continue
        if match.group().rstrip() == ".":  # the full stop of "Mr", an initial or "U.S"; "I." does end one
            last = re.split(r"\s", text[max(0, match.start() - 12) : match.start()])[-1]
            if _ABBREVIATION.fullmatch(last.lstrip(_OPENING)):
                continue
        sentences.append(text[start : match.end()])
        start = match.end()
    return [*sentences, text[start:]]


def _spaced(texts: Iterable[str]) -> list[str]:
    return [" ".join(text.split()) for text in texts if text.strip()]


def _file_lines(files: list[Path], alone: bool, skipped: Counter[str]) -> Iterator[str]:
    """The lines of files; a closed file of a folder is counted, one that stands alone is an error."""
    for file in files:
        try:
            with file.open("rb") as handle:
                start = handle.read(4)
            # A byte order mark says how a file is written; UTF-8, with or without its own, where none does.
            encoding = next((code for mark, code in _BOMS.items() if start.startswith(mark)), "utf-8-sig")
            with file.open(encoding=encoding, errors="replace") as handle:
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
    """Lines of one column, the same for all records; cells that are not text are counted and not read.

    The named column, else `text`, else the only one with text; a column of nulls may hold text later.
    """
    records = iter(records)
    head = list(islice(records, HEAD))
    kinds: dict[str, set[type]] = {}
    for record in head:
        for key, cell in record.items():
            kinds.setdefault(key, set()).add(type(cell))
    texts = [key for key, types in kinds.items() if str in types]
    column = named or COLUMN
    if head and column not in texts and kinds.get(column) != {type(None)}:
        if named or len(texts) != 1:
            there = ", ".join(texts) or "none"
            raise BadProbe(f'{where}: no text column "{column}"; text columns: {there}. {advice}')
        column = texts[0]
    for record in chain(head, records):
        cell = record.get(column)
        if not isinstance(cell, str):
            skipped[NO_CELL] += 1
            continue
        yield from cell.splitlines(keepends=True)
        yield from _PARAGRAPH_END


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
    # ORG/NAME/CONFIG is plain; of two parts, ORG/NAME is tried first and NAME/CONFIG second.
    parts = name.split("/")
    attempts = [("/".join(parts[:2]), "/".join(parts[2:]) or None)]
    if len(parts) == 2:
        attempts.append((parts[0], parts[1]))
    try:
        for i, (path, config) in enumerate(attempts, start=1):
            try:
                records = load_dataset(path, config, split=split or "train", streaming=True)
                break
            except Exception:
                if i == len(attempts):
                    raise
        yield from _column_lines(records, source, column, f"Write {HUB}NAME/CONFIG:SPLIT:COLUMN.", skipped)
    except BadProbe:
        raise
    except Exception as error:  # the hub's libraries raise errors of many unrelated kinds
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadProbe(
            f"{source}: the dataset cannot be read ({reason[:200]}). "
            "Check the name, config, split and network, or use a text file."
        ) from None
