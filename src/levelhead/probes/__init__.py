"""What we ask: texts and words, no tensors."""

import hashlib
import json
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from levelhead.errors import BadOption

DATA = Path(__file__).parent / "data"  # texts, words and tables that ship; all of them are our own
OURS = "shipped"  # the source of data that ship
T = TypeVar("T")


@cache
def shipped_toml(name: str) -> dict[str, Any]:
    """The tables of a file that ships: shipped_toml("sentences/counter")."""
    return tomllib.loads((DATA / f"{name}.toml").read_text(encoding="utf-8"))


def evenly(items: Sequence[T], n: int) -> tuple[T, ...]:
    """n items at equal distances; all of them where there are no more."""
    if n < 1:
        raise BadOption(f"A limit of {n} leaves nothing to ask. Pass 1 or more.")
    n = min(n, len(items))
    return tuple(items[i * len(items) // n] for i in range(n))


def json_hash(content: object, ascii_only: bool = False) -> str:
    """sha256 of data as JSON."""
    return hashlib.sha256(json.dumps(content, ensure_ascii=ascii_only).encode()).hexdigest()
