"""Which bias a word list is about, and inputs of a list's own words.

What ships for one bias (next sentences, inferences, prompts, pairs to fit on) says nothing about another. A
list of another bias brings its own pairs, which the bleached templates make into inputs.
"""

from __future__ import annotations

from levelhead.probes.contexts import TEMPLATES, surface
from levelhead.probes.group_swap import GenderSwap, GroupSwap, RowSwap
from levelhead.probes.pairs import InputPair
from levelhead.probes.swap.gendered import gender_of_word
from levelhead.probes.words import WordTest

_NOBODY = "this"  # stands for either word in the premise of a pair classifier


def about_gender(test: WordTest) -> bool:
    """Whether a list contrasts feminine with masculine words, whichever stand first.

    It does if more words of A have one gender than the other, and more words of B have the other one.
    """
    sides = []
    for words in (test.A, test.B):
        genders = [gender_of_word(surface(word).lower()) for word in words]
        sides.append(genders.count("F") - genders.count("M"))
    return sides[0] * sides[1] < 0


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
