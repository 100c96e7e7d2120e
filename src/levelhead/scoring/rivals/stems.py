"""The stem of an English word, by the rules of Porter 1980, "An algorithm for suffix stripping".

With the departures that are usual since, as ROUGE counts words: irregular forms (dying, sky, news ...), y
only behind a consonant, -ies and -ied of short words (ties: tie), and the suffixes -alli, -fulli, -logi.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

_IRREGULAR = {
    **dict.fromkeys(("sky", "skies"), "sky"),
    **{"dying": "die", "lying": "lie", "tying": "tie", "news": "news"},
    **dict.fromkeys(("innings", "inning"), "inning"),
    **dict.fromkeys(("outings", "outing"), "outing"),
    **dict.fromkeys(("cannings", "canning"), "canning"),
    **{"howe": "howe", "proceed": "proceed", "exceed": "exceed", "succeed": "succeed"},
}
_STEP_2 = (
    *(("ational", "ate"), ("tional", "tion"), ("enci", "ence"), ("anci", "ance"), ("izer", "ize")),
    *(("bli", "ble"), ("alli", "al"), ("entli", "ent"), ("eli", "e"), ("ousli", "ous"), ("ization", "ize")),
    *(("ation", "ate"), ("ator", "ate"), ("alism", "al"), ("iveness", "ive"), ("fulness", "ful")),
    *(("ousness", "ous"), ("aliti", "al"), ("iviti", "ive"), ("biliti", "ble"), ("fulli", "ful")),
)
_STEP_3 = (
    *(("icate", "ic"), ("ative", ""), ("alize", "al"), ("iciti", "ic"), ("ical", "ic"), ("ful", "")),
    ("ness", ""),
)
_STEP_4 = (
    *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent", "ion", "ou", "ism"),
    *("ate", "iti", "ous", "ive", "ize"),
)


@lru_cache(maxsize=100_000)
def stem(word: str) -> str:
    """The stem of a word in lower case; words of two letters are their own."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) <= 2:
        return word
    word = _without_inflection(word)
    if word.endswith("y") and len(word) > 2 and _is_consonant(word, len(word) - 2):
        word = f"{word[:-1]}i"
    word = _replaced(_step_2(word), _STEP_3)
    # step 4: without its longest ending, where enough is left before it; step 5: without -e, and one l of two
    ending = max((each for each in _STEP_4 if word.endswith(each)), key=len, default="")
    root = word.removesuffix(ending)
    if ending and _measure(root) > 1 and (ending != "ion" or root.endswith(("s", "t"))):
        word = root
    if word.endswith("e"):
        root = word[:-1]
        if _measure(root) > 1 or (_measure(root) == 1 and not _ends_short(root)):
            word = root
    return word[:-1] if word.endswith("ll") and _measure(word[:-1]) > 1 else word


# ---- letters


def _is_consonant(word: str, i: int) -> bool:
    letter = word[i]
    return letter not in "aeiou" and (letter != "y" or i == 0 or not _is_consonant(word, i - 1))


def _measure(word: str) -> int:
    """How often a vowel is followed by a consonant."""
    kinds = [_is_consonant(word, i) for i in range(len(word))]
    return sum(1 for here, after in pairwise(kinds) if not here and after)


def _ends_short(word: str) -> bool:
    """Consonant, vowel, consonant that is not w, x or y; or a vowel and a consonant alone."""
    kinds = [_is_consonant(word, i) for i in range(len(word))]
    if len(word) == 2:
        return kinds == [False, True]
    return kinds[-3:] == [True, False, True] and word[-1] not in "wxy"


# ---- steps


def _without_inflection(word: str) -> str:
    """A word without -s, and then without -ed or -ing."""
    if word.endswith("sses") or (word.endswith("ies") and len(word) != 4):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for ending in ("ed", "ing"):
        root = word.removesuffix(ending)
        if root != word and not all(_is_consonant(root, i) for i in range(len(root))):
            if root.endswith(("at", "bl", "iz")):
                return f"{root}e"
            if root[-1:] == root[-2:-1] and _is_consonant(root, len(root) - 1):
                return root if root[-1] in "lsz" else root[:-1]
            return f"{root}e" if _measure(root) == 1 and _ends_short(root) else root
        if root != word:
            return word
    return word


def _step_2(word: str) -> str:
    if word.endswith("alli") and _measure(word[:-4]) > 0:
        return _step_2(f"{word[:-4]}al")
    if word.endswith("logi"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    return _replaced(word, _STEP_2)


def _replaced(word: str, endings: tuple[tuple[str, str], ...]) -> str:
    """The word with the longest ending that it has replaced, where enough is left before it."""
    for ending, new in sorted(endings, key=lambda each: -len(each[0])):
        if word.endswith(ending):
            root = word[: -len(ending)]
            return root + new if _measure(root) > 0 else word
    return word
