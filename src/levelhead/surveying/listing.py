"""Which models a survey asks: models that are given, those of a text file, those of a folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from levelhead.errors import BadOption
from levelhead.models.model import Model
from levelhead.probes.files import read_text
from levelhead.results.steps import training_step

_LONGEST = 8_192  # characters: twice the longest path of any system
_GIVE = "Give a text file with one model a line."
Models = Model | str | Path | Sequence[Model | str | Path]


def named_models(models: Models) -> dict[str, Model | str]:
    """Every model by its name, once; files and folders are read."""
    named: dict[str, Model | str] = {}
    for model in [models] if isinstance(models, Model | str | Path) else models:
        if isinstance(model, Model):
            named[model.name] = model
        else:
            named |= {name: name for name in listed_models(str(model))}
    if not named:
        raise BadOption("No model came. Give names, a text file with one a line, or a folder of checkpoints.")
    return named


def listed_models(source: str) -> Iterator[str]:
    """The models that a source names: those of a text file or of a folder of checkpoints, else itself."""
    if len(source) > _LONGEST:
        raise BadOption(f"{source[:40]!r} ... has {len(source):,} characters; that names no model. {_GIVE}")
    path = _existing(source)
    if path is None or not path.is_file() or path.suffix != ".txt":
        yield from _in_folder(source)
        return
    for line in read_text(path, _GIVE, BadOption).splitlines():
        if name := line.partition("#")[0].strip():
            yield from _in_folder(name)


def _in_folder(name: str) -> Iterable[str]:
    path = _existing(name)
    if path is None or not path.is_dir() or (path / "config.json").exists():
        return [name]
    return [str(each) for each in _checkpoints(path)] or [name]


def _existing(name: str) -> Path | None:
    """The file or folder of that name, if there is one; a name that is too long for one has none."""
    try:
        path = Path(name).expanduser()
        return path if name and path.exists() else None
    except (OSError, RuntimeError):
        return None


def _checkpoints(folder: Path) -> list[Path]:
    """The models in a folder, in the order of their steps: folders with a configuration or a step in their
    name, and .gguf files."""

    def place(path: Path) -> tuple[str, int, str]:
        at = training_step(str(path))
        return ("", 0, path.name) if at is None else (at.run, at.step, path.name)

    models = [
        path
        for path in folder.iterdir()
        if path.suffix == ".gguf"
        or (path.is_dir() and ((path / "config.json").exists() or training_step(path.name) is not None))
    ]
    return sorted(models, key=place)
