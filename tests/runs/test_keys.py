"""Names and files of a run folder: each with one type, and tables that no spreadsheet runs."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from levelhead.errors import BadRun
from levelhead.runs.files import CsvFile, csv_text, file_label
from levelhead.studies.counteracts.records import OccupationLine
from levelhead.studies.projections.records import FrontierLine
from tests.runs.cases import LOG, NOTES, SHEET, TABLE, Answer, Case, Line, records

R = TypeVar("R")
HOSTILE = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "=cmd|' /C calc'!A0"]
QUOTED = ["'=1", "''=1", "'plain", "'", "a=1", '"=1"', "a,b\nc", "a\rb", "a\r\nb", "", " ", "\x00", "ünï"]


# ---- keys


def test_a_name_belongs_to_its_slot_and_a_label_to_parts_alone() -> None:
    assert Case.record_of(Case.first.name) is Answer
    assert Case.record_of(Case.part.of("any label/at all").name) is Answer
    assert Case.record_of("other") is None
    assert Case.record_of("part") is None
    assert Case.record_of("first/label") is None


# ---- labels of files


@given(st.text())
def test_a_label_is_a_part_of_a_file_name_that_stays_in_its_folder(text: str) -> None:
    label = file_label(text)
    assert Path(label).name == label
    assert not label.startswith(".")
    assert NOTES.of(text).name == f"notes/{label}.txt"


@given(st.text(), st.text())
@example("a/b", "a|b")
@example("é", "e")
def test_labels_of_different_texts_differ(one: str, other: str) -> None:
    assert (file_label(one) == file_label(other)) == (one == other)


# ---- CSV


def cells(text: str) -> list[list[str]]:
    """What a spreadsheet sees."""
    return list(csv.reader(io.StringIO(text, newline="")))


@pytest.mark.parametrize("text", HOSTILE)
def test_a_cell_that_a_spreadsheet_would_run_is_text_for_it_and_comes_back(tmp_path: Path, text: str) -> None:
    written = TABLE.text([Line(text, -1.5)])
    assert cells(written)[1] == [f"'{text}", "-1.5"]
    assert read_back(tmp_path, TABLE, [Line(text, -1.5)]) == [Line(text, -1.5)]


@given(st.text())
def test_no_cell_of_any_text_begins_with_a_sign_that_spreadsheets_run(text: str) -> None:
    header, line = cells(csv_text([text], [[text]]))
    assert not header[0].startswith(("=", "+", "-", "@", "\t", "\r"))
    assert line == header


@pytest.mark.parametrize("text", QUOTED)
def test_other_texts_come_back_as_they_were(tmp_path: Path, text: str) -> None:
    line = OccupationLine(5, text, text, text, text, None, -0.1, 0.3, 4, None)
    assert read_back(tmp_path, CsvFile("t.csv", OccupationLine), [line]) == [line]


@given(st.lists(records(FrontierLine), max_size=4))
def test_a_table_comes_back_as_it_went(
    tmp_path_factory: pytest.TempPathFactory, lines: list[FrontierLine]
) -> None:
    folder = tmp_path_factory.mktemp("table")
    assert read_back(folder, CsvFile("t.csv", FrontierLine), lines) == lines


def read_back(folder: Path, file: CsvFile[R], lines: list[R]) -> list[R]:
    (folder / file.name).write_bytes(file.text(lines).encode())
    return file.read(folder)


def test_a_table_has_one_column_a_field_and_an_empty_cell_for_none() -> None:
    line = OccupationLine(5, "base", "female", "nurse", "margin", None, None, None, 0, "no word")
    header, cell_row = cells(CsvFile("t.csv", OccupationLine).text([line]))
    assert header == ["k", "kind", "group", "occupation", "name", "value", "low", "high", "n", "reason"]
    assert cell_row == ["5", "base", "female", "nurse", "margin", "", "", "", "0", "no word"]


def test_a_table_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert TABLE.read(tmp_path) == []


@pytest.mark.parametrize(
    "text",
    [
        "text,value\nx,high\n",  # no number
        "text,other\nx,1\n",  # another column
        "text,value\nx,1,more\n",  # a cell too many
        "text\nx\n",  # a column too few
        "text,value\nx,nan\n",
        "text,value\nx,inf\n",
    ],
)
def test_a_damaged_table_is_one_line_that_names_the_file_and_the_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "table.csv").write_text(text, encoding="utf-8")
    with pytest.raises(BadRun, match=r"table\.csv is damaged at line 2 \(") as caught:
        TABLE.read(tmp_path)
    assert "\n" not in str(caught.value)


# ---- other files


def test_a_sheet_of_json_comes_back_as_it_went(tmp_path: Path) -> None:
    assert SHEET.read(tmp_path) is None
    sheet = Answer("naïve\u2028", 1 / 3)
    (tmp_path / "sheet.json").write_bytes(SHEET.text(sheet).encode())
    assert SHEET.read(tmp_path) == sheet


@pytest.mark.parametrize("text", ["", "{", "[]", '{"text": 1, "value": null}', '{"text": "x", "value": NaN}'])
def test_a_damaged_sheet_is_one_line_that_names_the_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "sheet.json").write_text(text, encoding="utf-8")
    with pytest.raises(BadRun, match=r"sheet\.json is damaged") as caught:
        SHEET.read(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_log_has_one_line_a_record_whatever_is_in_it() -> None:
    answers = [Answer("two\nlines", 1.0), Answer("and\u2028more", None)]
    lines = LOG.text(answers).split("\n")
    assert [Answer.from_json(json.loads(line)) for line in lines[:-1]] == answers
    assert lines[-1] == ""


def test_notes_are_what_they_are(tmp_path: Path) -> None:
    file = NOTES.of("a/b")
    assert file.read(tmp_path) is None
    (tmp_path / file.name).parent.mkdir()
    (tmp_path / file.name).write_text(file.text("é"), encoding="utf-8")
    assert file.read(tmp_path) == "é"
