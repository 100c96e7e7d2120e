"""The calibration counts right, its models are what they are called, and a small one stays silent."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.calibrate import PAGE, Audited, Rate, main, planted, random_weights, rates, read, shuffled
from benchmarks.calibrated_claims import Evidence, Subject, association
from statsmodels.stats.proportion import proportion_confint

from levelhead.engine.readings import WordVectors
from levelhead.engine.run import read_one
from levelhead.models.encoding import Text, find_word
from levelhead.models.model import Model
from levelhead.models.twins import draw_twin, twinned
from levelhead.probes.contexts import template_contexts
from levelhead.probes.words import load_words
from levelhead.scoring.seat import absolute_seats
from levelhead.scoring.word_table import word_table
from tests.word_lists import gender_toml


def audited(kind: str, seed: int, *evidence: tuple[str, float, bool]) -> Audited:
    return Audited("m", kind, seed, tuple(Evidence(*each) for each in evidence))


@pytest.mark.parametrize(("times", "of"), [(0, 50), (3, 50), (45, 50), (50, 50)])
def test_intervals_of_rates_are_clopper_and_pearsons(times: int, of: int) -> None:
    assert Rate(times, of).interval == pytest.approx(proportion_confint(times, of, method="beta"))


def test_a_claim_needs_p_and_an_interval_and_a_page_is_corrected() -> None:
    two = audited("twin", 0, ("a", 0.03, True), ("b", 0.03, True))
    assert two.spoken() == {"a": True, "b": True, PAGE: False}
    assert audited("twin", 1, ("a", 0.001, False)).spoken() == {"a": False, PAGE: False}
    assert audited("twin", 2, ("a", 0.001, True), ("b", 0.5, True)).spoken()[PAGE]
    aside = Audited("m", "twin", 3, (Evidence("a", 0.03, True), Evidence("b", 0.5, True, on_page=False)))
    assert aside.spoken()[PAGE]


def test_rates_count_models_that_could_be_asked() -> None:
    found = rates(
        [audited("twin", 0, ("a", 0.01, True)), audited("twin", 1, ("a", 0.5, True), ("b", 0.5, True))]
    )
    assert (found["a"], found["b"]) == (Rate(1, 2), Rate(0, 1))
    assert str(found["a"]) == "1 of 2: 50.0% [1.3%, 98.7%]"


def test_models_without_meaning_are_a_twin_and_other_weights(bert: Model) -> None:
    reading = WordVectors([Text("The nurse works.")], [find_word("The nurse works.", "nurse")])
    with twinned(bert, draw_twin(bert, 3)):
        expected = read_one(bert, reading)
    np.testing.assert_allclose(read_one(shuffled(bert, 3), reading), expected, atol=1e-5)
    one, other = (read_one(random_weights(bert, seed), reading) for seed in (1, 2))
    assert np.abs(one - other).max() > 0.1
    assert random_weights(bert, 1).abilities == bert.abilities


@pytest.mark.slow
def test_a_plant_raises_seat_by_what_was_asked(bert: Model, tmp_path: Path) -> None:
    bias = gender_toml(tmp_path)
    test = load_words(bias)
    table = word_table(test, template_contexts(test, 2))
    before = absolute_seats(shuffled(bert, 4), table, [()])[0]
    after = absolute_seats(planted(bert, 4, 0.3, bias), table, [()])[0]
    assert 0.3 <= after - before < 0.45


@pytest.mark.slow
def test_twelve_twins_are_called_associated_in_at_most_two(bert: Model, tmp_path: Path) -> None:
    """The small version of `make calibrate`: 0.05 of 12 twins; three or more have a chance of 2 %."""
    bias = gender_toml(tmp_path)
    found = []
    for seed in range(40, 52):
        subject = Subject(shuffled(bert, seed), bias, seed=seed)
        found.append(Audited("lh:bert-mini", "twin", seed, tuple(association(subject))))
    assert rates(found)["association"].of == 12
    assert rates(found)["association"].times <= 2


@pytest.mark.slow
def test_the_command_adds_lines_and_asks_nothing_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "lines.jsonl"
    command = ["--model", "lh:bert-mini", "--claims", "association", "--null", "2", "--device", "cpu"]
    command += ["--words", gender_toml(tmp_path), "-o", str(output)]
    assert main([*command, "--twins", "1"]) == 0
    first = output.read_text()
    with output.open("a") as file:
        file.write('{"model": "cut off')
    assert main([*command, "--twins", "1", "--random", "1"]) == 0
    assert output.read_text().startswith(first)
    assert [(each.kind, each.seed) for each in read(output)] == [("twin", 0), ("random", 0)]
    assert json.loads(first)["evidence"][0]["claim"] == "association"
    assert "association" in capsys.readouterr().out
