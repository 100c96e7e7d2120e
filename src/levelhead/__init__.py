"""levelhead: measure bias inside language models, find what carries it, take it out, and see what that bought
and cost.

    import levelhead as lh
    model = lh.load("lh:bert-mini")
    lh.seat(model).value
    with model.without_heads(["3-6"]):
        ...

Names are imported when first used, so that `levelhead --help` does not wait for torch.
"""

from __future__ import annotations

import re
import warnings
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

try:
    __version__ = version("levelhead")  # it stands once, in pyproject.toml
except PackageNotFoundError:
    __version__ = "0+unknown"  # a source tree that was not installed

_MODULES = {"settings": "settings", "readings": "engine.readings"}  # groups of names
# every other name that __init__.pyi imports, and the module that it stands in
_NAMES = re.compile(r"^from levelhead\.(\S+) import (\w+) as \2$", re.MULTILINE)
_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_PUBLIC = {name: module for module, name in _NAMES.findall(_STUB) if name not in _MODULES}
_OLD = {"measure": "benchmark", "certify": "mitigate", "sweep": "projections"}  # names of 0.2, gone in 0.4

__all__ = [*_PUBLIC, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"levelhead.{_MODULES[name]}")
    if name.startswith("_"):
        raise AttributeError(f"module 'levelhead' has no attribute {name!r}")
    if name in _OLD:
        text = f"levelhead.{name} is now levelhead.{_OLD[name]}; version 0.4 will not know the old name."
        warnings.warn(text, DeprecationWarning, stacklevel=2)
        return getattr(import_module("levelhead.api.studies"), f"{name}_of_0_2")
    checked = import_module("levelhead.kinds").checked_kinds
    if name in _PUBLIC:
        found = getattr(import_module(f"levelhead.{_PUBLIC[name]}"), name)
        return found if isinstance(found, type) else checked(found, name)
    declared = import_module("levelhead.runs.study")
    if (study := declared.studies().get(name)) is not None:
        return checked(import_module("levelhead.api.studies").function_of(study), name)
    if (line := declared.unusable_studies().get(name)) is not None:
        raise import_module("levelhead.errors").CannotDo(line)
    raise AttributeError(f"module 'levelhead' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES, *import_module("levelhead.runs.study").studies()])
