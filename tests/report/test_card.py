"""A model card's section: figures with their uncertainty, limits, and nothing that runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from levelhead.inference.contents import open_contents
from levelhead.measures.catalog import MeasureInfo
from levelhead.pages.card import card
from tests.report.own_measure import bring
from tests.report.synthetic import HOSTILE, measured, write_audit, write_sweep


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    return card(open_contents(write_audit(tmp_path_factory.mktemp("runs") / "audit", model=f"{HOSTILE}|`x`")))


def row(text: str, measure: str) -> list[str]:
    """What the first row of a measure says beside its name."""
    line = next(line for line in text.splitlines() if f"{measure} |" in line)
    return [cell.strip() for cell in line.split("|")[2:-1]]


def test_figures_come_with_interval_n_and_neutral_value(text: str) -> None:
    values = ["1.235", "1.135 to 1.335", "1,304", "0.0", "0.200", "4.0e-04", "follows the stereotype"]
    assert row(text, "(seat)") == values


def test_what_was_not_measured_says_so(text: str) -> None:
    reason = "not asked &amp; &lt;i&gt;skipped&lt;/i&gt;"
    assert row(text, "(accuracy)") == ["not measured", "", "0", "1.0", "", "", reason]


def test_before_and_after_limits_and_reproduction_are_there(text: str) -> None:
    heads = [line for line in text.splitlines() if line.startswith("#")]
    assert heads[0] == "## Bias evaluation"
    assert any(each.startswith("### Changed: tokens: soft, 2-d") for each in heads)
    assert not any("without heads" in each for each in heads)
    assert heads[-2:] == ["### What these numbers do not show", "### Reproduce"]
    assert "levelhead audit" in text


def test_what_a_change_cost_and_bought_item_by_item_stands_in_the_card(text: str) -> None:
    cost = "| Fluency (perplexity) (fluency change) | 1.023 | 1.013 to 1.033 |"
    assert text.count(cost) == 1
    assert "### Unmodified model, on the items" in text


def test_strings_of_models_are_neither_html_nor_markdown(text: str) -> None:
    prose = text.split("```sh")[0]
    assert "<script" not in prose
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\|\\`x\\`" in prose
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in lines} == {8, 9}  # mitigations, and measures


def test_a_plain_run_gets_a_card_of_its_untouched_model(tmp_path: Path) -> None:
    assert "Strength of stereotype (strength) | 0.400" in card(open_contents(write_sweep(tmp_path / "run")))


def test_a_measure_of_the_users_own_stands_under_its_title_with_its_words(tmp_path: Path) -> None:
    info = MeasureInfo("pronoun gap", "She or he", neutral=0.0, digits=1, above="prefers she")
    run = bring(
        write_audit(tmp_path / "run"),
        info,
        measured("pronoun gap", 0.44, 0.1, 8, neutral=0.0, details={"p_value": 0.0001}),
    )
    line = "| She or he (pronoun gap) | 0.4 | 0.3 to 0.5 | 8 | 0.0 |  | 1.0e-04 | prefers she |"
    assert line in card(open_contents(run))
