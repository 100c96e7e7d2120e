"""Notebooks are executed: each runs from its first cell to its last, and was committed with its outputs."""

from __future__ import annotations

import ast
import importlib
import re
from operator import attrgetter
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import levelhead as lh

NOTEBOOKS = sorted((Path(__file__).resolve().parents[1] / "docs" / "notebooks").glob("*.ipynb"))
SMALL = 100_000  # bytes


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def kinds(book: Any) -> list[list[str]]:
    """What each code cell printed or showed, by kind; warnings aside, which differ between machines."""
    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    return [
        sorted({key for out in cell.outputs for key in out.get("data", {})} | _streams(cell))
        for cell in cells
    ]


def _streams(cell: Any) -> set[str]:
    return {out["name"] for out in cell.outputs if out.output_type == "stream" and out["name"] != "stderr"}


@pytest.mark.nightly
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_it_was_committed_with(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    book = read(path)
    committed = kinds(book)
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(book, timeout=600, resources=resources).execute()
    assert kinds(book) == committed


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small_whole_and_free_of_paths_of_a_machine(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text) < SMALL
    assert "/home/" not in text
    assert "/work/" not in text
    book = read(path)
    assert book.cells[0].source.startswith("# ")
    assert all(cell.execution_count for cell in book.cells if cell.cell_type == "code")
    assert any("image/svg+xml" in shown for shown in kinds(book))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_cells_of_a_notebook_name_nothing_that_levelhead_does_not_have(path: Path) -> None:
    """In `make test`, which executes none of them."""
    cells = [cell.source for cell in read(path).cells if cell.cell_type == "code"]
    tree = ast.parse("\n".join(line for line in "\n".join(cells).splitlines() if line[:1] not in ("%", "!")))
    named = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    ours = [name for name in named if re.fullmatch(r"lh(\.\w+)+", name)]
    assert ours
    for name in ours:
        assert attrgetter(name.removeprefix("lh."))(lh), name
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("levelhead"):
            module = importlib.import_module(str(node.module))
            assert all(hasattr(module, alias.name) for alias in node.names), ast.unparse(node)


def test_there_are_three_notebooks() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["audit", "own_bias", "trainer_callback"]
