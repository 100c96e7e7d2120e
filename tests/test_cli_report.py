"""`levelhead report`, `compare`, `card` as a user runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from levelhead.cli.main import main
from levelhead.inference.comparing import Comparison
from tests.report.synthetic import write_audit, write_heads
from tests.typed import Typed


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    place = tmp_path_factory.mktemp("runs")
    return write_audit(place / "a", "first"), write_audit(place / "b", "second", shift=0.5)


def test_report_writes_one_file_a_run(runs: tuple[Path, Path], typed: Typed) -> None:
    code, out, _ = typed("report", *map(str, runs), "--json")
    assert code == 0
    assert json.loads(out)["reports"] == [str(run / "report.html") for run in runs]
    assert all((run / "report.html").stat().st_size > 100_000 for run in runs)


def test_report_refuses_one_output_for_two_runs(
    runs: tuple[Path, Path], tmp_path: Path, typed: Typed
) -> None:
    code, _, line = typed("report", *map(str, runs), "-o", str(tmp_path / "x.html"))
    assert (code, line.count("\n")) == (2, 1)
    assert "-o takes one run (got 2)" in line


def test_compare_prints_differences_and_writes_a_page(
    runs: tuple[Path, Path], tmp_path: Path, typed: Typed
) -> None:
    code, out, _ = typed("compare", *map(str, runs), "-o", str(tmp_path / "both.html"))
    assert code == 0
    assert "+0.500" in out
    assert "head scores agree with rho" in out
    assert "Side by side" in (tmp_path / "both.html").read_text(encoding="utf-8")
    comparison = Comparison.from_json(json.loads(typed("compare", *map(str, runs), "--json")[1]))
    (difference,) = comparison.measures["seat"].differences
    assert difference is not None
    assert difference.value == pytest.approx(0.5)


def test_card_goes_to_standard_output_or_a_file(
    runs: tuple[Path, Path], tmp_path: Path, typed: Typed
) -> None:
    _, text, _ = typed("card", str(runs[0]))
    assert text.startswith("## Bias evaluation\n")
    assert typed("card", str(runs[0]), "-o", str(tmp_path / "card.md"))[1] == f"{tmp_path / 'card.md'}\n"
    assert (tmp_path / "card.md").read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    ("command", "option"), [("card", "-o"), ("compare", "-o"), ("check", "--junit"), ("report", "-o")]
)
def test_a_file_that_levelhead_did_not_write_is_not_replaced(
    runs: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    option: str,
) -> None:
    def exit_code(*added: str | Path) -> int:
        limits = ["--max", "seat=9"] if command == "check" else []
        monkeypatch.setattr("sys.argv", ["levelhead", command, str(runs[0]), *limits, *map(str, added)])
        with pytest.raises(SystemExit) as stop:
            main()
        return int(stop.value.code or 0)

    ending = {"card": ".md", "check": ".xml"}.get(command, ".html")
    theirs = tmp_path / f"thesis{ending}"
    theirs.write_text("years of work", encoding="utf-8")
    for precious, code, advice in ((theirs, 4, "--force"), (runs[0] / "results.jsonl", 2, ending)):
        before = precious.read_bytes()
        assert exit_code(option, precious) == code
        error = capsys.readouterr().err
        assert (error.count("\n"), advice in error) == (1, True)
        assert precious.read_bytes() == before
    ours = tmp_path / f"ours{ending}"
    assert [exit_code(option, ours) for _ in range(2)] == [0, 0]
    assert exit_code(option, theirs, "--force") == 0
    assert theirs.read_bytes() == ours.read_bytes()


def test_reading_a_run_loads_no_torch(tmp_path: Path) -> None:
    folder = write_heads(tmp_path / "run")
    code = f"import sys; from levelhead.pages.page import write_report; write_report({str(folder)!r}); "
    done = subprocess.run(
        [sys.executable, "-c", code + "print('torch' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "False\n"


# ---- endings


STARTS = {
    ".html": "<!doctype html>",
    ".md": "<!-- Written by levelhead -->\n\n# ",
    ".tex": "% Written by levelhead\n% levelhead: needs",
    ".csv": "# Written by levelhead\n# ",
    ".json": '{\n  "runs": [',
}


@pytest.mark.parametrize(
    ("command", "ending"),
    [
        (command, each)
        for command in ("report", "compare")
        for each in STARTS
        if (command, each) != ("report", ".json")
    ],
)
def test_the_ending_decides_what_is_written_and_our_own_file_is_replaced(
    command: str, ending: str, runs: tuple[Path, Path], tmp_path: Path, typed: Typed
) -> None:
    file = tmp_path / f"out{ending.upper() if ending == '.md' else ending}"
    for _ in range(2):
        code, _, error = typed(command, str(runs[0]), "-o", str(file))
        assert code == 0, error
    assert file.read_text(encoding="utf-8").lower().startswith(STARTS[ending].lower())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["report", "RUN", "-o", "x.docx"], ".html, .md, .tex, .csv, .pdf"),
        (["report", "RUN", "-o", "x"], ".html, .md, .tex, .csv, .pdf"),
        (["compare", "RUN", "-o", "x.pdf"], ".html, .md, .tex, .csv, .json"),
        (["card", "RUN", "-o", "x.html"], ".md"),
        (["check", "RUN", "--max", "seat=9", "--junit", "x.json"], ".xml"),
        (["seat", "lh:bert-mini", "-o", "x.md"], ".csv, .tex, .json"),
        (["seat", "lh:bert-mini", "--csv", "x.json"], ".csv"),
        (["benchmark", "bbq", "lh:bert-mini", "--data", "nowhere", "-o", "x.html"], "or a folder"),
        (["audit", "lh:bert-mini", "-o", "x.html"], "writes a folder"),
        (["survey", "lh:bert-mini", "-o", "x.csv"], "writes a folder"),
        (["reproduce", "heads", "-o", "x.tex"], "writes a folder"),
        (["report", "RUN", "--as", "latex", "-o", "x.md"], "contradict each other"),
        (["report", "RUN", "--as", "text", "-o", "x.md"], "contradict each other"),
        (["report", "RUN", "--as", "word"], "text, markdown, latex, csv"),
    ],
)
def test_an_ending_that_a_command_does_not_write_is_refused_before_any_work(
    words: list[str],
    says: str,
    runs: tuple[Path, Path],
    tmp_path: Path,
    typed: Typed,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, error = typed(*(str(runs[0]) if word == "RUN" else word for word in words))
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert says in error
    assert not list(tmp_path.iterdir())


def test_as_and_an_ending_that_agree_write_what_as_prints(
    runs: tuple[Path, Path], tmp_path: Path, typed: Typed
) -> None:
    printed = typed("report", str(runs[0]), "--as", "latex")[1]
    file = tmp_path / "tables.tex"
    assert typed("report", str(runs[0]), "--as", "latex", "-o", str(file))[0] == 0
    assert file.read_text(encoding="utf-8").partition("\n")[2].strip() == printed.strip()
