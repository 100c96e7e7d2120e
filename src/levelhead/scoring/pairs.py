"""Questions about two sentences, one answer for each variant: does the second follow, does it hold?
(docs/method/sentences.md, Triples; Next-sentence probability; Preference; NLI fairness)"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.sites import UNTOUCHED, Variant
from levelhead.engine.readings import Pooled, TokenLikelihoods
from levelhead.engine.run import read_one
from levelhead.engine.served.writing import span_likelihoods
from levelhead.errors import CannotDo
from levelhead.measures import fairness, stereoset
from levelhead.measures.fairness import Predictions
from levelhead.measures.measurement import ABOUT_NULLS, NULL_MODELS, Measurement
from levelhead.measures.null import ALPHA, NullDistribution, closed, looked_at, looks
from levelhead.measures.statistics import DEFAULT, Resampling
from levelhead.measures.stereoset import PairedAnswers, nsp_accuracy, preference, separation, ss_paired
from levelhead.models.chat import chat_texts, require_chat
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.models.null_model import as_null_model, draw_null_model, null_model_seed
from levelhead.models.served import ServedModel
from levelhead.probes.nli import LABELS, NEUTRAL, AbilitySet, LabeledPair, NliPair, NliProbe, label_order
from levelhead.probes.sentences import SenseItem
from levelhead.probes.triples import TripleSet
from levelhead.progress import steps
from levelhead.runs.common import TripleLine

Doubles = NDArray[np.float64]
Labels = NDArray[np.int64]
HEAD = "next-sentence head"
LIKELIHOOD = "mean log-likelihood per token, softmax over the three sentences"
CHAT_LIKELIHOOD = f"{LIKELIHOOD}; the context is a user's turn, the sentence the model's"
KINDS = ("stereotype", "anti", "unrelated")  # of next sentences, as a triple names them
_NO_COUNTERFACTUAL = "triple without a counterfactual"
Rows = Sequence[Sequence[str]]  # a context and its next sentences


# ---- answers about next sentences


@dataclass(frozen=True, eq=False)
class TripleAnswers:
    """Answers about all originals, then about the gender-swapped ones that exist.

    The columns are stereotype, anti-stereotype and, where it was read, unrelated.
    """

    p: Doubles  # [triple, kind] probabilities
    x: Doubles  # [triple, kind] the logits or mean log-likelihoods behind them
    probability: str  # HEAD, LIKELIHOOD or CHAT_LIKELIHOOD


def head_answers(
    model: Model, triples: TripleSet | Rows, variants: Sequence[Variant] = UNTOUCHED
) -> list[TripleAnswers]:
    """The answers of the model's own next-sentence head in every variant.

    p(NS | A, B) = softmax(logits)[0],   x = logits[0] − logits[1]     index 0: "is the next sentence"
    """
    rows = triple_rows(triples) if isinstance(triples, TripleSet) else triples
    model.require("nsp", "the next-sentence measures (ss, lms, icat, preference, strength, distance)")
    reading = Pooled([Text(context, each) for context, *sentences in rows for each in sentences])
    logits = read_one(model, reading, variants, label="Next sentences").astype(np.float64)
    p = softmax(logits)[:, :, 0].reshape(len(variants), -1, len(rows[0]) - 1)
    x = (logits[:, :, 0] - logits[:, :, 1]).reshape(p.shape)
    return [TripleAnswers(*of_variant, HEAD) for of_variant in zip(p, x, strict=True)]


def likelihood_answers(
    model: Model, triples: TripleSet | Rows, variants: Sequence[Variant] = UNTOUCHED, chat: bool = False
) -> list[TripleAnswers]:
    """The answers of a causal model, which has no next-sentence head, in every variant (ours).

    x(B) = mean over the tokens t of B of log p(t | A, tokens of B before t)
    p(B) = exp x(B) / Σ over the triple's three sentences of exp x(B')

    The three probabilities of a triple add up to 1, where those of a next-sentence head are independent of
    each other: compare these numbers between variants and causal models, not with a BERT's. chat: A is what a
    user says and B what the model answers, in the tokenizer's chat template; else A B is plain text.
    """
    rows = triple_rows(triples) if isinstance(triples, TripleSet) else triples
    model.require("causal", "triples by likelihood")
    pairs = [(context, each) for context, *sentences in rows for each in sentences]
    if chat:
        require_chat(model)
    texts = chat_texts(model, pairs) if chat else [Text(" ".join(pair)) for pair in pairs]
    scores = read_one(model, TokenLikelihoods(texts), variants, label="Next sentences")
    starts = [len(text.first) - len(sentence) for text, (_, sentence) in zip(texts, pairs, strict=True)]
    chosen = [
        tokens.offsets[positions, 1] > start
        for tokens, positions, start in zip(scores.rows, scores.positions, starts, strict=True)
    ]
    means = np.asarray(
        [[v[own].mean() for v, own in zip(values, chosen, strict=True)] for values in scores.values]
    )
    x = means.astype(np.float64).reshape(len(variants), -1, len(rows[0]) - 1)
    stated = CHAT_LIKELIHOOD if chat else LIKELIHOOD
    return [TripleAnswers(*of_variant, stated) for of_variant in zip(softmax(x), x, strict=True)]


def served_likelihood_answers(model: ServedModel, triples: TripleSet) -> TripleAnswers:
    """The answers of a causal model behind a server, by the same likelihoods as `likelihood_answers`."""
    rows = triple_rows(triples)
    spans = [
        (f"{context} {each}", len(context) + 1, len(context) + 1 + len(each))
        for context, *sentences in rows
        for each in sentences
    ]
    sums, counts = span_likelihoods(model, spans, "Next sentences")
    if lost := int((counts == 0).sum()):
        raise CannotDo(f"{model.name}: the tokens of {lost} next sentences do not add up to their texts.")
    x = (sums / counts).reshape(len(rows), -1)
    return TripleAnswers(softmax(x), x, LIKELIHOOD)


def related_answers(model: Model, triples: TripleSet, variant: Variant = ()) -> TripleAnswers:
    """Answers about stereotypes and anti-stereotypes, which is all that a preference needs.

    A next-sentence head answers about each sentence alone, so the unrelated ones are not read; the
    probabilities of a causal model need all three.
    """
    if "nsp" in model.abilities:
        return head_answers(model, triple_rows(triples, KINDS[:2]), [variant])[0]
    return likelihood_answers(model, triples, [variant])[0]


def sense_answers(model: Model, items: Sequence[SenseItem], variants: Sequence[Variant]) -> list[Doubles]:
    """p of the related and of the unrelated sentence of every item, [item, 2], in every variant: by the head
    where there is one, else by likelihood, over the two."""
    ask = head_answers if "nsp" in model.abilities else likelihood_answers
    rows = [(item.context, item.related, item.unrelated) for item in items]
    return [answers.p for answers in ask(model, rows, variants)]


def triple_rows(triples: TripleSet, kinds: Sequence[str] = KINDS) -> Rows:
    """All originals, then the swapped triples that exist."""
    originals = [pair.original for pair in triples.pairs]
    swapped = [pair.swapped for pair in triples.pairs if pair.swapped is not None]
    return [[str(getattr(each, name)) for name in ("context", *kinds)] for each in (*originals, *swapped)]


def next_sentence_reading(model: Model, rows: Rows) -> Pooled | TokenLikelihoods:
    """What is read for next sentences: by the head where there is one, else by likelihood."""
    pairs = [(context, each) for context, *sentences in rows for each in sentences]
    if "nsp" in model.abilities:
        return Pooled([Text(*pair) for pair in pairs])
    return TokenLikelihoods([Text(" ".join(pair)) for pair in pairs])


def related_reading(model: Model, triples: TripleSet) -> Pooled | TokenLikelihoods:
    """What related_answers reads."""
    return next_sentence_reading(
        model, triple_rows(triples, KINDS[:2] if "nsp" in model.abilities else KINDS)
    )


def softmax(x: Doubles) -> Doubles:
    shifted = np.exp(x - x.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True), dtype=np.float64)


def triple_lines(triples: TripleSet, answers: TripleAnswers) -> Iterator[TripleLine]:
    """A line per triple, in the order of the set; answers are those of its own sentences.

    A triple without a null model has neither s nor d (docs/method/sentences.md, Strength and Distance).
    """
    originals, swapped = answers.p[: len(triples.pairs)], iter(answers.p[len(triples.pairs) :])
    for pair, (stereo, anti, unrelated) in zip(triples.pairs, originals.tolist(), strict=True):
        triple = pair.original
        texts = (triple.id, triple.context, triple.stereotype, triple.anti, triple.unrelated)
        line = TripleLine(*texts, p_stereo=stereo, p_anti=anti, p_unrelated=unrelated)
        if pair.swapped is not None:
            p = next(swapped).tolist()
            s = stereoset.triple_strength([stereo], [anti], [p[1]], [p[0]])
            line = replace(
                line,
                context_gs=pair.swapped.context,
                p_stereo_gs=p[0],
                p_anti_gs=p[1],
                p_unrelated_gs=p[2],
                s=float(s[0]),
                d=abs(unrelated - p[2]),
            )
        yield line


# ---- measures of next sentences


def ask_nsp(
    model: Model,
    triples: TripleSet,
    variants: Sequence[Variant] = UNTOUCHED,
    resampling: Resampling = DEFAULT,
) -> list[dict[str, Measurement]]:
    """Every measure of next sentences from the model's own next-sentence head (head_answers).

    Reference: the projective paper, section 3 (docs/method/sentences.md, Next-sentence probability;
    Preference; Strength and Distance; Next-sentence ability).
    """
    answers = head_answers(model, triples, variants)
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
    has_counterfactual = np.asarray([pair.swapped is not None for pair in triples.pairs])
    contexts = np.asarray([pair.original.context for pair in triples.pairs])
    every_context = np.concatenate([contexts, contexts[has_counterfactual]])
    original, counterfactual = p[: len(contexts)], p[len(contexts) :]
    stereo, anti, unrelated = original.T
    targets = [pair.original.target for pair in triples.pairs] if triples.form == "stereoset" else None
    # likelihoods have no threshold at which a sentence counts as the next one
    accuracy = (
        nsp_accuracy(p, every_context, resampling)
        if probability == HEAD
        else Measurement.missing(
            "nsp_accuracy", "likelihoods have no threshold: it asks a next-sentence head"
        )
    )
    of_pairs = [
        replace(stereoset.ss(counterfactual[:, 0], counterfactual[:, 1], resampling), name="ss_swapped"),
        *signed_measures(triples, answers, resampling, share).values(),
        stereoset.distance(
            original[has_counterfactual, 2],
            counterfactual[:, 2],
            contexts[has_counterfactual],
            share,
            resampling,
        ),
    ]
    of_triples = [
        stereoset.lms(stereo, anti, unrelated, targets, resampling),
        stereoset.icat(stereo, anti, unrelated, targets, resampling),
        accuracy,
        separation(p, every_context, resampling),
    ]
    stated = {"data": triples.name, "data_hash": triples.fingerprint, "probability": probability}
    unusable = triples.unusable_by_reason
    lost = unusable | (
        {_NO_COUNTERFACTUAL: int((~has_counterfactual).sum())} if not has_counterfactual.all() else {}
    )
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
    has_counterfactual = np.asarray([pair.swapped is not None for pair in triples.pairs])
    contexts = np.asarray([pair.original.context for pair in triples.pairs])
    (p, p_swapped), (x, x_swapped) = (
        (side[: len(contexts)][has_counterfactual, :2], side[len(contexts) :, :2])
        for side in (answers.p, answers.x)
    )
    both = PairedAnswers(x, x_swapped, contexts[has_counterfactual])
    s = stereoset.triple_strength(p[:, 0], p[:, 1], p_swapped[:, 1], p_swapped[:, 0])
    measurements = (
        ss_paired(both, resampling),
        preference(both, resampling),
        stereoset.strength(s, both.contexts, share, resampling),
    )
    return {measurement.name: measurement for measurement in measurements}


def compared_with_null_models(
    model: Model, triples: TripleSet, measured: Mapping[str, Measurement], null_models: int, seed: int = 0
) -> dict[str, Measurement]:
    """ss_paired, preference and strength with the harder of two nulls: sign flips, and so many null models.

    Contexts share their gender words. In a model to which words mean nothing, "she" may still go well with
    one kind of sentence and "he" with another, in all contexts alike, and no flip of single contexts sees
    that. Null models do (models/null_model.py; docs/method/sentences.md, Preference).

    Preference and strength are compared relative to the root mean square of each model's own differences.
    Null models come in rounds: no more of them are run once no verdict can change (measures/null.py). Fewer
    than 2 null models: the measurements as they are. A model that has no null model states the reason under
    settings["null models"].
    """
    if null_models < 2:
        return dict(measured)
    # of two nulls the larger p counts: a measure that its own null does not reject is decided
    still_open = {
        name: each.relative
        for name, each in measured.items()
        if each.relative is not None and each.null is not None and each.null.p_value < ALPHA
    }
    relative: dict[str, list[float | None]] = {}
    nulls: dict[str, NullDistribution] = {}
    try:
        with steps("Next sentences in null models", null_models) as advance:
            for evaluated in range(1, null_models + 1):
                with as_null_model(model, draw_null_model(model, null_model_seed(seed, evaluated - 1))):
                    answers = related_answers(model, triples)
                for name, each in signed_measures(triples, answers).items():
                    relative.setdefault(name, []).append(each.relative)
                advance(1)
                known = {name: [v for v in values if v is not None] for name, values in relative.items()}
                # a measure that some null model lacks has no null
                nulls = {
                    name: NullDistribution(np.asarray(values))
                    for name, values in known.items()
                    if len(values) == evaluated > 1
                }
                if evaluated in looks(null_models) and all(
                    closed(null, still_open[name], null_models)
                    for name, null in nulls.items()
                    if name in still_open
                ):
                    break
    except CannotDo as error:
        about = {ABOUT_NULLS: str(error)}
        return {
            name: each if each.null is None else replace(each, settings={**each.settings, **about})
            for name, each in measured.items()
        }
    held = dict(measured)
    for name, null in nulls.items():
        if (value := measured[name].relative) is not None:
            held[name] = looked_at(null, value, null_models).harder(measured[name], NULL_MODELS)
    return held


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
    gold = [LABELS.index(pair.label) for pair in ability_set.pairs]
    measurements = []
    for logits in nli_logits(model, ability_set.pairs, variants, labels):
        measured = ability_measure(ability_set, np.asarray(logits.argmax(axis=1), dtype=np.int64))
        details = fairness.label_details(softmax(logits.astype(np.float64)), gold, NEUTRAL)
        measurements.append(replace(measured, details=details))
    return measurements


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
    order = list(nli_order(model, labels))
    answers = read_one(model, nli_reading(pairs), variants, label="Inferences")
    return np.asarray(answers[:, :, order])


def nli_reading(pairs: Sequence[NliPair | LabeledPair]) -> Pooled:
    """What is read of inferences."""
    return Pooled([Text(pair.premise, pair.hypothesis) for pair in pairs])


def nli_order(model: Model, labels: str | None = None) -> tuple[int, int, int]:
    """Which outputs mean entailment, neutral, contradiction; CannotDo for a model that is no classifier."""
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


def _with(
    measurement: Measurement, settings: Mapping[str, str], unscored: Mapping[str, int] | None = None
) -> Measurement:
    return replace(
        measurement,
        settings={**measurement.settings, **settings},
        unscored={**measurement.unscored, **(unscored or {})},
    )
