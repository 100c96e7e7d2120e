"""Documentation fields, and results as the hub reads them."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from huggingface_hub import parse_eval_result_entries

from levelhead.errors import BadProbe, BadRun, CannotDo
from levelhead.inference.contents import open_contents
from levelhead.pages.about import EMPTY, FIELDS, about_of, keep_about, read_about, stated_fields
from levelhead.pages.card import card, eval_results
from levelhead.pages.page import report_html
from levelhead.runs.common import About
from levelhead.studies.benchmark import Benchmark
from levelhead.studies.benchmark.run import benchmark
from levelhead.studies.benchmark.settings import BenchmarkSettings
from levelhead.studies.heads.run import heads
from levelhead.studies.heads.settings import HeadsSettings
from tests.scoring.benchmarks.test_crows_pairs import PAIRS, write
from tests.tiny import tiny
from tests.typed import Typed
from tests.word_lists import GENDER

TOML = """
intended_purpose = "Sorts support tickets."
groups_not_covered = ["nonbinary people", "other languages"]
date = 2026-11-16
responsible = "Ada <Example>"
"""


@pytest.fixture
def run(tmp_path: Path) -> Benchmark:
    settings = BenchmarkSettings("crows-pairs", write(tmp_path, PAIRS), null=2)
    return benchmark(tiny("gpt2"), settings, tmp_path / "run")


def about_file(folder: Path, text: str = TOML) -> Path:
    file = folder / "about.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_fields_are_those_of_the_record() -> None:
    assert list(FIELDS) == [each.name for each in fields(About) if each.name != "scenarios"]


def test_page_and_card_show_what_is_stated_and_what_is_not(
    run: Benchmark, tmp_path: Path, typed: Typed
) -> None:
    code, _, error = typed("report", str(run.folder), "--about", str(about_file(tmp_path)))
    assert code == 0, error
    contents = open_contents(run.folder)
    about = about_of(contents)
    assert about is not None
    assert about.groups_not_covered == "nonbinary people, other languages"
    assert about.date == "2026-11-16"
    assert about.groups_covered == "CrowS-Pairs: gender, age"  # from the benchmark: nobody stated it
    stated = dict(stated_fields(about))
    assert stated["Residual risk"] == stated["Provenance of the data"] == EMPTY
    text, page = card(contents), report_html(contents)
    for title in FIELDS.values():
        assert f"- {title}: " in text
        assert title in page
    assert f"- Residual risk: {EMPTY}" in text
    assert "Ada <Example>" not in text + page
    assert "Ada &lt;Example&gt;" in page


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("intended_porpose = 'x'", "intended_porpose: this key is unknown"),
        ("responsible = 3", "responsible"),
        ("date = [1", "about.toml"),
    ],
)
def test_a_wrong_key_or_value_is_one_line(
    run: Benchmark, tmp_path: Path, typed: Typed, text: str, complaint: str
) -> None:
    file = about_file(tmp_path, text)
    with pytest.raises(BadProbe, match=complaint):
        read_about(file)
    code, _, error = typed("report", str(run.folder), "--about", str(file))
    assert code != 0
    assert len(error.strip().splitlines()) == 1
    assert not (run.folder / "about.json").exists()


def test_a_documentation_is_kept_in_runs_only(tmp_path: Path) -> None:
    with pytest.raises(BadRun):
        keep_about(tmp_path, About(*[""] * 7))


def test_groups_come_from_the_word_list_where_nobody_states_them(tmp_path: Path) -> None:
    words = {**GENDER.groups(), "pairs": GENDER.pairs, "not_covered": "everybody else"}
    settings = HeadsSettings(words, experiments=("scores",), per_word=1, null=0, splits=0)
    run = heads(tiny("bert", layers=1), settings, tmp_path / "run")
    assert about_of(open_contents(run.folder)) is None  # a study of heads documents nothing by itself
    keep_about(run.folder, About(*[""] * 7))
    about = about_of(open_contents(run.folder))
    assert about is not None
    assert about.groups_not_covered == "everybody else"
    assert about.groups_covered.startswith("A, B")


# ---- the hub


def test_eval_results_are_read_by_the_hubs_own_parser(run: Benchmark, tmp_path: Path, typed: Typed) -> None:
    keep_about(run.folder, read_about(about_file(tmp_path)))
    words = ("card", str(run.folder), "--eval-results", str(tmp_path / "model"))
    code, _, error = typed(*words, "-o", str(tmp_path / "card.md"))
    assert code == 0, error
    file = tmp_path / "model" / ".eval_results" / "levelhead-crows-pairs.yaml"
    entries = parse_eval_result_entries(yaml.safe_load(file.read_text(encoding="utf-8")))
    share, gap = run["crows-pairs share"], run["crows-pairs gap"]
    assert [(each.task_id, each.value) for each in entries] == [("share", share.value), ("gap", gap.value)]
    assert {each.dataset_id for each in entries} == {"nyu-mll/crows_pairs"}
    assert {each.date for each in entries} == {"2026-11-16"}
    notes = entries[0].notes or ""
    assert share.interval is not None
    for text in (
        "rule levelhead",
        "n 5",
        f"{share.interval[0]:.4g} to {share.interval[1]:.4g}",
        "neutral 0.5",
    ):
        assert text in notes
    assert "in null models" in (entries[1].notes or "") + notes
    assert typed(*words)[0] == 0  # a file of ours is replaced
    file.write_text("mine", encoding="utf-8")
    assert typed(*words)[0] != 0


def test_results_that_the_hub_has_no_place_for_are_one_line(tmp_path: Path) -> None:
    settings = HeadsSettings(GENDER, experiments=("scores",), per_word=1, null=0, splits=0)
    other = heads(tiny("bert", layers=1), settings, tmp_path / "run")
    with pytest.raises(CannotDo, match="levelhead benchmark"):
        eval_results(open_contents(other.folder))


SCENARIO = """
[[scenarios]]
group = "women"
hazard = "Tickets of women | are filed as less urgent."
measure = "paired gap of urgency"
threshold = 0.1
review_date = 2027-01-31
"""


def test_bias_scenarios_stand_on_page_and_card_with_what_is_not_stated(
    run: Benchmark, tmp_path: Path, typed: Typed
) -> None:
    code, _, error = typed("report", str(run.folder), "--about", str(about_file(tmp_path, TOML + SCENARIO)))
    assert code == 0, error
    page, markdown = report_html(open_contents(run.folder)), card(open_contents(run.folder))
    for text in (page, markdown):
        assert "Bias scenarios" in text
        assert "paired gap of urgency" in text
        assert "2027-01-31" in text
    row = next(line for line in markdown.splitlines() if line.startswith("| women"))
    assert row.replace("\\|", "").count("|") == 7
    assert row.endswith(f"| {EMPTY} | 2027-01-31 |")


def test_a_scenario_without_a_group_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(BadProbe, match=r"about\.toml.*scenarios\.1\.group"):
        read_about(about_file(tmp_path, SCENARIO.replace('group = "women"\n', "")))
