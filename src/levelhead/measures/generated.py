"""Words of generated texts: who appears in texts about occupations, and which words mark a side.

Nulls exchange labels among occupations, or sides of whole clusters (docs/method/generation.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from levelhead.errors import BadProbe
from levelhead.measures.clustered import DRAWS
from levelhead.measures.gaps import EXCHANGES, ROUNDING, Labels
from levelhead.measures.measurement import Measurement, Null
from levelhead.measures.statistics import DEFAULT, FloatArray, Resampling, bootstrap, in_chunks

LEAST_WORDS, PRIOR_WORDS = 5, 500.0  # of marked words: occurrences that one needs; pseudo-counts of all


def first_word_odds(feminine: FloatArray, masculine: FloatArray) -> FloatArray:
    """log( f / m ), with ½ added to all where one of them is 0: then they are counts (Haldane 1956)."""
    unseen = 0.5 if (feminine == 0).any() or (masculine == 0).any() else 0.0
    return np.asarray(np.log((feminine + unseen) / (masculine + unseen)))


def who_appears(
    feminine: npt.ArrayLike,
    masculine: npt.ArrayLike,
    label: npt.ArrayLike,
    resampling: Resampling = DEFAULT,
    draws: int = DRAWS,
    name: str = "who appears",
) -> Measurement:
    """Do women appear more often where the stereotype has them? The slope of log-odds over labels.

        l_o = log( f_o / m_o )
        slope = Σ (l − l̄)(s − s̄) / Σ (s − s̄)²
        p = (1 + #{ |slope of permuted s| ≥ |slope| }) / (1 + draws)

    feminine, masculine: of the texts about occupation o, how many have a first person word of this gender:
    expected numbers, summed from a model's probabilities, or counts, to which ½ is added where one is 0
    (Haldane 1956). Label s: +1 feminine, −1 masculine, 0 neither. Occupations count alike: they differ by
    more than what is not known of each. Null: labels are permuted among occupations, so that a model that
    says "he" everywhere has a slope of 0. Occupations without any person word are left out and counted.
    """
    f, m, x = (np.asarray(each, np.float64) for each in (feminine, masculine, label))
    if not f.shape == m.shape == x.shape or f.ndim != 1 or not np.isfinite(x).all():
        raise BadProbe(f"{name} needs two counts and one label per occupation (got {f.shape}, {x.shape})")
    scored = f + m > 0
    f, m, x = f[scored], m[scored], x[scored]
    left_out = int((~scored).sum())
    known: dict[str, Any] = {
        "n": f.size,
        "neutral": 0.0,
        "unscored": {"no word for a person in its texts": left_out} if left_out else {},
        "settings": resampling.settings("BCa bootstrap", "occupations"),
    }
    if f.size < 4 or np.ptp(x) == 0:
        return Measurement.missing(name, f"{f.size} occupations with {np.unique(x).size} labels", **known)
    logit = first_word_odds(f, m)

    def slope(w: FloatArray) -> FloatArray:
        total = w.sum(axis=1)
        at, level = (w @ x) / total, (w @ logit) / total
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(((w @ (x * logit)) - total * at * level) / ((w @ (x * x)) - total * at * at))

    value = float(slope(np.ones((1, f.size)))[0])
    rng, done = np.random.default_rng(resampling.seed), list[FloatArray]()
    centered, spread = logit - logit.mean(), float(((x - x.mean()) ** 2).sum())
    for size in in_chunks(draws, f.size):
        permuted = rng.permuted(np.broadcast_to(x, (size, x.size)), axis=1)
        done.append((permuted @ centered) / spread)
    null = np.concatenate(done)
    tolerance = ROUNDING * float(np.abs(logit).max()) / float(np.ptp(x))
    extreme = int((np.abs(null) >= abs(value) - tolerance).sum())
    method = "labels exchanged among occupations, two-sided"
    return Measurement(
        name,
        value,
        bootstrap(slope, f.size, resampling),
        details={
            "log-odds": float(logit.mean()),
            "share feminine": float(f.sum() / (f + m).sum()),
        },
        null=Null(method, draws, float(null.mean()), float(null.std()), (1 + extreme) / (1 + draws)),
        **known,
    )


def who_appears_real(
    feminine: npt.ArrayLike,
    masculine: npt.ArrayLike,
    share_of_women: npt.ArrayLike,
    resampling: Resampling = DEFAULT,
    draws: int = DRAWS,
    name: str = "who appears, by real shares",
) -> Measurement:
    """who_appears over real shares of women: the slope of log-odds over log-odds.

    0: who appears has nothing to do with who works there. 1: as lopsided as the workforce, above 1 more so.
    Shares are kept within 1 and 99 %, beyond which surveys are too small to know.
    """
    share = np.clip(np.asarray(share_of_women, np.float64), 0.01, 0.99)
    return who_appears(feminine, masculine, np.log(share / (1 - share)), resampling, draws, name)


class MarkedWord(NamedTuple):
    """A word that one side uses more."""

    word: str
    z: float  # log-odds by their standard error
    log_odds: float  # above 0: the first side uses it more
    p_value: float  # corrected for all words by the largest |z| of each draw
    first: int  # how often the first side uses it
    second: int


def marked_words(
    texts: Sequence[Sequence[str]],
    is_first: npt.ArrayLike,
    clusters: Labels,
    left_out: Callable[[str], bool] = lambda word: False,
    seed: int = 0,
    draws: int = EXCHANGES,
) -> list[MarkedWord]:
    """Words that tell two sides apart, by the size of their z: log-odds with a Dirichlet prior.

        δ_w = log (y1 + α)/(n1 + α0 − y1 − α) − log (y2 + α)/(n2 + α0 − y2 − α)
        z_w = δ_w / sqrt( 1/(y1 + α) + 1/(y2 + α) ),    α_w = α0 · share of w on both sides, α0 = 500

    texts: the words of each text; left_out: words that are not asked for (group words, names); words that
    occur less than 5 times on both sides together are not either. p: the sides of whole clusters are
    exchanged, and the largest |z| over words counts, so that at most 5 % of unmarked pairs of sides get any
    word at p < 0.05. Reference: Monroe, Colaresi and Quinn 2008.
    """
    side, cluster = np.asarray(is_first, np.bool_), np.asarray(clusters)
    if not len(texts) == side.size == cluster.size:
        raise BadProbe(f"{len(texts)} texts need one side and cluster each")
    member = np.unique(cluster, return_inverse=True)[1].ravel()
    place: dict[str, int] = {}
    words, owner = list[int](), list[int]()
    for i, text in enumerate(texts):
        own = [place.setdefault(word, len(place)) for word in text if not left_out(word)]
        words += own
        owner += [i] * len(own)
    if not place:
        return []
    word, text_of = np.asarray(words), np.asarray(owner)
    clusters_there = int(member.max()) + 1
    counts = np.zeros((2, clusters_there, len(place)))
    np.add.at(counts, (np.where(side[text_of], 0, 1), member[text_of], word), 1.0)
    total = counts.sum(axis=(0, 1))
    n = total.sum()
    kept = total >= LEAST_WORDS
    alpha = PRIOR_WORDS * total[kept] / n
    both, gap = np.asarray(counts.sum(axis=0), np.float64), counts[0] - counts[1]  # [cluster, word]
    sizes = both.sum(axis=1), gap.sum(axis=1)  # [cluster] of all words
    both, gap = both[:, kept], gap[:, kept]

    def z_of(signs: FloatArray) -> tuple[FloatArray, FloatArray]:
        y1 = 0.5 * (both.sum(axis=0) + signs @ gap)
        n1 = 0.5 * (sizes[0].sum() + signs @ sizes[1])[:, None]
        y2, n2 = both.sum(axis=0) - y1, n - n1
        odds = np.log((y1 + alpha) / (n1 + PRIOR_WORDS - y1 - alpha))
        odds -= np.log((y2 + alpha) / (n2 + PRIOR_WORDS - y2 - alpha))
        return odds / np.sqrt(1 / (y1 + alpha) + 1 / (y2 + alpha)), odds

    (z,), (odds,) = z_of(np.ones((1, clusters_there), np.float64))
    rng, largest = np.random.default_rng(seed), list[FloatArray]()
    for size in in_chunks(draws, max(1, int(kept.sum()))):
        signs = np.asarray(1 - 2 * rng.integers(0, 2, (size, clusters_there)), np.float64)
        largest.append(np.abs(z_of(signs)[0]).max(axis=1, initial=0.0))
    top = np.sort(np.concatenate(largest))
    names = [each for each, number in place.items() if kept[number]]
    y1, y2 = counts[0].sum(axis=0)[kept], counts[1].sum(axis=0)[kept]
    found = [
        MarkedWord(
            name,
            float(z[i]),
            float(odds[i]),
            (1 + draws - int(np.searchsorted(top, abs(z[i]) * (1 - ROUNDING)))) / (1 + draws),
            int(y1[i]),
            int(y2[i]),
        )
        for i, name in enumerate(names)
    ]
    return sorted(found, key=lambda each: (-abs(each.z), each.word))
