"""Sentences that state a person's gender, with a pronoun behind it that must agree (docs/method.md)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from levelhead.probes import shipped_toml
from levelhead.probes.slots import SLOT, filled

_FILE = "sentences/agreement"
_WHO = "who"
NOUN, NAME, TITLE = "noun", "name", "title"  # what states the gender


@dataclass(frozen=True)
class AgreementItem:
    """One sentence around its pronoun; the item of the same pair and frame has both the other way around."""

    people: str  # the pair, feminine first: my aunt, my uncle; titles, which share words, are one cluster
    before: str  # My aunt stayed in
    after: str  # what follows the pronoun: " room all day."
    own: str  # the pronoun that agrees: her
    other: str  # the one of the other gender: his
    kind: str = NOUN

    @property
    def text(self) -> str:
        """The sentence."""
        return self.with_pronoun(self.own)

    def with_pronoun(self, word: str) -> str:
        """The sentence with a word, or a mask token, in the place of its pronoun."""
        return f"{self.before} {word}{self.after}"


@cache
def agreement_items() -> tuple[AgreementItem, ...]:
    """Every pair of people in every frame of its kind, about either of the two."""
    pronouns = {feminine: (feminine, masculine) for feminine, masculine in shipped_toml(_FILE)["pronouns"]}
    return tuple(
        _item(kind["name"], frame, people, pronouns, gender)
        for kind in shipped_toml(_FILE)["kinds"]
        for people in kind["people"]
        for frame in kind["frames"]
        for gender in (0, 1)
    )


def agreement_names() -> frozenset[str]:
    """The first names of the items, which no model is trained on."""
    named = (kind for kind in shipped_toml(_FILE)["kinds"] if kind["name"] == NAME)
    return frozenset(name for kind in named for people in kind["people"] for name in people)


def _item(
    kind: str, frame: str, people: list[str], pronouns: dict[str, tuple[str, str]], gender: int
) -> AgreementItem:
    slot = next(name for name in SLOT.findall(frame) if name != _WHO)
    own, other = pronouns[slot][gender], pronouns[slot][1 - gender]
    text, spans = filled(frame, {_WHO: people[gender], slot: own})
    start, end = spans[slot]
    cluster = TITLE if kind == TITLE else ", ".join(people)
    return AgreementItem(cluster, text[:start].rstrip(), text[end:], own, other, kind)
