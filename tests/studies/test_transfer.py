"""Transfer: what was optimized by what was measured, by hand, on null models, and on planted numbers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import levelhead as lh
from levelhead.edits.gates import removed
from levelhead.edits.sites import Head
from levelhead.errors import BadOption
from levelhead.measures.certified import PairedItems, size_growth, size_p_value
from levelhead.models.model import Model
from levelhead.models.null_model import draw_null_model, null_model_copy
from levelhead.pages.page import write_report
from levelhead.scoring.benchmarks.crows_pairs import CROWS_PAIRS
from levelhead.scoring.benchmarks.protocol import Selection
from levelhead.studies.atlas import Atlas
from levelhead.studies.atlas.chapter import transfer_sentence
from levelhead.studies.atlas.records import TransferCell
from levelhead.studies.atlas.run import atlas
from levelhead.studies.halves import dealt
from tests.report.page_text import page_text
from tests.scoring.benchmarks.test_crows_pairs import PAIRS, write
from tests.tiny import tiny
from tests.word_lists import GENDER


@pytest.fixture(scope="module")
def bert() -> Model:
    return tiny("bert", max_position_embeddings=256)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> lh.settings.AtlasSettings:
    data = {"crows-pairs": str(write(tmp_path_factory.mktemp("data"), PAIRS))}
    asked = ("cosine-gap", "seat", "crows-pairs")
    return lh.settings.AtlasSettings(asked, data, GENDER, splits=1, null=3, limit=4, transfer=2)


@pytest.fixture(scope="module")
def run(bert: Model, settings: lh.settings.AtlasSettings, tmp_path_factory: pytest.TempPathFactory) -> Atlas:
    return atlas(bert, settings, tmp_path_factory.mktemp("atlas") / "run")


def cell(run: Atlas, optimized: str, measured: str) -> TransferCell:
    return next(e for e in run.transfer if (e.optimized, e.measured) == (optimized, measured))


def test_every_objective_meets_every_bias_and_cost(run: Atlas) -> None:
    measured = [each.measured for each in run.transfer if each.optimized == "seat"]
    assert {"cosine gap", "crows-pairs", "perplexity"} <= set(measured)
    assert len(run.transfer) == 3 * len(measured)
    assert {each.cells for each in run.transfer} == {len(run.transfer)}
    assert [e.measured for e in run.transfer if e.own] == ["cosine gap", "cosine gap", "crows-pairs"]
    assert {e.measured for e in run.transfer if e.cost} >= {"perplexity"}
    assert all((e.p_bias is None) == (e.cost or e.measured == "log-odds") for e in run.transfer)


def test_heads_are_chosen_on_one_half_and_measured_on_the_other(
    bert: Model, run: Atlas, settings: lh.settings.AtlasSettings
) -> None:
    own = next(each for each in run.maps if each.objective == "crows-pairs" and each.null_model is None)
    on_first = np.array(own.halves[0][0])
    found = cell(run, "crows-pairs", "crows-pairs")
    best = np.dstack(np.unravel_index(np.argsort(-on_first, axis=None)[:2], on_first.shape))[0]
    assert list(found.heads) == [Head(*place) for place in best.tolist()]
    items = CROWS_PAIRS.load(settings.data["crows-pairs"], Selection(limit=4))
    _, held_out = dealt(items.clusters, 0)
    later = items.chosen([i for i, cluster in enumerate(items.clusters) if cluster in held_out])
    values = CROWS_PAIRS.natural(bert, later, [(), removed(bert, found.heads)]).values.mean(axis=1)
    assert (found.before, found.after) == pytest.approx(tuple(values), abs=1e-5)
    assert found.grown == pytest.approx(abs(values[1]) - abs(values[0]), abs=1e-5)


@pytest.mark.nightly
@pytest.mark.slow
def test_a_model_without_meaning_is_told_nothing_of(
    bert: Model, run: Atlas, settings: lh.settings.AtlasSettings, tmp_path: Path
) -> None:
    """Random weights, and a null model of them."""
    assert "is not shown" in transfer_sentence(run)
    null = atlas(null_model_copy(bert, draw_null_model(bert, 1)), settings, tmp_path / "run")
    assert "is not shown" in transfer_sentence(null)
    without = atlas(bert, replace(settings, transfer=0, null=0), tmp_path / "without")
    assert not without.transfer
    assert transfer_sentence(without) == ""


def planted(run: Atlas, monkeypatch: pytest.MonkeyPatch, *changed: TransferCell) -> str:
    """The sentence of a run some of whose cells are others."""
    cells = {(each.optimized, each.measured): each for each in (*run.transfer, *changed)}
    monkeypatch.setattr(Atlas, "transfer", property(lambda _: tuple(cells.values())))
    return transfer_sentence(run)


def test_the_sentence_speaks_where_two_biases_fall_together(
    run: Atlas, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = replace(cell(run, "crows-pairs", "crows-pairs"), p_bias=0.01, grown=-0.5, low=-0.7, high=-0.3)
    alone = planted(run, monkeypatch, own)
    assert "crows-pairs falls by 0.5 nats" in alone
    assert "none is shown" in alone
    other = replace(cell(run, "crows-pairs", "cosine gap"), p_bias=0.01, grown=-0.25, low=-0.3, high=-0.2)
    both = planted(run, monkeypatch, own, other)
    assert "cosine gap by 0.25 cosine" in both
    unsure = planted(run, monkeypatch, own, replace(other, p_bias=0.2))  # was no bias before
    assert "none is shown" in unsure
    dearer = replace(cell(run, "crows-pairs", "perplexity"), grown=0.1, low=0.05, high=0.15)
    assert "perplexity by 0.1 nats grows" in planted(run, monkeypatch, own, dearer)


def test_growth_of_a_size_is_seen_through_a_change_of_sign() -> None:
    rng = np.random.default_rng(0)
    noise = 0.1 * rng.normal(size=(2, 40))
    names = np.array([str(i) for i in range(40)])
    flipped = size_growth(PairedItems("gap", "nats", 1 + noise[0], -0.2 + noise[1], names), 10)
    assert flipped.grown == pytest.approx(abs(flipped.after) - abs(flipped.before))
    assert flipped.high is not None
    assert flipped.high < -0.6
    wider = size_growth(PairedItems("gap", "nats", 1 + noise[0], -0.2 + noise[1], names), 1000)
    assert wider.high is not None
    assert wider.high > flipped.high


def test_a_size_is_held_against_those_of_null_models() -> None:
    rng = np.random.default_rng(0)
    sizes = np.abs(rng.normal(size=(4000, 10)))
    false = np.mean([(size_p_value(own, nulls) or 1) <= 0.05 for own, *nulls in sizes.tolist()])
    assert 0.03 <= false <= 0.065
    assert (size_p_value(9.0, [1.0, 0.5, 0.8, 1.1]) or 1) < 0.01
    assert size_p_value(9.0, [1.0, 0.5]) is None


@pytest.mark.slow
def test_the_page_has_the_matrix_and_the_command_brings_it_back(run: Atlas) -> None:
    page = write_report(run.folder).read_text()
    assert "What was optimized, what was measured" in page
    assert "transfer=2" in page
    assert transfer_sentence(run) in page_text(page)


def test_fewer_than_no_heads_are_refused() -> None:
    with pytest.raises(BadOption, match=r"transfer must be at least 0 \(got -1\)"):
        lh.settings.AtlasSettings(transfer=-1)
