"""Runs as objects: what each study stored, by name, and nothing where it is not stored yet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from levelhead.edits.head import Head
from levelhead.errors import BadRun
from levelhead.measures.catalog import MeasureInfo
from levelhead.measures.measurement import Measurement
from levelhead.results import layout, runs
from levelhead.results.folder import Run
from levelhead.results.keys import Layout
from levelhead.results.records.cloze import ClozeCell, ClozeForm, OccupationLine
from levelhead.results.records.common import BASE, MeasuredVariant
from levelhead.results.records.comparison import ScoredModelSummary
from levelhead.results.records.heads import ArcSheet, HeadScore, Removal
from levelhead.results.records.planted import PlantTrial
from levelhead.results.records.projections import PredictedLabels, SettingMeasured
from levelhead.results.settings import (
    AtlasRunSettings,
    AuditRunSettings,
    AuditSizes,
    BenchmarkRunSettings,
    GlueRunSettings,
    HeadComparisonSettings,
    HeadsRunSettings,
    MitigateRunSettings,
    PlantedRunSettings,
    PromptsRunSettings,
    SurveyRunSettings,
    SweepRunSettings,
)

SEAT = Measurement("seat", 0.4, (0.1, 0.7), 80, neutral=0.0)
HEADS = HeadsRunSettings(
    study="heads",
    seed=0,
    model="m",
    layers=2,
    heads=2,
    bias="gender",
    contexts="templates",
    experiments=("scores",),
    per_word=None,
    contexts_per_word=2,
    sentences=None,
    n_sentences=500,
    top=3,
    trim=False,
    resamples=200,
)
PROMPTS = PromptsRunSettings(
    study="counteracts",
    seed=0,
    models=("m", "n"),
    variants=(BASE, "edited"),
    prompts="gender-occupation",
    verbalizer=None,
    per_background=2,
    ks=(3, 7),
    draws=2000,
    remove_heads=(),
    groups=("female", "male"),
    kinds=(BASE,),
    n_prompts=8,
)
SWEEP = SweepRunSettings(
    study="projections",
    seed=0,
    model="m",
    nli_model="n",
    fit="base",
    depth=False,
    labels=None,
    triples="shipped",
    ability="ours",
    occupations=2,
    contexts=1,
    words=("woman", "man"),
    resamples=200,
    pairs="frames",
    form="single",
    nli_form="pairs",
)
AUDIT = AuditRunSettings("audit", 0, "m", ("mlm",), 2, 2, False, "gender", None, 3, False)
COMPARISON = HeadComparisonSettings("compare_heads", 0, ("a", "b"), 5, "gender")
PLANTED = PlantedRunSettings("planted", 0, "m", 2, 4, "gender", 1, 1, ("value",), 0.1, 0.5, 10, None, 50)
GLUE = GlueRunSettings(
    study="glue",
    seed=0,
    model="m",
    published="glue",
    tasks=("rte",),
    recipes=(),
    seeds=2,
    train_rows=None,
    margin=1.0,
    epochs=3,
    batch_size=32,
    learning_rate=3e-4,
    warmup=0.1,
    weight_decay=0.01,
    max_length=128,
    lora=False,
)
SURVEY = SurveyRunSettings(
    study=layout.SURVEY.study,
    seed=0,
    models=("a", "b"),
    biases=("gender",),
    questions=("seat",),
    quick=True,
    sizes=AuditSizes(),
    dtype=None,
)
MITIGATE = MitigateRunSettings(
    study=layout.MITIGATE.study,
    seed=0,
    model="a",
    bias="gender",
    methods=(),
    objective="",
    gain=0.0,
    max_perplexity=2.0,
    max_loss=2.0,
    null=19,
)
BENCHMARK = BenchmarkRunSettings(
    study=layout.BENCHMARK.study,
    seed=0,
    benchmark="crows-pairs",
    model="a",
    published="crows.csv",
    rule=None,
    categories=(),
    limit=None,
    null=2,
    chat=False,
    predictions=None,
    resamples=100,
)
ATLAS = AtlasRunSettings(
    study=layout.ATLAS.study,
    seed=0,
    model="a",
    objectives=(),
    benchmark_files={},
    bias="gender",
    localizer="gradient",
    splits=2,
    null=19,
    limit=None,
)
STUDIES: list[tuple[Layout[Any], Any, Callable[[Path], Any], type[Any]]] = [
    (layout.HEADS, HEADS, runs.open_heads, runs.HeadsRun),
    (layout.HEAD_COMPARISON, COMPARISON, runs.open_head_comparison, runs.HeadComparisonRun),
    (layout.PLANTED, PLANTED, runs.open_planted, runs.PlantedRun),
    (layout.SWEEP, SWEEP, runs.open_sweep, runs.SweepRun),
    (layout.PROMPTS, PROMPTS, runs.open_prompts, runs.PromptsRun),
    (layout.GLUE, GLUE, runs.open_glue, runs.GlueRun),
    (layout.AUDIT, AUDIT, runs.open_audit, runs.AuditRun),
    (layout.SURVEY, SURVEY, runs.open_survey, runs.SurveyRun),
    (layout.MITIGATE, MITIGATE, runs.open_mitigate, runs.MitigateRun),
    (layout.ATLAS, ATLAS, runs.open_atlas, runs.AtlasRun),
    (layout.BENCHMARK, BENCHMARK, runs.open_benchmark, runs.BenchmarkRun),
]
studies = pytest.mark.parametrize(
    ("study", "settings", "opener", "kind"), STUDIES, ids=[study.study for study, *_ in STUDIES]
)


def test_every_study_has_an_object() -> None:
    assert [study for study, *_ in STUDIES] == list(layout.LAYOUTS)


@studies
def test_a_run_without_results_is_an_object_whose_attributes_are_empty(
    tmp_path: Path, study: Layout[Any], settings: Any, opener: Callable[[Path], Any], kind: type[Any]
) -> None:
    Run.open(tmp_path, study, settings).close()
    run = opener(tmp_path)
    assert type(run) is type(runs.open_run(tmp_path)) is kind
    assert (run.folder, run.settings) == (tmp_path, settings)
    names = [
        name for each in kind.__mro__ for name, value in vars(each).items() if isinstance(value, property)
    ]
    stored = [name for name in names if name not in ("folder", "settings", "model", "bias")]
    assert stored
    for name in stored:
        assert getattr(run, name) in ((), [], {}, frozenset(), None), name


@studies
def test_a_run_of_another_study_is_refused_in_one_line_that_names_the_command(
    tmp_path: Path, study: Layout[Any], settings: Any, opener: Callable[[Path], Any], kind: type[Any]
) -> None:
    other, other_settings, *_ = STUDIES[STUDIES.index((study, settings, opener, kind)) - 1]
    Run.open(tmp_path, other, other_settings).close()
    with pytest.raises(BadRun) as caught:
        opener(tmp_path)
    message = str(caught.value)
    assert all(term in message for term in (repr(other.study), f"`{study.command}`"))
    assert "\n" not in message


# ---- heads


def score(layer: int, head: int, value: float, rank: int) -> HeadScore:
    return HeadScore(Head(layer, head), value, None, None, None, rank, 1.2)


def test_heads_are_ranked_and_only_biased_ones_are_named_for_removal(tmp_path: Path) -> None:
    scores = [score(0, 0, 0.1, 3), score(0, 1, 0.3, 1), score(1, 0, 0.0, 4), score(1, 1, 0.2, 2)]
    with Run.open(tmp_path, layout.HEADS, HEADS) as run:
        run.results(layout.SCORES, scores.copy)
    heads = runs.open_heads(tmp_path)
    assert [str(each.head) for each in heads.ranked] == ["1-2", "2-2", "1-1", "2-1"]
    assert heads.biased_heads(2) == [Head(0, 1), Head(1, 1)]
    assert heads.biased_heads(9) == [Head(0, 1), Head(1, 1), Head(0, 0)]


def test_a_run_without_a_biased_head_has_nothing_to_remove(tmp_path: Path) -> None:
    with Run.open(tmp_path, layout.HEADS, HEADS) as run:
        run.results(layout.SCORES, lambda: [score(0, 0, -0.1, 1)])
    with pytest.raises(BadRun, match="nothing to remove"):
        runs.open_heads(tmp_path).biased_heads(3)


def test_removals_of_all_parts_come_in_order_and_apart_from_their_agreement(tmp_path: Path) -> None:
    removals = [Removal(Head(0, 0), 1.1, -0.1), Removal(Head(1, 0), 1.3, 0.1)]
    with Run.open(tmp_path, layout.HEADS, HEADS) as run:
        for label, removal in zip(("1-1 to 1-2", "2-1 to 2-2"), removals, strict=True):
            run.results(layout.REMOVALS.of(label), [removal].copy)
        run.result(layout.AGREEMENT, lambda: replace(SEAT, name="spearman"))
    heads = runs.open_heads(tmp_path)
    assert heads.removals == tuple(removals)
    assert heads.agreement is not None
    assert heads.agreement.name == "spearman"


# ---- the others


def test_the_models_of_a_comparison_are_its_model(tmp_path: Path) -> None:
    summary = ScoredModelSummary("m", 2, 2, 3, 1, Head(0, 1), 0.3, Head(1, 0), -0.1, SEAT)
    with Run.open(tmp_path, layout.HEAD_COMPARISON, COMPARISON) as run:
        run.results(layout.COMPARED_MODELS, lambda: [summary, replace(summary, model="n")])
    assert runs.open_head_comparison(tmp_path).model == "m, n"


def test_planted_trials_of_all_seeds_come_in_order(tmp_path: Path) -> None:
    trial = PlantTrial("value", 0, (Head(0, 1),), (1.0,), (), 0.1, 0.4, "gates", "alone", 1.0, (1.0,), 1.0)
    with Run.open(tmp_path, layout.PLANTED, PLANTED) as run:
        for seed in (1, 0):
            run.result(layout.PLANT_TRIALS.of(f"value/{seed}"), [replace(trial, seed=seed)].pop)
    assert [each.seed for each in runs.open_planted(tmp_path).trials] == [1, 0]


def test_a_sweep_has_its_measures_deeper_ones_last_and_its_answers_chunk_by_chunk(tmp_path: Path) -> None:
    base = SettingMeasured(BASE, BASE, "", "m", replace(SEAT, name="strength"))
    deeper = replace(base, variant="layer 2 on")
    with Run.open(tmp_path, layout.SWEEP, SWEEP) as run:
        run.results(layout.DEPTH_NEXT_SENTENCES, [deeper].copy)
        run.results(layout.NEXT_SENTENCES, [base].copy)
        run.results(layout.INFERENCE_ANSWERS.of("1-2"), lambda: [PredictedLabels("01")])
        run.results(layout.DEPTH_INFERENCE_ANSWERS.of("1-2"), lambda: [PredictedLabels("22")])
        run.results(layout.INFERENCE_ANSWERS.of("3-4"), lambda: [PredictedLabels("12")])
    sweep = runs.open_sweep(tmp_path)
    assert sweep.measured == (base, deeper)
    assert sweep.answers == [(PredictedLabels("01"),), (PredictedLabels("12"),)]


def test_prompts_have_cells_forms_and_occupations_of_each_model_and_variant(tmp_path: Path) -> None:
    margin = ClozeCell("m", "edited", 3, BASE, "", replace(SEAT, name="margin"))
    line = OccupationLine(3, BASE, "female", "=nurse", "margin", -0.5, None, None, 4, None)
    label = runs.prompts_label("m", "edited")
    with Run.open(tmp_path, layout.PROMPTS, PROMPTS) as run:
        cells = [replace(margin, k=7), replace(margin, group="female"), margin]
        run.results(layout.CLOZE_CELLS.of(label), cells.copy)
        run.results(layout.CLOZE_FORMS.of(label), lambda: [ClozeForm("m", "edited", "one text", ("mums",))])
        run.file(layout.OCCUPATIONS.of(label), [line])
    prompts = runs.open_prompts(tmp_path)
    assert PROMPTS.shown_k == 3  # as near to 5 as 7 is, and smaller
    assert (prompts.margin("edited"), prompts.margin()) == (margin, None)
    assert len(prompts.cells) == 3
    assert [form.absent for form in prompts.forms] == [("mums",)]
    assert (prompts.occupations("m", "edited"), prompts.occupations("m")) == ([line], [])


def test_an_audit_has_its_measures_by_variant_and_the_runs_inside_it(tmp_path: Path) -> None:
    after = replace(SEAT, value=0.1)
    info = MeasureInfo("pronoun gap", "She or he")
    with Run.open(tmp_path, layout.AUDIT, AUDIT) as run:
        run.result(layout.MEASURED.of("seat"), lambda: MeasuredVariant(BASE, "m", SEAT))
        run.result(layout.VERIFIED.of("x/y/seat"), lambda: MeasuredVariant("x/y", "m", after))
        run.results(layout.MEASURES, [info].copy)
        run.file(layout.ARCS, ArcSheet(()))
    assert (runs.open_audit(tmp_path).heads, runs.open_audit(tmp_path).prompts) == (None, None)
    Run.open(tmp_path / layout.HEADS_PART, layout.HEADS, HEADS).close()
    Run.open(tmp_path / layout.PROMPTS_PART, layout.PROMPTS, PROMPTS).close()
    audit = runs.open_audit(tmp_path)
    assert audit.by_variant() == {BASE: {"seat": SEAT}, "x/y": {"seat": after}}
    assert (audit.measures, audit.arcs) == ((info,), ArcSheet(()))
    assert audit.heads is not None
    assert audit.prompts is not None
    assert (audit.heads.settings, audit.prompts.settings) == (HEADS, PROMPTS)
    assert audit.address(audit.measured[0]) == "measure/seat#0"
