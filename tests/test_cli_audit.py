"""What `levelhead audit` prints, at the width of a terminal and into a file."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

from levelhead.cli.commands import built
from levelhead.cli.printed import print_audit
from levelhead.cli.terminal import print_wrapped
from levelhead.inference.contents import open_contents
from levelhead.pages.what_now import what_now
from levelhead.runs.presets import SMALL
from levelhead.studies.audit import Audit
from tests.report.synthetic import write_audit
from tests.report.synthetic.audit import PROJECTED
from tests.report.synthetic.prompts import CLOSED


class Terminal(io.StringIO):
    """Standard output that a person looks at."""

    def isatty(self) -> bool:
        return True


def printed(
    run: Path, columns: int, monkeypatch: pytest.MonkeyPatch, kind: type[io.StringIO] = Terminal
) -> list[str]:
    """The lines that are printed for a finished audit."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", kind())
    print_audit(Audit.open(run))
    assert isinstance(sys.stdout, io.StringIO)
    return re.sub(r"\x1b\[[\d;]*m", "", sys.stdout.getvalue()).splitlines()  # without colors


def test_the_five_answers_are_printed_before_the_headline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_audit(tmp_path / "run")
    box = what_now(open_contents(run))
    assert box is not None
    lines = printed(run, 200, monkeypatch, io.StringIO)
    places = [
        next(place for place, line in enumerate(lines) if line.startswith(question))
        for question, _ in box.answers
    ]
    headline = lines.index("lh:tiny leans: SEAT 1.23.")
    assert places == sorted(places)
    assert places[-1] < headline
    assert lines[places[0]] == f"Is there a bias?    {box.answers[0][1]}"
    (command,) = box.commands
    assert f"    {command.text}" in lines[:headline]  # what the third answer recommends can be copied


def test_one_table_has_every_mitigation_with_its_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = printed(write_audit(tmp_path / "run"), 250, monkeypatch)
    table = lines[next(i for i, line in enumerate(lines) if "Gain, costs and verdict" in line) :]
    assert "certified" in next(line for line in table if PROJECTED in line)
    assert "effective, exceeds cost margin" in next(line for line in table if CLOSED in line)


@pytest.mark.parametrize("columns", [80, 120])
def test_nothing_but_paths_and_commands_is_wider_than_the_terminal(
    columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_audit(tmp_path / "run")
    lines = printed(run, columns, monkeypatch)
    assert [line for line in lines if len(line) > columns and str(run) not in line] == []


def test_40_lines_of_100_columns_hold_the_answers_and_say_where_the_rest_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_audit(tmp_path / "run")
    lines = printed(run, 100, monkeypatch)
    assert len(lines) <= 40
    assert any("levelhead report" in line for line in lines)


def test_a_file_gets_a_sentence_a_line_and_a_terminal_whole_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    text = "Removing the 3 highest-scoring heads is not shown to lower SEAT on other words."
    outputs = []
    for stream in (io.StringIO(), Terminal()):
        monkeypatch.setattr(sys, "stdout", stream)
        print_wrapped(text, "- ", "  ")
        outputs.append(stream.getvalue())
    assert outputs[0] == f"- {text}\n"
    lines = outputs[1].splitlines()
    assert [line[:2] for line in lines] == ["- ", "  ", "  "]
    assert max(map(len, lines)) <= 40
    assert " ".join(line[2:] for line in lines) == text


def test_the_help_of_null_says_how_many_null_models_each_claim_has_by_default() -> None:
    options = built("audit").params
    (said,) = [option.help for option in options if option.name == "null"]
    assert f"{SMALL.null} for the association" in said
    (few,) = {SMALL.triple_nulls, SMALL.prompt_nulls}
    assert f"{few} for next sentences and prompts, none for heads" in said
    assert SMALL.head_nulls == 0
