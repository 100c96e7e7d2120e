"""Which bias a word list is about, and inputs of a list's own words.

What ships for one bias (next sentences, inferences, prompts, pairs to fit on) says nothing about another. It
speaks for a list that declares that axis, or most of whose attribute pairs are counterparts of it. A list of
another bias brings its own pairs, which the bleached templates make into inputs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
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
_NOBODY = "this"  # stands for either word in the premise of a pair classifier


def about_gender(test: WordTest) -> bool:
    """Whether what ships for gender may speak for a list: by the axis that it declares, else by its words.

    With pairs, more than half of them must be feminine and masculine words whose counterparts the list has
    on the other side, whichever gender stands first. Without pairs, more than half of A must have one gender
    and more than half of B the other. Words on the wrong side count against it: pairs that a coin has
    exchanged are about nothing. A stray "mother" among colors makes no gender list.
    """
    if test.axis:
        return test.axis.casefold() == GENDER
    a, b = (tuple(_spelled(word) for word in words) for words in (test.A, test.B))
    if not test.pairs:
        genders = [[_gender(word) for word in words] for words in (a, b)]
        return any(
            _most(len(a), genders[0], first, second) and _most(len(b), genders[1], second, first)
            for first, second in _ORDERS
        )
    pairs = [(_spelled(one), _spelled(other)) for one, other in dict.fromkeys(test.pairs)]
    paired = _with_counterparts(a, b), _with_counterparts(b, a)
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
    """Why nothing that ships is asked for a list; a list that has gendered words learns how to declare it."""
    words = () if test.axis not in ("", OTHER) else (*test.A, *test.B)
    hint = ' (if it is about gender, declare axis = "gender")' if any(map(_is_gendered, words)) else ""
    return f"no {what} ship for {test.name}{hint}"


def _most(total: int, found: Sequence[object], wanted: object, reverse: object) -> bool:
    """Whether those that are wanted, less those that are the reverse, are more than half of all."""
    return 2 * (found.count(wanted) - found.count(reverse)) > total


def _spelled(word: str) -> str:
    return surface(word).lower()


def _is_gendered(word: str) -> bool:
    return _gender(_spelled(word)) is not None


def _gender(word: str) -> str | None:
    """The gender of a word or phrase in small letters, words for a trait included."""
    feminine, masculine = _traits(), _traits().values()
    of_trait = "F" if word in feminine else "M" if word in masculine else None
    return of_trait or gender_of_word(word) or gender_of(word)


def _with_counterparts(words: Iterable[str], others: Collection[str]) -> set[str]:
    """The words of which the swapper makes one of the others, or the other way round."""
    reached = {word for other in others for word in _counterparts(other)}
    return {word for word in words if word in reached or not _counterparts(word).isdisjoint(others)}


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
    """How the groups of a list are exchanged in texts: gender by grammar, others by the list's own pairs."""
    return GenderSwap() if about_gender(test) else RowSwap(test.name, tuple(dict.fromkeys(test.pairs)))


def list_pairs(test: WordTest, for_classifier: bool = False) -> tuple[InputPair, ...]:
    """The counterparts of a list in every bleached template: inputs that differ in the group alone.

        The word I had in mind was black.    The word I had in mind was white.

    for_classifier: as hypotheses, behind a premise that has neither word. Empty where a list has no pairs.
    """
    pairs = []
    for a, b in dict.fromkeys(test.pairs):
        for template in TEMPLATES:
            forms = [template.replace("{}", surface(word)) for word in (a, b)]
            if for_classifier:
                premise = template.replace("{}", _NOBODY)
                pairs.append(InputPair((premise, forms[0]), (premise, forms[1])))
            else:
                pairs.append(InputPair((forms[0], None), (forms[1], None)))
    return tuple(pairs)
