"""How alike two texts are, as counterfactual similarity scores count it: ROUGE-L and BLEU.

ROUGE-L = 2 L / (a + b)    L: the longest common subsequence of words, a and b the numbers of words
                           (Lin 2004; with equal weights of precision and recall)
BLEU    = BP exp( mean over n = 1..4 of log p_n ),  BP = min(1, exp(1 - reference / candidate))
          p_n the clipped precision of n-grams, 0.1 / (number of n-grams) where none is shared
          (Papineni et al. 2002; Chen and Cherry 2014, method 1)
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence

from levelhead.scoring.rivals.stems import stem

_LONGEST_GRAM = 4
_NOT_SHARED = 0.1
_PLAIN = re.compile(r"[a-z0-9]+")
_ENDING = r"'(?:s|m|d|ll|re|ve)\b"
_TOKEN = re.compile(
    rf"\w+(?=n't\b)|n't\b|{_ENDING}|\.\.\.|--|"
    rf"can(?=not\b)|\w+(?:(?:[-./]|(?!{_ENDING})')\w+|,\d+)*|[^\w\s]"
)
_OPENING = re.compile(r'(^|[\s(\[{<])"')
_SHORT = 3  # letters of a word that has no stem of its own


def words(text: str) -> list[str]:
    """Lower-case words and signs; contractions are two words (do, n't), and quotes open or close."""
    plain = text.lower().replace("’", "'").replace("“", '"').replace("”", '"')
    opened = _OPENING.sub(r"\1“", plain)
    return _TOKEN.findall(opened)


def rouge_l(one: str, other: str) -> float:
    """ROUGE-L of the stems of two texts; 0 where one has no word."""
    a, b = (
        [stem(word) if len(word) > _SHORT else word for word in _PLAIN.findall(text.lower())]
        for text in (one, other)
    )
    row = [0] * (len(b) + 1)  # of lengths of the longest common subsequence
    for word in a:
        left = diagonal = 0
        for j, there in enumerate(b, start=1):
            above = row[j]
            left = diagonal + 1 if word == there else max(left, above)
            row[j], diagonal = left, above
    return 2 * row[-1] / (len(a) + len(b)) if a and b else 0.0


def bleu(one: str, other: str) -> float:
    """The smaller BLEU of the two ways in which one text is the reference of the other."""
    a, b = words(one), words(other)
    return min(_bleu(a, b), _bleu(b, a))


def _bleu(reference: Sequence[str], candidate: Sequence[str]) -> float:
    if not reference or not candidate:
        return 0.0
    logs = []
    for n in range(1, _LONGEST_GRAM + 1):
        counted, known = (
            Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))
            for tokens in (candidate, reference)
        )
        shared = sum(min(count, known[gram]) for gram, count in counted.items())
        if n == 1 and not shared:
            return 0.0
        logs.append(math.log((shared or _NOT_SHARED) / max(1, counted.total())))
    brevity = min(0.0, 1 - len(reference) / len(candidate))
    return math.exp(brevity + sum(logs) / _LONGEST_GRAM)
