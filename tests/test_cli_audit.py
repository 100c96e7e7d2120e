"""What `levelhead audit` prints, at the width of a terminal and into a file."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest
import typer

from levelhead.auditing import read_audit
from levelhead.cli.app import app
from levelhead.cli.audit_printed import print_audit
from levelhead.cli.terminal import print_wrapped
from levelhead.inference.contents import open_contents
from levelhead.pages.what_now import what_now
from levelhead.results.presets import SMALL
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
    print_audit(read_audit(run, run / "report.html"))
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
    command = box.ways[0].command
    assert command is not None
    assert f"    {command.text}" in lines[:headline]  # what the third answer recommends can be copied


def test_tables_have_short_names_and_each_is_explained_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = printed(write_audit(tmp_path / "run"), 200, monkeypatch)
    (header,) = (line for line in lines if "measure" in line and "before" in line)
    assert "without 2 heads" in header
    assert "projection 3" in header
    assert not any(name in header for name in (CLOSED, PROJECTED))
    assert [line for line in lines if CLOSED in line] == [f"without 2 heads: {CLOSED}"]
    assert [line for line in lines if PROJECTED in line] == [f"projection 3: {PROJECTED}"]


@pytest.mark.parametrize("columns", [80, 120])
def test_nothing_but_paths_and_commands_is_wider_than_the_terminal(
    columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_audit(tmp_path / "run")
    lines = printed(run, columns, monkeypatch)
    assert [line for line in lines if len(line) > columns and str(run) not in line] == []
    (seat,) = (line for line in lines if line.startswith("│ seat "))
    assert ("[" in seat) == (columns == 120)  # else intervals get lines of their own


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
    options = typer.main.get_command(app).commands["audit"].params  # type: ignore[attr-defined]
    (said,) = [option.help for option in options if option.name == "null"]
    assert f"{SMALL.null} for the association" in said
    (few,) = {SMALL.triple_twins, SMALL.prompt_twins}
    assert f"{few} for next sentences and prompts, none for heads" in said
    assert SMALL.head_twins == 0
