"""The tables of a survey: models ranked, and their differences, as CSV and Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from levelhead.files import write_inside
from levelhead.inference.ranking import survey_differences, survey_lines
from levelhead.results import layout
from levelhead.results.folder import Run
from levelhead.results.records.survey import SurveyLine
from levelhead.results.runs import SurveyRun
from levelhead.results.settings import SurveyRunSettings

NO_PARQUET = (
    "no survey.parquet: it needs pandas and pyarrow (pip install pandas pyarrow); survey.csv has it all"
)


def write_tables(run: Run[SurveyRunSettings]) -> None:
    result = SurveyRun(run.data())
    lines = survey_lines(result)
    run.file(layout.SURVEY_TABLE, lines)
    run.file(layout.SURVEY_DIFFERENCES, survey_differences(result))
    _write_parquet(run.folder, lines)


def _write_parquet(folder: Path, lines: Sequence[SurveyLine]) -> None:
    """The table for programs that read Parquet; none, and no older one, without pandas and pyarrow."""
    whole = dict.fromkeys(("step", "n", "rank"), "Int64")
    numbers = dict.fromkeys(("value", "low", "high", "neutral", "size"), "float64")
    try:
        import pandas

        frame = pandas.DataFrame.from_records([asdict(line) for line in lines]).astype({**whole, **numbers})
        place = folder.absolute()  # pyarrow takes a folder called `lh:` for an address
        write_inside(place, layout.SURVEY_PARQUET, lambda work: frame.to_parquet(work, engine="pyarrow"))
    except ImportError:
        (folder / layout.SURVEY_PARQUET).unlink(missing_ok=True)
