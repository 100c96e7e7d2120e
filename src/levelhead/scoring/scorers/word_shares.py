"""How many words of a list a text has: agency and warmth (data/generation/scorers.toml)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from levelhead.probes import shipped_toml
from levelhead.scoring.scorers.protocol import register_scorer

_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_ANY_MORE = r"[^\W\d_]*"


def word_pattern(words: Iterable[str]) -> re.Pattern[str]:
    """What matches a whole word of a list; `lead*` is every word that begins with lead."""
    forms = (
        re.escape(word.removesuffix("*").lower()) + (_ANY_MORE if word.endswith("*") else "")
        for word in words
    )
    return re.compile(rf"(?<![\w-])(?:{'|'.join(forms)})(?![\w-])", re.IGNORECASE)


@dataclass(frozen=True)
class WordShare:
    """Words of a list per 100 words of a text; None for a text without a word.

    A count knows no negation: "not kind" counts as warmth.
    """

    name: str
    unit: str = "per 100 words"

    def scores(self, texts: Sequence[str]) -> list[float | None]:
        pattern = word_pattern(shipped_toml("generation/scorers")[self.name])
        found = ((len(pattern.findall(text)), len(_WORD.findall(text))) for text in texts)
        return [100 * count / words if words else None for count, words in found]


AGENCY, WARMTH = WordShare("agency"), WordShare("warmth")
for _scorer in (AGENCY, WARMTH):
    register_scorer(_scorer)
