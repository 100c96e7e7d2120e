"""The box at the top of an audit's page: it answers a reader's questions and claims no more than the page."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from benchmarks.calibrate import SIZES

from levelhead.errors import BadRun
from levelhead.inference.claims import calibration
from levelhead.inference.contents import Contents, measurements, open_contents
from levelhead.inference.headline import spoken_measures
from levelhead.inference.verdicts import RULE, SHOWN, along, certain_share, share, size_of
from levelhead.measures.catalog import CATALOG
from levelhead.measures.measurement import Measurement, Null
from levelhead.pages.blocks import Cards, Shown, WhatNow
from levelhead.pages.chapters import Chapter
from levelhead.pages.page import render, report_html
from levelhead.pages.presented import presented
from levelhead.pages.sections.measured import changes_section, measured_section
from levelhead.pages.tables import words
from levelhead.pages.what_now import what_now
from levelhead.probes.contexts import TEMPLATES
from levelhead.probes.words import load_words
from levelhead.runs.presets import SMALL
from tests.report.synthetic import write_audit, write_heads
from tests.report.synthetic.audit import NULL_MODELS_NULL, PROJECTED
from tests.sealing import reseal

ASSOCIATION_P = f'"p_value": {NULL_MODELS_NULL.p_value}'
CITED = f"{calibration().false_alarms} of {calibration().models} null models got one"


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    return open_contents(write_audit(tmp_path_factory.mktemp("runs") / "audit"))


def edited(folder: Path, *changes: tuple[str, str]) -> Contents:
    """An audit whose results say something else."""
    path = write_audit(folder) / "results.jsonl"
    text = path.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    reseal(folder)
    return open_contents(folder)


def box_of(contents: Contents) -> WhatNow:
    box = what_now(contents)
    assert box is not None
    return box


def recommended(box: WhatNow) -> list[str]:
    """The commands that write what is recommended."""
    return [command.text for command in box.commands]


# ---- sizes


def test_the_share_of_seat_is_how_far_it_lies_beyond_the_floor_on_the_way_to_2() -> None:
    seat = Measurement("seat", 1.1, (0.6, 1.6), neutral=0.0, null=replace(NULL_MODELS_NULL, floor=0.2))
    assert share(CATALOG.info("seat"), seat) == pytest.approx((1.1 - 0.2) / (2 - 0.2))
    assert certain_share(CATALOG.info("seat"), seat) == pytest.approx((0.6 - 0.2) / (2 - 0.2))


def test_log_odds_are_taken_as_probabilities_and_fairness_from_1_down() -> None:
    log_odds = Measurement("log_odds", 0.6931471805599453, neutral=0.0)  # twice the odds: 2/3
    assert share(CATALOG.info("log_odds"), log_odds) == pytest.approx((2 / 3 - 1 / 2) / (1 / 2))
    assert share(CATALOG.info("fairness"), Measurement("fairness", 0.25, neutral=1.0)) == pytest.approx(0.75)


def test_a_reversed_bias_has_the_share_of_its_mirror_image() -> None:
    for name, value in (("seat", 0.7), ("preference", 0.9), ("ss_paired", 0.2)):
        info = CATALOG.info(name)
        neutral = info.neutral or 0.0
        both = [share(info, Measurement(name, neutral + side * value, neutral=neutral)) for side in (1, -1)]
        assert both[0] == pytest.approx(both[1])


def test_an_interval_that_holds_the_floor_makes_nothing_certain() -> None:
    seat = Measurement("seat", 1.0, (0.1, 1.6), neutral=0.0, null=replace(NULL_MODELS_NULL, floor=0.2))
    assert certain_share(CATALOG.info("seat"), seat) == 0.0


def test_a_0_009_is_not_as_red_as_a_0_607(tmp_path: Path) -> None:
    reds = []
    for number, shift in enumerate((-1.23456789 + 0.609, 0.0)):  # SEAT 0.609 and 1.235, both claimed
        contents = open_contents(write_audit(tmp_path / str(number), shift=shift))
        section = measured_section(contents)
        assert section is not None
        (cards,) = [block.cards for block in section.blocks if isinstance(block, Cards)]
        reds.append(cards[0].share)
    assert f"{{--s:{reds[-1]}}}" in report_html(contents)
    assert 0 < reds[0] < 0.5 * reds[1]
    tiny = Measurement("seat", 0.009, neutral=0.0)
    assert (share(CATALOG.info("seat"), tiny) or 0.0) < 0.01


# ---- what was found


def test_no_size_is_said_of_what_the_page_does_not_claim(audit: Contents) -> None:
    assert audit.audit is not None
    claimed = spoken_measures(audit.audit)
    sizes = {each.name: size_of(audit, each) for each in measurements(audit)}
    assert {name for name, size in sizes.items() if size in SHOWN} == claimed & {*sizes} == {"seat"}
    assert sizes["seat"] == "strong"
    assert sizes["lpbs career"] == "none shown"  # 0.2, from -0.4 to 0.8
    assert sizes["fairness"] == "untested"


def test_a_large_number_that_chance_explains_is_none_shown(tmp_path: Path) -> None:
    contents = edited(tmp_path / "run", (ASSOCIATION_P, '"p_value": 0.4'))
    box = box_of(contents)
    assert not [found for found in box.found if found.size in SHOWN]
    assert dict(box.answers)["Is there a bias?"].startswith("None that this audit can show")
    assert "not proof of none" in dict(box.answers)["Is there a bias?"]
    assert "nothing here calls for a change" in dict(box.answers)["What should I do?"]
    assert recommended(box) == []


def test_findings_are_ranked_by_size_and_every_kind_that_was_asked_is_there(audit: Contents) -> None:
    found = box_of(audit).found
    assert [each.size for each in found] == ["strong", "none shown", "untested", "untested", "untested"]
    assert "follows the stereotype" in found[0].sentence
    assert all(number in found[0].numbers[0].text for number in ("1.23 [1.13, 1.33]", "null models 0.20"))
    assert "so nothing is claimed" in found[-1].sentence


def test_the_five_questions_are_answered_in_order(audit: Contents) -> None:
    answers = box_of(audit).answers
    assert [question for question, _ in answers] == [
        "Is there a bias?",
        "How large is it?",
        "How sure is that?",
        "What should I do?",
        "What will it cost?",
    ]
    assert answers[0][1].startswith("Yes: ")
    assert answers[1][1].startswith("Strong in ")
    assert "< 0.001" in answers[2][1]


def test_a_short_answer_and_the_rest_are_the_whole_answer(audit: Contents) -> None:
    box = box_of(audit)
    assert [text for _, text in box.answers] == [f"{each.short} {each.more}".strip() for each in box.said]
    assert all(len(each.short) < 200 for each in box.said)
    assert any(CITED in each.more for each in box.said)


def test_each_answer_leads_to_the_chapter_that_it_rests_on_and_limits_are_unfolded(audit: Contents) -> None:
    page = report_html(audit)
    chapters = set(re.findall(r'<section id="([^"]+)"', page))
    said = box_of(audit).said
    assert all(each.evidence in chapters for each in said)
    assert page.count('class="evidence"') == len(said) == 5
    (limits,) = re.findall(rf'<section id="{Chapter.LIMITS}".*?</summary>', page, re.S)
    assert '<details class="study" open>' in limits
    assert page.count('class="study" open') == 1


def test_sentences_of_the_first_screen_have_at_most_two_significant_digits(audit: Contents) -> None:
    for each in box_of(audit).said:
        for number in re.findall(r"(?<![\w.-])\d[\d,]*\.\d+", each.short + each.more.replace(CITED, "")):
            assert len(number.replace(",", "").replace(".", "").lstrip("0")) <= 2, (number, each)


def test_at_most_eight_lines_of_findings_are_unfolded(tmp_path: Path) -> None:
    page = report_html(open_contents(write_heads(tmp_path / "heads")))
    many = presented(open_contents(write_audit(tmp_path / "audit")))
    many = replace(many, what_now=None, findings=[words(f"Finding {n}.") for n in range(12)])
    folded = re.sub(r'<details class="findings-fold.*?</details>', "", render(many), flags=re.S)
    assert len(re.findall(r"<li>Finding", folded)) == 8
    assert "4 more findings" in render(many)
    assert "findings-fold" not in page.split("<style>")[0]


def drawn_kinds(box: WhatNow) -> dict[str, dict[str, Any]]:
    """What the picture draws: every kind by its label, with its numbers."""
    assert box.picture is not None
    layers = [layer["data"]["values"] for layer in box.picture.spec["layer"]]
    return {point["kind"]: point for layer in layers for point in layer}


def test_the_picture_puts_every_kind_between_a_null_model_and_the_most_there_is(audit: Contents) -> None:
    box = box_of(audit)
    kinds = drawn_kinds(box)
    assert sorted(point["size"] for point in kinds.values()) == sorted(each.size for each in box.found)
    seat, least = kinds["how close\nits words lie"], 1.23456789 - 0.1
    span = 2.0 - NULL_MODELS_NULL.floor
    assert seat["value"] == pytest.approx((1.23456789 - NULL_MODELS_NULL.floor) / span)
    assert seat["low"] == pytest.approx((least - NULL_MODELS_NULL.floor) / span)
    assert (seat["null_high"], -seat["null_low"]) == pytest.approx((2 * NULL_MODELS_NULL.spread / span,) * 2)
    assert "null_low" not in kinds["concluding from\na job"]  # no null model was asked


def test_a_value_on_the_other_side_of_the_floor_lies_below_0() -> None:
    info, measured = CATALOG.info("seat"), Measurement("seat", -1.0, (-1.2, 0.5), neutral=0.0)
    assert [along(info, measured, at) for at in (-1.0, -2.0, 0.0, 0.5)] == [0.5, 1.0, 0.0, -0.25]
    odds = Measurement("log_odds", 1.0, neutral=0.0)
    assert along(CATALOG.info("log_odds"), odds, 0.0) == 0.0
    assert along(CATALOG.info("fluency"), Measurement("fluency", 20.0), 20.0) is None


def test_the_rate_of_false_alarms_on_the_page_is_the_one_that_was_measured(audit: Contents) -> None:
    docs = (Path(__file__).parents[2] / "docs" / "results" / "error-rates.md").read_text(encoding="utf-8")
    (line,) = (line for line in docs.splitlines() if line.startswith("| any of them |"))
    null_models, random, every = [tuple(map(int, pair)) for pair in re.findall(r"(\d+) of (\d+)", line)]
    assert (
        (null_models[0] + random[0], null_models[1] + random[1])
        == every
        == (calibration().false_alarms, calibration().models)
    )
    assert CITED in dict(box_of(audit).answers)["How sure is that?"]


def test_the_calibration_was_tried_with_the_shipped_list_and_the_sizes_of_the_benchmark() -> None:
    tried = calibration()
    assert tried.words == load_words(tried.bias).fingerprint()
    sizes = SIZES
    assert (tried.null_models, tried.null_models_of_triples) == (sizes.null, sizes.triple_nulls)
    assert tried.null_models_of_heads == sizes.head_nulls
    assert tried.templates == (sizes.contexts or len(TEMPLATES))
    assert (tried.null_models_of_prompts, tried.splits) == (sizes.prompt_nulls, sizes.splits)
    assert (tried.counter_sentences, tried.triples) == (sizes.counter_sentences, sizes.triples)


def test_a_default_audit_asks_no_less_than_was_tried(tmp_path: Path) -> None:
    path = write_audit(tmp_path / "run") / "settings.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    stored["settings"]["sizes"] = asdict(SMALL)
    path.write_text(json.dumps(stored), encoding="utf-8")
    reseal(tmp_path / "run")
    assert CITED in dict(box_of(open_contents(tmp_path / "run")).answers)["How sure is that?"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (calibration().words, "00" * 8, "not tried with this list"),
        ('"null": 19', '"null": 5', "not tried with so few null models"),
        ('"triples": 1', '"triples": 4', "not tried with so few null models or items"),
        ('"contexts": 16', '"contexts": 2', "not tried with so few null models or items"),
        ('"head_nulls": 19', '"head_nulls": 3', "not tried with so few null models"),
        ('"null": 19', '"null": 199', CITED),
    ],
)
def test_the_calibration_is_cited_at_its_own_setting_only(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    path = write_audit(tmp_path / "run") / "settings.json"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    reseal(tmp_path / "run")
    sure = dict(box_of(open_contents(tmp_path / "run")).answers)["How sure is that?"]
    assert says in sure
    assert (CITED in sure) == (says == CITED)


def test_an_audit_without_null_models_claims_nothing_and_recommends_nothing(tmp_path: Path) -> None:
    for part in (write_audit(tmp_path / "run"), tmp_path / "run" / "heads", tmp_path / "run" / "counteracts"):
        path = part / "results.jsonl"
        text = path.read_text(encoding="utf-8").replace('"method": "null models', '"method": "by hand')
        path.write_text(text, encoding="utf-8")
        reseal(part)
    contents = open_contents(tmp_path / "run")
    box = box_of(contents)
    assert {found.size for found in box.found} == {"untested"}
    assert recommended(box) == []
    assert "--null 19" in dict(box.answers)["What should I do?"]
    assert contents.audit is not None
    assert not spoken_measures(contents.audit)


def test_the_thresholds_stand_on_the_page_and_in_the_docs(audit: Contents) -> None:
    assert RULE in report_html(audit)
    docs = (Path(__file__).parents[2] / "docs" / "report.md").read_text(encoding="utf-8")
    assert all(word in docs for word in ("0.4", "0.1", *SHOWN, "none shown"))


# ---- what to do


def test_what_is_certified_is_recommended_with_its_price_and_the_command_that_writes_it(
    audit: Contents,
) -> None:
    box = box_of(audit)
    recipe = audit.folder / "recipes" / "01-tokens.toml"
    assert recommended(box) == [f"levelhead debias lh:tiny --recipe {recipe} -o debiased-model"]
    advice = dict(box.answers)["What should I do?"]
    assert f"Use {PROJECTED}: levelhead certifies on held-out items of its own that it lowers the" in advice
    assert "Perplexity rises by 2.3 %" in dict(box.answers)["What will it cost?"]


def test_the_page_has_one_table_of_mitigations_with_one_verdict_each(audit: Contents) -> None:
    tables = [
        block.table
        for section in presented(audit).sections
        for block in section.blocks
        if isinstance(block, Shown) and "Verdict" in block.table.columns
    ]
    (table,) = [each for each in tables if each.name == "mitigate"]
    assert [row[1].text for row in table.rows] == ["certified", "effective, exceeds cost margin"]
    assert not [each for each in tables if each.name.startswith(("changes", "ways"))]


def test_before_and_after_shows_the_recommended_mitigation_alone(audit: Contents, tmp_path: Path) -> None:
    section = changes_section(audit)
    assert section is not None
    (block,) = section.blocks
    assert isinstance(block, Shown)
    assert block.table.columns == ["Measure", "Before", f"After: {PROJECTED}"]
    folder = write_audit(tmp_path / "run")
    lines = (folder / "results.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if not json.loads(line)["key"].startswith("verified/")]
    (folder / "results.jsonl").write_text("".join(kept), encoding="utf-8")
    reseal(folder)
    section = changes_section(open_contents(folder))
    assert section is not None
    (block,) = section.blocks
    assert isinstance(block, Shown)
    assert block.table.columns == ["Measure", "Unmodified"]


def test_a_recipe_whose_file_was_deleted_gives_the_command_that_certifies_it_again(tmp_path: Path) -> None:
    folder = write_audit(tmp_path / "run")
    recipe = folder / "recipes" / "01-tokens.toml"
    text = recipe.read_text(encoding="utf-8")
    recipe.write_text(f"{text}# tried by hand\n", encoding="utf-8")
    with pytest.raises(BadRun, match=r"01-tokens\.toml is damaged"):
        what_now(open_contents(folder))
    recipe.unlink()
    contents = open_contents(folder)
    (command,) = recommended(box_of(contents))
    assert command == "levelhead mitigate lh:tiny --methods 'projected tokens' -o mitigated"
    assert text in unescape(report_html(contents))


def test_where_nothing_is_certified_the_bias_stands_and_each_missed_margin_is_named(tmp_path: Path) -> None:
    folder = write_audit(tmp_path / "run") / "mitigate"
    path = folder / "results.jsonl"
    text = path.read_text(encoding="utf-8")
    changed = text.replace('"certified": true', '"certified": false').replace("0.01}", "0.3}")
    assert changed != text
    path.write_text(changed, encoding="utf-8")
    reseal(folder)
    box = box_of(open_contents(folder.parent))
    assert recommended(box) == []
    advice = dict(box.answers)["What should I do?"]
    assert advice.startswith("Do not use it")
    assert "none of the 2 mitigations that were tried is certified" in advice
    assert "effective, exceeds cost margin (perplexity, perplexity outside)" in advice
    assert "Leave the model" not in advice


def test_runs_of_one_study_and_unfinished_audits_have_no_box(tmp_path: Path) -> None:
    assert what_now(open_contents(write_heads(tmp_path / "heads"))) is None
    folder = write_audit(tmp_path / "audit")
    lines = (folder / "results.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if json.loads(line)["key"] != "headline"]
    (folder / "results.jsonl").write_text("".join(kept), encoding="utf-8")
    assert what_now(open_contents(folder)) is None


def test_what_was_not_tested_has_no_dot_in_the_picture_and_says_so(audit: Contents) -> None:
    picture = box_of(audit).picture
    assert picture is not None
    points = [point for layer in picture.spec["layer"] for point in layer.get("data", {}).get("values", ())]
    points += [point for own in picture.spec.get("datasets", {}).values() for point in own]
    untested = [point for point in points if point["size"] == "untested"]
    assert untested
    assert not any("value" in point for point in untested)
    assert all("value" in point for point in points if point["size"] != "untested")
    (text,) = [
        layer for layer in picture.spec["layer"] if layer["encoding"].get("text") == {"value": "not tested"}
    ]
    assert "x" not in text["encoding"]


def test_a_measure_without_a_scale_has_no_share_and_one_without_a_null_is_untested(audit: Contents) -> None:
    null = Null("sign flips", 19, 0.0, 0.1, 0.001)
    assert share(CATALOG.info("own"), Measurement("own", 5.0, (4.0, 6.0), neutral=0.0, null=null)) is None
    sizes = {each.name: size_of(audit, each) for each in measurements(audit)}
    assert sizes["strength"] == "untested"
