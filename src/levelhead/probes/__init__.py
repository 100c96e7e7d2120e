"""What we ask: texts and words, no tensors."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"  # texts, words and tables that ship; all of them are our own
OURS = "shipped"  # the source of data that ship


@cache
def shipped_toml(name: str) -> dict[str, Any]:
    """The tables of a file that ships: shipped_toml("sentences/counter")."""
    return tomllib.loads((DATA / f"{name}.toml").read_text(encoding="utf-8"))
