"""What a machine has of what workers need. Ray takes the functions of this file to it as they are, since
another version of levelhead, or none, may be there: only the standard library is imported.
"""

import hashlib
import platform
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ("levelhead", "torch", "transformers")


def equipment() -> dict[str, str]:
    """Versions of what decides about results, "" where it is not there; the code of levelhead as a hash."""
    found = {"Python": ".".join(platform.python_version_tuple()[:2])}
    for package in PACKAGES:
        spec = find_spec(package)
        try:
            found[package] = "" if spec is None else version(package).partition("+")[0]
        except PackageNotFoundError:  # a folder of sources
            found[package] = "of no version"
        if package == "levelhead" and spec is not None:
            digest = hashlib.sha256()
            for folder in spec.submodule_search_locations or ():
                for path in sorted(Path(folder).rglob("*.py")):
                    digest.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
            found["code"] = digest.hexdigest()
    return found


def lacking(here: dict[str, str], there: dict[str, str]) -> str:
    """What tells another machine from this one, as the end of a sentence; empty where nothing does."""
    for name in ("Python", *PACKAGES):
        if not there[name]:
            return f"has no {name}"
        if there[name] != here[name]:
            return f"has {name} {there[name]}, the driver {here[name]}"
    if there["code"] != here["code"]:
        return f"has another levelhead {there['levelhead']} than the driver, whose code differs"
    return ""


def part(path: str, start: int, size: int) -> bytes:
    """So many bytes of a file, from one on."""
    with open(path, "rb") as file:
        file.seek(start)
        return file.read(size)


def digest(path: str) -> str:
    """The hash of what a file holds."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
