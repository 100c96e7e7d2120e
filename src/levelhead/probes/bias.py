"""Which bias a word list is about, and inputs of a list's own words.

What ships for one bias (next sentences, inferences, prompts, pairs to fit on) says nothing about another. It
speaks for a list that declares that axis, or most of whose attribute pairs are counterparts of it. A list of
another bias brings its own pairs, which the bleached templates make into inputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from levelhead.probes.contexts import TEMPLATES, surface
from levelhead.probes.group_swap import GenderSwap, GroupSwap, RowSwap
from levelhead.probes.pairs import InputPair
from levelhead.probes.swap import gender_of, swap_text
from levelhead.probes.swap.gendered import PRONOUNS, gender_of_word, pairings, read_table
from levelhead.probes.words import WordTest

GENDER = "gender"  # the axis that probes, pairs and prompts ship for
OTHER = "other"  # an axis that nobody declared and that is not gender
_ORDERS = (("F", "M"), ("M", "F"))


def about_gender(test: WordTest) -> bool:
    """Whether what ships for gender may speak for a list: by the axis that it declares, else by its words.

    With pairs, more than half of them must be feminine and masculine words whose counterparts the list has
    on the other side, whichever gender stands first. Without pairs, more than half of A must have one gender
    and more than half of B the other. Words on the wrong side count against it: pairs that a coin has
    exchanged are about nothing. A stray "mother" among colors makes no gender list.
    """
    if test.axis:
        return test.axis.casefold() == GENDER
    a, b = (tuple(surface(word).lower() for word in words) for words in (test.A, test.B))
    if not test.pairs:
        genders = [[_gender(word) for word in words] for words in (a, b)]
        return any(
            _most(len(a), genders[0], first, second) and _most(len(b), genders[1], second, first)
            for first, second in _ORDERS
        )
    pairs = [tuple(surface(word).lower() for word in pair) for pair in dict.fromkeys(test.pairs)]
    # a word counts where the swapper makes a word of the other side of it, or the other way round
    paired = []
    for words, others in ((a, b), (b, a)):
        reached = {word for other in others for word in _counterparts(other)}
        paired.append({w for w in words if w in reached or not _counterparts(w).isdisjoint(others)})
    contrasts = [
        (_gender(one), _gender(other)) for one, other in pairs if one in paired[0] and other in paired[1]
    ]
    return any(_most(len(pairs), contrasts, order, order[::-1]) for order in _ORDERS)


def declared(test: WordTest) -> WordTest:
    """The same list with its axis stated, so that a part of it has the axis of the whole."""
    return test if test.axis else replace(test, axis=GENDER if about_gender(test) else OTHER)


def data_hash(test: WordTest) -> str:
    """The fingerprint of a list, with its axis where that is declared against what the words show."""
    by_words = about_gender(replace(test, axis=""))
    declares = "" if about_gender(test) == by_words else f" axis {test.axis}"
    return f"{test.fingerprint()}{declares}"


def none_ships(what: str, test: WordTest) -> str:
    """Why nothing that ships is run for a list; a list that has gendered words learns how to declare it."""
    words = () if test.axis not in ("", OTHER) else (*test.A, *test.B)
    gendered = any(_gender(surface(word).lower()) for word in words)
    hint = ' (if it is about gender, declare axis = "gender")' if gendered else ""
    return f"no {what} ship for {test.name}{hint}"


def _most(total: int, found: Sequence[object], wanted: object, reverse: object) -> bool:
    """Whether those that are wanted, less those that are the reverse, are more than half of all."""
    return 2 * (found.count(wanted) - found.count(reverse)) > total


def _gender(word: str) -> str | None:
    """The gender of a word or phrase in small letters, words for a trait included."""
    feminine, masculine = _traits(), _traits().values()
    of_trait = "F" if word in feminine else "M" if word in masculine else None
    return of_trait or gender_of_word(word) or gender_of(word)


@cache
def _traits() -> dict[str, str]:
    """Feminine words for a trait and their masculine counterparts, which the swapper leaves alone."""
    return {line["feminine"]: line["masculine"] for line in read_table("traits.tsv")}


@cache
def _counterparts(word: str) -> frozenset[str]:
    """What the swapper may put in place of a word or phrase in small letters, wherever it stands."""
    known = {pairing.replacement.lower() for pairing in pairings().get(word, ())}
    if word in PRONOUNS:  # which of the others it becomes depends on the sentence
        known |= {other for other, gender in PRONOUNS.items() if gender != PRONOUNS[word]}
    known |= {other for trait in _traits().items() for other in trait if word in trait}
    phrase = {swap_text(word)} - {word} if " " in word else set()
    return frozenset(known | phrase)


def swap_for(test: WordTest) -> GroupSwap:
    """How the groups of a list are exchanged in texts: gender by grammar, others by the list's own rows."""
    return GenderSwap() if about_gender(test) else RowSwap(test.name, test.rows)


def list_pairs(test: WordTest, for_classifier: bool = False) -> tuple[InputPair, ...]:
    """The counterparts of a list in every bleached template: inputs that differ in the group alone.

        The word I had in mind was black.    The word I had in mind was white.

    for_classifier: as hypotheses, behind a premise that has neither word. Empty where a list has no pairs.
    """
    pairs = []
    for a, b in dict.fromkeys(test.pairs):
        for template in TEMPLATES:
            one, other = (template.replace("{}", surface(word)) for word in (a, b))
            premise = template.replace("{}", "this")  # which stands for either word
            pair = ((premise, one), (premise, other)) if for_classifier else ((one, None), (other, None))
            pairs.append(InputPair(*pair))
    return tuple(pairs)
