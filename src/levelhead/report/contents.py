"""A run folder as the report reads it: the run itself and the studies inside it, every row with its
address."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from levelhead.errors import BadRun
from levelhead.results.folder import Row, RunData, read_run

PARTS = ("heads", "prompts", "sweep")  # subfolders of an audit
BASE = "base"
_CHANGE = " change"
_STUDIES = {
    "heads": "heads",
    "counteracts": "prompts",
    "projections": "sweep",
}  # a plain run is a part by itself


@dataclass(frozen=True)
class Contents:
    """What a run folder holds. Addresses of rows: `PART:KEY#INDEX`, the part absent for the folder's own
    rows."""

    main: RunData
    parts: Mapping[str, RunData]

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return self.main.folder

    @property
    def settings(self) -> Mapping[str, Any]:
        """Of the run itself."""
        return self.main.settings

    @property
    def model(self) -> str:
        """The model, or the models, that were asked."""
        named = self.settings.get("model") or self.settings.get("models") or "an unnamed model"
        return named if isinstance(named, str) else ", ".join(map(str, named))

    @property
    def study(self) -> str:
        """Which study wrote the run."""
        return str(self.settings.get("study", ""))

    def rows(self, key: str, part: str = "") -> list[Row]:
        """The rows of one result, each with its address; none when it is not there (yet)."""
        run = self.parts.get(part) if part else self.main
        prefix = "" if run is self.main else f"{part}:"
        found = [] if run is None else run.results.get(key, [])
        return [{**row, "at": f"{prefix}{key}#{i}"} for i, row in enumerate(found)]

    def keys(self, part: str = "") -> list[str]:
        """The results that are there."""
        run = self.parts.get(part) if part else self.main
        return [] if run is None else list(run.results)

    def matching(self, prefix: str, part: str = "") -> list[Row]:
        """The rows of all results whose key begins so."""
        return [row for key in self.keys(part) if key.startswith(prefix) for row in self.rows(key, part)]


def open_contents(folder: str | Path) -> Contents:
    """Read a run folder and the studies in it."""
    main = read_run(folder)
    parts = {
        name: read_run(main.folder / name)
        for name in PARTS
        if (main.folder / name / "settings.json").is_file()
    }
    if own := _STUDIES.get(str(main.settings.get("study"))):
        parts[own] = main
    if not main.results and not any(part.results for part in parts.values()):
        raise BadRun(
            f"{folder} has no results yet. Run the command that began it again; it goes on where it was."
        )
    return Contents(main, parts)


# ---- measurements, wherever a study keeps them


def measurements(contents: Contents, variant: str = BASE) -> list[Row]:
    """One row a measure of one variant: of the audit, else of the studies that the folder holds."""
    rows = (
        [row for row in audit_rows(contents) if row["variant"] == variant]
        if contents.study == "audit"
        else []
    )
    found: dict[str, Row] = {}
    for row in rows or _of_parts(contents, variant):
        if not is_change(row):
            found.setdefault(row["name"], row)
    return list(found.values())


def changes(contents: Contents, variant: str) -> dict[str, Row]:
    """Paired changes of a variant against the untouched model, by the name of the measure."""
    rows = [row for row in audit_rows(contents) if row["variant"] == variant and is_change(row)]
    return {str(row["name"]).removesuffix(_CHANGE): row for row in rows}


def audit_rows(contents: Contents) -> list[Row]:
    """An audit's measurements, before and after."""
    return [row for stage in ("measure", "verify") for row in contents.matching(f"{stage}/")]


def is_change(row: Row) -> bool:
    """Rows that compare a variant with the untouched model."""
    return str(row["name"]).endswith(_CHANGE)


def variants(contents: Contents) -> list[str]:
    """Names of the variants that have measurements, the untouched model first."""
    rows = audit_rows(contents) or [*_sweep_rows(contents), *_prompt_rows(contents)]
    return list(dict.fromkeys([BASE, *(row["variant"] for row in rows)]))


def _of_parts(contents: Contents, variant: str) -> Iterator[Row]:
    if variant == BASE:
        yield from contents.rows("seat", "heads")
    yield from (row for row in _sweep_rows(contents) if row["variant"] == variant)
    k = shown_k(contents)
    wanted = {"variant": variant, "name": "margin", "kind": BASE, "group": "", "k": k}
    yield from (
        row for row in _prompt_rows(contents) if all(row.get(key) == value for key, value in wanted.items())
    )


def _sweep_rows(contents: Contents) -> list[Row]:
    return [row for key in ("nsp", "nli", "depth nsp", "depth nli") for row in contents.rows(key, "sweep")]


def _prompt_rows(contents: Contents) -> list[Row]:
    """Of the first model when a run asked several, so that one number stands for one model."""
    prompts = contents.parts.get("prompts")
    if prompts is None:
        return []
    first = prompts.settings["models"][0]
    return [
        row
        for row in contents.matching("", "prompts")
        if row.get("model") == first and not row.get("occupation")
    ]


def shown_k(contents: Contents) -> int | None:
    """The k that stands for all: 5 where it was asked, else the one nearest to it."""
    prompts = contents.parts.get("prompts")
    return None if prompts is None else min(prompts.settings["ks"], key=lambda k: (abs(k - 5), k))


# ---- attention arcs


def arcs(contents: Contents) -> list[Row]:
    """Sentence pairs with every head's attention: from arcs.json, else the running example of the heads
    study."""
    path = contents.folder / "arcs.json"
    if path.is_file():
        try:
            found = json.loads(path.read_text(encoding="utf-8"))["sentences"]
            return [_pair(sentence) for sentence in found]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadRun(
                f"{path} is damaged. Remove it and run the audit again; all else is kept."
            ) from error
    return _example_arcs(contents.rows("counter/example", "heads"), contents.rows("scores", "heads"))


def _pair(sentence: Row) -> Row:
    """One sentence pair: tokens, target and attribute of either version, attention [layer][head][token]."""
    names = [
        f"{own}{name}" for own in ("", "counter_") for name in ("tokens", "target", "attribute", "attention")
    ]
    return {name: sentence[name] for name in ("text", "counter", *names)}


def _text(tokens: list[str]) -> str:
    return " ".join(token for token in tokens if token)


def _example_arcs(example: list[Row], scores: list[Row]) -> list[Row]:
    """The example in the form of arcs.json; heads that it does not show are null."""
    if not example or not scores:
        return []
    shape = max(row["layer"] for row in scores), max(row["head"] for row in scores)
    sentence: Row = {}
    for row in example:
        own = "" if row["version"] == "original" else "counter_"
        sentence |= {f"{own}{name}": row[name] for name in ("tokens", "target", "attribute")}
        sentence["text" if not own else "counter"] = _text(row["tokens"])
        table = sentence.setdefault(f"{own}attention", [[None] * shape[1] for _ in range(shape[0])])
        table[row["layer"] - 1][row["head"] - 1] = row["weights"]
    return [sentence]
