"""What variants of a model write behind neutral prompts, in short: how far each is from its mirror image, and
who appears behind occupations.

Every variant draws with the same random numbers, so that what differs between two of them is theirs and not
the dice's. A few short texts per prompt are enough to compare variants; the study of generated texts measures
a model (docs/method/generation.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.sites import Variant
from levelhead.engine.sampling import Sampling, continuations, why_no_texts
from levelhead.measures.generated import first_word_odds
from levelhead.models.model import Model
from levelhead.probes.generation import Prompt, occupation_facts
from levelhead.progress import tokens_in
from levelhead.scoring.generation import first_person_shares, mirror_scores

Doubles = NDArray[np.float64]
SHORT = Sampling(samples=4, tokens=24)
_STEP = 3.0  # times as long as in one pass over a whole text a token takes that is sampled


@dataclass(frozen=True)
class Writing:
    """Neutral prompts that variants continue, and how.

    objective: which of the two numbers candidates are judged by; "": neither, both are columns.
    """

    prompts: tuple[Prompt, ...]
    objective: str = ""
    sampling: Sampling = SHORT

    @property
    def occupations(self) -> tuple[str, ...]:
        """The occupations in the prompts of which there is a stereotype."""
        named = dict.fromkeys(prompt.about for prompt in self.prompts if prompt.about)
        return tuple(name for name in named if occupation_facts()[name].label)

    @property
    def labels(self) -> NDArray[np.int_]:
        """Their stereotypes: +1 women's, -1 men's."""
        return np.asarray([occupation_facts()[name].label for name in self.occupations], np.int64)

    @property
    def tokens(self) -> float:
        """How much work one variant is."""
        return tokens_written(self.prompts, self.sampling)


def tokens_written(prompts: Sequence[Prompt], sampling: Sampling) -> float:
    """How much work texts are, in tokens of one pass: each is sampled once and read twice."""
    read = 2 * tokens_in(prompt.text for prompt in prompts)
    return sampling.samples * (read + len(prompts) * sampling.tokens * (_STEP + 2))


class Written(NamedTuple):
    """What variants wrote, in numbers; NaN where nothing is known, as of a variant that cannot write."""

    divergence: Doubles  # [variant, prompt] log M(y | x) - log M(σy | σx), mean over samples, in nats
    log_odds: Doubles  # [variant, occupation] that the first person is a woman


def written(model: Model, writing: Writing, variants: Sequence[Variant]) -> Written:
    """Let every variant write. Texts that the swap does not turn around exactly are left out."""
    divergence = np.full((len(variants), len(writing.prompts)), np.nan)
    log_odds = np.full((len(variants), len(writing.occupations)), np.nan)
    frames = [prompt.frame for prompt in writing.prompts]
    for row, variant in enumerate(variants):
        if not why_no_texts(variant):
            prompts = [prompt.text for prompt in writing.prompts]
            texts = continuations(model, prompts, frames, writing.sampling, variant, "Texts")
            each = [prompt for prompt, own in zip(prompts, texts, strict=True) for _ in own]
            (scores,) = mirror_scores(model, each, [one for own in texts for one in own], (variant,))
            gaps = np.where(scores.exact, scores.gaps, 0.0).reshape(len(prompts), -1).sum(axis=1)
            counts = scores.exact.reshape(len(prompts), -1).sum(axis=1)
            divergence[row] = np.where(counts > 0, gaps / np.maximum(counts, 1), np.nan)
            # of each occupation, log( f / m ) of expected first words for a person, as in who_appears
            about = [
                (prompt, text.text)
                for prompt, own in zip(writing.prompts, texts, strict=True)
                if prompt.about in writing.occupations
                for text in own
            ]
            shares = first_person_shares(
                model, [each.text for each, _ in about], [text for _, text in about], variant
            )
            sums = {name: np.zeros(2) for name in writing.occupations}
            for (prompt, _), share in zip(about, shares, strict=True):
                sums[prompt.about] += share
            f, m = np.asarray(list(sums.values())).reshape(-1, 2).T
            known = f + m > 0
            log_odds[row, known] = first_word_odds(f[known], m[known])
    return Written(divergence, log_odds)
