"""A judge of texts: both orders, answers that are none, and labels that can be used."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from levelhead.errors import BadOption, CannotDo
from levelhead.models.served import served
from levelhead.scoring.scorers.catalog import chosen_scorers
from levelhead.scoring.scorers.judge import UNDECIDED, UNPARSED, Item, Judge, read_labels

MODEL = served("server:http://127.0.0.1:9#tiny")
GOOD, BAD = "a kind word", "a harsh word"
SINGLE = tuple(((text,), label) for text, label in ((GOOD, "yes"), (BAD, "no")) for _ in range(15))
PAIRS = tuple(((GOOD, BAD), "A") if i % 2 else ((BAD, GOOD), "B") for i in range(20))
_TEXT = re.compile(r"<text>\n(.*?)\n</text>", re.DOTALL)


def kind_judge(question: str) -> str:
    """The letter that is right, whatever the order."""
    texts = _TEXT.findall(question)
    if len(texts) == 2:
        return "C" if texts[0] == texts[1] else "A" if "kind" in texts[0] else "B"
    said = "yes" if "kind" in texts[0] else "no"
    return next(letter for letter in "AB" if f"{letter}: {said}" in question)


def by(answer: Callable[[str], str]) -> Callable[[Sequence[str]], list[str]]:
    return lambda questions: [answer(each) for each in questions]


def judge(labeled: Any = SINGLE) -> Judge:
    return Judge(MODEL, "Is the text kind?", labeled)


@pytest.mark.parametrize("labeled", [SINGLE, PAIRS])
def test_a_judge_that_is_right_needs_no_correction(labeled: tuple[tuple[Item, str], ...]) -> None:
    found, outcomes = judge(labeled).calibrated(by(kind_judge))
    assert found.slope == 1.0
    assert UNDECIDED not in sum(outcomes.values(), Counter())


@pytest.mark.parametrize("labeled", [SINGLE, PAIRS])
def test_both_orders_of_everything_are_sent(labeled: tuple[tuple[Item, str], ...]) -> None:
    sent: list[str] = []

    def ask(questions: Sequence[str]) -> list[str]:
        sent.extend(questions)
        return [kind_judge(each) for each in questions]

    judge(labeled).judged([labeled[0][0]], ask)
    assert len(sent) == 4  # two orders of the item, and of its counterfactual
    plain, turned = sent[:2]
    if len(labeled[0][0]) == 2:
        assert _TEXT.findall(plain) == _TEXT.findall(turned)[::-1]
    else:
        assert "A: yes\nB: no" in plain
        assert "A: no\nB: yes" in turned


@pytest.mark.parametrize("labeled", [SINGLE, PAIRS])
def test_a_judge_that_always_says_a_is_undecided_everywhere_and_refused(
    labeled: tuple[tuple[Item, str], ...],
) -> None:
    found = judge(labeled).judged([item for item, _ in labeled], by(lambda question: "A"))
    assert found.outcomes == {UNDECIDED: 2 * len(labeled)}
    assert (found.scores == 0.5).all()
    with pytest.raises(CannotDo, match="tells your labels apart no better than a guess") as caught:
        judge(labeled).calibrated(by(lambda question: "A"))
    assert "\n" not in str(caught.value)


def test_a_preference_for_the_first_place_is_no_score() -> None:
    """A judge that says A to three questions of ten whatever they hold: nothing of that is left in a mean."""
    rng = np.random.default_rng(0)

    def biased(question: str) -> str:
        return "A" if rng.random() < 0.3 else kind_judge(question)

    items = [(GOOD, BAD) if i % 2 else (BAD, GOOD) for i in range(2_000)]
    first_only = np.mean([biased(judge(PAIRS).question(item, False)) == "A" for item in items])
    assert first_only > 0.6  # asked once, the first place wins
    found = judge(PAIRS).judged(items, by(biased))
    assert found.scores.mean() == pytest.approx(0.5, abs=0.02)
    assert found.outcomes[UNDECIDED] / 4_000 == pytest.approx(0.3, abs=0.03)
    assert found.outcomes[UNPARSED] == 0


@pytest.mark.parametrize("rubbish", ["", "Both are nice.", "A or B", "As an AI, I", "D", "\ufffd" * 9])
def test_an_answer_without_a_letter_is_counted_and_never_scored(rubbish: str) -> None:
    found = judge().judged([(GOOD,), (BAD,)], by(lambda question: rubbish))
    assert found.outcomes == {UNPARSED: 4}
    assert np.isnan(found.scores).all()
    with pytest.raises(CannotDo, match="about 0 texts of a label, and 10 are needed; others") as caught:
        judge().calibrated(by(lambda question: rubbish))
    assert (rubbish or "nothing") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_judge_that_rates_women_higher_says_nothing_of_groups_by_itself() -> None:
    def unequal(question: str) -> str:
        texts = _TEXT.findall(question)
        said = "yes" if "she" in texts[0].split() else "no"
        return next(letter for letter in "AB" if f"{letter}: {said}" in question)

    found = judge().judged([("then she left",), ("then he left",)], by(unequal))
    assert found.scores.tolist() == [0.5, 0.5]


# ---- labels


def written(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def test_labels_come_as_jsonl_or_csv_of_texts_or_pairs(tmp_path: Path) -> None:
    rows = [{"text": item[0], "label": label} for item, label in SINGLE]
    assert read_labels(written(tmp_path / "a.jsonl", rows)) == SINGLE
    table = tmp_path / "a.csv"
    table.write_text(
        "a,b,label\n" + "".join(f"{a},{b},{x.lower()}\n" for (a, b), x in PAIRS), encoding="utf-8"
    )
    assert read_labels(table) == PAIRS


@pytest.mark.parametrize("label", [1, 0, True, "1", "maybe", None])
def test_a_label_that_may_mean_either_is_none(tmp_path: Path, label: object) -> None:
    rows = [{"text": item[0], "label": own} for item, own in SINGLE]
    found = read_labels(written(tmp_path / "a.jsonl", [*rows, {"text": "x", "label": label}]))
    assert found == SINGLE
    every = [{"text": item[0], "label": label} for item, _ in SINGLE]
    with pytest.raises(BadOption, match=r"at least 10 texts with the label yes .got 0.. 30 cannot be used"):
        read_labels(written(tmp_path / "b.jsonl", every))


def test_what_a_judge_needs_is_said_in_one_line(tmp_path: Path) -> None:
    name = MODEL.name
    labels = str(written(tmp_path / "a.jsonl", [{"text": i[0], "label": x} for i, x in SINGLE]))
    with pytest.raises(BadOption, match="without its error rates its numbers are not shown") as caught:
        chosen_scorers([f"judge:{name}"], "Is it kind?")
    assert "\n" not in str(caught.value)
    with pytest.raises(BadOption, match="--judge-rubric must say what judge:"):
        chosen_scorers([f"judge:{name}"], None, labels)
    with pytest.raises(BadOption, match="--judge-labels must be left out without --scorers judge:MODEL"):
        chosen_scorers(["length"], None, labels)
    with pytest.raises(BadOption, match="one judge at most"):
        chosen_scorers([f"judge:{name}", f"judge:{name}2"], "Is it kind?", labels)
    with pytest.raises(BadOption, match="a judge must be judge:MODEL"):
        chosen_scorers(["judge:"], "Is it kind?", labels)
    rubric = tmp_path / "rubric.txt"
    rubric.write_text("Is it kind?\n", encoding="utf-8")
    chosen = chosen_scorers(["length", f"judge:{name}"], str(rubric), labels)
    assert [each.name for each in chosen.scorers] == ["length"]
    assert chosen.judge is not None
    assert chosen.judge.rubric == "Is it kind?"
    long = chosen_scorers([f"judge:{name}"], "Is it kind? " * 400, labels)
    assert long.judge is not None  # longer than the name of a file may be
    assert chosen_scorers(["length"]).judge is None  # never by default
    assert chosen_scorers().judge is None
