"""Every saved result opens again: runs of every study of the registry, and results of one record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import levelhead as lh
from levelhead.api.reading_runs import SAVED
from levelhead.api.shown import SHEET, SavedRecord
from levelhead.errors import BadRun
from levelhead.runs.folder import Run
from levelhead.runs.study import Study, studies
from tests.report.synthetic import write_audit
from tests.runs.cases import sample
from tests.scoring.benchmarks.test_crows_pairs import PAIRS, write
from tests.studies.projection_cases import ABLE, small_triples
from tests.tiny import tiny
from tests.word_lists import GENDER

settings = lh.settings
FEW = 100  # resamples


@pytest.mark.parametrize("study", studies().values(), ids=lambda study: study.name)
def test_a_run_of_every_study_opens_and_so_does_what_is_saved_of_it(
    tmp_path: Path, study: type[Study[Any]]
) -> None:
    settings = sample(study.stored, study=study.name)
    Run.open(tmp_path / "run", study, settings).close()
    found: Any = lh.open_run(tmp_path / "run")
    assert isinstance(found, study)
    again: Any = lh.open_run(found.save(tmp_path / "kept"))
    assert type(again) is type(found)
    assert again.settings == found.settings == settings


def test_a_benchmark_that_was_measured_opens_as_its_result(tmp_path: Path) -> None:
    asked = settings.BenchmarkSettings("crows-pairs", str(write(tmp_path, PAIRS)), null=0, resamples=FEW)
    found = lh.benchmark(tiny("bert"), asked, tmp_path / "run")
    again = lh.open_run(tmp_path / "run")
    assert type(again) is type(found)
    assert again.lines() == found.lines()


# ---- results that are no run


def _seat(_: Path) -> SavedRecord:
    return lh.seat(tiny("bert"), settings.SeatSettings(GENDER, per_word=2, resamples=FEW, each_word=True))


def _lpbs(_: Path) -> SavedRecord:
    return lh.lpbs(tiny("bert"), settings.LpbsSettings([GENDER], resamples=FEW))


def _nsp(folder: Path) -> SavedRecord:
    return lh.nsp(tiny("bert", "nsp"), settings.NspSettings(small_triples(folder), resamples=FEW))


def _nli(_: Path) -> SavedRecord:
    return lh.nli(tiny("bert", "nli"), settings.NliSettings(ability=ABLE, limit=(3, 2), resamples=FEW))


def _fluency(_: Path) -> SavedRecord:
    return lh.fluency(tiny("bert"), settings.FluencySettings(["The nurse was tired."] * 2, resamples=FEW))


def _check(folder: Path) -> SavedRecord:
    return lh.check(write_audit(folder / "audit"), {"seat": 0.5})


def _comparison(folder: Path) -> SavedRecord:
    return lh.compare(write_audit(folder / "audit"))


MADE: dict[str, Callable[[Path], SavedRecord]] = {
    "SeatResult": _seat,
    "LpbsResult": _lpbs,
    "NspResult": _nsp,
    "NliResult": _nli,
    "FluencyResult": _fluency,
    "CheckResult": _check,
    "ComparisonResult": _comparison,
}


def leaves(kind: type[Any]) -> set[str]:
    """The classes below a class that have none below them."""
    below = kind.__subclasses__()
    return {name for each in below for name in leaves(each)} if below else {kind.__name__}


def test_every_result_of_one_record_can_be_opened() -> None:
    assert leaves(SavedRecord) == set(SAVED) == set(MADE)


@pytest.mark.parametrize("name", MADE)
def test_what_a_result_saved_opens_as_an_equal_result(name: str, tmp_path: Path) -> None:
    result = MADE[name](tmp_path)
    assert type(result).__name__ == name
    again = lh.open_run(result.save(tmp_path / "kept"))
    assert type(again) is type(result)
    assert again == result


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"kind": ["SeatResult"]}', '{"kind": "SeatResult"}', "{" * 9]
)
def test_a_folder_whose_file_is_not_ours_is_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / SHEET).write_text(text)
    with pytest.raises(BadRun, match=SHEET) as caught:
        lh.open_run(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_folder_or_file_without_a_result_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "file.json"
    file.write_text("{}")
    for place in (tmp_path, file, tmp_path / "nothing"):
        with pytest.raises(BadRun, match="not a run folder"):
            lh.open_run(place)
