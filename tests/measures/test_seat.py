"""SEAT against loops, its intervals against known truth."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from scipy.spatial.distance import cosine
from scipy.stats import kstest

from levelhead.errors import BadProbe
from levelhead.measures import seat_intervals as module
from levelhead.measures.seat import associations, seat, seat_measurement, word_seat_measurement
from levelhead.measures.seat_intervals import Replicate, effect_interval, item_interval
from levelhead.measures.statistics import Resampling, permutation_p_value

Sets = Mapping[str, Sequence[int]]
SETS: Sets = {"A": [0, 1, 2, 3], "B": [4, 5, 6, 7], "X": [8, 9, 10, 11], "Y": [12, 13, 14, 15]}


def slow_seat(vectors: Mapping[str, np.ndarray]) -> float:
    """Written from the definition, one pair of vectors at a time."""

    def s(w: np.ndarray) -> float:
        near_a = [1 - cosine(w, a) for a in vectors["A"]]
        near_b = [1 - cosine(w, b) for b in vectors["B"]]
        return math.fsum(near_a) / len(near_a) - math.fsum(near_b) / len(near_b)

    s_x, s_y = [s(x) for x in vectors["X"]], [s(y) for y in vectors["Y"]]
    pooled = s_x + s_y
    mean = math.fsum(pooled) / len(pooled)
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in pooled) / (len(pooled) - 1))
    return (math.fsum(s_x) / len(s_x) - math.fsum(s_y) / len(s_y)) / std


def some_vectors(seed: int = 0, sizes: tuple[int, int, int, int] = (5, 7, 6, 9)) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=(size, 12)) for name, size in zip("ABXY", sizes, strict=True)}


def some_words(rng: np.random.Generator, effect: float) -> np.ndarray:
    """Static vectors of 16 words with a planted association, [word, d]."""
    truth = rng.normal(size=(16, 16)) / 4 + 0.7 * rng.normal(size=16) / 4
    direction = rng.normal(size=16)
    direction /= 2 * np.linalg.norm(direction)
    for name, sign in zip("ABXY", (1, -1, effect, -effect), strict=True):
        truth[list(SETS[name])] += sign * direction
    return truth


def test_associations_by_hand() -> None:
    assert associations([[3, 4]], [[1, 0]], [[0, 2]]) == pytest.approx([0.6 - 0.8])
    assert associations([[1, 0], [0, 1]], [[1, 0], [1, 1]], [[0, 1]]) == pytest.approx(
        [(1 + math.sqrt(0.5)) / 2, math.sqrt(0.5) / 2 - 1]
    )


def test_equal_vectors_have_equal_associations_to_the_bit() -> None:
    rng = np.random.default_rng(0)
    word = rng.normal(size=768)
    s = associations(np.tile(word, (37, 1)), rng.normal(size=(9, 768)), rng.normal(size=(11, 768)))
    assert len(set(s.tolist())) == 1


def test_seat_by_hand() -> None:
    # s = 1, 3 | 0, 0: difference 2, mean 1, sum of squares 0 + 4 + 1 + 1 = 6, std sqrt(6 / 3)
    assert seat([1.0, 3.0], [0.0, 0.0]) == pytest.approx(2 / math.sqrt(2))


def test_seat_equals_a_slow_loop() -> None:
    vectors = some_vectors()
    assert seat_measurement(vectors).value == pytest.approx(slow_seat(vectors), abs=1e-12)


def test_swapping_attributes_or_targets_flips_the_sign() -> None:
    v = some_vectors()
    value = seat_measurement(v).value
    assert value is not None
    assert seat_measurement({"A": v["B"], "B": v["A"], "X": v["X"], "Y": v["Y"]}).value == pytest.approx(
        -value
    )
    assert seat_measurement({"A": v["A"], "B": v["B"], "X": v["Y"], "Y": v["X"]}).value == pytest.approx(
        -value
    )


def test_length_of_vectors_and_order_of_words_do_not_matter() -> None:
    v = some_vectors()
    other = {name: rows[::-1] * np.arange(1, len(rows) + 1)[:, None] for name, rows in v.items()}
    assert seat_measurement(other).value == pytest.approx(seat_measurement(v).value)


def test_a_planted_association_is_seen_and_its_removal_too() -> None:
    rng = np.random.default_rng(0)
    gender = np.eye(20)[0] * 3
    lean = {"A": gender, "B": -gender, "X": gender, "Y": -gender}
    planted = {name: rng.normal(size=(12, 20)) + shift for name, shift in lean.items()}
    removed = {name: rows * (np.arange(20) > 0) for name, rows in planted.items()}
    before, after = seat_measurement(planted), seat_measurement(removed)
    assert before.value is not None
    assert after.value is not None
    assert before.interval is not None
    assert before.value > 1.5
    assert before.details["p_value"] == pytest.approx(1e-5, rel=0.01)
    assert before.interval[0] > abs(after.value)
    assert before.interval[1] <= 2.0


def test_the_permutation_p_value_is_that_of_the_associations() -> None:
    v = some_vectors()
    s_x, s_y = (associations(v[name], v["A"], v["B"]) for name in "XY")
    measured = seat_measurement(v)
    expected = permutation_p_value(s_x, s_y)
    assert (measured.details["p_value"], measured.details["partitions"]) == (
        expected.p_value,
        math.comb(15, 6) - 1,
    )
    assert measured.settings["seed"] == 0


@pytest.mark.slow
def test_p_values_of_random_vectors_are_uniform() -> None:
    p = []
    for seed in range(500):
        v = some_vectors(seed, (4, 4, 6, 6))
        s_x, s_y = (associations(v[name], v["A"], v["B"]) for name in "XY")
        p.append(permutation_p_value(s_x, s_y).p_value)
    assert kstest(p, "uniform").pvalue > 0.01


# --- static vectors over contexts


def test_word_level_seat_is_seat_of_the_mean_vectors_whatever_the_order_of_contexts() -> None:
    rng = np.random.default_rng(0)
    word = rng.permutation(np.repeat(np.arange(16), rng.integers(1, 9, size=16)))
    vectors = rng.normal(size=(word.size, 12))
    static = np.stack([vectors[word == number].mean(axis=0) for number in range(16)])
    measured = word_seat_measurement(vectors, word, SETS)
    assert measured.value == pytest.approx(
        slow_seat({name: static[list(SETS[name])] for name in "ABXY"}), abs=1e-9
    )
    assert measured.n == word.size


def test_repeated_entries_count_as_given() -> None:
    rng = np.random.default_rng(0)
    word, vectors = np.repeat(np.arange(16), 3), rng.normal(size=(48, 12))
    repeated = {**SETS, "A": [0, 0, 1, 2], "X": [8, 8, 8, 9]}
    static = vectors.reshape(16, 3, 12).mean(axis=1)
    expected = slow_seat({name: static[list(repeated[name])] for name in "ABXY"})
    measured = word_seat_measurement(vectors, word, repeated)
    assert measured.value == pytest.approx(expected, abs=1e-9)
    assert measured.value != pytest.approx(word_seat_measurement(vectors, word, SETS).value)
    assert measured.n == 13 * 3


def test_entries_without_contexts_are_counted_and_empty_sets_not_measured() -> None:
    rng = np.random.default_rng(0)
    word, vectors = np.repeat(np.arange(12), 3), rng.normal(size=(36, 8))
    some_lost = word_seat_measurement(vectors, word, {**SETS, "Y": [8, 9, 14]})
    assert some_lost.value is not None
    assert some_lost.unscored == {"entry without context": 1}
    none_left = word_seat_measurement(vectors, word, SETS)
    assert (none_left.value, none_left.reason) == (None, "no word with a context in Y")


def test_overlapping_targets_are_measured() -> None:
    rng = np.random.default_rng(0)
    sets = {**SETS, "X": [8, 9, 10], "Y": [10, 11, 0]}
    measured = word_seat_measurement(rng.normal(size=(64, 8)), np.repeat(np.arange(16), 4), sets)
    assert measured.value is not None
    assert measured.interval is not None


def test_single_contexts_give_a_value_but_no_interval() -> None:
    measured = word_seat_measurement(np.random.default_rng(0).normal(size=(16, 8)), np.arange(16), SETS)
    assert measured.value is not None
    assert measured.interval is None
    assert measured.details["words_with_one_context"] == 16


def test_more_contexts_narrow_the_interval() -> None:
    rng = np.random.default_rng(0)
    truth, widths = some_words(rng, 0.4), []
    for contexts in (5, 80):
        word = np.repeat(np.arange(16), contexts)
        interval = word_seat_measurement(
            truth[word] + rng.normal(size=(word.size, 16)) / 4, word, SETS
        ).interval
        assert interval is not None
        widths.append(interval[1] - interval[0])
    assert widths[1] < widths[0] / 2.5


@pytest.mark.slow
@pytest.mark.parametrize(("contexts", "effect"), [(5, 0.0), (10, 0.3)])
def test_interval_over_contexts_covers_the_seat_of_the_true_vectors(contexts: int, effect: float) -> None:
    rng = np.random.default_rng(3)
    truth = some_words(rng, effect)
    value = slow_seat({name: truth[list(SETS[name])] for name in "ABXY"})
    word, hits = np.repeat(np.arange(16), contexts), 0
    for seed in range(1_000):
        noisy = truth[word] + rng.normal(size=(word.size, 16)) / 4
        interval = word_seat_measurement(noisy, word, SETS, Resampling(200, seed)).interval
        assert interval is not None
        hits += interval[0] <= value <= interval[1]
    assert 930 <= hits <= 970


@pytest.mark.slow
@pytest.mark.parametrize("effect", [0.0, 0.3])
def test_interval_over_sentences_covers_the_seat_of_the_population(effect: float) -> None:
    rng = np.random.default_rng(0)
    base, direction = rng.normal(size=32) / 6, np.eye(32)[0] / 2
    lean = {"A": 1.0, "B": -1.0, "X": effect, "Y": -effect}

    def sentences(name: str, n: int) -> np.ndarray:
        rows = base + lean[name] * direction + rng.normal(size=(n, 32)) / 6
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    axis = sentences("A", 100_000).mean(axis=0) - sentences("B", 100_000).mean(axis=0)
    value = seat(sentences("X", 100_000) @ axis, sentences("Y", 100_000) @ axis)
    hits = 0
    for seed in range(1_000):
        drawn = {name: sentences(name, 20) for name in "ABXY"}
        interval = item_interval(drawn, Resampling(300, seed))  # the permutation test would take minutes
        assert interval is not None
        hits += interval[0] <= value <= interval[1]
    assert 930 <= hits <= 970


# --- words with one context


UNEQUAL = {  # numbers of contexts, dealt to the words in turn
    "a quarter with 1": [1, 5, 5, 5],
    "half with 1": [1, 5],
    "all targets with 1": [5] * 8 + [1] * 8,
    "1, 2, 5 and 10": [1, 2, 5, 10],
}


def numbered(counts: Sequence[int]) -> np.ndarray:
    """The word of each context [context] when the 16 words get these numbers of contexts in turn."""
    return np.repeat(np.arange(16), np.resize(counts, 16))


def replicate_of(monkeypatch: pytest.MonkeyPatch, vectors: np.ndarray, word: np.ndarray) -> Replicate:
    """What the bootstrap over contexts computes for one resample."""
    caught: list[Replicate] = []
    monkeypatch.setattr(module, "_studentized", lambda replicate, *_: caught.append(replicate))
    word_seat_measurement(vectors, word, SETS)
    return caught[0]


def seat_of(static: np.ndarray) -> float:
    return slow_seat({name: static[list(SETS[name])] for name in "ABXY"})


def test_a_resample_moves_a_single_context_by_a_stretched_deviation_of_another_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(0)
    word = numbered([1, 2, 5, 10])
    vectors = rng.normal(size=(word.size, 12)) + 1
    mean = np.stack([vectors[word == w].mean(axis=0) for w in range(16)])
    n = np.bincount(word)
    donors = np.flatnonzero(n[word] > 1)
    drawn = donors[np.random.default_rng(7).integers(donors.size, size=(3, 4))]
    expected = []
    for row in drawn:
        static = mean.copy()
        for single, c in zip(np.flatnonzero(n == 1), row, strict=True):
            static[single] += math.sqrt(n[word[c]] / (n[word[c]] - 1)) * (vectors[c] - mean[word[c]])
        expected.append(seat_of(static))
    values, _ = replicate_of(monkeypatch, vectors, word)(np.ones((3, word.size)), np.random.default_rng(7))
    assert values == pytest.approx(expected, abs=1e-5)
    assert len({round(value, 3) for value in expected}) == 3


def test_the_error_gives_a_single_context_the_pooled_variance_by_hand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(1)
    word = numbered([1, 2, 5, 10])
    vectors = rng.normal(size=(word.size, 6)) + 1
    mean = np.stack([vectors[word == w].mean(axis=0) for w in range(16)])
    G = np.zeros_like(mean)  # d SEAT / d v by differences
    for cell in np.ndindex(mean.shape):
        step = np.zeros_like(mean)
        step[cell] = 1e-5
        G[cell] = (seat_of(mean + step) - seat_of(mean - step)) / 2e-5
    own, within, steep = 0.0, 0.0, 0.0
    for w in range(16):
        on_g = vectors[word == w] @ G[w]
        if on_g.size > 1:
            own += on_g.var(ddof=1) / on_g.size
            within += ((on_g - on_g.mean()) ** 2).sum()
            steep += (on_g.size - 1) * (G[w] ** 2).sum()
    alone = (G[np.bincount(word) == 1] ** 2).sum() * within / steep
    (value,), (error,) = replicate_of(monkeypatch, vectors, word)(np.ones((1, word.size)), None)
    assert value == pytest.approx(seat_of(mean), abs=1e-5)
    assert error == pytest.approx(math.sqrt(own + alone), rel=1e-4)
    assert alone > own / 2  # it would be missed


def test_words_with_equally_many_contexts_have_the_interval_of_the_days_when_single_contexts_were_certain() -> (
    None
):
    rng = np.random.default_rng(0)
    truth, word = some_words(rng, 0.4), numbered([20])
    measured = word_seat_measurement(truth[word] + rng.normal(size=(word.size, 16)) / 4, word, SETS)
    assert measured.interval == pytest.approx((0.49151, 1.03937), abs=1e-5)


def test_taking_contexts_away_from_some_words_widens_the_interval_the_same_way_every_time() -> None:
    rng = np.random.default_rng(0)
    truth, word = some_words(rng, 0.4), numbered([20])
    vectors = truth[word] + rng.normal(size=(word.size, 16)) / 8
    kept = (word % 4 > 0) | (np.arange(word.size) % 20 == 0)  # every fourth word keeps its first context
    full = word_seat_measurement(vectors, word, SETS).interval
    some, again = (word_seat_measurement(vectors[kept], word[kept], SETS).interval for _ in range(2))
    assert full is not None
    assert some is not None
    assert some == again
    assert some[1] - some[0] > 1.5 * (full[1] - full[0])


@pytest.mark.slow
@pytest.mark.parametrize("design", list(UNEQUAL))
def test_interval_covers_the_truth_when_words_have_unequally_many_contexts(design: str) -> None:
    rng = np.random.default_rng(0)
    word, hits = numbered(UNEQUAL[design]), 0
    for seed in range(2_000):
        truth = some_words(rng, (0.0, 0.3)[seed % 2])
        noisy = truth[word] + rng.normal(size=(word.size, 16)) / 4
        interval = word_seat_measurement(noisy, word, SETS, Resampling(200, seed)).interval
        assert interval is not None
        hits += interval[0] <= seat_of(truth) <= interval[1]
    assert 1_860 <= hits <= 1_940


# --- what cannot be measured


def test_one_word_sets_and_equal_words_are_not_measured_with_a_reason() -> None:
    v = some_vectors()
    assert "at least 2" in seat_measurement({**v, "X": v["X"][:1]}).reason
    same = {**v, "X": np.ones((3, 12)), "Y": np.ones((4, 12))}
    assert "standard deviation is 0" in seat_measurement(same).reason
    assert "standard deviation is 0" in seat_measurement({**v, "B": v["A"][::-1]}).reason
    assert seat_measurement({**v, "A": np.empty((0, 12))}).reason == "no item in A"


def test_seat_of_raw_values_refuses_what_has_no_effect_size() -> None:
    with pytest.raises(BadProbe, match="standard deviation is 0"):
        seat([1.0, 1.0], [1.0, 1.0])
    with pytest.raises(BadProbe, match="at least 2"):
        seat([1.0], [1.0, 2.0])


def test_bad_vectors_and_bad_set_names_are_refused() -> None:
    v = some_vectors()
    with pytest.raises(BadProbe, match="zero or not finite"):
        seat_measurement({**v, "A": np.zeros((2, 12))})
    with pytest.raises(BadProbe, match="exactly A, B"):
        seat_measurement({"A": v["A"]})
    with pytest.raises(BadProbe, match="came with words"):
        word_seat_measurement(np.ones((3, 4)), [0, 1], SETS)


def test_an_interval_of_two_a_side_is_given_up_when_resamples_have_no_spread() -> None:
    assert effect_interval(np.array([1.0, 2.0]), np.array([0.0, 0.5])) is None
