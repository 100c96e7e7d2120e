"""Sentences that state a person's gender or another group, with a word behind it that must agree
(docs/method/certified.md, Certified mitigations)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations, product

from levelhead.probes import shipped_toml
from levelhead.probes.bias import about_gender, swap_for
from levelhead.probes.slots import SLOT, Span, filled
from levelhead.probes.words import WordTest

_FILE, _GROUPS = "sentences/agreement", "sentences/agreement-groups"
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


# ---- other groups


@dataclass(frozen=True)
class GroupItem:
    """One sentence about either of two groups, with the word of either group behind what states it."""

    people: str  # the frame, which is the cluster
    # [stated][said]: the imam in the mosque, the imam in the church; the priest in the mosque, ...
    sentences: tuple[tuple[str, str], tuple[str, str]]
    spans: tuple[tuple[Span, Span], tuple[Span, Span]]  # characters of the word that must agree

    @property
    def text(self) -> str:
        """All four sentences."""
        return " ".join(sentence for of_stated in self.sentences for sentence in of_stated)


Agreement = AgreementItem | GroupItem


@cache
def group_items() -> dict[str, tuple[GroupItem, ...]]:
    """By axis: every two groups of every row in every frame, behind every opening."""
    items: dict[str, tuple[GroupItem, ...]] = {}
    for bias in shipped_toml(_GROUPS)["biases"]:
        found = {}
        for frame, row, opening in product(bias["frames"], bias["rows"], shipped_toml(_GROUPS)["openings"]):
            stated, *_, said = SLOT.findall(frame)
            if not {stated, said} <= row.keys():
                continue
            text = opening + (frame if opening or frame.startswith("{") else frame[0].upper() + frame[1:])
            for groups in combinations(range(len(row[said])), 2):
                four = [
                    [filled(text, {stated: row[stated][g], said: row[said][h]}) for h in groups]
                    for g in groups
                ]
                (a, b), (c, d) = [[(sentence, spans[said]) for sentence, spans in two] for two in four]
                item = GroupItem(frame, ((a[0], b[0]), (c[0], d[0])), ((a[1], b[1]), (c[1], d[1])))
                found[item.sentences] = item  # rows that share words have some sentences in common
        items[bias["axis"]] = tuple(found.values())
    return items


def agreement_for(test: WordTest) -> tuple[Agreement, ...]:
    """Sentences that state a group of a list; for another bias than gender those of its axis, or where it
    declares none of the axis that has most of its words, in which the list's exchange changes a word."""
    if about_gender(test):
        return agreement_items()
    if not test.pairs:
        return ()
    exchange = swap_for(test)

    def changed(items: tuple[GroupItem, ...]) -> tuple[GroupItem, ...]:
        return tuple(
            item
            for item in items
            if any(exchange(x).changes for of_stated in item.sentences for x in of_stated)
        )

    if test.axis:
        return changed(group_items().get(test.axis, ()))
    axes = [own for items in group_items().values() if 2 * len(own := changed(items)) > len(items)]
    return max(axes, key=len, default=())


def why_no_agreement(test: WordTest) -> str:
    """Why agreement is not measured for a list; "" where it is."""
    if agreement_for(test):
        return ""
    return f"no sentence that ships states a group by words of {test.name}"
