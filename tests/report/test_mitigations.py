"""The page of a run of mitigations, from records alone: sentences, picture, tables, card, thresholds."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from levelhead.edits.output import Coined, SelfDebiased, Symmetrized
from levelhead.edits.sites import passes
from levelhead.inference.check import Plan, check, threshold
from levelhead.inference.contents import Contents, open_contents
from levelhead.inference.mitigating import (
    bought,
    costs,
    findings,
    missed_text,
    odds,
    sentence,
    verdict,
    written_text,
)
from levelhead.measures.catalog import CATALOG
from levelhead.measures.certified import AGREEMENT, NAME_AGREEMENT, Certificate, in_sequence
from levelhead.measures.measurement import Measurement
from levelhead.measures.seat import DIFFERENCE_HIGH, DIFFERENCE_LOW, SPREAD
from levelhead.pages.card import card
from levelhead.pages.page import write_report
from levelhead.pages.presented import presented
from levelhead.pages.renderers import csv, latex, markdown
from levelhead.pages.sections.closing import limits
from levelhead.pages.sections.measured import natural_cell
from levelhead.pages.what_now import uncertified_text
from levelhead.probes.coin import Coin
from levelhead.probes.group_swap import GenderSwap
from levelhead.runs.folder import Run
from levelhead.studies.mitigate import TIMES, Mitigate
from levelhead.studies.mitigate.chapter import picture
from levelhead.studies.mitigate.records import (
    BiasDetected,
    BiasMoved,
    BiasSpilled,
    CandidateTested,
    MethodTimed,
    ModelWritten,
    OddsMoved,
)
from levelhead.studies.mitigate.settings import MitigateStored
from tests.report.page_text import page_text

SETTINGS = MitigateStored(
    study=Mitigate.name,
    models=("some-model",),
)


def a_candidate(name: str, after: float, p_cost: float, certified: bool) -> CandidateTested:
    certificate = Certificate(
        name,
        "preference",
        "nats",
        before=0.3,
        after=after,
        gain=0.3 - after,
        interval=(0.2 - after, 0.4 - after),
        p_gain=0.001,
        p_overshoot=0.001,
        p_costs={"perplexity": p_cost},
        costs={"perplexity": 0.01 if certified else 0.2},
        certified=certified,
        cost_intervals={"perplexity": (0.005, 0.015)},
    )
    return CandidateTested(name, "heads", 1.0, "", 0.3, certificate)


def spilled(bias: str, after: float, ends: tuple[float, float]) -> BiasSpilled:
    low, high = ends
    numbers = {"before": 0.1, "after": after, "grown": after - 0.1}
    return BiasSpilled("one", f"{bias}: cosine gap", unit="cosine", low=low, high=high, cells=2, **numbers)


def written(folder: Path, certified: bool) -> Contents:
    """A finished run of two candidates, the first certified or none."""
    first = a_candidate("one", 0.05, 0.01 if certified else 0.4, certified)
    with Run.open(folder, Mitigate, SETTINGS, hashes={}) as run:
        run.result(Mitigate.detected, lambda: BiasDetected("preference", "nats", 0.3, 0.5, 9, 0.001, True))
        moved = BiasMoved("one", "preference", "nats", 0.3, 0.05, -0.25, -0.35, -0.15, 0.8, 0.79)
        run.results(Mitigate.moved, lambda: [moved])
        run.results(Mitigate.odds, lambda: [OddsMoved("one", "nurse", "female", 1.131, 0.182)])
        race, age = spilled("race", 0.2, (0.02, 0.18)), spilled("age", 0.1, (-0.1, 0.1))
        run.results(Mitigate.spillover, lambda: [race, age])
        chosen = ModelWritten("one", "load('model')", "") if certified else ModelWritten("", "", "none")
        run.result(Mitigate.written, lambda: chosen)
        run.file(TIMES, [MethodTimed("heads", 12.4, 321)])
        run.results(Mitigate.candidates, lambda: [first, a_candidate("two", 0.1, 0.9, False)])
    return open_contents(folder)


@pytest.fixture
def certified(tmp_path: Path) -> Contents:
    return written(tmp_path / "certified", True)


@pytest.fixture
def missed(tmp_path: Path) -> Contents:
    return written(tmp_path / "missed", False)


@pytest.mark.parametrize(
    ("costs", "told"),
    [({AGREEMENT: -0.1, NAME_AGREEMENT: -0.1}, "first names"), ({AGREEMENT: -0.1}, "the imam: the mosque")],
)
def test_where_agreement_is_a_cost_the_page_says_what_it_does_not_see(
    tmp_path: Path, certified: Contents, costs: dict[str, float], told: str
) -> None:
    other = a_candidate("one", 0.05, 0.01, True)
    tested = replace(other, certificate=replace(other.certificate, costs=costs))
    with Run.open(tmp_path / "tested", Mitigate, SETTINGS, hashes={}) as run:
        run.results(Mitigate.candidates, lambda: [tested])
    seen = [line for line in limits(open_contents(tmp_path / "tested")) if line.startswith("Agreement")]
    assert len(seen) == 1
    assert told in seen[0]
    assert not any(line.startswith("Agreement") for line in limits(certified))


def test_a_known_loss_stands_in_the_sentence_that_says_the_gain() -> None:
    own = a_candidate("one", 0.3, 0.0, True)
    loses = replace(
        own, passes=2, certificate=replace(own.certificate, costs={"perplexity": 0.01, AGREEMENT: 0.0})
    )
    rises = BiasMoved("one", "cosine gap", "cosine", 0.008, 0.001, -0.007, None, None, 0.40, 0.72)
    falls = replace(rises, bias="preference", effect_after=0.1)
    said = bought(loses, [rises, falls, replace(rises, candidate="other")])
    assert "; perplexity rises by 1.0 %, each answer takes 2 passes; not worse: agreement unchanged; " in said
    assert "the effect size of the cosine gap rises from 0.40 to 0.72, because its spread shrinks" in said
    assert said.count("effect size") == 1
    free = replace(own, certificate=replace(own.certificate, costs={AGREEMENT: -0.01, "perplexity": -0.284}))
    assert bought(free, []).endswith(
        "; no measured ability falls; not worse: agreement +1.0 points, perplexity −25 %"
    )
    unknown = replace(own, certificate=replace(own.certificate, costs={}))
    assert bought(unknown, []).endswith("; what it costs was not measured")


def test_the_sentence_names_what_is_certified_or_what_each_one_missed(
    certified: Contents, missed: Contents
) -> None:
    assert certified.mitigate is not None
    assert missed.mitigate is not None
    said = sentence(certified.mitigate)
    assert all(part in said for part in ("one", "preference", "0.30", "0.050 nats"))
    assert sentence(missed.mitigate).count("misses perplexity") == 2


def test_a_candidate_that_is_asked_twice_says_so_among_its_costs() -> None:
    once = a_candidate("one", 0.05, 0.01, True)
    assert costs(once) == "perplexity rises by 1.0 %"
    assert costs(replace(once, passes=2)) == "perplexity rises by 1.0 %, each answer takes 2 passes"


def test_a_folder_of_another_certified_mitigation_is_told_from_the_first(tmp_path: Path) -> None:
    names = ("one", "two")
    with Run.open(tmp_path, Mitigate, SETTINGS, hashes={}) as run:
        run.result(Mitigate.written, lambda: ModelWritten("two", "load('model')", ""))
        run.results(Mitigate.candidates, lambda: [a_candidate(name, 0.1, 0.01, True) for name in names])
    assert "holds two, certified too," in written_text(Mitigate.open(tmp_path))


def test_the_time_of_the_written_model_is_stated_as_measured(tmp_path: Path) -> None:
    said = []
    for number, slower in enumerate(((1.84, 1.32), (1.84, None), (None, None))):
        with Run.open(tmp_path / str(number), Mitigate, SETTINGS, hashes={}) as run:
            run.result(Mitigate.written, lambda: ModelWritten("one", "load('model')", ""))
            twice = replace(a_candidate("one", 0.1, 0.01, True), passes=2)
            run.file(TIMES, [MethodTimed(twice.method, 12.4, 321, *slower)])
            run.results(Mitigate.candidates, partial(lambda each: [each], twice))
        said.append(written_text(Mitigate.open(tmp_path / str(number))).partition("unmodified model: ")[2])
    assert said == [
        "1.8 times per answer, 1.3 times per generated token.",
        "1.8 times per answer.",
        "not measured.",
    ]


def test_passes_multiply_and_what_changes_tensors_needs_one() -> None:
    symmetrized, coined = Symmetrized(GenderSwap()), Coined(Coin(GenderSwap(), 0))
    assert [passes(each) for each in ((), (symmetrized,), (coined,))] == [1, 2, 1]
    assert passes((SelfDebiased(("a", "b")),)) == 3


def test_a_candidate_that_misses_nothing_is_told_from_one_that_does() -> None:
    passing = a_candidate("one", 0.1, 0.01, False).certificate
    assert not passing.missed
    assert "comes after one that fails" in missed_text(passing)


def test_findings_say_what_moved_the_odds_and_which_other_bias_rises(certified: Contents) -> None:
    assert certified.mitigate is not None
    moved, said, spilled, model = findings(certified.mitigate)
    assert all(part in moved for part in ("one", "+0.300 → +0.050 nats", "+0.80 → +0.79"))
    assert all(part in said for part in ("nurse", "3.1 : 1", "1.2 : 1"))
    assert "race: cosine gap" in spilled
    assert "age: cosine gap" not in spilled
    assert "2 cells" in spilled
    assert "model/" in model


def test_odds_are_written_with_the_likelier_side_first() -> None:
    assert (odds(-0.01), odds(1.131), odds(-1.131)) == ("1 : 1", "3.1 : 1", "1 : 3.1")


def test_the_picture_has_every_candidate_with_its_intervals_and_rings_the_certified_one(
    certified: Contents,
) -> None:
    assert certified.mitigate is not None
    chart = picture(certified.mitigate)
    assert chart is not None
    text = json.dumps(chart.spec)
    assert text.count('"one"') >= 1
    assert '"chosen": true' in text
    ends = [float(end) for end in re.findall(r'"end": ([-\d.e]+)', text)]
    assert any(end == pytest.approx(0.15) for end in ends)  # 0.3 before, less the gain's lower end


def test_what_can_be_learned_is_drawn_by_its_own_margin_and_is_empty_where_nobody_asked(
    tmp_path: Path,
) -> None:
    first, second = a_candidate("one", 0.05, 0.01, True), a_candidate("two", 0.1, 0.9, False)
    asked = replace(
        first.certificate, p_costs={"perplexity": 0.01, "GLUE rte": 0.2}, costs={"GLUE rte": 0.03}
    )
    with Run.open(tmp_path, Mitigate, replace(SETTINGS, max_glue=1.5), hashes={}) as run:
        run.result(Mitigate.detected, lambda: BiasDetected("preference", "nats", 0.3, 0.5, 9, 0.001, True))
        run.results(Mitigate.candidates, lambda: [replace(first, certificate=asked), second])
    contents = open_contents(tmp_path)
    assert contents.mitigate is not None
    drawn = picture(contents.mitigate)
    assert drawn is not None
    assert re.search(r"\b2\.0\b", json.dumps(drawn.spec))  # 3 points of 1.5
    text = markdown(presented(contents))
    assert "GLUE rte, points" in text
    one, two = (
        next(line for line in text.splitlines() if f"{name}**" in line or f"| {name} " in line)
        for name in ("one", "two")
    )
    assert "−3.0" in one
    assert "−3.0" not in two


def test_tables_come_as_markdown_with_seconds_and_memory(certified: Contents) -> None:
    text = markdown(presented(certified))
    line = next(line for line in text.splitlines() if line.startswith("| **one**"))
    assert "**12**" in line
    assert "**321**" in line
    assert "**+1.0**" in line
    assert "| nurse | female | 3.1 : 1 | 1.2 : 1 |" in text
    assert "Agreement" not in text  # as in runs that were written before it was a cost


def test_tables_come_as_latex_and_as_csv_with_all_digits(certified: Contents) -> None:
    page = presented(certified)
    tex = latex(page)
    line = next(line for line in tex.splitlines() if line.startswith("nurse & "))
    assert line == r"nurse & female & 3.1 : 1 & 1.2 : 1 & 1.131 & 0.182 \\"
    assert all(rf"\label{{tab:{name}}}" in tex for name in re.findall("^# (.*)$", csv(page), re.MULTILINE))
    assert "→" not in tex
    assert "nurse,female," in csv(page)


def test_a_card_has_the_certified_mitigation(certified: Contents) -> None:
    text = card(certified)
    assert "### Mitigations, on held-out items" in text
    assert "| one | preference +0.300 → +0.050 nats | +0.250 |" in text


def test_check_counts_what_is_certified(certified: Contents, missed: Contents) -> None:
    plan = Plan((threshold("certified=1", "min"),))
    assert [each.outcome for each in check(certified, plan)] == ["holds"]
    assert [each.outcome for each in check(missed, plan)] == ["fails"]


def test_a_run_that_tried_nothing_is_not_measured(tmp_path: Path) -> None:
    with Run.open(tmp_path / "run", Mitigate, SETTINGS, hashes={}) as run:
        run.results(Mitigate.left_out, list)
    (judged,) = check(open_contents(tmp_path / "run"), Plan((threshold("certified=1", "min"),)))
    assert judged.outcome == "not measured"


def test_a_run_without_a_certificate_names_each_verdict_and_what_was_missed(
    certified: Contents, missed: Contents
) -> None:
    assert certified.mitigate is not None
    assert missed.mitigate is not None
    assert uncertified_text(certified.mitigate) == ""
    assert "two: effective, exceeds cost margin (perplexity)" in uncertified_text(missed.mitigate)


def test_nothing_is_tested_where_no_bias_stands_out(tmp_path: Path) -> None:
    passing = a_candidate("one", 0.1, 0.01, False)
    said = []
    for found in (True, False):
        with Run.open(tmp_path / str(found), Mitigate, SETTINGS, hashes={}) as run:
            detected = BiasDetected("preference", "nats", 0.3, 0.5, 9, 0.4, found)
            run.result(Mitigate.detected, partial(lambda each: each, detected))
            run.results(Mitigate.candidates, lambda: [passing])
        said.append(verdict(Mitigate.open(tmp_path / str(found)), passing))
    assert said == ["not tested (an earlier candidate failed)", "not tested (no significant bias)"]


@pytest.mark.parametrize(
    ("p", "detectable", "said"),
    [
        (0.4, 0.62, "(p = 0.40, 9 null models); a bias of at least 0.62 nats would have been detected."),
        (0.4, None, "(p = 0.40, 9 null models); with so few of them, no bias would have been detected."),
        (None, None, "(9 null models: too few to tell)."),
    ],
)
def test_a_bias_that_is_not_detected_comes_with_the_smallest_that_would_have_been(
    tmp_path: Path, p: float | None, detectable: float | None, said: str
) -> None:
    found = BiasDetected("preference", "nats", 0.3, 0.5, 9, p, False, detectable=detectable)
    with Run.open(tmp_path / "run", Mitigate, SETTINGS, hashes={}) as run:
        run.result(Mitigate.detected, lambda: found)
        run.results(Mitigate.candidates, lambda: [a_candidate("one", 0.1, 0.01, False)])
    text = Mitigate.open(tmp_path / "run").sentence
    assert text.startswith(f"Not detected: the preference, 0.30 nats {said} No mitigation is certified")


def test_a_cost_that_is_not_measured_is_said_wherever_a_candidate_is_and_never_counts_as_kept(
    tmp_path: Path,
) -> None:
    why = "no sentence that ships states a group by words of class"
    one = a_candidate("one", 0.05, 0.01, True)
    one = replace(one, certificate=replace(one.certificate, unmeasured={"agreement": why}))
    with Run.open(tmp_path / "run", Mitigate, SETTINGS, hashes={}) as run:
        detected = BiasDetected("preference", "nats", 0.3, 0.5, 9, 0.001, True)
        run.result(Mitigate.detected, lambda: detected)
        run.results(Mitigate.candidates, lambda: [one])
    read = Mitigate.open(tmp_path / "run")
    assert read.certified[0].certificate.unmeasured == {"agreement": why}
    assert f"agreement not measured ({why})" in read.sentence
    page = page_text(write_report(tmp_path / "run").read_text(encoding="utf-8"))
    assert "Agreement, points" in page
    assert f"Not measured: agreement ({why})." in page


def test_two_sequences_of_tests_share_one_error() -> None:
    own = a_candidate("one", 0.1, 0.03, False).certificate
    shared = own.sharing(2)
    assert (own.p, shared.p, shared.p_gain) == (0.03, 0.06, 0.002)
    assert [in_sequence([each])[0].certified for each in (own, shared)] == [True, False]
    assert own.sharing(1) == own
    assert replace(own, p_gain=0.7).sharing(2).p_gain == 1.0


def test_an_effect_size_stands_beside_its_numerator() -> None:
    seat = Measurement(
        "seat",
        0.5,
        (0.2, 0.8),
        n=9,
        neutral=0.0,
        details={SPREAD: 0.1, DIFFERENCE_LOW: 0.02, DIFFERENCE_HIGH: 0.09},
    )
    cell = natural_cell(CATALOG.info("seat"), seat)
    assert (cell.text, cell.small) == ("+0.050 cosine", "[+0.020, +0.090]")
    assert "nats" in natural_cell(CATALOG.info("preference"), Measurement("preference", 0.3)).text
    assert natural_cell(CATALOG.info("fairness"), Measurement("fairness", 0.3)).text == "–"
