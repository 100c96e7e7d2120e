"""Mistakes in what was typed, found before torch is imported: names of models, word lists, files.

Each command parses its own parameters; what they are called says what they hold, the same in every command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from levelhead.errors import BadOption, BadProbe, BadRun

_LARGEST = 2**63 - 1  # what loops, arrays and files count with


def preflight(given: Mapping[str, object]) -> None:
    """Check every number, and every parameter that is known to name something; None was not given."""
    values = [(name, each) for name, value in given.items() for each in _several(value) if each is not None]
    for name, value in values:
        if isinstance(value, int) and abs(value) > _LARGEST:
            option = f"--{name.replace('_', '-')}"
            raise BadOption(
                f"{option} {value} came; allowed are numbers up to {_LARGEST}. Give a smaller one."
            )
    for name, value in values:
        if name in _CHECKS:
            _CHECKS[name](str(value))


def _several(value: object) -> Iterable[object]:
    return value if isinstance(value, (list, tuple)) else [value]


def listed(text: str) -> list[str]:
    """The parts of a list that is typed with commas."""
    return [part.strip() for part in text.split(",") if part.strip()]


def files_by_name(option: str, files: Iterable[str]) -> dict[str, str]:
    """Files by the benchmark that they belong to, as NAME=FILE is typed."""
    named = {text: text.partition("=") for text in files}
    if wrong := [text for text, (name, _, file) in named.items() if not (name and file)]:
        raise BadOption(
            f"{option} {wrong[0]} came; give a benchmark and its file: {option} crows-pairs=FILE."
        )
    return {name: file for name, _, file in named.values()}


def _model(name: str) -> None:
    from levelhead.models.names import find_local

    find_local(name)


def _surveyed(name: str) -> None:
    """A model that cannot be found is a line of a survey, so its name must be one that a file can hold."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise BadOption(f"{name!r} came; a model's name is text that can be written. Rename it.") from None


def _words(names: str) -> None:
    from levelhead.probes.words import load_words

    for name in listed(names):
        load_words(name)


def _words_or_sentences(name: str) -> None:
    from levelhead.probes.words import load_seat_test

    load_seat_test(name) if Path(name).suffix == ".jsonl" else _words(name)


def _corpus(name: str, others: Iterable[str] = ("shipped", "templates")) -> None:
    if name not in others and not name.startswith("hub:") and not Path(name).expanduser().exists():
        raise BadProbe(
            f"{name}: no such corpus; name a text file, a .jsonl file, a folder of them or hub:NAME."
        )


def _triples(name: str) -> None:
    from levelhead.probes.triples import load_triples

    if not name.startswith("hub:"):
        load_triples(name)


def _probe(name: str) -> None:
    from levelhead.probes.nli import load_nli_probe

    load_nli_probe(Path(name))


def _prompts(name: str) -> None:
    from levelhead.probes.cloze import load_cloze

    load_cloze(name)


def _templates(name: str) -> None:
    from typing import get_args

    from levelhead.probes.lpbs import Kind, load_lpbs_templates

    if name not in get_args(Kind):
        load_lpbs_templates(name)


def _experiments(names: str) -> None:
    from levelhead.studies.heads.settings import HeadsSettings

    HeadsSettings(experiments=tuple(listed(names)))


def _run(name: str) -> None:
    if not (Path(name).expanduser() / "settings.json").is_file():
        raise BadRun(
            f"{name} is not a run folder: it has no settings.json. Give the folder that a study wrote."
        )


def _file(complaint: str) -> Callable[[str], None]:
    def check(name: str) -> None:
        if not name.startswith("hub:") and not Path(name).expanduser().exists():
            raise BadOption(f"{name} {complaint}")

    return check


_CHECKS: dict[str, Callable[[str], None]] = {
    **dict.fromkeys(("name", "model", "models", "nli", "second"), _model),
    **dict.fromkeys(("text", "sentences", "contexts"), _corpus),
    "sources": _surveyed,
    "bias": _words,
    "test": _words_or_sentences,
    "triples": _triples,
    "probe": _probe,
    "prompt_set": _prompts,
    "templates": _templates,
    "experiments": _experiments,
    "from_heads": _run,
    "recipe": _file("cannot be read (there is no such file). Give a recipe file; docs/export.md shows one."),
    "ability": _file("does not exist. Give a file of labeled pairs, a folder with one, or hub:snli."),
    "glue": _file("does not exist. Give a folder of GLUE's files, or hub:glue."),
    "data": _file("does not exist. Give a folder as published, or hub:NAME."),
    "measure": _file("is no Python file. Give one that calls levelhead.register_measure."),
}
