"""Tables for a paper compile, fit a column of two, and say no p of 0.000."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from levelhead.escaping import escaped
from levelhead.inference.contents import open_contents
from levelhead.pages.presented import presented
from levelhead.pages.renderers import latex, latex_table, latex_text
from levelhead.pages.tables import Cell, Part, Table, number, probability, words
from tests.report.synthetic import HOSTILE, write_audit

ODD = r"\input{x} 50 % & #1 $x_2^3$ {a} ~ <b> |c| `d` 中文 é ρ ½ --null [1] * " + escaped("\u202e\x1b")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The tables of an audit with hostile names."""
    folder = write_audit(tmp_path_factory.mktemp("latex") / "run", HOSTILE)
    return latex(presented(open_contents(folder)))


def odd_table() -> Table:
    """A table of everything that LaTeX trips over."""
    names = [ODD, f"[{ODD}", f"*{ODD}", "x" * 60, "plain"]
    rows = [
        [words(name), probability(1e-9), words(ODD), words("word " * 60), number(-0.5), *[number(0.25)] * 6]
        for name in names
    ]
    columns = ["Name", "p", "Odd", "Prose", "Long heading of one column", *(f"Value {n}" for n in range(6))]
    return replace(Table(ODD, ODD, columns, rows, ODD), strong=frozenset({4}))


def tabulars(text: str) -> list[str]:
    return re.findall(r"\\begin\{tabular\}(.*?)\\end\{tabular\}", text, re.DOTALL)


def test_a_table_has_at_most_six_columns_of_short_cells_between_booktabs_rules(report: str) -> None:
    for text in (report, latex_table(odd_table())):
        assert tabulars(text)
        for table in tabulars(text):
            rules = [table.index(rf"\{rule}rule") for rule in ("top", "mid", "bottom")]
            assert rules == sorted(rules)
            rows = [line for line in table.splitlines() if line.endswith(r" \\")]
            (width,) = {len(re.findall(r"(?<!\\)&", row)) + 1 for row in rows}
            assert 2 <= width <= 6
            assert all(len(cell) <= 80 for row in rows[1:] for cell in re.split(r"(?<!\\)&", row)[1:])
        assert text.count("{table}") == 2 * len(tabulars(text))


def test_questions_stand_in_no_cell_and_no_p_is_zero(report: str) -> None:
    assert "Do the words of one target list" not in report
    assert r"\textless{} 0.001" in report
    rows = [line for table in tabulars(report) for line in table.splitlines()]
    assert not any(re.search(r"e-\d\d", row) for row in rows)
    assert r"\textless{} 0.001" in latex_table(odd_table())


def test_what_is_long_becomes_a_note_with_a_number() -> None:
    cell = Cell((Part("0.5"),), "0.5", True, small="held against something that takes long to say")
    text = latex_table(Table("t", "c", ("Measure", "Value"), [[words("a"), cell], [words("b"), cell]]))
    assert r"a & 0.5 [1] \\" in text
    assert r"b & 0.5 [1] \\" in text
    assert text.count("held against something") == 1


def test_a_long_table_is_continued_in_the_next() -> None:
    table = Table("t", "c", ("Measure", "Value"), [[words(f"name {n}"), number(n)] for n in range(100)])
    text = latex_table(table)
    assert len(tabulars(text)) == 3
    assert len(set(re.findall(r"\\label\{(.*?)\}", text))) == 3


@pytest.mark.parametrize(("given", "said"), [("--null", "-{}-null"), ("a_b", r"a\_b"), ("中", "U+4E2D")])
def test_signs_that_latex_would_read_otherwise_are_written_as_they_are(given: str, said: str) -> None:
    assert latex_text(given) == said


@pytest.mark.slow
def test_the_tables_compile_and_fit_a_column_of_a_two_column_article(report: str, tmp_path: Path) -> None:
    if shutil.which("pdflatex") is None:
        pytest.skip("pdflatex is not installed")
    body = report + latex_table(odd_table())
    head = r"\documentclass[twocolumn]{article}\usepackage{array,booktabs}\begin{document}"
    (tmp_path / "all.tex").write_text(f"{head}\n{body}\n\\end{{document}}\n", encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "all.tex"],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    log = (tmp_path / "all.log").read_text(encoding="utf-8", errors="replace")
    assert done.returncode == 0, log[-2000:]
    assert "Overfull \\hbox" not in log
    assert "Float too large" not in log
