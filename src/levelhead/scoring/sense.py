"""Language sense, a cost: how often an unrelated sentence wins over a related one (docs/method.md)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.sites import Variant
from levelhead.measures.stereoset import wins
from levelhead.models.model import Model
from levelhead.probes.sense import SenseItem
from levelhead.probes.triples import TripleSet
from levelhead.scoring.item_values import ItemValues
from levelhead.scoring.next_sentences import TripleAnswers, sense_answers

LANGUAGE, NEXT_SENTENCE = "language sense", "next sentences"
_UNIT = "share wrong"


def language_sense(triples: TripleSet, answers: Sequence[TripleAnswers]) -> ItemValues:
    """1 − LMS of every context of triples, which has two answers: stereotype and anti-stereotype."""
    wrong = []
    for each in answers:
        stereo, anti, unrelated = each.p[: len(triples.pairs)].T
        wrong.append(1 - (wins(stereo, unrelated) + wins(anti, unrelated)) / 2)
    return ItemValues(LANGUAGE, _UNIT, np.stack(wrong), _contexts(triples), answers=2)


def sense_values(model: Model, items: Sequence[SenseItem], variants: Sequence[Variant]) -> ItemValues:
    """The same of items with one answer each, asked as triples are: 1 where the unrelated sentence is the
    likelier one, ½ for a tie.

    Two contexts exchange their next sentences, and each is a cluster of its own: on the shipped models p is
    hardly another where the two are one.
    """
    wrong = [1 - wins(*p.T) for p in sense_answers(model, items, variants)]
    contexts = np.asarray([item.context for item in items])
    return ItemValues(LANGUAGE, _UNIT, np.stack(wrong), contexts, answers=1)


def next_sentence_errors(triples: TripleSet, answers: Sequence[TripleAnswers]) -> ItemValues:
    """Where a next-sentence head rejects what is related, or accepts what is not."""
    lost = []
    for each in answers:
        stereo, anti, unrelated = each.p[: len(triples.pairs)].T
        accepted, rejected = (wins(stereo, 0.5) + wins(anti, 0.5)) / 2, 1 - wins(unrelated, 0.5)
        lost.append(1 - (accepted + rejected) / 2)
    return ItemValues(NEXT_SENTENCE, _UNIT, np.stack(lost), _contexts(triples), answers=2)


def _contexts(triples: TripleSet) -> NDArray[np.str_]:
    return np.asarray([pair.original.context for pair in triples.pairs])
