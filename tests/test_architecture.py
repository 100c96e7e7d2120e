"""Which module may import which: the contracts in pyproject.toml for import-linter, and here what it has no
contract for: the parts of studies, circles of single modules, imports by computed names, calls."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

from tests.architecture import (
    Graph,
    Rooms,
    circles,
    drawn_paths,
    drawn_rooms,
    forbidden_arrows,
    hidden_imports,
    import_graph,
    model_runs,
    modules_without_room,
    opened_by_path,
)

ROOT = Path(__file__).resolve().parents[1]
DECLARATIONS = ("settings", "records")  # beside the package's own module: what a study is, without torch
STUDIES = sorted(path.parent.name for path in (ROOT / "src" / "levelhead" / "studies").glob("*/__init__.py"))
ROOMS = Rooms(
    "levelhead",
    order=(
        "errors",
        "safe_files",
        "options",
        "kinds",
        "escaping",
        "progress",
        "edits",
        "models",
        "probes",
        "engine",
        "measures",
        "runs",
        "declarations",
        "inference",
        "scoring",
        "mitigation",
        "pages",
        "studies.halves",
        *(f"studies.{name}" for name in STUDIES),
        "chapters",
        "serving",
        "exploring",
        "api",
        "settings",
        "cli",
        "__main__",
    ),
    strangers=["studies"],
    acquainted=[
        ("studies.halves", "studies.heads"),
        *((f"studies.{each}", "studies.halves") for each in ("atlas", "mitigate", "audit")),
        ("studies.atlas", "studies.heads"),
        ("studies.planted", "studies.heads"),
        ("studies.planted", "studies.atlas"),
        ("studies.mitigate", "studies.heads"),
        ("studies.mitigate", "studies.glue"),
        ("studies.mitigate", "studies.projections"),
        *(
            ("studies.audit", f"studies.{each}")
            for each in ("heads", "counteracts", "generate", "glue", "mitigate")
        ),
        ("studies.survey", "studies.audit"),
        *(("studies.reproduce", f"studies.{each}") for each in ("heads", "counteracts", "projections")),
    ],
)


def placed(module: str) -> str:
    """A module under the name of its room: a study's declaration, its run and its chapter are three rooms."""
    match module.split("."):
        case ["levelhead", "studies", "halves", *_]:
            return module
        case ["levelhead", "studies", study]:
            return f"levelhead.declarations.{study}"
        case ["levelhead", "studies", study, part, *rest] if part in DECLARATIONS:
            return ".".join(["levelhead.declarations", study, part, *rest])
        case ["levelhead", "studies", study, "chapter", *rest]:
            return ".".join(["levelhead.chapters", study, *rest])
    return module


TYPES_ALONE = (  # imported under TYPE_CHECKING alone, but for the hyperparameters, with which no torch comes
    "-> levelhead.models.model",
    "-> levelhead.engine.hyperparameters",
    "-> levelhead.mitigation.recipe",
    "-> levelhead.pages.links",
)
FRONT_DOOR = "levelhead/__init__.py"  # hands out names of all rooms, each imported when it is first used
VERSION = "levelhead.__version__"
SOURCES = {
    path.relative_to(ROOT / "src").as_posix(): path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "src" / "levelhead").rglob("*.py"))
}
ROOM_SOURCES = {path: text for path, text in SOURCES.items() if path != FRONT_DOOR}


@cache
def graph() -> Graph:
    """What the package imports: read by the first test that asks, not by every worker."""
    return import_graph(SOURCES)


def room_graph() -> Graph:
    return {
        placed(module): {placed(name) for name in names}
        for module, names in graph().items()
        if module not in ("levelhead", "levelhead.studies")
    }


# --- the package


def test_the_contracts_of_import_linter_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert lint_imports(config_filename="pyproject.toml", cache_dir=None) == 0


def test_every_module_is_in_a_room() -> None:
    assert modules_without_room(room_graph(), ROOMS) == []


def test_declarations_runs_and_chapters_of_studies_point_up_the_list_of_rooms_only() -> None:
    arrows = forbidden_arrows(room_graph(), ROOMS, open_names=[VERSION])
    assert [arrow for arrow in arrows if not arrow.endswith(TYPES_ALONE)] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circles({module: names for module, names in graph().items() if module != "levelhead"}) == []


def test_imports_by_a_computed_name_are_parts_of_studies_and_commands_alone() -> None:
    hidden = {place.partition(":")[0] for place in hidden_imports(ROOM_SOURCES)}
    assert hidden == {"levelhead/runs/study.py", "levelhead/cli/commands.py"}


def test_only_the_engine_and_the_models_self_test_run_a_model() -> None:
    # remote: the code of exported folders, which run themselves
    running = ("levelhead/engine/", "levelhead/models/", "levelhead/mitigation/remote/")
    assert model_runs({path: text for path, text in SOURCES.items() if not path.startswith(running)}) == []
    assert len(model_runs(SOURCES)) >= 4  # the engine does


def test_one_file_knows_that_words_are_scored_by_seat() -> None:
    knowing = {path for path, text in SOURCES.items() if "seat_objective" in text}
    assert knowing == {"levelhead/scoring/objectives.py"}


AT_RUNS = (  # rooms that read and write run folders
    *("runs", "inference", "scoring", "mitigation", "studies", "pages", "serving", "exploring", "api", "cli"),
    "engine/shards.py",
)
NOT_IN_A_RUN = {  # what else these rooms open, and how
    "levelhead/api/shown.py": {"write_text"},  # a new folder
    "levelhead/cli/commands.py": {"read_text"},  # ships
    "levelhead/cli/terminal.py": {"open", "os.open"},  # the null device
    "levelhead/engine/shards.py": {"np.load", "np.savez"},  # an open file; a temporary file
    "levelhead/inference/claims.py": {"read_text"},  # ships
    "levelhead/mitigation/export.py": {"write_text"},  # a new folder
    "levelhead/mitigation/remote_folder.py": {"read_text", "write_text"},  # ships; a new folder
    "levelhead/pages/charts/base.py": {"read_text"},  # ships
    "levelhead/pages/glossary.py": {"read_text"},  # ships
    "levelhead/pages/pdf.py": {"shutil.copyfile"},  # a temporary file
    "levelhead/pages/sections/closing.py": {"read_text"},  # ships
    "levelhead/pages/shell.py": {"read_text"},  # ships
    "levelhead/runs/folder.py": {"open"},  # a file of the user's, to hash it
    "levelhead/runs/study.py": {"shutil.copytree"},  # a run that was looked through before
    "levelhead/scoring/benchmarks/protocol.py": {"read_text"},  # ships
    "levelhead/serving/served.py": {"write_text"},  # a temporary folder
    "levelhead/studies/counteracts/run.py": {"read_text"},  # a recipe that the user names
    "levelhead/studies/generate/run.py": {"read_text"},  # a recipe that the user names
    "levelhead/studies/survey/run.py": {"to_parquet"},  # a temporary file
}


def test_files_of_runs_are_opened_by_the_one_function_that_follows_no_links() -> None:
    inside = tuple(f"levelhead/{room}{'' if room.endswith('.py') else '/'}" for room in AT_RUNS)
    found = opened_by_path({path: text for path, text in SOURCES.items() if path.startswith(inside)})
    assert found == NOT_IN_A_RUN


def test_the_picture_in_the_docs_draws_every_room_in_its_order_and_nothing_that_is_not_there() -> None:
    paths = drawn_paths((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), "levelhead")
    drawn = drawn_rooms(paths, [])
    once = {
        "declarations",
        "studies.halves",
        "chapters",
        *(f"studies.{name}" for name in STUDIES),
    }  # in studies/
    assert [room for room in drawn if room != "studies"] == [room for room in ROOMS.order if room not in once]
    assert "studies" in drawn
    assert [path for path in paths if not (ROOT / "src" / "levelhead" / path).exists()] == []


# --- the checks themselves

HOUSE = Rooms(
    "house",
    ["cellar", "hall", "loft.east", "loft.west", "loft.north"],
    ["loft"],
    [("loft.west", "loft.east")],
)


def house(**modules: str) -> dict[str, str]:
    """Sources of a small package: hall__lamp="..." is house/hall/lamp.py."""
    return {f"house/{name.replace('__', '/')}.py": text for name, text in modules.items()}


def arrows(**modules: str) -> list[str]:
    everything = {
        "house/__init__.py": "",
        "house/cellar.py": "",
        "house/hall/lamp.py": "",
        **house(**modules),
    }
    return forbidden_arrows(import_graph(everything), HOUSE, open_names=["house.__version__"])


@pytest.mark.parametrize(
    "text",
    [
        "import house.hall.lamp",
        "from house.hall import lamp",
        "from house.hall.lamp import bulb",
        "from house import hall",
        "from . import hall",
        "from .hall.lamp import bulb",
        "def later():\n    from house.hall.lamp import bulb",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import house.hall.lamp",
    ],
)
def test_an_arrow_that_points_back_is_seen_however_it_is_written(text: str) -> None:
    (arrow,) = arrows(cellar=text)
    assert arrow.startswith("house.cellar -> house.hall")


def test_arrows_that_point_up_and_within_a_room_are_allowed() -> None:
    assert arrows(hall__lamp="import house.cellar, house.hall.rug, os", hall__rug="import torch") == []


def test_rooms_of_a_folder_of_strangers_import_only_their_acquaintances() -> None:
    assert arrows(loft__west__bed="import house.loft.east.chair, house.hall.lamp") == []
    back = arrows(loft__east__chair="import house.loft.west.bed")
    assert back == ["house.loft.east.chair -> house.loft.west.bed"]
    up = arrows(loft__north="from house.loft.east import chair")
    assert up == ["house.loft.north -> house.loft.east"]


def test_names_of_the_whole_package_are_a_back_door_except_those_left_open() -> None:
    assert arrows(cellar="from house import __version__") == []
    assert arrows(cellar="from house import bulb") == ["house.cellar -> house.bulb"]
    assert arrows(cellar="import house") == ["house.cellar -> house"]


def test_a_module_outside_all_rooms_is_seen_and_an_empty_package_file_is_not() -> None:
    sources = house(cellar="import os", attic="import os", loft____init__="", loft__garret="import os")
    assert modules_without_room(import_graph(sources), HOUSE) == ["house.attic", "house.loft.garret"]


def test_circles_are_found_at_any_length_and_each_once() -> None:
    assert circles({"a": {"b"}, "b": {"a"}, "c": {"a"}}) == [["a", "b"]]
    assert circles({"a": {"a"}}) == [["a"]]
    assert circles({"a": {"b", "c"}, "b": {"c", "numpy"}, "c": set()}) == []
    ring = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}}
    assert circles(ring) == [["a", "b", "c"], ["d", "e"]]


@pytest.mark.parametrize(
    "back",
    [
        "from house.hall.lamp import bulb",
        "def later():\n    from .lamp import bulb",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house.hall import lamp",
    ],
)
def test_a_circle_inside_a_room_is_seen_in_lazy_and_type_checking_imports_too(back: str) -> None:
    sources = house(hall__lamp="import house.hall.switch", hall__switch=back)
    assert circles(import_graph(sources)) == [["house.hall.lamp", "house.hall.switch"]]
    assert circles(import_graph({**sources, "house/hall/switch.py": "import house.cellar"})) == []


@pytest.mark.parametrize("text", ["import_module('a')", "importlib.import_module(name)", "__import__('a')"])
def test_an_import_by_a_computed_name_is_seen(text: str) -> None:
    assert hidden_imports({"a.py": f"x = 1\n{text}"}) == ["a.py:2"]
    assert hidden_imports({"a.py": "import a.b"}) == []


@pytest.mark.parametrize(
    "text",
    [
        "model.hf(**inputs)",
        "hf(ids)",
        "self.base(input_ids=ids)",
        "net.forward(x)",
        "model.classification_head(x)",
    ],
)
def test_a_call_that_runs_a_model_is_seen(text: str) -> None:
    assert model_runs({"a.py": f"\n\n{text}"}) == ["a.py:3"]
    assert model_runs({"a.py": "model.hf.eval()\nread(model.hf)\nmodel.base.config"}) == []


@pytest.mark.parametrize(
    ("text", "way"),
    [
        ("open(path)", "open"),
        ("path.open('ab', buffering=0)", "open"),
        ("path.open(encoding='utf-8')", "open"),
        ("(folder / NAME).read_text()", "read_text"),
        ("path.write_bytes(data)", "write_bytes"),
        ("os.truncate(path, 3)", "os.truncate"),
        ("np.load(path)", "np.load"),
    ],
)
def test_a_call_that_opens_a_path_is_seen(text: str, way: str) -> None:
    assert opened_by_path({"a.py": text}) == {"a.py": {way}}
    assert opened_by_path({"a.py": "Run.open(folder)\nplan.open(folder, 1)\nread_bytes(folder, 'a')"}) == {}


def test_a_picture_without_a_room_or_with_one_in_the_wrong_place_is_seen() -> None:
    picture = """The hall is a common word.

    src/house/
      cellar.py   below
      hall/       between
        lamp.py     lights the hall
      loft/       above
        east/       where the sun rises

      hall/       of another house
"""
    paths = drawn_paths(picture, "house")
    assert paths == ["cellar.py", "hall/", "hall/lamp.py", "loft/", "loft/east/"]
    assert drawn_rooms(paths, ["loft"]) == ["cellar", "hall", "loft.east"]
    without = drawn_paths(picture.replace("      hall/       between\n", ""), "house")
    assert drawn_rooms(without, ["loft"]) == ["cellar", "loft.east"]
    assert drawn_paths("src/house/ has a hall and a cellar", "house") == []
