"""The documentation of an evaluation: a small TOML file of the user's, shown with its empty fields.

intended_purpose = "Sorts support tickets by topic."
groups_not_covered = ["nonbinary people", "languages other than English"]
responsible = "Ada Example, ada@example.org"
"""

from __future__ import annotations

import datetime
from dataclasses import replace
from pathlib import Path

from levelhead.inference.contents import Contents, open_contents
from levelhead.probes.checked_toml import Checked, read_checked
from levelhead.results import layout
from levelhead.results.checksums import write_file
from levelhead.results.records.about import About

FIELDS = {  # of About -> what they are called
    "intended_purpose": "Intended purpose",
    "groups_covered": "Groups covered",
    "groups_not_covered": "Groups not covered",
    "data_provenance": "Provenance of the data",
    "date": "Date of the evaluation",
    "responsible": "Responsible person",
    "residual_risk": "Residual risk",
}
EMPTY = "(not stated)"
_Text = str | list[str]


class _AboutFile(Checked):
    intended_purpose: _Text = ""
    groups_covered: _Text = ""
    groups_not_covered: _Text = ""
    data_provenance: _Text = ""
    date: str | datetime.date = ""
    responsible: _Text = ""
    residual_risk: _Text = ""


def read_about(path: str | Path) -> About:
    """The fields of a TOML file; a key that is none of them is one line."""
    given, _ = read_checked(Path(path), _AboutFile, "a documentation", "docs/report.md")
    return About(**{name: _joined(getattr(given, name)) for name in FIELDS})


def _joined(value: str | list[str] | datetime.date) -> str:
    text = ", ".join(value) if isinstance(value, list) else str(value)
    return " ".join(text.split())


def keep_about(folder: str | Path, about: About) -> None:
    """Put a documentation into a run folder, where its page and its card read it."""
    contents = open_contents(folder)  # only into a run
    write_file(contents.folder, layout.ABOUT.name, layout.ABOUT.text(about))


def about_of(contents: Contents) -> About | None:
    """The documentation of a run; None for a study that documents nothing, unless somebody filled it in.

    What nobody stated about groups is taken from the word list, or from the benchmark's categories.
    """
    kept = layout.ABOUT.read(contents.folder)
    if kept is None and contents.audit is None and contents.benchmark is None:
        return None
    stated = kept or About(*("" for _ in FIELDS))
    covered, without = _groups(contents)
    return replace(
        stated,
        groups_covered=stated.groups_covered or covered,
        groups_not_covered=stated.groups_not_covered or without,
    )


def _groups(contents: Contents) -> tuple[str, str]:
    """Who the data are about, and who not, as far as they say it themselves."""
    if contents.benchmark is not None and contents.benchmark.used is not None:
        used = contents.benchmark.used
        return f"{used.title}: {', '.join(used.categories)}", ""
    words = None if contents.heads is None else layout.WORD_LIST.read(contents.heads.folder)
    if words is None:
        return "", ""
    first, second, *_ = words.labels.values()
    return f"{first}, {second} ({words.name})", words.not_covered


def stated_fields(about: About) -> list[tuple[str, str]]:
    """Every field with what was stated, or that nothing was."""
    return [(title, getattr(about, name) or EMPTY) for name, title in FIELDS.items()]
