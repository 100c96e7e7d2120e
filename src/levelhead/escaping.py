"""Characters of a user's data that steer a terminal or turn a line around, shown by their numbers: \\u202e.

These are the control characters (C0 but for line ends and tabs, DEL, C1), the separators of lines and
paragraphs, and the marks, embeddings, overrides and isolates of bidirectional text. Everything that shows
data calls `escaped`; a Page holds no other text (pages/blocks.py). JSON reads an escape back as what it was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

T = TypeVar("T")
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"  # not \t, not \n
)


def escaped(text: str) -> str:
    """The text with every such character as its number."""
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def escaped_in(value: T) -> T:
    """The same for all texts in a value: in dataclasses, mappings and sequences. What needs no change stays
    the same object."""
    found: Any = value
    if isinstance(found, str):
        return escaped(found) if _STEERING.search(found) else found  # type: ignore[return-value]
    if is_dataclass(found) and not isinstance(found, type):
        parts = {each.name: getattr(found, each.name) for each in fields(found) if each.init}
        shown = {name: new for name, part in parts.items() if (new := escaped_in(part)) is not part}
        return replace(found, **shown) if shown else found  # type: ignore[return-value]
    if isinstance(found, Mapping):
        items = {escaped_in(key): escaped_in(part) for key, part in found.items()}
        same = all(a is b and found[a] is items[b] for a, b in zip(found, items, strict=False))
        return found if same else items  # type: ignore[return-value]
    if isinstance(found, list | tuple):
        each_shown = [escaped_in(part) for part in found]
        if all(new is part for new, part in zip(each_shown, found, strict=True)):
            return found  # type: ignore[return-value]
        return each_shown if isinstance(found, list) else tuple(each_shown)  # type: ignore[return-value]
    return value
