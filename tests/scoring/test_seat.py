"""SEAT as it is asked of a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from levelhead.edits.gates import removed
from levelhead.engine.readings import Pooling
from levelhead.errors import BadOption, CannotDo
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model
from levelhead.probes.contexts import template_contexts
from levelhead.probes.words import SentenceTest, load_seat_test
from levelhead.scoring.objectives import word_objective
from levelhead.scoring.seat import FOLLOWS, ask_seat, ask_sentence_seat, word_table
from tests.tiny import given, tiny
from tests.word_lists import GENDER

SEAT_DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "seat"
FEW = Resampling(resamples=100)
Doubles = NDArray[np.float64]


def slow_vector(model: Model, text: str, pooling: str) -> Doubles:
    plain = model.tokenizer(text, return_special_tokens_mask=True)["special_tokens_mask"]
    with torch.no_grad():
        states = model.base(**given(model, text)).last_hidden_state[0]
    special = torch.tensor([1] * (len(states) - len(plain)) + plain).bool()
    own = states[~special]
    means = {"mean": own.mean(0), "mean-special": states.mean(0)}
    chosen = {**means, "cls": states[0], "last": own[-1]}[pooling].double().numpy()
    return np.asarray(chosen / np.sqrt(sum(x * x for x in chosen)))


def slow_seat(model: Model, test: SentenceTest, pooling: str) -> float:
    """May et al.'s effect size, one sentence and one cosine after the other."""
    sets = {k: [slow_vector(model, text, pooling) for text in texts] for k, texts in test.groups().items()}

    def s(w: Doubles) -> float:
        to_a = sum(float(w @ a) for a in sets["A"]) / len(sets["A"])
        return to_a - sum(float(w @ b) for b in sets["B"]) / len(sets["B"])

    x, y = [s(w) for w in sets["X"]], [s(w) for w in sets["Y"]]
    both = x + y
    mean = sum(both) / len(both)
    spread = (sum((v - mean) ** 2 for v in both) / (len(both) - 1)) ** 0.5
    return float((sum(x) / len(x) - sum(y) / len(y)) / spread)


# ---- sentences


@pytest.mark.parametrize(
    ("file", "pooling"),
    [("sent-weat6", "mean"), ("weat6", "mean"), ("sent-weat6", "cls")]
    + [
        pytest.param(*each, marks=pytest.mark.nightly)
        for each in [(f"sent-weat{n}", "mean") for n in ("6b", "7", "7b", "8", "8b")]
        + [("weat7", "mean"), ("weat8", "mean"), ("sent-weat6", "last"), ("sent-weat6", "mean-special")]
    ],
)
@pytest.mark.skipif(not SEAT_DATA.is_dir(), reason="the published SEAT tests are not beside the checkout")
def test_sentence_seat_equals_a_slow_independent_one_on_the_published_tests(
    bert: Model, file: str, pooling: Pooling
) -> None:
    whole = load_seat_test(SEAT_DATA / f"{file}.jsonl")
    test = SentenceTest(file, whole.A[:8], whole.B[:8], whole.X[:8], whole.Y[:8])
    measured = ask_sentence_seat(bert, test, pooling=pooling, resampling=FEW)[0]
    assert measured.value == pytest.approx(slow_seat(bert, test, pooling), abs=1e-4)
    assert measured.settings["pooling"] == pooling


@pytest.mark.parametrize("pooling", get_args(Pooling))
def test_every_pooling_equals_a_slow_independent_one_and_says_whom_it_follows(pooling: Pooling) -> None:
    model = tiny("bert", "mlm")
    test = SentenceTest("mine", ("She works.",), ("He works.",), ("a nurse", "a book"), ("an engineer", "no"))
    (measured,) = ask_sentence_seat(model, test, pooling=pooling, resampling=FEW)
    assert measured.value == pytest.approx(slow_seat(model, test, pooling), abs=1e-4)
    assert measured.settings["follows"] == FOLLOWS[pooling]


@pytest.mark.skipif(not SEAT_DATA.is_dir(), reason="the published SEAT tests are not beside the checkout")
def test_sentence_seat_reads_a_published_file_whole(gpt: Model) -> None:
    (measured,) = ask_sentence_seat(gpt, SEAT_DATA / "weat7.jsonl", pooling="last", resampling=FEW)
    test = load_seat_test(SEAT_DATA / "weat7.jsonl")
    assert measured.value == pytest.approx(slow_seat(gpt, test, "last"), abs=1e-4)
    assert measured.n == sum(len(texts) for texts in test.groups().values())


def test_the_first_token_of_a_causal_model_is_refused(gpt: Model) -> None:
    test = SentenceTest("t", ("she",), ("he",), ("a nurse", "tea"), ("a boss", "steel"))
    with pytest.raises(CannotDo, match="sees nothing"):
        ask_sentence_seat(gpt, test, pooling="cls")


def test_an_unknown_pooling_is_named(bert: Model) -> None:
    test = SentenceTest("t", ("she",), ("he",), ("a nurse", "tea"), ("a boss", "steel"))
    with pytest.raises(BadOption, match="mean, mean-special, cls, last"):
        ask_sentence_seat(bert, test, pooling="max")  # type: ignore[arg-type]


# ---- words


def test_word_seat_has_the_same_value_with_and_without_interval_in_every_variant(bert: Model) -> None:
    contexts = template_contexts(GENDER, 2)
    variants = [(), removed(bert, [(0, 2), (4, 1)])]
    known = ask_seat(bert, GENDER, contexts, variants, resampling=FEW, intervals=True)
    plain = ask_seat(bert, GENDER, contexts, variants, resampling=FEW, intervals=False)
    assert [m.value for m in known] == pytest.approx([m.value for m in plain], abs=1e-5)
    assert known[0].value != pytest.approx(known[1].value, abs=1e-3)
    assert all(m.interval is None for m in plain)
    assert known[0].interval is not None
    assert known[0].value is not None
    assert known[0].interval[0] < known[0].value < known[0].interval[1]


def test_swapping_the_attributes_flips_the_sign(bert: Model) -> None:
    contexts = template_contexts(GENDER, 1)
    swapped = replace(GENDER, A=GENDER.B, B=GENDER.A)
    one, other = (ask_seat(bert, test, contexts, intervals=False)[0].value for test in (GENDER, swapped))
    assert one is not None
    assert other == pytest.approx(-one)


def test_sets_of_unequal_size_repeats_and_words_of_several_tokens_give_a_value(bert: Model) -> None:
    test = replace(GENDER, A=("she", "she", "great-grandmother"), B=("he",), pairs=(), X=GENDER.X[:3])
    measured = ask_seat(bert, test, template_contexts(test, 2), intervals=False)[0]
    assert measured.value is not None
    assert measured.details["n_a"] == 3
    assert measured.details["n_x"] == 3


def test_a_target_set_of_one_word_says_why_there_is_no_value(bert: Model) -> None:
    test = replace(GENDER, X=("nurse",))
    for intervals in (True, False):
        measured = ask_seat(bert, test, template_contexts(test, 1), intervals=intervals)[0]
        assert measured.value is None
        assert "at least 2" in measured.reason


def test_sizes_of_the_objective_are_those_of_the_values_that_ask_seat_gives(bert: Model) -> None:
    contexts = template_contexts(GENDER, 1)
    variants = [(), removed(bert, [(0, 2), (4, 1)])]
    values = [measured.value for measured in ask_seat(bert, GENDER, contexts, variants, intervals=False)]
    sizes = word_objective(word_table(GENDER, contexts)).sizes(bert, variants)
    assert sizes == [abs(value) for value in values if value is not None]
