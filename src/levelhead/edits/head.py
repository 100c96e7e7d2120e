"""The name of an attention head."""

from __future__ import annotations

import re
from typing import NamedTuple

from levelhead.errors import BadOption

_WRITTEN = re.compile(r"\s*([1-9][0-9]{0,5})\s*-\s*([1-9][0-9]{0,5})\s*")


class Head(NamedTuple):
    """One attention head. It indexes arrays from 0 and is written from 1: Head(7, 5) prints as 8-6."""

    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.layer + 1}-{self.head + 1}"

    @classmethod
    def of(cls, named: tuple[int, int] | str) -> Head:
        """A head as code names it, (7, 5), or as people write it, "8-6"."""
        return cls.parse(named) if isinstance(named, str) else cls(*named)

    @classmethod
    def parse(cls, text: str) -> Head:
        """The head that is written so: "8-6" is Head(7, 5)."""
        written = _WRITTEN.fullmatch(text)
        if written is None:
            raise BadOption(f"{text[:40]!r} is no head. Write layer-head, both counted from 1, such as 8-6.")
        return cls(int(written[1]) - 1, int(written[2]) - 1)
