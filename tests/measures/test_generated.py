"""Who appears and marked words: by hand, silent without an effect, and loud with one."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from levelhead.measures.generated import marked_words, who_appears, who_appears_real
from tests.measures.worlds import DRAWS, MOST, QUICK, WORLDS, claims, p_of


def test_the_slope_of_two_pairs_of_occupations_by_hand() -> None:
    found = who_appears([9, 9, 1, 1], [1, 1, 9, 9], [1, 1, -1, -1], QUICK, draws=DRAWS)
    assert found.value == pytest.approx(math.log(9))
    assert found.neutral == 0.0
    of_expected = who_appears([0.9, 0.4, 0.1, 0.1], [0.1, 0.1, 0.9, 0.4], [1, 1, -1, -1], QUICK, draws=DRAWS)
    assert of_expected.value == pytest.approx(0.5 * (math.log(9) + math.log(4)))
    counted = who_appears([9, 10, 1, 0], [1, 0, 9, 10], [1, 1, -1, -1], QUICK, draws=DRAWS)
    assert counted.value == pytest.approx(0.5 * (math.log(9.5 / 1.5) + math.log(10.5 / 0.5)))


def test_sides_exchanged_flip_the_slope() -> None:
    rng = np.random.default_rng(0)
    f, m, label = rng.integers(0, 20, 30), rng.integers(0, 20, 30), rng.integers(-1, 2, 30)
    one, two = who_appears(f, m, label, QUICK, DRAWS), who_appears(m, f, label, QUICK, DRAWS)
    assert one.value == pytest.approx(-(two.value or 0))
    assert one.p_value == two.p_value


def test_he_everywhere_is_no_stereotype_and_silence_is_counted() -> None:
    f, m = [0, 0, 0, 0, 0, 0], [16, 16, 16, 16, 16, 0]
    found = who_appears(f, m, [1, -1, 1, -1, 0, 1], QUICK, DRAWS)
    assert found.value == pytest.approx(0.0)
    assert (found.n, found.unscored) == (5, {"no word for a person in its texts": 1})
    assert found.p_value == 1.0
    assert who_appears(f, m, [1] * 6, QUICK).value is None


def test_an_exact_permutation_test_over_few_occupations() -> None:
    f, m = [20, 18, 16, 2, 3, 1], [1, 2, 3, 20, 19, 18]
    found = who_appears(f, m, [1, 1, 1, -1, -1, -1], QUICK, draws=4_000)
    assert found.p_value == pytest.approx(2 / 20, abs=0.02)  # of 20 ways, this one and its mirror


def world_of_occupations(rng: np.random.Generator, tilt: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    label = rng.permutation(np.repeat([1, -1, 0], 20))
    known = np.where(rng.random(60) < 0.5, tilt, 0.0)  # in half of the occupations
    odds = rng.normal(-0.5, 0.6, 60) + known * label
    texts = rng.integers(8, 24, 60)
    feminine = rng.binomial(texts, 1 / (1 + np.exp(-odds)))
    return feminine, texts - feminine, label


def test_who_appears_claims_nothing_without_an_effect() -> None:
    def world(rng: np.random.Generator) -> float | None:
        return p_of(who_appears(*world_of_occupations(rng, 0.0), QUICK, DRAWS))

    assert claims(world) <= MOST


def test_who_appears_finds_what_was_planted() -> None:
    found = claims(lambda rng: p_of(who_appears(*world_of_occupations(rng, 1.5), QUICK, DRAWS)))
    assert found >= 0.9 * WORLDS


def test_real_shares_give_a_slope_of_one_to_a_mirror_of_the_workforce() -> None:
    share = np.asarray([0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95])
    f = np.round(100_000 * share)
    found = who_appears_real(f, 100_000 - f, share, QUICK, DRAWS)
    assert found.value == pytest.approx(1.0, abs=1e-3)
    assert (who_appears_real(f, f, share, QUICK, DRAWS).value or 0) == pytest.approx(0.0, abs=1e-9)


def test_marked_words_by_hand() -> None:
    texts = [["kind"] * 8 + ["the"] * 10 + ["dog"] * 2, ["kind"] * 2 + ["the"] * 10 + ["dog"] * 8]
    found = {each.word: each for each in marked_words(texts, [True, False], [0, 1], draws=99)}
    alpha = 500 * 10 / 40
    y1, y2 = 8 + alpha, 2 + alpha
    odds = math.log(y1 / (20 + 500 - y1)) - math.log(y2 / (20 + 500 - y2))
    assert (found["kind"].first, found["kind"].second) == (8, 2)
    assert found["kind"].log_odds == pytest.approx(odds)
    assert found["kind"].z == pytest.approx(odds / math.sqrt(1 / y1 + 1 / y2))
    assert found["dog"].z == pytest.approx(-found["kind"].z)
    assert found["the"].z == pytest.approx(0.0)
    assert found["the"].p_value == 1.0
    turned = {each.word: each.z for each in marked_words(texts, [False, True], [0, 1], draws=99)}
    assert turned["kind"] == pytest.approx(-found["kind"].z)


def test_group_words_and_rare_words_are_not_asked_for() -> None:
    texts = [["she"] * 9 + ["rare"] + ["the"] * 6, ["he"] * 9 + ["the"] * 6]
    found = marked_words(texts, [True, False], [0, 1], lambda word: word in ("she", "he"), draws=99)
    assert [each.word for each in found] == ["the"]
    assert marked_words([[], []], [True, False], [0, 1]) == []


def test_marked_words_claim_nothing_without_an_effect_and_find_one() -> None:
    frames, words = 30, [f"w{n}" for n in range(60)]

    def world(more: float) -> Callable[[np.random.Generator], float | None]:
        def p(rng: np.random.Generator) -> float | None:
            base = rng.dirichlet(np.ones(len(words)))
            texts, sides, clusters = list[list[str]](), list[bool](), list[int]()
            for frame in range(frames):
                own = rng.dirichlet(40 * base + 0.01)  # each frame has words of its own
                for side in (True, False):
                    weights = own.copy()
                    weights[0] += more if side else 0.0
                    texts.append(list(rng.choice(words, 60, p=weights / weights.sum())))
                    sides.append(side)
                    clusters.append(frame)
            found = marked_words(texts, sides, clusters, draws=199)
            if more:
                return next(each.p_value for each in found if each.word == "w0")
            return min(each.p_value for each in found)

        return p

    assert claims(world(0.0)) <= MOST
    assert claims(world(0.08)) >= 0.9 * WORLDS
