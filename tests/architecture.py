"""What the rooms of a package may know of each other, as functions of source texts.

Every import counts: at the top of a module, inside a function, and under TYPE_CHECKING.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

Sources = Mapping[str, str]  # "levelhead/models/model.py" -> its text
Graph = dict[
    str, set[str]
]  # "levelhead.models.model" -> what it imports: modules, or names of other packages
_RUNS = ("hf", "base", "classification_head", "forward", "generate")  # calling one of these runs a network


@dataclass(frozen=True)
class Rooms:
    """The rooms of a package, each of which may import from those before it."""

    package: str
    order: Sequence[str]  # "studies.heads" is the folder heads of the folder studies
    strangers: Sequence[str] = ()  # folders whose rooms may not import each other
    acquainted: Collection[tuple[str, str]] = field(
        default=()
    )  # rooms of such a folder that may all the same

    def of(self, module: str) -> str | None:
        """The room that a module is in."""
        inside = (room for room in self.order if f"{module}.".startswith(f"{self.package}.{room}."))
        return next(inside, None)

    def allows(self, room: str, other: str) -> bool:
        """Whether one room may import from another."""
        if room == other:
            return True
        if any(room.startswith(f"{folder}.") and other.startswith(f"{folder}.") for folder in self.strangers):
            return (room, other) in self.acquainted
        return self.order.index(other) < self.order.index(room)


_METHODS = ("read_text", "write_text", "read_bytes", "write_bytes", "to_parquet")
_OPENINGS = (
    *("os.open", "os.truncate", "io.open", "np.load", "np.savez", "np.save", "json.load"),
    *("shutil.copy", "shutil.copy2", "shutil.copyfile", "shutil.copytree", "shutil.move"),
)


def module_of(path: str) -> str:
    """The name of the module in a file: levelhead/models/__init__.py is levelhead.models."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def import_graph(sources: Sources) -> Graph:
    """What each module imports. `from package import module` is an import of that module."""
    modules = {module_of(path) for path in sources}
    return {module_of(path): set(_imports(path, text, modules)) for path, text in sources.items()}


def _imports(path: str, text: str, modules: Collection[str]) -> Iterator[str]:
    packages = {module.partition(".")[0] for module in modules}
    for node in _told_apart(text)[0]:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        else:
            start = _absolute(path, node)
            for alias in node.names:
                whole = f"{start}.{alias.name}"
                # a name of the outermost package stands for itself: it may come from any room
                yield whole if whole in modules or start in packages else start


def _absolute(path: str, node: ast.ImportFrom) -> str:
    if not node.level:
        return str(node.module)
    folders = path.split("/")[: -node.level]
    return ".".join([*folders, node.module] if node.module else folders)


def modules_without_room(graph: Graph, rooms: Rooms) -> list[str]:
    """Modules that import something although they are in no room; empty __init__ files may be in none."""
    return sorted(m for m in graph if m != rooms.package and graph[m] and rooms.of(m) is None)


def forbidden_arrows(graph: Graph, rooms: Rooms, open_names: Collection[str] = ()) -> list[str]:
    """Imports from a later room, from a room that must stay a stranger, or from no room at all."""
    arrows = []
    for module, imported in sorted(graph.items()):
        room = rooms.of(module)
        inner = [name for name in sorted(imported) if f"{name}.".startswith(f"{rooms.package}.")]
        for name in inner:
            other = rooms.of(name)
            if room is None or name in open_names:
                continue
            if other is None or not rooms.allows(room, other):
                arrows.append(f"{module} -> {name}")
    return arrows


def circles(graph: Graph) -> list[list[str]]:
    """Modules that import each other, directly or by way of others; each circle once."""
    reach = {module: _reachable(graph, module) for module in graph}
    inside = [module for module in graph if module in reach[module]]
    groups = {frozenset(m for m in inside if m in reach[module] and module in reach[m]) for module in inside}
    return sorted(sorted(group) for group in groups)


def _reachable(graph: Graph, module: str) -> set[str]:
    reached: set[str] = set()
    ahead = list(graph[module])
    while ahead:
        name = ahead.pop()
        if name in graph and name not in reached:
            reached.add(name)
            ahead.extend(graph[name])
    return reached


def hidden_imports(sources: Sources) -> list[str]:
    """Calls of import_module and __import__: an import by a computed name, which no graph shows."""
    return [
        f"{path}:{call.lineno}"
        for path, text in sorted(sources.items())
        for call in _calls(text)
        if _name(call) in ("import_module", "__import__")
    ]


def model_runs(sources: Sources) -> list[str]:
    """Calls that run a network: model.hf(...), base(...), .classification_head(...), .forward(...) ..."""
    return [
        f"{path}:{call.lineno}"
        for path, text in sorted(sources.items())
        for call in _calls(text)
        if _name(call) in _RUNS
    ]


def opened_by_path(sources: Sources) -> dict[str, set[str]]:
    """Calls by which files open a path, follow what stands there, and read or write it; by file."""
    found: dict[str, set[str]] = {}
    for path, text in sorted(sources.items()):
        if names := {name for call in _calls(text) if (name := _opening(call)) is not None}:
            found[path] = names
    return found


def _opening(call: ast.Call) -> str | None:
    """How a call opens a path; None for one that opens none. `run.open(folder)` is no file: its first
    argument is no mode."""
    if isinstance(call.func, ast.Name):
        return "open" if call.func.id == "open" else None
    name = ast.unparse(call.func)
    if name in _OPENINGS:
        return name
    last = name.rpartition(".")[2]
    mode = call.args[0] if call.args else None
    of_path = isinstance(mode, ast.Constant) or (mode is None and bool(call.keywords or not call.args))
    return last if last in _METHODS or (last == "open" and of_path) else None


def _calls(text: str) -> list[ast.Call]:
    return _told_apart(text)[1]


@cache
def _told_apart(text: str) -> tuple[list[ast.Import | ast.ImportFrom], list[ast.Call]]:
    """The imports and the calls of a source; several tests ask for those of the whole package."""
    nodes = list(ast.walk(ast.parse(text)))
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    return imports, [node for node in nodes if isinstance(node, ast.Call)]


def _name(call: ast.Call) -> str | None:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else None


def drawn_paths(picture: str, package: str) -> list[str]:
    """The files and folders of the package's tree in a text, in order: "models/", "models/model.py".

    The tree is indented by four, its rooms by two more, what is in them by two more; all end in / or .py.
    """
    _, _, tree = picture.partition(f"\n    src/{package}/\n")
    paths, folder = [], ""
    for line in tree.split("\n"):
        if not line.startswith("      "):
            break
        if entry := re.match(r" {6}(\w+(?:/|\.py))(?:\s|$)", line):
            folder = entry[1]
            paths.append(folder)
        elif entry := re.match(r" {8}(\w+(?:/|\.py))(?:\s|$)", line):
            paths.append(folder + entry[1])
    return paths


def drawn_rooms(paths: Sequence[str], folders_of_rooms: Collection[str]) -> list[str]:
    """The rooms among the paths of a tree: its first level, and the second where that holds the rooms."""
    names = [path.removesuffix("/").removesuffix(".py").replace("/", ".") for path in paths]
    return [
        name
        for name in names
        if name not in folders_of_rooms and ("." not in name or name.partition(".")[0] in folders_of_rooms)
    ]
