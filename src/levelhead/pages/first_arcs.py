"""Which head and which sentence pair the report shows first: an example of what is told beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from levelhead.edits.head import Head
from levelhead.results.records.heads import ArcPair, ArcVersion
from levelhead.results.runs import HeadsRun


@dataclass(frozen=True)
class FirstArcs:
    """A head, and the place of a pair among the pairs."""

    head: Head
    pair: int


def first_arcs(run: HeadsRun, pairs: Sequence[ArcPair]) -> FirstArcs:
    """The highest-scoring head, and its most typical pair, that move as biased heads do over all sentences.

    Heads differ, and so do sentences: the first pair of the highest head can show the contrary of what the
    experiment found. Without such a head and pair, or where nothing was found, it is those all the same.
    """
    means = {each.head: each.difference for each in run.counter_heads}
    direction = next(
        (test.measurement.value for test in run.counter if test.group == "biased" and not test.side), None
    )
    for score in run.ranked:
        mean = means.get(score.head)
        if not score.biased or not direction or mean is None or mean * direction <= 0:
            continue
        changes = {number: fall(pair, score.head) for number, pair in enumerate(pairs)}
        alike = {number: own for number, own in changes.items() if own is not None and own * direction > 0}
        if alike:
            typical = mean
            return FirstArcs(score.head, min(alike, key=lambda number: abs(alike[number] - typical)))
    return FirstArcs(run.ranked[0].head, 0)


def fall(pair: ArcPair, head: Head) -> float | None:
    """How far a head's attention to the group word falls when the stereotype is turned around."""
    before, after = attention(pair.original, head), attention(pair.counter, head)
    return None if before is None or after is None else before - after


def attention(version: ArcVersion, head: Head) -> float | None:
    """A head's attention from the target word to the group word; None where the run did not keep it."""
    weights = version.attention[head.layer][head.head]
    parts = [None if weights is None else weights[place] for place in version.attribute]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None
