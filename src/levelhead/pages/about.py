"""The documentation of an evaluation: a small TOML file of the user's, shown with its empty fields.

intended_purpose = "Sorts support tickets by topic."
groups_not_covered = ["nonbinary people", "languages other than English"]
responsible = "Ada Example, ada@example.org"

[[scenarios]]
group = "women"
hazard = "Tickets of women are filed as less urgent."
measure = "paired gap of urgency"
threshold = "0.1"
mitigation = "symmetrized model"
review_date = 2027-01-31
"""

from __future__ import annotations

import datetime
from dataclasses import fields, replace
from pathlib import Path

from levelhead.inference.contents import Contents, open_contents
from levelhead.probes.files import Checked, read_checked
from levelhead.runs.common import About, Scenario
from levelhead.runs.files import write_file
from levelhead.runs.study import ABOUT
from levelhead.studies.heads import WORD_LIST

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
_Date = str | datetime.date


class _ScenarioFile(Checked):
    group: str
    hazard: str
    measure: str = ""
    threshold: str | float = ""
    mitigation: str = ""
    review_date: _Date = ""


class _AboutFile(Checked):
    intended_purpose: _Text = ""
    groups_covered: _Text = ""
    groups_not_covered: _Text = ""
    data_provenance: _Text = ""
    date: _Date = ""
    responsible: _Text = ""
    residual_risk: _Text = ""
    scenarios: tuple[_ScenarioFile, ...] = ()


def read_about(path: str | Path) -> About:
    """The fields of a TOML file; a key that is none of them is one line."""
    given, _ = read_checked(Path(path), _AboutFile, "a documentation", "docs/report.md")

    def line(value: object) -> str:
        text = ", ".join(value) if isinstance(value, list) else str(value)
        return " ".join(text.split())

    scenarios = [
        Scenario(**{each.name: line(getattr(own, each.name)) for each in fields(Scenario)})
        for own in given.scenarios
    ]
    return About(**{name: line(getattr(given, name)) for name in FIELDS}, scenarios=tuple(scenarios))


def keep_about(folder: str | Path, about: About) -> None:
    """Put a documentation into a run folder, where its page and its card read it."""
    contents = open_contents(folder)  # only into a run
    write_file(contents.folder, ABOUT.name, ABOUT.text(about))


def about_of(contents: Contents) -> About | None:
    """The documentation of a run; None for a study that documents nothing, unless somebody filled it in.

    What nobody stated about groups is taken from the word list, or from the benchmark's categories.
    """
    kept = ABOUT.read(contents.folder)
    if kept is None and contents.audit is None and contents.benchmark is None:
        return None
    stated = kept or About(*("" for _ in FIELDS))
    # who the data are about, and who not, as far as they say it themselves
    covered, without = "", ""
    words = None if contents.heads is None else WORD_LIST.read(contents.heads.folder)
    if contents.benchmark is not None and (used := contents.benchmark.used) is not None:
        covered = f"{used.title}: {', '.join(used.categories)}"
    elif words is not None:
        first, second, *_ = words.labels.values()
        covered, without = f"{first}, {second} ({words.name})", words.not_covered
    return replace(
        stated,
        groups_covered=stated.groups_covered or covered,
        groups_not_covered=stated.groups_not_covered or without,
    )


def stated_fields(about: About) -> list[tuple[str, str]]:
    """Every field with what was stated, or that nothing was."""
    return [(title, getattr(about, name) or EMPTY) for name, title in FIELDS.items()]


def scenario_fields(each: Scenario) -> dict[str, str]:
    """A bias scenario by the titles of its fields."""
    return {one.name.replace("_", " ").capitalize(): getattr(each, one.name) for one in fields(Scenario)}
