"""SECURITY.md: every promise names tests that hold it, and those tests exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent
PROMISES = re.findall(
    r"^\| (?!Promise|-)(.+?) \| (.+?) \|$", (TESTS.parent / "SECURITY.md").read_text("utf-8"), re.M
)
COMING = (  # of branches that are not merged yet; a name leaves this list with its merge
    "models/test_foreign_code.py::test_attention_code_that_is_not_known_to_be_local_is_refused_in_every_form",
    "models/test_foreign_code.py::test_what_names_code_in_any_file_is_refused_unless_trusted",
    "models/test_foreign_code.py::test_an_adapter_leads_to_no_other_model",
    "models/test_chat.py::test_a_template_that_takes_too_long_or_too_much_is_one_line",
    "engine/test_crew.py::test_nobody_else_can_enter_the_folder_of_our_ray",
    "test_files.py::test_a_scratch_folder_is_private_and_has_a_short_path_wherever_temporary_files_go",
    "engine/test_threads.py::test_eight_threads_get_the_numbers_of_one",
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
    assert [test for test in missing if test not in COMING] == []


def test_a_test_that_is_not_there_is_seen() -> None:
    assert exists("test_security.py::test_a_test_that_is_not_there_is_seen")
    assert not exists("test_security.py::test_that_nobody_wrote")
    assert not exists("no_such_file.py::test_that_nobody_wrote")
