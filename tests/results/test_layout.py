"""The layout of run folders: every name once, with one type, and no name that could be two."""

from __future__ import annotations

from dataclasses import fields
from itertools import permutations
from pathlib import PurePosixPath
from types import NoneType
from typing import Any, get_args, get_type_hints

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

from levelhead.cli.app import app
from levelhead.cli.main import COMMANDS
from levelhead.files import TEMPORARY
from levelhead.results import layout
from levelhead.results.folder import LOCK
from levelhead.results.keys import CsvFile, JsonFile, JsonLines, Key, KeyFamily, Layout, TextFile
from levelhead.results.settings import RunSettings
from levelhead.results.stored import RESULTS, SETTINGS

NAMES = vars(layout)
FILES: list[TextFile | JsonFile[Any] | JsonLines[Any] | CsvFile[Any]] = [
    file for file in NAMES.values() if isinstance(file, TextFile | JsonFile | JsonLines | CsvFile)
]
studies = pytest.mark.parametrize("study", layout.LAYOUTS, ids=lambda study: study.study)


def test_every_layout_is_listed_under_its_own_study_and_command() -> None:
    defined = [each for each in NAMES.values() if isinstance(each, Layout)]
    assert sorted(each.study for each in layout.LAYOUTS) == sorted(each.study for each in defined)
    for values in ({each.study for each in defined}, {each.command for each in defined}):
        assert len(values) == len(defined)


@studies
def test_the_command_that_a_refusal_names_exists(study: Layout[Any]) -> None:
    assert COMMANDS  # importing them has registered them
    group: Any = typer.main.get_command(app)
    program, name = study.command.split(" ")
    assert program == "levelhead"
    assert name in group.commands


@studies
def test_settings_of_every_study_have_its_name_and_its_seed(study: Layout[Any]) -> None:
    assert issubclass(study.settings, RunSettings)
    assert [field.name for field in fields(study.settings)][:2] == ["study", "seed"]


@studies
def test_no_two_keys_of_a_study_have_one_name(study: Layout[Any]) -> None:
    names = [key.name for key in study.keys] + [family.prefix for family in study.families]
    assert len(set(names)) == len(names)


@studies
def test_no_key_and_no_family_begins_like_another_family(study: Layout[Any]) -> None:
    prefixes = [family.prefix for family in study.families]
    assert all(prefix and not prefix[-1].isalnum() for prefix in prefixes)
    assert not [key.name for key in study.keys if key.name.startswith(tuple(prefixes))]
    assert not [pair for pair in permutations(prefixes, 2) if pair[0].startswith(pair[1])]


@studies
@given(label=st.text())
def test_any_label_of_a_family_keeps_the_familys_type(study: Layout[Any], label: str) -> None:
    for family in study.families:
        assert study.record_of(family.of(label).name) is family.record
    for key in study.keys:
        assert study.record_of(key.name) is key.record


def test_every_key_belongs_to_exactly_one_study() -> None:
    own = [*(key for study in layout.LAYOUTS for key in study.keys)]
    families = [*(family for study in layout.LAYOUTS for family in study.families)]
    for name, value in NAMES.items():
        if isinstance(value, Key):
            assert sum(key is value for key in own) == 1, name
        if isinstance(value, KeyFamily):
            assert sum(family is value for family in families) == 1, name


def test_files_have_names_of_their_own_inside_the_folder() -> None:
    names = [file.name for file in FILES]
    assert len(set(names)) == len(names)
    for name in names:
        path = PurePosixPath(name)
        assert not path.is_absolute()
        assert ".." not in path.parts
        assert path.parts[0] not in (SETTINGS, RESULTS, LOCK, layout.HEADS_PART, layout.PROMPTS_PART)
        assert not path.name.startswith(TEMPORARY)


@pytest.mark.parametrize("file", [file for file in FILES if isinstance(file, CsvFile)], ids=lambda f: f.name)
def test_a_line_of_a_table_has_nothing_but_texts_and_numbers(file: CsvFile[Any]) -> None:
    for name, hint in get_type_hints(file.record).items():
        kinds = set(get_args(hint) or (hint,)) - {NoneType}
        assert kinds <= {str, int, float, bool}, name
