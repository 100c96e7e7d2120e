"""SECURITY.md: every promise names tests that hold it, and those tests exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
PROMISES = re.findall(
    r"^\| (?!Promise|-)(.+?) \| (.+?) \|$",
    (TESTS.parent / "SECURITY.md").read_text("utf-8").partition("## Reporting")[0],
    re.M,
)


def exists(test: str) -> bool:
    """Whether a test of a file, path::name, is there."""
    path, _, name = test.partition("::")
    if not (TESTS / path).is_file():
        return False
    functions = ast.parse((TESTS / path).read_text("utf-8")).body
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in functions)


def test_every_promise_of_the_security_policy_names_tests_that_exist() -> None:
    named = {promise: re.findall(r"`([\w/]+\.py::\w+)`", tests) for promise, tests in PROMISES}
    assert len(named) > 12
    assert [promise for promise, tests in named.items() if not tests] == []
    missing = [test for tests in named.values() for test in tests if not exists(test)]
    assert missing == []


def test_a_test_that_is_not_there_is_seen() -> None:
    assert exists("test_security.py::test_a_test_that_is_not_there_is_seen")
    assert not exists("test_security.py::test_that_nobody_wrote")
    assert not exists("no_such_file.py::test_that_nobody_wrote")
