"""Lessons about stereotypes: every equation by hand on a tiny model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from levelhead.edits.output import Reweighted
from levelhead.engine.distilling import Counterfactual, OrientedTexts, aligned, answered
from levelhead.engine.preference_losses import (
    BETA,
    Choice,
    Forgetting,
    Preferring,
    choice_batch,
    choices,
    contrast,
    log_choice,
)
from levelhead.engine.readings import Pooled, TokenLikelihoods
from levelhead.engine.run import read_one
from levelhead.errors import CannotDo
from levelhead.models.copies import copied
from levelhead.models.encoding import Text
from levelhead.models.identity import fingerprint
from levelhead.models.model import Model
from levelhead.probes.group_swap import GenderSwap
from levelhead.scoring.pairs import softmax
from tests.tiny import tiny

SWAP = GenderSwap()
TRIPLES = [
    ("The nurse was tired.", "She saw the kitchen.", "She saw the engineer yesterday."),
    ("He gave a book.", "Engineers work.", "Nurses work too!"),
]
PLAIN = ["Engineers and nurses work.", "The engineer was tired.", "The nurse said that she was tired."]


@pytest.fixture(params=["gpt2", "bert"])
def next_sentence(request: pytest.FixtureRequest) -> Model:
    return tiny(request.param, "nsp" if request.param == "bert" else "mlm")


def x_by_reading(model: Model, side: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """x of the sentences of one side, from the engine's readings."""
    if "nsp" in model.abilities:
        logits = read_one(model, Pooled([Text(each[0], each[side]) for each in TRIPLES]))[0]
        return np.log(softmax(logits.astype(np.float64))[:, 0])
    means = []
    for context, *after in TRIPLES:
        scores = read_one(model, TokenLikelihoods([f"{context} {after[side - 1]}"]))
        row, positions = scores.rows[0], scores.positions[0]
        own = row.offsets[positions, 1] > len(context) + 1
        means.append(scores.values[0][0][own].mean())
    return np.asarray(means, np.float64)


def student_of(model: Model) -> Model:
    torch.manual_seed(5)
    own = dict(model.hf.named_parameters())
    moved = Reweighted.moved("moved", own, {n: torch.randn_like(w) for n, w in own.items()}, 0.02)
    with model.edited(moved):
        return copied(model, "student", "")


def both(model: Model) -> list[Choice]:
    return choices(model, TRIPLES)


def test_x_is_what_the_readings_say_of_a_next_sentence(next_sentence: Model) -> None:
    with torch.no_grad():
        stereo, anti = log_choice(next_sentence, choice_batch(next_sentence, both(next_sentence)))
    np.testing.assert_allclose(stereo.numpy(), x_by_reading(next_sentence, 1), atol=1e-5)
    np.testing.assert_allclose(anti.numpy(), x_by_reading(next_sentence, 2), atol=1e-5)


def test_dpo_is_its_equation_and_begins_at_log_2(next_sentence: Model) -> None:
    lesson = Preferring(next_sentence, both(next_sentence))
    batch = lesson.batch([0, 1], (0,))
    assert float(lesson.loss(next_sentence, batch)) == pytest.approx(np.log(2), abs=1e-5)
    student = student_of(next_sentence)
    before = x_by_reading(next_sentence, 2) - x_by_reading(next_sentence, 1)
    after = x_by_reading(student, 2) - x_by_reading(student, 1)
    by_hand = np.log1p(np.exp(-BETA * (after - before))).mean()
    assert float(lesson.loss(student, batch)) == pytest.approx(by_hand, abs=1e-5)
    assert by_hand != pytest.approx(np.log(2), abs=1e-5)


def test_npo_is_its_equation_and_holds_plain_text_where_it_was(next_sentence: Model) -> None:
    plain = OrientedTexts(
        next_sentence, SWAP, aligned(next_sentence, SWAP, [Text(t, t) for t in PLAIN[:2]], 40).texts
    )
    lesson = Forgetting(next_sentence, both(next_sentence), plain)
    batch = lesson.batch([0, 1], (0, 7))
    assert float(lesson.loss(next_sentence, batch)) == pytest.approx(2 / BETA * np.log(2), abs=1e-4)
    student = student_of(next_sentence)
    ratio = np.exp(x_by_reading(student, 1) - x_by_reading(next_sentence, 1))
    kept = {name[6:]: value for name, value in batch.items() if name.startswith("plain ")}
    with torch.no_grad():
        pairs = zip(answered(next_sentence, kept), answered(student, kept), strict=True)
        logs = [(own.log_softmax(-1).double(), given.log_softmax(-1).double()) for own, given in pairs]
    kl = sum(float((own.exp() * (own - given)).sum(-1).mean()) for own, given in logs)
    by_hand = (2 / BETA * np.log1p(ratio**BETA)).mean() + kl
    assert kl > 0
    assert float(lesson.loss(student, batch)) == pytest.approx(by_hand, rel=1e-4)


def test_cda_is_the_likelihood_of_the_text_and_of_its_counterfactual() -> None:
    model = tiny("gpt2")
    lesson = Counterfactual(model, SWAP, aligned(model, SWAP, [Text(PLAIN[2])], 40).texts)
    loss = float(lesson.loss(model, lesson.batch([0], (0, 0))))
    texts = [PLAIN[2], SWAP(PLAIN[2]).text]
    scores = read_one(model, TokenLikelihoods(texts)).values[0]
    assert loss == pytest.approx(-np.concatenate(scores).mean(), abs=1e-5)


def test_contrast_is_the_slope_of_x_and_leaves_the_model_alone(next_sentence: Model) -> None:
    before = fingerprint(next_sentence.hf)
    gradients = contrast(next_sentence, both(next_sentence))
    assert fingerprint(next_sentence.hf) == before
    name = next(n for n in gradients if "attn.c_proj.weight" in n or "output.dense.weight" in n)
    own = dict(next_sentence.hf.named_parameters())
    torch.manual_seed(0)
    step = torch.randn_like(own[name])
    around = []
    for by in (-1e-2, 1e-2):
        with next_sentence.edited(Reweighted.moved("step", own, {name: step}, by)):
            around.append((x_by_reading(next_sentence, 2), x_by_reading(next_sentence, 1)))
    for side in (0, 1):
        slope = (around[1][side] - around[0][side]).mean() / 2e-2
        assert float((gradients[name][side] * step).sum()) == pytest.approx(slope, rel=2e-2, abs=1e-4)


def test_a_model_that_judges_no_next_sentence_is_refused() -> None:
    with pytest.raises(CannotDo, match="cannot judge a next sentence"):
        choices(tiny("bert"), TRIPLES)
