"""Modules of levelhead as flat files beside a model's remote code, so that it runs where levelhead is not.

transformers follows relative imports between the files of a folder: `from levelhead.probes.group_swap import`
becomes `from .levelhead_probes_group_swap import`, and the tables that a module reads become literals.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from levelhead import errors
from levelhead.probes.swap import tables

_IMPORT = re.compile(r"^from levelhead\.([\w.]+) import", re.MULTILINE)
_TABLES = tables.__name__.removeprefix("levelhead.")


def flat(module: str) -> str:
    """The name of a module as a file of its own: probes.swap.tokens -> levelhead_probes_swap_tokens."""
    return f"levelhead_{module.replace('.', '_')}"


def detached(code: str) -> str:
    """Code that imports from its neighbors instead of from levelhead."""
    return _IMPORT.sub(lambda found: f"from .{flat(found[1])} import", code)


def write_modules(folder: Path, code: str) -> None:
    """Write every module of levelhead that the code imports, and those that they import."""
    for module, source in _needed(code, set()):
        (folder / f"{flat(module)}.py").write_text(detached(source), encoding="utf-8")


def _needed(code: str, seen: set[str]) -> Iterator[tuple[str, str]]:
    for module in _IMPORT.findall(code):
        if module in seen:
            continue
        seen.add(module)
        source = _literal_tables() if module == _TABLES else _source(module)
        yield module, source
        yield from _needed(source, seen)


def _source(module: str) -> str:
    path = Path(errors.__file__).parent.joinpath(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return file.read_text(encoding="utf-8")


def _literal_tables() -> str:
    """The tables of the swapper as a module that holds them."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in sorted(tables.FOLDER.iterdir())}
    return (
        f'"""{(tables.__doc__ or "").splitlines()[0]}"""\n\nTABLES = {texts!r}\n\n\n'
        "def table_text(file: str) -> str:\n    return TABLES[file]\n"
    )
