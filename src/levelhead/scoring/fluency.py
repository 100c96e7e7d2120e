"""How well a model predicts plain text: PPPL of a masked model, perplexity of a causal one.

See docs/method/sentences.md, Fluency.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from levelhead.edits.sites import UNTOUCHED, Variant
from levelhead.engine.collectors import TokenScores
from levelhead.engine.readings import TokenLikelihoods
from levelhead.engine.run import read_one
from levelhead.engine.served.writing import NOT_READ, token_likelihoods
from levelhead.measures import fluency as perplexities
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import DEFAULT, Resampling
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.models.served import ServedModel
from levelhead.probes.sentences import fluency_sentences
from levelhead.runs.folder import text_hash
from levelhead.scoring.seat import fitting

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
    texts = fluency_sentences() if sentences is None else sentences
    scores, stated = _scores(model, texts, variants)
    known = {"text": "shipped" if sentences is None else "given"}
    masked = "causal" not in model.abilities
    values = [stated(perplexities.perplexity(each, resampling, masked)) for each in scores.values]
    return [replace(value, settings={**value.settings, **known}) for value in values]


def ask_fluency_and_change(
    model: Model, sentences: Sequence[str], variants: Sequence[Variant], resampling: Resampling = DEFAULT
) -> list[tuple[Measurement, Measurement]]:
    """Perplexity of each variant, and what it costs: that over the unmodified model's, paired by text.

    Both kinds of perplexity are called fluency here; the settings of each value name its kind.
    """
    if reason := why_no_fluency(model):
        missing = Measurement.missing(FLUENCY, reason), Measurement.missing(FLUENCY_CHANGE, reason)
        return [missing] * len(variants)
    scores, stated = _scores(model, sentences, [(), *variants])
    base, *after = scores.values
    masked = "causal" not in model.abilities
    values = [stated(perplexities.perplexity(edited, resampling, masked)) for edited in after]
    named = [replace(v, name=FLUENCY, settings={**v.settings, "kind": v.name}) for v in values]
    ratios = [stated(perplexities.fluency_change(edited, base, resampling)) for edited in after]
    return [(v, replace(r, name=FLUENCY_CHANGE)) for v, r in zip(named, ratios, strict=True)]


def ask_served_fluency(
    model: ServedModel, texts: Sequence[str], resampling: Resampling = DEFAULT
) -> Measurement:
    """Perplexity of a causal model behind a server, on the tokens behind the first one of each text."""
    found = token_likelihoods(model, texts, "Fluency")
    kept = [text for text, logs in zip(texts, found, strict=True) if logs is not None]
    measured = perplexities.perplexity([logs for logs in found if logs is not None], resampling)
    lost = {NOT_READ: len(texts) - len(kept)} if len(kept) < len(texts) else {}
    unscored = {"first token of a text": len(kept), **measured.unscored, **lost}
    settings = {**measured.settings, "sentences": len(kept), "data_hash": text_hash(kept), "text": "given"}
    return replace(measured, unscored=unscored, settings=settings)


def fluency_reading(model: Model, texts: Sequence[str]) -> TokenLikelihoods:
    """What is read of texts, those that fit into the model."""
    fits = fitting(model, texts)
    return TokenLikelihoods([Text(text) for text, own in zip(texts, fits, strict=True) if own])


def why_no_fluency(model: Model) -> str:
    """The reason why a model has no fluency; empty where it has."""
    if model.abilities & {"mlm", "causal"}:
        return ""
    return f"{model.name} predicts no tokens: it has neither a masked-language head nor a causal one"


def _scores(
    model: Model, texts: Sequence[str], variants: Sequence[Variant]
) -> tuple[TokenScores, Callable[[Measurement], Measurement]]:
    """The likelihood of every token in every variant, and how a measurement of it states its data."""
    reading = fluency_reading(model, texts)
    kept = [Text.of(text).first for text in reading.texts]
    scores = read_one(model, reading, variants, label="Fluency")
    counts = {
        "first token of a text": scores.unscored,
        "text longer than the model's positions": len(texts) - len(kept),
    }
    lost = {reason: n for reason, n in counts.items() if n}
    data: dict[str, object] = {"sentences": len(kept), "data_hash": text_hash(kept)}

    def stated(measured: Measurement) -> Measurement:
        unscored, settings = {**measured.unscored, **lost}, {**measured.settings, **data}
        return replace(measured, unscored=unscored, settings=settings)

    return scores, stated
