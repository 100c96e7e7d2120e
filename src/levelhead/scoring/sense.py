"""Language sense and next sentences, costs: how often an unrelated sentence wins over a related one, and how
often a next-sentence head is wrong; women and men are asked about alike (docs/method.md)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from levelhead.measures.stereoset import wins
from levelhead.probes.sense import SenseItem
from levelhead.probes.triples import TripleSet
from levelhead.scoring.item_values import Doubles, ItemValues
from levelhead.scoring.next_sentences import TripleAnswers

LANGUAGE, NEXT_SENTENCE = "language sense", "next sentences"
_UNIT = "share wrong"
_DIGITS = (
    6  # of nats: the same sentence read in another batch differs beyond, by how float32 sums are rounded
)


def language_sense(triples: TripleSet, answers: Sequence[TripleAnswers]) -> ItemValues:
    """1 − LMS of every triple and of its gender-swapped twin, which have two answers each: stereotype and
    anti-stereotype."""
    wrong = []
    for each in answers:
        stereo, anti, unrelated = each.p.T
        wrong.append(1 - (wins(stereo, unrelated) + wins(anti, unrelated)) / 2)
    return ItemValues(LANGUAGE, _UNIT, np.stack(wrong), _contexts(triples), answers=2)


def next_sentence_errors(triples: TripleSet, answers: Sequence[TripleAnswers]) -> ItemValues:
    """Where a next-sentence head rejects what is related, or accepts what is not."""
    lost = []
    for each in answers:
        stereo, anti, unrelated = wins(each.p, 0.5).T
        lost.append(1 - ((stereo + anti) / 2 + 1 - unrelated) / 2)
    return ItemValues(NEXT_SENTENCE, _UNIT, np.stack(lost), _contexts(triples), answers=2)


def sense_of(items: Sequence[SenseItem], answers: Sequence[Doubles]) -> ItemValues:
    """Language sense of items with one answer each: 1 where the unrelated sentence is the likelier one, ½ for
    a tie. answers: p of the related and of the unrelated sentence, [item, 2], in every variant.

    Two contexts exchange their next sentences, and each is a cluster of its own: on the shipped models p is
    hardly another where the two are one.
    """
    with np.errstate(divide="ignore"):  # log 0 is −inf, which compares as it should
        wrong = [1 - wins(*np.log(p).round(_DIGITS).T) for p in answers]
    return ItemValues(LANGUAGE, _UNIT, np.stack(wrong), _written(items), answers=1)


def sense_errors(items: Sequence[SenseItem], answers: Sequence[Doubles]) -> ItemValues:
    """Errors of a next-sentence head on the same items, which have two answers each."""
    lost = []
    for p in answers:
        related, unrelated = wins(p, 0.5).T
        lost.append(1 - (related + 1 - unrelated) / 2)
    return ItemValues(NEXT_SENTENCE, _UNIT, np.stack(lost), _written(items), answers=2)


def _contexts(triples: TripleSet) -> NDArray[np.str_]:
    """The context of every triple, then of every twin: a twin belongs to the cluster of its original."""
    originals = [pair.original.context for pair in triples.pairs]
    twins = [pair.original.context for pair in triples.pairs if pair.swapped is not None]
    return np.asarray([*originals, *twins])


def _written(items: Sequence[SenseItem]) -> NDArray[np.str_]:
    """The clusters of items: both that came of one written context are one."""
    return np.asarray([item.written for item in items])
