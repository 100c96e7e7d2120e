"""The header of a GGUF file: what it says about itself, read and checked before a weight is.

The file may be anybody's: every length is held against the bytes that are there before it is used,
vocabularies are stepped over, and nothing is allocated by a number that the file gives.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import MappingProxyType

from levelhead.errors import UnknownModel

_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_MOST_FIELDS = 1 << 16
_MOST_TENSORS = 1 << 20
_MOST_ITEMS = 1 << 24  # of an array; the largest vocabularies have some 300,000 tokens
_LONGEST = 1 << 22  # bytes of a text; chat templates have some 10,000
_MOST_DIMENSIONS = 8
_PLAIN = 0  # the type of tensors that are float32 in the file


@dataclass(frozen=True)
class StoredTensor:
    """A tensor of the file; its dimensions are written with the fastest first."""

    name: str
    shape: tuple[int, ...]
    kind: int  # ggml's number of its quantization
    offset: int  # behind the header

    @property
    def elements(self) -> int:
        """How many numbers it holds."""
        return prod(self.shape)


@dataclass(frozen=True)
class GgufHeader:
    """What a GGUF file says about itself."""

    metadata: Mapping[str, object]  # every field that is one text, number or truth value
    lengths: Mapping[str, int]  # of every field that is an array
    tensors: tuple[StoredTensor, ...]
    room: int  # bytes behind the header

    @property
    def architecture(self) -> str:
        """ggml's name of the architecture; empty where the file has none."""
        return str(self.metadata.get("general.architecture", ""))

    @property
    def parameters(self) -> int:
        """How many numbers all tensors hold."""
        return sum(tensor.elements for tensor in self.tensors)

    @property
    def is_plain(self) -> bool:
        """Whether nothing is quantized, not even to half precision."""
        return all(tensor.kind == _PLAIN for tensor in self.tensors)


class _Broken(Exception):
    """Why a header cannot be read on."""


class _Cursor:
    """A place in the file that moves on; reading past the end is an error and not a short answer."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self.at = 0

    @property
    def left(self) -> int:
        """Bytes from here to the end."""
        return len(self._data) - self.at

    def number(self, kind: str) -> int | float | bool:
        """The next number, of one of struct's kinds."""
        form = f"<{kind}"
        start = self.skip(struct.calcsize(form))
        value: int | float | bool = struct.unpack_from(form, self._data, start)[0]
        return value

    def count(self, most: int, what: str, kind: str = "Q") -> int:
        """The next number as a count of something of which there cannot be more than `most`."""
        value = int(self.number(kind))
        if value > most:
            raise _Broken(f"it says that it has {value} {what}")
        return value

    def text(self) -> str:
        """The next text."""
        length = self.count(_LONGEST, "bytes in one text")
        start = self.skip(length)
        return self._data[start : self.at].decode("utf-8", errors="replace")

    def skip(self, length: int) -> int:
        """Move on, and say where we were."""
        if length > self.left:
            raise _Broken("it ends in the middle of its header")
        self.at += length
        return self.at - length

    def skip_texts(self, count: int) -> None:
        """Move on behind so many texts: a vocabulary has hundreds of thousands, so no function is called."""
        at, size, length = self.at, len(self._data), struct.Struct("<Q").unpack_from
        for _ in range(count):
            if at + 8 > size:
                break
            at += 8 + length(self._data, at)[0]
        self.skip(at - self.at)


def read_header(path: Path) -> GgufHeader:
    """The header of a GGUF file; one line about a file that is none, or whose header is broken."""
    if not path.is_file():
        raise UnknownModel(f"{path} is no ordinary file. Give a .gguf file, or a folder with a model.")
    with path.open("rb") as file:
        if file.read(4) != b"GGUF":
            raise UnknownModel(
                f"{path} is not a GGUF file. Give a .gguf file, or a folder with model.safetensors."
            )
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                return _header(_Cursor(data))
            except _Broken as error:
                raise UnknownModel(
                    f"{path} cannot be loaded: its header is broken, {error}. Get the file again."
                ) from None


def _header(cursor: _Cursor) -> GgufHeader:
    cursor.skip(4)
    version = cursor.number("I")
    if version not in _VERSIONS:
        raise _Broken(f"its version is {version}, not {_VERSIONS[0]} or {_VERSIONS[1]}")
    tensors = cursor.count(_MOST_TENSORS, "tensors")
    metadata: dict[str, object] = {}
    lengths: dict[str, int] = {}
    for _ in range(cursor.count(_MOST_FIELDS, "fields")):
        name, kind = cursor.text(), int(cursor.number("I"))
        if name in metadata or name in lengths:
            raise _Broken(f"it has the field {name[:80]!r} twice")
        if kind == _ARRAY:
            lengths[name] = _array(cursor)
        else:
            metadata[name] = _scalar(cursor, kind)
    stored = tuple(_tensor(cursor) for _ in range(tensors))
    alignment = metadata.get("general.alignment", 32)
    if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1) or alignment > 1 << 20:
        raise _Broken(f"its alignment is {str(alignment)[:80]!r}, which is no power of two")
    room = cursor.left - (-cursor.at) % alignment
    return GgufHeader(MappingProxyType(metadata), MappingProxyType(lengths), stored, room)


def _scalar(cursor: _Cursor, kind: int) -> str | int | float | bool:
    if kind == _STRING:
        return cursor.text()
    if kind not in _NUMBERS:
        raise _Broken(f"it has a field of the unknown type {kind}")
    return cursor.number(_NUMBERS[kind])


def _array(cursor: _Cursor) -> int:
    """Step over an array; its length."""
    kind = int(cursor.number("I"))
    length = cursor.count(_MOST_ITEMS, "items in one array")
    if kind == _STRING:
        cursor.skip_texts(length)
    elif kind in _NUMBERS:
        cursor.skip(length * struct.calcsize(f"<{_NUMBERS[kind]}"))
    else:
        raise _Broken(f"it has an array of the unknown type {kind}")
    return length


def _tensor(cursor: _Cursor) -> StoredTensor:
    name = cursor.text()
    dimensions = cursor.count(_MOST_DIMENSIONS, f"dimensions of {name[:80]!r}", "I")
    shape = tuple(int(cursor.number("Q")) for _ in range(dimensions))
    return StoredTensor(name, shape, int(cursor.number("I")), int(cursor.number("Q")))


def blocks(header: GgufHeader) -> int:
    """How many blocks have tensors in the file."""
    named = (re.match(r"blk\.(\d{1,9})\.", tensor.name) for tensor in header.tensors)
    return len({match[1] for match in named if match})
