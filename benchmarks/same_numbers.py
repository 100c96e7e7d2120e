"""Two run folders by what they mean: every value, interval, p and claim, whatever a name has become.

    python -m benchmarks.same_numbers OLD NEW
    python -m benchmarks.same_numbers OLD NEW --renamed floor=mean --renamed least=low --tolerance 1e-9

Results are compared key by key and field by field, in the folder and in those inside it. Checksums, prose
(fields of free text) and the order of keys are left out. Exit 1 where anything differs; a field or key that
only one of the two has is a difference unless --renamed says what it has become.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from math import isclose
from pathlib import Path
from typing import Any

RESULTS, CHECKSUM = "results.jsonl", "sha256"
PROSE = frozenset({"why", "reason", "method", "description", "sentence"})  # said in words: may be said anew
SHOWN = 40  # differences that are printed


def flattened(value: Any, names: Mapping[str, str], place: str = "") -> Iterator[tuple[str, Any]]:
    """Every number, text and empty place of a result, by the way to it, under its new names."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name != CHECKSUM and name not in PROSE:
                yield from flattened(inner, names, f"{place}.{names.get(name, name)}")
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from flattened(inner, names, f"{place}[{number}]")
    else:
        yield place, names.get(value, value) if isinstance(value, str) else value


def numbers(folder: Path, names: Mapping[str, str]) -> dict[str, Any]:
    """All that the results of a folder and of those inside it hold."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob(RESULTS)):
        for line in path.read_text(encoding="utf-8").splitlines():
            result = json.loads(line)
            key = names.get(result["key"], result["key"])
            place = f"{path.parent.relative_to(folder)}: {key} "
            found.update(flattened(result["rows"], names, place))
    if not found:
        sys.exit(f"{folder} holds no {RESULTS}.")
    return found


def equal(one: Any, other: Any, tolerance: float) -> bool:
    """Whether two leaves are the same; numbers within a relative and absolute tolerance."""
    both = (one, other)
    if all(isinstance(each, int | float) and not isinstance(each, bool) for each in both):
        return isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)
    return bool(one == other)


def differences(old: Mapping[str, Any], new: Mapping[str, Any], tolerance: float) -> list[str]:
    """What differs, a line each."""
    lines = [f"{place}: only in the old run" for place in old.keys() - new.keys()]
    lines += [f"{place}: only in the new run" for place in new.keys() - old.keys()]
    lines += [
        f"{place}: {old[place]!r} -> {new[place]!r}"
        for place in old.keys() & new.keys()
        if not equal(old[place], new[place], tolerance)
    ]
    return sorted(lines)


def main(arguments: Sequence[str]) -> int:
    """Exit 1 when the runs differ."""
    parser = argparse.ArgumentParser(description="Compare two run folders by meaning.")
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--renamed", action="append", default=[], metavar="OLD=NEW", help="repeatable")
    parser.add_argument("--tolerance", type=float, default=0.0)
    given = parser.parse_args(arguments)
    names = dict(each.split("=", 1) for each in given.renamed)
    old, new = numbers(given.old, names), numbers(given.new, {})
    lines = differences(old, new, given.tolerance)
    for line in lines[:SHOWN]:
        print(line)
    print(f"{len(new):,} values: " + (f"{len(lines):,} differ" if lines else "the same"))
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
