"""Fluency as it is asked of a model."""

from __future__ import annotations

import pytest

from levelhead.edits.gates import all_heads, removed
from levelhead.measures.statistics import Resampling
from levelhead.models.model import Model
from levelhead.scoring.fluency import ask_fluency, ask_fluency_and_change
from tests.tiny import tiny

FEW = Resampling(resamples=100)


def test_removing_many_heads_costs_fluency(bert: Model, gpt: Model) -> None:
    sentences = ["The train to the coast leaves at noon.", "She put the keys on the table and went to bed."]
    for model, name in ((bert, "pppl"), (gpt, "perplexity")):
        many = removed(model, [head for head in all_heads(model) if head.layer < 3])
        base, cut = ask_fluency(model, sentences, [(), many], resampling=FEW)
        assert base.name == name
        assert base.value is not None
        assert cut.value is not None
        assert cut.value > base.value > 1


def test_an_encoder_without_a_language_head_has_no_fluency() -> None:
    measured = ask_fluency(tiny("bert", "base"), ["A nurse."])[0]
    assert measured.value is None
    assert "predicts no tokens" in measured.reason


def test_a_text_that_does_not_fit_is_left_out_and_counted() -> None:
    model = tiny("bert")
    measured = ask_fluency(model, ["The nurse said that she was tired.", "the nurse " * 60], resampling=FEW)
    assert measured[0].value is not None
    assert measured[0].unscored["text longer than the model's positions"] == 1


def test_value_and_change_agree_and_both_say_what_was_not_scored() -> None:
    model = tiny("gpt_neox")
    sentences = ["The nurse said that she was tired.", "A man left early."]
    cut = removed(model, [(0, 0), (1, 1)])
    (same, none), (edited, change) = ask_fluency_and_change(model, sentences, [(), cut], FEW)
    assert none.value == pytest.approx(1.0)
    assert change.value == pytest.approx(float(edited.value or 0) / float(same.value or 1))
    alone = ask_fluency(model, sentences, [cut], resampling=FEW)[0]
    assert edited.value == pytest.approx(alone.value)
    assert edited.unscored == change.unscored == alone.unscored == {"first token of a text": 2}


@pytest.mark.parametrize(("family", "kind"), [("bert", "pppl"), ("gpt2", "perplexity")])
def test_beside_its_change_every_perplexity_is_called_fluency_and_names_its_kind(
    family: str, kind: str
) -> None:
    ((value, change),) = ask_fluency_and_change(tiny(family), ["A nurse left."], [()], FEW)
    assert (value.name, change.name) == ("fluency", "fluency change")
    assert value.settings["kind"] == kind


def test_a_causal_text_that_leaves_no_room_for_bos_is_left_out_and_counted(gpt: Model) -> None:
    text = next(
        t
        for n in range(9999)
        if len(gpt.tokenizer(t := "the man" + " left" * n)["input_ids"]) == gpt.max_tokens
    )
    measured = ask_fluency(gpt, [text, "the man"], resampling=FEW)[0]
    assert measured.value is not None
    assert measured.unscored == {"text longer than the model's positions": 1}
