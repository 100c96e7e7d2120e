"""Agreement: what the definition says, what a gender-blind model loses, who is not asked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import pytest
import torch

from levelhead.edits.output import Reweighted, Symmetrized
from levelhead.engine.readings import SpanLikelihoods
from levelhead.engine.run import read_one
from levelhead.measures.certified import AGREEMENT, NAME_AGREEMENT, p_at_most, p_of_cost
from levelhead.models.encoding import encode, token_id
from levelhead.models.model import Model, load
from levelhead.models.null_model import draw_null_model, null_model_copy
from levelhead.probes.agreement import (
    NAME,
    NOUN,
    AgreementItem,
    agreement_for,
    agreement_items,
    group_items,
)
from levelhead.probes.bias import swap_for
from levelhead.probes.contexts import template_contexts
from levelhead.probes.group_swap import GenderSwap, RowSwap
from levelhead.probes.nli import ability_pairs
from levelhead.probes.swap import name_pairs
from levelhead.probes.words import load_words
from levelhead.scoring.battery import Battery
from levelhead.scoring.items import ItemValues
from levelhead.scoring.natural import NaturalItems, disagreements, natural_values, wrong
from tests.tiny import given, tiny

EVERY = agreement_items()
ITEMS = [item for item in EVERY if item.kind == NOUN]
NAMED = [item for item in EVERY if item.kind != NOUN]
FAITHS = group_items()["religion"]
SHE = [item for item in ITEMS if {item.own, item.other} == {"she", "he"}]
PRONOUNS = (("she", "he"), ("her", "his"), ("herself", "himself"))


def asked(
    model: Model, items: Sequence[AgreementItem] = ITEMS, *variants: Reweighted | Symmetrized
) -> ItemValues:
    """The values of the unmodified model and of one variant after the other, of items of one kind."""
    (values,) = disagreements(model, items, [(), *((each,) for each in variants)])
    return values


def blind(model: Model) -> Reweighted:
    """Other weights, in which both pronouns of a pair have one vector and one bias, the mean of theirs."""
    vocabulary = len(model.tokenizer)
    changed = {n: p.detach().clone() for n, p in model.hf.named_parameters() if p.shape[0] == vocabulary}
    for pair in PRONOUNS:
        tokens = [token_id(model, word) for word in pair]
        if None not in tokens:
            for values in changed.values():
                values[tokens] = values[tokens].mean(dim=0)
    return Reweighted("blind", changed)


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_an_item_is_wrong_where_the_other_pronoun_is_likelier(family: str) -> None:
    """One sentence after the other, by the model's own forward pass."""
    model, some = tiny(family), SHE[:12]
    expected = []
    for item in some:
        masked = "mlm" in model.abilities
        inputs = given(model, item.with_pronoun("[MASK]") if masked else item.before)
        with torch.no_grad():
            logits = model.hf(**inputs).logits[0]
        place = int((inputs["input_ids"][0] == model.tokenizer.mask_token_id).nonzero()) if masked else -1
        own, other = (float(logits[place, token_id(model, word)]) for word in (item.own, item.other))
        expected.append(float(other > own))
    values = asked(model, some)
    assert (values.name, values.unit) == (AGREEMENT, "share wrong")
    assert values.values[0].tolist() == expected
    assert 0 < sum(expected) < len(expected)
    assert values.clusters.tolist() == [item.people for item in some]


def test_a_tie_is_half_wrong_and_rounding_is_a_tie() -> None:
    own, other = np.log([[0.4, 0.1, 0.2, 0.2]]), np.log([[0.1, 0.4, 0.2, 0.2 * (1 + 1e-7)]])
    assert wrong(own, other).tolist() == [[0.0, 1.0, 0.5, 0.5]]
    assert (wrong(other, own) == 1 - wrong(own, other)).all()


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_model_with_one_vector_for_she_and_he_is_wrong_in_half_of_all_items(family: str) -> None:
    model = tiny(family)
    values = asked(model, ITEMS, blind(model)).values
    assert (values[1] == 0.5).all()
    assert not (values[0] == 0.5).any()


def test_a_symmetrized_model_is_wrong_about_both_genders_alike() -> None:
    values = asked(tiny("bert"), SHE, Symmetrized(GenderSwap()))
    feminine, masculine = values.values[1, ::2], values.values[1, 1::2]
    assert (feminine == masculine).all()
    assert (values.values[0, ::2] != values.values[0, 1::2]).any()


def test_a_variant_that_changes_nothing_costs_nothing() -> None:
    (values,) = disagreements(tiny("bert"), SHE, [(), ()])
    assert values.paired(1).change == 0


def test_pronouns_of_several_tokens_and_models_that_predict_no_words_are_not_asked() -> None:
    own = asked(tiny("bert"))
    assert own.values.shape == (1, len(SHE))  # its vocabulary has neither his nor herself
    assert disagreements(tiny("roberta"), ITEMS, [()]) == []  # nor this one she
    assert disagreements(tiny("bert", "nli"), ITEMS, [()]) == []
    assert disagreements(tiny("bert"), (), [()]) == []


def test_nouns_and_names_are_two_costs() -> None:
    values = disagreements(tiny("bert"), EVERY, [()])
    assert [each.name for each in values] == [AGREEMENT, NAME_AGREEMENT]
    assert [each.answers for each in values] == [1, 1]
    assert not {*values[0].clusters} & {*values[1].clusters}


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["lh:bert-mini", "lh:gpt-mini"])
def test_a_symmetrized_model_without_names_fails_agreement_and_one_with_names_passes(name: str) -> None:
    model = load(name)
    blind_to_names, knows = Symmetrized(GenderSwap(names=False)), Symmetrized(GenderSwap())
    values = asked(model, NAMED, blind_to_names, knows)
    own, without, with_names = values.values.mean(axis=1)
    assert with_names < own < 0.3 < 0.4 < without
    p_without, p_with = (p_of_cost(values.paired(number), 0.02) for number in (1, 2))
    assert p_with < 0.05 < 0.95 < p_without


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["lh:bert-mini", "lh:gpt-mini"])
def test_names_in_no_table_keep_the_gender_that_the_model_takes_them_to_have(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {each for pair in name_pairs() for each in pair}
    strange = [item for item in NAMED if item.kind == NAME and known.isdisjoint(item.people.split(", "))]
    model = load(name)
    own, symmetrized = asked(model, strange, Symmetrized(GenderSwap())).values.mean(axis=1)
    assert symmetrized < own + 0.02
    monkeypatch.setattr("levelhead.probes.name_beliefs.CERTAIN", 1.1)  # never certain
    assert asked(model, strange, Symmetrized(GenderSwap())).values[1].mean() > 0.4


@pytest.mark.parametrize(
    ("bias", "costs"),
    [("gender", [AGREEMENT, NAME_AGREEMENT]), ("religion", [AGREEMENT]), ("class", [])],
)
def test_it_is_a_cost_of_biases_that_sentences_ship_for_and_not_measured_of_others(
    bias: str, costs: list[str]
) -> None:
    test = load_words(bias)
    battery = Battery(test, tuple(template_contexts(test, 1)), sentences=("We waited for the bus.",))
    model = tiny("bert", max_position_embeddings=256)
    values = natural_values(model, NaturalItems(battery, agreement=agreement_for(test)[::40]), [()])
    assert [each.name for each in values.costs if each.name.startswith(AGREEMENT)] == costs
    assert (AGREEMENT in values.unmeasured) == (not costs)
    if not costs:
        assert values.unmeasured[AGREEMENT] == "no sentence that ships states a group by words of class"


def test_a_model_that_predicts_no_words_is_not_said_to_keep_agreement() -> None:
    test = load_words("religion")
    battery = Battery(test, tuple(template_contexts(test, 1)), ability=ability_pairs(limit=6))
    values = natural_values(tiny("bert", "nli"), NaturalItems(battery, agreement=FAITHS[:2]), [()])
    assert "predicts no words" in values.unmeasured[AGREEMENT]


# ---- other groups than gender


@pytest.mark.parametrize("family", ["bert", "gpt2"])
def test_a_group_item_is_wrong_where_the_other_sentence_fits_the_other_word_better(family: str) -> None:
    """By the likelihoods of the words alone, sentence after sentence; their frequencies cancel."""
    model, some = tiny(family), FAITHS[::60]
    (values,) = disagreements(model, some, [()])
    expected = []
    for item in some:
        log_p = []
        for sentence, span in zip(chain(*item.sentences), chain(*item.spans), strict=True):
            (row,) = encode(model, [sentence])
            reading = SpanLikelihoods([sentence], [row.tokens_of(span).tolist()])
            log_p.append(float(read_one(model, reading, [()])[0, 0]))
        difference = log_p[0] - log_p[1] - log_p[2] + log_p[3]
        expected.append(0.5 if abs(difference) < 1e-5 else float(difference < 0))
    assert (values.name, values.unit) == (AGREEMENT, "share wrong")
    assert values.values[0].tolist() == expected
    assert 0 < sum(expected) < len(expected)
    assert values.clusters.tolist() == [item.people for item in some]


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["lh:bert-mini", "lh:gpt-mini"])
def test_a_swap_that_leaves_partner_words_alone_fails_agreement_and_a_coherent_one_passes(name: str) -> None:
    """The imam must stay in the mosque: both words are exchanged, or neither stays what the text says."""
    model = load(name)
    coherent, houses = swap_for(load_words("religion")), RowSwap("houses", (("mosque", "church"),))
    some = FAITHS[::12]  # of Muslims and Christians, behind two openings
    (values,) = disagreements(model, some, [(), (Symmetrized(houses),), (Symmetrized(coherent),)])
    own, without, with_partners = values.values.mean(axis=1)
    assert with_partners < own + 0.1 < 0.3
    assert without > max(own, with_partners) + 0.1
    assert p_of_cost(values.paired(1), 0.02) > 0.95


@pytest.mark.slow
def test_a_shipped_model_knows_what_a_blind_one_and_a_null_model_do_not() -> None:
    """Before and after: no candidate is certified that loses the gender which a text states."""
    model = load("lh:bert-mini")
    some = [item for item in ITEMS if item.people.startswith("my")][::3]
    assert len({item.own for item in some}) == 6
    values = asked(model, some, blind(model), Symmetrized(GenderSwap()))
    own, lost, kept = values.values.mean(axis=1)
    assert own < 0.35
    assert lost == 0.5
    assert kept < own
    null = asked(null_model_copy(model, draw_null_model(model, 0)), some).values.mean()
    assert 0.35 < null < 0.65
    grown = [values.paired(number) for number in (1, 2)]
    p_blind, p_symmetrized = (p_at_most(each.before - each.after, -0.02, each) for each in grown)
    assert p_symmetrized < 0.05 < 0.95 < p_blind
