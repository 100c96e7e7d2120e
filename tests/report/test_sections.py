"""Chapters of the report: what stands in them, and in which order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from altair.utils.schemapi import debug_mode

from levelhead.inference.contents import Contents, open_contents
from levelhead.pages.blocks import Cards, Frontier, HeadMap, Section, Shown
from levelhead.pages.charts.base import drawn
from levelhead.pages.presented import sections
from levelhead.pages.sections.measured import changes_section, measured_section
from levelhead.pages.tables import Table
from levelhead.studies.counteracts import chapter as counteracts
from levelhead.studies.heads.chapter import chapters
from levelhead.studies.projections import chapter as projections
from tests.report.synthetic import HOSTILE, write_audit, write_prompts, write_sweep

CLOSED = "without heads 4-5, 1-2"


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    return open_contents(write_audit(tmp_path_factory.mktemp("runs") / "audit"))


def tables_of(section: Section | None) -> dict[str, Table]:
    assert section is not None
    return {block.table.name: block.table for block in section.blocks if isinstance(block, Shown)}


def points_of(section: Section | None) -> dict[str, list[dict[str, Any]]]:
    """Points of a frontier's charts, by chart."""
    assert section is not None
    (block,) = [block for block in section.blocks if isinstance(block, Frontier)]
    return {chart.name: chart.spec["data"]["values"] for chart in block.charts}


def test_every_chart_of_an_audit_is_what_vega_lite_takes(audit: Contents) -> None:
    """Pages are written without that check, which takes a quarter of their time."""
    with debug_mode(False):
        blocks = [block for section in sections(audit) for block in section.blocks]
    charts = [chart for block in blocks for chart in getattr(block, "charts", ())]
    assert len(charts) > 5
    for chart in charts:
        drawn(chart)  # altair holds it against its schema


def test_a_run_has_the_chapters_that_it_has_results_for(tmp_path: Path) -> None:
    names = [section.id for section in sections(open_contents(write_prompts(tmp_path / "run")))]
    assert names == ["measured", "counteracts", "limits", "again"]


def test_measures_of_bias_come_before_those_of_use(audit: Contents) -> None:
    lines = tables_of(measured_section(audit))["measures"].rows
    names = [line[1].text for line in lines]
    assert names[:2] == ["seat", "lpbs career"]
    assert names[-3:] == ["lms", "fluency", "ability"]


def test_a_card_is_red_only_where_the_interval_excludes_the_neutral_value(audit: Contents) -> None:
    section = measured_section(audit)
    assert section is not None
    (cards,) = [block.cards for block in section.blocks if isinstance(block, Cards)]
    sizes = {card.title: (card.size, card.share > 0) for card in cards}
    assert sizes["Word association (SEAT)"] == ("strong", True)
    assert sizes["Fill-in association (LPBS), career"] == ("none shown", False)  # 0.2, from -0.4 to 0.8
    assert len(cards) == 6


def test_the_map_has_the_last_layer_first_and_names_every_head(audit: Contents) -> None:
    (section,) = chapters(audit)
    (block,) = [block for block in section.blocks if isinstance(block, HeadMap)]
    assert [str(layer[0].head) for layer in block.layers] == ["4-1", "3-1", "2-1", "1-1"]
    assert max(abs(cell.share) for layer in block.layers for cell in layer) == 1.0
    assert block.pairs[0].original.tokens[2] == "women"


def test_before_and_after_has_a_paired_change_where_the_audit_has_one(audit: Contents) -> None:
    table = tables_of(changes_section(audit))["before-after"]
    assert list(table.columns) == [
        "Measure",
        "Before",
        f"After: tokens: soft, 2-d {HOSTILE}",
    ]
    lines = {line[0].text: [cell.text for cell in line[1:]] for line in table.rows}
    assert lines["Fluency (perplexity): paired change"] == ["–", "1.023 [1.013, 1.033]"]


def test_before_is_the_untouched_model_on_the_items_of_the_changed_ones(audit: Contents) -> None:
    table = tables_of(changes_section(audit))["before-after"]
    lines = {line[0].text: [cell.text for cell in line[1:]] for line in table.rows}
    assert lines["Word association (SEAT)"] == ["1.255 [1.155, 1.355]", "0.135 [0.035, 0.235]"]
    assert lines["Fluency (perplexity)"] == 2 * ["22.50 [21.00, 24.00]"]
    assert lines["Fairness of inferences"] == ["0.123 [0.103, 0.143]", "–"]  # asked of the classifier


def test_log_odds_and_their_verdicts_come_before_margins(tmp_path: Path) -> None:
    contents = open_contents(write_prompts(tmp_path / "run"))
    tables = tables_of(*counteracts.chapters(contents))
    assert list(tables) == ["log-odds", "knowledge"]
    verdicts = {(line[0].text, line[0].small): line[5].text for line in tables["log-odds"].rows}
    assert verdicts["target counter semantic", "lh:tiny"] == "overturns"
    assert verdicts["unrelated", "lh:tiny"] == "not more than in null models"  # p 0.03 of four changes
    run = contents.counteracts
    assert run is not None
    stored = {cell.kind: cell.verdict for cell in run.knowledge()}
    assert stored["unrelated"] == "strengthens"


def test_a_setting_of_a_sweep_is_lost_where_the_study_says_so_and_else_by_the_rule(tmp_path: Path) -> None:
    points = points_of(*projections.chapters(open_contents(write_sweep(tmp_path / "run"))))
    kept = {chart: {p["setting"]: p["ability"] for p in own} for chart, own in points.items()}
    assert kept["frontier-inferences"] == {"base": "kept", "sent: hard": "kept", "sent: soft": "lost"}
    assert set(kept["frontier-next-sentences"].values()) == {"kept"}  # all have the LMS of the base


def test_numbers_of_a_sweep_carry_the_address_of_their_record(tmp_path: Path) -> None:
    contents = open_contents(write_sweep(tmp_path / "run"))
    tables = tables_of(*projections.chapters(contents))
    parts = [cell.parts[0] for line in tables["settings"].rows for cell in line if cell.numeric]
    assert {part.at.partition("#")[0] for part in parts} == {"next_sentences", "inferences"}
    (rho,) = tables["correlation"].rows
    assert [part.at for cell in rho for part in cell.parts if part.at] == 5 * ["correlation#0"]
