"""What another machine has: compared without anything of levelhead there."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import levelhead
from levelhead.engine import machines

HERE = {"Python": "3.11", "levelhead": "0.3.0", "torch": "2.13.0", "transformers": "5.1", "code": "abc"}


def test_a_machine_with_the_same_versions_and_code_lacks_nothing() -> None:
    assert machines.lacking(HERE, dict(HERE)) == ""


@pytest.mark.parametrize(
    ("there", "line"),
    [
        ({"levelhead": ""}, "has no levelhead"),
        ({"torch": "2.6.0"}, "has torch 2.6.0, the driver 2.13.0"),
        ({"transformers": ""}, "has no transformers"),
        ({"Python": "3.12"}, "has Python 3.12, the driver 3.11"),
        ({"code": "abd"}, "has another levelhead 0.3.0 than the driver, whose code differs"),
    ],
)
def test_what_a_machine_lacks_is_the_end_of_one_sentence(there: dict[str, str], line: str) -> None:
    assert machines.lacking(HERE, {**HERE, **there}) == line


def found_there(path: str) -> dict[str, str]:
    """What a Python finds that has no packages but those in one folder."""
    source = Path(machines.__file__).read_text(encoding="utf-8")
    program = f"import sys; sys.path[:0] = [{path!r}] if {path!r} else []\n{source}\nimport json"
    command = [sys.executable, "-I", "-S", "-c", f"{program}\nprint(json.dumps(equipment()))"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_code_is_compared_wherever_it_is_and_whatever_its_version_says(tmp_path: Path) -> None:
    own = Path(levelhead.__file__).parent
    copied = tmp_path / "levelhead"
    shutil.copytree(own, copied, ignore=lambda _, names: [n for n in names if "." in n and n[-3:] != ".py"])
    here = machines.equipment()
    assert found_there("") == {"Python": here["Python"], **dict.fromkeys(machines.PACKAGES, "")}
    assert found_there(str(tmp_path))["code"] == here["code"]
    with (copied / "errors.py").open("a") as file:
        file.write("# another version\n")
    assert found_there(str(tmp_path))["code"] != here["code"]


def test_only_the_standard_library_is_imported() -> None:
    tree = ast.parse(Path(machines.__file__).read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names


def test_part_of_a_file_is_so_many_bytes_from_one_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(range(10)))
    assert machines.part(str(tmp_path / "file"), 3, 4) == bytes([3, 4, 5, 6])
