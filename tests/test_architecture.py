"""The rooms and their doors: imports point one way only."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "src" / "levelhead"
ROOMS = [
    "errors",
    "models",
    "probes",
    "engine",
    "measures",
    "edits",
    "runs",
    "studies",
    "report",
    "audit",
    "cli",
]
FILES = sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_up_the_list_only(path: Path) -> None:
    room = room_of(path)
    if room == "__init__":
        return
    assert room in ROOMS, f"{room} is not in the picture; change docs/architecture.md"
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "levelhead" and len(parts) > 1:
            assert ROOMS.index(parts[1]) <= ROOMS.index(room), f"{path.name} imports {name}"


@pytest.mark.parametrize("room", ["probes", "measures", "report"])
def test_probes_measures_and_reports_know_no_model(room: str) -> None:
    for path in (SOURCE / room).rglob("*.py"):
        names = imports(path)
        assert not {n.split(".")[0] for n in names} & {"torch", "transformers"}, path
        assert not any(n.startswith(("levelhead.engine", "levelhead.models")) for n in names), path


def test_only_the_engine_and_the_loader_run_a_model() -> None:
    """Studies, edits and the rest never call a module: no `.hf(`, no `.base(` outside engine and the
    self-test."""
    for path in FILES:
        if room_of(path) in ("engine", "models"):
            continue
        calls = [n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.Call)]
        ran = [c for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr in ("hf", "base")]
        assert not ran, f"{path} line {ran[0].lineno}"


def test_the_picture_in_the_docs_names_every_room() -> None:
    picture = (SOURCE.parents[1] / "docs" / "architecture.md").read_text(encoding="utf-8")
    for room in ROOMS:
        assert room in picture
