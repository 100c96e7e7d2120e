"""Does "her" or "his" have its noun after it?

"her" is his (her kitchen) or him (saw her); "his" is her (his kitchen) or hers (the book is his). Both
questions are one: does a noun phrase of the possessive's own begin right after it? There is no tagger: the
rules use one word before it and a few after, whether the subject has its gender, and the classes of words in
data/swap/grammar.toml. A rule says yes, no, or None, which leaves it to the next one; without an answer it is
yes. What stands around a pronoun is read so that a text and its counterfactual are treated alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from levelhead.probes.swap.gendered import PRONOUNS, Gender, gender_of_word, pairings
from levelhead.probes.swap.tokens import Token, belongs, is_ly_adverb

PRONOUN = "<pronoun>"  # her, him, his, hers: alike, so that a text and its counterfactual are read alike
PERSON = "<person>"  # every other gendered word, for the same reason
NUMBER = "<number>"
SUM = "<sum>"  # $20: alone it is given ("paid her $20"), before a noun it describes ("paid her $20 fine")
AHEAD = 5  # words that the rules may read after the pronoun
_REACH = 10  # words before "and" or "to" among which the subject of its verb is searched

_QUOTES = frozenset("\"'“‘«")
_OPENERS = _QUOTES | frozenset("*_~#")
_CURRENCY = frozenset("$£€")
_WRAPS = frozenset(("[]", "()", '""', "''", "“”", "‘’", "**", "__"))
_NEUTRAL = {"she": "he", "herself": "himself", "he": "he", "himself": "himself"}
_NEVER_OWNED = frozenset((("one", "of"), ("will", "be"), ("will", "have"), ("will", "not")))

Subject = Literal["same", "other", "unknown"]


# ---- what stands around a pronoun


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around a pronoun, in lower case; "" is the edge of the clause."""

    before: str
    after: tuple[str, ...]  # AHEAD words
    proper: bool  # the next word is capitalized
    quoted: bool  # the next word opens a quotation
    compound: bool  # the next word is the first of a hyphenated compound: "her then-husband"
    subject: Subject  # of the verb before the pronoun: is it a person of the pronoun's gender?


def around(tokens: Sequence[Token], i: int) -> Around:
    gender = PRONOUNS[tokens[i].lower]
    first = last = i
    # Of "his or her", "him/her" both sides are passed over, so that both are read alike.
    for other in (i + 2, i - 2):
        between = tokens[(i + other) // 2].lower if 0 <= other < len(tokens) else ""
        if between in ("or", "/") and PRONOUNS.get(tokens[other].lower, gender) != gender:
            first, last = min(i, other), max(i, other)
            break
    before = tokens[first - 1] if first else None
    words: list[str] = []
    places: list[int] = []
    j = _next(tokens, last)
    while j is not None and len(words) < AHEAD:
        words.append(SUM if tokens[j - 1].text in _CURRENCY else _plain(tokens[j]))
        places.append(j)
        j = _next(tokens, j)
    after_first = tokens[places[0] + 1 : places[0] + 2] if places else []
    quote = places[0] - 1 if places else 0
    return Around(
        before=_plain(before) if before and before.kind == "word" else "",
        after=(*words, *[""] * (AHEAD - len(words))),
        proper=bool(places) and tokens[places[0]].titled,
        quoted=tokens[quote].text in _QUOTES and quote > last + _wrapped(tokens, last),
        compound=len(places) > 1 and after_first[0].text == "-" and places[1] == places[0] + 2,
        subject=_subject(tokens, first - 1, gender),
    )


def _plain(token: Token) -> str:
    """A word as the grammar sees it: without its gender, so that a text and its counterfactual are read
    alike."""
    word = token.lower
    if token.kind == "number" and word.isdigit() and len(word) != 4:  # a year and "3rd" are words like others
        return NUMBER
    if word in PRONOUNS:
        return PRONOUN
    return _NEUTRAL.get(word) or (PERSON if word in pairings() else word)


def _subject(tokens: Sequence[Token], verb: int, gender: Gender) -> Subject:
    """Whether the subject of tokens[verb] is of this gender, as far as the words before it say.

    "She left her money" and "He left his money" are alike in this, and so are "He left her money" and "She
    left him money": the answer is the same for a text and its counterfactual. I, we and you are always
    someone else.
    """
    if verb < 1 or tokens[verb].kind != "word" or belongs(tokens[verb].lower, "preposition", "closed"):
        return "unknown"
    k = verb - 1
    while k >= 0:  # a subject and its verb may have between them: 'd, never, had, finally
        word = tokens[k].lower
        adverb = tokens[k].kind == "word" and (belongs(word, "between") or is_ly_adverb(word))
        if tokens[k].kind != "suffix" and not adverb:
            break
        k -= 1
    if k < 0:
        return "unknown"
    if belongs(tokens[k].lower, "speaker"):
        return "other"
    own = gender_of_word(tokens[k].lower)
    if own is None and tokens[k].lower in ("and", "to", "but", "then"):
        # "He sat down and gave her flowers" has its subject before; "She asked him to give her flowers" has
        # none that is sure, since someone else comes after the last he or she.
        for token in reversed(tokens[max(0, k - _REACH) : k]):
            word = token.lower
            if word in ("he", "she"):
                own = gender_of_word(word)
                break
            if word in PRONOUNS or word in pairings() or belongs(word, "nominative"):
                break
    return "unknown" if own is None else "same" if own == gender else "other"


def _wrapped(tokens: Sequence[Token], j: int) -> int:
    """1 when tokens[j] alone stands in signs of its own, as in [his] own: the closing one is no edge."""
    inside = 0 < j < len(tokens) - 1 and not tokens[j].gap and not tokens[j + 1].gap
    return int(inside and tokens[j - 1].text + tokens[j + 1].text in _WRAPS)


def _next(tokens: Sequence[Token], j: int) -> int | None:
    """The place of the clause's next word, through hyphens, brackets and opening quotes; None at its edge."""
    j += 1 + _wrapped(tokens, j)
    while j < len(tokens) and tokens[j].gap.count("\n") < 2:
        if tokens[j].kind != "sign":
            return j
        sign, gap = tokens[j].text, bool(tokens[j].gap)
        joined = j + 1 < len(tokens) and not tokens[j + 1].gap
        if sign in "([":
            end = {"(": ")", "[": "]"}[sign]
            closing = next((k for k in range(j, len(tokens)) if tokens[k].text == end), None)
            passed = closing is not None
            j = closing if closing is not None else j
        elif sign == "-":
            passed = joined and not gap
        elif sign == '"':
            passed = sum(token.text == '"' for token in tokens[:j]) % 2 == 0
        else:
            passed = sign in _CURRENCY or (sign in _OPENERS and gap and joined)
        if not passed:
            return None
        j += 1
    return None


# ---- the rules


def is_determiner(pronoun: str, a: Around) -> bool:
    """Whether "her" or "his" has its noun after it (her kitchen, his own); else it stands alone (saw her)."""
    if a.quoted:  # told her "No", called her "friend"; but: his "The Thinker", whatever its first word is
        return pronoun == "his" or not belongs(a.before, "name", "say")
    # Nobody writes "made his cry" for hers: only what cannot follow a possessive speaks against a determiner.
    his = (_edge, _bystander, _still_verb, _adverb)
    her = (_edge, _naming, _counting, _giving, _when, _made, _participle, _bystander, _adverb, _back)
    answers = (rule(a) for rule in (her if pronoun == "her" else his))
    return next((answer for answer in answers if answer is not None), True)


def _ends(word: str) -> bool:
    """Whether a noun phrase cannot go on with this word."""
    return not word or word[0] in "'’" or belongs(word, "closed")


def _edge(a: Around) -> bool | None:
    """saw her in the, saw her. ; but: her on-screen partner, her and Maria's house, Her and my plans."""
    word, then, third = a.after[:3]
    if a.compound:
        return not (belongs(word, "amount") and belongs(a.before, "give"))
    if word == "every":
        return not belongs(then, "time")
    if (word, then) in _NEVER_OWNED:
        return False
    if word == "and" and then != PRONOUN and third[:1] in ("'", "’"):
        return True
    if word == "and" and belongs(then, "possessive") and not a.before:
        return True
    return False if _ends(word) else None


def _naming(a: Around) -> bool | None:
    """named her Maria, appointed her captain of the team, called her names, told her dinner was ready."""
    word, then = a.after[:2]
    called = belongs(a.before, "call") and word == "names"
    elected = belongs(a.before, "elect") and belongs(word, "role") and _ends(then)
    named = a.proper and belongs(a.before, "name")
    # A clause about something that needs no article: dinner was ready.
    told = belongs(a.before, "say") and belongs(word, "bare_subject") and belongs(then, "auxiliary")
    return False if called or elected or named or told else None


def _counting(a: Around) -> bool | None:
    """struck her three times, met her two years ago, ranked her fourth."""
    word, then, third = a.after[:3]
    amount = word == NUMBER or belongs(word, "amount")
    if amount and then == "times":
        return belongs(a.before, "preposition")
    if amount and belongs(then, "time") and third in ("ago", "later", "earlier"):
        return False
    ordinal = belongs(word, "ordinal") or (word[:1].isdigit() and word.endswith(("st", "nd", "rd", "th")))
    return False if belongs(a.before, "rank") and ordinal and _ends(then) else None


def _giving(a: Around) -> bool | None:
    """gave her money, bought her lunch, wished her luck; but: she gave her money to the poor."""
    word, then = a.after[:2]
    if belongs(a.before, "grant") and word != PERSON:
        return False
    moved = then == "to" and not belongs(word, "leads")  # brought her coffee to the office
    if a.subject == "same" or moved or (belongs(a.before, "get") and belongs(word, "cash")):
        return None
    amount = word == NUMBER or belongs(word, "amount") or (word == SUM and _ends(then))
    if (
        (amount and belongs(a.before, "give"))
        or (belongs(word, "quantity") and belongs(a.before, "earn"))
        or (amount and belongs(a.before, "take") and belongs(then, "time"))
        or (belongs(word, "meal") and belongs(a.before, "treat"))
        or (belongs(word, "proper") and belongs(a.before, "teach") and _ends(then))
        or (belongs(a.before, "earn") and (belongs(word, "praise") or belongs(then, "praise")))
    ):
        return False
    # He sent her letters: someone of another gender gives things that have no article.
    plural = word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3
    thing = (plural or belongs(word, "amount", "mass")) and (_ends(then) or is_ly_adverb(then))
    handed = (
        (belongs(a.before, "leave") and belongs(word, "cash"))
        or (belongs(a.before, "cook") and belongs(word, "meal"))
        or (belongs(a.before, "hand_over") and thing)
    )
    return False if a.subject == "other" and handed else None


def _when(a: Around) -> bool | None:
    """met her last week, seen her all day, see her most mornings; but: her last week at work."""
    word, then, third = a.after[:3]
    if word in ("all", "most") and belongs(then, "time") and not belongs(a.before, "preposition"):
        return False
    if belongs(word, "weekday"):
        return not _ends(then)
    if word not in ("last", "next", "one") or not belongs(then, "time"):
        return None
    if belongs(a.before, "person") or a.before in ("to", "with", "about"):
        return False
    bound = third in ("of", "in", "at", "as", "with", "on")
    return bound or a.subject == "same" or not a.before or belongs(a.before, "preposition", "spend")


def _made(a: Around) -> bool | None:
    """made her (very) happy, had her arrested, with her gone, made her cry, helped her cook dinner.

    But: made her mark, let her dog out.
    """
    word, then = a.after[:2]
    if a.before == "with" and belongs(word, "absent") and _ends(then):
        return False
    if belongs(a.before, "turn"):
        after = a.after[1:] if belongs(word, "adverb") or is_ly_adverb(word) else a.after
        described = belongs(after[0], "adjectives") or (after[0].endswith("ed") and len(after[0]) > 4)
        if described and _ends(after[1]):
            return False
    if not belongs(a.before, "let", "help", "make", "watch", "have"):
        return None
    if belongs(then, "article") and word != PERSON and not a.proper:  # it follows infinitives, not nouns
        return False
    if belongs(a.before, "let") and not then and word != PERSON:
        return False
    if not belongs(word, "only", "also_noun"):
        return None
    if belongs(a.before, "let", "help"):
        return False
    return belongs(word, "noun_first") if belongs(a.before, "make", "watch") else not belongs(word, "only")


def _participle(a: Around) -> bool | None:
    """saw her walking home, a picture of her holding the cup; but: her wedding dress, her sitting room."""
    word, then = a.after[:2]
    if not word.endswith("ing") or len(word) < 5 or belongs(word, "ing_noun") or belongs(then, "ing_head"):
        return None
    goes_on = belongs(then, "closed") and belongs(a.before, "preposition")
    return False if goes_on or belongs(a.before, "catch", "watch") else None


def _bystander(a: Around) -> bool | None:
    """the man behind her holds a cup, the woman next to her snored, that coat of his amazed us.

    And with any word before it: a friend of his came, half of her wanted to stay.
    """
    word, then = a.after[:2]
    if belongs(word, "finite"):
        return False
    if not belongs(a.before, "preposition"):
        return None
    stems = (word[:-1], word[:-2]) if word.endswith("s") else ()
    sure = any(belongs(stem, "only") for stem in stems) and a.before in ("behind", "beside", "to", "of")
    likely = any(belongs(stem, "only", "also_noun") for stem in stems) and belongs(then, "article")
    past = word.endswith("ed") and len(word) > 4 and not belongs(word, "ed_noun")
    left = word == "left" and a.before not in ("on", "to", "at", "from") and belongs(then, "article")
    return False if sure or likely or left or (past and _ends(then)) else None


def _still_verb(a: Around) -> bool | None:
    """a neighbor of his still writes: an adverb before the verb."""
    adverb, verb = a.after[:2]
    if a.before != "of" or not (belongs(adverb, "adverb") or is_ly_adverb(adverb)):
        return None
    stem = verb[:-1] if verb.endswith("s") else ""
    return False if belongs(verb, "finite") or belongs(stem, "only") else None


def _adverb(a: Around) -> bool | None:
    """treats her very well, loved her even more; but: her very long letters, her once famous name."""
    if a.before in ("it", "them") and a.after[0] in ("all", "best"):  # gave it her all
        return True
    length = 0
    for word in a.after:
        noun = length > 0 and belongs(word, "noun_adverb")  # not at first: her home
        if not (noun or belongs(word, "adverb") or is_ly_adverb(word)):
            break
        length += 1
    if not length:
        return None
    rest = a.after[length] if length < AHEAD else ""
    if a.after[0] == "right" and length == 1 and (not rest or belongs(rest, "after_right_hand")):
        return True
    daily = rest == "every" and length + 1 < AHEAD and belongs(a.after[length + 1], "time")
    return not (_ends(rest) or daily)


def _back(a: Around) -> bool | None:
    """called her back, gave her back the pen, applauded her back then; but: hurt her back."""
    word, then = a.after[:2]
    if word == "back" and then in ("then", "there", "home", "again"):
        return False
    if word == "first" and a.after[1:3] == ("of", "all"):
        return False
    verb = belongs(a.before, "person") or (word == "back" and belongs(a.before, "give"))
    ends = _ends(then) or belongs(then, "adverb", "noun_adverb")
    return False if verb and belongs(word, "noun_adverb") and ends else None
