"""A run beside its paper: what counts as agreement, what stands beside what, and why a cell is empty."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from levelhead.edits.sites import Head
from levelhead.errors import BadRun
from levelhead.measures.measurement import Measurement
from levelhead.pages.replication import Printed, beside_paper
from levelhead.probes.published import published_counteracts, published_heads, published_projections
from levelhead.runs.common import BASE, MeasuredVariant
from levelhead.runs.folder import Run
from levelhead.studies.counteracts import Counteracts, cells_label
from levelhead.studies.counteracts.records import ClozeCell
from levelhead.studies.glue import Glue
from levelhead.studies.glue.records import GlueCell, GlueRecipe
from levelhead.studies.glue.settings import GlueStored
from levelhead.studies.heads import Heads, open_heads
from levelhead.studies.heads.records import (
    CounterTest,
    HeadScore,
    RandomMeasured,
    StrategyMeasured,
    WordsUsed,
)
from levelhead.studies.projections import Projections
from levelhead.studies.reproduce.records import REPRODUCED_CELLS, REPRODUCTION, ReproducedCell, Reproduction
from levelhead.studies.reproduce.run import reproduce
from levelhead.studies.reproduce.settings import ReproduceSettings
from tests.report.synthetic import heads_settings, measured, write_prompts, write_sweep

BERT = "bert-base-uncased"
SCORES = (0.5, 0.4, 0.3, 0.2, -0.1, -0.2)


def heads_run(
    folder: Path, model: str = BERT, bias: str = "gender", top: int = 3, kind: str = "PPPL"
) -> Path:
    """A run about six heads, four of them biased, with numbers for Tables 1 and 3."""
    settings = replace(heads_settings(model), bias=bias, top=top, layers=1, heads=6)
    words = WordsUsed(bias, ("A", "B", "X", "Y"), {"A": 2, "B": 2, "X": 2, "Y": 2}, 8, 16, (), {})
    order = [HeadScore(Head(0, i), score, 0.1, 0.01, 0.02, i + 1, 1.3) for i, score in enumerate(SCORES)]
    with Run.open(folder, Heads, settings, hashes={}) as run:
        run.result(Heads.words, lambda: words)
        run.result(Heads.seat, lambda: MeasuredVariant(BASE, model, measured("seat", 1.3)))
        run.results(Heads.scores, lambda: order)
        details = {"t": 3.0, "p_value": 0.002}
        change = measured("attention change, biased heads", 0.06, 0.02, 500, details=details)
        run.results(Heads.counter, lambda: [CounterTest("biased", "", change)])
        run.results(Heads.strategies, lambda: _strategies(kind))
        seat = RandomMeasured("random-3", 3, measured("seat", 1.36), (1.36,), 1.36)
        run.results(Heads.random_strategies, lambda: [seat])
        swept = [StrategyMeasured("top-0", (), measured("lpbs career", 2.0))]
        run.results(Heads.top_sweep, lambda: swept)
    return folder


def _strategies(kind: str) -> Iterator[StrategyMeasured]:
    for name, seat, pppl in (
        (BASE, 1.3, 4.1),
        ("top-3", 0.2, 4.2),
        ("bottom-3", 1.3, 4.3),
        ("all", 0.1, 9.0),
    ):
        yield StrategyMeasured(name, (), measured("seat", seat))
        yield StrategyMeasured(name, (), measured("fluency", pppl, settings={"kind": kind}))


def glue_settings(task: str = "", recipe: str = "") -> GlueStored:
    tasks, names = (tuple(filter(None, [each])) for each in (task, recipe))
    return GlueStored(study="glue", models=(BERT,), data="DIR", tasks=tasks, names=names, seeds=1)


def cell(reproduction: Reproduction, table: str, name: str) -> ReproducedCell:
    (own,) = [each for each in reproduction.cells if (each.table, each.cell) == (table, name)]
    return own


# ---- agreement


@pytest.mark.parametrize(
    ("interval", "agreement"),
    [((1.0, 2.0), "within"), ((1.35, 2.0), "within"), ((1.36, 2.0), "outside"), (None, "no interval")],
)
def test_a_published_value_is_within_when_our_interval_holds_it(
    interval: tuple[float, float] | None, agreement: str
) -> None:
    ours = Measurement("seat", 1.5, interval, n=3)
    assert Printed("Table 1", "base: SEAT", 1.35).beside(ours, "").agreement == agreement


def test_a_missing_measurement_keeps_the_papers_number_and_says_why() -> None:
    lost = Printed("Table 1", "base: SEAT", 1.35).beside(Measurement.missing("seat", "no word"), "not asked")
    assert (lost.published, lost.measured, lost.agreement, lost.note) == (
        1.35,
        None,
        "not measured",
        "no word",
    )
    assert Printed("Table 1", "base: SEAT", 1.35).beside(None, "not asked").note == "not asked"


def test_a_figure_without_numbers_has_no_number_and_an_equal_one_is_equal() -> None:
    assert Printed("Figure 2", "nurse").beside(measured("mass", 0.2), "").agreement == "no number"
    assert Printed("Table 1", "nurse", 88.5).beside(88.5, "").agreement == "equal"


# ---- heads


def test_tables_of_the_heads_paper_stand_beside_a_run_of_its_own_model(tmp_path: Path) -> None:
    ours = beside_paper(open_heads(heads_run(tmp_path / "run")))
    assert ours.same_model
    assert "weights" not in {each.part for each in ours.differences}
    top = cell(ours, "Table 1", "top-3 (3 of 144 heads): SEAT")
    assert (top.published, top.measured, top.agreement) == (1.21, 0.2, "outside")
    assert cell(ours, "Table 1", "base (0 of 144 heads): PPPL").agreement == "within"
    assert cell(ours, "Table 1", "random-3 (3 of 144 heads): SEAT").agreement == "within"
    assert cell(ours, "Appendix A", "BERT-base: heads with b > 0").measured == 4
    career = cell(ours, "Table 3", "top 0 masked: LPBS career")
    assert (career.published, career.measured, career.agreement) == (1.39, 2.0, "outside")
    assert "this model has 4 with b > 0" in cell(ours, "Table 3", "top 45 masked: LPBS math").note


def test_every_number_of_the_heads_paper_has_a_cell(tmp_path: Path) -> None:
    paper = published_heads()
    ours = beside_paper(open_heads(heads_run(tmp_path / "run")))
    counts = {
        table: sum(each.table == table for each in ours.cells) for table in ("Table 1", "Table 2", "Table 3")
    }
    expected = (2 * len(paper.debiasing), 3 * len(paper.glue), 3 * len(paper.lpbs))
    assert tuple(counts.values()) == expected


def test_t_has_the_interval_of_its_difference_on_its_own_scale(tmp_path: Path) -> None:
    ours = beside_paper(open_heads(heads_run(tmp_path / "run")))
    t = cell(ours, "Figure 4", "BERT-base, gender, biased heads: t (N = 500)")
    assert t.measured == 3.0  # difference 0.06 with an interval of 0.02 either way, so error 0.02
    assert t.low == pytest.approx(2.0)
    assert t.high == pytest.approx(4.0)
    assert t.agreement == "within"  # 3.182
    assert cell(ours, "Figure 4", "BERT-base, race, biased heads: t (N = 500)").agreement == "not measured"


def test_another_model_stands_in_and_is_said_to(tmp_path: Path) -> None:
    masked = beside_paper(open_heads(heads_run(tmp_path / "masked", "lh:bert-mini")))
    assert not masked.same_model
    assert ("weights", "BERT-base", "lh:bert-mini") in {(d.part, d.paper, d.here) for d in masked.differences}
    causal = beside_paper(open_heads(heads_run(tmp_path / "causal", "lh:gpt-mini", kind="perplexity")))
    assert cell(causal, "Sections 5.1 and 7", "GPT-2 small: SEAT").measured == 1.3
    assert "about BERT-base" in cell(causal, "Table 1", "top-3 (3 of 144 heads): SEAT").note


def test_a_run_of_another_bias_or_of_other_heads_leaves_cells_empty_with_the_reason(tmp_path: Path) -> None:
    race = beside_paper(open_heads(heads_run(tmp_path / "race", bias="race")))
    assert cell(race, "Figure 4", "BERT-base, race, biased heads: t (N = 500)").measured == 3.0
    assert cell(race, "Sections 5.1 and 7", "BERT-base: SEAT").note == "about gender; this run evaluated race"
    other = beside_paper(open_heads(heads_run(tmp_path / "other", bias="transgender")))  # another word
    assert cell(other, "Sections 5.1 and 7", "BERT-base: SEAT").note.endswith(
        "this run evaluated transgender"
    )
    five = beside_paper(open_heads(heads_run(tmp_path / "five", top=5)))
    note = cell(five, "Table 1", "top-3 (3 of 144 heads): SEAT").note
    assert note == "the run removed 5 heads, the paper 3"


def test_table_2_comes_from_a_glue_run_that_closed_the_same_heads(tmp_path: Path) -> None:
    settings = glue_settings("rte", "top")
    top = tuple(Head(0, i) for i in range(3))
    recipes = [GlueRecipe(BASE, (), ""), GlueRecipe("top", top, "")]
    values = {BASE: 0.69, "top": 0.5}
    cells = [
        GlueCell("rte", name, "accuracy", measured("accuracy", value, 0.02), (value,), 0.5, 0.5)
        for name, value in values.items()
    ]
    with Run.open(tmp_path / "glue", Glue, settings, hashes={}) as run:
        run.results(Glue.recipes, lambda: recipes)
        run.results(Glue.cells, lambda: cells)
    ours = beside_paper(open_heads(heads_run(tmp_path / "run")), Glue.open(tmp_path / "glue"))
    assert cell(ours, "Table 2", "RTE, accuracy, 0 (full)").agreement == "within"
    assert cell(ours, "Table 2", "RTE, accuracy, top-3").agreement == "outside"
    notes = [cell(ours, "Table 2", name).note for name in ("RTE, accuracy, all", "WNLI, accuracy, 0 (full)")]
    assert all(term in note for term, note in zip(("these heads", "no WNLI"), notes, strict=True))


# ---- projections and CounterActs


def test_all_76_models_of_table_7_stand_beside_a_sweep(tmp_path: Path) -> None:
    ours = beside_paper(Projections.open(write_sweep(tmp_path / "run")))
    lines = [each for each in ours.cells if each.table == "Table 7"]
    assert len(lines) == 76 * 6
    assert sum(each.measured is not None for each in lines) == 3 * 3  # what the made-up run has
    base = cell(ours, "Table 7", "Base: strength")
    assert (base.published, base.measured, base.agreement) == (0.3069, 0.4, "within")
    assert "is 0.0690" in cell(ours, "Table 7", "SENT 1: fairness").note  # printed as 0.1231
    assert sum(bool(each.note) and each.measured is not None for each in lines) == 1
    rho = cell(ours, "Section 5", "Spearman's rho of Strength with fairness")
    assert (rho.published, rho.printed) == (-published_projections().spearman, "0.04")
    assert cell(ours, "Section 5", "Weighting at SENT raises ability").agreement == "as printed"


def test_claims_of_counteracts_are_judged_and_its_figures_have_no_numbers(tmp_path: Path) -> None:
    ours = beside_paper(Counteracts.open(write_prompts(tmp_path / "run")))
    shares = [each for each in ours.cells if each.table == "Table 1"]
    assert [each.agreement for each in shares] == ["equal"] * len(published_counteracts().occupations)
    mass = cell(ours, "Figure 3", "lh:tiny, unrelated: female mass")
    assert mass.measured == pytest.approx(0.15)
    assert (mass.published, mass.agreement) == (None, "no number")
    assert cell(ours, "Results", "lh:tiny, unrelated: margin, top 5").agreement == "as printed"
    assert cell(ours, "Figure 3", "gpt2-large: female and male mass").note == "this run evaluated lh:tiny"


@pytest.mark.parametrize(
    ("model", "kind", "base", "reached", "agreement"),
    [
        ("bert-base-uncased", "target neutral", 0.05, -0.03, "as printed"),  # the text: overturns
        ("bert-base-uncased", "target neutral", 0.05, 0.01, "not as printed"),
        ("gpt2-large", "target neutral", -0.05, -0.01, "as printed"),  # the preference stays
        ("roberta-base", "target syntactic similar", 0.05, 0.09, "as printed"),  # strengthens
        ("roberta-base", "target syntactic similar", -0.05, -0.09, "as printed"),
        ("roberta-base", "target syntactic similar", 0.05, 0.055, "not as printed"),  # the interval has 0
        ("roberta-base", "target counter syntactic", 0.05, 0.02, "as printed"),  # weakens
        ("roberta-base", "target counter syntactic", 0.05, 0.09, "not as printed"),
    ],
)
def test_what_the_text_of_counteracts_says_of_a_model_is_judged_by_our_margins(
    tmp_path: Path, model: str, kind: str, base: float, reached: float, agreement: str
) -> None:
    made_up = Counteracts.open(write_prompts(tmp_path / "made-up"))
    settings = replace(made_up.settings, models=(model,), variants=(BASE,), remove_heads=())
    change = measured("margin change", reached - base, 0.01, 58)
    cells = [
        ClozeCell(model, BASE, 5, BASE, "", measured("margin", base, 0.01, 58)),
        ClozeCell(model, BASE, 5, kind, "", measured("margin", reached, 0.01, 58)),
        ClozeCell(model, BASE, 5, kind, "", change, "weakens", "weakens"),
    ]
    with Run.open(tmp_path / "run", Counteracts, settings, hashes={}) as run:
        run.results(Counteracts.cells.of(cells_label(model, BASE)), lambda: cells)
    ours = beside_paper(Counteracts.open(tmp_path / "run"))
    assert ours.same_model
    claim = cell(ours, "Results", f"{model}, {kind}: margin, top 5")
    assert claim.agreement == agreement
    assert claim.measured == pytest.approx(reached - base)


# ---- files


def test_a_reproduction_comes_back_from_its_files(tmp_path: Path) -> None:
    folder = write_prompts(tmp_path / "run")
    run = reproduce(None, ReproduceSettings("counteracts", run=folder), tmp_path / "beside")
    ours = beside_paper(Counteracts.open(folder))
    assert REPRODUCTION.read(run.folder) == run.found == ours
    assert [each.cell for each in REPRODUCED_CELLS.read(run.folder)] == [each.cell for each in ours.cells]


def test_a_run_without_a_paper_is_refused(tmp_path: Path) -> None:
    with Run.open(tmp_path / "glue", Glue, glue_settings(), hashes={}):
        pass
    with pytest.raises(BadRun, match="heads, counteracts and projections follow a paper"):
        beside_paper(Glue.open(tmp_path / "glue"))
