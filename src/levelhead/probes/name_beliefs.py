"""Which gender a model takes a first name to have that is in no table: what is read, and what follows.

    s(name) = mean over frames of log p(she) − log p(he)
    logit p(feminine | name) = (μ_F − μ_M) / σ² · ( s(name) − ½ (μ_F + μ_M) )

μ and the pooled σ are those of known names, so that p is calibrated: a model that says "he" more often in
general, or that is never sure, is measured on its own scale. Below a certainty of 0.9 a name counts as
stating no gender.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from levelhead.probes.swap import name_pairs
from levelhead.probes.swap.gendered import Gender, unknown_names

CERTAIN = 0.9
WORDS = ("she", "he")
_FRAMES = (
    ("{} said that", "was late."),
    ("{} smiled because", "knew the answer."),
    ("We asked {} whether", "was ready."),
    ("{} laughed. Then", "went home."),
)
KNOWN = tuple(name for pair in name_pairs()[:40] for name in pair)  # that scores are calibrated on


def strange_names(texts: Iterable[str]) -> list[str]:
    """Words of these texts that seem to be first names and are in no table, in order."""
    return sorted({token.text for text in dict.fromkeys(texts) for token in unknown_names(text)})


def belief_texts(names: Iterable[str], blank: str = "") -> list[str]:
    """Where she or he comes next behind each name; blank: the mask token of a model that fills it in."""
    return [
        f"{before.format(name)} {blank} {after}" if blank else before.format(name)
        for name in names
        for before, after in _FRAMES
    ]


def believed(
    names: Sequence[str], known: npt.ArrayLike, own: npt.ArrayLike
) -> tuple[tuple[str, Gender], ...]:
    """The gender of each name that is certain enough, from log p(she) − log p(he) in the texts above.

    known: in those of KNOWN; own: in those of the names.
    """
    pairs, scores = (
        np.asarray(each, np.float64).reshape(-1, len(_FRAMES)).mean(axis=1) for each in (known, own)
    )
    pairs = pairs.reshape(-1, 2)
    apart = float(pairs[:, 0].mean() - pairs[:, 1].mean())
    if apart <= 0:  # it does not tell known names apart, so nothing is known of others
        return ()
    logits = apart / pairs.var(axis=0, ddof=1).mean() * (scores - pairs.mean())
    feminine = 1 / (1 + np.exp(-logits))
    return tuple(
        (name, "F" if p > 0.5 else "M")
        for name, p in zip(names, feminine, strict=True)
        if max(p, 1 - p) >= CERTAIN
    )
