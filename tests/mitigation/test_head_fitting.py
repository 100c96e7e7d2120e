"""The refitted head: the linear system by hand and by least squares, and what it does to a network."""

from __future__ import annotations

import numpy as np
import pytest

from levelhead.edits.weights import Reweighted
from levelhead.engine.readings import Pooled
from levelhead.engine.run import read_one
from levelhead.errors import CannotDo
from levelhead.mitigation.head_fitting import RIDGE, LinearHead, refitted_heads, solved_head
from levelhead.models.encoding import Text
from levelhead.probes.contexts import template_contexts
from levelhead.probes.group_swap import GenderSwap
from levelhead.probes.words import load_words
from levelhead.scoring.battery import Battery
from levelhead.studies.mitigating.refitting import WEIGHINGS, RefittedHead
from tests.tiny import tiny
from tests.word_lists import GENDER

SWAP = GenderSwap()
NOBODY = Text("The nurse was tired.", "The engineer was not.")
TEXTS = [
    Text(first, second)
    for first in ("She was tired.", "He saw the nurse.", "The nurse said that she was tired.")
    for second in ("The engineer saw her.", "Engineers work.", "He was tired.", "She saw the engineer.")
]


def _case(seed: int, turns: int = 2) -> tuple[np.ndarray, np.ndarray, LinearHead]:
    rng = np.random.default_rng(seed)
    head = LinearHead(rng.normal(size=(3, 5)), rng.normal(size=3))
    vectors = rng.normal(size=(turns, 40, 5))
    return vectors, head(vectors).mean(0), head


def _said(head: LinearHead, vectors: np.ndarray) -> np.ndarray:
    logits = head(vectors)
    return np.asarray(logits - logits.mean(-1, keepdims=True))


def test_one_entry_by_hand() -> None:
    """c = −1, 1; d = ±½; z = ±1 for W₀ = (1, −1): (1 + λ/4 + 0.3) s = −λ/4, of either row."""
    vectors = np.array([[[-1.5], [0.5]], [[-0.5], [1.5]]])
    head = LinearHead(np.array([[1.0], [-1.0]]), np.zeros(2))
    for weighing in (0.0, 4.0, 40.0):
        new = solved_head(vectors, head(vectors).mean(0), head, weighing)
        step = -(weighing / 4) / (1 + weighing / 4 + RIDGE)
        np.testing.assert_allclose(new.weight, [[1 + step], [-1 - step]], atol=1e-12)
        np.testing.assert_allclose(new.bias, 0, atol=1e-12)


@pytest.mark.parametrize("turns", [2, 3])
def test_it_is_the_least_squares_solution(turns: int) -> None:
    vectors, goal, head = _case(3, turns)
    weighing, common = 7.0, vectors.mean(0)
    apart = (vectors - common).reshape(-1, 5)
    spread = common - common.mean(0)
    stiff = np.sqrt(RIDGE * (spread**2).mean()) * np.eye(5)
    rows = [spread / np.sqrt(40), np.sqrt(weighing / len(apart)) * apart, stiff]
    own, wanted = head.weight - head.weight.mean(0), goal - goal.mean(1, keepdims=True)
    sides = [(wanted - wanted.mean(0)) / np.sqrt(40), np.zeros((len(apart), 3)), stiff @ own.T]
    expected = np.linalg.lstsq(np.vstack(rows), np.vstack(sides), rcond=None)[0].T
    new = solved_head(vectors, goal, head, weighing)
    np.testing.assert_allclose(new.weight - head.weight.mean(0), expected, atol=1e-9)
    np.testing.assert_allclose(_said(new, common).mean(0), wanted.mean(0), atol=1e-9)  # no label gains


def test_without_weight_on_differences_it_stays_and_with_more_they_shrink() -> None:
    vectors, goal, head = _case(5)
    gaps = []
    for weighing in (0.0, *WEIGHINGS, 1e6):
        new = solved_head(vectors, goal, head, weighing)
        gaps.append(float(np.abs(np.subtract(*_said(new, vectors))).mean()))
    assert gaps[0] == pytest.approx(float(np.abs(np.subtract(*_said(head, vectors))).mean()), abs=1e-9)
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 1e-3 * gaps[0]


@pytest.mark.parametrize("head", ["nsp", "nli"])
def test_a_network_with_the_new_head_says_what_was_solved_for(head: str) -> None:
    model = tiny("bert", head)
    (heads,) = refitted_heads(model, SWAP, TEXTS, [()], [0.0, 1e4])
    variants = [(), *((Reweighted(f"head {n}", each),) for n, each in enumerate(heads))]
    turned = [Text(SWAP(text.first).text, SWAP(str(text.second)).text) for text in TEXTS]
    own, other = (read_one(model, Pooled(texts), variants) for texts in (TEXTS, turned))
    gap = np.abs((own - own.mean(-1, keepdims=True)) - (other - other.mean(-1, keepdims=True))).mean((1, 2))
    assert gap[1] == pytest.approx(gap[0], rel=1e-3)
    assert gap[2] < 0.1 * gap[0]


def test_texts_that_no_exchange_changes_and_models_without_a_head_are_refused() -> None:
    model = tiny("bert", "nsp")
    endless = Text("She was tired. " * 100, "He was not.")
    for texts in ([NOBODY], [endless]):
        with pytest.raises(CannotDo, match="no text that fits has a word"):
            refitted_heads(model, SWAP, texts, [()], [1.0])
    with pytest.raises(CannotDo, match="no linear classification head"):
        refitted_heads(tiny("bert"), SWAP, TEXTS, [()], [1.0])


def test_the_mitigation_makes_one_candidate_per_weighing_or_says_why_not() -> None:
    model, fit = tiny("bert", "nsp"), Battery(GENDER, tuple(template_contexts(GENDER, 1)))
    method = RefittedHead()
    assert "no classification head" in method.why_not(tiny("gpt2"), fit)
    race = load_words("race")
    assert method.why_not(model, Battery(race, tuple(template_contexts(race, 1))))
    assert not method.why_not(model, fit)
    candidates = method.candidates(model, fit)
    assert [each.strength for each in candidates] == list(WEIGHINGS)
    assert len({each.edits for each in candidates}) == len(WEIGHINGS)
