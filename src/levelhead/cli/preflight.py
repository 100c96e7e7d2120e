"""Mistakes in what was typed, found before torch is imported: names of models, word lists, files.

A setting declares the kind of what it names.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import get_args

from levelhead.errors import BadOption, BadProbe, BadRun

_LARGEST = 2**63 - 1  # what loops, arrays and files count with
_NAMED = {"name": "model", "model": "model"}  # parameters that are no settings
_NO_FILE = {  # what is said where a file or folder is not there
    "recipe": "cannot be read (there is no such file). Give a recipe file; docs/export.md shows one.",
    "pairs": "does not exist. Give a file of labeled pairs, a folder with one, or hub:snli.",
    "glue": "does not exist. Give a folder of GLUE's files, or hub:glue.",
    "code": "is no Python file. Give one that calls levelhead.register_measure.",
    "file": "does not exist. Give a file or folder that is there, or hub:NAME.",
}


def preflight(given: Mapping[str, object], own: Collection[str]) -> None:
    """Check every number, and what the command's own parameters name; None was not given. Settings say
    themselves what they name."""
    for name, value in given.items():
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(each, int) and abs(each) > _LARGEST:
                option = f"--{name.replace('_', '-')}"
                raise BadOption(f"{option} must be at most {_LARGEST} (got {each})")
        if value is not None and name in own:
            check_named(_NAMED.get(name, ""), value)


def listed(text: str) -> list[str]:
    """The parts of a list that is typed with commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def check_named(kind: str, value: object) -> None:
    """Check what a setting names, by the kind that it declares."""
    for each in value if isinstance(value, (list, tuple)) else [value]:
        if isinstance(each, str | Path):
            _check_named(kind, str(each))


def _check_named(kind: str, name: str) -> None:
    match kind:
        case "model":
            from levelhead.models.catalog import find_local

            find_local(name)
        case "models":
            # a model that cannot be found is a line of a survey, so its name must be one that a file can hold
            try:
                name.encode()
            except UnicodeEncodeError:
                line = f"A model's name must be valid Unicode text (got {name!r}). Rename it."
                raise BadOption(line) from None
        case "sentences" if Path(name).suffix == ".jsonl":
            from levelhead.probes.words import load_seat_test

            load_seat_test(name)
        case "words" | "sentences":
            from levelhead.probes.words import load_words

            for each in listed(name):
                load_words(each)
        case "corpus" if name not in ("shipped", "templates", "none") and not _is_there(name):
            raise BadProbe(
                f"{name}: no such corpus; name a text file, a .jsonl file, a folder of them or hub:NAME."
            )
        case "triples" if not name.startswith("hub:"):
            from levelhead.probes.triples import load_triples

            load_triples(name)
        case "probe":
            from levelhead.probes.nli import load_nli_probe

            load_nli_probe(Path(name))
        case "prompts":
            from levelhead.probes.cloze import load_cloze

            load_cloze(name)
        case "continued":
            from levelhead.probes.generation import load_prompts

            load_prompts(name)
        case "templates":
            from levelhead.probes.lpbs import Kind, load_lpbs_templates

            if name not in get_args(Kind):
                load_lpbs_templates(name)
        case "run" if not (Path(name).expanduser() / "settings.json").is_file():
            raise BadRun(
                f"{name} is not a run folder: it has no settings.json. Give the folder that a study wrote."
            )
        case "objective":
            from levelhead.studies.atlas.questions import check_names

            check_names([name])
        case "localizer":
            from levelhead.studies.atlas.catalog import localizer_of

            localizer_of(name, "heads")
        case _ if kind in _NO_FILE and not _is_there(name):
            raise BadOption(f"{name} {_NO_FILE[kind]}")


def _is_there(name: str) -> bool:
    return name.startswith("hub:") or Path(name).expanduser().exists()
