"""Changes, relative probabilities, verdicts and robustness of cloze prompts, against loops and by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from levelhead.errors import BadOption, BadProbe
from levelhead.measures.cloze import (
    PromptTable,
    TopK,
    Verdict,
    relative_probabilities,
    robustness,
    score_cloze,
)
from levelhead.measures.measurement import Null
from levelhead.measures.statistics import Resampling
from tests.measures.cloze_cases import (
    CODE,
    HAND,
    HAND_PROMPTS,
    answers,
    cell,
    prompts,
    random_answers,
)


def test_scores_by_hand() -> None:
    scores = score_cloze(HAND_PROMPTS, HAND, ks=(3,))
    assert cell(scores, "margin", "base").value == pytest.approx((0.4 + 0.7) / 2)
    assert cell(scores, "margin", "counter").value == pytest.approx((-0.1 + 0.1) / 2)
    assert cell(scores, "margin change", "counter").value == pytest.approx((-0.5 - 0.6) / 2)
    assert cell(scores, "margin change", "counter", "female").value == pytest.approx(-0.5)
    assert cell(scores, "margin change", "counter", "male", "pilot").value == pytest.approx(-0.6)
    assert cell(scores, "female mass", "base").value == pytest.approx(0.3)
    assert cell(scores, "male mass", "base", "male").value == pytest.approx(0.7)
    assert cell(scores, "share without group words", "base").value == 0
    share = cell(scores, "group words' share of the top k", "counter", "male")
    assert share.value == pytest.approx(0.5 / 0.6)
    change = cell(scores, "margin change", "counter")
    assert change.neutral == 0
    assert change.n == 2
    stated = {"k": 3, "interval": "percentile bootstrap", "resampled": "occupations"}
    assert (stated | {"seed": 0, "resamples": 2000, "level": 0.95}).items() <= dict(change.settings).items()
    assert {name: change.details[name] for name in ("base", "reached")} == pytest.approx(
        {"base": 0.55, "reached": 0.0}
    )


def test_relative_probability_by_hand() -> None:
    prompt, group, ratio = relative_probabilities(HAND, 3, HAND_PROMPTS.base)
    triples = {
        (int(p), int(g)): float(r) for p, g, r in zip(prompt, group, ratio, strict=True) if p in (1, 3)
    }
    # nurse: he .4/.2, she .3/.6 (merged); pilot: he .3/.6, it .1/.2; "woman" and "man" are in one list only.
    assert triples == pytest.approx({(1, -1): 2.0, (1, 1): 0.5, (3, -1): 0.5, (3, 0): 0.5})
    scores = score_cloze(HAND_PROMPTS, HAND, ks=(3,))
    every = cell(scores, "relative probability", "counter")
    assert every.value == pytest.approx((2 * 0.5 * 0.5 * 0.5) ** (1 / 4))
    assert every.n == 4
    assert every.neutral == 1
    assert cell(scores, "relative probability, own group", "counter").value == pytest.approx(0.5)
    other = cell(scores, "relative probability, other group", "counter")
    assert other.value == pytest.approx(2.0)
    assert other.unscored == {"no such word in both lists": 1}
    assert not any(m.name.startswith("relative") for m in scores.measurements if m.settings["kind"] == "base")


def slow_words(topk: TopK, prompt: int, k: int) -> dict[str, float]:
    merged: dict[str, float] = {}
    for word, p in zip(topk.words[prompt, :k], topk.probs[prompt, :k], strict=True):
        merged[str(word)] = merged.get(str(word), 0.0) + float(p)
    return merged


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("k", [1, 3, 5])
def test_scores_equal_a_slow_loop_over_dictionaries(seed: int, k: int) -> None:
    table, topk = random_answers(seed)
    margin, logs = [], {}
    base = {
        str(table.occupations[prompt]): prompt
        for prompt in range(len(table.kinds))
        if table.kinds[prompt] == "base"
    }
    for prompt, own in enumerate(table.own):
        words = slow_words(topk, prompt, k)
        margin.append(sum(own * CODE.get(word, 0) * p for word, p in words.items()))
        before = slow_words(topk, base[str(table.occupations[prompt])], k)
        logs[prompt] = [math.log(p / before[word]) for word, p in words.items() if word in before]
    scores = score_cloze(table, topk, ks=(k,))
    for kind in ("background", "unrelated"):
        listed = [prompt for prompt in range(len(table.kinds)) if table.kinds[prompt] == kind]
        change = [margin[prompt] - margin[base[str(table.occupations[prompt])]] for prompt in listed]
        measured = cell(scores, "margin change", kind, k=k)
        assert measured.value == pytest.approx(sum(change) / len(change))
        pooled = [value for prompt in listed for value in logs[prompt]]
        relative = cell(scores, "relative probability", kind, k=k)
        expected = math.exp(sum(pooled) / len(pooled)) if pooled else None
        assert relative.value == (pytest.approx(expected) if pooled else None)


def test_swapping_the_groups_of_the_words_flips_every_margin_and_change() -> None:
    table, topk = random_answers(3)
    flipped = TopK(topk.words, -topk.groups, topk.probs)
    for one, other in zip(
        score_cloze(table, topk, (3,)).measurements,
        score_cloze(table, flipped, (3,)).measurements,
        strict=True,
    ):
        if one.name in ("margin", "margin change") and one.value is not None:
            assert other.value == pytest.approx(-one.value)
            if one.interval and other.interval:
                assert other.interval == pytest.approx((-one.interval[1], -one.interval[0]))


def test_renaming_which_group_comes_first_changes_no_margin() -> None:
    table, topk = random_answers(4)
    mirrored = PromptTable(table.kinds, table.occupations, -table.own, ("male", "female"))
    turned = TopK(topk.words, -topk.groups, topk.probs)
    one, other = score_cloze(table, topk, (3,)), score_cloze(mirrored, turned, (3,))
    for kind in ("base", "background"):
        assert cell(one, "margin", kind).value == pytest.approx(cell(other, "margin", kind).value)
        assert cell(one, "female mass", kind).value == pytest.approx(cell(other, "female mass", kind).value)
        assert cell(one, "margin", kind, "male").value == pytest.approx(
            cell(other, "margin", kind, "male").value
        )


def test_the_same_seed_gives_the_same_bits_and_another_seed_other_intervals() -> None:
    table, topk = random_answers(1, occupations=20)
    first, again = (score_cloze(table, topk, (3, 5), Resampling(seed=7)) for _ in range(2))
    other = score_cloze(table, topk, (3, 5), Resampling(seed=8))
    assert first == again
    change = cell(first, "margin change", "background"), cell(other, "margin change", "background")
    assert change[0].value == change[1].value
    assert change[0].interval != change[1].interval


def many(
    change: float, spread: float = 0.0, repeats: int = 13, base: float = 0.2
) -> tuple[PromptTable, TopK]:
    """29 + 29 occupations with one base margin; knowledge changes it by `change`, `spread` more or less in
    turn."""
    listed: list[tuple[str, str, int]] = []
    lines: list[list[tuple[str, float]]] = []
    for number in range(58):
        own, pro, anti = (1, "she", "he") if number < 29 else (-1, "he", "she")
        shift = change + spread * (1 if number % 2 else -1)
        for kind, margin, times in (("base", base, 1), ("background", base + shift, repeats)):
            pair = sorted([(pro, 0.25 + margin / 2), (anti, 0.25 - margin / 2)], key=lambda item: -item[1])
            listed += [(kind, f"job{number}", own)] * times
            lines += [[*pair, ("it", 0.0)]] * times
    return prompts(*listed), answers(*lines)


@pytest.mark.parametrize(
    ("change", "spread", "word"),
    [
        (0.1, 0.01, "strengthens"),
        (-0.1, 0.01, "weakens"),
        (-0.3, 0.01, "overturns"),
        (0.0, 0.1, "no change"),
        (-0.003, 0.1, "no change"),
    ],
)
def test_verdicts(change: float, spread: float, word: str) -> None:
    table, topk = many(change, spread)
    scores = score_cloze(table, topk, (3,))
    verdicts = {(verdict.kind, verdict.group): verdict.word for verdict in scores.verdicts}
    assert set(verdicts) == {("background", ""), ("background", "female"), ("background", "male")}
    assert verdicts["background", ""] == ("no change" if word == "no change" else "untested")
    (change_of_all,) = [v.change for v in scores.verdicts if not v.group]
    held = replace(change_of_all, null=Null("null models", 9, 0.0, 0.01, 0.001))
    assert Verdict.of(held).word == word
    silent = "no change" if word == "no change" else "not more than in null models"
    assert Verdict.of(replace(held, null=Null("null models", 9, 0.0, 0.1, 0.3))).word == silent
    few = "no change" if word == "no change" else "too few null models"
    assert Verdict.of(replace(held, null=Null("null models", 3, 0.0, 0.1, 0.3))).word == few


def test_intervals_resample_occupations_and_so_do_not_shrink_with_repeated_prompts() -> None:
    widths = []
    for repeats in (1, 13):
        table, topk = many(-0.1, 0.1, repeats)
        interval = cell(score_cloze(table, topk, (3,)), "margin change", "background").interval
        assert interval is not None
        widths.append(interval[1] - interval[0])
    assert widths[0] == pytest.approx(widths[1])
    # 58 values ±0.1: standard error 0.1 / sqrt(58), a 95 % interval is 3.92 of them wide.
    assert widths[0] == pytest.approx(3.92 * 0.1 / math.sqrt(58), rel=0.1)


def test_occupations_are_drawn_within_their_group_so_that_a_gap_between_groups_is_no_noise() -> None:
    listed: list[tuple[str, str, int]] = []
    lines: list[list[tuple[str, float]]] = []
    for number in range(8):  # the groups alternate; knowledge moves one by 0.25 and leaves the other
        own, word = (1, "she") if number % 2 else (-1, "he")
        listed += [("base", f"job{number}", own), ("similar", f"job{number}", own)]
        lines += [[(word, 0.25)], [(word, 0.5 if own > 0 else 0.25)]]
    change = cell(score_cloze(prompts(*listed), answers(*lines), (1,)), "margin change", "similar", k=1)
    assert change.value == 0.125
    assert change.interval == (0.125, 0.125)


def test_one_occupation_resamples_its_prompts_and_one_prompt_has_no_interval() -> None:
    table, topk = random_answers(2)
    scores = score_cloze(table, topk, (5,))
    several = next(
        m
        for m in scores.measurements
        if m.name == "margin" and m.settings["kind"] == "background" and m.settings["occupation"] and m.value
    )
    assert several.interval is not None
    assert several.settings["resampled"] == "prompts"
    single = [m for m in scores.measurements if m.settings["kind"] == "base" and m.settings["occupation"]]
    assert single
    assert all(m.interval is None for m in single)


def test_two_occupations_of_two_groups_still_vary() -> None:
    interval = cell(score_cloze(HAND_PROMPTS, HAND, (3,)), "margin change", "counter").interval
    assert interval == pytest.approx((-0.6, -0.5))


def test_a_model_that_always_answers_the_same_changes_by_exactly_0() -> None:
    listed = [
        (kind, f"job{number}", 1 if number < 5 else -1)
        for number in range(10)
        for kind in ("base", "unrelated")
    ]
    topk = answers(*[[("he", 0.7), ("it", 0.1), ("man", 0.1)]] * len(listed))
    scores = score_cloze(prompts(*listed), topk, (3,))
    change = cell(scores, "margin change", "unrelated")
    assert change.value == 0
    assert change.interval == (0.0, 0.0)
    assert {verdict.word for verdict in scores.verdicts} == {"no change"}
    assert cell(scores, "relative probability", "unrelated").value == 1
    assert scores.robustness[0].value == 1


def test_no_group_word_at_all_is_missing_with_its_reason_and_never_0() -> None:
    listed = [
        (kind, f"job{number}", 1 if number < 2 else -1)
        for number in range(4)
        for kind in ("base", "unrelated")
    ]
    scores = score_cloze(
        prompts(*listed), answers(*[[("it", 0.7), ("they", 0.1), ("we", 0.1)]] * len(listed)), (3,)
    )
    for name in ("female mass", "male mass", "margin"):
        measured = cell(scores, name, "base")
        assert measured.value is None
        assert "either group in its top 3" in measured.reason
    assert cell(scores, "margin change", "unrelated").value is None
    assert {verdict.word for verdict in scores.verdicts} == {"not measured"}
    assert cell(scores, "share without group words", "base").value == 1
    assert cell(scores, "group words' share of the top k", "base").value == 0
    assert scores.robustness[0].value is None
    assert scores.robustness[0].unscored == {"base shows no preference": 4}


def test_a_change_is_measured_when_only_one_side_speaks_of_a_group() -> None:
    silent = [("it", 0.7), ("they", 0.1)]
    spoken = [("she", 0.5), ("it", 0.1)]
    table = prompts(
        ("base", "nurse", 1), ("similar", "nurse", 1), ("base", "baker", 1), ("similar", "baker", 1)
    )
    scores = score_cloze(table, answers(silent, spoken, silent, spoken), (2,))
    assert cell(scores, "margin", "base", k=2).value is None
    assert cell(scores, "margin change", "similar", k=2).value == 0.5
    assert scores.verdicts[0].word == "untested"


def test_robustness_by_hand() -> None:
    jobs = (("a", 1), ("b", -1), ("c", 1))
    table = prompts(*[(kind, job, own) for job, own in jobs for kind in ("base", "unrelated")])
    topk = answers(
        [("she", 0.5), ("it", 0.2)],
        [("she", 0.3), ("it", 0.2)],  # kept, change -0.2
        [("he", 0.5), ("it", 0.2)],
        [("she", 0.3), ("it", 0.2)],  # turned, change -0.8
        [("it", 0.5), ("we", 0.2)],
        [("she", 0.3), ("it", 0.2)],  # nothing to keep
    )
    measured = robustness(table, topk, 2)
    assert measured.value == 0.5
    assert measured.n == 2
    assert measured.neutral == 1
    assert measured.unscored == {"base shows no preference": 1}
    assert measured.details["mean_absolute_change"] == pytest.approx(0.5)


def test_masses_that_differ_by_rounding_are_no_preference() -> None:
    table = prompts(("base", "nurse", 1), ("unrelated", "nurse", 1))
    topk = answers([("he", 0.3), ("she", 0.2), ("woman", 0.1)], [("he", 0.5), ("it", 0.2), ("we", 0.1)])
    assert topk.probs[0, 0] != topk.probs[0, 1:].sum()
    assert robustness(table, topk, 3).unscored == {"base shows no preference": 1}


@pytest.mark.parametrize("k", [0, 6, 10])
def test_k_beyond_the_vocabulary_is_one_clear_line(k: int) -> None:
    table, topk = random_answers(0)
    with pytest.raises(BadOption, match=rf"k must be 1 to 5, .* \(got {k}\)") as caught:
        score_cloze(table, topk, (k,))
    assert "\n" not in str(caught.value)


def test_a_missing_base_prompt_is_named() -> None:
    with pytest.raises(BadProbe, match="No base prompt for 'nurse'"):
        score_cloze(prompts(("unrelated", "nurse", 1)), answers([("she", 0.5)]), (1,))


def test_answers_that_are_not_finite_or_not_sorted_are_refused() -> None:
    with pytest.raises(BadProbe, match="not finite"):
        answers([("she", float("nan")), ("he", 0.1)])
    with pytest.raises(ValueError, match="must fall"):
        answers([("she", 0.1), ("he", 0.2)])
    with pytest.raises(ValueError, match="one shape"):
        TopK(np.array([["she"]]), np.array([[1, 0]]), np.array([[0.5]]))
    with pytest.raises(ValueError, match=r"must have an answer \(got 2 of 1\)"):
        score_cloze(prompts(("base", "nurse", 1)), answers([("she", 0.5)], [("she", 0.5)]), (1,))
