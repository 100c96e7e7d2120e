"""The CycloneDX bill of a run: valid by the published schema, with every number and scenario of the run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from levelhead.inference.contents import measurements, open_contents
from levelhead.pages.about import keep_about, read_about
from levelhead.pages.cyclonedx import bill_of_materials
from levelhead.studies.benchmark import Benchmark
from tests.report.test_about import SCENARIO, TOML, about_file, run
from tests.typed import Typed

__all__ = ["run"]  # a fixture


def model_card(text: str) -> dict[str, Any]:
    card: dict[str, Any] = json.loads(text)["metadata"]["component"]["modelCard"]
    return card


def valid(text: str) -> None:
    errors = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    assert errors is None, errors


def test_the_bill_of_a_run_is_valid_and_holds_its_numbers_with_their_intervals(run: Benchmark) -> None:
    contents = open_contents(run.folder)
    text = bill_of_materials(contents)
    valid(text)
    metrics = {each["type"]: each for each in model_card(text)["quantitativeAnalysis"]["performanceMetrics"]}
    for each in measurements(contents):
        if each.measurement.value is None:
            assert each.name not in metrics
            continue
        assert float(metrics[each.name]["value"]) == each.measurement.value
        if each.measurement.interval is not None:
            bounds = metrics[each.name]["confidenceInterval"]
            assert (float(bounds["lowerBound"]), float(bounds["upperBound"])) == each.measurement.interval
    assert bill_of_materials(open_contents(run.folder)) == text


def test_scenarios_are_fairness_assessments_and_nothing_is_assessed_that_nobody_stated(
    run: Benchmark, tmp_path: Path
) -> None:
    assert (
        "fairnessAssessments"
        not in model_card(bill_of_materials(open_contents(run.folder)))["considerations"]
    )
    keep_about(run.folder, read_about(about_file(tmp_path, TOML + SCENARIO)))
    text = bill_of_materials(open_contents(run.folder))
    valid(text)
    (assessed,) = model_card(text)["considerations"]["fairnessAssessments"]
    assert assessed["groupAtRisk"] == "women"
    assert (
        assessed["mitigationStrategy"] == "Measure: paired gap of urgency; Threshold: 0.1; Review: 2027-01-31"
    )


def test_the_ending_of_a_card_decides_its_form(run: Benchmark, tmp_path: Path, typed: Typed) -> None:
    file = tmp_path / "bom.json"
    code, _, error = typed("card", str(run.folder), "-o", str(file))
    assert code == 0, error
    valid(file.read_text(encoding="utf-8"))
    code, _, error = typed("card", str(run.folder), "-o", str(file), "--model-index")
    assert (code, error.count("\n")) == (2, 1)
    assert "--model-index" in error
    (tmp_path / "mine.json").write_text("{}", encoding="utf-8")
    code, _, error = typed("card", str(run.folder), "-o", str(tmp_path / "mine.json"))
    assert code == 4
    assert (tmp_path / "mine.json").read_text(encoding="utf-8") == "{}"


def test_a_bill_that_breaks_the_schema_is_seen(run: Benchmark) -> None:
    bill = json.loads(bill_of_materials(open_contents(run.folder)))
    bill["metadata"]["component"]["modelCard"]["fairness"] = []
    with pytest.raises(AssertionError):
        valid(json.dumps(bill))
