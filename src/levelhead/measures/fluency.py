"""How well a model still predicts ordinary text (docs/method/sentences.md, Fluency)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from levelhead.errors import BadProbe
from levelhead.measures.influence import influence
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import DEFAULT, FloatArray, Resampling, bootstrap

Texts = Sequence[npt.ArrayLike]  # log-likelihoods of each text's tokens, NaN where one could not be scored


def perplexity(texts: Texts, resampling: Resampling = DEFAULT, masked: bool = False) -> Measurement:
    """How unexpected text is to a causal model, or to a masked one. Lower is better.

        PPL  = exp( −(1/N) Σ_t log p(w_t | w_1 … w_{t−1}) )     causal; N: all scored tokens of the corpus
        PPPL = exp( −(1/N) Σ_t log p(w_t | all others) )        masked: each token is masked alone

    One mean over all tokens, not a mean over texts. A causal text's first token has nothing before it: NaN
    and unscored, unless the model was trained with BOS. Reference: Salazar et al. 2020.
    """
    return _perplexity("pppl" if masked else "perplexity", texts, resampling)


def fluency_change(after: Texts, before: Texts, resampling: Resampling = DEFAULT) -> Measurement:
    """What an edit cost: the ratio of two perplexities on the same texts.

        ratio = exp( −(1/N) Σ_t (log p_after(w_t) − log p_before(w_t)) )     the same texts drawn for both

    1 when nothing changed, above 1 when the edited model is worse. The interval is much sharper than two
    separate ones, because hard texts are hard for both models.
    """
    pairs = [(_text(a), _text(b)) for a, b in zip(after, before, strict=False)]
    if len(after) != len(before) or any(a.shape != b.shape for a, b in pairs):
        raise BadProbe("Before and after must be the same texts, token by token")
    return _perplexity("perplexity ratio", [a - b for a, b in pairs], resampling, neutral=1.0)


def _perplexity(name: str, texts: Texts, resampling: Resampling, neutral: float | None = None) -> Measurement:
    likelihoods = [_text(text) for text in texts]
    if neutral is None and any((text > 0).any() for text in likelihoods):
        raise BadProbe(f"{name} got a log-likelihood above 0. Give natural logarithms of probabilities.")
    lost = int(sum(np.isnan(text).sum() for text in likelihoods))
    sums = np.array([np.nansum(text) for text in likelihoods], dtype=np.float64)
    sizes = np.array([np.sum(~np.isnan(text)) for text in likelihoods], dtype=np.float64)
    sums, sizes = sums[sizes > 0], sizes[sizes > 0]
    n = int(sizes.sum())
    known: dict[str, Any] = {"n": n, "neutral": neutral}
    known["unscored"] = {"token without a likelihood": lost} if lost else {}
    known["settings"] = resampling.settings("BCa bootstrap", "texts")
    known["details"] = {"texts": float(sizes.size)}
    if not n:
        return Measurement.missing(name, "no token could be scored", **known)
    if not np.isfinite(sums).all():
        return Measurement.missing(name, "a token has probability 0, the perplexity is infinite", **known)

    def statistic(counts: FloatArray) -> FloatArray:
        with np.errstate(over="ignore"):  # a resample beyond all floats has no value
            return np.asarray(np.exp(-(counts @ sums) / (counts @ sizes)), dtype=np.float64)

    value = float(statistic(np.ones((1, sums.size)))[0])
    if not np.isfinite(value):
        reason = f"the mean log-likelihood per token is {sums.sum() / n:.3g}: no float holds its perplexity"
        return Measurement.missing(name, reason, **known)

    of_items = influence(statistic, sums.size, "texts", resampling)
    return Measurement(name, value, bootstrap(statistic, sums.size, resampling), influence=of_items, **known)


def _text(values: npt.ArrayLike) -> FloatArray:
    likelihoods = np.asarray(values, dtype=np.float64)
    if likelihoods.ndim != 1:
        raise BadProbe(f"A text needs one number for each token (got shape {likelihoods.shape})")
    return likelihoods
