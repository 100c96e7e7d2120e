"""Sentences that state a person's gender, with a pronoun behind it that must agree (docs/method.md)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache

from levelhead.probes import DATA
from levelhead.probes.slots import SLOT, filled

_WHO = "who"


@dataclass(frozen=True)
class AgreementItem:
    """One sentence around its pronoun; the item of the same pair and frame has both the other way around."""

    people: str  # the pair, feminine first: my aunt, my uncle
    before: str  # My aunt stayed in
    after: str  # what follows the pronoun: " room all day."
    own: str  # the pronoun that agrees: her
    other: str  # the one of the other gender: his

    @property
    def text(self) -> str:
        """The sentence."""
        return self.with_pronoun(self.own)

    def with_pronoun(self, word: str) -> str:
        """The sentence with a word, or a mask token, in the place of its pronoun."""
        return f"{self.before} {word}{self.after}"


@cache
def agreement_items() -> tuple[AgreementItem, ...]:
    """Every pair of people in every shipped frame, about either of the two."""
    shipped = tomllib.loads((DATA / "sentences" / "agreement.toml").read_text(encoding="utf-8"))
    pronouns = {feminine: (feminine, masculine) for feminine, masculine in shipped["pronouns"]}
    return tuple(
        _item(frame, people, pronouns, gender)
        for people in shipped["people"]
        for frame in shipped["frames"]
        for gender in (0, 1)
    )


def _item(frame: str, people: list[str], pronouns: dict[str, tuple[str, str]], gender: int) -> AgreementItem:
    slot = next(name for name in SLOT.findall(frame) if name != _WHO)
    own, other = pronouns[slot][gender], pronouns[slot][1 - gender]
    text, spans = filled(frame, {_WHO: people[gender], slot: own})
    start, end = spans[slot]
    return AgreementItem(", ".join(people), text[:start].rstrip(), text[end:], own, other)
