"""The little English that swapping needs: tokens, and what "her" and "his" stand for.

"her" is his (her kitchen) or him (saw her); "his" is her (his kitchen) or hers (the book is his). Both
questions are one: does a noun phrase of the possessive's own begin right after it? No tagger: the rules look
one word back and three ahead, and the word classes they look at are in data/swap/grammar.toml.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

from levelhead.probes import DATA

PRONOUN = "<pronoun>"  # her, him, his, hers: alike, so that a text and its swapped twin are read alike
PERSON = "<person>"  # every other gendered word, for the same reason
NUMBER = "<number>"
SUM = "<sum>"  # $20: alone it is given ("paid her $20"), before a noun it describes ("paid her $20 fine")

_SUFFIX = r"['’](?i:s|d|ll|re|ve|m)(?!\w)"
_TOKEN = re.compile(
    rf"""(?P<other> https?://\S+ | www\.\S+ | [\w.]+@[\w.]+\w | @\w+ | [^\W_]+(?:_[^\W_]+)+
        | \(s\)he\b | \bs/he\b )
    | (?P<number> [^\W_]*\d(?:[\d.,]*\d)?[^\W_]* )
    | (?P<word> (?i:\b(?:mrs?|ms|dr|prof|st|jr|sr)\.) | [^\W\d_]+(?:(?!{_SUFFIX})['’][^\W\d_]+)* )
    | (?P<suffix> (?<=[^\W\d_]){_SUFFIX} )
    | (?P<sign> [^\w\s] | _ )""",
    re.VERBOSE,
)
_QUOTES = frozenset("\"'“‘«")
_NEVER_OWNED = frozenset((("one", "of"), ("will", "be"), ("will", "have"), ("will", "not")))
_OPENERS = _QUOTES | frozenset("*_~#")
_CURRENCY = frozenset("$£€")
_WRAPS = frozenset(("[]", "()", '""', "''", "“”", "‘’", "**", "__"))


@dataclass(frozen=True)
class Token:
    """A word, number or sign, and where it stands in the text."""

    text: str
    start: int
    kind: str  # word, number, suffix ('s), sign, other
    gap: str  # the white space before it

    @property
    def titled(self) -> bool:
        """First letter large, the others small: "Her", "Mr."."""
        letters = self.text.rstrip(".")
        return letters[:1].isupper() and (len(letters) == 1 or letters[1:].islower())


def tokenize(text: str) -> list[Token]:
    """All tokens of a text in order; with their gaps they are the text, but for white space at its end."""
    tokens: list[Token] = []
    end = 0
    for match in _TOKEN.finditer(text):
        tokens.append(Token(match.group(), match.start(), str(match.lastgroup), text[end : match.start()]))
        end = match.end()
    return tokens


@dataclass(frozen=True)
class Around:
    """What stands around a pronoun, in lower case; "" is the edge of the clause."""

    before: str
    after: tuple[str, str, str]
    proper: bool  # the next word is capitalized
    quoted: bool  # the next word opens a quotation
    compound: bool  # the next word is the first of a hyphenated compound: "her then-husband"


def around(tokens: Sequence[Token], i: int, plain: Callable[[Token], str]) -> Around:
    """The surroundings of tokens[i]; plain gives a word's lower-case form, PRONOUN, PERSON or NUMBER."""
    first, last = _alternative(tokens, i)
    before = tokens[first - 1] if first else None
    words: list[str] = []
    places: list[int] = []
    j = _next(tokens, last)
    while j is not None and len(words) < 3:
        words.append(SUM if tokens[j - 1].text in _CURRENCY else plain(tokens[j]))
        places.append(j)
        j = _next(tokens, j)
    following = tokens[places[0]] if places else None
    after_first = tokens[places[0] + 1 : places[0] + 2] if places else []
    words += [""] * 3
    return Around(
        before=plain(before) if before and before.kind == "word" else "",
        after=(words[0], words[1], words[2]),
        proper=following is not None and following.titled,
        quoted=bool(places)
        and tokens[places[0] - 1].text in _QUOTES
        and places[0] - 1 > last + _wrapped(tokens, last),
        compound=len(places) > 1 and after_first[0].text == "-" and places[1] == places[0] + 2,
    )


def _next(tokens: Sequence[Token], j: int) -> int | None:
    """The place of the clause's next word, through hyphens, brackets and opening quotes; None at its edge."""
    j += 1 + _wrapped(tokens, j)
    while j < len(tokens) and tokens[j].gap.count("\n") < 2:
        if tokens[j].kind != "sign":
            return j
        skipped = _skip(tokens, j)
        if not skipped:
            return None
        j += skipped
    return None


def _wrapped(tokens: Sequence[Token], j: int) -> int:
    """1 when tokens[j] alone stands in signs of its own, as in [his] own: the closing one is no edge."""
    inside = 0 < j < len(tokens) - 1 and not tokens[j].gap and not tokens[j + 1].gap
    return int(inside and tokens[j - 1].text + tokens[j + 1].text in _WRAPS)


def _skip(tokens: Sequence[Token], j: int) -> int:
    """How many tokens from the sign tokens[j] on a phrase passes over; 0: it ends there."""
    sign = tokens[j].text
    joined = j + 1 < len(tokens) and not tokens[j + 1].gap
    if sign in "([":
        closing = next(
            (k for k in range(j, len(tokens)) if tokens[k].text == {"(": ")", "[": "]"}[sign]), j - 1
        )
        return closing - j + 1
    if sign == "-":
        return int(joined and not tokens[j].gap)
    if sign == '"':
        return int(sum(token.text == '"' for token in tokens[:j]) % 2 == 0)
    return int(sign in _CURRENCY or (sign in _OPENERS and bool(tokens[j].gap) and joined))


def _alternative(tokens: Sequence[Token], i: int) -> tuple[int, int]:
    """First and last token of "his or her", "him/her" around tokens[i], so that both sides are read alike."""

    def other_side(j: int) -> bool:
        sides = {"her": "F", "hers": "F", "his": "M", "him": "M"}
        here, there = sides.get(tokens[i].text.lower()), sides.get(tokens[j].text.lower())
        return here is not None and there is not None and here != there

    if i + 2 < len(tokens) and tokens[i + 1].text.lower() in ("or", "/") and other_side(i + 2):
        return i, i + 2
    if i >= 2 and tokens[i - 1].text.lower() in ("or", "/") and other_side(i - 2):
        return i - 2, i
    return i, i


@cache
def classes() -> dict[str, frozenset[str]]:
    """The word classes of grammar.toml by name."""
    sections = tomllib.loads((DATA / "swap" / "grammar.toml").read_text(encoding="utf-8"))
    return {
        name: frozenset(words.split()) for section in sections.values() for name, words in section.items()
    }


def _is(word: str, *names: str) -> bool:
    return any(word in classes()[name] for name in names)


def _ends(word: str) -> bool:
    """Whether a noun phrase cannot go on with this word."""
    return not word or word[0] in "'’" or _is(word, "closed")


# Each rule answers "is it a determiner?": yes, no, or None for "ask the next rule".


def _edge(a: Around) -> bool | None:
    word, then, third = a.after
    if a.compound:
        return not (_is(word, "amount") and _is(a.before, "give"))
    if word == "every":
        return not _is(then, "time")
    if (word, then) in _NEVER_OWNED:
        return False
    if word == "and" and then != PRONOUN and third[:1] in ("'", "’"):  # her and Maria's house
        return True
    return False if _ends(word) else None


def _title_of_work(a: Around) -> bool | None:
    """his "The Thinker": a quotation after a possessive is what it possesses, whatever its first word is."""
    return True if a.quoted else None


def _speech(a: Around) -> bool | None:
    """told her "No", called her "friend"."""
    return not _is(a.before, "name", "say") if a.quoted else None


def _naming(a: Around) -> bool | None:
    """named her Maria, appointed her captain of the team, called her names."""
    if a.before in ("call", "calls", "called", "calling") and a.after[0] == "names":
        return False
    elected = _is(a.before, "elect") and _is(a.after[0], "role") and _ends(a.after[1])
    return False if elected or (a.proper and _is(a.before, "name")) else None


def _giving(a: Around) -> bool | None:
    word, then = a.after[:2]
    amount = word == NUMBER or _is(word, "amount") or (word == SUM and _ends(then))
    if amount and then == "times":  # struck her three times
        return _is(a.before, "preposition")
    moved = then == "to" and _is(a.after[2], "article")  # brought her coffee to the office
    given = amount and not moved and (_is(a.before, "give") or (_is(a.before, "take") and _is(then, "time")))
    granted = _is(a.before, "grant") and word != PERSON
    praised = _is(a.before, "earn") and (_is(word, "praise") or _is(then, "praise"))
    ranked = _is(a.before, "rank") and _ends(then)
    return False if given or granted or praised or ranked else None


def _when(a: Around) -> bool | None:
    word, then = a.after[:2]
    if word in ("last", "next", "one") and _is(then, "time"):
        return not (_is(a.before, "person") or a.before in ("to", "with", "about"))
    return not _ends(then) if _is(word, "weekday") else None


def _complement(a: Around) -> bool | None:
    """made her (very) happy, had her arrested."""
    if not _is(a.before, "turn"):
        return None
    after = a.after[1:] if _is(a.after[0], "adverb") or _adverb_in_ly(a.after[0]) else a.after
    described = _is(after[0], "adjectives") or (after[0].endswith("ed") and len(after[0]) > 4)
    return False if described and _ends(after[1]) else None


def _causative(a: Around) -> bool | None:
    """made her cry, helped her cook dinner; but: made her mark, saw her face."""
    word, then = a.after[:2]
    if not _is(a.before, "let", "help", "make", "watch", "have"):
        return None
    if _is(then, "article") and word != PERSON and not a.proper:  # an article follows infinitives, not nouns
        return False
    if not _is(word, "only", "also_noun"):
        return None
    if _is(a.before, "let", "help"):
        return False
    return _is(word, "noun_first") if _is(a.before, "make", "watch") else not _is(word, "only")


def _participle(a: Around) -> bool | None:
    """saw her walking home, a picture of her holding the cup; but: saw her wedding dress."""
    word, then = a.after[:2]
    if not word.endswith("ing") or len(word) < 5 or _is(word, "ing_noun"):
        return None
    goes_on = _is(then, "closed") and _is(a.before, "preposition")
    return False if goes_on or _is(a.before, "catch", "watch") else None


def _bystander(a: Around) -> bool | None:
    """the man behind her holds a cup."""
    word = a.after[0]
    verb = word.endswith("s") and (_is(word[:-1], "only") or _is(word[:-2], "only"))
    return False if verb and a.before in ("behind", "beside", "to") else None


def _adverb_in_ly(word: str) -> bool:
    return word.endswith("ly") and len(word) > 3 and not _is(word, "ly_noun")


def _adverb(a: Around) -> bool | None:
    word, then = a.after[:2]
    if a.before in ("it", "them") and word in ("all", "best"):  # gave it her all
        return True
    return not _ends(then) if _is(word, "adverb") or _adverb_in_ly(word) else None


def _back(a: Around) -> bool | None:
    """called her back, gave her back the pen, likes her better now; but: hurt her back."""
    word, then = a.after[:2]
    verb = _is(a.before, "person") or (word == "back" and _is(a.before, "give"))
    return False if verb and _is(word, "noun_adverb") and (_ends(then) or _is(then, "adverb")) else None


def _verb(a: Around) -> bool | None:
    """a friend of his came, half of her wanted to stay."""
    return False if _is(a.after[0], "finite") else None


_Rule = Callable[[Around], bool | None]
_HER: tuple[_Rule, ...] = (
    _speech,
    _edge,
    _naming,
    _giving,
    _when,
    _complement,
    _causative,
    _participle,
    _bystander,
    _verb,
    _adverb,
    _back,
)
# Nobody writes "made his cry" for hers: only what cannot follow a possessive speaks against a determiner.
_HIS: tuple[_Rule, ...] = (_title_of_work, _edge, _verb, _adverb)


def is_determiner(pronoun: str, a: Around) -> bool:
    """Whether "her" or "his" has its noun after it (her kitchen, his own); else it stands alone (saw her)."""
    answers = (rule(a) for rule in (_HER if pronoun == "her" else _HIS))
    return next((answer for answer in answers if answer is not None), True)
