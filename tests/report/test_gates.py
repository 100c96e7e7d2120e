"""Gates in a pipeline: one that tested nothing is no pass, and neither a null model nor a closed pipe fails
one."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from ast import literal_eval
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

import levelhead as lh
from levelhead.inference.check import EVERY, Checked, Plan, Threshold, exit_code
from levelhead.inference.contents import open_contents
from levelhead.measures.catalog import DOUBTED, MeasureInfo
from levelhead.measures.measurement import Measurement, Null
from levelhead.measures.null import null_range
from levelhead.runs.common import BASE, MeasuredVariant
from levelhead.runs.folder import Run
from levelhead.runs.study import DOUBT_FACT
from levelhead.studies.benchmark import Benchmark
from levelhead.studies.benchmark.settings import BenchmarkStored
from tests.report.synthetic import measured, write_audit, write_glue_run, write_heads, write_prompts
from tests.typed import Typed

ROOT = Path(__file__).resolve().parents[2]
SHARE = "crows-pairs share"
MODELS = "null models; p two-sided, Student's t, normal null"


def write_scores(folder: Path, *scores: Measurement, hashes: Mapping[str, str] | None = None) -> Path:
    """A run with these scores, as `levelhead measure` writes it."""
    settings = BenchmarkStored(
        study=Benchmark.name,
        benchmark="crows-pairs",
        models=("tiny",),
        data="pairs.csv",
        null=9,
        resamples=100,
    )
    share = MeasureInfo(SHARE, "Share", neutral=0.5, scale=(0, 1))
    with Run.open(folder, Benchmark, settings, hashes=dict(hashes or {})) as run:
        run.results(Benchmark.compared, lambda: [MeasuredVariant(BASE, "tiny", each) for each in scores])
        run.results(Benchmark.measures, lambda: [share])
    return folder


def on_items(items: str, value: float = 0.6) -> Measurement:
    return measured(SHARE, value, 0.02, neutral=0.5, settings={"data_hash": items})


# ---- nothing was compared


def incomparable(kind: str, place: Path) -> tuple[Path, Path]:
    """A run and a baseline that have nothing in common."""
    first, second = place / "run", place / "baseline"
    doubt = {DOUBT_FACT: "it does not read plain English"}
    if kind == "another kind of run":
        return write_prompts(first), write_heads(second)
    if kind == "another benchmark":
        return write_scores(first, on_items("a")), write_scores(second, measured("bbq bias", 0.1))
    if kind == "other items":
        return write_scores(first, on_items("a")), write_scores(second, on_items("b"))
    if kind == "no bias measured":
        return write_glue_run(first), write_glue_run(second)
    own = {} if kind == "a doubted baseline" else doubt
    write_scores(second, on_items("a"), hashes=doubt)
    return write_scores(first, on_items("a"), hashes=own), second


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("another kind of run", "the baseline did not measure it (log_odds, margin)"),
        ("another benchmark", f"({SHARE}); this run did not measure it (bbq bias)"),
        ("other items", f"evaluated on other items than in the baseline ({SHARE})"),
        ("two doubted models", f"{DOUBTED} ({SHARE})"),
        ("a doubted baseline", f"the baseline: {DOUBTED} ({SHARE})"),
        ("no bias measured", "neither run measured a bias"),
    ],
)
def test_a_gate_that_compared_nothing_is_not_measured_everywhere(
    kind: str, why: str, tmp_path: Path, typed: Typed
) -> None:
    run, baseline = incomparable(kind, tmp_path)
    command, xml = ("check", str(run), "--baseline", str(baseline)), tmp_path / "check.xml"
    code, out, error = typed(*command, "--junit", str(xml))
    assert (code, out.count("\n"), error) == (3, 1, "")
    assert out.startswith(f"not measured: {EVERY} ")
    assert why in out
    code, out, _ = typed(*command, "--json")
    checked = Checked.from_json(json.loads(out))
    assert (code, checked.exit, checked.verdict) == (3, 3, "not measured")
    assert why in checked.reason
    assert {each.outcome for each in checked.thresholds} == {"not measured"}
    suite = ElementTree.parse(xml).getroot()
    (fault,) = suite.findall("testcase/error")
    assert (suite.get("errors"), suite.get("tests")) == ("1", str(len(checked.thresholds)))
    assert why in str(fault.get("message"))
    result = lh.check(run, baseline=baseline)
    assert not result.holds
    assert why in result.reason


def test_a_threshold_that_holds_does_not_stand_for_a_baseline_with_which_nothing_was_compared(
    tmp_path: Path,
) -> None:
    run, baseline = incomparable("other items", tmp_path)
    assert lh.check(run, {SHARE: 0.7}).holds
    both = lh.check(run, {SHARE: 0.7}, baseline=baseline)
    assert (both.verdict, both.exit) == ("not measured", 3)
    assert lh.check(run, {SHARE: 0.55}, baseline=baseline).verdict == "fails"


def test_no_row_at_all_is_no_pass() -> None:
    assert exit_code([]) == 3


def test_a_measure_that_one_run_lacks_is_listed_and_turns_no_verdict_while_others_are_compared(
    tmp_path: Path, typed: Typed
) -> None:
    older = write_scores(tmp_path / "older", on_items("a"), measured("seat", 0.2), measured("ss", None))
    newer = write_scores(tmp_path / "newer", on_items("a"), measured("strength", 0.2), measured("ss", None))
    xml = tmp_path / "check.xml"
    code, out, _ = typed("check", str(newer), "--baseline", str(older), "--junit", str(xml))
    assert code == 0
    assert [line.split(" (")[0] for line in out.splitlines()] == [
        f"holds: {SHARE}: -0.02828 is at most 0",
        "not compared: strength; the baseline did not measure it",
        "not compared: seat; this run did not measure it",
    ]
    suite = ElementTree.parse(xml).getroot()
    assert [suite.get(kind) for kind in ("tests", "errors", "skipped")] == ["3", "0", "2"]
    result = lh.check(newer, baseline=older)
    assert result.holds
    assert [(each.measure, each.outcome, each.counts) for each in result.thresholds] == [
        (SHARE, "holds", True),
        ("strength", "not measured", False),
        ("seat", "not measured", False),
    ]


def test_what_is_surely_worse_fails_beside_measures_that_were_not_compared(tmp_path: Path) -> None:
    older = write_scores(tmp_path / "older", on_items("a"))
    newer = write_scores(tmp_path / "newer", on_items("a", 0.7), measured("strength", 0.2))
    assert lh.check(newer, baseline=older).verdict == "fails"


def test_a_limit_on_a_change_that_is_unknown_is_never_a_pass(tmp_path: Path) -> None:
    older = write_scores(tmp_path / "older", on_items("a"))
    newer = write_scores(tmp_path / "newer", on_items("a"), measured("strength", 0.2))
    limits = (Threshold(SHARE, "increase", 0.1), Threshold("strength", "increase", 0.1))
    checked = Checked.of(open_contents(newer), Plan(limits), open_contents(older))
    assert [each.outcome for each in checked.thresholds] == ["holds", "not measured"]
    assert (checked.exit, checked.reason) == (3, "the baseline did not measure it")


# ---- thresholds that null models fail

STRENGTH = measured("strength", 0.26, 0.1, neutral=0.0, null=Null(MODELS, 9, 0.2, 0.05, 0.3))
BOTH_SIDES = measured("ss_paired", 0.52, 0.03, neutral=0.5, null=Null(MODELS, 9, 0.49, 0.02, 0.2))


@pytest.fixture
def scored(tmp_path: Path) -> Path:
    """Null models reach a strength of 0.3215, and an ss_paired of 0.441 to 0.539."""
    return write_scores(tmp_path / "scored", STRENGTH, BOTH_SIDES, measured("seat", 0.2))


def test_check_warns_of_a_threshold_inside_the_range_of_null_models(scored: Path, typed: Typed) -> None:
    code, out, error = typed("check", str(scored), "--max", "strength=0.3")
    assert (code, out.count("\n")) == (0, 1)
    assert error == (
        "levelhead: strength at most 0.3: a model without any bias can fail this threshold. "
        "Null models reach 0.322 (values 0.0785 to 0.322, 9 null models). Give at least 0.33.\n"
    )
    code, out, error = typed("check", str(scored), "--max", "strength=0.3", "--json")
    (row,) = Checked.from_json(json.loads(out)).thresholds
    assert error == f"levelhead: {row.warning}\n"
    assert typed("check", str(scored), "--max", "strength=0.33", "--max", "seat=0.3")[2] == ""


def test_a_bound_must_leave_room_for_the_interval_of_a_null_model(scored: Path, typed: Typed) -> None:
    assert typed("check", str(scored), "--max", "strength=0.4")[2] == ""
    error = typed("check", str(scored), "--max", "strength=0.4", "--bound")[2]
    assert "The intervals of null models reach 0.422 " in error
    assert error.endswith("Give at least 0.43.\n")
    assert typed("check", str(scored), "--max", "strength=0.43", "--bound")[2] == ""


@pytest.mark.parametrize(
    ("limit", "advice"),
    [
        (Threshold("ss_paired", "max", 0.53), "Give at least 0.54."),
        (Threshold("ss_paired", "max", 0.3), "Give at least 0.54."),  # below the whole range
        (Threshold("ss_paired", "min", 0.47), "Give at most 0.44."),
        (Threshold("ss_paired", "max", 0.54), ""),
        (Threshold("ss_paired", "min", 0.44), ""),
    ],
)
def test_either_side_of_a_measure_that_takes_both_has_its_own_range(
    scored: Path, limit: Threshold, advice: str
) -> None:
    (row,) = Checked.of(open_contents(scored), Plan((limit,))).thresholds
    assert row.warning.endswith(advice)
    assert bool(row.warning) == bool(advice)


def test_thresholds_of_a_file_of_python_and_in_junit_are_warned_of_too(
    scored: Path, tmp_path: Path, typed: Typed
) -> None:
    file, xml = tmp_path / "release.toml", tmp_path / "check.xml"
    file.write_text("[max]\nstrength = 0.3\nseat = 0.1\n")
    _, _, error = typed("check", str(scored), "--thresholds", str(file), "--junit", str(xml))
    assert error.count("a model without any bias can fail this threshold") == 1
    (said,) = ElementTree.parse(xml).getroot().findall("testcase/system-err")
    (warned, unwarned) = lh.check(scored, {"strength": 0.3, "seat": 0.1}).thresholds
    assert error == f"levelhead: {said.text}\n" == f"levelhead: {warned.warning}\n"
    assert unwarned.warning == ""


# ---- the gates of our own pages

# what `make demo` measured, CrowS-Pairs of lh:gpt-mini and its texts: the null, and how far the interval
# reaches below and above the value
NULLS: dict[str, tuple[Null, float, float]] = {
    "seat": (Null(MODELS, 9, 0.1322, 0.0491, 0.5), 0.287, 0.264),
    "strength": (Null(MODELS, 5, 0.2316, 0.0167, 0.5), 0.075, 0.127),
    "preference": (Null(MODELS, 5, -0.0108, 0.0277, 0.5), 0.056, 0.058),
    SHARE: (Null(MODELS, 5, 0.4804, 0.0254, 0.5), 0.028, 0.028),
    "who appears": (Null("labels exchanged among occupations, two-sided", 9999, 0.0, 0.125, 0.5), 0.21, 0.27),
    "paired gap: sentiment/gender + names": (
        Null("sign flips by cluster, two-sided", 31, 0.0, 0.03, 0.5),
        0.06,
        0.06,
    ),
}
UNTESTED = {
    "ability": 0.72,
    "lms": 0.94,
    "glue/sst2": 0.88,
    "fairness": 0.9,
    "mirror divergence": 2.3,
}  # no null model was evaluated
KEPT = {"items": (0.1, -0.2, 0.1)}  # so that changes are paired


@pytest.fixture(scope="module")
def null_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a model without bias whose scores are the worst of 95 % of null models."""
    scores = [measured(name, value, 0.05, influence=KEPT) for name, value in UNTESTED.items()]
    for name, (null, down, up) in NULLS.items():
        value, neutral = max(null_range(null), key=abs), 0.5 if name == SHARE else 0.0
        interval = (value - down, value + up)
        scores.append(Measurement(name, value, interval, 3, neutral=neutral, null=null, influence=KEPT))
    return write_scores(tmp_path_factory.mktemp("null") / "run", *scores)


def sample_gates(page: Path) -> list[str]:
    """The lines of a page that one copies: a transcript begins with a dollar sign."""
    if page.suffix == ".md":
        return re.findall(r"^    levelhead (check RUN [^#\n]+)", page.read_text("utf-8"), re.M)
    steps = yaml.safe_load(page.read_text("utf-8"))["jobs"]["audit"]["steps"]
    found = re.findall(r"levelhead (check audit [^|\n]+)", "\n".join(step.get("run", "") for step in steps))
    return [line.replace("check audit", "check RUN") for line in found]


PAGES = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "examples/ci/github-workflow.yml"]
WITH_GATES = sorted(page for page in PAGES if sample_gates(page))


def test_the_pages_with_sample_gates_are_found() -> None:
    names = {page.name for page in WITH_GATES}
    assert {"check.md", "index.md", "benchmarks.md", "README.md", "github-workflow.yml"} <= names


@pytest.mark.parametrize("page", WITH_GATES, ids=lambda page: str(page.name))
def test_a_model_without_bias_passes_the_sample_gates_of_a_page(
    page: Path, null_model: Path, tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for thresholds in re.findall(r"^```toml\n(.*?\[max\].*?)^```", page.read_text("utf-8"), re.M | re.S):
        (tmp_path / "release.toml").write_text(thresholds)
    for gate in sample_gates(page):
        runs = {"RUN": str(null_model), "LAST_RELEASE": str(null_model), "baseline": str(null_model)}
        code, out, error = typed(*(runs.get(word, word) for word in shlex.split(gate)))
        assert (code, error) == (0, ""), f"{page.name}: levelhead {gate}: {error}{out}"


# ---- a pipe that nobody reads

CLOSED = """
import os, sys
import levelhead.cli.main, levelhead.inference.check, levelhead.pages.page, levelhead.pages.card
from levelhead.cli.entry import main

ends = []
for buffered in (True, False):
    for words in eval(sys.argv[1]):  # each in a copy of this process, which has read all modules already
        if (child := os.fork()) == 0:
            reading, writing = os.pipe()
            os.close(reading)
            os.dup2(writing, 1)
            os.dup2(writing, 2)
            sys.stdout.reconfigure(write_through=not buffered)
            sys.argv = ["levelhead", *words]
            main()
            os._exit(99)
        ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(ends)
"""


@pytest.mark.nightly
def test_a_closed_pipe_changes_no_verdict_and_no_error(tmp_path: Path) -> None:
    run = str(write_scores(tmp_path / "run", STRENGTH))
    limits = ("strength=0.5", "strength=0.3", "strength=0.1", "distance=0.1", "nonsense=1")
    gates = [["check", run, "--max", limit] for limit in limits]
    others = [
        [*gates[0], "--json"],
        ["report", str(tmp_path)],
        ["card", str(write_audit(tmp_path / "audit"))],
    ]
    command = [sys.executable, "-c", CLOSED, repr([*gates, *others])]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    ends = [0, 0, 1, 3, 2, 0, 4, 141]
    assert literal_eval(done.stdout) == [*ends, *ends]
