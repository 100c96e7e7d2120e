"""Two run folders are compared by what they mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.same_numbers import main

ROWS = [{"name": "seat", "value": 1.5, "null": {"floor": 0.25, "p": 0.01}, "why": "as it was said"}]


def _run(folder: Path, rows: list[dict[str, Any]], key: str = "seat") -> str:
    (folder / "heads").mkdir(parents=True)
    line = json.dumps({"key": key, "rows": rows, "sha256": folder.name})
    (folder / "heads" / "results.jsonl").write_text(line + "\n")
    return str(folder)


def _changed(**fields: Any) -> list[dict[str, Any]]:
    return [{**ROWS[0], **fields}]


@pytest.mark.parametrize(
    ("rows", "key", "options", "code"),
    [
        (ROWS, "seat", (), 0),
        (_changed(why="said anew"), "seat", (), 0),
        (_changed(value=1.5 + 1e-12), "seat", (), 1),
        (_changed(value=1.5 + 1e-12), "seat", ("--tolerance", "1e-9"), 0),
        (_changed(name="SEAT"), "seat", (), 1),
        (_changed(name="SEAT"), "seat", ("--renamed", "seat=SEAT"), 1),  # the key was renamed as well
        (_changed(name="SEAT"), "SEAT", ("--renamed", "seat=SEAT"), 0),
        (_changed(null={"mean": 0.25, "p": 0.01}), "seat", ("--renamed", "floor=mean"), 0),
        (_changed(null={"mean": 0.25, "p": 0.02}), "seat", ("--renamed", "floor=mean"), 1),
        ([*ROWS, *ROWS], "seat", (), 1),
    ],
)
def test_only_values_count_under_whatever_name(
    tmp_path: Path, rows: list[dict[str, Any]], key: str, options: tuple[str, ...], code: int
) -> None:
    old, new = _run(tmp_path / "old", ROWS), _run(tmp_path / "new", rows, key)
    assert main([old, new, *options]) == code


def test_a_folder_without_results_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"holds no results\.jsonl"):
        main([str(tmp_path), str(tmp_path)])
