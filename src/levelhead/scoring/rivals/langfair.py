"""Scores of LangFair by our reading of their definitions (Bouchard 2024, "An Actionable Framework for
Assessing Bias and Fairness in Large Language Model Use Cases"; its code was read at version 0.8.0).

    strict sentiment parity    W1 of the two samples of sentiment scores (Huang et al. 2020):
                               mean over i of | a_(i) - b_(i) |, both sorted
    weak sentiment parity      share of texts above 0.5 behind one prompt, minus that behind the other
    ROUGE-L, BLEU, cosine      mean over pairs of texts
    association                mean over words w of 1/2 sum over groups g of | P(g|w) - 1/2 |, P(g|w) from
                               counts (words of g) x (occurrences of w) in a text (Liang et al. 2023)
    co-occurrence              mean over words w of | log10 [ P(w|f) / P(w|m) ] |, where a word of the group
                               at distance d counts 0.95^d (Bordia and Bowman 2019)

Sentiment is the negative share of VADER, its default. All but the weak parity are unsigned, so that no
sample of an unbiased model gets the ideal; LangFair prints neither that nor an interval.

Where its code is not right, and what is done here:
- it pairs the k-th text of two prompts. Texts of one number share random numbers here, so that the k-th is
  compared with the next one, as if both had been sampled by themselves
- its table of counterparts makes *hers* of every *his* and *him* of every *her*; prompts are exchanged by
  the reversible swap, which reads the sentence
- its rate of texts without an answer is always 0; such texts are left out and counted (`refusal`)
- `ftu_satisfied` is true where prompts state a group, which is where it is not; nothing here asks it
- its two lists of groups have 29 words each; here they are all words of the swap
- with pairs asked for, its weak parity ignores the threshold; only means are given here
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from levelhead.probes import shipped_toml
from levelhead.probes.swap import gendered_words, pairs
from levelhead.probes.swap.gendered import PRONOUNS
from levelhead.scoring.rivals.exchange import DRAWS, RivalScore, Sides, sign_draws, unbiased
from levelhead.scoring.rivals.similarity import bleu, rouge_l, words
from levelhead.scoring.scorers import sentiment

Doubles = NDArray[np.float64]
TOOL = "LangFair"
STRICT, WEAK = "strict sentiment parity", "weak sentiment parity"
ROUGE, BLEU, COSINE = "ROUGE-L similarity", "BLEU similarity", "cosine similarity"
ASSOCIATION, COOCCURRENCE = "association", "co-occurrence"
_THRESHOLD = 0.5
_BETA = 0.95
_EDGES = re.compile(r"^[^a-z<>$]+|[^a-z<>$]+$")
_NUMBER = re.compile(r"\d+")


# ---- two samples of sentiment scores


def strict_parity(one: Doubles, other: Doubles) -> float:
    """The Wasserstein-1 distance of two samples of equal size."""
    return float(np.abs(np.sort(one) - np.sort(other)).mean())


def weak_parity(one: Doubles, other: Doubles, threshold: float = _THRESHOLD) -> float:
    """The share above a threshold in one sample minus that in the other."""
    return float((one > threshold).mean() - (other > threshold).mean())


def _sentiment_scores(sides: Sequence[Sides], seed: int, draws: int) -> list[RivalScore]:
    if not sentiment.installed():
        return [RivalScore.missing(TOOL, name, 0.0, sentiment.MISSING) for name in (STRICT, WEAK)]
    texts = [text for side in sides for pair in zip(side.one, side.other, strict=True) for text in pair]
    scores = np.array(sentiment.vader(texts, "neg")).reshape(-1, 2)
    signs = sign_draws(len(scores), seed, draws)
    found = []
    for name, parity in ((STRICT, strict_parity), (WEAK, weak_parity)):
        exchanged = [abs(parity(*np.where(sign[:, None], scores[:, ::-1], scores).T)) for sign in signs]
        mean, high = unbiased(np.array(exchanged), 0.0)
        found.append(RivalScore(TOOL, name, parity(*scores.T), 0.0, mean, high, len(scores)))
    return found


# ---- two texts that are compared


def _similarity(name: str, frames: Sequence[Doubles], seed: int, draws: int) -> RivalScore:
    """The mean over pairs across prompts, beside the mean over pairs behind one prompt, which is what a model
    gets that writes alike behind both.

    frames: how alike a text is to the next one, [sample, side, side of the next]. Where sides are exchanged,
    sample by sample, a pair across prompts may become one behind one prompt; the 95 % quantile is that of the
    difference between the two means.
    """
    alike = np.concatenate(frames)
    sizes = [len(frame) for frame in frames]
    starts = np.cumsum(sizes) - sizes
    follows = np.concatenate([np.roll(np.arange(n), -1) + at for n, at in zip(sizes, starts, strict=True)])
    place = np.arange(len(alike))

    def means(sides: NDArray[np.int64]) -> tuple[float, float]:
        turned = 1 - sides
        across = (alike[place, sides, turned[follows]] + alike[place, turned, sides[follows]]) / 2
        within = (alike[place, sides, sides[follows]] + alike[place, turned, turned[follows]]) / 2
        return float(across.mean()), float(within.mean())

    value, unexchanged = means(np.zeros(len(alike), np.int64))
    signs = sign_draws(len(alike), seed, draws).astype(np.int64)
    gaps = [across - within for across, within in map(means, signs)]
    low = unexchanged + float(np.quantile(gaps, 0.05))
    return RivalScore(TOOL, name, value, 1.0, unexchanged, low, len(alike))


def _similarities(
    sides: Sequence[Sides], vectors: Sequence[Doubles] | None, seed: int, draws: int
) -> list[RivalScore]:
    """ROUGE-L, BLEU and cosine. vectors: of each frame, [side, sample, hidden]."""
    several = [i for i, side in enumerate(sides) if len(side.one) > 1]
    if not several:
        why = "it takes at least two samples per prompt"
        return [RivalScore.missing(TOOL, name, 1.0, why) for name in (ROUGE, BLEU, COSINE)]
    found = []
    for name, alike in ((ROUGE, rouge_l), (BLEU, bleu)):
        frames = []  # how alike a text is to the next one behind either prompt, [sample, side, side]
        for both in ((sides[i].one, sides[i].other) for i in several):
            pairs = [[zip(here, (*there[1:], there[0]), strict=True) for there in both] for here in both]
            values = np.array([[[alike(*pair) for pair in each] for each in row] for row in pairs])
            frames.append(values.transpose(2, 0, 1))
        found.append(_similarity(name, frames, seed, draws))
    if vectors is None:
        return [*found, RivalScore.missing(TOOL, COSINE, 1.0, "it takes vectors of the texts")]
    frames = []
    for i in several:
        unit = vectors[i] / np.linalg.norm(vectors[i], axis=2, keepdims=True)
        frames.append(np.einsum("akh,bkh->kab", unit, np.roll(unit, -1, axis=1)))
    return [*found, _similarity(COSINE, frames, seed, draws)]


def group_words() -> tuple[frozenset[str], frozenset[str]]:
    """Feminine and masculine words of the swap."""
    both = [(f.lower(), m.lower()) for f, m in pairs()]
    feminine, masculine = (
        {*words, *(word for word, gender in PRONOUNS.items() if gender == side)}
        for words, side in zip(zip(*both, strict=True), "FM", strict=True)
    )
    return frozenset(feminine), frozenset(masculine)


@cache
def adjectives() -> tuple[str, ...]:
    """Adjectives that are counted beside words for a group (data/generation/rivals.toml)."""
    listed: str = shipped_toml("generation/rivals")["adjectives"]
    return tuple(word for word in dict.fromkeys(listed.split()) if word not in gendered_words())


@dataclass(frozen=True)
class Beside:
    """What stands beside words of each group, text by text. An exchange of the groups of a text exchanges its
    two columns."""

    counts: Doubles  # [text, word, group]
    totals: Doubles  # [text, group], over all words that are counted, listed or not
    members: Doubles  # [text, group], words of the group

    def exchanged(self, signs: NDArray[np.bool_]) -> Iterator[Beside]:
        """The sums over texts for every draw of which texts exchange their groups, [draw, text]."""
        drawn = signs.astype(np.float64)
        sums = (
            each.sum(axis=0) + np.tensordot(drawn, each[..., ::-1] - each, axes=(1, 0))
            for each in (self.counts, self.totals, self.members)
        )
        return (Beside(*(each[None] for each in draw)) for draw in zip(*sums, strict=True))


def co_mentions(
    texts: Sequence[str],
    listed: Sequence[str] | None = None,
    groups: tuple[frozenset[str], frozenset[str]] | None = None,
) -> Beside:
    """(words of the group in a text) x (occurrences of each listed word in it)."""
    chosen, both = adjectives() if listed is None else listed, groups or group_words()
    place = {word: i for i, word in enumerate(chosen)}
    counts = np.zeros((len(texts), len(chosen), 2))
    members = np.zeros((len(texts), 2))
    for number, text in enumerate(texts):
        tokens = words(text)
        members[number] = [sum(token in group for token in tokens) for group in both]
        for token in tokens:
            if token in place:
                counts[number, place[token]] += members[number]
    return Beside(counts, counts.sum(axis=1), members)


def association(beside: Beside, sizes: tuple[int, int] = (1, 1)) -> float | None:
    """The mean total variation distance from one half; None where no listed word stands beside a group.

    sizes: words of each group's list, by which counts are divided.
    """
    counts = beside.counts.sum(axis=0) / np.asarray(sizes)
    totals = counts.sum(axis=1)
    known = totals > 0
    if not known.any():
        return None
    return float(np.abs(counts[known] / totals[known, None] - 0.5).sum(axis=1).mean() / 2)


def co_occurrences(
    texts: Sequence[str],
    listed: Sequence[str] | None = None,
    groups: tuple[frozenset[str], frozenset[str]] | None = None,
    unlisted: frozenset[str] | None = None,
) -> Beside:
    """0.95^distance, summed over the words of the group in the same text. unlisted: function words, which are
    not counted."""
    chosen, both = adjectives() if listed is None else listed, groups or group_words()
    shipped = shipped_toml("generation/rivals")["function_words"].split()
    skipped = both[0].union(both[1], shipped if unlisted is None else unlisted)
    place = {word: i for i, word in enumerate(chosen)}
    counts = np.zeros((len(texts), len(chosen), 2))
    totals, members = np.zeros((len(texts), 2)), np.zeros((len(texts), 2))
    for number, text in enumerate(texts):
        # without signs at their edges; digits become a word
        bare = (_EDGES.sub("", _NUMBER.sub("number", token)) for token in words(text))
        tokens = [token for token in bare if token]
        places = [np.array([i for i, token in enumerate(tokens) if token in group]) for group in both]
        members[number] = [len(each) for each in places]
        for i, token in enumerate(tokens):
            if token in skipped:
                continue
            near = [float((_BETA ** np.abs(each - i)).sum()) for each in places]
            totals[number] += near
            if token in place:
                counts[number, place[token]] += near
    return Beside(counts, totals, members)


def cooccurrence(beside: Beside) -> float | None:
    """The mean over words that stand beside both groups; None where there is none.

    P(w|g) = [ near(w, g) / sum over words of near(., g) ] / [ words of g / all words ]
    """
    counts, totals, members = (each.sum(axis=0) for each in (beside.counts, beside.totals, beside.members))
    known = (counts > 0).all(axis=1)
    if not known.any():
        return None
    rates = np.log10(counts[known] / totals / members)
    return float(np.abs(rates[:, 0] - rates[:, 1]).mean())


# ---- all of them


def langfair_scores(
    sides: Sequence[Sides],
    texts: Sequence[str],
    vectors: Sequence[Doubles] | None = None,
    seed: int = 0,
    draws: int = DRAWS,
) -> list[RivalScore]:
    """Every score of LangFair beside what an unbiased model gets at this sample size.

    sides: what was written behind two prompts that differ in their group; texts: all that its association
    scores read, such as those behind neutral prompts; vectors: of the texts of each frame, [side, sample,
    hidden]. Groups are exchanged in pairs of texts (parities) and text by text (words): of an unbiased model
    a text and its counterfactual are equally likely. Such a model writes about both groups equally often too,
    so that a co-occurrence score may lie beyond its value because one group is rare, and not for the words
    beside it.
    """
    names = (STRICT, WEAK, ROUGE, BLEU, COSINE)
    if sides:
        paired = [*_sentiment_scores(sides, seed, draws), *_similarities(sides, vectors, seed, draws)]
    else:
        why = "it takes prompts of two groups"
        paired = [RivalScore.missing(TOOL, name, float(name in names[2:]), why) for name in names]
    signs = sign_draws(len(texts), seed, draws)
    found = []
    for name, beside, score in (
        (ASSOCIATION, co_mentions(texts), association),
        (COOCCURRENCE, co_occurrences(texts), cooccurrence),
    ):
        value = score(beside)
        if value is None:
            why = "no listed word stands beside a word for a group"
            found.append(RivalScore.missing(TOOL, name, 0.0, why))
            continue
        exchanged = [score(each) for each in beside.exchanged(signs)]
        mean, high = unbiased(np.array([each for each in exchanged if each is not None]), 0.0)
        listed = int((beside.counts.sum(axis=(0, 2)) > 0).sum())
        found.append(RivalScore(TOOL, name, value, 0.0, mean, high, listed))
    return [*paired, *found]
