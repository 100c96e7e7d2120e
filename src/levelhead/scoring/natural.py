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
from levelhead.engine.run import read_one
from levelhead.errors import BadOption, CannotDo
from levelhead.measures.certified import PERPLEXITY, p_at_most
from levelhead.measures.cloze.prompt_table import BASE
from levelhead.measures.seat_effect import word_means
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.probes.agreement import AgreementItem
from levelhead.probes.bias import about_gender
from levelhead.probes.cloze import ClozeSet
from levelhead.probes.nli.labels import LABELS, NEUTRAL
from levelhead.probes.sense import SenseItem
from levelhead.probes.triples import TripleSet
from levelhead.probes.words import WordTest
from levelhead.scoring.agreement import disagreements
from levelhead.scoring.battery import Battery
from levelhead.scoring.cloze import ask_log_odds, log_odds_question
from levelhead.scoring.fluency import fluency_reading, why_no_fluency
from levelhead.scoring.item_values import Doubles, ItemValues
from levelhead.scoring.lpbs import lpbs_biases, why_no_lpbs
from levelhead.scoring.next_sentences import (
    TripleAnswers,
    head_answers,
    likelihood_answers,
    related_answers,
    sense_answers,
    softmax,
)
from levelhead.scoring.pairs import nli_logits
from levelhead.scoring.seat import association_sides, turns
from levelhead.scoring.sense import language_sense, next_sentence_errors, sense_errors, sense_of
from levelhead.scoring.word_table import WordTable, word_table

PREFERENCE, LOG_ODDS, INFERENCES, COSINE = "preference", "log-odds", "inferences", "cosine gap"
BLANKS = "fill-in gap"
ABILITY = "ability"


@dataclass(frozen=True)
class Target:
    """A bias of other items, such as those of a benchmark: its name, and how a model is asked about them."""

    name: str
    values: Callable[[Model, Sequence[Variant]], ItemValues]
    items: int = 0  # how many there are


@dataclass(frozen=True)
class NaturalItems:
    """The items that a model is asked about: those of a battery, prompts, those of a target, the tests whose
    words are filled in, sentences that state a gender, and more contexts of language sense."""

    battery: Battery
    prompts: ClozeSet | None = None
    target: Target | None = None
    blanks: tuple[WordTest, ...] = ()
    agreement: tuple[AgreementItem, ...] = ()
    sense: tuple[SenseItem, ...] = ()


@dataclass(frozen=True)
class NaturalValues:
    """Every bias and every cost that a model can be asked for, in the same variants."""

    biases: Sequence[ItemValues]
    costs: Sequence[ItemValues]

    def joined(self, more: NaturalValues) -> NaturalValues:
        """The same items in more variants."""
        return NaturalValues(
            [own.joined(other) for own, other in zip(self.biases, more.biases, strict=True)],
            [own.joined(other) for own, other in zip(self.costs, more.costs, strict=True)],
        )


def natural_values(model: Model, items: NaturalItems, variants: Sequence[Variant]) -> NaturalValues:
    """Ask a model everything that it can be asked; triples, which serve both, are asked once."""
    biases, battery = [], items.battery
    triples = _triple_answers(model, battery.triples, variants) if judges(model) else []
    for name, ask in _askable(model, items).items():
        if name == PREFERENCE:
            biases.append(_preferences(battery.triples, triples))
        else:
            biases.append(ask(model, items, variants))
    costs = []
    if not why_no_fluency(model):
        costs.append(log_losses(model, battery.sentences, variants))
    if triples:
        costs += _related(model, items, triples, variants)
    if "nli" in model.abilities:
        costs.append(_ability(model, battery, variants))
    if about_gender(battery.test):
        costs += disagreements(model, items.agreement, variants)
    return NaturalValues(biases, costs)


def natural_bias(
    model: Model, items: NaturalItems, objective: str, variants: Sequence[Variant] = UNTOUCHED
) -> ItemValues:
    """One bias in every variant."""
    askable = _askable(model, items)
    if objective not in askable:
        raise BadOption(
            f"{model.name} cannot be judged by {objective!r} here. It can by: {', '.join(askable)}."
        )
    return askable[objective](model, items, variants)


def behaviors(model: Model, items: NaturalItems) -> tuple[str, ...]:
    """The biases of what a model does, not of what its vectors are like, that it can be asked for."""
    return tuple(name for name in askable_biases(model, items) if name != COSINE)


def clearest_bias(model: Model, items: NaturalItems) -> str:
    """Of what a model does, the bias that these items show most clearly, by the p of its side of neutral;
    that of its vectors where it does nothing that can be asked for."""
    done = behaviors(model, items)
    if len(done) < 2:
        return next(iter(done), COSINE)
    return min(done, key=lambda name: _p_of_side(natural_bias(model, items, name)))


def _p_of_side(bias: ItemValues) -> float:
    items = bias.paired(0)
    return p_at_most(bias.sign * items.before, 0.0, items)


def askable_biases(model: Model, items: NaturalItems) -> tuple[str, ...]:
    """The names of the biases that a model can be asked for, behavior before vectors."""
    return tuple(_askable(model, items))


_Ask = Callable[[Model, NaturalItems, Sequence[Variant]], ItemValues]


def _askable(model: Model, items: NaturalItems) -> dict[str, _Ask]:
    asks: dict[str, _Ask] = {} if items.target is None else {items.target.name: _target}
    if about_gender(items.battery.test):
        if "nli" in model.abilities:
            asks[INFERENCES] = _inferences
        if judges(model):
            asks[PREFERENCE] = _preference
        if items.prompts is not None and _has_odds(model, items.prompts):
            asks[LOG_ODDS] = _log_odds
        if items.blanks and not any(why_no_lpbs(model, test) for test in items.blanks):
            asks[BLANKS] = _fill_ins
    return {**asks, COSINE: _cosines}


def _target(model: Model, items: NaturalItems, variants: Sequence[Variant]) -> ItemValues:
    if items.target is None:
        raise CannotDo("No benchmark is the target here.")
    return items.target.values(model, variants)


def _has_odds(model: Model, prompts: ClozeSet) -> bool:
    """Whether every prompt can be answered by a token of either group."""
    if not model.abilities & {"mlm", "causal"} or not prompts.prompts:
        return False
    _, codes = log_odds_question(model, prompts)
    return bool(((codes == 1).any(axis=1) & (codes == -1).any(axis=1)).all())


def judges(model: Model) -> bool:
    """Whether it can say which sentence comes next."""
    return bool(model.abilities & {"nsp", "causal"})


def _triple_answers(model: Model, triples: TripleSet, variants: Sequence[Variant]) -> list[TripleAnswers]:
    ask = head_answers if "nsp" in model.abilities else likelihood_answers
    return ask(model, triples, variants)


def _preference(model: Model, items: NaturalItems, variants: Sequence[Variant]) -> ItemValues:
    """The preference alone: of a next-sentence head nothing else is asked."""
    triples = items.battery.triples
    return _preferences(triples, [related_answers(model, triples, variant) for variant in variants])


def _preferences(triples: TripleSet, answers: Sequence[TripleAnswers]) -> ItemValues:
    """v of every triple pair that has a twin, as in measures/preference.py."""
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
    return ItemValues(
        LOG_ODDS,
        "nats",
        own * x[:, base],
        table.occupations[base],
        halves_of(own > 0),
        strata=(own > 0).astype(np.int64),
    )


def _fill_ins(model: Model, items: NaturalItems, variants: Sequence[Variant]) -> ItemValues:
    """LPBS in nats, of all tests; each of them counts alike."""
    asked = [lpbs_items(BLANKS, test, *lpbs_biases(model, test, variants)) for test in items.blanks]
    known = [each for each in asked if each is not None]
    if not known:
        raise CannotDo(f"Too few words to fill in are scored by {model.name}.")
    return ItemValues(
        BLANKS,
        "nats",
        np.concatenate([each.values for each in known], axis=1),
        np.concatenate([each.clusters for each in known]),
        np.concatenate([each.weights for each in known if each.weights is not None]),
        np.mean([each.spread for each in known if each.spread is not None], axis=0),
        strata=np.concatenate(
            [2 * n + each.strata for n, each in enumerate(known) if each.strata is not None]
        ),
    )


def _inferences(model: Model, items: NaturalItems, variants: Sequence[Variant]) -> ItemValues:
    """How far apart p(neutral) lies for woman and man, by occupation and context: without a sign."""
    battery = items.battery
    p = softmax(nli_logits(model, battery.probe.pairs, variants).astype(np.float64))[..., NEUTRAL]
    by_gender = p.reshape(len(variants), *battery.probe.shape)
    gap = np.abs(by_gender[..., 0] - by_gender[..., 1]).mean(axis=2)
    return ItemValues(INFERENCES, "probability", gap, np.asarray(battery.probe.occupations))


def _cosines(model: Model, items: NaturalItems, variants: Sequence[Variant]) -> ItemValues:
    table = word_table(items.battery.test, items.battery.contexts)
    word, size = np.asarray(table.word), len(table.contexts) * int(model.config.hidden_size)
    static = [
        word_means(vectors, word)
        for some in turns(variants, size)
        for vectors in read_one(model, table.each(), some, label="Cosines")
    ]
    return cosine_values(np.stack(static), table)


def cosine_values(static: Doubles, table: WordTable) -> ItemValues:
    """s(x) and −s(y), doubled: their balanced mean is the numerator of SEAT, mean s(x) − mean s(y).

    static: the words' vectors, [variant, word, hidden].
    """
    sides = [association_sides(vectors, table) for vectors in static]
    words = [table.words[i] for group in "XY" for i in table.sets[group]]
    return two_sided(COSINE, "cosine", sides, words)


def two_sided(
    name: str, unit: str, sides: Sequence[tuple[Doubles, Doubles]], words: Sequence[str]
) -> ItemValues:
    """Values of the words of X and of Y in every variant, whose mean is mean of X − mean of Y; an effect size
    divides it by the spread of all of them."""
    in_x = np.repeat([True, False], [len(sides[0][0]), len(sides[0][1])])
    values = np.stack([np.concatenate([2 * x, -2 * y]) for x, y in sides])
    spread = np.asarray([np.concatenate(side).std(ddof=1) for side in sides])
    return ItemValues(
        name, unit, values, np.asarray(words), halves_of(in_x), spread, strata=in_x.astype(np.int64)
    )


def lpbs_items(
    name: str, test: WordTest, targets: Sequence[str], biases: Sequence[Doubles]
) -> ItemValues | None:
    """LPBS of a test in nats from the bias of every target in every variant (lpbs_biases); None where fewer
    than two targets of either side are scored."""
    in_x, scored = np.isin(targets, test.X), np.isfinite(biases).all(axis=0)
    x, y = in_x & scored, ~in_x & scored
    if min(x.sum(), y.sum()) < 2:
        return None
    words = [*np.asarray(targets)[x], *np.asarray(targets)[y]]
    return two_sided(name, "nats", [(own[x], own[y]) for own in biases], words)


def halves_of(first: NDArray[np.bool_]) -> Doubles:
    """Weights by which two groups of items count one half each."""
    counts = np.where(first, first.sum(), (~first).sum())
    return np.asarray(1.0 / counts, np.float64)


def log_losses(model: Model, sentences: Sequence[str], variants: Sequence[Variant]) -> ItemValues:
    """−log p per token of every text; the weighted mean is the logarithm of perplexity."""
    reading = fluency_reading(model, sentences)
    kept = [Text.of(text).first for text in reading.texts]
    scores = read_one(model, reading, variants, label="Fluency")
    tokens = np.asarray([len(positions) for positions in scores.positions], np.float64)
    scored = tokens > 0
    loss = np.asarray([[-float(v.sum()) / max(len(v), 1) for v in values] for values in scores.values])
    return ItemValues(PERPLEXITY, "nats", loss[:, scored], np.asarray(kept)[scored], tokens[scored])


def _related(
    model: Model, items: NaturalItems, answers: Sequence[TripleAnswers], variants: Sequence[Variant]
) -> list[ItemValues]:
    """Language sense, and errors of a next-sentence head; of a gender bias over more contexts than those of
    triples."""
    triples, head = items.battery.triples, "nsp" in model.abilities
    kinds = [language_sense(triples, answers), *([next_sentence_errors(triples, answers)] if head else [])]
    if not items.sense or not about_gender(items.battery.test):
        return kinds
    p = sense_answers(model, items.sense, variants)
    more = [sense_of(items.sense, p), *([sense_errors(items.sense, p)] if head else [])]
    return [own.with_items(other) for own, other in zip(kinds, more, strict=True)]


def _ability(model: Model, battery: Battery, variants: Sequence[Variant]) -> ItemValues:
    """Which ordinary inferences are wrong."""
    pairs = battery.ability.pairs
    predicted = nli_logits(model, pairs, variants).argmax(axis=2)
    gold = np.asarray([LABELS.index(pair.label) for pair in pairs])
    wrong = (predicted != gold).astype(np.float64)
    premises = np.asarray([pair.premise for pair in pairs])
    return ItemValues(ABILITY, "share wrong", wrong, premises, answers=1)
