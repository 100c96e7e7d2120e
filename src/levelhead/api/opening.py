"""Every saved result opens again: runs of all studies, and results that are one record."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from pydantic import ConfigDict

from levelhead.api.measured import FluencyResult, LpbsResult, NliResult, NspResult, SeatResult
from levelhead.api.reports import CheckResult, ComparisonResult
from levelhead.api.results import AnyResult
from levelhead.api.shown import SHEET
from levelhead.errors import BadRun
from levelhead.results import layout
from levelhead.results.codec import Record
from levelhead.results.folder import read_run
from levelhead.results.keys import JsonFile
from levelhead.results.stored import SETTINGS

AnySaved = SeatResult | LpbsResult | NspResult | NliResult | FluencyResult | CheckResult | ComparisonResult
KINDS: tuple[type[AnyResult], ...] = get_args(AnyResult)
SAVED: dict[str, type[AnySaved]] = {kind.__name__: kind for kind in get_args(AnySaved)}


def open_run(folder: str | Path) -> AnyResult | AnySaved:
    """The result in a folder: the run of a study, or what `result.save(folder)` wrote."""
    folder = Path(folder).expanduser()
    if (folder / SHEET).is_file() and not (folder / SETTINGS).exists():
        return _saved(folder)
    data = read_run(folder, layout.LAYOUTS)
    return next(kind(data) for kind in KINDS if kind.LAYOUT is data.layout)


@dataclass(frozen=True)
class _Sheet(Record):
    """What every saved record says of itself; its own class reads the rest."""

    __pydantic_config__ = ConfigDict(extra="ignore")

    kind: str = ""


def _saved(folder: Path) -> AnySaved:
    sheet = JsonFile(SHEET, _Sheet).read(folder)
    kind = None if sheet is None else SAVED.get(sheet.kind)
    found = None if kind is None else JsonFile(SHEET, kind).read(folder)
    if found is None:
        raise BadRun(
            f"{folder / SHEET} holds no result that this version of levelhead saved. Measure again, and save "
            "that."
        )
    return found
