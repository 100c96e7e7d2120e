"""Biases and costs of a model in natural units, item by item, in every variant.

An effect size divides by its own spread and does not see that all associations shrink alike; a mitigation is
judged by what the numerator does: nats of preference and of log-odds, differences of cosines, differences of
probability. Costs grow as a model gets worse: nats per token, shares of wrong answers.
Definitions: docs/method.md, Certified mitigations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.sites import UNTOUCHED, Variant
from levelhead.engine.readings import TokenLikelihoods
from levelhead.engine.run import read_one
from levelhead.errors import BadOption, CannotDo
from levelhead.measures.certified import PERPLEXITY, PairedItems
from levelhead.measures.cloze.prompt_table import BASE
from levelhead.measures.stereoset import wins
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender
from levelhead.probes.cloze import ClozeSet
from levelhead.probes.nli.labels import LABELS, NEUTRAL
from levelhead.probes.triples import TripleSet
from levelhead.scoring.battery import Battery
from levelhead.scoring.cloze import ask_log_odds
from levelhead.scoring.fluency import why_no_fluency
from levelhead.scoring.next_sentences import TripleAnswers, head_answers, likelihood_answers, softmax
from levelhead.scoring.pairs import nli_logits
from levelhead.scoring.seat import association_sides
from levelhead.scoring.word_table import WordTable, fitting, word_table

Doubles = NDArray[np.float64]
PREFERENCE, LOG_ODDS, INFERENCES, COSINE = "preference", "log-odds", "inferences", "cosine gap"
LANGUAGE, NEXT_SENTENCE, ABILITY = "language sense", "next sentences", "ability"


@dataclass(frozen=True, eq=False)
class ItemValues:
    """One quantity of the same items in every variant; the first variant is the unmodified model."""

    name: str
    unit: str
    values: Doubles  # [variant, item]
    clusters: NDArray[np.str_]  # [item]
    weights: Doubles | None = None  # [item]

    def paired(self, variant: int) -> PairedItems:
        """What a variant does to every item."""
        return PairedItems(
            self.name, self.unit, self.values[0], self.values[variant], self.clusters, self.weights
        )


@dataclass(frozen=True)
class NaturalItems:
    """The items that a model is asked about: those of a battery, and prompts."""

    battery: Battery
    prompts: ClozeSet | None = None


def natural_biases(model: Model, items: NaturalItems, variants: Sequence[Variant]) -> list[ItemValues]:
    """Every bias of the list that a model can be asked for."""
    return [ask(model, items, variants) for ask in _askable(model, items).values()]


def natural_bias(
    model: Model, items: NaturalItems, objective: str = "", variants: Sequence[Variant] = UNTOUCHED
) -> ItemValues:
    """One bias in every variant: the objective, or what a model does before what its vectors are like."""
    askable = _askable(model, items)
    if objective and objective not in askable:
        raise BadOption(
            f"{model.name} cannot be judged by {objective!r} here. It can by: {', '.join(askable)}."
        )
    return askable[objective or next(iter(askable))](model, items, variants)


_Ask = Callable[[Model, NaturalItems, Sequence[Variant]], ItemValues]


def _askable(model: Model, items: NaturalItems) -> dict[str, _Ask]:
    asks: dict[str, _Ask] = {}
    if about_gender(items.battery.test):
        if "nli" in model.abilities:
            asks[INFERENCES] = _inferences
        if model.abilities & {"nsp", "causal"}:
            asks[PREFERENCE] = _preference
        if items.prompts is not None and model.abilities & {"mlm", "causal"}:
            asks[LOG_ODDS] = _log_odds
    return {**asks, COSINE: _cosines}


def natural_costs(model: Model, items: NaturalItems, variants: Sequence[Variant]) -> list[ItemValues]:
    """Every ability that a model has, as what it loses."""
    battery, asked = items.battery, []
    if not why_no_fluency(model):
        asked.append(log_losses(model, battery.sentences, variants))
    if model.abilities & {"nsp", "causal"}:
        asked += _related(model, battery.triples, variants)
    if "nli" in model.abilities:
        asked.append(_ability(model, battery, variants))
    return asked


def _triple_answers(model: Model, triples: TripleSet, variants: Sequence[Variant]) -> list[TripleAnswers]:
    ask = head_answers if "nsp" in model.abilities else likelihood_answers
    return ask(model, triples, variants)


def _preference(model: Model, items: NaturalItems, variants: Sequence[Variant]) -> ItemValues:
    """v of every triple pair that has a twin, as in measures/preference.py."""
    triples = items.battery.triples
    answers = _triple_answers(model, triples, variants)
    has_twin = np.asarray([pair.swapped is not None for pair in triples.pairs])
    contexts = np.asarray([pair.original.context for pair in triples.pairs])[has_twin]
    values = []
    for each in answers:
        original, twin = each.x[: len(has_twin)][has_twin], each.x[len(has_twin) :]
        values.append(0.5 * (original[:, 0] - original[:, 1] + twin[:, 0] - twin[:, 1]))
    return ItemValues(PREFERENCE, "nats", np.stack(values), contexts)


def _log_odds(model: Model, items: NaturalItems, variants: Sequence[Variant]) -> ItemValues:
    """Log-odds toward each occupation's own group, without knowledge; both groups count one half."""
    if items.prompts is None:
        raise CannotDo("No prompts ship for this bias.")
    table, x = ask_log_odds(model, items.prompts, variants)
    base = np.flatnonzero(table.kinds == BASE)
    own = table.own[base]
    return ItemValues(LOG_ODDS, "nats", own * x[:, base], table.occupations[base], halves_of(own > 0))


def _inferences(model: Model, items: NaturalItems, variants: Sequence[Variant]) -> ItemValues:
    """How far apart p(neutral) lies for woman and man, by occupation and context: without a sign."""
    battery = items.battery
    p = softmax(nli_logits(model, battery.probe.pairs, variants).astype(np.float64))[..., NEUTRAL]
    by_gender = p.reshape(len(variants), *battery.probe.shape)
    gap = np.abs(by_gender[..., 0] - by_gender[..., 1]).mean(axis=2)
    return ItemValues(INFERENCES, "probability", gap, np.asarray(battery.probe.occupations))


def _cosines(model: Model, items: NaturalItems, variants: Sequence[Variant]) -> ItemValues:
    """s(x) and −s(y), doubled: their balanced mean is the numerator of SEAT, mean s(x) − mean s(y)."""
    table = word_table(items.battery.test, items.battery.contexts)
    return cosine_values(read_one(model, table.static(), variants, label="Cosines"), table)


def cosine_values(static: Doubles, table: WordTable) -> ItemValues:
    """The same from the words' vectors, [variant, word, hidden]."""
    sides = [association_sides(vectors, table) for vectors in static]
    in_x = np.repeat([True, False], [len(sides[0][0]), len(sides[0][1])])
    values = np.stack([np.concatenate([2 * s_x, -2 * s_y]) for s_x, s_y in sides])
    words = [table.words[i] for group in "XY" for i in table.sets[group]]
    return ItemValues(COSINE, "cosine", values, np.asarray(words), halves_of(in_x))


def halves_of(first: NDArray[np.bool_]) -> Doubles:
    """Weights by which two groups of items count one half each."""
    counts = np.where(first, first.sum(), (~first).sum())
    return np.asarray(1.0 / counts, np.float64)


def log_losses(model: Model, sentences: Sequence[str], variants: Sequence[Variant]) -> ItemValues:
    """−log p per token of every text; the weighted mean is the logarithm of perplexity."""
    kept = [text for text, fits in zip(sentences, fitting(model, sentences), strict=True) if fits]
    scores = read_one(model, TokenLikelihoods([Text(t) for t in kept]), variants, label="Fluency")
    tokens = np.asarray([len(positions) for positions in scores.positions], np.float64)
    scored = tokens > 0
    loss = np.asarray([[-float(v.sum()) / max(len(v), 1) for v in values] for values in scores.values])
    return ItemValues(PERPLEXITY, "nats", loss[:, scored], np.asarray(kept)[scored], tokens[scored])


def _related(model: Model, triples: TripleSet, variants: Sequence[Variant]) -> list[ItemValues]:
    """Where an unrelated sentence wins (1 − LMS), and where a next-sentence head errs."""
    answers = _triple_answers(model, triples, variants)
    contexts = np.asarray([pair.original.context for pair in triples.pairs])
    wrong, lost = [], []
    for each in answers:
        stereo, anti, unrelated = each.p[: len(contexts)].T
        wrong.append(1 - (wins(stereo, unrelated) + wins(anti, unrelated)) / 2)
        accepted, rejected = (wins(stereo, 0.5) + wins(anti, 0.5)) / 2, 1 - wins(unrelated, 0.5)
        lost.append(1 - (accepted + rejected) / 2)
    kinds = [ItemValues(LANGUAGE, "share wrong", np.stack(wrong), contexts)]
    if "nsp" in model.abilities:
        kinds.append(ItemValues(NEXT_SENTENCE, "share wrong", np.stack(lost), contexts))
    return kinds


def _ability(model: Model, battery: Battery, variants: Sequence[Variant]) -> ItemValues:
    """Which ordinary inferences are wrong."""
    pairs = battery.ability.pairs
    predicted = nli_logits(model, pairs, variants).argmax(axis=2)
    gold = np.asarray([LABELS.index(pair.label) for pair in pairs])
    wrong = (predicted != gold).astype(np.float64)
    return ItemValues(ABILITY, "share wrong", wrong, np.asarray([pair.premise for pair in pairs]))
