"""Would other words of the same groups show it? The two members of each pair exchanged by a coin.

Null models hold a list's group words fixed; those are a sample, so a claim about groups needs a second p.
With v(w) what one group word adds to a measure's numerator, in cosines or nats (docs/method/words.md,
Exchanged pairs),

    T    = Σ over pairs of ( v(a) − v(b) ) / ( 1 + ρ (n − 1) )      n: pairs of the same family; ρ = 0.25
    T(e) = the same, the members of families exchanged by coins e
    p    = (1 + #{ e : |T(e)| ≥ |T| }) / (1 + draws)

Never of an effect size: that divides by a spread which shrinks with exchanged labels too. All other exchanges
are tried for up to 13 families, 9,999 are drawn for more. Of a list without pairs, or with more words outside
of pairs than in them, words are permuted between A and B.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from levelhead.measures.clustered import mean_null, permutation_p_value
from levelhead.measures.measurement import EXCHANGED, P_EXCHANGE, P_NULL_MODELS, Measurement, Null
from levelhead.probes.words import pair_families

_LEAST, _FAMILIES = "p_exchange_least", "families"  # details: the smallest possible p; families, else nothing
_P_NULL = "p_null"  # the detail with the p of a null that is not one of models
_SPLITS = 9_999
_ALIKE = 0.25  # ρ: intraclass correlation of SEAT's pairs by family, lh:bert-mini 0.25, lh:gpt-mini 0.27
Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Exchange:
    """The p of exchanged group words, and the smallest that so few of them could give."""

    p_value: float
    least: float
    families: int | None  # of pairs; None where words were permuted

    @classmethod
    def of(cls, measurement: Measurement | None) -> Self | None:
        """What a measurement keeps of its exchange; None where there was none."""
        details = {} if measurement is None else measurement.details
        p, families = details.get(P_EXCHANGE), details.get(_FAMILIES)
        if p is None:
            return None
        return cls(p, details.get(_LEAST) or 0.0, None if families is None else int(families))

    @property
    def why_not(self) -> str:
        """What its words are too few for, in words."""
        pairs = "pair that shares" if self.families == 1 else "pairs that share"
        what = "words" if self.families is None else f"{pairs} no stem"
        many = "too few" if self.families is None else f"{self.families}"
        return f"{many} {what}: the smallest possible p is {self.least:.2g}"

    def on(self, measurement: Measurement) -> Measurement:
        """A measurement that keeps this p beside its own, and rests on the larger."""
        details = {**measurement.details, P_EXCHANGE: self.p_value, _LEAST: self.least}
        if self.families is not None:
            details[_FAMILIES] = float(self.families)
        null = measurement.null
        if null is not None:
            details[P_NULL_MODELS if null.of_models else _P_NULL] = null.p_value
            if self.p_value > null.p_value:
                null = replace(null, p_value=self.p_value, method=f"{null.method}; {EXCHANGED}")
        return replace(measurement, details=details, null=null)


def held_fixed(measurement: Measurement) -> Null | None:
    """The null of a measurement that holds its group words fixed, whichever p is the larger."""
    null = measurement.null
    own = measurement.details.get(P_NULL_MODELS)
    if null is None or own is None:
        return null
    return replace(null, p_value=own, method=null.method.removesuffix(f"; {EXCHANGED}"))


def exchange(
    of_word: Mapping[str, float],
    sides: tuple[Sequence[str], Sequence[str]],
    pairs: Pairs,
    *,
    leans: float | None = None,
    seed: int = 0,
) -> Exchange | None:
    """Exchange the group words of a list. of_word: v of each word that could be scored; sides: A and B.

    leans: the value that is claimed; p is 1 where the pairs of which both words are scored lean the other
    way. None where no word of a side was scored.
    """
    known = [pair for pair in pairs if pair[0] in of_word and pair[1] in of_word]
    a, b = ([of_word[word] for word in side if word in of_word] for side in sides)
    if not a or not b:
        return None
    if 2 * len({word for pair in known for word in pair}) >= len(of_word):
        families = np.asarray(pair_families(known))
        number = int(families.max()) + 1
        gaps = np.asarray([of_word[one] - of_word[other] for one, other in known])
        gaps /= 1 + _ALIKE * (np.bincount(families)[families] - 1)
        null = mean_null(gaps, families, seed=seed)
        found, total = null.p_value, float(np.sum(gaps))
        least = 2.0 / 2**number if null.draws == 2**number - 1 else 1 / (1 + null.draws)
    else:
        permuted = permutation_p_value(a, b, seed, _SPLITS)
        found, number, total = permuted.p_value, None, float(np.mean(a) - np.mean(b))
        least = (2.0 if len(a) == len(b) else 1.0) / (1 + permuted.partitions)  # with its mirror image
    against = leans is not None and leans * total < 0
    return Exchange(1.0 if against else found, min(1.0, least), number)
