"""A GLUE run in check, compare, card and report: Table 2's layout, verdicts, baselines, noise."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from levelhead.errors import BadOption
from levelhead.inference.check import Judged, Plan, check, exit_code, threshold
from levelhead.inference.comparing import compare
from levelhead.inference.contents import open_contents, variants
from levelhead.measures.glue import glue_difference
from levelhead.pages.blocks import Code, Drawn, Shown
from levelhead.pages.card import card
from levelhead.pages.presented import sections, summary
from levelhead.pages.tables import Table
from levelhead.runs.common import BASE, MeasuredVariant
from levelhead.runs.folder import Run
from levelhead.studies.audit import Audit
from levelhead.studies.glue import Glue
from levelhead.studies.glue.chapter import chapters
from tests.report.synthetic import measured, write_audit, write_glue_run
from tests.report.synthetic.glue import HALVED
from tests.report.synthetic.prompts import CLOSED


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model without a head answers 10 % more wrongly."""
    return write_glue_run(tmp_path_factory.mktemp("runs") / "glue", worse=0.1)


def judged(run: Path, least: str, variant: str = BASE, bound: bool = False) -> list[Judged]:
    return check(open_contents(run), Plan((threshold(least, "min"),), bound, variant))


# ---- check


def test_a_score_is_judged_by_its_name(run: Path) -> None:
    assert [each.outcome for each in judged(run, "glue/sst2=0.6")] == ["holds"]
    assert [each.outcome for each in judged(run, "glue/sst2=0.75")] == ["holds"]
    assert [each.outcome for each in judged(run, "glue/sst2=0.75", "closed")] == ["fails"]
    assert len(judged(run, "glue=0.1")) == 4  # three tasks, one of which has a second metric


def test_a_task_that_was_not_trained_is_not_measured_and_an_unknown_one_is_one_line(run: Path) -> None:
    assert exit_code(judged(run, "glue/mrpc=0.6")) == 3
    with pytest.raises(BadOption, match=r"no measure 'glue/sst3'\. Did you mean glue/sst2"):
        judged(run, "glue/sst3=0.6")


def test_a_release_can_ask_for_a_bound_on_the_paired_cost(run: Path) -> None:
    (value,), (bound,) = (judged(run, "glue/sst2 change=-0.09", "closed", bound) for bound in (False, True))
    assert (value.outcome, bound.outcome) == ("holds", "fails")
    cost = next(each for each in Glue.open(run).costs if (each.task, each.recipe) == ("sst2", "closed"))
    assert cost.measurement.interval is not None
    assert (value.judged, bound.judged) == (cost.measurement.value, cost.measurement.interval[0])


# ---- compare


def test_recipes_of_one_run_are_compared_by_the_runs_own_pairing(run: Path) -> None:
    compared = compare([run])
    assert compared.runs == ("before", "closed", HALVED)
    difference = compared.measures["glue/sst2"].differences[0]
    cost = next(each for each in Glue.open(run).costs if (each.task, each.recipe) == ("sst2", "closed"))
    assert difference is not None
    assert difference.paired
    assert (difference.value, difference.interval) == (cost.measurement.value, cost.measurement.interval)


def test_two_runs_on_the_same_items_are_paired_by_item_and_by_seed(run: Path, tmp_path: Path) -> None:
    runs = [run, write_glue_run(tmp_path / "other", model="other", seed=1)]
    difference = compare(runs).measures["glue/stsb spearman"].differences[0]
    one, other = (
        [
            unit.predictions.values
            for unit in Glue.open(each).units
            if (unit.task, unit.recipe) == ("stsb", BASE)
        ]
        for each in runs
    )
    gold = next(task.gold.values for task in Glue.open(run).tasks if task.task == "stsb")
    expected = glue_difference("spearman", gold, one, other)
    assert difference is not None
    assert difference.how.startswith("paired by item and by seed (2")
    assert difference.value == expected.points / 100


# ---- report and card


def tables_of(folder: Path) -> dict[str, Table]:
    (section,) = chapters(open_contents(folder))
    assert section is not None
    return {block.table.name: block.table for block in section.blocks if isinstance(block, Shown)}


def test_the_table_has_a_column_for_each_recipe_and_both_baselines(run: Path) -> None:
    table = tables_of(run)["glue-scores"]
    assert table.columns == ("Task", "Metric", BASE, "closed", HALVED, "Majority", "Random", "n")
    assert [(line[0].text, line[1].text) for line in table.rows] == [
        ("sst2", "accuracy"),
        ("wnli", "accuracy"),
        ("stsb", "pearson"),
        ("stsb", "spearman"),
    ]
    assert table.rows[0][5].text == "0.500"


def test_a_small_task_that_is_not_above_chance_is_called_noise(run: Path) -> None:
    scores, costs = (tables_of(run)[name] for name in ("glue-scores", "glue-costs"))
    noisy = {line[0].text for line in scores.rows if "noise" in line[2].small}
    assert noisy == {"wnli"}
    assert {line[4].text for line in costs.rows if line[1].text == "wnli"} == {"noise"}
    sentence = next(line[5].text for line in costs.rows if line[1].text == "wnli")
    assert "so this task shows nothing" in sentence


def test_every_difference_has_its_interval_and_its_verdict_sentence(run: Path) -> None:
    line = tables_of(run)["glue-costs"].rows[0]
    assert [cell.text for cell in line[:3]] == ["closed", "sst2", "accuracy"]
    assert line[3].text == "−0.074 [−0.115, −0.032]"
    assert line[4].text == "costs"
    assert line[5].text == "costs 7.4 points [3.2, 11.5]."


def test_learning_curves_show_every_training_of_the_chosen_task(run: Path) -> None:
    (section,) = chapters(open_contents(run))
    assert section is not None
    (drawn,) = [block for block in section.blocks if isinstance(block, Drawn)]
    assert [chart.name for chart in drawn.charts] == ["curves-score", "curves-loss"]
    assert [option for option, _ in drawn.controls[0].options] == ["sst2", "wnli", "stsb"]
    points = drawn.charts[0].spec["data"]["values"]
    assert len(points) == 3 * 3 * 2 * 2  # tasks, recipes, seeds, epochs
    assert all(point["score"] is not None for point in points)


def test_a_glue_run_opens_with_its_verdicts_and_has_its_recipes(run: Path) -> None:
    contents = open_contents(run)
    assert [section.id for section in sections(contents)] == ["measured", "glue", "limits", "again"]
    assert summary(contents).findings[0].text == "closed, sst2, accuracy: costs 7.4 points [3.2, 11.5]."
    (section,) = chapters(contents)
    assert section is not None
    assert len([block for block in section.blocks if isinstance(block, Code)]) == 2


def test_a_card_has_every_recipe(run: Path) -> None:
    text = card(open_contents(run))
    assert "### Changed: closed" in text
    assert "| GLUE, SST-2 (glue/sst2) | 0.716 |" in text
    assert "levelhead glue lh:tiny --data 'my glue' --tasks sst2,wnli,stsb" in text


# ---- inside an audit


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit whose model was fine-tuned too, untouched and without its heads."""
    folder = write_audit(tmp_path_factory.mktemp("runs") / "audit")
    learned = Glue.open(write_glue_run(folder / Audit.glue.folder, closed=CLOSED, worse=0.1))
    with Run.open(folder, Audit, Audit.open(folder).settings, hashes=Audit.open(folder).data.hashes) as run:
        for name in (BASE, CLOSED):
            key = Audit.measured.of("glue") if name == BASE else Audit.verified.of(f"{name}/glue")
            run.results(key, partial(learned.measured, name))
        seat = measured("seat", 0.735, neutral=0.0)
        run.result(Audit.verified.of(f"{CLOSED}/seat"), lambda: MeasuredVariant(CLOSED, "lh:tiny", seat))
    return folder


def test_an_audit_is_judged_by_glue_scores_and_costs(audit: Path) -> None:
    assert [each.outcome for each in judged(audit, "glue/sst2=0.75")] == ["holds"]
    assert [each.outcome for each in judged(audit, "glue/sst2=0.75", CLOSED)] == ["fails"]
    assert [each.outcome for each in judged(audit, "glue/sst2 change=-0.05", CLOSED)] == ["fails"]
    assert CLOSED in variants(open_contents(audit))


def test_an_audits_page_shows_bias_against_glue(audit: Path) -> None:
    (section,) = chapters(open_contents(audit))
    assert section is not None
    first, _ = [block for block in section.blocks if isinstance(block, Drawn)]
    points = {point["setting"]: point for point in first.charts[0].spec["data"]["values"]}
    assert points.keys() == {BASE, CLOSED}
    assert points[BASE]["bias"] > points[CLOSED]["bias"]
    assert points[BASE]["use"] > points[CLOSED]["use"]
    assert (points[BASE]["ability"], points[CLOSED]["ability"]) == ("kept", "lost")
