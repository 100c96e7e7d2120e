"""The planted benchmark: ranks by hand, a run on a tiny model, and the figure on a shipped one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from levelhead.errors import BadProbe
from levelhead.models.model import load
from levelhead.models.sources import fingerprint
from levelhead.results.folder import RunData
from levelhead.scoring.seat import absolute_seats
from levelhead.studies.heads.counter import counter_attention
from levelhead.studies.heads.study import head_scores
from levelhead.studies.planted.planting import Planter
from levelhead.studies.planted.study import (
    LOCALIZERS,
    PlantedSettings,
    choose,
    plant_and_find,
    precision,
    questions,
    ranks,
    summary,
)
from tests.tiny import tiny
from tests.word_lists import gender_toml


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> PlantedSettings:
    words = gender_toml(tmp_path_factory.mktemp("words"))
    return PlantedSettings(words, heads=2, seeds=2, rise=0.01, words=6, sentences="shipped", n_sentences=6)


@pytest.fixture(scope="module")
def run(settings: PlantedSettings, tmp_path_factory: pytest.TempPathFactory) -> RunData:
    return plant_and_find(tiny("bert"), settings, tmp_path_factory.mktemp("planted") / "run")


def test_ranks_and_precision_by_hand() -> None:
    suspicion = np.array([[0.1, 0.9], [0.5, 0.2]])
    assert ranks(suspicion, [(0, 1), (1, 0), (0, 0)]) == [1, 2, 4]
    assert precision(suspicion, [(0, 1), (0, 0)]) == 0.5
    assert precision(suspicion, [(0, 1), (1, 0)]) == 1.0


def test_heads_that_look_all_alike_share_the_rank_of_chance() -> None:
    assert ranks(np.zeros((4, 4)), [(0, 0), (3, 3)]) == [8.5, 8.5]
    assert precision(np.zeros((4, 4)), [(0, 0), (3, 3)]) == 0.0


def test_summary_states_the_level_of_chance() -> None:
    row = {"kind": "value", "precision": 0.5, "mean_rank": 3.0, "abs_seat": 0.5, "abs_seat_before": 0.2}
    rows = [{**row, "localizer": name, "way": way} for name in LOCALIZERS for way in ("alone", "compared")]
    told = summary(rows, PlantedSettings(heads=3, kinds=("value",)), heads=64)
    assert {r["neutral"] for r in told if r["name"] == "precision"} == {3 / 64}
    assert {r["neutral"] for r in told if r["name"] == "mean rank"} == {32.5}


def test_a_run_has_a_row_for_every_kind_seed_localizer_and_way(run: RunData) -> None:
    assert [key for key in run.results if key.startswith("planted/")] == [
        f"planted/{kind}/{seed}" for kind in ("value", "attention") for seed in (0, 1)
    ]
    assert all(len(run.results[f"planted/{kind}/0"]) == 6 for kind in ("value", "attention"))


def test_attention_cannot_see_a_value_plant_in_the_last_layer(run: RunData) -> None:
    """The weights of attention come from queries and keys, which a value plant leaves as they are up to its
    layer."""
    model = tiny("bert")
    asked = questions(
        model, PlantedSettings(run.settings["bias"], sentences="shipped", n_sentences=6, words=6)
    )
    copy = Planter(model, asked.fitting).planted({(model.layers - 1, 0): 2.0})
    for one, other in zip(*(counter_attention(m, asked.sentences) for m in (model, copy)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_value_plants_raise_seat_and_leave_the_original_alone(settings: PlantedSettings) -> None:
    model = tiny("bert")
    before = fingerprint(model.hf)
    asked = questions(model, settings)
    base = {"seat": 0.5, "abs_seat": absolute_seats(model, asked.table, [()])[0]}
    planter = Planter(model, asked.fitting)
    strengths, _ = choose(planter, asked, settings, 0, base)
    for head, strength in strengths.items():
        alone = absolute_seats(planter.planted({head: strength}), asked.table, [()])[0]
        assert alone >= base["abs_seat"] + settings.rise
    assert fingerprint(model.hf) == before


def test_the_same_seed_draws_the_same_heads_and_a_killed_run_goes_on(
    settings: PlantedSettings, run: RunData
) -> None:
    again = plant_and_find(tiny("bert"), settings, run.folder)
    assert again.results == run.results


def test_wrong_settings_are_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(BadProbe, match="allowed are value, attention"):
        PlantedSettings(kinds=("values",))
    with pytest.raises(BadProbe, match="at least 1"):
        PlantedSettings(heads=0)
    with pytest.raises(BadProbe, match="Plant into fewer"):
        plant_and_find(tiny("bert"), PlantedSettings(heads=12), tmp_path / "run")


@pytest.mark.slow
def test_gradient_finds_heads_that_were_planted_into_bert_mini() -> None:
    model = load("lh:bert-mini")
    asked = questions(model, PlantedSettings(n_sentences=2))
    heads = [(2, 0), (3, 3), (4, 4)]
    copy = Planter(model, asked.fitting).planted(dict.fromkeys(heads, 0.5))
    before, after = (head_scores(each, asked.table) for each in (model, copy))
    assert after.objective > before.objective + 0.1
    assert np.mean(ranks(after.scores - before.scores, heads)) < 5
