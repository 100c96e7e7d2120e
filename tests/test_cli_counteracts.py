"""`levelhead counteracts` as a person uses it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from levelhead.measures.cloze import VerdictWord
from levelhead.studies.counteracts import Counteracts
from levelhead.studies.counteracts.records import ClozeCell
from tests.typed import Typed
from tests.word_lists import OCCUPATIONS

VERDICTS = set(get_args(VerdictWord)) - {"untested"}

pytestmark = pytest.mark.usefixtures("figures_not_drawn")

Asked = Callable[..., str]


@pytest.fixture
def prompts(typed: Typed) -> Asked:
    """`levelhead counteracts`: what it prints, or, where that is expected, its one line of error."""

    def run(*arguments: str, ok: bool = True) -> str:
        code, printed, error = typed("counteracts", *arguments, width=80)
        assert (code == 0) is ok, error
        if not ok:
            assert len(error.strip().splitlines()) == 1
        return printed if ok else error

    return run


def test_list_prints_2668_json_lines_with_the_promised_keys(prompts: Asked) -> None:
    lines = [json.loads(line) for line in prompts("--list").splitlines()]
    assert len(lines) == 2668
    assert set(lines[0]) == {"id", "kind", "occupation", "group", "knowledge", "base", "expected"}


def test_list_takes_a_set_a_seed_and_fewer_backgrounds(prompts: Asked) -> None:
    assert len(prompts("--list", "--prompts", "age-pastime").splitlines()) == 1288
    few = prompts("--list", "--per-background", "1", "--seed", "3")
    assert len(few.splitlines()) == 580
    assert few != prompts("--list", "--per-background", "1", "--seed", "4")


@pytest.mark.nightly
def test_two_models_and_removed_heads_in_one_run_print_verdicts_and_json(
    prompts: Asked, tmp_path: Path
) -> None:
    own = tmp_path / "own.toml"
    own.write_text(OCCUPATIONS)
    command = ["lh:bert-mini", "lh:gpt-mini", "-o", str(tmp_path / "run"), "--prompts", str(own)]
    command += ["--ks", "3,5", "--remove-heads", "3-5,2-1", "--null", "2"]
    text = prompts(*command)
    for part in (
        "Log-odds",
        "lh:bert-mini",
        "lh:gpt-mini",
        "without heads 3-5, 2-1",
        "The stereotype",
        "unrelated",
    ):
        assert part in text
    data = json.loads(prompts(*command, "--json"))
    assert [(each["model"], each["variant"], each["form"]) for each in data["models"]] == [
        ("lh:bert-mini", "base", "sentence pair"),
        ("lh:bert-mini", "without heads 3-5, 2-1", "sentence pair"),
        ("lh:gpt-mini", "base", "continuation"),
        ("lh:gpt-mini", "without heads 3-5, 2-1", "continuation"),
    ]
    run = Counteracts.open(tmp_path / "run")
    cells = [ClozeCell.from_json(cell) for each in data["models"] for cell in each["cells"]]
    assert cells == list(run.cells)
    assert {cell.verdict for cell in cells if cell.name == "margin change"} <= VERDICTS | {"untested"}
    assert {cell.k for cell in cells} == {0, 3, 5}
    of_log_odds = [cell for cell in cells if cell.name == "log_odds change"]
    assert all(cell.expected and cell.verdict in VERDICTS for cell in of_log_odds)
    assert all(Path(path).is_file() for path in data["figures"])


@pytest.mark.nightly
def test_a_recipe_is_one_more_variant(prompts: Asked, tmp_path: Path) -> None:
    own, recipe = tmp_path / "own.toml", tmp_path / "quiet.toml"
    own.write_text(OCCUPATIONS)
    recipe.write_text("[[gate]]\nlayer = 3\nhead = 5\nvalue = 0.0\n")
    command = ["lh:bert-mini", "-o", str(tmp_path / "run"), "--prompts", str(own), "--ks", "3", "--null", "0"]
    data = json.loads(prompts(*command, "--recipe", str(recipe), "--json"))
    assert [each["variant"] for each in data["models"]] == ["base", "with quiet.toml"]
    measurements = [[cell["measurement"] for cell in each["cells"]] for each in data["models"]]
    assert measurements[0] != measurements[1]


def test_mistakes_are_one_line(prompts: Asked, tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    assert "run folder" in prompts(ok=False)
    assert "No prompt set" in prompts("lh:bert-mini", "-o", run, "--prompts", "nothing", ok=False)
    assert "'3:5' is no head" in prompts("lh:bert-mini", "-o", run, "--remove-heads", "3:5", ok=False)
    assert "ks must be at least 1 (got 0)" in prompts("lh:bert-mini", "-o", run, "--ks", "0", ok=False)
    assert "ks must be at most 16384, the vocabulary" in prompts(
        "lh:bert-mini", "-o", run, "--ks", "99999", ok=False
    )
    assert "fill-in-the-blank" in prompts("lh:nli-mini", "-o", str(tmp_path / "nli"), ok=False)
    assert "lh:gpt-mini has no chat template" in prompts("lh:gpt-mini", "-o", run, "--chat", ok=False)
