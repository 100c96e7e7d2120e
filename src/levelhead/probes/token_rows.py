"""One word test three times: one-token words, words matched by their number of tokens, all words.

A tokenizer that cuts feminine words into more tokens than masculine ones, and female-stereotyped words into
more than male-stereotyped ones, gives even a null model an association between them. Words of one
token, or of equally many, have none of that. Which row is sound for a model is what its null says
(measures/null.py, sound_choice).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from levelhead.errors import BadProbe
from levelhead.probes.words import WordTest

Pair = tuple[str, str]
ALL_WORDS, MATCHED, ONE_TOKEN = "all words", "matched by tokens", "one token"  # names of the rows


@dataclass(frozen=True)
class RowsByTokenCount:
    """The rows of one test; None where fewer than two words of a set are left."""

    one_token: WordTest | None
    matched: WordTest | None
    everything: WordTest

    def present(self) -> dict[str, WordTest]:
        """The rows that exist by name, the one with the most words first."""
        rows = {ALL_WORDS: self.everything, MATCHED: self.matched, ONE_TOKEN: self.one_token}
        return {name: test for name, test in rows.items() if test is not None}


def rows_by_token_count(test: WordTest, tokens: Mapping[str, int]) -> RowsByTokenCount:
    """Split a test by the number of tokens that a tokenizer makes of each word.

    One token: pairs of two one-token words, targets of one token. Matched: pairs of two words with equally
    many tokens; of each number of tokens as many X as Y, those listed first. A and B without pairs are
    matched as X and Y are.
    """
    unknown = [word for words in test.groups().values() for word in words if word not in tokens]
    if unknown:
        raise BadProbe(
            f"{test.name}: the number of tokens of {unknown[0]!r} is missing; give it for every word."
        )
    single = {word for word, number in tokens.items() if number == 1}
    ones = [tuple(word for word in words if word in single) for words in test.groups().values()]
    whole = [pair for pair in test.pairs if single.issuperset(pair)]
    alike = [pair for pair in test.pairs if tokens[pair[0]] == tokens[pair[1]]]
    targets = _balanced(test.X, test.Y, tokens)
    attributes = _balanced(test.A, test.B, tokens)
    return RowsByTokenCount(_row(test, ones, whole), _row(test, (*attributes, *targets), alike), test)


def _balanced(
    first: Sequence[str], second: Sequence[str], tokens: Mapping[str, int]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of each number of tokens as many words of one list as of the other."""
    kept: tuple[list[str], list[str]] = ([], [])
    for number in sorted({tokens[word] for word in (*first, *second)}):
        both = [[word for word in words if tokens[word] == number] for words in (first, second)]
        for side, words in zip(kept, both, strict=True):
            side.extend(words[: min(map(len, both))])
    return tuple(kept[0]), tuple(kept[1])


def _row(test: WordTest, groups: Sequence[tuple[str, ...]], pairs: Sequence[Pair]) -> WordTest | None:
    """A test of these words; where the test has pairs, A and B are those of the pairs that are left."""
    a, b, x, y = groups
    if test.pairs:
        a, b = tuple(first for first, _ in pairs), tuple(second for _, second in pairs)
    if min(map(len, (a, b, x, y))) < 2:
        return None
    return replace(test, A=a, B=b, X=x, Y=y, pairs=tuple(pairs) if test.pairs else ())
