"""How well a model predicts plain text: PPPL of a masked model, perplexity of a causal one.

See docs/method.md, Fluency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from levelhead.edits.sites import UNTOUCHED, Variant
from levelhead.engine.collectors import TokenScores
from levelhead.engine.readings import TokenLikelihoods
from levelhead.engine.run import read_one
from levelhead.measures import fluency as perplexities
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import DEFAULT, Resampling
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.probes.sentences import fluency_sentences
from levelhead.results.folder import text_hash
from levelhead.scoring.word_table import fitting

FLUENCY, FLUENCY_CHANGE = "fluency", "fluency change"  # names of measurements that any model can have


def ask_fluency(
    model: Model,
    sentences: Sequence[str] | None = None,
    variants: Sequence[Variant] = UNTOUCHED,
    *,
    resampling: Resampling = DEFAULT,
) -> list[Measurement]:
    """Perplexity in every variant, on given sentences or on the shipped text.

    A text that does not fit into the model's positions is left out and counted.
    """
    if reason := why_no_fluency(model):
        return [Measurement.missing(FLUENCY, reason)] * len(variants)
    likelihoods = _Likelihoods.of(model, fluency_sentences() if sentences is None else sentences, variants)
    known = {"text": "shipped" if sentences is None else "given"}
    values = [likelihoods.value(model, variant, resampling) for variant in range(len(variants))]
    return [replace(value, settings={**value.settings, **known}) for value in values]


def ask_fluency_change(
    model: Model, sentences: Sequence[str], variants: Sequence[Variant], resampling: Resampling = DEFAULT
) -> list[Measurement]:
    """What each variant costs in fluency: its perplexity over the unmodified model's, paired by text."""
    return [change for _, change in ask_fluency_and_change(model, sentences, variants, resampling)]


def ask_fluency_and_change(
    model: Model, sentences: Sequence[str], variants: Sequence[Variant], resampling: Resampling = DEFAULT
) -> list[tuple[Measurement, Measurement]]:
    """Perplexity of each variant, and what it costs against the unmodified model.

    Both kinds of perplexity are called fluency here; the settings of each value name its kind.
    """
    if reason := why_no_fluency(model):
        missing = Measurement.missing(FLUENCY, reason), Measurement.missing(FLUENCY_CHANGE, reason)
        return [missing] * len(variants)
    likelihoods = _Likelihoods.of(model, sentences, [(), *variants])
    pairs = []
    for variant in range(1, len(variants) + 1):
        value = likelihoods.value(model, variant, resampling)
        named = replace(value, name=FLUENCY, settings={**value.settings, "kind": value.name})
        pairs.append((named, likelihoods.change(variant, resampling)))
    return pairs


def fluency_reading(model: Model, texts: Sequence[str]) -> TokenLikelihoods:
    """What a model is asked about texts, those that fit into it."""
    fits = fitting(model, texts)
    return TokenLikelihoods([Text(text) for text, own in zip(texts, fits, strict=True) if own])


def why_no_fluency(model: Model) -> str:
    """The reason why a model has no fluency; empty where it has."""
    if model.abilities & {"mlm", "causal"}:
        return ""
    return f"{model.name} predicts no tokens: it has neither a masked-language head nor a causal one"


@dataclass(frozen=True)
class _Likelihoods:
    """The likelihood of every token in every variant, and what could not be scored."""

    scores: TokenScores
    sentences: int
    data_hash: str
    lost: dict[str, int]

    @classmethod
    def of(cls, model: Model, texts: Sequence[str], variants: Sequence[Variant]) -> _Likelihoods:
        """Ask a model for the texts that fit into it."""
        reading = fluency_reading(model, texts)
        kept = [Text.of(text).first for text in reading.texts]
        scores = read_one(model, reading, variants, label="Fluency")
        lost = {
            "first token of a text": scores.unscored,
            "text longer than the model's positions": len(texts) - len(kept),
        }
        return cls(scores, len(kept), text_hash(kept), {reason: n for reason, n in lost.items() if n})

    def value(self, model: Model, variant: int, resampling: Resampling) -> Measurement:
        """Perplexity of one variant."""
        measure = perplexities.perplexity if "causal" in model.abilities else perplexities.pseudo_perplexity
        return self._completed(measure(self.scores.values[variant], resampling))

    def change(self, variant: int, resampling: Resampling) -> Measurement:
        """What one variant costs against variant 0, which is the unmodified model."""
        values = self.scores.values
        ratio = perplexities.fluency_change(values[variant], values[0], resampling)
        return self._completed(replace(ratio, name=FLUENCY_CHANGE))

    def _completed(self, measured: Measurement) -> Measurement:
        settings = {**measured.settings, "sentences": self.sentences, "data_hash": self.data_hash}
        return replace(measured, unscored={**measured.unscored, **self.lost}, settings=settings)
