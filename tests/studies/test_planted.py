"""The planted benchmark: ranks by hand, a run on a tiny model, and the figure on a shipped one."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from levelhead.edits.sites import Head
from levelhead.engine.effort import Speed
from levelhead.errors import BadOption
from levelhead.models.identity import fingerprint
from levelhead.models.model import load
from levelhead.progress import plain_lines
from levelhead.scoring.objectives import word_objective
from levelhead.studies.atlas import protocol
from levelhead.studies.atlas.protocol import register_localizer
from levelhead.studies.heads.counter import counter_attention
from levelhead.studies.heads.scores import head_scores
from levelhead.studies.planted import Planted
from levelhead.studies.planted import run as study
from levelhead.studies.planted.records import PlantedBase, PlantTrial
from levelhead.studies.planted.run import (
    LOCALIZERS,
    WAYS,
    Planter,
    choose,
    planted,
    precision,
    prepare,
    ranks,
    summary,
)
from levelhead.studies.planted.settings import PlantedSettings
from tests.studies.test_localizing import LastLayer
from tests.tiny import tiny
from tests.word_lists import gender_toml


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> PlantedSettings:
    words = gender_toml(tmp_path_factory.mktemp("words"))
    return PlantedSettings(words, heads=2, seeds=2, rise=0.01, words=6, sentences="shipped", n_sentences=6)


@pytest.fixture(scope="module")
def run(settings: PlantedSettings, tmp_path_factory: pytest.TempPathFactory) -> Planted:
    return planted(tiny("bert"), settings, tmp_path_factory.mktemp("planted") / "run")


def test_ranks_and_precision_by_hand() -> None:
    suspicion = np.array([[0.1, 0.9], [0.5, 0.2]])
    assert ranks(suspicion, [Head(0, 1), Head(1, 0), Head(0, 0)]) == [1, 2, 4]
    assert precision(suspicion, [Head(0, 1), Head(0, 0)]) == 0.5
    assert precision(suspicion, [Head(0, 1), Head(1, 0)]) == 1.0


def test_heads_that_look_all_alike_share_the_rank_of_chance() -> None:
    corners = [Head(0, 0), Head(3, 3)]
    assert ranks(np.zeros((4, 4)), corners) == [8.5, 8.5]
    assert precision(np.zeros((4, 4)), corners) == 0.0


def test_summary_states_the_level_of_chance() -> None:
    trials = [
        PlantTrial(
            kind="value",
            seed=seed,
            heads=(Head(0, 0),),
            strengths=(0.5,),
            refused=(),
            abs_seat_before=0.2,
            abs_seat=0.5,
            localizer=name,
            way=way,
            precision=float(seed),
            ranks=(3.0,),
            mean_rank=3.0,
        )
        for seed in (0, 1)
        for name in LOCALIZERS
        for way in WAYS
    ]
    records = summary(trials, PlantedSettings(heads=3, kinds=("value",)), heads=64)
    by_name = {each.measurement.name: each for each in records}
    assert {each.measurement.neutral for each in records} == {3 / 64, 32.5, None}
    assert (by_name["precision"].measurement.value, by_name["precision"].measurement.neutral) == (0.5, 3 / 64)
    assert (by_name["mean rank"].measurement.value, by_name["mean rank"].measurement.neutral) == (3.0, 32.5)
    seat = by_name["abs seat"]
    assert (seat.localizer, seat.measurement.value, seat.abs_seat_before) == ("", 0.5, 0.2)


def test_a_run_has_a_trial_for_every_kind_seed_localizer_and_way(run: Planted) -> None:
    labels = [f"{kind}/{seed}" for kind in ("value", "attention") for seed in (0, 1)]
    assert list(run.data.labeled("trials")) == labels
    searches = [(trial.kind, trial.seed, trial.localizer, trial.way) for trial in run.trials]
    assert len(set(searches)) == len(searches) == 4 * len(LOCALIZERS) * len(WAYS)
    for trial in run.trials:
        assert len(trial.heads) == len(trial.strengths) == len(trial.ranks) == 2
        assert trial.mean_rank == pytest.approx(np.mean(trial.ranks))


def test_the_base_of_a_run_holds_what_every_localizer_suspects_before(run: Planted) -> None:
    assert run.base is not None
    assert run.base.abs_seat == pytest.approx(abs(run.base.seat))
    assert {name: np.shape(scores) for name, scores in run.base.suspicion.items()} == dict.fromkeys(
        LOCALIZERS, (3, 4)
    )


def test_attention_cannot_see_a_value_plant_in_the_last_layer(settings: PlantedSettings) -> None:
    """Attention weights come from queries and keys, which a value plant leaves alone in its own layer."""
    model = tiny("bert")
    questions = prepare(model, settings)
    copy = Planter(model, questions.fitting).planted({Head(model.layers - 1, 0): 2.0})
    for one, other in zip(*(counter_attention(m, questions.sentences) for m in (model, copy)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_value_plants_raise_seat_and_leave_the_original_alone(settings: PlantedSettings) -> None:
    model = tiny("bert")
    before = fingerprint(model.hf)
    questions = prepare(model, settings)
    base = PlantedBase(seat=0.5, abs_seat=word_objective(questions.table).sizes(model)[0], suspicion={})
    planter = Planter(model, questions.fitting)
    strengths, _ = choose(planter, questions, settings, 0, base)
    for head, strength in strengths.items():
        alone = word_objective(questions.table).sizes(planter.planted({head: strength}))[0]
        assert alone >= base.abs_seat + settings.rise
    assert fingerprint(model.hf) == before


@pytest.mark.nightly
def test_the_same_seed_draws_the_same_heads_and_a_killed_run_goes_on(
    settings: PlantedSettings, run: Planted, tmp_path: Path
) -> None:
    lines = (run.folder / "results.jsonl").read_bytes().splitlines(keepends=True)
    planted(tiny("bert"), replace(settings, kinds=("value",), seeds=1), tmp_path / "other")
    first = (tmp_path / "other" / "results.jsonl").read_bytes().splitlines(keepends=True)
    assert first[:2] == lines[:2]
    killed = tmp_path / "killed"
    shutil.copytree(run.folder, killed)
    (killed / "results.jsonl").write_bytes(b"".join(lines[:3]) + lines[3][:20])
    planted(tiny("bert"), settings, killed)
    assert (killed / "results.jsonl").read_bytes() == b"".join(lines)
    assert Planted.open(killed).summary == run.summary


def test_a_registered_localizer_is_ranked_beside_the_others_whose_numbers_stay(
    settings: PlantedSettings, run: Planted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol.LOCALIZERS, "own", {})
    register_localizer(LastLayer())
    found = planted(tiny("bert"), replace(settings, kinds=("value",), seeds=1), tmp_path / "run")
    own = [trial for trial in found.trials if trial.localizer == "last layer"]
    assert [trial.way for trial in own] == list(WAYS)
    assert {each.localizer for each in found.summary} == {*LOCALIZERS, "last layer", ""}
    others = [trial for trial in found.trials if trial.localizer in LOCALIZERS]
    assert others == [trial for trial in run.trials if (trial.kind, trial.seed) == ("value", 0)]


@pytest.mark.parametrize(("seconds", "told"), [(1.0, True), (1e-9, False)], ids=["long", "short"])
def test_before_long_work_one_line_says_how_long_it_takes_and_what_is_shorter(
    seconds: float,
    told: bool,
    settings: PlantedSettings,
    run: Planted,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(study, "speed_of", lambda model: Speed(seconds))
    begun = tmp_path / "run"
    shutil.copytree(run.folder, begun)
    lines = (begun / "results.jsonl").read_bytes().splitlines(keepends=True)
    (begun / "results.jsonl").write_bytes(b"".join(lines[:-2]))  # the last trial and the summary are missing
    with plain_lines():
        planted(tiny("bert"), settings, begun)
        said = capsys.readouterr().err
        planted(tiny("bert"), settings, begun)  # nothing is left to do
    assert "This takes about" not in capsys.readouterr().err
    announced = [line for line in said.splitlines() if "This takes about" in line]
    assert len(announced) == told
    assert all("--seeds 1 takes about" in line for line in announced)


def test_wrong_settings_are_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(BadOption, match=r"kinds must be of value, attention \(got 'values'\)"):
        PlantedSettings(kinds=("values",))
    with pytest.raises(BadOption, match="at least 1"):
        PlantedSettings(heads=0)
    with pytest.raises(BadOption, match="heads must be below 12"):
        planted(tiny("bert"), PlantedSettings(heads=12), tmp_path / "run")


@pytest.mark.nightly
def test_gradient_finds_heads_that_were_planted_into_bert_mini() -> None:
    model = load("lh:bert-mini")
    questions = prepare(model, PlantedSettings(n_sentences=2))
    heads = [Head(2, 0), Head(3, 3), Head(4, 4)]
    copy = Planter(model, questions.fitting).planted(dict.fromkeys(heads, 0.5))
    before, after = (head_scores(each, questions.table) for each in (model, copy))
    assert after.objective > before.objective + 0.1
    assert np.mean(ranks(after.scores - before.scores, heads)) < 5
