"""Questions about two sentences, one answer for each variant: does the second follow, does it hold?
(docs/method.md, Triples; Next-sentence probability; NLI fairness)"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.sites import UNTOUCHED, Variant
from levelhead.engine.readings import Pooled, TokenLikelihoods
from levelhead.engine.run import read_one
from levelhead.measures import fairness, stereoset
from levelhead.measures.measurement import Measurement
from levelhead.measures.next_sentence import nsp_accuracy, separation
from levelhead.measures.occupations import Predictions
from levelhead.measures.preference import PairedAnswers, preference, ss_paired
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
_HEAD = "next-sentence head"
_LIKELIHOOD = "mean log-likelihood per token, softmax over the three sentences"


# ---- next sentences


def ask_nsp(
    model: Model,
    triples: TripleSet,
    variants: Sequence[Variant] = UNTOUCHED,
    resampling: Resampling = DEFAULT,
) -> list[dict[str, Measurement]]:
    """Every measure of next sentences from the model's own next-sentence head.

        p(NS | A, B) = softmax(logits)[0]      index 0 means "is the next sentence", as in every BERT
        logit p      = logits[0] − logits[1]   what the preference is measured on

    Reference: the projective paper, section 3 (docs/method.md, Next-sentence probability; Preference;
    Strength and Distance; Next-sentence ability).
    """
    model.require("nsp", "the next-sentence measures (ss, lms, icat, preference, strength, distance)")
    answers = zip(*_nsp_answers(model, triples, variants), strict=True)
    return [_triple_measures(triples, *of_variant, _HEAD, resampling) for of_variant in answers]


def nsp_strengths(model: Model, triples: TripleSet, variants: Sequence[Variant]) -> Doubles:
    """s of every triple pair that has a twin, [variant, pair], for changes item by item."""
    p, _ = _nsp_answers(model, triples, variants)
    has_twin = np.asarray([pair.swapped is not None for pair in triples.pairs])
    original, twin = p[:, : len(has_twin)][:, has_twin], p[:, len(has_twin) :]
    answers = zip(original, twin, strict=True)
    return np.stack([stereoset.triple_strength(o[:, 0], o[:, 1], t[:, 1], t[:, 0]) for o, t in answers])


def _nsp_answers(model: Model, triples: TripleSet, variants: Sequence[Variant]) -> tuple[Doubles, Doubles]:
    """Probabilities and logits of a next-sentence head, each [variant, triple, kind]; originals first."""
    texts = [Text(context, sentence) for context, sentence in _next_sentences(triples)]
    logits = read_one(model, Pooled(texts), variants, label="Next sentences").astype(np.float64)
    p = _softmax(logits)[:, :, 0].reshape(len(variants), -1, _KINDS)
    return p, (logits[:, :, 0] - logits[:, :, 1]).reshape(p.shape)


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
    x = means.astype(np.float64).reshape(len(variants), -1, _KINDS)
    answers = zip(_softmax(x), x, strict=True)
    return [_triple_measures(triples, *of_variant, _LIKELIHOOD, resampling) for of_variant in answers]


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
    triples: TripleSet, p: Doubles, x: Doubles, probability: str, resampling: Resampling
) -> dict[str, Measurement]:
    """All measures of one variant, in the order of TRIPLE_MEASURES.

    p are probabilities, x the logits or mean log-likelihoods behind them: [triple, kind], originals first.
    """
    has_twin = np.asarray([pair.swapped is not None for pair in triples.pairs])
    contexts = np.asarray([pair.original.context for pair in triples.pairs])
    every_context = np.concatenate([contexts, contexts[has_twin]])
    original, twin = p[: len(contexts)], p[len(contexts) :]
    stereo, anti, unrelated = original.T
    paired = original[has_twin]
    both = PairedAnswers(x[: len(contexts)][has_twin, :2], x[len(contexts) :, :2], contexts[has_twin])
    s = stereoset.triple_strength(paired[:, 0], paired[:, 1], twin[:, 1], twin[:, 0])
    targets = [pair.original.target for pair in triples.pairs] if triples.form == "stereoset" else None
    of_pairs = [
        replace(stereoset.ss(twin[:, 0], twin[:, 1], resampling), name="ss_swapped"),
        ss_paired(both, resampling),
        preference(both, resampling),
        stereoset.strength(s, both.contexts, resampling=resampling),
        stereoset.distance(paired[:, 2], twin[:, 2], both.contexts, resampling=resampling),
    ]
    of_triples = [
        stereoset.lms(stereo, anti, unrelated, targets, resampling),
        stereoset.icat(stereo, anti, unrelated, targets, resampling),
        _nsp_accuracy(p, every_context, probability, resampling),
        separation(p, every_context, resampling),
    ]
    stated = {"data": triples.name, "data_hash": triples.fingerprint, "probability": probability}
    lost = {_NO_TWIN: int((~has_twin).sum())} if not has_twin.all() else {}
    measurements = [
        _with(stereoset.ss(stereo, anti, resampling), stated),
        *(_with(measurement, stated, lost) for measurement in of_pairs),
        *(_with(measurement, stated) for measurement in of_triples),
    ]
    return {measurement.name: measurement for measurement in measurements}


def _nsp_accuracy(
    p: Doubles, contexts: NDArray[np.str_], probability: str, resampling: Resampling
) -> Measurement:
    if probability == _HEAD:
        return nsp_accuracy(p, contexts, resampling)
    return Measurement.missing("nsp_accuracy", "likelihoods have no threshold: it asks a next-sentence head")


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
    """Accuracy on ordinary labeled pairs, in every variant; a measurement's settings say which set it was.

    Its details hold what accuracy does not see (fairness.label_details).
    """
    logits = _nli_logits(model, ability_set.pairs, variants, labels)
    gold = [LABELS.index(pair.label) for pair in ability_set.pairs]
    return [
        replace(
            ability_measure(ability_set, np.asarray(of_variant.argmax(axis=1), dtype=np.int64)),
            details=fairness.label_details(_softmax(of_variant.astype(np.float64)), gold, NEUTRAL),
        )
        for of_variant in logits
    ]


def nli_labels(
    model: Model,
    pairs: Sequence[NliPair | LabeledPair],
    variants: Sequence[Variant] = UNTOUCHED,
    labels: str | None = None,
) -> Labels:
    """Predicted labels, numbered as in LABELS whatever the classifier's own order: [variant, pair]"""
    return np.asarray(_nli_logits(model, pairs, variants, labels).argmax(axis=2), dtype=np.int64)


def _nli_logits(
    model: Model, pairs: Sequence[NliPair | LabeledPair], variants: Sequence[Variant], labels: str | None
) -> NDArray[np.floating[Any]]:
    """Outputs in the order of LABELS: [variant, pair, label]"""
    order = nli_order(model, labels)
    texts = [Text(pair.premise, pair.hypothesis) for pair in pairs]
    return np.asarray(read_one(model, Pooled(texts), variants, label="Inferences")[:, :, list(order)])


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
