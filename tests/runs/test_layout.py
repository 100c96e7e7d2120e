"""The declarations of studies: names once, with one type, and no name that could be two."""

from __future__ import annotations

from dataclasses import fields
from pathlib import PurePosixPath
from types import NoneType
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from levelhead.cli.commands import Listed, listed, study_of
from levelhead.options import groups, options
from levelhead.runs.files import CsvFile
from levelhead.runs.folder import LOCK, RESULTS, SETTINGS
from levelhead.runs.study import Parts, Stored, Study, studies
from levelhead.safe_files import TEMPORARY
from tests.runs.cases import files

every = pytest.mark.parametrize("study", studies().values(), ids=lambda study: study.name)
FOLDERS = {inside.folder for study in studies().values() for inside in study.inside.values()}


@every
def test_a_study_says_what_its_command_its_page_and_its_document_need(study: type[Study[Any]]) -> None:
    for said in (study.title, study.question, study.about):
        assert said[0].isupper(), said
    assert study.about.endswith((".", "...", "?"))
    assert study.__doc__
    assert all(slot.__doc__ for slot in study.slots.values())


@every
def test_the_command_that_a_refusal_names_exists(study: type[Study[Any]]) -> None:
    program, name = study.command.split(" ")
    assert program == "levelhead"
    assert listed()[name] == Listed(study.name, study.about, study.__module__, study.order, study.old_name)
    assert study_of(name) is study


@every
def test_stored_settings_hold_the_settings_the_study_and_its_seed(study: type[Study[Any]]) -> None:
    assert issubclass(study.stored, Stored)
    assert issubclass(study.stored, study.settings_type)
    assert {"study", "models", "seed", *options(study.settings_type)} <= {
        each.name for each in fields(study.stored)
    }


@every
def test_every_setting_is_explained_in_one_line_that_ends(study: type[Study[Any]]) -> None:
    kinds = (study.settings_type, *groups(study.settings_type).values())
    for name, each in [item for kind in kinds for item in options(kind).items()]:
        assert each.option.help, name
        assert "\n" not in each.option.help, name


@every
@given(label=st.text())
def test_any_label_of_parts_keeps_their_type(study: type[Study[Any]], label: str) -> None:
    for name, slot in study.slots.items():
        if isinstance(slot, Parts):
            assert study.record_of(slot.of(label).name) is slot.record
            assert study.record_of(name) is None
        else:
            assert study.record_of(slot.name) is slot.record


def test_names_and_commands_are_there_once() -> None:
    assert len({study.command for study in studies().values()}) == len(studies())
    assert all(name == study.name for name, study in studies().items())


def test_files_have_names_of_their_own_inside_the_folder() -> None:
    names = [file.name for file in files()]
    assert len(set(names)) == len(names)
    for name in names:
        path = PurePosixPath(name)
        assert not path.is_absolute()
        assert ".." not in path.parts
        assert path.parts[0] not in (SETTINGS, RESULTS, LOCK, *FOLDERS)
        assert not path.name.startswith(TEMPORARY)


@pytest.mark.parametrize(
    "file", [each for each in files() if isinstance(each, CsvFile)], ids=lambda f: f.name
)
def test_a_line_of_a_table_has_nothing_but_texts_and_numbers(file: CsvFile[Any]) -> None:
    for name, hint in get_type_hints(file.record).items():
        kinds = set(get_args(hint) or (hint,)) - {NoneType}
        assert kinds <= {str, int, float, bool}, name
