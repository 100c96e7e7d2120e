"""Localizers and the atlas: maps by hand, plugins, what is claimed and what is not, resuming, the page."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar, cast

import numpy as np
import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

import levelhead as lh
from levelhead.cli.commands import app
from levelhead.edits.gates import all_heads, removed
from levelhead.edits.sites import Head
from levelhead.engine.effort import Speed
from levelhead.engine.readings import SpanLikelihoods, TokenLogProbs
from levelhead.engine.run import read_one
from levelhead.errors import BadOption, BadPlugin, CannotDo
from levelhead.measures.measurement import Measurement, Null
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.models.null_model import draw_null_model, null_model_copy
from levelhead.pages.page import write_report
from levelhead.probes.contexts import template_contexts
from levelhead.probes.words import WordTest
from levelhead.progress import plain_lines
from levelhead.runs.folder import Run
from levelhead.scoring import plugins
from levelhead.scoring.benchmarks.crows_pairs import CROWS_PAIRS
from levelhead.scoring.benchmarks.protocol import Selection
from levelhead.scoring.objective import Objective
from levelhead.scoring.objectives import cosine_objective, seat_objective
from levelhead.scoring.seat import word_table
from levelhead.studies.atlas import Atlas, protocol
from levelhead.studies.atlas import run as study
from levelhead.studies.atlas.catalog import localizer_of, localizers
from levelhead.studies.atlas.chapter import atlas_sentence
from levelhead.studies.atlas.chapter import chart as atlas_chart
from levelhead.studies.atlas.protocol import (
    ComponentKind,
    ComponentScores,
    register_localizer,
    scored_several,
)
from levelhead.studies.atlas.questions import names_of, questions
from levelhead.studies.atlas.records import MapAgreement, MappedHead
from levelhead.studies.atlas.run import atlas
from levelhead.studies.planted.run import Planter
from tests.scoring.benchmarks.test_crows_pairs import PAIRS, write
from tests.tiny import tiny
from tests.word_lists import GENDER

WHOLE_TOKENS = WordTest(  # of the tiny tokenizers: null models leave the letters that spell other words alone
    "whole-tokens",
    A=("she", "her", "mothers", "women"),
    B=("he", "him", "fathers", "men"),
    X=("nurse", "nurses", "grandmothers", "kitchen"),
    Y=("engineer", "engineers", "teacher", "book"),
    pairs=(("she", "he"), ("her", "him"), ("mothers", "fathers"), ("women", "men")),
)
WORDS = lh.settings.AtlasSettings(("seat", "cosine-gap"), bias=GENDER, null=3)


@pytest.fixture(scope="module")
def bert() -> Model:
    return tiny("bert", "nsp", max_position_embeddings=256)


@pytest.fixture(scope="module")
def run(bert: Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("atlas") / "run"
    atlas(bert, WORDS, folder)
    return folder


def both_and_sum() -> tuple[Objective, Objective, Objective]:
    table = word_table(GENDER, template_contexts(GENDER, 1))
    first, second = seat_objective(table), cosine_objective(table)

    def total(vectors: Tensor) -> Tensor:
        return first.number(vectors) + second.number(vectors)

    return first, second, replace(first, number=total)


# ---- localizers


@pytest.mark.parametrize("name", ["gradient", "ablation", "neuron gradient", "integrated gradients"])
def test_the_sum_of_two_objectives_has_the_sum_of_the_maps(bert: Model, name: str) -> None:
    localizer = localizers()[name]
    first, second, total = (localizer.scores(bert, each).values for each in both_and_sum())
    units = bert.heads if localizer.component == "heads" else bert.neurons
    assert total.shape == (bert.layers, units)
    assert np.abs(second).max() > 1e-6
    np.testing.assert_allclose(total, first + second, atol=1e-5 * np.abs(total).max())


def test_ablation_is_what_the_objective_loses_without_each_head(bert: Model) -> None:
    objective, _, _ = both_and_sum()
    scores = localizer_of("ablation", "heads").scores(bert, objective)
    (whole,) = objective.values(bert)
    for head in all_heads(bert)[::5]:
        (without,) = objective.values(bert, [removed(bert, [head])])
        assert scores.values[head] == pytest.approx(whole - without, abs=1e-5)
    assert scores.objective == whole
    assert np.isnan(scores.stderr).all()


class LastLayer:
    """A localizer of a user's own: it suspects the last layer, whatever is asked."""

    name = "last layer"
    component: ClassVar[ComponentKind] = "heads"

    def why_not(self, model: Model, objective: Objective) -> str:
        return "" if model.layers > 1 else "it needs two layers"

    def scores(self, model: Model, objective: Objective) -> ComponentScores:
        values = np.tile(np.arange(1.0, model.layers + 1)[:, None], (1, model.heads))
        return ComponentScores.exact(self.component, values)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol.LOCALIZERS, "own", {})
    register_localizer(LastLayer())


@pytest.mark.usefixtures("registered")
def test_a_localizer_of_ones_own_is_taken_by_name(bert: Model, tmp_path: Path) -> None:
    found = atlas(bert, replace(WORDS, localizer="last layer", null=0), tmp_path / "run")
    assert {each.score for each in found.heads if each.head.layer == 2} == {3.0}
    assert all(each.p is None and each.stderr is None for each in found.heads)
    assert not found.significant
    assert found.agreements[0].measurement.value == pytest.approx(1)
    assert "too few null models" in atlas_sentence(found)


def test_what_is_no_localizer_is_refused_in_one_line(bert: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol.LOCALIZERS, "own", {})
    with pytest.raises(BadOption, match="needs name, component"):
        protocol.register_localizer(object())  # type: ignore[arg-type]
    with pytest.raises(BadOption, match=r"No localizer of heads is called 'neuron gradient'.*ablation"):
        localizer_of("neuron gradient", "heads")

    class Flat(LastLayer):
        def scores(self, model: Model, objective: Objective) -> ComponentScores:
            return ComponentScores.exact("heads", np.zeros(3))

    with pytest.raises(BadPlugin, match=r"shape \(3,\)"):
        protocol.scored(Flat(), bert, both_and_sum()[0])
    register_localizer(LastLayer())
    with pytest.raises(BadOption, match="Two localizers"):
        register_localizer(Flat())


def test_an_installed_package_brings_its_localizers_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "from levelhead.studies.atlas.protocol import register_localizer\n"
        "from tests.studies.test_localizing import LastLayer\n"
    )
    (tmp_path / "my_localizers.py").write_text(text + "register_localizer(LastLayer())\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_localizers", raising=False)
    monkeypatch.setattr(protocol.LOCALIZERS, "own", {})
    points = [EntryPoint("mine", "my_localizers", "levelhead.localizers")]
    monkeypatch.setattr(plugins, "entry_points", lambda group: points if "localizers" in group else [])
    monkeypatch.setattr(protocol.LOCALIZERS, "_loaded", False)
    assert "last layer" in localizers("heads")
    assert "last layer" not in localizers("neurons")


# ---- objectives and halves


def asked_texts(model: Model, objective: Objective) -> set[str]:
    """The texts that an objective depends on."""
    reading = cast("SpanLikelihoods | TokenLogProbs", objective.reading)
    answer = torch.from_numpy(
        np.asarray(read_one(model, cast("SpanLikelihoods", reading))[0], np.float64)
    ).requires_grad_()
    (slopes,) = torch.autograd.grad(objective.number(answer), answer)
    steep = slopes.abs().reshape(len(reading.texts), -1).sum(1) > 0
    return {str(text) for text, own in zip(reading.texts, steep.tolist(), strict=True) if own}


def test_halves_of_a_benchmark_are_scored_as_if_they_were_asked_alone(bert: Model, tmp_path: Path) -> None:
    data = {"crows-pairs": str(write(tmp_path, PAIRS))}
    (asked,) = questions(bert, lh.settings.AtlasSettings(("crows-pairs",), data, GENDER, splits=1)).kept
    localizer = localizer_of("gradient", "heads")
    ((first, second),) = asked.splits
    together = scored_several(localizer, bert, [asked.whole, first, second])
    items = CROWS_PAIRS.load(data["crows-pairs"], Selection())
    texts = [asked_texts(bert, half) for half in (first, second)]
    for found, own in zip(together[1:], texts, strict=True):
        numbers = [i for i, pair in enumerate(items.items) if str(Text(pair.more)) in own]
        alone = CROWS_PAIRS.objective(bert, items.chosen(numbers))
        assert alone is not None
        expected = localizer.scores(bert, alone.absolute)
        np.testing.assert_allclose(found.values, expected.values, rtol=1e-4, atol=1e-7)
        assert found.objective == pytest.approx(expected.objective, rel=1e-4)
    assert not np.allclose(together[1].values, together[2].values)


def test_halves_of_an_objective_share_no_item(bert: Model, tmp_path: Path) -> None:
    data = {"crows-pairs": str(write(tmp_path, PAIRS))}
    asked = questions(
        bert, lh.settings.AtlasSettings(("log-odds", "crows-pairs"), data, GENDER, splits=1, limit=8)
    )
    assert [each.name for each in asked.kept] == ["log-odds", "crows-pairs"]
    for each in asked.kept:
        ((first, second),) = each.splits
        parts = [asked_texts(bert, half) for half in (first, second)]
        assert all(parts)
        assert not parts[0] & parts[1]
        assert each.whole.values(bert)[0] >= 0


def test_an_objective_that_a_model_lacks_is_left_out_with_its_reason(tmp_path: Path) -> None:
    gpt = tiny("gpt2", n_positions=256)
    asked = questions(gpt, replace(WORDS, objectives=("preference", "seat")))
    assert [each.name for each in asked.kept] == ["seat"]
    assert [each.objective for each in asked.left_out] == ["preference"]
    with pytest.raises(CannotDo, match=r"none of the objectives\. preference:"):
        atlas(gpt, replace(WORDS, objectives=("preference",)), tmp_path / "run")


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"objectives": ("fairness",)}, "No objective is called 'fairness'"),
        ({"objectives": ("crows-pairs",)}, "needs its published file"),
        ({"objectives": ("seat",), "data": {"crows-pairs": "x"}}, "of benchmarks among the objectives"),
        ({"null": 1}, r"null must be 0 or at least 2 \(got 1\)"),
        ({"splits": 0}, r"splits must be at least 1 \(got 0\)"),
    ],
)
def test_wrong_settings_are_one_line(changed: dict[str, object], complaint: str) -> None:
    with pytest.raises(BadOption, match=complaint) as caught:
        names_of(lh.settings.AtlasSettings(**changed))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


# ---- runs


def test_a_run_has_a_map_for_every_objective_and_null_model(bert: Model, run: Path) -> None:
    found = Atlas.open(run)
    assert len(found.maps) == 2 * (1 + 3)
    assert len(found.heads) == 2 * bert.layers * bert.heads
    assert [each.objective for each in found.objectives] == ["seat", "cosine-gap"]
    exact = seat_objective(word_table(GENDER, template_contexts(GENDER, 2))).gradients(bert)
    own = found.maps[0]
    assert own.value == pytest.approx(exact.objective, rel=1e-4)
    np.testing.assert_allclose(own.scores, exact.scores, atol=1e-4 * np.abs(exact.scores).max())
    assert found.top is not None
    assert found.top.k == 1
    assert found.to_frame().shape[0] == len(found.heads)
    again = lh.open_run(run)
    assert isinstance(again, Atlas)
    assert again.folder == run
    assert atlas_chart(found).spec["concat"]


def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(bert: Model, run: Path, tmp_path: Path) -> None:
    whole = (run / "results.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    again = shutil.copytree(run, tmp_path / "run")
    (again / "results.jsonl").write_bytes(b"".join(lines[:4]) + lines[4][:30])
    atlas(bert, WORDS, again)
    assert (again / "results.jsonl").read_bytes() == whole


@pytest.mark.parametrize(("seconds", "told"), [(1.0, True), (1e-9, False)], ids=["long", "short"])
def test_before_long_work_one_line_says_how_long_it_takes_and_what_is_shorter(
    seconds: float,
    told: bool,
    bert: Model,
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(study, "speed_of", lambda model: Speed(seconds))
    begun = shutil.copytree(run, tmp_path / "run")
    lines = (begun / "results.jsonl").read_bytes().splitlines(keepends=True)
    (begun / "results.jsonl").write_bytes(b"".join(lines[:4]))  # some of the maps are missing
    with plain_lines():
        atlas(bert, WORDS, begun)
        said = capsys.readouterr().err
        atlas(bert, WORDS, begun)  # nothing is left to do
    assert "This takes about" not in capsys.readouterr().err
    announced = [line for line in said.splitlines() if "This takes about" in line]
    assert len(announced) == told
    assert all("--null 0 takes about" in line for line in announced)


def test_the_page_has_a_matrix_that_leads_to_the_maps(run: Path) -> None:
    html = write_report(run).read_text(encoding="utf-8")
    assert 'class="matrix"' in html
    for number in (1, 2):
        assert f'href="#atlas-chart-3-{number}"' in html
        assert f'id="atlas-chart-3-{number}"' in html
    assert "style=" not in html.split('class="matrix"')[1].split("</table>")[0]


def test_heads_with_an_objective_makes_a_run_of_the_atlas(
    bert: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("levelhead.cli.studies.check_named", lambda kind, names: None)
    monkeypatch.setattr("levelhead.api.studies.load", lambda name, **options: bert)
    file, folder = write(tmp_path, PAIRS), tmp_path / "run"
    typed = [
        "heads",
        "m",
        "--objective",
        "crows-pairs",
        "--data",
        str(file),
        "--null",
        "2",
        "-o",
        str(folder),
    ]
    ended = CliRunner().invoke(app, typed, catch_exceptions=False)
    assert ended.exit_code == 0
    assert [each.objective for each in Atlas.open(folder).objectives] == ["crows-pairs"]
    with pytest.raises(BadOption, match="top would change nothing"):
        CliRunner().invoke(app, [*typed, "--top", "3"], catch_exceptions=False)


# ---- what is claimed


@pytest.mark.nightly
def test_a_plant_is_significant_and_a_null_model_has_no_significant_head(bert: Model, tmp_path: Path) -> None:
    asked = lh.settings.AtlasSettings(("cosine-gap",), bias=WHOLE_TOKENS, null=19)
    head = Head(1, 2)
    planted = Planter(bert, template_contexts(WHOLE_TOKENS, 4)).planted({head: 30.0})
    found = atlas(planted, asked, tmp_path / "planted")
    assert found.significant
    assert all(each.head.layer <= head.layer for each in found.significant)  # it, or what feeds it
    assert str(found.significant[0].head) in atlas_sentence(found)
    silent = atlas(
        null_model_copy(bert, draw_null_model(bert, 77)), replace(asked, seed=5), tmp_path / "null"
    )
    assert not silent.significant
    assert "no head stands out" in atlas_sentence(silent)


def claimed(folder: Path, run: Path, rho: float, p: float) -> str:
    """The sentence of a run whose two maps agree so far beyond null models."""
    read = Atlas.open(run)
    null = Null("null models; two-sided", 19, 0.1, 0.1, p)
    agreement = MapAgreement("seat", "cosine-gap", Measurement("agreement of maps", rho, null=null), p)
    with Run.open(folder, Atlas, read.settings) as made:
        for each in read.maps:
            key = Atlas.maps.of(f"{each.objective}/{each.null_model}")
            made.results(key, lambda each=each: [each])  # type: ignore[misc]
        made.results(Atlas.objectives, lambda: list(read.objectives))
        made.results(Atlas.agreements, lambda: [agreement])
    return atlas_sentence(Atlas.open(folder))


def test_maps_are_said_to_agree_only_beyond_null_models(run: Path, tmp_path: Path) -> None:
    assert "the two maps agree" in claimed(tmp_path / "a", run, 0.8, 0.001)
    assert "no two maps" in claimed(tmp_path / "b", run, 0.8, 0.3)
    assert "no two maps" in claimed(tmp_path / "c", run, -0.8, 0.001)


def test_a_head_is_significant_from_p_five_percent_on() -> None:
    head = MappedHead("seat", Head(0, 0), 1.0, None, 0.5, 0.05, 1)
    assert head.significant
    assert not replace(head, p=0.06).significant
    assert not replace(head, p=None).significant
