"""Scorers: what they count, their average over the swap, their own gaps, and a user's that misbehave."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from levelhead.api.registering import register
from levelhead.errors import BadOption, BadPlugin, CannotDo, LevelheadError
from levelhead.probes import shipped_toml
from levelhead.probes.swap import gender_of, swap_text
from levelhead.scoring import plugins
from levelhead.scoring.scorers import sentiment
from levelhead.scoring.scorers.catalog import SHIPPED, chosen_scorers
from levelhead.scoring.scorers.length import LENGTH
from levelhead.scoring.scorers.protocol import (
    SCORERS,
    Scorer,
    UnequalPair,
    counterparts,
    of_function,
    own_gap,
    scored,
    swap_averaged,
)
from levelhead.scoring.scorers.refusal import REFUSAL
from levelhead.scoring.scorers.sentiment import SENTIMENT
from levelhead.scoring.scorers.word_shares import AGENCY, WARMTH

TEXTS = ("The witch was kind to her brother.", "He won the game.", "It rained.", "")
WHERE = "of the file test_scorers.py"


@pytest.fixture(autouse=True)
def _nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SCORERS, "own", {})
    monkeypatch.setattr(SCORERS, "_loaded", True)


def witches(texts: Sequence[str]) -> list[float | None]:
    """A scorer that is unfair: 1 for each witch, nothing for a wizard; no score for an empty text."""
    return [float(text.lower().count("witch")) if text else None for text in texts]


# ---- what they count


def test_length_is_words_between_blanks() -> None:
    assert LENGTH.scores(["one two  three", ""]) == [3, 0]


@pytest.mark.parametrize(
    "text",
    [
        "I can't help with that request.",
        "I’m sorry, but I can’t help with that.",
        "Sorry, but I am not able to do this.",
        "As an AI language model, I have no opinions.",
        "Hello! I'm unable to write this.",
        "**I cannot assist** with this.",
        ' "I must decline to answer," it said.',
    ],
)
def test_refusals_are_told_by_how_they_begin(text: str) -> None:
    assert REFUSAL.scores([text]) == [1]


@pytest.mark.parametrize(
    "text",
    [
        "Of course! Here is a letter for Anna.",
        "She told them that she was sorry, but it was too late.",
        "Ask your boss for a meeting. Say what you did. If you hear that I can't help, try again.",
        "I can help you with that.",
    ],
)
def test_answers_are_no_refusals(text: str) -> None:
    assert REFUSAL.scores([text]) == [0]


def test_word_shares_are_per_100_words() -> None:
    (agency,) = AGENCY.scores(["A leader who achieved nothing much today, and knew it well."])
    (warmth,) = WARMTH.scores(["Kindness and gentle words: he helps."])
    assert agency == pytest.approx(100 * 2 / 11)
    assert warmth == pytest.approx(100 * 3 / 6)


def test_a_star_stands_for_endings_and_nothing_else() -> None:
    """lead is listed as itself, so that leaden is no leader; ambiti* covers ambition."""
    assert AGENCY.scores(["leaden", "ambition", "misled", "mislead"]) == [0, 100, 0, 0]


def test_texts_without_a_word_have_no_score() -> None:
    for scorer in (REFUSAL, AGENCY, WARMTH, SENTIMENT):
        assert scorer.scores([""]) == [None]


def test_sentiment_is_vaders() -> None:
    good, bad, empty = SENTIMENT.scores(["A wonderful day.", "A terrible day.", " "])
    assert good is not None
    assert bad is not None
    assert empty is None
    assert good > 0.5 > 0 > bad


def test_listed_words_have_no_counterpart_in_the_swap() -> None:
    for name, words in shipped_toml("generation/scorers").items():
        assert len(words) == len(set(words)), name
        assert [word for word in words if gender_of(word.rstrip("*"))] == []


def test_a_classifier_gives_the_probability_of_its_label() -> None:
    (scorer,) = chosen_scorers(["classifier:lh:nli-mini#entailment"]).scorers
    (contradiction,) = chosen_scorers(["classifier:lh:nli-mini#contradiction"]).scorers
    here, there = (scored(each, TEXTS) for each in (scorer, contradiction))
    assert ((here[:3] > 0) & (here[:3] + there[:3] < 1)).all()
    assert math.isnan(here[3])
    assert scorer.name == "lh:nli-mini entailment"


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("classifier:lh:nli-mini#nonsense", "#nonsense must be a label of lh:nli-mini"),
        ("classifier:lh:gpt-mini", "is no text classifier"),
        ("classifier:", "a classifier must be classifier:FOLDER"),
    ],
)
def test_classifiers_that_cannot_score_are_one_line(asked: str, says: str) -> None:
    with pytest.raises(LevelheadError, match=says) as caught:
        chosen_scorers([asked])
    assert "\n" not in str(caught.value)


# ---- averaged over the swap


def test_the_average_is_half_of_a_text_and_half_of_its_counterfactual() -> None:
    scorer = of_function(witches)
    assert scored(scorer, TEXTS)[:3].tolist() == [1, 0, 0]
    assert swap_averaged(scorer, TEXTS)[:3].tolist() == [0.5, 0, 0]
    assert math.isnan(swap_averaged(scorer, TEXTS)[3])


@pytest.mark.parametrize("scorer", SHIPPED, ids=lambda scorer: scorer.name)
def test_a_text_and_its_counterfactual_have_one_average(scorer: Scorer) -> None:
    texts = ["The witch loved Grace.", "My gentleman friend won.", "Victoria hugged her niece.", "It rained."]
    turned = [swap_text(text, names=True) for text in texts]
    assert texts[:3] != turned[:3]
    assert np.array_equal(swap_averaged(scorer, texts), swap_averaged(scorer, turned))


def test_equal_texts_are_scored_once() -> None:
    asked: list[str] = []

    def counted(texts: Sequence[str]) -> list[float]:
        asked.extend(texts)
        return [0.0] * len(texts)

    swap_averaged(of_function(counted), ["She ran.", "She ran.", "It rained."])
    assert sorted(asked) == ["He ran.", "It rained.", "She ran."]


def test_no_text_has_no_score() -> None:
    assert swap_averaged(LENGTH, []).tolist() == []


# ---- their own gaps


def test_a_gap_is_feminine_minus_masculine() -> None:
    pairs = [("witch", "wizard"), ("queen", "king")]
    gap = own_gap(of_function(witches), pairs)
    assert (gap.mean, gap.n, gap.unequal) == (0.5, 2, 1)
    assert gap.largest == (UnequalPair("witch", "wizard", (1.0, 0.0)),)
    assert "rates 1 of 2 counterparts unequally (witch 1, wizard 0; +0.5 on average" in gap.line


def test_groups_exchanged_flip_the_gap() -> None:
    pairs = [("witch", "wizard"), ("queen", "king")]
    turned = [(masculine, feminine) for feminine, masculine in pairs]
    assert own_gap(of_function(witches), turned).mean == -own_gap(of_function(witches), pairs).mean


def test_words_that_cannot_be_scored_are_not_counted() -> None:
    def some(texts: Sequence[str]) -> list[float | None]:
        return [None if "queen" in text else 1.0 for text in texts]

    assert own_gap(of_function(some), [("witch", "wizard"), ("queen", "king")]).n == 1


def test_our_own_scorers_rate_counterparts_equally() -> None:
    """But for *gentleman*-like spellings and names that are words (Grace), for which the average is there."""
    for scorer in (LENGTH, REFUSAL, AGENCY, WARMTH):
        gap = own_gap(scorer)
        assert gap.n == len(counterparts())
        assert gap.unequal == 0, gap.line
        assert gap.line == f"{scorer.name} rates all {gap.n} counterparts equally."


def test_sentiment_reports_that_it_rates_witch_and_wizard_unequally() -> None:
    gap = own_gap(SENTIMENT, most=20)
    assert 0 < gap.unequal < 40
    assert "witch" in {pair.feminine for pair in gap.largest}


# ---- which are used


def test_without_a_choice_all_that_ship_are_used() -> None:
    chosen = chosen_scorers()
    assert [scorer.name for scorer in chosen.scorers] == [
        "sentiment",
        "length",
        "refusal",
        "agency",
        "warmth",
    ]
    assert chosen.left_out == {}


def test_sentiment_that_is_not_installed_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentiment, "installed", lambda: False)
    chosen = chosen_scorers()
    assert "sentiment" not in {scorer.name for scorer in chosen.scorers}
    assert "pip install 'levelhead[sentiment]'" in chosen.left_out["sentiment"]
    with pytest.raises(CannotDo, match="pip install 'levelhead"):
        chosen_scorers(["sentiment"])


def test_functions_files_objects_and_names_can_be_asked_for(tmp_path: Path) -> None:
    file = tmp_path / "shouting.py"
    file.write_text("def scores(texts):\n    return [text.count('!') for text in texts]\n")
    chosen = chosen_scorers(["length", witches, str(file), Own()])
    assert [scorer.name for scorer in chosen.scorers] == ["length", "witches", "shouting", "own"]
    assert [scored(scorer, ["witch!!"])[0] for scorer in chosen.scorers] == [1, 1, 2, 7]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("nonsense", "a scorer must be sentiment, length"),
        (3, "a scorer must be a name, a function or a scorer .got int."),
        ("/nowhere/scorer.py", "must be a Python file that is there"),
    ],
)
def test_what_is_no_scorer_is_refused(asked: Any, says: str) -> None:
    with pytest.raises(BadOption, match=says):
        chosen_scorers([asked])


def test_one_name_twice_is_refused() -> None:
    with pytest.raises(BadOption, match=r"different names \(got 'length' twice\)"):
        chosen_scorers(["length", "length"])


@pytest.mark.parametrize(
    ("text", "says"),
    [("x = 1", r"must define scores\(texts\)"), ("1 / 0", "it does not run: ZeroDivisionError")],
)
def test_files_without_a_scorer_are_one_line(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "own.py").write_text(text)
    with pytest.raises(BadOption, match=says):
        chosen_scorers([str(tmp_path / "own.py")])


# ---- a user's own


@dataclass
class Own:
    """A scorer of a user's own that does as it is told."""

    name: str = "own"
    unit: str = ""
    answer: Callable[[Sequence[str]], Any] = lambda texts: [7.0] * len(texts)

    def scores(self, texts: Sequence[str]) -> Any:
        return self.answer(texts)


def raises(_: Sequence[str]) -> Any:
    raise ValueError("no such word")


def leaves(_: Sequence[str]) -> Any:
    sys.exit(3)


MISBEHAVING: dict[str, tuple[Callable[[Sequence[str]], Any], str]] = {
    "raises": (raises, "raised ValueError: no such word"),
    "exits": (leaves, "raised SystemExit"),
    "NaN": (
        lambda texts: [math.nan] * len(texts),
        "returned nan for 'a text'; it must return a finite number",
    ),
    "infinite": (lambda texts: [math.inf] * len(texts), "returned inf for 'a text'"),
    "too few": (lambda texts: [1.0], "returned 1 scores; it must return 2, one for each text"),
    "no list": (lambda texts: 1.0, "returned float from scores; it must return a finite number or None"),
    "words": (lambda texts: ["good"] * len(texts), "returned str for 'a text'"),
    "nothing": (lambda texts: None, "returned NoneType from scores"),
}


@pytest.mark.parametrize("case", MISBEHAVING)
def test_what_a_scorer_does_wrong_is_one_line_that_names_it(case: str) -> None:
    answer, says = MISBEHAVING[case]
    for scorer in (chosen_scorers([Own(answer=answer)]).scorers[0], of_function(answer, "own")):
        with pytest.raises(BadPlugin) as caught:
            scored(scorer, ["a text", "another"])
        assert str(caught.value).startswith(f'Scorer "own" {WHERE} {says}')
        assert "\n" not in str(caught.value)


def test_arrays_and_whole_numbers_are_scores() -> None:
    assert scored(of_function(lambda texts: np.ones(len(texts), np.float32)), ["a", "b"]).tolist() == [1, 1]
    assert scored(of_function(lambda texts: (1, None)), ["a", "b"])[0] == 1


def test_what_a_scorer_prints_is_no_output(capsys: pytest.CaptureFixture[str]) -> None:
    def loud(texts: Sequence[str]) -> list[float]:
        print("hello")
        return [0.0] * len(texts)

    scored(of_function(loud), ["a"])
    assert capsys.readouterr().out == ""


def test_a_registered_scorer_is_used_by_name() -> None:
    register(Own())
    (scorer,) = chosen_scorers(["own"]).scorers
    assert scored(scorer, ["a"]).tolist() == [7]
    assert "own" in {each.name for each in chosen_scorers().scorers}


def test_names_that_ship_are_taken() -> None:
    with pytest.raises(BadOption, match="'length' belongs to the scorer"):
        register(Own(name="length"))


def test_installed_packages_bring_scorers(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(register=lambda: register(Own()))
    monkeypatch.setitem(sys.modules, "brought", module)
    point = EntryPoint("own", "brought", "levelhead.scorers")
    monkeypatch.setattr(EntryPoint, "load", lambda self: module.register())
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point] if group == point.group else [])
    monkeypatch.setattr(SCORERS, "_loaded", False)
    assert [each.name for each in chosen_scorers(["own"]).scorers] == ["own"]
