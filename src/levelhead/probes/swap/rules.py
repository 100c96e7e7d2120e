"""Does "her" or "his" have its noun after it?

"her" is his (her kitchen) or him (saw her); "his" is her (his kitchen) or hers (the book is his). Both
questions are one: does a noun phrase of the possessive's own begin right after it? There is no tagger: the
rules look at one word before it and a few after, at whether the subject has its gender, and at the classes of
data/swap/grammar.toml. A rule says yes, no, or None for "ask the next one"; without an answer it is yes.
"""

from __future__ import annotations

from collections.abc import Callable

from levelhead.probes.swap.surroundings import AHEAD, NUMBER, PERSON, PRONOUN, SUM, Around
from levelhead.probes.swap.tokens import belongs, is_ly_adverb

_NEVER_OWNED = frozenset((("one", "of"), ("will", "be"), ("will", "have"), ("will", "not")))


def is_determiner(pronoun: str, a: Around) -> bool:
    """Whether "her" or "his" has its noun after it (her kitchen, his own); else it stands alone (saw her)."""
    answers = (rule(a) for rule in (_HER if pronoun == "her" else _HIS))
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


def _title_of_work(a: Around) -> bool | None:
    """his "The Thinker": a quotation after a possessive is what it possesses, whatever its first word is."""
    return True if a.quoted else None


def _speech(a: Around) -> bool | None:
    """told her "No", called her "friend"."""
    return not belongs(a.before, "name", "say") if a.quoted else None


def _naming(a: Around) -> bool | None:
    """named her Maria, appointed her captain of the team, called her names."""
    if belongs(a.before, "call") and a.after[0] == "names":
        return False
    elected = belongs(a.before, "elect") and belongs(a.after[0], "role") and _ends(a.after[1])
    return False if elected or (a.proper and belongs(a.before, "name")) else None


def _telling(a: Around) -> bool | None:
    """told her dinner was ready: a clause about something that needs no article."""
    clause = belongs(a.before, "say") and belongs(a.after[0], "bare_subject")
    return False if clause and belongs(a.after[1], "auxiliary") else None


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
    given = (
        (_is_amount(a) and belongs(a.before, "give"))
        or (belongs(word, "quantity") and belongs(a.before, "earn"))
        or (_is_amount(a) and belongs(a.before, "take") and belongs(then, "time"))
        or (belongs(word, "meal") and belongs(a.before, "treat"))
        or (belongs(word, "proper") and belongs(a.before, "teach") and _ends(then))
        or (belongs(a.before, "earn") and (belongs(word, "praise") or belongs(then, "praise")))
        or (a.subject == "other" and _is_handed_over(a))
    )
    return False if given else None


def _is_amount(a: Around) -> bool:
    word, then = a.after[:2]
    return word == NUMBER or belongs(word, "amount") or (word == SUM and _ends(then))


def _is_handed_over(a: Around) -> bool:
    """He sent her letters: someone of another gender gives things that have no article."""
    word, then = a.after[:2]
    plural = word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3
    thing = plural or belongs(word, "amount", "mass")
    left = belongs(a.before, "leave") and belongs(word, "cash")
    cooked = belongs(a.before, "cook") and belongs(word, "meal")
    ended = _ends(then) or is_ly_adverb(then)
    return left or cooked or (belongs(a.before, "hand_over") and thing and ended)


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


def _complement(a: Around) -> bool | None:
    """made her (very) happy, had her arrested, with her gone."""
    if a.before == "with" and belongs(a.after[0], "absent") and _ends(a.after[1]):
        return False
    if not belongs(a.before, "turn"):
        return None
    after = a.after[1:] if belongs(a.after[0], "adverb") or is_ly_adverb(a.after[0]) else a.after
    described = belongs(after[0], "adjectives") or (after[0].endswith("ed") and len(after[0]) > 4)
    return False if described and _ends(after[1]) else None


def _causative(a: Around) -> bool | None:
    """made her cry, helped her cook dinner, let her board; but: made her mark, let her dog out."""
    word, then = a.after[:2]
    if not belongs(a.before, "let", "help", "make", "watch", "have"):
        return None
    if (
        belongs(then, "article") and word != PERSON and not a.proper
    ):  # an article follows infinitives, not nouns
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
    """the man behind her holds a cup, the woman next to her snored, that coat of his amazed us."""
    word, then = a.after[:2]
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


def _verb(a: Around) -> bool | None:
    """a friend of his came, half of her wanted to stay."""
    return False if belongs(a.after[0], "finite") else None


def _adverb(a: Around) -> bool | None:
    """treats her very well, loved her even more; but: her very long letters, her once famous name."""
    if a.before in ("it", "them") and a.after[0] in ("all", "best"):  # gave it her all
        return True
    length = 0
    while length < AHEAD and _is_adverb(a.after[length], first=length == 0):
        length += 1
    if not length:
        return None
    rest = a.after[length] if length < AHEAD else ""
    if a.after[0] == "right" and length == 1 and (not rest or belongs(rest, "after_right_hand")):
        return True
    daily = rest == "every" and length + 1 < AHEAD and belongs(a.after[length + 1], "time")
    return not (_ends(rest) or daily)


def _is_adverb(word: str, first: bool) -> bool:
    return belongs(word, "adverb") or is_ly_adverb(word) or (not first and belongs(word, "noun_adverb"))


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


_Rule = Callable[[Around], bool | None]
_HER: tuple[_Rule, ...] = (
    _speech,
    _edge,
    _naming,
    _telling,
    _counting,
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
_HIS: tuple[_Rule, ...] = (_title_of_work, _edge, _bystander, _verb, _still_verb, _adverb)
