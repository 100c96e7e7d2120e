"""Thresholds for release pipelines: three exit codes, and nothing unmeasured passes."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from levelhead.errors import BadOption
from levelhead.inference.check import (
    Checked,
    Judged,
    Plan,
    Threshold,
    check,
    exit_code,
    junit,
    read_plan,
    threshold,
)
from levelhead.inference.contents import open_contents
from levelhead.measures.catalog import BUILT_IN, MeasureInfo, measure_info
from levelhead.measures.statistics import Resampling
from levelhead.measures.stereoset import strength
from levelhead.runs.common import BASE
from levelhead.runs.presets import AuditSizes
from tests.report.own_measure import bring
from tests.report.synthetic import HOSTILE, measured, write_audit, write_heads, write_prompts, write_sweep
from tests.typed import Typed

PROJECTED = f"tokens: soft, 2-d {HOSTILE}"


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An audit with seat -0.765 and strength about -0.26."""
    return write_audit(tmp_path_factory.mktemp("runs") / "audit", shift=-2.0)


def judged(run: Path, *thresholds: Threshold, bound: bool = False, variant: str = BASE) -> list[str]:
    return [each.outcome for each in check(open_contents(run), Plan(thresholds, bound, variant))]


def most(name: str, limit: float) -> Threshold:
    return Threshold(name, "max", limit)


def least(name: str, limit: float) -> Threshold:
    return Threshold(name, "min", limit)


def test_a_signed_measure_is_judged_by_its_absolute_value(audit: Path) -> None:
    assert judged(audit, most("seat", 0.77), most("seat", 0.76)) == ["holds", "fails"]


def test_an_unsigned_measure_is_judged_as_it_is(audit: Path) -> None:
    assert judged(audit, least("ability", 0.75), least("ability", 0.76), most("ss", 0.5)) == [
        "holds",
        "fails",
        "holds",
    ]


def test_bound_judges_the_worse_end_of_the_interval(audit: Path) -> None:
    assert judged(audit, most("seat", 0.8), least("ability", 0.72)) == ["holds", "holds"]
    assert judged(audit, most("seat", 0.8), least("ability", 0.72), bound=True) == ["fails", "fails"]
    assert judged(audit, most("seat", 0.87), least("ability", 0.7), bound=True) == ["holds", "holds"]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (
            most("fairness", 0.5),
            "--max fairness=0.5 would hold at the worst values: higher is better. Give --min",
        ),
        (most("accuracy", 1.0), "higher is better"),
        (most("lms", 0.6), "higher is better"),
        (most("glue/rte", 0.6), "higher is better"),
        (least("seat", 0.1), r"lower of \|seat\| is better. Give --max seat=NUMBER"),
        (least("lpbs", 0.1), "--min lpbs career=0.1 would hold"),
        (least("distance", 0.1), "lower is better"),
        (least("fluency", 10.0), "lower is better. Give --max fluency=NUMBER"),
        (Threshold("seat", "decrease", 0.1), "Give --max-increase seat=NUMBER"),
        (Threshold("fairness", "increase", 0.1), "Give --max-decrease fairness=NUMBER"),
    ],
)
def test_a_limit_that_the_worst_value_would_keep_is_refused(audit: Path, wrong: Threshold, says: str) -> None:
    contents = open_contents(audit)
    with pytest.raises(BadOption, match=says) as refused:
        check(contents, Plan((wrong,)), contents if wrong.of_change else None)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", [info.name for info in BUILT_IN])
def test_every_measure_with_a_direction_has_a_side_that_is_refused(audit: Path, name: str) -> None:
    refused = 0
    for side in (most, least):
        try:
            judged(audit, side(name, 0.5))
        except BadOption:
            refused += 1
    assert refused == (measure_info(name).better != "")


def test_the_worse_bound_of_an_interval_around_zero_is_the_farther_one(tmp_path: Path) -> None:
    run = write_audit(tmp_path / "run")  # lpbs career 0.2, from -0.4 to 0.8
    assert judged(run, most("lpbs career", 0.79), most("lpbs career", 0.81), bound=True) == [
        "fails",
        "holds",
    ]


def test_what_was_skipped_or_never_asked_is_not_measured(audit: Path) -> None:
    plan = Plan((least("accuracy", 0.5), most("distance", 1.0), most("seat", 2.0)))
    outcomes = check(open_contents(audit), plan)
    assert [each.outcome for each in outcomes] == ["not measured", "not measured", "holds"]
    terms = [("accuracy", "0.5", "not asked"), ("distance", "1", "did not measure"), ("seat", "0.7654", "2")]
    for each, own in zip(outcomes, terms, strict=True):
        assert str(each).startswith(f"{each.outcome}: {own[0]}")
        assert all(term in str(each) for term in own)
    assert exit_code(outcomes) == 3


def test_a_value_without_an_interval_has_no_bound_to_judge(tmp_path: Path) -> None:
    run = bring(write_audit(tmp_path / "run"), MeasureInfo("gap", "Gap"), measured("gap", 0.1, half=-1))
    assert judged(run, most("gap", 0.2)) == ["holds"]
    assert judged(run, most("gap", 0.2), bound=True) == ["not measured"]


def test_exceeding_outweighs_not_measured(audit: Path) -> None:
    assert exit_code(check(open_contents(audit), Plan((least("accuracy", 0.5), most("seat", 0.1))))) == 1


def test_one_name_for_several_measures_judges_each_of_them(audit: Path) -> None:
    outcomes = check(open_contents(audit), Plan((most("LPBS", 9.0),)))
    assert [(each.measure, each.outcome) for each in outcomes] == [
        ("lpbs career", "holds"),
        ("lpbs math", "not measured"),
    ]


def test_another_variant_and_its_cost_can_be_judged(audit: Path) -> None:
    limits = most("seat", 1.87), most("fluency change", 1.03)
    assert judged(audit, *limits, variant=PROJECTED) == ["holds", "holds"]
    assert judged(audit, most("fluency-change", 1.02), variant=PROJECTED) == ["fails"]


def test_plain_runs_are_checked_too(tmp_path: Path) -> None:
    assert judged(write_heads(tmp_path / "heads"), most("seat", 1.2)) == ["fails"]
    assert judged(write_prompts(tmp_path / "prompts"), most("margin", 0.051)) == ["holds"]
    sweep = write_sweep(tmp_path / "sweep")
    assert judged(sweep, most("strength", 0.3), variant=BASE) == ["fails"]
    assert judged(sweep, most("strength", 0.31), variant="sent: hard") == ["holds"]


def test_a_measure_of_the_users_own_is_judged_as_its_description_says(tmp_path: Path) -> None:
    value = measured("pronoun gap", -0.4, 0.1, neutral=0.0)
    signed = bring(write_audit(tmp_path / "a"), MeasureInfo("pronoun gap", "Gap", neutral=0.0), value)
    assert judged(signed, most("Pronoun-Gap", 0.3)) == ["fails"]
    below = MeasureInfo("pronoun gap", "Gap", neutral=0.0, biased="below")
    one_sided = bring(write_audit(tmp_path / "b"), below, value)
    assert judged(one_sided, least("pronoun gap", 0.3)) == ["fails"]
    with pytest.raises(BadOption, match="higher is better"):
        judged(one_sided, most("pronoun gap", 0.3))


def test_a_measure_of_the_users_own_that_a_variant_lacks_is_not_measured(tmp_path: Path) -> None:
    info, value = MeasureInfo("pronoun gap", "Gap", neutral=0.0), measured("pronoun gap", -0.4)
    run = bring(write_audit(tmp_path / "run"), info, value)
    assert judged(run, most("pronoun gap", 0.3), variant=PROJECTED) == ["not measured"]


def test_unknown_names_suggest_the_nearest(audit: Path) -> None:
    with pytest.raises(BadOption, match=r"no measure 'strenght'.*strength"):
        judged(audit, most("strenght", 1))
    with pytest.raises(BadOption, match="no variant"):
        judged(audit, most("seat", 1), variant="without head")


@pytest.mark.parametrize("text", ["seat", "seat=", "=1", "seat=nan", "seat=high"])
def test_a_threshold_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BadOption, match="is no threshold"):
        threshold(text, "max")


def test_thresholds_come_from_a_toml_file(tmp_path: Path) -> None:
    path = tmp_path / "release.toml"
    path.write_text(
        'bound = true\nvariant = "x"\n[max]\nseat = 0.8\n"lpbs career" = 1\n[min]\nability = 0.7\n'
    )
    assert read_plan(path) == Plan(
        (most("seat", 0.8), most("lpbs career", 1.0), least("ability", 0.7)), True, "x"
    )


@pytest.mark.parametrize(
    "text", ["[most]\nseat = 1", "[max]\nseat = 'x'", "[max]\nseat = true", "max = 3", "bound = 1", "["]
)
def test_a_wrong_threshold_file_is_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "release.toml"
    path.write_text(text)
    with pytest.raises(BadOption, match=r"release\.toml") as caught:
        read_plan(path)
    assert "\n" not in str(caught.value)


def test_junit_is_well_formed_and_counts_failures_and_errors(tmp_path: Path) -> None:
    contents = open_contents(write_audit(tmp_path / "run", model=f"{HOSTILE}\x07"))
    outcomes = check(contents, Plan((most("seat", 0.1), least("accuracy", 0.5), most("seat", 2.0))))
    suite = ElementTree.fromstring(junit(outcomes, contents))
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "1")
    cases = suite.findall("testcase")
    assert [[child.tag for child in case] for case in cases] == [["failure", "system-err"], ["error"], []]
    assert cases[0].get("classname") == f"{HOSTILE}\\u0007"


def test_the_command_exits_0_1_2_or_3_and_says_which(audit: Path, tmp_path: Path, typed: Typed) -> None:
    limits, junit = ("--max", "seat=0.8", "--min", "ability=0.7"), tmp_path / "check.xml"
    code, out, _ = typed("check", str(audit), *limits, "--junit", str(junit))
    assert (code, out.count("holds: ")) == (0, 2)
    assert ElementTree.parse(junit).getroot().get("failures") == "0"
    code, out, _ = typed("check", str(audit), "--max", "seat=0.1", "--json")
    checked = Checked.from_json(json.loads(out))
    assert (code, checked.verdict, checked.exit) == (1, "fails", 1)
    assert (checked.run, checked.model, checked.variant, checked.bound) == (
        str(audit),
        "lh:tiny",
        BASE,
        False,
    )
    (threshold,) = checked.thresholds
    assert threshold.threshold == most("seat", 0.1)
    assert threshold.value == pytest.approx(-0.76543211)
    assert threshold.judged == pytest.approx(0.76543211)
    code, out, _ = typed("check", str(audit), "--min", "accuracy=0.5")
    assert (code, out[:13]) == (3, "not measured:")
    code, out, line = typed("check", str(audit), "--max", "sat=1")
    assert (code, out) == (2, "")
    assert line.startswith("levelhead: There is no measure 'sat'")


# ---- against a baseline


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An earlier release with seat 1.235, and one with seat 1.335: about 0.1 ± 0.14 worse, unpaired."""
    place = tmp_path_factory.mktemp("releases")
    return write_audit(place / "last"), write_audit(place / "next", shift=0.1)


def since(run: Path, baseline: Path, *thresholds: Threshold, bound: bool = False) -> list[Judged]:
    return check(open_contents(run), Plan(thresholds, bound), open_contents(baseline))


def test_a_rise_since_the_baseline_is_judged_by_its_value_or_by_its_bound(
    releases: tuple[Path, Path],
) -> None:
    last, new = releases
    limits = [Threshold("seat", "increase", limit) for limit in (0.05, 0.12)]
    assert [each.outcome for each in since(new, last, *limits)] == ["fails", "holds"]
    assert [each.outcome for each in since(new, last, *limits, bound=True)] == ["fails", "fails"]
    assert [each.outcome for each in since(last, new, *limits)] == ["holds", "holds"]
    (fall,) = since(last, new, Threshold("ss", "decrease", 0.005))
    assert fall.outcome == "fails"
    assert fall.judged == pytest.approx(0.01)
    assert all(term in str(fall) for term in ("ss: 0.01 is above 0.005", "unpaired change", "-0.010 ["))


def test_a_rise_of_a_negative_bias_is_one_of_its_size(tmp_path: Path) -> None:
    runs = write_audit(tmp_path / "a", shift=-2.0), write_audit(tmp_path / "b", shift=-2.1)
    (rise,) = since(runs[1], runs[0], Threshold("seat", "increase", 0.05))
    assert rise.outcome == "fails"
    assert rise.judged == pytest.approx(0.1)


def test_without_limits_only_what_is_surely_worse_fails(releases: tuple[Path, Path], tmp_path: Path) -> None:
    last, new = releases
    assert {each.outcome for each in since(new, last)} == {"holds"}
    far = write_audit(tmp_path / "far", shift=0.5)
    failed = [each.measure for each in since(far, last) if each.outcome == "fails"]
    assert "seat" in failed
    assert "ability" not in [each.measure for each in since(far, last)]


def test_what_the_baseline_did_not_measure_is_not_measured(
    releases: tuple[Path, Path], tmp_path: Path
) -> None:
    (missing,) = since(releases[0], write_heads(tmp_path / "heads"), Threshold("strength", "increase", 1.0))
    assert (missing.outcome, missing.reason) == ("not measured", "the baseline did not measure it")


def test_a_change_needs_a_baseline(audit: Path) -> None:
    with pytest.raises(BadOption, match="--baseline RUN"):
        judged(audit, Threshold("seat", "increase", 0.1))
    with pytest.raises(BadOption, match="--max-increase 'seat' is no threshold"):
        threshold("seat", "increase")


def test_a_failure_says_which_number_is_on_which_side_of_which(audit: Path) -> None:
    outcomes = check(open_contents(audit), Plan((least("ability", 0.9), most("ss", 0.1))))
    assert [str(each).split(" (")[0] for each in outcomes] == [
        f"fails: ability: {outcomes[0].judged:.4g} is below 0.9",
        f"fails: ss: {outcomes[1].judged:.4g} is above 0.1",
    ]


def test_bounds_of_an_audit_do_not_hang_on_the_seed() -> None:
    s = np.random.default_rng(0).normal(0.1, 0.4, 170)

    def spread(resamples: int) -> float:
        intervals = [strength(s, resampling=Resampling(resamples, seed)).interval for seed in range(6)]
        return float(np.std([interval[1] for interval in intervals if interval is not None]))

    assert spread(AuditSizes().resamples) < 0.6 * spread(2_000)
    assert spread(AuditSizes().resamples) < 0.004
