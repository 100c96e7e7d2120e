"""Every saved result opens again: runs of all studies, and results that are one record."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, get_args

from pydantic import ConfigDict

from levelhead.api.measured import FluencyResult, LpbsResult, NliResult, NspResult, SeatResult
from levelhead.api.reports import CheckResult, ComparisonResult
from levelhead.api.shown import SHEET
from levelhead.errors import BadRun
from levelhead.runs import study as runs
from levelhead.runs.files import JsonFile
from levelhead.runs.folder import SETTINGS
from levelhead.runs.records import Record

AnySaved: TypeAlias = (
    SeatResult | LpbsResult | NspResult | NliResult | FluencyResult | CheckResult | ComparisonResult
)
SAVED: dict[str, type[AnySaved]] = {kind.__name__: kind for kind in get_args(AnySaved)}


@dataclass(frozen=True)
class _Sheet(Record):
    """What every saved record says of itself; its own class reads the rest."""

    __pydantic_config__ = ConfigDict(extra="ignore")

    kind: str = ""


def open_run(folder: str | Path) -> runs.Study[Any] | AnySaved:
    """The result in a folder: the run of a study, or what `result.save(folder)` wrote."""
    folder = Path(folder).expanduser()
    if not (folder / SHEET).is_file() or (folder / SETTINGS).exists():
        return runs.open_run(folder)
    sheet = JsonFile(SHEET, _Sheet).read(folder)
    kind = None if sheet is None else SAVED.get(sheet.kind)
    found = None if kind is None else JsonFile(SHEET, kind).read(folder)
    if found is None:
        raise BadRun(
            f"{folder / SHEET} holds no result that this version of levelhead saved. Measure again, and save "
            "that."
        )
    return found
