"""The rooms and their doors: imports point one way only, and nothing runs in a circle."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.architecture import (
    Graph,
    Rooms,
    circles,
    drawn_paths,
    drawn_rooms,
    forbidden_arrows,
    hidden_imports,
    import_graph,
    known,
    model_runs,
    modules_without_room,
    opened_by_path,
)

ROOT = Path(__file__).resolve().parents[1]
ROOMS = Rooms(
    "levelhead",
    order=(
        "errors",
        "ordinary",
        "kinds",
        "escaping",
        "files",
        "background",
        "progress",
        "work",
        "edits",
        "models",
        "probes",
        "engine",
        "measures",
        "results",
        "inference",
        "scoring",
        "mitigation",
        "studies.heads",
        "studies.halves",
        "studies.localizing",
        "studies.projections",
        "studies.planted",
        "studies.counteracts",
        "studies.benchmark",
        "studies.glue",
        "studies.finetuning",
        "studies.extent",
        "studies.mitigating",
        "pages",
        "auditing",
        "surveying",
        "reproducing",
        "exploring",
        "api",
        "settings",
        "cli",
        "__main__",
    ),
    strangers=["studies"],
    acquainted=[
        ("studies.localizing", "studies.heads"),
        ("studies.localizing", "studies.halves"),
        ("studies.planted", "studies.heads"),
        ("studies.planted", "studies.localizing"),
        ("studies.halves", "studies.heads"),
        ("studies.extent", "studies.heads"),
        ("studies.extent", "studies.halves"),
        ("studies.extent", "studies.counteracts"),
        ("studies.extent", "studies.glue"),
        ("studies.mitigating", "studies.heads"),
        ("studies.mitigating", "studies.halves"),
        ("studies.mitigating", "studies.glue"),
    ],
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
    return {module: names for module, names in graph().items() if module != "levelhead"}


# --- the package


def test_every_module_is_in_a_room() -> None:
    assert modules_without_room(room_graph(), ROOMS) == []


def test_imports_point_up_the_list_of_rooms_only() -> None:
    assert forbidden_arrows(room_graph(), ROOMS, open_names=[VERSION]) == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circles(room_graph()) == []


def test_no_import_is_hidden_behind_a_computed_name() -> None:
    assert hidden_imports(ROOM_SOURCES) == []


@pytest.mark.parametrize("room", ["probes", "measures", "results", "inference", "pages"])
def test_probes_measures_results_and_reports_know_no_model(room: str) -> None:
    assert any(ROOMS.of(module) == room for module in graph())
    secrets = ["torch", "transformers", "levelhead.engine", "levelhead.models"]
    assert known(graph(), ROOMS, room, secrets) == []


def test_only_the_engine_and_the_models_self_test_run_a_model() -> None:
    # remote: the code of exported folders, which run themselves
    running = ("levelhead/engine/", "levelhead/models/", "levelhead/mitigation/remote/")
    assert model_runs({path: text for path, text in SOURCES.items() if not path.startswith(running)}) == []
    assert len(model_runs(SOURCES)) >= 4  # the engine does


def test_one_file_knows_ray() -> None:
    knowing = {
        module for module, names in graph().items() if any(f"{name}.".startswith("ray.") for name in names)
    }
    assert knowing == {"levelhead.engine.crew"}


def test_one_file_knows_that_words_are_scored_by_seat() -> None:
    knowing = {path for path, text in SOURCES.items() if "seat_objective" in text}
    assert knowing == {"levelhead/scoring/objectives.py"}


AT_RUNS = (  # rooms that read and write run folders
    *("results", "inference", "scoring", "mitigation", "studies"),
    *("pages", "auditing", "surveying", "exploring", "api", "cli"),
    *("reproducing.py", "engine/shards.py"),
)
NOT_IN_A_RUN = {  # what else these rooms open, and how
    "levelhead/api/results.py": {"shutil.copytree"},  # a run that was looked through before
    "levelhead/api/shown.py": {"write_text"},  # a new folder
    "levelhead/cli/counteracts.py": {"read_text"},  # a recipe that the user names
    "levelhead/cli/terminal.py": {"open", "os.open"},  # the null device
    "levelhead/engine/shards.py": {"np.load", "np.savez"},  # an open file; a temporary file
    "levelhead/mitigation/adapter_folder.py": {"read_text", "write_text"},  # a new folder
    "levelhead/mitigation/export.py": {"write_text"},  # a new folder
    "levelhead/mitigation/symmetrized_folder.py": {"read_text", "write_text"},  # a new folder
    "levelhead/mitigation/vendoring.py": {"read_text", "write_text"},  # ships; a new folder
    "levelhead/inference/calibration.py": {"read_text"},  # ships
    "levelhead/pages/charts/base.py": {"read_text"},  # ships
    "levelhead/pages/glossary.py": {"read_text"},  # ships
    "levelhead/pages/figures/files.py": {"write_bytes"},  # a temporary file
    "levelhead/pages/pdf.py": {"shutil.copyfile"},  # a temporary file
    "levelhead/pages/shell.py": {"read_text"},  # ships
    "levelhead/results/folder.py": {"open"},  # a file of the user's, to hash it
    "levelhead/surveying/tables.py": {"to_parquet"},  # a temporary file
}


def test_files_of_runs_are_opened_by_the_one_function_that_follows_no_links() -> None:
    inside = tuple(f"levelhead/{room}{'' if room.endswith('.py') else '/'}" for room in AT_RUNS)
    found = opened_by_path({path: text for path, text in SOURCES.items() if path.startswith(inside)})
    assert found == NOT_IN_A_RUN


def test_the_picture_in_the_docs_draws_every_room_in_its_order_and_nothing_that_is_not_there() -> None:
    paths = drawn_paths((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8"), "levelhead")
    assert drawn_rooms(paths, ["studies"]) == list(ROOMS.order)
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


def test_a_room_that_knows_a_secret_is_seen_and_a_name_that_only_begins_like_it_is_not() -> None:
    imported = import_graph(
        house(cellar="from torch.nn import functional\nimport torchtext", hall__lamp="import torch")
    )
    assert known(imported, HOUSE, "cellar", ["torch"]) == ["house.cellar -> torch.nn"]
    assert known(imported, HOUSE, "cellar", ["numpy"]) == []
    assert known(import_graph(house(cellar="import house.hall.lamp")), HOUSE, "cellar", ["house.hall"])


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
