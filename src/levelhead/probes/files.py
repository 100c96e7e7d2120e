"""Files of the user's: every complaint is one line, and one bad item does not spoil the rest.

TOML files with a pydantic model are read by read_checked, which names a mistake by its key and line.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from levelhead.errors import BadProbe, LevelheadError

Key = tuple[str | int, ...]

_T = TypeVar("_T")
_U = TypeVar("_U")
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
LONGEST = 100_000  # characters of one text; a tokenizer takes minutes for a thousand times as many
_LARGEST = 512 * 2**20  # bytes of a file: SNLI's largest has 487 million
_HEADER = re.compile(r"^\s*\[(\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*("[^"]+"|'[^']+'|[\w-]+)\s*=""")
_MISTAKES = {
    "missing": "this key is needed and not there",
    "extra_forbidden": "this key is unknown; remove it or correct its spelling",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where an item stands: `dev.csv line 3`, `dev.json entry 12`."""

    file: str
    number: int  # counted from 1
    unit: str = "line"

    def __str__(self) -> str:
        return f"{self.file} {self.unit} {self.number}"


@dataclass(frozen=True, slots=True)
class UnusableItem:
    """An item of a file that cannot be evaluated: it is left out and counted as unscored."""

    line: int  # in a JSON list or a hub table the number of the entry, from 1
    reason: str  # the same words for every item of the kind
    complaint: str  # what a strict reader says of this one


def left_out_lines(items: Sequence[UnusableItem], most: int = 10) -> list[str]:
    """Items of files that could not be evaluated, each with line and reason; the first few of many."""
    if not items:
        return []
    lines = [f"Left out: {len(items)} that cannot be evaluated (--strict makes them errors)."]
    lines += [f"  {item.complaint}" for item in items[:most]]
    return [*lines, f"  and {len(items) - most} more; --json lists all."] if len(items) > most else lines


class BadItem(BadProbe):
    """One item of a file cannot be used: a strict loader raises this, any other goes on without the item."""

    def __init__(self, place: Place, reason: str, complaint: str) -> None:
        super().__init__(f"{place}: {complaint}")
        self.item = UnusableItem(place.number, reason, str(self))


def usable(
    items: Iterable[_T], read: Callable[[_T], _U], left_out: list[UnusableItem], strict: bool
) -> Iterator[_U]:
    """What can be read of the items; those that cannot go to left_out, or are an error if strict."""
    for item in items:
        try:
            check_length(item)
            result = read(item)
        except BadItem as mistake:
            if strict:
                raise
            left_out.append(mistake.item)
        else:
            yield result


def check_length(item: object, place: Place | None = None) -> None:
    """Refuse an item with a text that is too long. place: where it stands, unless it says so."""
    if (length := _longest(item)) > LONGEST:
        parts = item if isinstance(item, tuple) else ()
        where = next((part for part in parts if isinstance(part, Place)), place)
        complaint = f"a text of {length:,} characters; at most {LONGEST:,} are allowed. Shorten it."
        raise BadItem(where or Place("entry", 0), "a text is too long", complaint)


def _longest(value: object) -> int:
    if isinstance(value, str):
        return len(value)
    if isinstance(value, Mapping):
        return max(map(_longest, value.values()), default=0)
    return max(map(_longest, value), default=0) if isinstance(value, list | tuple) else 0


def by_reason(items: Iterable[UnusableItem]) -> dict[str, int]:
    """How many items were left out for each reason, commonest first."""
    return dict(Counter(item.reason for item in items).most_common())


def nothing_left(name: str, what: str, left_out: list[UnusableItem]) -> BadProbe:
    """The error for a file none of whose items can be used: how many, for which reasons, and the first."""
    counts = ", ".join(f"{reason}: {count}" for reason, count in by_reason(left_out).items())
    return BadProbe(f"{name}: no {what} in it can be used ({counts}). The first: {left_out[0].complaint}")


def read_text(path: Path, advice: str, mistake: type[LevelheadError] = BadProbe) -> str:
    """The text of a UTF-8 file, with or without a byte order mark; advice says what to give instead.

    mistake: the error to raise. A device, which may never end, is no file; nor is a pipe in a folder, to
    which nobody may ever write: a shell's own pipes have their names in /dev.
    """
    try:
        if path.is_char_device() or path.is_block_device():
            raise OSError(0, "it is a device")
        if path.is_fifo() and path.parts[:2] not in (("/", "dev"), ("/", "proc")):
            raise OSError(0, "it is a named pipe")
        if path.is_file() and path.stat().st_size > _LARGEST:
            raise OSError(0, f"{path.stat().st_size:,} bytes; at most {_LARGEST:,} are allowed")
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise mistake(f"{path}: not UTF-8 text (byte {error.start}). {advice}") from None
    except (OSError, ValueError) as error:  # a path with a null character is a ValueError
        reason = getattr(error, "strerror", None) or str(error)
        raise mistake(f"{path}: cannot be read ({reason}). {advice}") from None


def hub_table(source: str, instead: str, *names: str | None, split: str) -> Any:
    """A table of the Hugging Face hub through the optional package `datasets`.

    source: what the user wrote; instead: what to give in its place; names: repository and configuration.
    """
    try:
        import datasets
    except ImportError as error:
        raise BadProbe(
            f"{source} needs datasets: pip install 'levelhead[hub]', or pass a {instead}."
        ) from error
    try:
        return datasets.load_dataset(*names, split=split)
    except Exception as error:  # the hub's client has no common parent for its errors
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:160]
        advice = f"Check the name and network, or pass a {instead}."
        raise BadProbe(f"{source} did not load ({reason}). {advice}") from error


def parse_json(text: str) -> tuple[Any, str, int]:
    """(value, "", 0), or (None, why it is not JSON that we can read, its line)."""
    try:
        return json.loads(text), "", 0
    except json.JSONDecodeError as error:
        return None, f"not JSON ({error.msg})", error.lineno
    except RecursionError:
        return None, "not JSON that can be read (nested too deep)", 1
    except ValueError:  # Python refuses to read a whole number of more than 4,300 digits
        return None, "not JSON that can be read (a number is too long)", 1


def read_json(path: Path, advice: str) -> Any:
    """What a JSON file holds; see read_text for the advice."""
    value, reason, line = parse_json(read_text(path, advice))
    if reason:
        raise BadProbe(f"{path.name} line {line}: {reason}.")
    return value


def parse_toml(
    path: Path, text: str, advice: str, mistake: type[LevelheadError] = BadProbe
) -> dict[str, Any]:
    """The tables of a TOML file, or one line that says why there are none."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise mistake(f"{path.name} is not TOML: {error}. {advice}") from None
    except RecursionError:
        raise mistake(f"{path.name} is not TOML that can be read: nested too deep. {advice}") from None
    except ValueError:
        raise mistake(f"{path.name} is not TOML that can be read: a number is too long. {advice}") from None
    if (length := _longest(tables)) > LONGEST:
        raise mistake(f"{path.name}: a text of {length:,} characters; at most {LONGEST:,} are allowed.")
    return tables


def shown(value: object, length: int = 60) -> str:
    """A value for an error message: its repr, cut to this length, and never an error of its own."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits, a nest of thousands of lists
        text = f"{type(value).__name__}, too long to show"
    return text if len(text) <= length else f"{text[:length]}…"


def finite(value: object) -> float | None:
    """A number as a float; None for what is none, for infinity and for whole numbers that are too large."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def is_whole(text: str) -> bool:
    """Whether a text has no half of a character, which JSON can write and UTF-8 cannot."""
    return _HALF_CHARACTER.search(text) is None


class Checked(BaseModel):
    """A part of a file: it may have no other keys than these."""

    model_config = ConfigDict(extra="forbid", frozen=True)


_M = TypeVar("_M", bound=Checked)


@dataclass(frozen=True)
class Source:
    """The file and where its keys stand, so that an error can name the line."""

    path: Path
    lines: dict[Key, int]

    def fail(self, key: Key, message: str) -> BadProbe:
        """The error to raise: `age.toml, line 45: knowledge.6.text: …`."""
        known = next((key[:end] for end in range(len(key), 0, -1) if key[:end] in self.lines), None)
        where = f", line {self.lines[known]}" if known else ""
        name = ".".join(str(part + 1) if isinstance(part, int) else part for part in key)
        return BadProbe(f"{self.path.name}{where}: {name}: {message}")


def read_checked(path: Path, model: type[_M], what: str, page: str) -> tuple[_M, Source]:
    """The content of a TOML file as this model has it; page is where its form is explained."""
    text = read_text(path, f"Give {what}, a .toml file in UTF-8.")
    content = parse_toml(path, text, f"See {page}.")
    # tomllib keeps no positions; a line scan does for the forms we document.
    lines: dict[Key, int] = {}
    table: Key = ()
    seen: Counter[str] = Counter()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            name = header[2]
            table = tuple(part.strip().strip("\"'") for part in name.split("."))
            if header[1]:
                table = (*table, seen[name])
                seen[name] += 1
            lines[table] = number
        elif key := _KEY.match(line):
            lines[*table, key[1].strip("\"'")] = number
    source = Source(path, lines)
    try:
        return model.model_validate(content), source
    except ValidationError as error:
        mistake: Any = error.errors()[0]
    message = _MISTAKES.get(mistake["type"], f"{mistake['msg']}, not {shown(mistake['input'])}")
    raise source.fail(mistake["loc"], f"{message}. See {page}.")
