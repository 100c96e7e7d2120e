"""Runs as objects: what each study stored, by name, and nothing where it is not stored yet."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import levelhead as lh
from levelhead.edits.sites import Head
from levelhead.errors import BadRun
from levelhead.measures.catalog import MeasureInfo
from levelhead.measures.measurement import Measurement
from levelhead.runs.common import BASE, MeasuredVariant
from levelhead.runs.folder import Run
from levelhead.runs.study import Study, studies
from levelhead.studies.audit import ARCS, Audit
from levelhead.studies.audit.settings import AuditStored
from levelhead.studies.compare_heads import CompareHeads, CompareHeadsStored
from levelhead.studies.compare_heads.records import ScoredModelSummary
from levelhead.studies.counteracts import OCCUPATIONS, Counteracts, cells_label
from levelhead.studies.counteracts.records import ClozeCell, ClozeForm, OccupationLine
from levelhead.studies.counteracts.settings import CounteractsStored
from levelhead.studies.heads import Heads
from levelhead.studies.heads.records import ArcSheet, HeadScore, Removal
from levelhead.studies.heads.settings import HeadsStored
from levelhead.studies.mitigate import Mitigate
from levelhead.studies.mitigate.settings import MitigateStored
from levelhead.studies.planted import Planted
from levelhead.studies.planted.records import PlantTrial
from levelhead.studies.planted.settings import PlantedStored
from levelhead.studies.projections import Projections
from levelhead.studies.projections.records import PredictedLabels, SettingMeasured
from levelhead.studies.projections.settings import ProjectionsStored
from tests.runs.cases import sample

SEAT = Measurement("seat", 0.4, (0.1, 0.7), 80, neutral=0.0)
HEADS = sample(HeadsStored, study="heads", experiments=("scores",), per_word=2, resamples=200)
COUNTERACTS = sample(
    CounteractsStored,
    study="counteracts",
    models=("m", "n"),
    variants=(BASE, "edited"),
    per_background=2,
    ks=(3, 7),
    groups=("female", "male"),
    kinds=(BASE,),
)
PROJECTIONS = sample(ProjectionsStored, study="projections", nli="n")
AUDIT = sample(AuditStored, study="audit")
COMPARISON = sample(CompareHeadsStored, study="compare_heads", models=("a", "b"))
PLANTED = sample(PlantedStored, study="planted")
MITIGATE: MitigateStored = sample(MitigateStored, study=Mitigate.name, models=("a",), null=19)

every = pytest.mark.parametrize("study", studies().values(), ids=lambda study: study.name)


def begun(folder: Path, study: type[Study[Any]]) -> Any:
    """A run of which no result is there yet; its settings."""
    settings = sample(study.stored, study=study.name)
    Run.open(folder, study, settings).close()
    return settings


@every
def test_a_run_without_results_opens_as_its_study_with_nothing_in_it(
    tmp_path: Path, study: type[Study[Any]]
) -> None:
    settings = begun(tmp_path, study)
    run: Any = lh.open_run(tmp_path)
    assert type(run) is type(study.open(tmp_path)) is study
    assert (run.folder, run.settings) == (tmp_path, settings)
    assert all(getattr(run, name) in ((), None) for name in (*study.slots, *study.inside))
    assert run.lines() == []


@every
def test_a_run_of_another_study_is_refused_in_one_line_that_names_the_command(
    tmp_path: Path, study: type[Study[Any]]
) -> None:
    others = [each for each in studies().values() if each is not study]
    begun(tmp_path, others[0])
    with pytest.raises(BadRun) as caught:
        study.open(tmp_path)
    message = str(caught.value)
    assert all(term in message for term in (repr(others[0].name), f"`{study.command}`"))
    assert "\n" not in message


# ---- heads


def score(layer: int, head: int, value: float, rank: int) -> HeadScore:
    return HeadScore(Head(layer, head), value, None, None, None, rank, 1.2)


def test_heads_are_ranked_and_only_biased_ones_are_named_for_removal(tmp_path: Path) -> None:
    scores = [score(0, 0, 0.1, 3), score(0, 1, 0.3, 1), score(1, 0, 0.0, 4), score(1, 1, 0.2, 2)]
    with Run.open(tmp_path, Heads, HEADS) as run:
        run.results(Heads.scores, scores.copy)
    heads = Heads.open(tmp_path)
    assert [str(each.head) for each in heads.ranked] == ["1-2", "2-2", "1-1", "2-1"]
    assert heads.biased_heads(2) == [Head(0, 1), Head(1, 1)]
    assert heads.biased_heads(9) == [Head(0, 1), Head(1, 1), Head(0, 0)]


def test_a_run_without_a_biased_head_has_nothing_to_remove(tmp_path: Path) -> None:
    with Run.open(tmp_path, Heads, HEADS) as run:
        run.results(Heads.scores, lambda: [score(0, 0, -0.1, 1)])
    with pytest.raises(BadRun, match="nothing to ablate"):
        Heads.open(tmp_path).biased_heads(3)


def test_removals_of_all_parts_come_in_order_and_apart_from_their_agreement(tmp_path: Path) -> None:
    removals = [Removal(Head(0, 0), 1.1, -0.1), Removal(Head(1, 0), 1.3, 0.1)]
    with Run.open(tmp_path, Heads, HEADS) as run:
        for label, removal in zip(("1-1 to 1-2", "2-1 to 2-2"), removals, strict=True):
            run.results(Heads.removals.of(label), [removal].copy)
        run.result(Heads.agreement, lambda: replace(SEAT, name="spearman"))
    heads = Heads.open(tmp_path)
    assert heads.removals == tuple(removals)
    assert heads.agreement is not None
    assert heads.agreement.name == "spearman"


# ---- the others


def test_the_models_of_a_comparison_are_its_model(tmp_path: Path) -> None:
    summary = ScoredModelSummary("m", 2, 2, 3, 1, Head(0, 1), 0.3, Head(1, 0), -0.1, SEAT)
    with Run.open(tmp_path, CompareHeads, COMPARISON) as run:
        run.results(CompareHeads.models, lambda: [summary, replace(summary, model="n")])
    assert CompareHeads.open(tmp_path).model == "m, n"


def test_planted_trials_of_all_seeds_come_in_order(tmp_path: Path) -> None:
    trial = PlantTrial("value", 0, (Head(0, 1),), (1.0,), (), 0.1, 0.4, "gates", "alone", 1.0, (1.0,), 1.0)
    with Run.open(tmp_path, Planted, PLANTED) as run:
        for seed in (1, 0):
            run.result(Planted.trials.of(f"value/{seed}"), [replace(trial, seed=seed)].pop)
    assert [each.seed for each in Planted.open(tmp_path).trials] == [1, 0]


def test_a_sweep_has_its_measures_deeper_ones_last_and_its_answers_chunk_by_chunk(tmp_path: Path) -> None:
    base = SettingMeasured(BASE, BASE, "", "m", replace(SEAT, name="strength"))
    deeper = replace(base, variant="layer 2 on")
    with Run.open(tmp_path, Projections, PROJECTIONS) as run:
        run.results(Projections.depth_next_sentences, [deeper].copy)
        run.results(Projections.next_sentences, [base].copy)
        run.results(Projections.inference_answers.of("1-2"), lambda: [PredictedLabels("01")])
        run.results(Projections.depth_inference_answers.of("1-2"), lambda: [PredictedLabels("22")])
        run.results(Projections.inference_answers.of("3-4"), lambda: [PredictedLabels("12")])
    opened = Projections.open(tmp_path)
    assert opened.measured == (base, deeper)
    assert opened.answers == [(PredictedLabels("01"),), (PredictedLabels("12"),)]


def test_prompts_have_cells_forms_and_occupations_of_each_model_and_variant(tmp_path: Path) -> None:
    margin = ClozeCell("m", "edited", 3, BASE, "", replace(SEAT, name="margin"))
    line = OccupationLine(3, BASE, "female", "=nurse", "margin", -0.5, None, None, 4, None)
    label = cells_label("m", "edited")
    with Run.open(tmp_path, Counteracts, COUNTERACTS) as run:
        cells = [replace(margin, k=7), replace(margin, group="female"), margin]
        run.results(Counteracts.cells.of(label), cells.copy)
        run.results(Counteracts.forms.of(label), lambda: [ClozeForm("m", "edited", "one text", ("mums",))])
        run.file(OCCUPATIONS.of(label), [line])
    opened = Counteracts.open(tmp_path)
    assert COUNTERACTS.shown_k == 3  # as near to 5 as 7 is, and smaller
    assert (opened.margin("edited"), opened.margin()) == (margin, None)
    assert len(opened.cells) == 3
    assert [form.absent for form in opened.forms] == [("mums",)]
    assert (opened.occupations("m", "edited"), opened.occupations("m")) == ([line], [])


def test_an_audit_has_its_measures_by_variant_and_the_runs_inside_it(tmp_path: Path) -> None:
    after = replace(SEAT, value=0.1)
    info = MeasureInfo("pronoun gap", "She or he")
    with Run.open(tmp_path, Audit, AUDIT) as run:
        run.result(Audit.measured.of("seat"), lambda: MeasuredVariant(BASE, "m", SEAT))
        run.result(Audit.verified.of("x/y/seat"), lambda: MeasuredVariant("x/y", "m", after))
        run.results(Audit.measures, [info].copy)
        run.file(ARCS, ArcSheet(()))
    assert (Audit.open(tmp_path).heads, Audit.open(tmp_path).counteracts) == (None, None)
    Run.open(tmp_path / Audit.heads.folder, Heads, HEADS).close()
    Run.open(tmp_path / Audit.counteracts.folder, Counteracts, COUNTERACTS).close()
    audit = Audit.open(tmp_path)
    assert audit.measurements == {BASE: {"seat": SEAT}, "x/y": {"seat": after}}
    assert (audit.measures, audit.arcs) == ((info,), ArcSheet(()))
    assert audit.heads is not None
    assert audit.counteracts is not None
    assert (audit.heads.settings, audit.counteracts.settings) == (HEADS, COUNTERACTS)
    assert audit.data.address(audit.measured[0]) == "measured/seat#0"
