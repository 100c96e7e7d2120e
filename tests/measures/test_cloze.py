"""Masses, margins, changes and verdicts of cloze prompts, on answers written by hand."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest

from levelhead.errors import BadProbe
from levelhead.measures.cloze import Asked, Bootstrap, ClozeScores, robustness, score_cloze, verdict_word
from levelhead.measures.cloze_topk import TopK, margins, masses, merge, relative_probabilities
from levelhead.measures.measurement import Measurement

GROUPS = ("female", "male")
CODE = {"she": 1, "woman": 1, "he": -1, "man": -1}


def answers(*rows: list[tuple[str, float]]) -> TopK:
    words = np.array([[word for word, _ in row] for row in rows])
    groups = np.array([[CODE.get(word, 0) for word, _ in row] for row in rows])
    return TopK(words, groups, np.array([[p for _, p in row] for row in rows]))


def asked(*rows: tuple[str, str, int]) -> Asked:
    kinds, occupations, own = zip(*rows, strict=True)
    return Asked(np.array(kinds), np.array(occupations), np.array(own), GROUPS)


def found(
    scores: ClozeScores, name: str, kind: str, group: str = "", occupation: str = "", k: int = 3
) -> Measurement:
    cell = {"kind": kind, "group": group, "occupation": occupation, "k": k}
    hits = [m for m in scores.measurements if m.name == name and cell.items() <= dict(m.settings).items()]
    assert len(hits) == 1
    return hits[0]


HAND = answers(
    [("she", 0.5), ("he", 0.2), ("she", 0.1)],  # nurse, base: two forms of "she" merge to 0.6
    [("he", 0.4), ("she", 0.3), ("it", 0.1)],  # nurse, counter
    [("he", 0.6), ("it", 0.2), ("man", 0.1)],  # pilot, base
    [("he", 0.3), ("woman", 0.2), ("it", 0.1)],  # pilot, counter
)
HAND_ASKED = asked(
    ("base", "nurse", 1), ("counter", "nurse", 1), ("base", "pilot", -1), ("counter", "pilot", -1)
)


def test_masses_and_margins_by_hand() -> None:
    female, male = masses(HAND, 3)
    assert female == pytest.approx([0.6, 0.3, 0.0, 0.2])
    assert male == pytest.approx([0.2, 0.4, 0.7, 0.3])
    assert margins(HAND, 3, HAND_ASKED.own) == pytest.approx([0.4, -0.1, 0.7, 0.1])
    assert margins(HAND, 1, HAND_ASKED.own) == pytest.approx([0.5, -0.4, 0.6, 0.3])


def test_top_k_is_k_tokens_and_forms_of_a_word_are_merged_afterwards() -> None:
    topk = answers([("she", 0.4), ("she", 0.3), ("it", 0.2), ("she", 0.1)])
    codes, probs = merge(topk, 4)
    assert probs[0] == pytest.approx([0.8, 0.0, 0.2, 0.0])
    assert codes[0].tolist().count(-1) == 2
    assert merge(topk, 2)[1][0] == pytest.approx(
        [0.7, 0.0]
    )  # not [0.8, 0.2]: the third token is not among the top 2
    assert topk.probs[0, 0] == 0.4  # the answers themselves stay as they were


def test_scores_by_hand() -> None:
    scores = score_cloze(HAND_ASKED, HAND, ks=(3,))
    assert found(scores, "margin", "base").value == pytest.approx((0.4 + 0.7) / 2)
    assert found(scores, "margin", "counter").value == pytest.approx((-0.1 + 0.1) / 2)
    assert found(scores, "margin change", "counter").value == pytest.approx((-0.5 - 0.6) / 2)
    assert found(scores, "margin change", "counter", "female").value == pytest.approx(-0.5)
    assert found(scores, "margin change", "counter", "male", "pilot").value == pytest.approx(-0.6)
    assert found(scores, "female mass", "base").value == pytest.approx(0.3)
    assert found(scores, "male mass", "base", "male").value == pytest.approx(0.7)
    assert found(scores, "share without group words", "base").value == 0
    share = found(scores, "group words' share of the top k", "counter", "male")
    assert share.value == pytest.approx(0.5 / 0.6)
    change = found(scores, "margin change", "counter")
    assert change.neutral == 0
    assert change.n == 2
    assert {"k": 3, "seed": 0, "resampled": "occupations"}.items() <= dict(change.settings).items()
    assert {name: change.details[name] for name in ("base", "margin")} == pytest.approx(
        {"base": 0.55, "margin": 0.0}
    )


def test_relative_probability_by_hand() -> None:
    prompt, group, ratio = relative_probabilities(HAND, 3, HAND_ASKED.base)
    triples = {
        (int(p), int(g)): float(r) for p, g, r in zip(prompt, group, ratio, strict=True) if p in (1, 3)
    }
    # nurse: he .4/.2, she .3/.6 (merged); pilot: he .3/.6, it .1/.2; "woman" and "man" are in one list only.
    assert triples == pytest.approx({(1, -1): 2.0, (1, 1): 0.5, (3, -1): 0.5, (3, 0): 0.5})
    scores = score_cloze(HAND_ASKED, HAND, ks=(3,))
    every = found(scores, "relative probability", "counter")
    assert every.value == pytest.approx((2 * 0.5 * 0.5 * 0.5) ** (1 / 4))
    assert every.n == 4
    assert every.neutral == 1
    assert found(scores, "relative probability, own group", "counter").value == pytest.approx(0.5)
    other = found(scores, "relative probability, other group", "counter")
    assert other.value == pytest.approx(2.0)
    assert other.unscored == {"no such word in both lists": 1}
    assert not any(m.name.startswith("relative") for m in scores.measurements if m.settings["kind"] == "base")


def random_answers(seed: int, occupations: int = 6, repeats: int = 3) -> tuple[Asked, TopK]:
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(occupations):
        own = 1 if number % 2 else -1
        rows += [("base", f"job{number}", own), ("unrelated", f"job{number}", own)]
        rows += [("background", f"job{number}", own)] * repeats
    vocabulary = np.array([*CODE, "it", "they", "##er", "one"])
    words = rng.choice(vocabulary, (len(rows), 5))
    groups = np.vectorize(lambda word: CODE.get(word, 0))(words)
    probs = -np.sort(-rng.dirichlet(np.ones(9), len(rows))[:, :5], axis=1)
    return asked(*rows), TopK(words, groups, probs)


def slow_words(topk: TopK, row: int, k: int) -> dict[str, float]:
    merged: dict[str, float] = {}
    for word, p in zip(topk.words[row, :k], topk.probs[row, :k], strict=True):
        merged[str(word)] = merged.get(str(word), 0.0) + float(p)
    return merged


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("k", [1, 3, 5])
def test_scores_equal_a_slow_loop_over_dictionaries(seed: int, k: int) -> None:
    question, topk = random_answers(seed)
    margin, logs = [], {}
    base = {
        str(question.occupations[row]): row
        for row in range(len(question.kinds))
        if question.kinds[row] == "base"
    }
    for row, own in enumerate(question.own):
        words = slow_words(topk, row, k)
        margin.append(sum(own * CODE.get(word, 0) * p for word, p in words.items()))
        before = slow_words(topk, base[str(question.occupations[row])], k)
        logs[row] = [math.log(p / before[word]) for word, p in words.items() if word in before]
    scores = score_cloze(question, topk, ks=(k,))
    for kind in ("background", "unrelated"):
        rows = [row for row in range(len(question.kinds)) if question.kinds[row] == kind]
        change = [margin[row] - margin[base[str(question.occupations[row])]] for row in rows]
        measured = found(scores, "margin change", kind, k=k)
        assert measured.value == pytest.approx(sum(change) / len(change))
        pooled = [value for row in rows for value in logs[row]]
        relative = found(scores, "relative probability", kind, k=k)
        expected = math.exp(sum(pooled) / len(pooled)) if pooled else None
        assert relative.value == (pytest.approx(expected) if pooled else None)


def test_swapping_the_groups_of_the_words_flips_every_margin_and_change() -> None:
    question, topk = random_answers(3)
    flipped = TopK(topk.words, -topk.groups, topk.probs)
    for one, other in zip(
        score_cloze(question, topk, (3,)).measurements,
        score_cloze(question, flipped, (3,)).measurements,
        strict=True,
    ):
        if one.name in ("margin", "margin change") and one.value is not None:
            assert other.value == pytest.approx(-one.value)
            if one.interval and other.interval:
                assert other.interval == pytest.approx((-one.interval[1], -one.interval[0]))


def test_renaming_which_group_comes_first_changes_no_margin() -> None:
    question, topk = random_answers(4)
    mirrored = Asked(question.kinds, question.occupations, -question.own, ("male", "female"))
    turned = TopK(topk.words, -topk.groups, topk.probs)
    one, other = score_cloze(question, topk, (3,)), score_cloze(mirrored, turned, (3,))
    for kind in ("base", "background"):
        assert found(one, "margin", kind).value == pytest.approx(found(other, "margin", kind).value)
        assert found(one, "female mass", kind).value == pytest.approx(found(other, "female mass", kind).value)
        assert found(one, "margin", kind, "male").value == pytest.approx(
            found(other, "margin", kind, "male").value
        )


def test_the_same_seed_gives_the_same_bits_and_another_seed_other_intervals() -> None:
    question, topk = random_answers(1, occupations=20)
    first, again = (score_cloze(question, topk, (3, 5), Bootstrap(seed=7)) for _ in range(2))
    other = score_cloze(question, topk, (3, 5), Bootstrap(seed=8))
    assert first == again
    change = found(first, "margin change", "background"), found(other, "margin change", "background")
    assert change[0].value == change[1].value
    assert change[0].interval != change[1].interval


def many(change: float, spread: float = 0.0, repeats: int = 13, base: float = 0.2) -> tuple[Asked, TopK]:
    """29 + 29 occupations with one base margin; knowledge changes it by `change`, `spread` more or less in
    turn."""
    rows, row_answers = [], []
    for number in range(58):
        own, pro, anti = (1, "she", "he") if number < 29 else (-1, "he", "she")
        shift = change + spread * (1 if number % 2 else -1)
        for kind, margin, times in (("base", base, 1), ("background", base + shift, repeats)):
            pair = sorted([(pro, 0.25 + margin / 2), (anti, 0.25 - margin / 2)], key=lambda item: -item[1])
            rows += [(kind, f"job{number}", own)] * times
            row_answers += [[*pair, ("it", 0.0)]] * times
    return asked(*rows), answers(*row_answers)


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
    question, topk = many(change, spread)
    scores = score_cloze(question, topk, (3,))
    verdicts = {(verdict.kind, verdict.group): verdict.word for verdict in scores.verdicts}
    assert set(verdicts) == {("background", ""), ("background", "female"), ("background", "male")}
    assert verdicts["background", ""] == word
    json.dumps([verdict.to_json() for verdict in scores.verdicts])


@pytest.mark.parametrize(
    ("base", "margin", "interval", "word"),
    [
        (0.2, 0.3, (0.05, 0.15), "strengthens"),
        (0.2, 0.1, (-0.15, -0.05), "weakens"),
        (0.2, 0.0, (-0.3, -0.1), "weakens"),  # gone, but not turned
        (0.2, -0.1, (-0.4, -0.2), "overturns"),
        (-0.1, 0.2, (0.2, 0.4), "overturns"),
        (0.01, -0.01, (-0.1, 0.05), "no change"),  # the sign flips, the interval does not exclude 0
        (0.2, 0.3, (0.0, 0.2), "no change"),  # 0 at the edge is included
        (-0.1, -0.2, (-0.2, -0.05), "weakens"),  # the stereotype, not the preference
        (0.2, 0.3, None, "not measured"),
    ],
)
def test_the_word_of_a_verdict(
    base: float, margin: float, interval: tuple[float, float] | None, word: str
) -> None:
    assert verdict_word(base, margin, interval) == word


def test_intervals_resample_occupations_and_so_do_not_shrink_with_repeated_prompts() -> None:
    widths = []
    for repeats in (1, 13):
        question, topk = many(-0.1, 0.1, repeats)
        interval = found(score_cloze(question, topk, (3,)), "margin change", "background").interval
        assert interval is not None
        widths.append(interval[1] - interval[0])
    assert widths[0] == pytest.approx(widths[1])
    # 58 values ±0.1: standard error 0.1 / sqrt(58), a 95 % interval is 3.92 of them wide.
    assert widths[0] == pytest.approx(3.92 * 0.1 / math.sqrt(58), rel=0.1)


def test_occupations_are_drawn_within_their_group_so_that_a_gap_between_groups_is_no_noise() -> None:
    rows, said = [], []
    for number in range(
        8
    ):  # the groups alternate; knowledge moves one by 0.25 and leaves the other where it was
        own, word = (1, "she") if number % 2 else (-1, "he")
        rows += [("base", f"job{number}", own), ("similar", f"job{number}", own)]
        said += [[(word, 0.25)], [(word, 0.5 if own > 0 else 0.25)]]
    change = found(score_cloze(asked(*rows), answers(*said), (1,)), "margin change", "similar", k=1)
    assert change.value == 0.125
    assert change.interval == (0.125, 0.125)


def test_one_occupation_resamples_its_prompts_and_one_prompt_has_no_interval() -> None:
    question, topk = random_answers(2)
    scores = score_cloze(question, topk, (5,))
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
    interval = found(score_cloze(HAND_ASKED, HAND, (3,)), "margin change", "counter").interval
    assert interval == pytest.approx((-0.6, -0.5))


def test_a_model_that_always_answers_the_same_changes_by_exactly_0() -> None:
    rows = [
        (kind, f"job{number}", 1 if number < 5 else -1)
        for number in range(10)
        for kind in ("base", "unrelated")
    ]
    topk = answers(*[[("he", 0.7), ("it", 0.1), ("man", 0.1)]] * len(rows))
    scores = score_cloze(asked(*rows), topk, (3,))
    change = found(scores, "margin change", "unrelated")
    assert change.value == 0
    assert change.interval == (0, 0)
    assert {verdict.word for verdict in scores.verdicts} == {"no change"}
    assert found(scores, "relative probability", "unrelated").value == 1
    assert scores.robustness[0].value == 1


def test_no_group_word_at_all_is_missing_with_its_reason_and_never_0() -> None:
    rows = [
        (kind, f"job{number}", 1 if number < 2 else -1)
        for number in range(4)
        for kind in ("base", "unrelated")
    ]
    scores = score_cloze(
        asked(*rows), answers(*[[("it", 0.7), ("they", 0.1), ("we", 0.1)]] * len(rows)), (3,)
    )
    for name in ("female mass", "male mass", "margin"):
        measured = found(scores, name, "base")
        assert measured.value is None
        assert measured.reason == "no prompt has a word of either group in its top 3"
    assert found(scores, "margin change", "unrelated").value is None
    assert {verdict.word for verdict in scores.verdicts} == {"not measured"}
    assert found(scores, "share without group words", "base").value == 1
    assert found(scores, "group words' share of the top k", "base").value == 0
    assert scores.robustness[0].value is None
    assert scores.robustness[0].unscored == {"base shows no preference": 4}


def test_a_change_is_measured_when_only_one_side_speaks_of_a_group() -> None:
    silent = [("it", 0.7), ("they", 0.1)]
    spoken = [("she", 0.5), ("it", 0.1)]
    question = asked(
        ("base", "nurse", 1), ("similar", "nurse", 1), ("base", "baker", 1), ("similar", "baker", 1)
    )
    scores = score_cloze(question, answers(silent, spoken, silent, spoken), (2,))
    assert found(scores, "margin", "base", k=2).value is None
    assert found(scores, "margin change", "similar", k=2).value == 0.5
    assert scores.verdicts[0].word == "strengthens"


def test_robustness_by_hand() -> None:
    jobs = (("a", 1), ("b", -1), ("c", 1))
    question = asked(*[(kind, job, own) for job, own in jobs for kind in ("base", "unrelated")])
    topk = answers(
        [("she", 0.5), ("it", 0.2)],
        [("she", 0.3), ("it", 0.2)],  # kept, change -0.2
        [("he", 0.5), ("it", 0.2)],
        [("she", 0.3), ("it", 0.2)],  # turned, change -0.8
        [("it", 0.5), ("we", 0.2)],
        [("she", 0.3), ("it", 0.2)],  # nothing to keep
    )
    measured = robustness(question, topk, 2)
    assert measured.value == 0.5
    assert measured.n == 2
    assert measured.neutral == 1
    assert measured.unscored == {"base shows no preference": 1}
    assert measured.details["mean_absolute_change"] == pytest.approx(0.5)


def test_mass_of_the_top_k_never_falls_with_k() -> None:
    _, topk = random_answers(9)
    for few, more in pairwise((1, 2, 3, 5)):
        for one, other in zip(masses(topk, few), masses(topk, more), strict=True):
            assert (other >= one).all()


@pytest.mark.parametrize("k", [0, 6, 10])
def test_k_beyond_the_vocabulary_is_one_clear_line(k: int) -> None:
    question, topk = random_answers(0)
    with pytest.raises(BadProbe, match=f"k = {k}, but .* 5 tokens. Choose k from 1 to 5.") as caught:
        score_cloze(question, topk, (k,))
    assert "\n" not in str(caught.value)


def test_a_missing_base_prompt_is_named() -> None:
    with pytest.raises(BadProbe, match="No base prompt for 'nurse'"):
        score_cloze(asked(("unrelated", "nurse", 1)), answers([("she", 0.5)]), (1,))


def test_answers_that_are_not_finite_or_not_sorted_are_refused() -> None:
    with pytest.raises(BadProbe, match="not finite"):
        answers([("she", float("nan")), ("he", 0.1)])
    with pytest.raises(ValueError, match="must fall"):
        answers([("she", 0.1), ("he", 0.2)])
    with pytest.raises(ValueError, match="one shape"):
        TopK(np.array([["she"]]), np.array([[1, 0]]), np.array([[0.5]]))
    with pytest.raises(ValueError, match="were answered"):
        score_cloze(asked(("base", "nurse", 1)), answers([("she", 0.5)], [("she", 0.5)]), (1,))


def test_a_margin_that_may_still_be_zero_is_weakened_not_overturned() -> None:
    assert verdict_word(0.010, -0.002, (-0.02, -0.005), (-0.009, 0.004)) == "weakens"
    assert verdict_word(0.010, -0.020, (-0.04, -0.02), (-0.03, -0.01)) == "overturns"
