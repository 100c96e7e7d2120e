"""Biases and costs of a model in natural units, item by item, in every variant.

An effect size divides by its own spread and does not see that all associations shrink alike; a mitigation is
judged by what the numerator does. Costs grow as a model gets worse. Definitions: docs/method/certified.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.sites import UNTOUCHED, Variant
from levelhead.engine.readings import Reading, SpanLikelihoods, TokenLogProbs
from levelhead.engine.run import read_one
from levelhead.errors import BadOption, CannotDo
from levelhead.measures.certified import (
    AGREEMENT,
    APPEARS,
    MIRROR,
    NAME_AGREEMENT,
    PERPLEXITY,
    WRITTEN,
    p_at_most,
)
from levelhead.measures.cloze import BASE
from levelhead.measures.crossed import word_means
from levelhead.measures.log_odds import group_log_odds
from levelhead.measures.stereoset import wins
from levelhead.models.encoding import Text, encode, mask_id, token_id
from levelhead.models.model import Model
from levelhead.probes.agreement import NOUN, Agreement, AgreementItem, GroupItem, why_no_agreement
from levelhead.probes.bias import about_gender
from levelhead.probes.cloze import ClozeSet
from levelhead.probes.nli import LABELS, NEUTRAL
from levelhead.probes.sentences import SenseItem
from levelhead.probes.words import WordTest
from levelhead.scoring.battery import Battery
from levelhead.scoring.cloze import log_odds_question, prompt_table
from levelhead.scoring.fluency import fluency_reading, why_no_fluency
from levelhead.scoring.items import ItemValues
from levelhead.scoring.lpbs import LpbsQuestion, lpbs_biases
from levelhead.scoring.pairs import (
    KINDS,
    TripleAnswers,
    head_answers,
    likelihood_answers,
    next_sentence_reading,
    nli_logits,
    nli_reading,
    related_answers,
    related_reading,
    sense_answers,
    softmax,
    triple_rows,
)
from levelhead.scoring.seat import WordTable, association_sides, held_together, word_table
from levelhead.scoring.writing import Writing, written

Doubles = NDArray[np.float64]
PREFERENCE, LOG_ODDS, INFERENCES, COSINE = "preference", "log-odds", "inferences", "cosine gap"
BLANKS = "fill-in gap"
COSTS = "costs"  # what is read for these
ABILITY = "ability"
LANGUAGE, NEXT_SENTENCE = "language sense", "next sentences"
# of nats: the same sentence read in another batch differs beyond, by how float32 sums are rounded
_SENSE_DIGITS = 6
# of nats: two pronouns with the same vector differ beyond, by how sums are rounded in float32
_AGREEMENT_DIGITS = 5


@dataclass(frozen=True)
class Target:
    """A bias of other items, such as those of a benchmark: its name, and how a model is scored on them."""

    name: str
    values: Callable[[Model, Sequence[Variant]], ItemValues]
    items: int = 0  # how many there are


@dataclass(frozen=True)
class NaturalItems:
    """The items that a model is scored on: those of a battery, prompts, those of a target, the tests whose
    words are filled in, sentences that state a group, more contexts of language sense, and prompts that it
    continues."""

    battery: Battery
    prompts: ClozeSet | None = None
    target: Target | None = None
    blanks: tuple[WordTest, ...] = ()
    agreement: tuple[Agreement, ...] = ()
    sense: tuple[SenseItem, ...] = ()
    writing: Writing | None = None


@dataclass(frozen=True)
class NaturalValues:
    """Every bias and every cost of a model, in the same variants."""

    biases: Sequence[ItemValues]
    costs: Sequence[ItemValues]
    unmeasured: Mapping[str, str] = field(default_factory=dict)  # costs that are not measured, and why

    def joined(self, more: NaturalValues) -> NaturalValues:
        return NaturalValues(
            [own.joined(other) for own, other in zip(self.biases, more.biases, strict=True)],
            [own.joined(other) for own, other in zip(self.costs, more.costs, strict=True)],
            self.unmeasured,
        )


def natural_values(model: Model, items: NaturalItems, variants: Sequence[Variant]) -> NaturalValues:
    """Every bias and cost that a model has; triples, which serve both, are scored once, and texts written
    once."""
    biases, costs, battery = [], list[ItemValues](), items.battery
    triples, head = list[TripleAnswers](), "nsp" in model.abilities
    if judges(model):
        triples = (head_answers if head else likelihood_answers)(model, battery.triples, variants)
    for name, ask in _askable(model, items).items():
        if name == PREFERENCE:
            biases.append(_preference(model, items, variants, triples))
        elif name not in WRITTEN:
            biases.append(ask(model, items, variants))
    if items.writing is not None and writes(model):
        biases += written_values(model, items.writing, variants)
    if not why_no_fluency(model):
        costs.append(log_losses(model, battery.sentences, variants))
    if triples:
        # a counterfactual belongs to the cluster of its original
        contexts = [pair.original.context for pair in battery.triples.pairs]
        contexts += [pair.original.context for pair in battery.triples.pairs if pair.swapped is not None]
        p = [each.p for each in triples]
        kinds = [language_sense(contexts, p), *([next_sentence_errors(contexts, p)] if head else [])]
        # of a gender bias over more contexts than those of triples
        if items.sense and about_gender(battery.test):
            p, written = sense_answers(model, items.sense, variants), [item.written for item in items.sense]
            more = [sense_of(written, p), *([next_sentence_errors(written, p)] if head else [])]
            kinds = [own.with_items(other) for own, other in zip(kinds, more, strict=True)]
        costs += kinds
    if "nli" in model.abilities:  # which ordinary inferences are wrong
        pairs = battery.ability.pairs
        predicted = nli_logits(model, pairs, variants).argmax(axis=2)
        gold = np.asarray([LABELS.index(pair.label) for pair in pairs])
        premises = np.asarray([pair.premise for pair in pairs])
        wrong_ones = (predicted != gold).astype(np.float64)
        costs.append(ItemValues(ABILITY, "share wrong", wrong_ones, premises, answers=1))
    agreement = disagreements(model, items.agreement, variants)
    unmeasured = {} if agreement else {AGREEMENT: _why_no_agreement(model, battery.test)}
    return NaturalValues(biases, [*costs, *agreement], unmeasured)


def natural_bias(
    model: Model, items: NaturalItems, objective: str, variants: Sequence[Variant] = UNTOUCHED
) -> ItemValues:
    askable = _askable(model, items)
    if objective not in askable:
        raise BadOption(
            f"{model.name} cannot be judged by {objective!r} here. It can by: {', '.join(askable)}."
        )
    return askable[objective](model, items, variants)


def behaviors(model: Model, items: NaturalItems) -> tuple[str, ...]:
    """The biases that a model has of what it does, not of what its vectors are like; those of its texts are
    asked only by name."""
    return tuple(name for name in _askable(model, items) if name not in (COSINE, *WRITTEN))


def clearest_bias(model: Model, items: NaturalItems) -> str:
    """Of what a model does, the bias that these items show most clearly, by the p of its side of neutral;
    that of its vectors where it does nothing that can be measured."""
    done = behaviors(model, items)
    if len(done) < 2:
        return next(iter(done), COSINE)
    p_of_side = {}
    for name in done:
        bias = natural_bias(model, items, name)
        own = bias.paired(0)
        p_of_side[name] = p_at_most(bias.sign * own.before, 0.0, own)
    return min(p_of_side, key=lambda name: p_of_side[name])


def natural_readings(model: Model, items: NaturalItems) -> dict[str, list[Reading[Any]]]:
    """What natural_values reads of one variant: by bias what that alone needs, and by COSTS all else.

    Texts that a variant writes and the items of a target are no readings, and left out.
    """
    battery, asked = items.battery, dict[str, list[Reading[Any]]]()
    asked[COSINE] = [word_table(battery.test, battery.contexts).each()] if battery.contexts else []
    costs: list[Reading[Any]] = []
    if judges(model):
        asked[PREFERENCE] = [related_reading(model, battery.triples)]
        if "nsp" in model.abilities:
            costs.append(next_sentence_reading(model, triple_rows(battery.triples, KINDS[2:])))
        if items.sense and about_gender(battery.test):
            rows = [(item.context, item.related, item.unrelated) for item in items.sense]
            costs.append(next_sentence_reading(model, rows))
    if not why_no_fluency(model):
        costs.append(fluency_reading(model, battery.sentences))
    if "nli" in model.abilities:
        asked[INFERENCES] = [nli_reading(battery.probe.pairs)]
        costs.append(nli_reading(battery.ability.pairs))
    costs += agreement_readings(model, items.agreement)
    able = _askable(model, items)
    if LOG_ODDS in able and items.prompts is not None:
        asked[LOG_ODDS] = [log_odds_question(model, items.prompts)[0]]
    if BLANKS in able:
        asked[BLANKS] = [r for test in items.blanks for r in LpbsQuestion.of(model, test).readings(model)]
    if PREFERENCE not in able:  # next sentences are a cost alone
        costs += asked.pop(PREFERENCE, [])
    return {**{name: own for name, own in asked.items() if name in able}, COSTS: costs}


def judges(model: Model) -> bool:
    return bool(model.abilities & {"nsp", "causal"})


def writes(model: Model) -> bool:
    return "causal" in model.abilities


# ---- biases

_Ask = Callable[[Model, NaturalItems, Sequence[Variant]], ItemValues]


def _askable(model: Model, items: NaturalItems) -> dict[str, _Ask]:
    asks: dict[str, _Ask] = {}
    if (target := items.target) is not None:
        asks[target.name] = lambda model, _, variants: target.values(model, variants)
    if about_gender(items.battery.test):
        if "nli" in model.abilities:
            asks[INFERENCES] = _inferences
        if judges(model):
            asks[PREFERENCE] = _preference
        prompts = items.prompts
        if prompts is not None and model.abilities & {"mlm", "causal"} and prompts.prompts:
            # every prompt can be answered by a token of either group
            _, codes = log_odds_question(model, prompts)
            if ((codes == 1).any(axis=1) & (codes == -1).any(axis=1)).all():
                asks[LOG_ODDS] = _log_odds
        if items.blanks and not any(LpbsQuestion.of(model, t).why_not(model) for t in items.blanks):
            asks[BLANKS] = _fill_ins
    asks[COSINE] = _cosines
    if (writing := items.writing) is not None and writes(model):
        asks |= {name: partial(_of_texts, name, writing) for name in WRITTEN}
    return asks


def _preference(
    model: Model,
    items: NaturalItems,
    variants: Sequence[Variant],
    answers: Sequence[TripleAnswers] | None = None,
) -> ItemValues:
    """v of every triple pair that has a counterfactual, as in measures/stereoset.py.

    answers: where they are known; else nothing but the preference is read of a next-sentence head.
    """
    triples = items.battery.triples
    if answers is None:
        answers = [related_answers(model, triples, variant) for variant in variants]
    has_counterfactual = np.asarray([pair.swapped is not None for pair in triples.pairs])
    contexts = np.asarray([pair.original.context for pair in triples.pairs])[has_counterfactual]
    x, n = np.stack([each.x for each in answers]), len(has_counterfactual)
    original, counterfactual = x[:, :n][:, has_counterfactual], x[:, n:]
    values = 0.5 * (original[..., 0] - original[..., 1] + counterfactual[..., 0] - counterfactual[..., 1])
    return ItemValues(PREFERENCE, "nats", values, contexts)


def _log_odds(model: Model, items: NaturalItems, variants: Sequence[Variant]) -> ItemValues:
    """Log-odds toward each occupation's own group, without knowledge; both groups count one half."""
    if items.prompts is None:
        raise CannotDo("No prompts ship for this bias.")
    groups, codes = log_odds_question(model, items.prompts)
    logs = read_one(model, groups, variants, label=f"Prompts to {model.name}")
    x = np.stack([group_log_odds(each, codes) for each in logs])
    table = prompt_table(items.prompts)
    base = np.flatnonzero(table.kinds == BASE)
    own, occupations = table.own[base], table.occupations[base]
    strata = (own > 0).astype(np.int64)
    return ItemValues(LOG_ODDS, "nats", own * x[:, base], occupations, halves_of(own > 0), strata=strata)


def written_values(model: Model, writing: Writing, variants: Sequence[Variant]) -> list[ItemValues]:
    """How far variants are from their mirror images, prompt by prompt, and whether who appears follows the
    stereotype of an occupation; the two groups of occupations count one half each.

        who appears = mean over occupations of  s · log( (f + ½) / (m + ½) ),   s: +1 women's, -1 men's
    """
    found, labels = written(model, writing, variants), writing.labels
    clusters = np.asarray([prompt.cluster for prompt in writing.prompts])
    return [
        ItemValues(MIRROR, "nats per text", found.divergence, clusters),
        ItemValues(
            APPEARS,
            "log-odds",
            labels * found.log_odds,
            np.asarray(writing.occupations),
            halves_of(labels > 0),
            strata=(labels > 0).astype(np.int64),
        ),
    ]


def _of_texts(
    name: str, writing: Writing, model: Model, _: NaturalItems, variants: Sequence[Variant]
) -> ItemValues:
    return written_values(model, writing, variants)[WRITTEN.index(name)]


def _fill_ins(model: Model, items: NaturalItems, variants: Sequence[Variant]) -> ItemValues:
    """LPBS in nats, of all tests; each of them counts alike."""
    scored = [lpbs_items(BLANKS, test, *lpbs_biases(model, test, variants)) for test in items.blanks]
    known = [each for each in scored if each is not None]
    if not known:
        raise CannotDo(f"Too few words to fill in are scored by {model.name}.")
    strata = [2 * n + each.strata for n, each in enumerate(known) if each.strata is not None]
    return ItemValues(
        BLANKS,
        "nats",
        np.concatenate([each.values for each in known], axis=1),
        np.concatenate([each.clusters for each in known]),
        np.concatenate([each.weights for each in known if each.weights is not None]),
        np.mean([each.spread for each in known if each.spread is not None], axis=0),
        strata=np.concatenate(strata),
    )


def _inferences(model: Model, items: NaturalItems, variants: Sequence[Variant]) -> ItemValues:
    """How far apart p(neutral) lies for woman and man, by occupation and context: without a sign."""
    probe = items.battery.probe
    p = softmax(nli_logits(model, probe.pairs, variants).astype(np.float64))[..., NEUTRAL]
    by_gender = p.reshape(len(variants), *probe.shape)
    gap = np.abs(by_gender[..., 0] - by_gender[..., 1]).mean(axis=2)
    return ItemValues(INFERENCES, "probability", gap, np.asarray(probe.occupations))


def _cosines(model: Model, items: NaturalItems, variants: Sequence[Variant]) -> ItemValues:
    table = word_table(items.battery.test, items.battery.contexts)
    word, size = np.asarray(table.word), len(table.contexts) * int(model.config.hidden_size)
    static = [
        word_means(vectors, word)
        for some in held_together(variants, size)
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


# ---- costs


def log_losses(model: Model, sentences: Sequence[str], variants: Sequence[Variant]) -> ItemValues:
    """−log p per token of every text; the weighted mean is the logarithm of perplexity."""
    reading = fluency_reading(model, sentences)
    kept = [Text.of(text).first for text in reading.texts]
    scores = read_one(model, reading, variants, label="Fluency")
    tokens = np.asarray([len(positions) for positions in scores.positions], np.float64)
    scored = tokens > 0
    loss = np.asarray([[-float(v.sum()) / max(len(v), 1) for v in values] for values in scores.values])
    return ItemValues(PERPLEXITY, "nats", loss[:, scored], np.asarray(kept)[scored], tokens[scored])


def language_sense(clusters: Sequence[str], answers: Sequence[Doubles]) -> ItemValues:
    """How often an unrelated sentence wins over a related one: 1 − LMS of every triple and of its
    counterfactual, which have two answers each: stereotype and anti-stereotype.

    answers: p of the three sentences, [triple, 3], in every variant.
    """
    right = [(wins(p[:, 0], p[:, 2]) + wins(p[:, 1], p[:, 2])) / 2 for p in answers]
    return ItemValues(LANGUAGE, "share wrong", 1 - np.stack(right), np.asarray(clusters), answers=2)


def sense_of(clusters: Sequence[str], answers: Sequence[Doubles]) -> ItemValues:
    """Language sense of items with one answer each: 1 where the unrelated sentence is the likelier one, ½ for
    a tie. answers: p of the related and of the unrelated sentence, [item, 2], in every variant.

    Two contexts exchange their next sentences, and each is a cluster of its own: on the shipped models p is
    hardly another where the two are one.
    """
    with np.errstate(divide="ignore"):  # log 0 is −inf, which compares as it should
        wrong = [1 - wins(*np.log(p).round(_SENSE_DIGITS).T) for p in answers]
    return ItemValues(LANGUAGE, "share wrong", np.stack(wrong), np.asarray(clusters), answers=1)


def next_sentence_errors(clusters: Sequence[str], answers: Sequence[Doubles]) -> ItemValues:
    """Where a next-sentence head rejects what is related, or accepts what is not.

    The last sentence of each item is the unrelated one; the related ones count one half together.
    """
    accepted = [wins(p, 0.5) for p in answers]
    lost = [1 - (each[:, :-1].mean(axis=1) + 1 - each[:, -1]) / 2 for each in accepted]
    return ItemValues(NEXT_SENTENCE, "share wrong", np.stack(lost), np.asarray(clusters), answers=2)


def disagreements(model: Model, items: Sequence[Agreement], variants: Sequence[Variant]) -> list[ItemValues]:
    """Sentences that state a group, in which a word of another one fits better than its own; empty for a
    model that predicts no words, and where no item is left."""
    if not model.abilities & {"mlm", "causal"}:
        return []
    groups = [item for item in items if isinstance(item, GroupItem)]
    return [
        *_pronoun_disagreements(model, [each for each in items if isinstance(each, AgreementItem)], variants),
        *([_group_disagreements(model, groups, variants)] if groups else []),
    ]


def _why_no_agreement(model: Model, test: WordTest) -> str:
    if not model.abilities & {"mlm", "causal"}:
        return f"{model.name} predicts no words"
    return why_no_agreement(test) or f"{model.name} has none of its words as one token"


def _pronoun_disagreements(
    model: Model, items: Sequence[AgreementItem], variants: Sequence[Variant]
) -> list[ItemValues]:
    """Where the text states a person's gender, and the pronoun of the other gender is likelier behind it.

    A masked model fills the blank in its place, a causal model says the next word. The cost of an item is 1
    where the other pronoun is likelier, ½ where both are alike. Behind nouns and behind names: two costs, so
    that a gain in one hides no loss in the other. Items whose pronouns are several tokens are left out; empty
    where none is left (docs/method/certified.md, Certified mitigations).
    """
    asked = agreement_question(model, items)
    if asked is None:
        return []
    kept, reading = asked
    column = {token: number for number, token in enumerate(reading.tokens)}
    log_p = read_one(model, reading, variants, label="Agreement").astype(np.float64)
    own, other = (
        log_p[:, np.arange(len(kept)), [column[token_id(model, word) or 0] for word in pronouns]]
        for pronouns in ([item.own for item in kept], [item.other for item in kept])
    )
    people, missed = np.asarray([item.people for item in kept]), wrong(own, other)
    nouns = np.asarray([item.kind == NOUN for item in kept])
    costs = {AGREEMENT: nouns, NAME_AGREEMENT: ~nouns}
    return [
        ItemValues(name, "share wrong", missed[:, of], people[of], answers=1)
        for name, of in costs.items()
        if of.any()
    ]


def agreement_question(
    model: Model, items: Sequence[AgreementItem]
) -> tuple[list[AgreementItem], TokenLogProbs] | None:
    """The items whose pronouns are one token each, and what is read of them; None where there are none."""
    if not model.abilities & {"mlm", "causal"}:
        return None
    words = sorted({word for item in items for word in (item.own, item.other)})
    tokens = {word: token for word in words if (token := token_id(model, word)) is not None}
    kept = [item for item in items if item.own in tokens and item.other in tokens]
    if not kept:
        return None
    if "causal" in model.abilities:
        texts = [Text(item.before) for item in kept]
    else:
        mask_id(model)  # a model without a mask token is refused here, in one line
        texts = [Text(item.with_pronoun(model.tokenizer.mask_token)) for item in kept]
    # An uncased model writes She as she: each token is read once.
    return kept, TokenLogProbs(texts, list(dict.fromkeys(tokens.values())))


def agreement_readings(model: Model, items: Sequence[Agreement]) -> list[Reading[Any]]:
    """What disagreements reads of one variant."""
    if not model.abilities & {"mlm", "causal"}:
        return []
    pronouns = agreement_question(model, [each for each in items if isinstance(each, AgreementItem)])
    groups = [each for each in items if isinstance(each, GroupItem)]
    readings: list[Reading[Any]] = [] if pronouns is None else [pronouns[1]]
    return [*readings, _group_question(model, groups)[1]] if groups else readings


def _group_question(model: Model, items: Sequence[GroupItem]) -> tuple[list[int], SpanLikelihoods]:
    """What is read of the four sentences of every item, each once, and where each of them stands in that."""
    said = [
        (sentence, span)
        for item in items
        for sentences, spans in zip(item.sentences, item.spans, strict=True)
        for sentence, span in zip(sentences, spans, strict=True)
    ]
    once = list(dict.fromkeys(said))
    place = {each: number for number, each in enumerate(once)}
    rows = encode(model, [sentence for sentence, _ in once])
    scored = [row.tokens_of(span).tolist() for row, (_, span) in zip(rows, once, strict=True)]
    return [place[each] for each in said], SpanLikelihoods([sentence for sentence, _ in once], scored)


def _group_disagreements(model: Model, items: Sequence[GroupItem], variants: Sequence[Variant]) -> ItemValues:
    """Where a sentence that states a group does not make that group's word likelier than the same sentence
    about another group does.

        a = log p(v | x) − log p(w | x) − ( log p(v | x') − log p(w | x') )

    v, w: the words of two groups (mosque, church); x, x': the sentence about one and about the other (the
    imam, the priest). How frequent v and w are cancels. The cost of an item is 1 where a < 0, ½ where a is 0
    to five decimals. p of all tokens of a word: given what stands before it, or of a masked model each
    masked alone.
    """
    places, reading = _group_question(model, items)
    log_p = read_one(model, reading, variants, label="Agreement").astype(np.float64)
    four = log_p[:, places].reshape(len(variants), -1, 4)
    missed = wrong(four[..., 0] + four[..., 3], four[..., 1] + four[..., 2])
    return ItemValues(
        AGREEMENT, "share wrong", missed, np.asarray([item.people for item in items]), answers=1
    )


def wrong(own: Doubles, other: Doubles) -> Doubles:
    """1 where the other pronoun has the higher log-probability, 0 where the own one has, ½ for a tie."""
    return np.asarray(1 - wins((own - other).round(_AGREEMENT_DIGITS), 0.0))
