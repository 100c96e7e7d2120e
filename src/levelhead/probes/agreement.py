"""Sentences that state a person's gender, with a pronoun behind it that must agree (docs/method.md)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import product

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
        return self.with_pronoun(self.own)

    def with_pronoun(self, word: str) -> str:
        """The sentence with a word, or a mask token, in the place of its pronoun."""
        return f"{self.before} {word}{self.after}"


@cache
def agreement_items() -> tuple[AgreementItem, ...]:
    """Every pair of people in every frame of its kind, about either of the two."""
    pronouns = {feminine: (feminine, masculine) for feminine, masculine in shipped_toml(_FILE)["pronouns"]}
    items = []
    for kind in shipped_toml(_FILE)["kinds"]:
        for people, frame, gender in product(kind["people"], kind["frames"], (0, 1)):
            slot = next(name for name in SLOT.findall(frame) if name != _WHO)
            own, other = pronouns[slot][gender], pronouns[slot][1 - gender]
            text, spans = filled(frame, {_WHO: people[gender], slot: own})
            start, end = spans[slot]
            cluster = TITLE if kind["name"] == TITLE else ", ".join(people)
            before, after = text[:start].rstrip(), text[end:]
            items.append(AgreementItem(cluster, before, after, own, other, kind["name"]))
    return tuple(items)


def agreement_names() -> frozenset[str]:
    """The first names of the items, which no model is trained on."""
    named = (kind for kind in shipped_toml(_FILE)["kinds"] if kind["name"] == NAME)
    return frozenset(name for kind in named for people in kind["people"] for name in people)
