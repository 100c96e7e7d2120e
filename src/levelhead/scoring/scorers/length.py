"""How many words a text has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from levelhead.scoring.scorers.protocol import register_scorer


@dataclass(frozen=True)
class Length:
    """Words between blanks; an empty text has 0."""

    name: str = "length"
    unit: str = "words"

    def scores(self, texts: Sequence[str]) -> list[float | None]:
        return [float(len(text.split())) for text in texts]


LENGTH = Length()
register_scorer(LENGTH)
