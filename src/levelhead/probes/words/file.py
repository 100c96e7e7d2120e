"""A user's word list as a TOML file, read so that every complaint names the file, the line and the word.

tomllib gives values but not where they stand, so a second, shallow scan of the text notes their lines.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from levelhead.errors import BadProbe
from levelhead.probes.files import read_text, shown

GROUPS = ("A", "B", "X", "Y")
KEYS = ("name", "labels", "axis", "not_covered", *GROUPS, "pairs", "parts", "exchanged")
IN_MEMORY = "own words"  # the name of lists in memory that have none
_NEEDED = "A word list has X and Y, and either A and B or pairs; see docs/own-words.md"

_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*)
      | (?P<value>\"{3}[\s\S]*?\"{3} | '{3}[\s\S]*?'{3} | "(?:\\.|[^"\\\n])*" | '[^'\n]*'
          | [^\s\[\]{},=\#"']+)
      | (?P<sign>[\[\]{},=])""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class WordFile:
    """The parsed file: its values, the line of each key, and the lines of single values in reading order."""

    name: str
    values: Mapping[str, Any]
    key_lines: Mapping[str, int]
    value_lines: Mapping[str, tuple[int, ...]]

    def fail(self, line: int | None, complaint: str) -> BadProbe:
        """The error to raise: `religion.toml line 7: …`."""
        where = self.name if line is None else f"{self.name} line {line}"
        return BadProbe(f"{where}: {complaint}")

    def line(self, key: str, index: int = 0) -> int | None:
        """Where the index-th single value of a key stands; the key's own line when the scan cannot tell."""
        lines = self.value_lines.get(key, ())
        return lines[index] if index < len(lines) else self.key_lines.get(key)


class WordLists(NamedTuple):
    """What a checked word list says, in the order of a WordTest's fields."""

    name: str
    A: tuple[str, ...]
    B: tuple[str, ...]
    X: tuple[str, ...]
    Y: tuple[str, ...]
    labels: tuple[str, str, str, str]
    pairs: tuple[tuple[str, str], ...]
    parts: tuple[tuple[str, tuple[str, ...]], ...]
    axis: str
    not_covered: str
    exchanged: tuple[tuple[str, ...], ...]


class Entry(NamedTuple):
    """A word of a set, with its line."""

    word: str
    line: int | None


def read_word_file(path: Path) -> WordLists:
    """The checked content of a TOML word list.

    Without A and B they are the first and second words of the pairs, as given. Without pairs, A and B of one
    length are counterparts line by line; of different lengths they have no counterparts.
    """
    text = read_text(path, "Name a TOML file, saved as UTF-8.")
    # Lines of keys and of their single values: the scan need only be right about files that tomllib accepts.
    key_lines: dict[str, int] = {}
    value_lines: dict[str, tuple[int, ...]] = {}
    key, depth, line, seen = "", 0, 1, 0
    for match in _TOKEN.finditer(text):
        line += text.count("\n", seen, match.start())
        seen, token = match.start(), match.group()
        if match.lastgroup == "comment":
            continue
        is_key = match.lastgroup == "value" and re.match(r"[ \t]*=", text[match.end() : match.end() + 80])
        if token in "[{":
            depth += 1
        elif token in "]}":
            depth -= 1
        elif is_key and depth == 0:
            key = token.strip("\"'")
            if key in key_lines and key in KEYS:
                first = f"was already given in line {key_lines[key]}"
                raise BadProbe(f'{path.name} line {line}: the key "{key}" {first}. Join the two.')
            key_lines[key] = line
        elif token not in ",=":
            value_lines[key] = (*value_lines.get(key, ()), line)
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"at line (\d+)", str(error))
        number = int(at[1]) if at else len(text.splitlines())
        near = (text.splitlines() or [""])[min(number, len(text.splitlines()) or 1) - 1].strip()
        raise BadProbe(
            f"{path.name} line {number}: not valid TOML near {near[:60]!r} ({str(error).split(' (at')[0]}). "
            'Write lists as ["word", "word"].'
        ) from None
    except (RecursionError, ValueError):
        raise BadProbe(f"{path.name}: nested too deep, or a number is too long. {_NEEDED}.") from None
    return _checked(WordFile(path.name, values, key_lines, value_lines), path.stem)


def checked_words(lists: Mapping[str, object]) -> WordLists:
    """The same of lists in memory: {"X": [...], "Y": [...], "pairs": [...]}; complaints name no line."""

    def listed(value: object) -> object:
        """Tuples as lists, as TOML has them, at any depth."""
        if isinstance(value, list | tuple):
            return [listed(each) for each in value]
        return {key: listed(each) for key, each in value.items()} if isinstance(value, Mapping) else value

    values = {key: listed(value) for key, value in lists.items()}
    return _checked(WordFile(IN_MEMORY, values, {}, {}), IN_MEMORY)


def _checked(file: WordFile, stem: str) -> WordLists:
    for key in file.values:
        if key not in KEYS:
            folded = {known.casefold(): known for known in KEYS}
            near = difflib.get_close_matches(key.casefold(), list(folded), 1, cutoff=0.5)
            hint = f' Did you mean "{folded[near[0]]}"?' if near else ""
            complaint = f'unknown key "{key}".{hint} Allowed: {", ".join(KEYS)}.'
            raise file.fail(file.key_lines.get(key), complaint)
    pairs = _pairs(file)
    sets: dict[str, list[Entry]] = {}
    for key in GROUPS:
        if key in file.values:
            words, line = file.values[key], file.key_lines.get(key)
            if not isinstance(words, list):
                complaint = f'{key} is {shown(words)}; it must be a list such as ["word", "word"].'
                raise file.fail(line, complaint)
            if not words:
                raise file.fail(line, f"the list {key} is empty; give it at least one word.")
            sets[key] = [_entry(file, key, i, word) for i, word in enumerate(words)]
    if pairs is not None and not {"A", "B"} & sets.keys():
        sets["A"], sets["B"] = [a for a, _ in pairs], [b for _, b in pairs]
    if missing := [key for key in GROUPS if key not in sets]:
        raise file.fail(None, f"the list {missing[0]} is missing. {_NEEDED}.")
    # No word may stand in two sets: its own similarity to itself, 1, would be counted as bias.
    seen: dict[str, tuple[str, Entry]] = {}
    for key in GROUPS:
        for entry in sets[key]:
            other, first = seen.setdefault(entry.word.casefold(), (key, entry))
            if other != key:
                place = "" if first.line is None else f" (line {first.line})"
                both = f'"{entry.word}" is in {key} and in {other}{place}'
                raise file.fail(entry.line, f"{both}; keep it in one of them.")
    for pair in pairs or ():
        for entry, key in zip(pair, "AB", strict=True):
            listed = [each.word for each in sets[key]]
            if entry.word not in listed:
                near = difflib.get_close_matches(entry.word, listed, 1)
                hint = f'did you mean "{near[0]}"?' if near else f"add it to {key}, or remove the pair."
                raise file.fail(entry.line, f'"{entry.word}" in pairs is not in {key}; {hint}')
    if pairs is None and len(sets["A"]) == len(sets["B"]):
        pairs = list(zip(sets["A"], sets["B"], strict=True))
    A, B, X, Y = (tuple(entry.word for entry in sets[key]) for key in GROUPS)
    counterparts = tuple((a.word, b.word) for a, b in pairs or ())
    name, axis = _text(file, "name", stem), _text(file, "axis", "").casefold()
    parts, without = _parts(file, {*X, *Y}), _text(file, "not_covered", "")
    labels = file.values.get("labels", list(GROUPS))
    given = labels if isinstance(labels, list) else []
    texts = [label for label in given if isinstance(label, str) and label]
    if len(texts) != len(GROUPS) or texts != labels:
        complaint = f"labels is {shown(labels)}; it must be four texts, for A, B, X and Y."
        raise file.fail(file.line("labels"), complaint)
    four = (texts[0], texts[1], texts[2], texts[3])
    rows = tuple(tuple(entry.word for entry in row) for row in _rows(file, "exchanged") or ())
    sizes = sorted({len(row) for row in rows})
    if len(sizes) > 1 or min(sizes, default=2) < 2:
        counts = " and ".join(map(str, sizes))
        complaint = f"rows of exchanged have {counts} words; give each one word per group, at least two."
        raise file.fail(file.line("exchanged"), complaint)
    return WordLists(name, A, B, X, Y, four, counterparts, parts, axis, without, rows)


def _text(file: WordFile, key: str, default: str) -> str:
    text = file.values.get(key, default)
    if not isinstance(text, str) or (key in file.values and not text.strip()):
        raise file.fail(file.line(key), f"{key} is {shown(text)}; it must be a text in quotes.")
    return text.strip()


def _parts(file: WordFile, targets: set[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Kinds of targets by name; every word must be a target."""
    parts = file.values.get("parts", {})
    if not isinstance(parts, dict):
        raise file.fail(file.key_lines.get("parts"), f"parts is {shown(parts)}; it must be a table, [parts].")
    for name, words in parts.items():
        line = file.key_lines.get(name)
        if not isinstance(words, list) or not words:
            raise file.fail(line, f'the part "{name}" is {shown(words)}; it must be a list of targets.')
        if other := [word for word in words if not isinstance(word, str) or word not in targets]:
            complaint = f"{shown(other[0])} in the part {name!r} is neither in X nor in Y; remove it."
            raise file.fail(line, complaint)
    return tuple((str(name), tuple(words)) for name, words in parts.items())


def _entry(file: WordFile, key: str, index: int, word: object) -> Entry:
    line = file.line(key, index)
    if not isinstance(word, str):
        raise file.fail(line, f"{shown(word)} in {key} is not a word; write it in quotes.")
    if not any(c.isalnum() for c in word) or word != " ".join(word.split()):
        raise file.fail(line, f'"{word}" in {key} is empty or has needless spaces; correct or remove it.')
    if "," in word or ";" in word:
        raise file.fail(line, f'"{word}" in {key} looks like several words; quote each by itself.')
    return Entry(word, line)


def _pairs(file: WordFile) -> list[tuple[Entry, Entry]] | None:
    rows = _rows(file, "pairs", "a pair; write two words in brackets", 2)
    return None if rows is None else [(first, second) for first, second in rows]


def _rows(
    file: WordFile, key: str, wanted: str = "a row; write words in brackets", size: int | None = None
) -> list[list[Entry]] | None:
    """Rows of counterparts; size: how many words each must have."""
    if key not in file.values:
        return None
    rows = file.values[key]
    if not isinstance(rows, list) or not rows:
        complaint = f'{key} must be a list such as [["word", "counterpart"]].'
        raise file.fail(file.key_lines.get(key), complaint)
    entries: list[list[Entry]] = []
    for row in rows:
        place = sum(map(len, entries))
        if not isinstance(row, list) or (size is not None and len(row) != size):
            raise file.fail(file.line(key, place), f"{shown(row, 80)} in {key} is not {wanted}.")
        entries.append([_entry(file, key, place + i, word) for i, word in enumerate(row)])
    return entries
