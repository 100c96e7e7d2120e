"""The papers' figures that ship: they agree with each other, with our probes, and with the papers where those
lie beside the checkout."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from scipy import stats

from levelhead.measures.fairness import viable
from levelhead.measures.statistics import spearman
from levelhead.probes.cloze import load_cloze
from levelhead.probes.published import (
    CounterResult,
    published_counteracts,
    published_heads,
    published_projections,
)

PAPERS = Path(__file__).resolve().parents[3] / "shared" / "papers"
SINGULAR = {"designers": "designer", "counselors": "counselor", "hairdressers": "hairdresser", "ceo": "CEO"}


def paper(name: str) -> str:
    path = PAPERS / f"{name}.md"
    if not path.exists():
        pytest.skip("the papers are not beside this checkout")
    return path.read_text(encoding="utf-8")


# ---- Bias A-head?


@pytest.mark.parametrize("result", published_heads().counter_stereotypes, ids=str)
def test_t_and_p_of_the_counter_stereotypes_fit_a_one_tailed_test(result: CounterResult) -> None:
    one_tailed = stats.t.sf(result.t, result.n - 1)
    if result.heads == "biased":
        assert one_tailed < float(result.p_value.removeprefix("<"))
    else:
        assert one_tailed == pytest.approx(float(result.p_value), abs=0.0051)


def test_p_values_of_regular_heads_fit_no_two_tailed_test() -> None:
    for result in published_heads().counter_stereotypes:
        if result.heads == "regular":
            two_tailed = 2 * stats.t.sf(abs(result.t), result.n - 1)
            assert abs(two_tailed - float(result.p_value)) > 0.1


def test_masking_the_top_three_heads_lowers_seat_and_masking_three_others_does_not() -> None:
    rows = {(row.strategy, row.heads): row for row in published_heads().debiasing}
    base = rows["none", 0]
    assert rows["top", 3].seat < base.seat < rows["random", 3].seat < rows["bottom", 3].seat
    assert all(row.pppl >= base.pppl for row in rows.values())
    assert base.seat == {m.model: m.seat for m in published_heads().models}["BERT-base"]


def test_tables_2_and_3_have_the_papers_sizes() -> None:
    assert Counter(result.task for result in published_heads().glue).keys() == {
        "RTE",
        "SST-2",
        "WNLI",
        "QNLI",
        "CoLA",
        "MRPC",
        "QQP",
        "STS-B",
        "MNLI",
    }
    assert [result.heads for result in published_heads().lpbs] == [0, 15, 20, 25, 30, 35, 40, 45]


def test_every_figure_of_the_first_paper_stands_in_its_text() -> None:
    text = re.sub(r"\s+", " ", paper("bias-a-head"))
    heads = published_heads()
    for glue in heads.glue:
        for value in (glue.full, glue.top_3, glue.every):
            assert f"{value:.4f}" in text
    for lpbs in heads.lpbs[1:]:
        assert f"| {lpbs.career:.2f} | {lpbs.math:.2f} | {lpbs.science:.2f} |" in text
    for masking in heads.debiasing:
        assert f"| {masking.seat:.2f} | {masking.pppl:.2f} |" in text
    for result in heads.counter_stereotypes:
        assert f"t-stat = {result.t}" in text
    for figure in (*(model.seat for model in heads.models), *heads.running_example):
        assert f"{figure}" in text


# ---- Projective Methods


def test_fairness_is_parity_times_accuracy_in_every_model_but_the_erratum() -> None:
    models = published_projections().models
    assert len(models) == 76
    wrong = [m for m in models if m.fairness != pytest.approx(m.parity * m.accuracy, abs=1.01e-4)]
    assert [(m.level, m.settings, m.fairness) for m in wrong] == [("SENT", "1", 0.1231)]
    assert wrong[0].parity * wrong[0].accuracy == pytest.approx(0.0690, abs=5e-5)


def test_the_printed_spearman_is_the_correlation_with_less_strength() -> None:
    published = published_projections()
    fairness = [m.fairness for m in published.models]
    with_strength = spearman([m.strength for m in published.models], fairness)
    with_less = spearman([-m.strength for m in published.models], fairness)
    assert with_less.value == pytest.approx(published.spearman, abs=0.003)
    assert with_strength.value == pytest.approx(-published.spearman, abs=0.003)
    assert with_strength.details["p_value"] == pytest.approx(published.spearman_p_value, abs=0.02)


def test_table_5_is_the_best_of_table_7_but_for_three_cells() -> None:
    published = published_projections()
    base, mistaken = published.models[0].ability, []
    for best in published.best[2:]:
        level = [m for m in published.models if m.level == best.level]
        (fairest,) = [m for m in level if m.settings == best.fairness_settings]
        right = {
            "strength": best.strength == min(m.strength for m in level),
            "distance": best.distance == min(m.distance for m in level),
            "fairness": (best.fairness, best.ability) == (fairest.fairness, fairest.ability),
            "viable": viable(best.ability, base),
        }
        mistaken += [(best.level, cell) for cell, holds in right.items() if not holds]
    assert mistaken == [("Layer 11", "viable"), ("+ attn", "strength"), ("+ attn", "fairness")]


def test_every_figure_of_table_7_stands_in_the_paper() -> None:
    lines = {re.sub(r"\s+", " ", line) for line in paper("projective-methods").splitlines()}
    for m in published_projections().models:
        values = (m.strength, m.distance, m.parity, m.accuracy, m.fairness, m.ability)
        cells = [m.level, m.settings, *(f"{value:.4f}" for value in values)]
        assert re.sub(r"\s+", " ", " ".join(cell for cell in cells if cell)) in lines


# ---- Counteracts


def test_our_occupations_and_shares_are_those_of_table_1() -> None:
    table = {SINGULAR.get(o.name, o.name): o.women for o in published_counteracts().occupations}
    assert len(table) == 58
    assert {occupation.name: occupation.share for occupation in load_cloze().occupations} == table


def test_every_occupation_of_table_1_stands_in_the_paper() -> None:
    cells = re.findall(r"([a-z ]+)\t(\d+\.\d)(?=\t|\n)", paper("counteracts"))
    table = {name: float(share) for name, share in cells}
    assert {o.name: o.women for o in published_counteracts().occupations} == table
    assert f"{published_counteracts().prompts:,} prompts" in paper("counteracts")
    assert f"{published_counteracts().verbalizer_words} tokens" in paper("counteracts")


def test_our_prompts_are_as_many_as_whole_backgrounds_allow_below_the_papers() -> None:
    ours, theirs = len(load_cloze().prompts), published_counteracts().prompts
    assert ours == 2_668
    assert theirs - ours < 3 * 58  # one more background of each kind would be more than the paper has
    assert len(load_cloze().verbalizer.words) >= published_counteracts().verbalizer_words
