"""Questions about two sentences, one answer for each variant: does the second follow, does it hold?
(docs/method.md, Triples; Next-sentence probability; NLI fairness)"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.sites import UNTOUCHED, Variant
from levelhead.engine.readings import Pooled
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
from levelhead.scoring.next_sentences import HEAD, TripleAnswers, head_answers, likelihood_answers, softmax

Doubles = NDArray[np.float64]
Labels = NDArray[np.int64]
_NO_TWIN = "triple without a gender-swapped twin"


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
    answers = head_answers(model, triples, variants)
    return [triple_measures(triples, of_variant, resampling) for of_variant in answers]


def nsp_strengths(model: Model, triples: TripleSet, variants: Sequence[Variant]) -> Doubles:
    """s of every triple pair that has a twin, [variant, pair], for changes item by item."""
    has_twin = np.asarray([pair.swapped is not None for pair in triples.pairs])
    strengths = []
    for answers in head_answers(model, triples, variants):
        original, twin = answers.p[: len(has_twin)][has_twin], answers.p[len(has_twin) :]
        strengths.append(stereoset.triple_strength(original[:, 0], original[:, 1], twin[:, 1], twin[:, 0]))
    return np.stack(strengths)


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
    answers = likelihood_answers(model, triples, variants)
    return [triple_measures(triples, of_variant, resampling) for of_variant in answers]


def triple_measures(
    triples: TripleSet,
    answers: TripleAnswers,
    resampling: Resampling = DEFAULT,
    share: float = stereoset.TOP_SHARE,
) -> dict[str, Measurement]:
    """All measures of one variant's answers, in the order of TRIPLE_MEASURES.

    share: of the pairs, the largest of which Strength and Distance are means of.
    """
    p, probability = answers.p, answers.probability
    has_twin, contexts = _twins_and_contexts(triples)
    every_context = np.concatenate([contexts, contexts[has_twin]])
    original, twin = p[: len(contexts)], p[len(contexts) :]
    stereo, anti, unrelated = original.T
    targets = [pair.original.target for pair in triples.pairs] if triples.form == "stereoset" else None
    of_pairs = [
        replace(stereoset.ss(twin[:, 0], twin[:, 1], resampling), name="ss_swapped"),
        *signed_measures(triples, answers, resampling, share).values(),
        stereoset.distance(original[has_twin, 2], twin[:, 2], contexts[has_twin], share, resampling),
    ]
    of_triples = [
        stereoset.lms(stereo, anti, unrelated, targets, resampling),
        stereoset.icat(stereo, anti, unrelated, targets, resampling),
        _nsp_accuracy(p, every_context, probability, resampling),
        separation(p, every_context, resampling),
    ]
    stated = {"data": triples.name, "data_hash": triples.fingerprint, "probability": probability}
    unusable = triples.unusable_by_reason
    lost = unusable | ({_NO_TWIN: int((~has_twin).sum())} if not has_twin.all() else {})
    measurements = [
        _with(stereoset.ss(stereo, anti, resampling), stated, unusable),
        *(_with(measurement, stated, lost) for measurement in of_pairs),
        *(_with(measurement, stated, unusable) for measurement in of_triples),
    ]
    return {measurement.name: measurement for measurement in measurements}


def signed_measures(
    triples: TripleSet,
    answers: TripleAnswers,
    resampling: Resampling = DEFAULT,
    share: float = stereoset.TOP_SHARE,
) -> dict[str, Measurement]:
    """The measures that have a sign, and so a null: ss_paired, preference, strength."""
    has_twin, contexts = _twins_and_contexts(triples)
    (p, p_swapped), (x, x_swapped) = (
        (side[: len(contexts)][has_twin, :2], side[len(contexts) :, :2]) for side in (answers.p, answers.x)
    )
    both = PairedAnswers(x, x_swapped, contexts[has_twin])
    s = stereoset.triple_strength(p[:, 0], p[:, 1], p_swapped[:, 1], p_swapped[:, 0])
    measurements = (
        ss_paired(both, resampling),
        preference(both, resampling),
        stereoset.strength(s, both.contexts, share, resampling),
    )
    return {measurement.name: measurement for measurement in measurements}


def _twins_and_contexts(triples: TripleSet) -> tuple[NDArray[np.bool_], NDArray[np.str_]]:
    """Whether each triple has a gender-swapped twin, and its context."""
    has_twin = np.asarray([pair.swapped is not None for pair in triples.pairs])
    return has_twin, np.asarray([pair.original.context for pair in triples.pairs])


def _nsp_accuracy(
    p: Doubles, contexts: NDArray[np.str_], probability: str, resampling: Resampling
) -> Measurement:
    if probability == HEAD:
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
    logits = nli_logits(model, ability_set.pairs, variants, labels)
    gold = [LABELS.index(pair.label) for pair in ability_set.pairs]
    return [
        replace(
            ability_measure(ability_set, np.asarray(of_variant.argmax(axis=1), dtype=np.int64)),
            details=fairness.label_details(softmax(of_variant.astype(np.float64)), gold, NEUTRAL),
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
    return np.asarray(nli_logits(model, pairs, variants, labels).argmax(axis=2), dtype=np.int64)


def nli_logits(
    model: Model,
    pairs: Sequence[NliPair | LabeledPair],
    variants: Sequence[Variant],
    labels: str | None = None,
) -> NDArray[np.floating[Any]]:
    """Outputs in the order of LABELS: [variant, pair, label]"""
    order = nli_order(model, labels)
    return np.asarray(
        read_one(model, inference_reading(pairs), variants, label="Inferences")[:, :, list(order)]
    )


def inference_reading(pairs: Sequence[NliPair | LabeledPair]) -> Pooled:
    """What a classifier is asked about pairs."""
    return Pooled([Text(pair.premise, pair.hypothesis) for pair in pairs])


def nli_order(model: Model, labels: str | None = None) -> tuple[int, int, int]:
    """Which outputs mean entailment, neutral, contradiction; CannotDo for a model that cannot be asked."""
    if model.classification_head is None or "nsp" in model.abilities:
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


def _with(
    measurement: Measurement, settings: Mapping[str, str], unscored: Mapping[str, int] | None = None
) -> Measurement:
    return replace(
        measurement,
        settings={**measurement.settings, **settings},
        unscored={**measurement.unscored, **(unscored or {})},
    )
