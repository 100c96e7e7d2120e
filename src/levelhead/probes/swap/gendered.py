"""Which words carry gender, what their counterparts are, and where they carry none; first names, too.

The tables are in data/swap: words.tsv (one to one under each guard), one_way.tsv (words that share a
counterpart), unpaired.tsv (words that have none), traits.tsv (words for a trait, which stay), names.tsv
(first names), phrases.txt (where a word names nobody's gender).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from levelhead.probes.swap.tables import table_text
from levelhead.probes.swap.tokens import Token, belongs, classes, is_ly_adverb, tokenize

Gender = Literal["F", "M"]

PRONOUNS: dict[str, Gender] = {"her": "F", "hers": "F", "his": "M", "him": "M"}  # those that grammar decides
SENTENCE_ENDS = frozenset(".!?:;…")
_NOUN_ENDINGS = (
    *("s", "ing", "ed", "tion", "sion", "ness"),
    *("ment", "ity", "ism", "ship", "hood", "ance", "ence"),
)
_CAPITALIZED = re.compile(r"[A-Z\u00c0-\uffff]\w+")  # a first sieve: small letters with accents pass it too
_SHAPE = re.compile(r"(?:[^\W\d_][^\W\d_]?[’'])?[^\W\d_a-z][^\W\d_A-Z]+(?:[^\W\d_a-z][^\W\d_A-Z]{2,})?")
_PEOPLES = ("ans", "ists", "ers", "ites")  # Americans, Baptists, Quakers, Israelites
_HEADLINE = 0.5  # share of long words with a capital


# ---- tables


@dataclass(frozen=True)
class Pairing:
    """A gendered word's counterpart: one direction of a line of the tables."""

    replacement: str
    gender: Gender  # of the word that is replaced
    kind: str
    guard: str


def read_table(file: str) -> list[dict[str, str]]:
    """The lines of a table of data/swap, each by column."""
    lines = table_text(file).splitlines()
    return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


@cache
def pairings() -> dict[str, tuple[Pairing, ...]]:
    """Every gendered word with its pairings, guarded ones before the plain one, as in the file."""
    entries: list[tuple[str, Pairing]] = []
    for line in read_table("words.tsv"):
        feminine, masculine, kind, guard = (line[key] for key in ("feminine", "masculine", "kind", "guard"))
        entries.append((feminine, Pairing(masculine, "F", kind, guard)))
        entries.append((masculine, Pairing(feminine, "M", kind, guard)))
    for line in read_table("one_way.tsv"):
        gender: Gender = "F" if line["gender"] == "F" else "M"
        entries.append((line["word"], Pairing(line["replacement"], gender, "one way", line["guard"])))
    by_word: dict[str, tuple[Pairing, ...]] = {}
    for word, pairing in entries:
        by_word[word.lower()] = (*by_word.get(word.lower(), ()), pairing)
    return by_word


@cache
def usual() -> dict[str, str]:
    """Words with one counterpart wherever they stand, which leads back to them, but for exceptions_of."""
    counterparts = {
        word: paired[0].replacement
        for word, paired in pairings().items()
        if len(paired) == 1 and not paired[0].guard
    }
    return {word: other for word, other in counterparts.items() if counterparts.get(other) == word}


class Exceptions(NamedTuple):
    """What may keep usual words from being swapped, or their counterparts from being swapped back."""

    words: re.Pattern[str]  # one of them, with an apostrophe before or after it
    phrases: tuple[frozenset[str], ...]  # the other words of phrases in which one of them is left alone
    verbs: re.Pattern[str] | None  # one of them where it may be a verb


@lru_cache(maxsize=1024)
def exceptions_of(words: frozenset[str]) -> Exceptions:
    """The exceptions for these usual words and their counterparts."""
    both = words | {usual()[word] for word in words}
    phrases = tuple(
        frozenset(other for k, other in enumerate(phrase) if k != place and other.isalpha())
        for word in both
        for phrase, place in _phrases().get(word, ())
    )
    verbs = sorted(word for word in words if not {word, usual()[word]}.isdisjoint(classes()["noun_or_verb"]))
    determiners = sorted(filter(str.isalpha, (*PRONOUNS, *classes()["article"], *classes()["amount"])))
    verb, subject, follows = "|".join(verbs), "|".join(classes()["third_person"]), "|".join(determiners)
    pattern = rf"\b(?:(?:{subject})\s+(?:{verb})|(?:{verb})\s+(?:{follows}))\b"
    found = re.compile(rf"(['’]?)\b({'|'.join(sorted(words))})\b(['’]?)", re.IGNORECASE)
    return Exceptions(found, phrases, re.compile(pattern, re.IGNORECASE) if verbs else None)


@cache
def unpaired() -> dict[str, tuple[Gender, str]]:
    """Gendered words without a counterpart: their gender, and why there is none."""
    lines = read_table("unpaired.tsv")
    return {line["word"]: ("F" if line["gender"] == "F" else "M", line["reason"]) for line in lines}


@cache
def traits() -> frozenset[str]:
    """Words for a trait: feminine, manly. They say how a person is, not whether it is a woman or a man."""
    return frozenset(word for line in read_table("traits.tsv") for word in line.values())


@cache
def name_pairs() -> tuple[tuple[str, str], ...]:
    """First names as (feminine, masculine), alike in origin, and where possible in frequency and length."""
    return tuple((line["feminine"], line["masculine"]) for line in read_table("names.tsv"))


@cache
def first_names() -> dict[str, Pairing]:
    """All first names of the table, in lower case, with their counterparts."""
    feminine = {f.lower(): Pairing(m, "F", "name", "") for f, m in name_pairs()}
    masculine = {m.lower(): Pairing(f, "M", "name", "") for f, m in name_pairs()}
    return feminine | masculine


@cache
def _phrases() -> dict[str, list[tuple[list[str], int]]]:
    """Gendered words with the phrases in which they are left alone, each with the word's place in it."""
    phrases: dict[str, list[tuple[list[str], int]]] = {}
    for line in table_text("phrases.txt").splitlines():
        if line and not line.startswith("#"):
            words = line.split()
            place = next(k for k, word in enumerate(words) if word.startswith("["))
            words[place] = words[place].strip("[]")
            phrases.setdefault(words[place], []).append((words, place))
    return phrases


# ---- words in their place


def gender_of_word(word: str) -> Gender | None:
    """The gender of a lower-case word that is swapped; None for every other word."""
    paired = pairings().get(word)
    return paired[0].gender if paired else None


def neighbor(tokens: Sequence[Token], i: int) -> Token | None:
    """tokens[i] if it is a word that follows the one before it with nothing but a space between."""
    if not 0 < i < len(tokens):
        return None
    both_words = tokens[i].kind == tokens[i - 1].kind == "word"
    return tokens[i] if both_words and tokens[i].gap else None


def opens_sentence(tokens: Sequence[Token], i: int) -> bool:
    """Whether tokens[i] owes its capital to a sentence that begins with it."""
    k = i - 1
    while k >= 0 and tokens[k].kind == "sign" and tokens[k].text not in SENTENCE_ENDS:
        k -= 1
    quoted = k < i - 1
    if k < 0 or tokens[k].text in SENTENCE_ENDS or "\n\n" in tokens[i].gap:
        return True
    return quoted and tokens[i - 1].text in "\"“'‘([" and not tokens[i].gap


def is_idle(tokens: Sequence[Token], i: int, word: str) -> bool:
    """Whether this gendered word in the place of tokens[i] says nothing about anyone's gender.

    It stands in one of the phrases, or is a verb with the form of a noun: groom your hair. A verb's base form
    follows to, a modal, I, you, we, they, or opens the clause, and an object with a determiner comes after
    it; the form in -s follows a nominative, which no noun does.
    """
    for words, place in _phrases().get(word, ()):
        first = i - place
        there = [t.lower.replace("’", "'") for t in tokens[max(first, 0) : first + len(words)]]
        if first >= 0 and [*there[:place], word, *there[place + 1 :]] == words:
            return True
    if not belongs(word, "noun_or_verb"):
        return False
    before = tokens[i - 1].lower if neighbor(tokens, i) else ""
    if word.endswith("s"):
        return belongs(before, "third_person")
    following = neighbor(tokens, i + 1)
    has_object = following is not None and (
        following.lower in PRONOUNS or belongs(following.lower, "article", "amount")
    )
    return has_object and (before == "" or belongs(before, "before_verb"))


def names_nobody(text: str, start: int) -> bool:
    """Whether the gendered word at this character says nothing about anyone: a bachelor's degree, the PA."""
    tokens = tokenize(text)
    i = next((i for i, token in enumerate(tokens) if token.start == start), None)
    if i is None:
        return False
    letters = tokens[i].text
    initials = letters.isupper() and len(letters) == 2 and not text.isupper()
    return initials or is_idle(tokens, i, tokens[i].lower)


def pairing_of(tokens: Sequence[Token], i: int) -> Pairing | None:
    """The first pairing of tokens[i] whose guard holds where it stands."""
    token, following = tokens[i], neighbor(tokens, i + 1)
    is_title = token.titled and following is not None and following.titled
    for pairing in pairings().get(token.lower, ()):
        match pairing.guard:
            case "":
                holds = True
            case "title":
                holds = is_title
            case "untitled":
                holds = not is_title
            case "office":
                holds = is_title and belongs(tokens[i + 1].lower, "office")
            case "address":
                holds = neighbor(tokens, i) is not None and tokens[i - 1].lower == "my" and following is None
            case "cased":
                holds = token.titled or token.text.endswith(".")
            case "lower":
                holds = token.text.islower()
            case "common":
                holds = token.text.islower() or opens_sentence(tokens, i)
            case "not_upper":
                holds = not token.text.isupper()
            case unknown:
                raise KeyError(unknown)
        if holds:
            return pairing
    return None


# ---- names


def name_pairing(tokens: Sequence[Token], i: int) -> Pairing | None:
    """The counterpart of a first name with a capital, or of one in a text that has no capitals at all.

    Uncased models read such texts. There a name that is also an ordinary word is taken for the word.
    """
    token = tokens[i]
    uncased = all(each.text == each.lower for each in tokens) and not belongs(token.lower, "name_or_word")
    return None if token.text.islower() and not uncased else first_names().get(token.lower)


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
    return not opens or before in first_names()


@cache
def _known_words() -> frozenset[str]:
    common = frozenset[str]().union(*classes().values())  # a capital does not make them names
    return common | frozenset((*PRONOUNS, *pairings(), *unpaired(), *traits(), *first_names()))


def unknown_names(text: str) -> Iterator[Token]:
    """Words that seem to be the first name of a person and are in no table.

    "Zenobia lost her keys" becomes "Zenobia lost his keys": only a reader can say whether that still fits.
    Inside a sentence a capital speaks for a name unless something else explains it; at the start of one a
    verb or a genitive has to follow. In headlines, where most words have capitals, nothing is reported.
    """
    if _known_words().issuperset(map(str.lower, _CAPITALIZED.findall(text))):
        return
    tokens = tokenize(text)
    inner = [token for token in tokens[1:] if token.kind == "word" and len(token.text) > 3]
    titled = sum(token.titled and not belongs(token.lower, "proper") for token in inner)
    if titled > max(2, _HEADLINE * len(inner)):
        return
    previous = -2
    for i, token in enumerate(tokens):
        shaped = token.kind == "word" and _SHAPE.fullmatch(token.text) is not None
        if not shaped or token.lower.endswith(_PEOPLES) or token.lower in _known_words():
            continue
        in_run = previous == i - 1 and neighbor(tokens, i) is not None
        previous = i
        if in_run:
            continue
        following = neighbor(tokens, i + 1)
        if following and following.titled and belongs(following.lower, "before_place"):
            continue  # Duke University
        if neighbor(tokens, i) is not None and tokens[i - 1].titled:
            before = tokens[i - 1].lower
            if before in first_names() or belongs(before, "before_surname", "before_name_of_place"):
                continue  # Mary Okafor, Mrs. Okafor, New Orleans
        if _acts(tokens, i) if opens_sentence(tokens, i) else not _is_elsewhere(tokens, i):
            yield token


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
    # A finite verb: walked, was, sold, and in the third person what is a verb without its -s or -es.
    verb, stems = following.lower, (following.lower.removesuffix("s").removesuffix("e"), following.lower[:-1])
    third_person = verb.endswith("s") and any(belongs(stem, "only", "also_noun") for stem in stems)
    finite = third_person or belongs(verb, "finite", "past", "auxiliary")
    return following.kind == "word" and (finite or (verb.endswith("ed") and len(verb) > 4))


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
