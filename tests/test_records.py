"""Results are records: outside runs/ nobody spells their names in quotes, and few functions pass dicts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args

import pytest

from levelhead.measures.catalog import BUILT_IN
from levelhead.options import hints_of
from levelhead.runs.files import TextFile
from levelhead.runs.study import studies
from tests.runs.cases import files

SOURCE = Path(__file__).resolve().parents[1] / "src" / "levelhead"
FILES = sorted(SOURCE.rglob("*.py"))
MOST_UNTYPED = 31

# These rooms stand before results: they cannot know a record, and their words are those of other formats.
BEFORE_RESULTS = (
    *("errors.py", "safe_files.py", "options.py", "edits/", "models/", "probes/", "engine/", "measures/"),
)
# Borders: places where a quoted name belongs to another format, which happens to have the same word.
BORDERS: dict[str, tuple[frozenset[str] | None, str]] = {  # place -> names, None for all; why
    "mitigation/remote/": (None, "config.json of an exported folder"),
    "pages/charts/base.py": (frozenset({"title"}), "a chart's specification is Vega-Lite's"),
    "pages/charts/heads.py": (
        frozenset({"way", "counter", "example"}),
        "points of charts, names of SVG files",
    ),
    "pages/glossary.py": (frozenset({"forms"}), "the glossary is a TOML file"),
    "mitigation/recipe.py": (frozenset({"soft"}), "recipes are TOML files that people write"),
    "studies/projections/chapter.py": (frozenset({"title"}), "recipes are TOML files that people write"),
    "serving/": (None, "requests and answers are JSON of OpenAI's protocol"),
    "exploring/server.py": (frozenset({"kind", "method"}), "a part of an address; a request is ASGI's"),
    "studies/projections/tables.py": (frozenset({"tokens", "attention"}), "levels of a grid"),
    "inference/check.py": (
        frozenset({"bound", "variant"}),
        "thresholds are TOML files that people write",
    ),
}
# Mappings that are open by design: what stands in them differs from measure to measure and run to run.
OPEN = {"details", "settings", "unscored", "skipped", "hashes", "versions"}


def inside(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


# ---- names in quotes


def record_types(kind: Any) -> Iterator[type[Any]]:
    """A type and all record types in its fields."""
    if isinstance(kind, type) and is_dataclass(kind):
        yield kind
        for hint in hints_of(kind).values():
            yield from record_types(hint)
    for argument in get_args(kind):
        yield from record_types(argument)


@cache
def result_names() -> frozenset[str]:
    """Keys of results, and fields of settings and of records; but not the names of measures, by which
    measurements are kept."""
    every = studies().values()
    names = {slot.name for study in every for slot in study.slots.values()}
    kinds: set[Any] = {slot.record for study in every for slot in study.slots.values()}
    kinds |= {study.stored for study in every}
    kinds |= {file.record for file in files() if not isinstance(file, TextFile)}
    inner = {each for kind in kinds for each in record_types(kind)}
    names |= {field.name for kind in inner for field in fields(kind)}
    return frozenset(names - {info.name for info in BUILT_IN})


def quoted_names(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of every `x["name"]`, `x.get("name")` ... with the name of a result, and of every quoted
    name of a run's results."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Subscript):
            mapping, name = node.value, node.slice
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            if node.func.attr not in ("get", "pop", "setdefault"):
                continue
            mapping, name = node.func.value, node.args[0]
        else:
            continue
        if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
            continue
        of_run = isinstance(mapping, ast.Attribute) and mapping.attr == "results"
        if of_run or (name.value in result_names() and not is_named(mapping, {"Literal", *OPEN})):
            yield node.lineno, name.value


def offenses(path: Path) -> list[tuple[int, str]]:
    """Quoted names of results in a file, less those that its border allows."""
    spelled = quoted_names(path.read_text(encoding="utf-8"))
    border = next(
        (names for place, (names, _) in BORDERS.items() if inside(path).startswith(place)), frozenset()
    )
    return [] if border is None else [(line, name) for line, name in spelled if name not in border]


def is_named(node: ast.expr, names: set[str]) -> bool:
    return (isinstance(node, ast.Name) and node.id in names) or (
        isinstance(node, ast.Attribute) and node.attr in names
    )


@pytest.mark.parametrize("path", FILES, ids=inside)
def test_no_result_key_setting_or_field_is_spelled_in_quotes_outside_runs(path: Path) -> None:
    if inside(path).startswith(("runs/", *BEFORE_RESULTS)):
        return
    spelled = "; ".join(f"line {line}: {name!r}" for line, name in offenses(path))
    assert not spelled, f"{inside(path)}, {spelled}: read the record's attribute"


def test_quoted_names_are_noticed_and_open_mappings_are_not() -> None:
    for source in (
        'row["score"]',
        'run.found["models"]',
        'row.get("q")',
        'run.results["seat"]',
        "x.pop('head')",
        'measured["base"]',
    ):
        assert list(quoted_names(source)), source
    for source in (
        'measurement.details["t"]',
        'details.get("p")',
        'measured["seat"]',
        'x["pooling"]',
        'Literal["base"]',
        "row[name]",
    ):
        assert not list(quoted_names(source)), source


@pytest.mark.parametrize("border", BORDERS)
def test_a_border_is_still_there_and_still_one(border: str) -> None:
    names = BORDERS[border][0]
    paths = [path for path in FILES if inside(path).startswith(border)]
    spelled = {name for path in paths for _, name in quoted_names(path.read_text(encoding="utf-8"))}
    assert spelled if names is None else spelled >= names


# ---- functions that pass dicts of anything


def is_untyped_mapping(node: ast.expr) -> bool:
    """`dict[str, Any]` and its kin."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.slice, ast.Tuple):
        return False
    if not is_named(node.value, {"dict", "Dict", "Mapping", "MutableMapping"}):
        return False
    key, value = node.slice.elts
    return is_named(key, {"str"}) and is_named(value, {"Any"})


def is_untyped(annotation: ast.expr | None, aliases: frozenset[str]) -> bool:
    """Whether an annotation holds a dict of anything, also in a list or under another name."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    parts = [] if annotation is None else list(ast.walk(annotation))
    expressions = [part for part in parts if isinstance(part, ast.expr)]
    return any(is_untyped_mapping(part) or is_named(part, set(aliases)) for part in expressions)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def aliases_of(path: Path) -> frozenset[str]:
    """Names in a module that stand for a dict of anything: its own, and those that it imports."""
    names: frozenset[str] = frozenset()
    for node in tree(path).body:
        if isinstance(node, ast.ImportFrom) and (other := module_file(node.module)) is not None:
            foreign = aliases_of(other)
            names |= {alias.asname or alias.name for alias in node.names if alias.name in foreign}
        else:
            names |= own_alias(node, names)
    return names


def own_alias(node: ast.stmt, known: frozenset[str]) -> frozenset[str]:
    """`Row = dict[str, Any]`, also with `: TypeAlias`."""
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
        return frozenset()
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    if isinstance(node.value, ast.Subscript | ast.BinOp | ast.Name) and is_untyped(node.value, known):
        return frozenset(target.id for target in targets if isinstance(target, ast.Name))
    return frozenset()


def module_file(name: str | None) -> Path | None:
    if name is None or not name.startswith("levelhead."):
        return None
    place = SOURCE.joinpath(*name.split(".")[1:])
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


def untyped_functions(path: Path) -> Iterator[str]:
    """Functions that take or return a dict of anything."""
    aliases = aliases_of(path)
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            if any(is_untyped(each, aliases) for each in (node.returns, *(arg.annotation for arg in given))):
                yield f"{inside(path)}:{node.lineno} {node.name}"


def test_few_functions_take_or_return_a_dict_of_anything() -> None:
    protocols = ("serving/", "engine/served/")  # JSON of other people's protocols
    inner = [path for path in FILES if not inside(path).startswith(protocols)]
    untyped = [name for path in inner for name in untyped_functions(path)]
    assert len(untyped) <= MOST_UNTYPED, f"{len(untyped)} functions:\n" + "\n".join(untyped)


def test_dicts_of_anything_are_noticed_in_lists_and_under_other_names() -> None:
    def untyped(annotation: str, *aliases: str) -> bool:
        return is_untyped(ast.parse(annotation, mode="eval").body, frozenset(aliases))

    for annotation in (
        "dict[str, Any]",
        "list[dict[str, Any]] | None",
        "Mapping[str, Any]",
        "'dict[str, Any]'",
    ):
        assert untyped(annotation), annotation
    assert untyped("list[Row]", "Row")
    for annotation in ("dict[str, float]", "Mapping[str, Measurement]", "Row", "tuple[str, Any]"):
        assert not untyped(annotation), annotation
    assert "Json" in aliases_of(SOURCE / "runs" / "records.py")
    assert "Json" not in aliases_of(SOURCE / "cli" / "app.py")  # there it is an option
