"""What a model answers about every triple, as a table (docs/method.md, Strength and Distance)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from levelhead.measures import stereoset
from levelhead.probes.triples import Triple, TripleSet
from levelhead.results.records.projections import TripleLine
from levelhead.scoring.next_sentences import TripleAnswers

_Probabilities = Sequence[float]  # of stereotype, anti-stereotype, unrelated


def triple_lines(triples: TripleSet, answers: TripleAnswers) -> Iterator[TripleLine]:
    """A line a triple, in the order of the set; answers are those of its own sentences."""
    originals, swapped = answers.p[: len(triples.pairs)], iter(answers.p[len(triples.pairs) :])
    for pair, p in zip(triples.pairs, originals.tolist(), strict=True):
        line = _alone(pair.original, p)
        yield line if pair.swapped is None else _paired(line, pair.swapped, next(swapped).tolist())


def _alone(triple: Triple, p: _Probabilities) -> TripleLine:
    """A triple without a twin, which has neither s nor d."""
    return TripleLine(
        id=triple.id,
        context=triple.context,
        stereotype=triple.stereotype,
        anti=triple.anti,
        unrelated=triple.unrelated,
        p_stereo=p[0],
        p_anti=p[1],
        p_unrelated=p[2],
    )


def _paired(line: TripleLine, swapped: Triple, p: _Probabilities) -> TripleLine:
    """The same with its twin."""
    s = stereoset.triple_strength([line.p_stereo], [line.p_anti], [p[1]], [p[0]])
    return replace(
        line,
        context_gs=swapped.context,
        p_stereo_gs=p[0],
        p_anti_gs=p[1],
        p_unrelated_gs=p[2],
        s=float(s[0]),
        d=abs(line.p_unrelated - p[2]),
    )
