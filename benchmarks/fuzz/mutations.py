"""What can happen to a file: damaged bytes, other types, nests, numbers and characters nobody expects."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from random import Random
from typing import Any

Mutation = Callable[[Random, bytes], bytes]

DEEP = 100_000  # brackets: beyond what any parser follows
DIGITS = 5_000  # beyond what Python reads as a whole number
STRANGE_TEXTS = (
    "",
    " ",
    "\0",
    "\u2028",
    "\ufeff",
    "\u202e",
    "é",
    "日本",
    "<script>alert(1)</script>",
    "=1+1",
    "\x1b[31m",
    "a" * 5_000,
    "{word}",
    "{",
    "[MASK]",
    "../../etc/passwd",
    "-1",
    "nan",
    "\t",
    "\r\n",
)
_BYTES = (
    b"\xff",
    b"\xe9",
    b"\0",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xa8",
    b"\xed\xa0\x80",
    b"\n",
    b"\t",
    b'"',
    b"{",
    b"]",
)
_LITERALS = (
    "0",
    "-1",
    "1",
    "1.5",
    "1e999",
    "-1e308",
    "NaN",
    "nan",
    "inf",
    "true",
    "null",
    "[]",
    "{}",
    "[[]]",
    '""',
    '"x"',
    '"\\ud800"',
    '"\\u2028"',
    '"\\u0000"',
    "1979-05-27",
    "999999999999999999999999",
    "9" * DIGITS,
    "[" * DEEP,
    "[" * 900 + "]" * 900,
)
_VALUE = re.compile(r'"(?:\\.|[^"\\\n])*"|-?\d+(?:\.\d+)?|\b(?:true|false|null)\b|\[[^\[\]]*\]|[^\s\t,;=]+')


def mutated(rng: Random, data: bytes) -> bytes:
    """The data after one to three accidents."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = rng.choice(_MUTATIONS)(rng, data)
    return data


def flipped(rng: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 8) if data else 0):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _inserted(rng: Random, data: bytes) -> bytes:
    at = rng.randint(0, len(data))
    return data[:at] + rng.choice(_BYTES) * rng.choice((1, 1, 3)) + data[at:]


def _cut(rng: Random, data: bytes) -> bytes:
    first, last = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
    return rng.choice((data[:first], data[last:], data[:first] + data[last:]))


def _repeated(rng: Random, data: bytes) -> bytes:
    lines = data.splitlines(keepends=True) or [b""]
    at = rng.randrange(len(lines))
    moved = rng.choice(([], [lines[at]] * 2, [lines[at], rng.choice(lines)]))
    return b"".join([*lines[:at], *moved, *lines[at + 1 :]])


def _encoded(rng: Random, data: bytes) -> bytes:
    text = data.decode("utf-8", errors="replace")
    encoding = rng.choice(("utf-16", "utf-16-be", "utf-8-sig", "latin-1", "utf-32"))
    return text.encode(encoding, errors="replace")


def _revalued(rng: Random, data: bytes) -> bytes:
    """Another literal where a value stands, whatever the format."""
    text = data.decode("utf-8", errors="surrogateescape")
    places = list(_VALUE.finditer(text))
    if not places:
        return data
    place = rng.choice(places)
    value = rng.choice((*_LITERALS, *STRANGE_TEXTS))
    return (text[: place.start()] + value + text[place.end() :]).encode("utf-8", errors="surrogateescape")


def retyped(rng: Random, data: bytes) -> bytes:
    """Another value, no value, or one more, somewhere inside a JSON text or one of its lines."""
    whole = _json(data)
    if whole is not None:
        return _dumped(_changed(rng, whole))
    lines = data.split(b"\n")
    known = [number for number, line in enumerate(lines) if _json(line) is not None]
    if not known:
        return _revalued(rng, data)
    number = rng.choice(known)
    lines[number] = _dumped(_changed(rng, _json(lines[number])))
    return b"\n".join(lines)


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _dumped(value: Any) -> bytes:
    try:
        return json.dumps(value).encode()
    except (ValueError, RecursionError):  # a number with more digits than Python writes
        return b"9" * DIGITS


def _changed(rng: Random, value: Any, chance: float = 0.1) -> Any:
    """The value with one place inside it changed; chance: that it is this very place."""
    if rng.random() < chance or not isinstance(value, dict | list) or not value:
        return _replacement(rng, value)
    if isinstance(value, list):
        at, accident = rng.randrange(len(value)), rng.random()
        if accident < 0.2:
            return [*value[:at], *value[at:][:1] * rng.choice((0, 2)), *value[at + 1 :]]
        return [*value[:at], _changed(rng, value[at], chance), *value[at + 1 :]]
    key = rng.choice(list(value))
    kept = {name: inner for name, inner in value.items() if name != key}
    new = rng.choice((key, key, key, key, rng.choice(STRANGE_TEXTS)))
    return kept if rng.random() < 0.1 else {**kept, new: _changed(rng, value[key], chance)}


def _replacement(rng: Random, value: Any) -> Any:
    numbers: tuple[Any, ...] = (0, -1, 1, 2, 0.5, -0.0, 1e308, 10**30, float("nan"), float("inf"), 10**9)
    others: tuple[Any, ...] = (
        None,
        True,
        [],
        {},
        [value],
        {"x": value},
        str(value)[:200],
        "\ud800",
        [value] * 3,
    )
    if isinstance(value, str) and rng.random() < 0.5:
        return rng.choice((*STRANGE_TEXTS, value[::-1], value.upper(), value * 2))
    if isinstance(value, int | float) and rng.random() < 0.6:
        return rng.choice((*numbers, -value, value * 1e6, int(value) + 1) if abs(value) < 1e300 else numbers)
    return rng.choice((rng.choice(numbers), rng.choice(others), rng.choice(STRANGE_TEXTS)))


def _nothing(rng: Random, data: bytes) -> bytes:
    return rng.choice((b"", b"\n", b"\xef\xbb\xbf", b"null", b"[]", b"{}", b"x = 1\n"))


_MUTATIONS: tuple[Mutation, ...] = (
    flipped,
    _inserted,
    _cut,
    _repeated,
    _encoded,
    _revalued,
    _revalued,
    _revalued,
    retyped,
    retyped,
    retyped,
    _nothing,
)
