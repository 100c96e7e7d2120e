"""First names with a counterpart, gendered words that belong to a name, and names that no table has."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from levelhead.probes.swap.gendered import (
    PRONOUNS,
    Pairing,
    neighbor,
    opens_sentence,
    pairings,
    read_table,
    traits,
    unpaired,
)
from levelhead.probes.swap.tokens import Token, belongs, common_words, is_ly_adverb, tokenize

_NOUN_ENDINGS = (
    "s",
    "ing",
    "ed",
    "tion",
    "sion",
    "ness",
    "ment",
    "ity",
    "ism",
    "ship",
    "hood",
    "ance",
    "ence",
)
_CAPITALIZED = re.compile(r"[A-Z\u00c0-\uffff]\w+")  # a first sieve: small letters with accents pass it too
_SHAPE = re.compile(r"(?:[^\W\d_][^\W\d_]?[’'])?[^\W\d_a-z][^\W\d_A-Z]+(?:[^\W\d_a-z][^\W\d_A-Z]{2,})?")
_PEOPLES = ("ans", "ists", "ers", "ites")  # Americans, Baptists, Quakers, Israelites
_HEADLINE = 0.5  # share of long words with a capital


@cache
def name_pairs() -> tuple[tuple[str, str], ...]:
    """First names as (feminine, masculine), alike in origin, and where possible in frequency and length."""
    return tuple((line["feminine"], line["masculine"]) for line in read_table("names.tsv"))


@cache
def _names() -> dict[str, Pairing]:
    feminine = {f.lower(): Pairing(m, "F", "name", "") for f, m in name_pairs()}
    masculine = {m.lower(): Pairing(f, "M", "name", "") for f, m in name_pairs()}
    return feminine | masculine


def first_names() -> frozenset[str]:
    """All first names of the table, in lower case."""
    return frozenset(_names())


def name_pairing(tokens: Sequence[Token], i: int) -> Pairing | None:
    """The counterpart of a first name with a capital, or of one in a text that has no capitals at all.

    Uncased models read such texts. There a name that is also an ordinary word is taken for the word.
    """
    token = tokens[i]
    uncased = all(each.text == each.lower for each in tokens) and not belongs(token.lower, "name_or_word")
    return None if token.text.islower() and not uncased else _names().get(token.lower)


def part_of_name(tokens: Sequence[Token], i: int, kind: str) -> bool:
    """Whether a capitalized word belongs to a name: Stephen King, Iron Man, Dr. Prince, Duke University."""
    if not tokens[i].titled or kind == "pronoun" or tokens[i].text.endswith("."):
        return False
    following = neighbor(tokens, i + 1)
    if following and following.titled and belongs(following.lower, "before_place"):
        return True
    if neighbor(tokens, i) is None or not tokens[i - 1].titled:
        return False
    before = tokens[i - 1].lower
    if belongs(before, "before_surname"):  # Dr. Mary Collins has a first name, Dr. James may have none
        return kind != "name" or not (following and following.titled)
    if belongs(before, "introducer", "closed") or before in PRONOUNS or before in pairings():
        return False
    opens = i < 2 or tokens[i - 2].kind in ("sign", "suffix")  # its capital may be that of the sentence
    return not opens or before in _names()


def unknown_names(text: str) -> Iterator[Token]:
    """Words that look like the first name of a person and are in no table.

    "Zenobia lost her keys" becomes "Zenobia lost his keys": only a reader can say whether that still fits.
    Inside a sentence a capital speaks for a name unless something else explains it; at the start of one a
    verb or a genitive has to follow. In headlines, where most words have capitals, nothing is reported.
    """
    if _known_words().issuperset(map(str.lower, _CAPITALIZED.findall(text))):
        return
    tokens = tokenize(text)
    if _is_headline(tokens):
        return
    previous = -2
    for i, token in enumerate(tokens):
        if token.kind != "word" or not _may_be_name(token.text):
            continue
        in_run = previous == i - 1 and neighbor(tokens, i) is not None
        previous = i
        if in_run or _is_surname_or_place(tokens, i):
            continue
        if _acts(tokens, i) if opens_sentence(tokens, i) else not _is_elsewhere(tokens, i):
            yield token


def _is_headline(tokens: Sequence[Token]) -> bool:
    """Whether most words have a capital, so that a capital says nothing about names."""
    inner = [token for token in tokens[1:] if token.kind == "word" and len(token.text) > 3]
    titled = sum(token.titled and not belongs(token.lower, "proper") for token in inner)
    return titled > max(2, _HEADLINE * len(inner))


def _may_be_name(written: str) -> bool:
    """Whether a word has the shape of a name and is nothing that we know."""
    word = written.lower()
    shaped = _SHAPE.fullmatch(written) is not None and not word.endswith(_PEOPLES)
    return shaped and word not in _known_words()


@cache
def _known_words() -> frozenset[str]:
    return common_words() | frozenset((*PRONOUNS, *pairings(), *unpaired(), *traits(), *_names()))


def _is_surname_or_place(tokens: Sequence[Token], i: int) -> bool:
    """Mrs. Okafor, Mary Okafor, Duke University, New Orleans, South Korea."""
    following = neighbor(tokens, i + 1)
    if following and following.titled and belongs(following.lower, "before_place"):
        return True
    if neighbor(tokens, i) is None or not tokens[i - 1].titled:
        return False
    before = tokens[i - 1].lower
    return before in _names() or belongs(before, "before_surname", "before_name_of_place")


def _acts(tokens: Sequence[Token], i: int) -> bool:
    """Whether the first word of a sentence does or has something: Zenobia sold, Zenobia's room."""
    word = tokens[i].lower
    if word.endswith(_NOUN_ENDINGS) or is_ly_adverb(word):
        return False
    k = i + 1
    while k < len(tokens) and tokens[k].titled:  # the surname
        k += 1
    if k >= len(tokens) or tokens[k].kind == "suffix":
        return k < len(tokens)
    following, then = tokens[k], tokens[k + 1] if k + 1 < len(tokens) else None
    if following.text == ",":
        return then is not None and then.lower in ("who", "whose", "whom")
    if following.lower in ("and", "or"):
        return then is not None and (then.lower in PRONOUNS or then.lower in pairings() or then.titled)
    return following.kind == "word" and _is_finite(following.lower)


def _is_finite(word: str) -> bool:
    if belongs(word, "finite", "past", "auxiliary"):
        return True
    stem = word.removesuffix("s").removesuffix("e")
    third_person = word.endswith("s") and any(
        belongs(form, "only", "also_noun") for form in (stem, word[:-1])
    )
    return third_person or (word.endswith("ed") and len(word) > 4)


def _is_elsewhere(tokens: Sequence[Token], i: int) -> bool:
    """Whether a capital inside a sentence is explained otherwise: in Paris, the Eiffel Tower, her Toyota."""
    if neighbor(tokens, i) is None:
        return tokens[i - 1].text in ("-", "/", "'", "’", "&", "#", "@")
    before, earlier = tokens[i - 1].lower, tokens[i - 2] if i > 1 else tokens[i - 1]
    if before == "to":
        return belongs(earlier.lower, "motion")
    if before == "of":
        return belongs(earlier.lower, "of_place") or earlier.titled
    if belongs(before, "adjectives", "ordinal", "noun_adverb", "describing"):  # the next Tesla
        before = earlier.lower
    return before in PRONOUNS or belongs(before, "place_preposition", "article", "before_name_of_place")
