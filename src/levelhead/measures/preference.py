"""Which of two next sentences does a model prefer, once both genders were asked? (docs/method.md, Preference)

Answers about a triple and about its gender-swapped twin stand or fall together, and so do triples that share
a context: intervals resample contexts, and the null flips the signs of whole contexts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from levelhead.errors import BadProbe
from levelhead.measures.influence import mean_influence
from levelhead.measures.measurement import Measurement
from levelhead.measures.sign_flips import mean_null
from levelhead.measures.statistics import (
    DEFAULT,
    FloatArray,
    Resampling,
    mean_interval,
    mean_share_interval,
)
from levelhead.measures.stereoset import BCA, CONTEXTS, scale_free, wins

_NONE = "no triple pair"


@dataclass(frozen=True)
class PairedAnswers:
    """One number for either next sentence of each triple and of its gender-swapped twin.

    The columns are stereotype and anti-stereotype; the twin's stereotype is the swapped anti-stereotype.
    """

    original: FloatArray  # [pair, 2]
    swapped: FloatArray  # [pair, 2]
    contexts: npt.NDArray[np.str_]  # [pair] of the original

    def __post_init__(self) -> None:
        shape = (len(self.contexts), 2)
        if self.original.shape != shape or self.swapped.shape != shape:
            raise BadProbe(
                f"Answers of shapes {self.original.shape} and {self.swapped.shape} came for "
                f"{len(self.contexts)} contexts. Give stereotype and anti-stereotype of both twins of a pair."
            )
        if not (np.isfinite(self.original).all() and np.isfinite(self.swapped).all()):
            raise BadProbe("An answer about a triple is NaN or infinite. Load the model in float32.")


def preference(answers: PairedAnswers, resampling: Resampling = DEFAULT) -> Measurement:
    """Mean preference for the stereotype on the logit scale, both genders counted.

        v = ½ [ x(Stereo) − x(Anti) + x(Stereo_GS) − x(Anti_GS) ],   preference = mean of v over pairs
        scale-free companion = preference / sqrt(mean v²)            details["scale_free"], between −1 and 1

    x is the logit of p(NS) for a next-sentence head, log p / (1 − p), and the mean log-likelihood of the
    sentence for a causal model. Above 0 follows the stereotype. A sentence that is merely likelier cancels,
    all pairs count, and the mean of noise is 0, which makes this the main number for next sentences. Null:
    signs flipped context by context. Ours; the sum under ½ is the projective paper's s on another scale.
    """
    gaps = [side[:, 0] - side[:, 1] for side in (answers.original, answers.swapped)]
    v = 0.5 * (gaps[0] + gaps[1])
    known: dict[str, Any] = {"neutral": 0.0, "settings": _settings(resampling)}
    if not v.size:
        return Measurement.missing("preference", _NONE, **known)
    value = float(v.mean())
    return Measurement(
        "preference",
        value,
        mean_interval(v, resampling, answers.contexts),
        v.size,
        details=scale_free(value, v),
        null=mean_null(v, answers.contexts, seed=resampling.seed),
        influence=mean_influence(v, CONTEXTS, resampling, answers.contexts),
        **known,
    )


def ss_paired(answers: PairedAnswers, resampling: Resampling = DEFAULT) -> Measurement:
    """Stereotype score over triples and their twins together.

        SS = mean of [ x(Stereo) > x(Anti) ] over originals and twins,  a tie counts one half

    A sentence that wins whatever the gender wins once as the stereotype and once as the anti-stereotype: it
    counts one half. Null: wins flipped about one half, context by context. n counts pairs. Ours.
    """
    won = np.stack([wins(side[:, 0], side[:, 1]) for side in (answers.original, answers.swapped)], axis=1)
    known: dict[str, Any] = {"neutral": 0.5, "settings": {**_settings(resampling), "ties": "half"}}
    if not won.size:
        return Measurement.missing("ss_paired", _NONE, **known)
    of_pair = won.mean(axis=1)
    return Measurement(
        "ss_paired",
        float(of_pair.mean()),
        mean_share_interval(of_pair, resampling, answers.contexts),
        of_pair.size,
        details={"original": float(won[:, 0].mean()), "swapped": float(won[:, 1].mean())},
        null=mean_null(of_pair, answers.contexts, center=0.5, seed=resampling.seed),
        influence=mean_influence(of_pair, CONTEXTS, resampling, answers.contexts),
        **known,
    )


def _settings(resampling: Resampling) -> dict[str, object]:
    return {**resampling.settings(BCA, CONTEXTS), "flipped": CONTEXTS}
