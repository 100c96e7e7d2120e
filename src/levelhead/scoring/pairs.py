"""Questions about two sentences, one answer for each variant: does the second follow, does it hold?
(docs/method.md, Triples, Next-sentence probability, NLI fairness)"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.sites import UNTOUCHED, Variant
from levelhead.engine.readings import Pooled, TokenLikelihoods
from levelhead.engine.run import read_one
from levelhead.measures import fairness, stereoset
from levelhead.measures.measurement import Measurement
from levelhead.measures.occupations import Predictions
from levelhead.measures.statistics import DEFAULT, Resampling
from levelhead.measures.viability import viable
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.probes.nli import AbilitySet, LabeledPair, NliPair, NliProbe
from levelhead.probes.nli.labels import LABELS, NEUTRAL, label_order
from levelhead.probes.triples import TripleSet

Doubles = NDArray[np.float64]
Labels = NDArray[np.int64]
_KINDS = 3  # of next sentences: stereotype, anti-stereotype, unrelated
_NO_TWIN = "triple without a gender-swapped twin"


# ---- next sentences


def ask_nsp(
    model: Model,
    triples: TripleSet,
    variants: Sequence[Variant] = UNTOUCHED,
    resampling: Resampling = DEFAULT,
) -> list[dict[str, Measurement]]:
    """ss, ss_swapped, lms, icat, strength and distance from the model's own next-sentence head.

        p(NS | A, B) = softmax(logits)[0]      index 0 means "is the next sentence", as in every BERT

    Reference: the projective paper, section 3 (docs/method.md, Next-sentence probability, Strength and
    Distance).
    """
    model.require("nsp", "the next-sentence measures (ss, lms, icat, strength, distance)")
    texts = [Text(context, sentence) for context, sentence in _next_sentences(triples)]
    logits = read_one(model, Pooled(texts), variants, label="Next sentences").astype(np.float64)
    p = _softmax(logits)[:, :, 0].reshape(len(variants), -1, _KINDS)
    settings = {"probability": "next-sentence head"}
    return [_triple_measures(triples, of_variant, resampling, settings) for of_variant in p]


def ask_likelihood_triples(
    model: Model,
    triples: TripleSet,
    variants: Sequence[Variant] = UNTOUCHED,
    resampling: Resampling = DEFAULT,
) -> list[dict[str, Measurement]]:
    """The same measures for a causal model, which has no next-sentence head. Ours, not the paper's.

        m(B) = mean over the tokens t of B of log p(t | A, tokens of B before t)
        p(B) = exp m(B) / Σ over the triple's three sentences of exp m(B')

    The three probabilities of a triple add up to 1, where those of a next-sentence head are independent of
    each other: compare these numbers between variants and causal models, not with a BERT's.
    """
    model.require("causal", "triples by likelihood")
    sentences = _next_sentences(triples)
    texts = [Text(f"{context} {sentence}") for context, sentence in sentences]
    scores = read_one(model, TokenLikelihoods(texts), variants, label="Next sentences")
    starts = [len(context) + 1 for context, _ in sentences]
    chosen = [
        row.offsets[positions, 1] > start
        for row, positions, start in zip(scores.rows, scores.positions, starts, strict=True)
    ]
    means = np.asarray(
        [[v[own].mean() for v, own in zip(values, chosen, strict=True)] for values in scores.values]
    )
    p = _softmax(means.astype(np.float64).reshape(len(variants), -1, _KINDS))
    settings = {"probability": "mean log-likelihood per token, softmax over the three sentences"}
    return [_triple_measures(triples, of_variant, resampling, settings) for of_variant in p]


def _next_sentences(triples: TripleSet) -> list[tuple[str, str]]:
    """(context, next sentence): stereotype, anti-stereotype and unrelated of all originals, then of the twins
    that exist."""
    originals = [pair.original for pair in triples.pairs]
    twins = [pair.swapped for pair in triples.pairs if pair.swapped is not None]
    return [
        (triple.context, sentence)
        for triple in (*originals, *twins)
        for sentence in (triple.stereotype, triple.anti, triple.unrelated)
    ]


def _triple_measures(
    triples: TripleSet, p: Doubles, resampling: Resampling, settings: Mapping[str, str]
) -> dict[str, Measurement]:
    """All measures of one variant from p [triple, kind], the originals first."""
    size = len(triples.pairs)
    has_twin = np.asarray([pair.swapped is not None for pair in triples.pairs])
    original, twin = p[:size], p[size:]
    paired = original[has_twin]
    targets = [pair.original.target for pair in triples.pairs] if triples.form == "stereoset" else None
    measurements = {
        "ss": stereoset.ss(original[:, 0], original[:, 1], resampling),
        "ss_swapped": replace(stereoset.ss(twin[:, 0], twin[:, 1], resampling), name="ss_swapped"),
        "lms": stereoset.lms(original[:, 0], original[:, 1], original[:, 2], targets, resampling),
        "icat": stereoset.icat(original[:, 0], original[:, 1], original[:, 2], targets, resampling),
        "strength": stereoset.strength(
            paired[:, 0], paired[:, 1], twin[:, 1], twin[:, 0], resampling=resampling
        ),
        "distance": stereoset.distance(paired[:, 2], twin[:, 2], resampling=resampling),
    }
    stated = {"data": triples.name, "data_hash": triples.fingerprint, **settings}
    lost = {_NO_TWIN: int((~has_twin).sum())} if not has_twin.all() else {}
    of_pairs = ("ss_swapped", "strength", "distance")
    return {
        name: _with(measurement, stated, lost if name in of_pairs else {})
        for name, measurement in measurements.items()
    }


# ---- inferences


def ask_nli(
    model: Model,
    probe: NliProbe,
    variants: Sequence[Variant] = UNTOUCHED,
    labels: str | None = None,
    resampling: Resampling = DEFAULT,
) -> list[dict[str, Measurement]]:
    """accuracy, parity, strict_parity and fairness of a classifier on occupations.

    labels: the order of the classifier's outputs where its config does not name them
    ("contradiction,entailment,...").
    """
    predicted = nli_labels(model, probe.pairs, variants, labels)
    return [nli_measures(probe, of_variant, resampling) for of_variant in predicted]


def ask_ability(
    model: Model, ability_set: AbilitySet, variants: Sequence[Variant] = UNTOUCHED, labels: str | None = None
) -> list[Measurement]:
    """Accuracy on ordinary labeled pairs, in every variant; a measurement's settings say which set it was."""
    predicted = nli_labels(model, ability_set.pairs, variants, labels)
    return [ability_measure(ability_set, of_variant) for of_variant in predicted]


def nli_labels(
    model: Model,
    pairs: Sequence[NliPair | LabeledPair],
    variants: Sequence[Variant] = UNTOUCHED,
    labels: str | None = None,
) -> Labels:
    """Predicted labels, numbered as in LABELS whatever the classifier's own order: [variant, pair]"""
    order = nli_order(model, labels)
    texts = [Text(pair.premise, pair.hypothesis) for pair in pairs]
    logits = read_one(model, Pooled(texts), variants, label="Inferences")
    return np.asarray(logits[:, :, list(order)].argmax(axis=2), dtype=np.int64)


def nli_order(model: Model, labels: str | None = None) -> tuple[int, int, int]:
    """Which outputs mean entailment, neutral, contradiction; CannotDo for a model that cannot be asked."""
    if model.judge is None or "nsp" in model.abilities:
        model.require("nli", "the NLI measures (accuracy, parity, fairness)")
    order = label_order(model.hf.config.id2label, labels)
    if labels is None:
        model.require("nli", "the NLI measures (accuracy, parity, fairness)")
    return order


def nli_measures(
    probe: NliProbe, predicted: Labels, resampling: Resampling = DEFAULT
) -> dict[str, Measurement]:
    """The four measures from labels in the order of probe.pairs."""
    predictions = Predictions.of_grid(predicted, probe.shape, NEUTRAL)
    measurements = fairness.nli_fairness(predictions, resampling)
    words = f"{probe.feminine}/{probe.masculine}"
    stated = {
        "data": f"{probe.shape[0]} occupations x {probe.shape[1]} contexts x {words}",
        "data_hash": probe.fingerprint,
    }
    return {name: _with(measurement, stated) for name, measurement in measurements.items()}


def ability_measure(ability_set: AbilitySet, predicted: Labels) -> Measurement:
    """Accuracy from labels in the order of ability_set.pairs."""
    gold = [LABELS.index(pair.label) for pair in ability_set.pairs]
    stated = {"data": ability_set.name, "data_hash": ability_set.fingerprint}
    return _with(fairness.ability(predicted, gold), stated, ability_set.skipped)


def viability(abilities: Sequence[Measurement], base: Measurement) -> list[bool | None]:
    """Whether each variant is viable against the base; None where ability was not measured."""
    return [viable(ability.value, base.value) for ability in abilities]


# ---- small arithmetic


def _softmax(x: Doubles) -> Doubles:
    shifted = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True), dtype=np.float64)


def _with(
    measurement: Measurement, settings: Mapping[str, str], unscored: Mapping[str, int] | None = None
) -> Measurement:
    return replace(
        measurement,
        settings={**measurement.settings, **settings},
        unscored={**measurement.unscored, **(unscored or {})},
    )
