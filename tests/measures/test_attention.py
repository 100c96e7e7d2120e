"""The counter-stereotype experiment on attention that can be read off, and against scipy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from levelhead.errors import BadProbe
from levelhead.measures.attention import attention_to_attribute, counter_contrasts, counter_test
from levelhead.measures.clustered import Clusterings
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import FloatArray

Bools = npt.NDArray[np.bool_]


def one_head(*rows: list[float]) -> FloatArray:
    """[layer 1, head 1, target token, token]"""
    return np.array([[rows]])


def slow_attention(rows: FloatArray, allowed: Bools, attribute: Bools) -> FloatArray:
    layers, heads, targets, tokens = rows.shape
    out = np.full((layers, heads), np.nan)
    for layer in range(layers):
        for head in range(heads):
            scores = []
            for row in range(targets):
                kept = [t for t in range(tokens) if allowed[row, t]]
                seen = [rows[layer, head, row, t] for t in kept]
                wanted = [t for t in kept if attribute[t]]
                if seen and wanted and max(seen) > min(seen):
                    spread = max(seen) - min(seen)
                    scores.append(sum((rows[layer, head, row, t] - min(seen)) / spread for t in wanted))
            if scores:
                out[layer, head] = np.mean(scores)
    return out


def test_attention_by_hand_without_special_tokens() -> None:
    # [CLS] women are emotional [SEP]: the row of "emotional"; without special tokens min 0.1, max 0.3
    rows = one_head([0.25, 0.2, 0.1, 0.3, 0.15])
    allowed, attribute = [False, True, True, True, False], [False, True, False, False, False]
    assert attention_to_attribute(rows, allowed, attribute) == pytest.approx(np.array([[0.5]]))


def test_tokens_of_the_attribute_are_added_and_of_the_target_averaged() -> None:
    rows = one_head([0.0, 0.2, 0.4], [0.4, 0.0, 0.1])
    # attribute: columns 0 and 1; rows scaled by 0.4: 0 + 0.5 and 1 + 0
    assert attention_to_attribute(rows, [True] * 3, [True, True, False]) == pytest.approx(np.array([[0.75]]))


def test_attention_equals_a_slow_loop_in_every_head() -> None:
    rng = np.random.default_rng(0)
    rows, attribute = rng.dirichlet(np.ones(9), size=(3, 4, 2)), np.arange(9) == 3
    allowed = np.tile(rng.random(9) < 0.8, (2, 1)) | attribute
    causal = allowed & (np.arange(9) <= np.array([[5], [6]]))
    expected = slow_attention(rows, allowed, attribute)
    assert attention_to_attribute(rows, allowed[0], attribute) == pytest.approx(expected)
    assert attention_to_attribute(rows, causal, attribute) == pytest.approx(
        slow_attention(rows, causal, attribute)
    )
    assert not np.allclose(expected, slow_attention(rows, causal, attribute))


def test_scaling_a_row_changes_nothing() -> None:
    rows = np.random.default_rng(0).random((2, 2, 1, 6))
    attribute = np.arange(6) == 1
    assert attention_to_attribute(rows * 7 + 3, [True] * 6, attribute) == pytest.approx(
        attention_to_attribute(rows, [True] * 6, attribute)
    )


def test_a_constant_row_and_an_unseen_attribute_are_unscored() -> None:
    constant = one_head([0.5, 0.5], [0.2, 0.8])
    assert attention_to_attribute(constant, [True, True], [False, True]) == pytest.approx(np.array([[1.0]]))
    assert np.isnan(attention_to_attribute(constant[:, :, :1], [True, True], [False, True])).all()
    assert np.isnan(attention_to_attribute(constant, [True, False], [False, True])).all()
    later = np.array([[True, True, False], [True, True, False]])
    rows = np.random.default_rng(0).random((1, 1, 2, 3))
    assert np.isnan(attention_to_attribute(rows, later, [False, False, True])).all()


def test_bad_attention_is_refused() -> None:
    with pytest.raises(BadProbe, match="layer, head, token, token"):
        attention_to_attribute(np.ones((2, 3)), [True] * 3, [True] * 3)
    with pytest.raises(BadProbe, match="allowed has shape"):
        attention_to_attribute(np.ones((1, 1, 1, 3)), [True] * 2, [True] * 3)


# --- the test


SCORES = np.array([[0.5, -0.1], [0.0, 0.2]])  # two biased heads, two regular ones (0 is regular)


def planted(n: int = 500, change: float = 0.05) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(0)
    counter = rng.random((n, 2, 2))
    return counter + rng.normal(0, 0.1, size=counter.shape) + change * (SCORES > 0), counter


def test_groups_equal_scipys_one_tailed_paired_test_of_the_mean_over_heads() -> None:
    original, counter = planted()
    groups = counter_test(original, counter, SCORES).groups
    for name, heads in (("biased", SCORES > 0), ("regular", SCORES <= 0)):
        theirs = stats.ttest_rel(original[:, heads].mean(1), counter[:, heads].mean(1), alternative="greater")
        assert groups[name].details["t"] == pytest.approx(theirs.statistic)
        assert groups[name].details["p_value"] == pytest.approx(theirs.pvalue)
        assert groups[name].n == 500
        assert groups[name].value == pytest.approx((original - counter)[:, heads].mean())


def test_a_planted_change_is_found_in_the_biased_heads_only() -> None:
    result = counter_test(*planted(), SCORES)
    biased, regular = result.groups["biased"], result.groups["regular"]
    assert float(biased.details["p_value"] or 1) < 1e-6
    assert float(regular.details["p_value"] or 0) > 0.05
    assert biased.interval is not None
    assert biased.interval[0] > 0.03
    assert ((result.q_value < 0.001) == (SCORES > 0)).all()


def test_every_head_has_its_own_test_and_q_values_are_those_of_statsmodels() -> None:
    original, counter = planted(40)
    result = counter_test(original, counter, SCORES)
    theirs = stats.ttest_rel(original, counter, alternative="greater", axis=0)
    assert result.t == pytest.approx(theirs.statistic)
    assert result.p_value == pytest.approx(theirs.pvalue)
    assert result.q_value.ravel() == pytest.approx(multipletests(theirs.pvalue.ravel(), method="fdr_bh")[1])
    assert result.difference == pytest.approx((original - counter).mean(axis=0))


def test_exchanging_original_and_counter_flips_the_sign_and_the_tail() -> None:
    original, counter = planted(40)
    forth, back = counter_test(original, counter, SCORES), counter_test(counter, original, SCORES)
    assert back.t == pytest.approx(-forth.t)
    assert back.p_value == pytest.approx(1 - forth.p_value)


def test_unscored_sentences_are_counted_and_a_head_unscored_on_one_side_counts_on_neither() -> None:
    original, counter = planted(20)
    original[0] = np.nan  # the attribute comes after the target: no head sees it
    counter[1, 0, 0] = np.nan
    result = counter_test(original, counter, SCORES)
    biased = result.groups["biased"]
    assert (biased.n, biased.unscored) == (19, {"sentence without scored attention": 1})
    assert result.n.tolist() == [[18, 19], [19, 19]]
    by_hand = (original - counter)[:, SCORES > 0]
    assert biased.value == pytest.approx(np.mean([by_hand[1, 1], *by_hand[2:].mean(axis=1)]))


def test_identical_attention_has_no_t_and_a_group_without_heads_is_not_measured() -> None:
    same = np.random.default_rng(0).random((10, 2, 2))
    result = counter_test(same, same, np.full((2, 2), 0.3))
    assert result.groups["biased"].value == 0.0
    assert result.groups["biased"].details["t"] is None
    assert np.isnan(result.q_value).all()
    assert result.groups["regular"].reason == "no head in this group"
    assert "at least 2" in counter_test(same[:1], same[:1], SCORES).groups["biased"].reason


# --- contrasts


def by_part(
    original: FloatArray, counter: FloatArray, in_a: npt.ArrayLike, clusterings: Clusterings
) -> dict[tuple[str, str], Measurement]:
    contrasts = counter_contrasts(original, counter, SCORES, in_a, clusterings)
    return {(contrast.heads, contrast.part): contrast.measurement for contrast in contrasts}


def alternating(n: int) -> npt.NDArray[np.bool_]:
    return np.asarray(np.arange(n) % 2 == 0)


def sentences(n: int) -> Clusterings:
    return {"sentence": np.arange(n)}


def test_contrasts_by_hand() -> None:
    counter = np.zeros((4, 2, 2))
    original = counter.copy()
    original[:, 0, 0], original[:, 1, 1] = [0.4, 0.2, 0.6, 0.0], [0.2, 0.0, 0.4, 0.2]  # the biased heads
    original[:, 0, 1] = [0.2, 0.0, 0.0, 0.2]  # one of the two regular heads
    parts = by_part(original, counter, [True, True, False, False], sentences(4))
    # biased 0.3 0.1 0.5 0.1, regular 0.1 0 0 0.1: y = 0.2 0.1 0.5 0.0
    assert parts["biased - regular", "whole"].value == pytest.approx(0.2)
    assert parts["biased - regular", "stereotype"].value == pytest.approx((0.15 + 0.25) / 2)
    assert parts["biased - regular", "group words"].value == pytest.approx((0.15 - 0.25) / 2)
    assert parts["biased", "whole"].value == pytest.approx(0.25)


def test_looking_at_one_groups_words_is_told_from_following_the_stereotype() -> None:
    n, rng = 200, np.random.default_rng(0)
    in_a, counter = alternating(n), rng.random((n, 2, 2))
    noise = counter + rng.normal(0, 0.05, size=counter.shape)
    side = np.where(in_a, 1.0, -1.0)[:, None, None]
    looks = by_part(noise + 0.05 * side * (SCORES > 0), counter, in_a, sentences(n))
    follows = by_part(noise + 0.05 * (SCORES > 0), counter, in_a, sentences(n))
    p_values = [
        {part: each.null.p_value for (heads, part), each in parts.items() if each.null and heads == "biased"}
        for parts in (looks, follows)
    ]
    assert p_values[0]["group words"] < 1e-3 < 0.05 < p_values[0]["stereotype"]
    assert p_values[1]["stereotype"] < 1e-3 < 0.05 < p_values[1]["group words"]


def test_a_change_of_all_heads_alike_is_no_contrast() -> None:
    original, counter = planted(200, change=0.0)
    parts = by_part(original + 0.05, counter, alternating(200), sentences(200))
    alone, against = parts["biased", "whole"], parts["biased - regular", "whole"]
    assert alone.null is not None
    assert against.null is not None
    assert alone.null.p_value < 1e-3 < 0.05 < against.null.p_value


def test_sentences_of_few_templates_are_less_evidence_than_as_many_of_their_own() -> None:
    rng = np.random.default_rng(1)
    templates = np.arange(200) % 8
    change = 0.02 + rng.normal(0, 0.05, size=8)[templates]
    counter = rng.random((200, 2, 2))
    original = counter + rng.normal(0, 0.02, size=counter.shape) + change[:, None, None] * (SCORES > 0)
    key = ("biased - regular", "whole")
    alone = by_part(original, counter, alternating(200), sentences(200))[key]
    together = by_part(original, counter, alternating(200), {"template": templates})[key]
    assert alone.value == together.value
    assert alone.null is not None
    assert together.null is not None
    assert alone.null.p_value < 0.01 < together.null.p_value


def test_contrasts_count_unscored_sentences_and_say_what_is_missing() -> None:
    original, counter = planted(20)
    original[0] = np.nan
    parts = by_part(original, counter, np.ones(20, dtype=bool), sentences(20))
    whole = parts["biased - regular", "whole"]
    assert (whole.n, whole.unscored) == (19, {"sentence without scored attention": 1})
    assert parts["biased - regular", "stereotype"].reason == "all sentences are of one side"
    nobody = counter_contrasts(original, counter, np.full((2, 2), 0.3), alternating(20), sentences(20))
    assert "0 sentences with scored attention" in nobody[0].measurement.reason
    with pytest.raises(BadProbe, match="20 sentences need one side each"):
        counter_contrasts(original, counter, SCORES, [True, False, True], sentences(20))


def test_bad_shapes_and_scores_are_refused() -> None:
    with pytest.raises(BadProbe, match="do not fit"):
        counter_test(np.ones((3, 2, 2)), np.ones((3, 2, 2)), np.ones((2, 3)))
    with pytest.raises(BadProbe, match="finite score"):
        counter_test(np.ones((3, 2, 2)), np.ones((3, 2, 2)), np.full((2, 2), np.nan))
