"""LPBS as it is asked of a model: she and he, or the words of any other list."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from benchmarks.coin_lists import coin_list

from levelhead.edits.gates import removed
from levelhead.measures.measurement import P_EXCHANGE
from levelhead.measures.seat import SPREAD
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model, load
from levelhead.probes.lpbs import LPBS_TESTS, Kind, lpbs_sentences, lpbs_templates
from levelhead.probes.words import WordTest, load_words
from levelhead.scoring.battery import Battery
from levelhead.scoring.lpbs import ask_lpbs, ask_lpbs_tests
from levelhead.scoring.natural import BLANKS, NaturalItems, natural_bias
from tests.tiny import tiny

FEW = Resampling(resamples=100)


def few_targets(name: str) -> WordTest:
    """A shipped list with two target words on each side; its attributes are whole."""
    test = load_words(name)
    return replace(test, X=test.X[:2], Y=test.Y[:2])


def slow_bias(model: Model, target: str, attributes: tuple[str, str], kind: Kind) -> float:
    """The bias of one target word as docs/method/words.md (LPBS) defines it, one sentence after the other."""
    tokenizer, biases = model.tokenizer, []
    a, b = tokenizer.convert_tokens_to_ids([word.lower() for word in attributes])
    for sentence in lpbs_sentences([target], "[MASK]", kind):
        start, end = sentence.target_span
        tokens = len(tokenizer.tokenize(target))
        without_target = sentence.text[:start] + " ".join(["[MASK]"] * tokens) + sentence.text[end:]
        later = sentence.mask_span > sentence.target_span
        both = []
        for text in (sentence.text, without_target):
            ids = tokenizer(text, return_tensors="pt")
            masks = (ids["input_ids"][0] == tokenizer.mask_token_id).nonzero()
            with torch.no_grad():
                out = model.hf(**ids)
            both.append(out.logits[0, int(masks[-1 if later else 0])].log_softmax(-1))
        biases.append(float((both[0] - both[1])[a] - (both[0] - both[1])[b]))
    return float(np.mean(biases))


@pytest.mark.parametrize(
    ("name", "attributes", "kind"),
    [("career", ("she", "he"), "topic"), ("race", ("nurse", "engineer"), "words")],
)
def test_lpbs_is_what_the_equation_says(name: str, attributes: tuple[str, str], kind: Kind) -> None:
    bert = tiny("bert")
    small = replace(few_targets(name), A=attributes[:1], B=attributes[1:], pairs=())
    bias = [slow_bias(bert, word, attributes, kind) for word in (*small.X, *small.Y)]
    expected = (np.mean(bias[:2]) - np.mean(bias[2:])) / np.std(bias, ddof=1)
    measured = ask_lpbs(bert, small, resampling=FEW)[0]
    assert measured.value == pytest.approx(expected, abs=1e-4)
    assert measured.settings["templates"] == kind
    assert measured.n == 4


def test_another_list_is_asked_about_its_own_words_and_never_about_she_and_he(bert: Model) -> None:
    measured = ask_lpbs(bert, few_targets("race"), resampling=FEW)[0]
    assert measured.value is not None
    assert measured.settings["attributes"][0].count("black") == 2  # repeats count as given
    assert "she" not in str(measured.settings["attributes"])


def test_stray_pronouns_in_a_list_about_something_else_do_not_answer_for_it(bert: Model) -> None:
    race = few_targets("race")
    stray = replace(race, A=("she", *race.A), B=("he", *race.B), pairs=(("she", "he"), *race.pairs), axis="")
    measured = ask_lpbs(bert, stray, resampling=FEW)[0]
    assert "black" in measured.settings["attributes"][0]
    gender = replace(stray, axis="gender")
    assert ask_lpbs(bert, gender, resampling=FEW)[0].settings["attributes"] == [["she"], ["he"]]


def test_swapping_the_attributes_flips_the_sign(bert: Model) -> None:
    test = few_targets("race")
    turned = replace(test, A=test.B, B=test.A, pairs=())
    there, back = (ask_lpbs(bert, each, resampling=FEW)[0].value for each in (test, turned))
    assert there == pytest.approx(-float(back or 0), abs=1e-5)


def test_attributes_of_several_tokens_are_counted_and_a_side_without_any_says_why(bert: Model) -> None:
    test = WordTest("faith", ("nun", "supercalifragilistic"), ("monk",), ("kind", "calm"), ("loud", "rich"))
    assert ask_lpbs(bert, test, resampling=FEW)[0].unscored == {"attribute of several tokens": 1}
    lost = ask_lpbs(bert, replace(test, A=("supercalifragilistic",)), resampling=FEW)[0]
    assert lost.value is None
    assert lost.reason.startswith("no attribute word of A")


def test_the_three_shipped_tests_are_told_apart() -> None:
    model = tiny("bert")
    of_variants = ask_lpbs_tests(model, [(), removed(model, [(0, 0)])], FEW)
    names = [[measured.name for measured in of_variant] for of_variant in of_variants]
    assert names == [["lpbs career", "lpbs math", "lpbs science"]] * 2


def test_lpbs_of_a_causal_model_is_missing_with_its_reason() -> None:
    gpt = tiny("gpt2")
    measurements = ask_lpbs(gpt, load_words("math"), [(), removed(gpt, [(0, 0)])])
    assert [measured.value for measured in measurements] == [None, None]
    assert "masked model" in measurements[0].reason


@pytest.mark.parametrize("kind", ["topic", "person", "trait", "words"])
def test_no_template_asks_at_the_start_of_a_sentence_where_cased_models_write_another_token(
    kind: Kind,
) -> None:
    assert not [t.text for t in lpbs_templates(kind) if t.text.startswith("{attribute}")]


@pytest.mark.nightly
def test_the_fill_in_gap_is_what_lpbs_divides_by_its_spread_over_all_tests(bert: Model) -> None:
    tests = tuple(few_targets(name) for name in LPBS_TESTS)
    gap = natural_bias(bert, NaturalItems(Battery(load_words("gender"), ()), blanks=tests), BLANKS)
    measured = [ask_lpbs(bert, test, resampling=FEW)[0] for test in tests]
    numerators = [(each.value or 0.0) * (each.details[SPREAD] or 0.0) for each in measured]
    assert np.average(gap.values[0], weights=gap.weights) == pytest.approx(np.mean(numerators))
    assert len(gap.clusters) == sum(each.n for each in measured)


def test_group_words_are_exchanged_unless_they_are_two() -> None:
    model = tiny("bert")
    career = few_targets("career")
    (named,) = ask_lpbs(model, career, resampling=FEW)
    assert P_EXCHANGE not in named.details
    (several,) = ask_lpbs(model, replace(career, axis="coin"), resampling=FEW)
    assert several.p_value == max(several.details["p_value"] or 0.0, several.details[P_EXCHANGE] or 0.0)


@pytest.mark.slow
def test_a_list_whose_sides_a_coin_has_exchanged_is_not_claimed() -> None:
    """Held fixed, its words differ: p < 0.001. Other words of the same groups would not show it."""
    coin = coin_list(load_words("math"), 3)
    (measured,) = ask_lpbs(load("lh:bert-mini", device="cpu"), coin, resampling=FEW)
    own, exchanged = measured.details["p_value"], measured.details[P_EXCHANGE]
    assert own is not None
    assert own < 0.001
    assert exchanged is not None
    assert exchanged == measured.p_value
    assert exchanged > 0.05
