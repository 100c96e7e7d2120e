"""Runs in which a name was changed and every checksum computed anew: readers notice, or can read it.

A name is any short text among the values of results.jsonl and settings.json: a measure's, a variant's, a
head's, a key's.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

from tests.sealing import reseal

from benchmarks.fuzz.mutations import STRANGE_TEXTS
from benchmarks.fuzz.runs import READERS
from benchmarks.fuzz.trial import Place, Subject
from levelhead.measures.catalog import BUILT_IN
from levelhead.runs.folder import RESULTS, SETTINGS

_STUDIES = ("audit", "heads", "counteracts", "projections", "glue")
_LONGEST = 60  # characters of a name
_MEASURES = tuple(info.name for info in BUILT_IN)


class Renamed:
    """Copies of whole runs with names that their makers never gave."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs

    def subjects(self) -> list[Subject]:
        """One subject: every command that reads a run."""
        return [Subject("changed names", 100, self._prepared)]

    def _prepared(self, rng: Random, place: Place) -> Callable[[], object]:
        run = place.inputs / "run"
        shutil.copytree(self._runs / rng.choice(_STUDIES), run)
        files = sorted(path for path in run.rglob("*") if path.name in (RESULTS, SETTINGS))
        path = rng.choice([each for each in files for _ in range(4 if each.name == RESULTS else 1)])
        path.write_text(renamed(rng, path.read_text(encoding="utf-8")), encoding="utf-8")
        reseal(run)
        use = READERS[rng.choice(sorted(READERS))]
        return lambda: use(run, place)


def renamed(rng: Random, text: str) -> str:
    """JSON, or lines of it, with a name changed: in one place, or wherever it stands."""
    lines = [text] if _is_json(text) else text.splitlines()
    values = [json.loads(line) for line in lines]
    names = sorted(set(_names(values)))
    if not names:
        return text
    old = rng.choice(names)
    others = (
        *names,
        *_MEASURES,
        *STRANGE_TEXTS,
        f"{old}x",
        old.upper(),
        old[:-1],
        f"{old}/{old}",
        f"own:{old}",
    )
    new = rng.choice(others)
    if rng.random() < 0.5:
        changed = [_replaced(value, old, new) for value in values]
    else:
        number = rng.choice([i for i, value in enumerate(values) if old in _names(value)])
        changed = [_replaced(value, old, new) if i == number else value for i, value in enumerate(values)]
    return "".join(f"{json.dumps(value, ensure_ascii=False)}\n" for value in changed)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, str) and len(value) <= _LONGEST:
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key != "sha256":
                yield from _names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _names(inner)


def _replaced(value: Any, old: str, new: str) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(inner, old, new) for key, inner in value.items()}
    if isinstance(value, list):
        return [_replaced(inner, old, new) for inner in value]
    return new if value == old and isinstance(value, str) else value
