"""The refitted head: the linear system by hand and by least squares, and what it does to a network."""

from __future__ import annotations

import numpy as np
import pytest

from levelhead.edits.output import Reweighted
from levelhead.engine.readings import Pooled
from levelhead.engine.run import read_one
from levelhead.errors import CannotDo
from levelhead.mitigation.fitting import RIDGE, LinearHead, doubts, refitted_heads, solved_head
from levelhead.models.encoding import Text
from levelhead.probes.contexts import template_contexts
from levelhead.probes.group_swap import GenderSwap
from levelhead.probes.words import load_words
from levelhead.scoring.battery import Battery
from levelhead.studies.mitigate.refitting import WEIGHINGS, RefittedHead
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


def test_doubts_by_hand() -> None:
    """p = ½, ¼ and 0: p (1 − p) = 4/16, 3/16 and 0, whose mean is 7/48; of three labels 1 − Σ p²."""
    two = doubts(np.array([[3.0, 3.0], [np.log(3), 0.0], [-900.0, 0.0]]))
    np.testing.assert_allclose(two, np.array([12, 9, 0]) / 7, atol=1e-9)
    three = doubts(np.log([[1 / 3, 1 / 3, 1 / 3], [0.5, 0.25, 0.25]]))  # 2/3 and 5/8, whose mean is 31/48
    np.testing.assert_allclose(three, np.array([32, 30]) / 31, atol=1e-12)
    np.testing.assert_allclose(doubts(np.array([[900.0, 0.0]] * 4)), 1)  # decided to the last bit


def _least_squares(
    vectors: np.ndarray, goal: np.ndarray, head: LinearHead, weighing: float, counts: np.ndarray
) -> np.ndarray:
    """The same by numpy, with the bias as one more unknown that the ridge leaves alone."""
    common, texts = vectors.mean(0), len(goal)
    apart = (vectors - common).reshape(-1, 5)
    spread = common - np.average(common, axis=0, weights=counts)
    stiff = np.sqrt(RIDGE * np.average(spread**2, axis=0, weights=counts).mean()) * np.eye(5)
    by = np.sqrt(counts / counts.sum())[:, None]
    rows = [
        by * np.c_[common, np.ones(texts)],
        np.sqrt(weighing / len(apart)) * np.c_[apart, 0 * apart[:, 0]],
    ]
    rows += [np.c_[stiff, np.zeros(5)]]
    own, wanted = head.weight - head.weight.mean(0), goal - goal.mean(1, keepdims=True)
    sides = [by * wanted, np.zeros((len(apart), wanted.shape[1])), stiff @ own.T]
    return np.asarray(np.linalg.lstsq(np.vstack(rows), np.vstack(sides), rcond=None)[0].T)


@pytest.mark.parametrize("turns", [2, 3])
def test_it_is_the_least_squares_solution_weighed_by_doubt(turns: int) -> None:
    vectors, goal, head = _case(3, turns)
    new = solved_head(vectors, goal, head, 7.0)
    given = np.c_[new.weight - new.weight.mean(0), new.bias - new.bias.mean()]
    counts = 1 - (np.exp(goal) ** 2).sum(1) / np.exp(goal).sum(1) ** 2
    np.testing.assert_allclose(given, _least_squares(vectors, goal, head, 7.0, counts), atol=1e-9)
    unweighed = _least_squares(vectors, goal, head, 7.0, np.ones(40))
    assert np.abs(given - unweighed).max() > 1e-3  # the weights do count
    apart = counts @ (_said(new, vectors.mean(0)) - (goal - goal.mean(1, keepdims=True)))
    np.testing.assert_allclose(apart, 0, atol=1e-8)  # no label gains


def test_texts_that_are_all_as_doubtful_count_alike() -> None:
    vectors, _, head = _case(4)
    goal = np.where(np.arange(40)[:, None] % 3 == [0, 1, 2], 2.0, 0.0)  # each for another label, as surely
    new = solved_head(vectors, goal, head, 7.0)
    given = np.c_[new.weight - new.weight.mean(0), new.bias - new.bias.mean()]
    np.testing.assert_allclose(given, _least_squares(vectors, goal, head, 7.0, np.ones(40)), atol=1e-9)


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


@pytest.mark.nightly
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
