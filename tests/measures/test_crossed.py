"""SEAT's interval over words and templates: it covers what it claims to cover."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from levelhead.errors import BadProbe
from levelhead.measures.crossed import (
    CrossedVectors,
    SeatEffect,
    WordSets,
    all_influences,
    nested_vectors,
    units,
)
from levelhead.measures.seat import associations, seat
from levelhead.measures.statistics import Resampling
from tests.measures.crossed_worlds import WORLDS, Doubles, World, word_sets

QUICK = Resampling(resamples=400)


def sample(design: tuple[int, int, int, int], seed: int = 0, world: str = "weak") -> Doubles:
    return WORLDS[world].sample(np.random.default_rng(seed), design)


def plain_seat(means: Doubles, words: WordSets) -> float:
    a, b, x, y = (means[words.of(name)] for name in "ABXY")
    return seat(associations(x, a, b), associations(y, a, b))


def width(interval: tuple[float, float] | None) -> float:
    assert interval is not None
    return interval[1] - interval[0]


def test_the_value_is_seat_of_the_means_over_templates() -> None:
    v, words = sample((6, 5, 7, 4)), word_sets(6, 5, 7)
    assert CrossedVectors(v, words).seat(QUICK).value == pytest.approx(
        plain_seat(v.mean(1), words), abs=1e-12
    )


def test_a_repeated_entry_counts_twice_and_moves_as_one_unit() -> None:
    v, words = sample((6, 5, 7, 4)), word_sets(6, 5, 7)
    repeated = WordSets({**words.sets, "X": [*words.sets["X"], words.sets["X"][0]]}, words.pairs)
    measured = CrossedVectors(v, repeated).seat(QUICK)
    assert measured.value == pytest.approx(plain_seat(v.mean(1), repeated), abs=1e-12)
    assert measured.details["n_x"] == 6
    assert measured.n == 24 * 4


@pytest.mark.parametrize("divided", [True, False])
@pytest.mark.parametrize("kind", ["pairs", "X", "Y", "templates"])
def test_influences_are_the_derivatives_of_the_weighted_value(kind: str, divided: bool) -> None:
    """The interval rests on them: compared with the value itself at slightly other weights, unit by unit."""
    v, words, step = sample((6, 5, 7, 4), 3), word_sets(6, 5, 7), 1e-5
    effect = SeatEffect.of(units(v.mean(1)), words)
    assert effect is not None
    of_effect, of_numerator = all_influences([effect, effect.numerator], v)
    number = ("pairs", "X", "Y", "templates").index(kind)
    influence = (of_effect if divided else of_numerator)[number]

    def weighted(weights: Doubles) -> float:
        """SEAT with weights that add up to the number of units of the kind; other units count 1."""
        w = {name: np.ones(n) for name, n in (("pairs", 6), ("X", 5), ("Y", 7), ("templates", 4))}
        w[kind] = weights
        means = np.einsum("wtd,t->wd", v, w["templates"]) / 4
        u = means / np.linalg.norm(means, axis=1, keepdims=True)
        direction = w["pairs"] @ (u[:6] - u[6:12]) / 6
        s, both = u[12:] @ direction, np.concatenate([w["X"], w["Y"]])
        center = both @ s / 12
        spread = np.sqrt(both @ (s - center) ** 2 / 11) if divided else 1.0
        return float((w["X"] @ s[:5] / 5 - w["Y"] @ s[5:] / 7) / spread)

    n = len(influence)
    slopes = []
    for i in range(n):
        weights = np.ones(n) - step / n
        weights[i] += step
        slopes.append((weighted(weights) - weighted(np.ones(n))) / step)
    np.testing.assert_allclose(influence, slopes, atol=2e-5)
    assert abs(influence.sum()) < 1e-12
    assert np.abs(influence).max() > 1e-4


def test_pairs_that_share_a_word_are_one_unit() -> None:
    words = WordSets({"A": [0, 0, 1], "B": [2, 3, 4], "X": [5, 6], "Y": [7, 8]}, [(0, 2), (0, 3), (1, 4)])
    unit = words.unit_of_word
    assert unit[0] == unit[2] == unit[3]
    assert unit[1] == unit[4] != unit[0]


def test_counterparts_drawn_together_leave_less_open_than_drawn_apart() -> None:
    """Counterparts share a part that cancels in a pair, and would not if they were drawn one by one."""
    v = World(0.3, words=0.5, pairs=6.0).sample(np.random.default_rng(0), (8, 30, 30, 4)).mean(1)
    paired = word_sets(8, 30, 30)
    variance = []
    for words in (paired, WordSets(paired.sets)):
        effect = SeatEffect.of(units(v), words)
        assert effect is not None
        variance.append((effect.influences()[0] ** 2).sum())
    assert variance[0] < 0.5 * variance[1]


def test_exchanging_x_and_y_flips_value_and_interval() -> None:
    v, words = sample((6, 7, 7, 4)), word_sets(6, 7, 7)
    turned = WordSets({**words.sets, "X": words.sets["Y"], "Y": words.sets["X"]}, words.pairs)
    first, second = CrossedVectors(v, words).seat(QUICK), CrossedVectors(v, turned).seat(QUICK)
    assert first.value is not None
    assert second.value == pytest.approx(-first.value, abs=1e-12)
    assert first.interval is not None
    assert second.interval is not None
    assert first.interval[0] <= first.value <= first.interval[1]
    assert width(second.interval) == pytest.approx(width(first.interval), rel=0.15)


def test_templates_that_disagree_widen_the_interval_that_words_alone_leave() -> None:
    tilted = World(0.5, tilt=2.0).sample(np.random.default_rng(2), (60, 60, 60, 4))
    words = word_sets(60, 60, 60)
    both = CrossedVectors(tilted, words).seat()
    alone = nested_vectors(tilted.mean(1), np.arange(len(tilted)), words).seat()
    assert both.value == pytest.approx(alone.value)
    assert width(both.interval) > 1.3 * width(alone.interval)
    assert "templates" not in str(alone.settings["resampled"])
    assert "templates" in str(both.settings["resampled"])


@pytest.mark.parametrize("templates", [1, 2])
def test_the_interval_of_a_few_templates_holds_the_value_of_all_of_them(templates: int) -> None:
    """Templates that disagree: words alone would claim a narrow interval around what one template shows."""
    v = World(0.5, tilt=2.0).sample(np.random.default_rng(2), (60, 60, 60, 16))
    words = word_sets(60, 60, 60)
    whole = CrossedVectors(v, words).seat(QUICK).value
    assert whole is not None
    held = []
    for start in range(0, 16, templates):
        few = CrossedVectors(v[:, start : start + templates], words).seat(QUICK)
        assert few.interval is not None
        assert "known models" in str(few.settings["resampled"])
        assert "difference_low" not in few.details
        held.append(few.interval[0] <= whole <= few.interval[1])
    assert np.mean(held) >= 0.9


def test_two_templates_leave_less_open_than_one() -> None:
    v, words = sample((20, 20, 20, 2)), word_sets(20, 20, 20)
    two, one = (CrossedVectors(v[:, :count], words).seat(QUICK).interval for count in (2, 1))
    assert width(two) < width(one)


def test_nested_contexts_have_the_value_of_their_means_and_the_interval_of_words() -> None:
    v, words = sample((6, 7, 7, 3)), word_sets(6, 7, 7)
    number = np.repeat(np.arange(len(v)), 3)
    ragged = np.concatenate([v.reshape(-1, v.shape[2]), v[:1, 0]])  # the first word has a fourth context
    measured = nested_vectors(ragged, [*number, 0], words).seat(QUICK)
    means = v.mean(1)
    means[0] = (v[0].sum(0) + v[0, 0]) / 4
    assert measured.value == pytest.approx(plain_seat(means, words), abs=1e-12)
    assert measured.interval == nested_vectors(means, np.arange(len(means)), words).seat(QUICK).interval
    narrow, wide = measured.interval, CrossedVectors(means[:, None], words).seat(QUICK).interval
    assert width(narrow) < width(wide)  # in one template others are left open
    assert measured.n == len(v) * 3 + 1


def test_intervals_stay_within_what_seat_can_be() -> None:
    v = World(3.0, words=0.01, noise=0.01, lean_spread=0.05).sample(np.random.default_rng(0), (4, 4, 4, 3))
    measured = CrossedVectors(v, word_sets(4, 4, 4)).seat(QUICK)
    assert measured.interval is not None
    assert 1.8 < measured.interval[0] <= measured.interval[1] <= 2.0


def test_vectors_that_only_shrink_or_collapse_to_one_point_leave_seat_and_show_in_the_spread() -> None:
    """A common direction added to all vectors draws cosines together; SEAT divides by their spread."""
    design = (6, 10, 10, 4)
    vectors, words = sample(design), word_sets(*design[:3])
    common = np.zeros(vectors.shape[-1])
    common[0] = 20 * np.abs(vectors).max()
    effects = [CrossedVectors(each, words).effect for each in (vectors, vectors / 7, vectors + common)]
    before, shrunk, collapsed = (effect for effect in effects if effect is not None)
    assert shrunk.value == pytest.approx(before.value, abs=1e-12)
    assert np.concatenate(collapsed.s).std() < np.concatenate(before.s).std() / 10


def test_what_cannot_be_measured_says_why() -> None:
    v = sample((3, 2, 2, 3))
    alone = WordSets({"A": [0], "B": [3], "X": [6], "Y": [8, 9]})
    assert CrossedVectors(v, alone).seat(QUICK).value is None
    one_pair = WordSets({"A": [0], "B": [3], "X": [6, 7], "Y": [8, 9]}, [(0, 3)])
    assert CrossedVectors(v, one_pair).seat(QUICK).interval is None
    with pytest.raises(BadProbe, match="word, template, d"):
        CrossedVectors(v[0], alone).seat(QUICK)
    with pytest.raises(BadProbe, match="none empty"):
        WordSets({"A": [], "B": [1], "X": [2], "Y": [3]})
    with pytest.raises(BadProbe, match="no context"):
        nested_vectors(v[:4, 0], [0, 1, 2, 3], alone)
    with pytest.raises(BadProbe, match="zero"):
        CrossedVectors(np.zeros((10, 2, 3)), one_pair).seat(QUICK)


RUNS = 1_000  # a share of 0.95 is then known to ± 1.4 points


def intervals(
    world: World, design: tuple[int, int, int, int], runs: int
) -> Iterator[tuple[Doubles, Doubles]]:
    """Vectors of words and templates that are both drawn anew, and SEAT's interval of them."""
    rng, words = np.random.default_rng(17), word_sets(*design[:3])
    for _ in range(runs):
        v = world.sample(rng, design)
        yield v, np.asarray(CrossedVectors(v, words).seat(QUICK).interval)


def over_templates_alone(v: Doubles, words: WordSets, rng: np.random.Generator) -> Doubles:
    """The percentile interval that redraws templates and takes the words as given."""
    redrawn = v[:, rng.integers(v.shape[1], size=(40, v.shape[1]))].mean(2)
    return np.quantile([plain_seat(redrawn[:, i], words) for i in range(40)], [0.025, 0.975])


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("world", list(WORLDS))
def test_93_to_97_percent_of_intervals_hold_the_truth_when_words_and_16_templates_are_redrawn(
    world: str,
) -> None:
    """The table in docs/method.md; an interval over templates alone holds the truth far less often."""
    truth, words = WORLDS[world].truth(8, 8), word_sets(8, 8, 8)
    drawn = list(intervals(WORLDS[world], (8, 8, 8, 16), RUNS))
    covered = np.mean([low <= truth <= high for _, (low, high) in drawn])
    assert 0.93 <= covered <= 0.97
    rng = np.random.default_rng(3)
    alone = [over_templates_alone(v, words, rng) for v, _ in drawn[:50]]
    assert np.mean([low <= truth <= high for low, high in alone]) < 0.6


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("world", list(WORLDS))
def test_at_least_92_percent_of_intervals_hold_the_truth_when_words_and_2_templates_are_redrawn(
    world: str,
) -> None:
    """How templates differ comes from known models, which is too wide where they agree."""
    truth = WORLDS[world].truth(8, 8)
    drawn = intervals(WORLDS[world], (8, 8, 8, 2), RUNS)
    assert np.mean([low <= truth <= high for _, (low, high) in drawn]) >= 0.92
