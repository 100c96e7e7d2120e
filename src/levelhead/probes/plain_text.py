"""Running text for fluency: the marks of WikiText's raw form taken off, everything else left as it is.

= Robert Boulter =                                     a heading: no sentence, left out
He had a guest @-@ starring role , and won .           He had a guest-starring role, and won.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_HEADING = re.compile(r"(?:= )+[^=].*?(?: =)+")
_JOINED = re.compile(r" @([-,.])@ ")  # a hyphen, a comma or a point inside a word or a number
_QUOTED = re.compile(r'(?<!\S)" ([^"]+?) "(?!\w)')
_BEFORE = re.compile(r" (?=(?:[,.;:!?%)\]]|'s|'re|'ve|'ll|'d|'m|n't)(?:\W|$))")
_AFTER = re.compile(r"(?<=[(\[$£€]) ")


def plain_sentences(sentences: Iterable[str]) -> Iterator[str]:
    """Sentences without headings, hyphens and punctuation where a writer puts them."""
    return (_plain(sentence) for sentence in sentences if not _HEADING.fullmatch(sentence))


def _plain(sentence: str) -> str:
    joined = _QUOTED.sub(r'"\1"', _JOINED.sub(r"\1", sentence))
    return _AFTER.sub("", _BEFORE.sub("", joined))
