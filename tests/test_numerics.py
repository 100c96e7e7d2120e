"""Suites under other last bits are summed up; so are skips."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from benchmarks.numerics import NUMERIC, Outcome, main, outcome, settings_of, summary

from tests.conftest import skips_in_one_line

ROOT = Path(__file__).resolve().parents[1]
REPORT = """<testsuites><testsuite>
<testcase classname="tests.a" name="good"/>
<testcase classname="tests.a" name="left"><skipped message="why"/></testcase>
<testcase classname="tests.a" name="bad[1]"><failure message="no"/></testcase>
</testsuite></testsuites>"""


def test_every_processor_tries_threads_and_x86_its_instructions_too() -> None:
    x86, arm = settings_of("x86_64"), settings_of("aarch64")
    assert {setting["OMP_NUM_THREADS"] for setting in arm.values()} == {"1", "2", "8"}
    assert any("ATEN_CPU_CAPABILITY" in setting for setting in arm.values())
    assert {setting.get("ONEDNN_MAX_CPU_ISA") for setting in x86.values()} == {None, "SSE41", "AVX2"}
    assert set(arm) < set(x86)


def test_the_numeric_part_is_there() -> None:
    assert all((ROOT / folder).is_dir() for folder in NUMERIC)


def test_failures_are_named_with_the_settings_under_which_they_happen(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    found = outcome("1 thread", report, 1)
    assert found == Outcome("1 thread", 1, 1, ("tests.a::bad[1]",))
    others = [Outcome("2 threads", 2, 1, ()), Outcome("8 threads", 1, 1, found.failed)]
    assert summary([found, *others]) == ["tests.a::bad[1]: 1 thread, 8 threads"]


@pytest.mark.parametrize("code", [0, 2])
def test_a_suite_that_left_no_report_is_no_success(tmp_path: Path, code: int) -> None:
    assert len(outcome("1 thread", tmp_path / "absent.xml", code).failed) == 1


@pytest.mark.slow
def test_a_named_part_runs_under_a_named_setting(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = tmp_path / "test_bits.py"
    part.write_text("import os\n\ndef test_threads():\n    assert os.environ['OMP_NUM_THREADS'] == '2'\n")
    options = [str(part), "--", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    assert main(["--only", "2 threads", *options]) == 0
    assert main(["--only", "8 threads", *options]) == 1
    assert "test_threads: 8 threads" in capsys.readouterr().out


def test_skips_are_one_line_with_their_reasons() -> None:
    reasons = ["Skipped: needs a CUDA device"] * 2 + ["Skipped: pandas  is\nabsent"]
    reports = [SimpleNamespace(longrepr=("file", 1, why)) for why in reasons]
    line = skips_in_one_line(reports)
    assert all(term in line for term in ("2 needs a CUDA device", "1 pandas is absent"))
    assert "\n" not in line
    assert skips_in_one_line([]) == ""
