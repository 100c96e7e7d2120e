"""The last chapters: what the numbers do not show, what must be documented, how to get the numbers again."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path

from levelhead.inference.contents import Contents, measurements, variants
from levelhead.measures.certified import AGREEMENT, NAME_AGREEMENT
from levelhead.pages.about import EMPTY, about_of, scenario_fields, stated_fields
from levelhead.pages.blocks import Block, Code, Points, Section, Shown
from levelhead.pages.chapters import Chapter
from levelhead.pages.tables import Table, words
from levelhead.runs.again import command
from levelhead.runs.folder import RESULTS
from levelhead.runs.study import DOUBT_FACT, OPENING_FACT
from levelhead.studies.survey import DIFFERENCES, TABLE

_LIMITS = tomllib.loads(Path(__file__).with_name("limits.toml").read_text(encoding="utf-8"))
ALWAYS: tuple[str, ...] = tuple(_LIMITS["always"])


def limits(contents: Contents) -> list[str]:
    """The warnings that apply to this run, and what it did not measure."""
    measured = [each.measurement for each in measurements(contents)]
    names = {each.name for each in measured if each.value is not None}
    tried = [] if contents.mitigate is None else contents.mitigate.candidates
    applies = {
        "heads": contents.heads is not None and bool(contents.heads.scores),
        "prompts": contents.counteracts is not None or "margin" in names,
        "nli": "fairness" in names,
        "glue": contents.glue is not None,
        "generate": contents.generate is not None,
        "changed": len(variants(contents)) > 1,
        "names": any(NAME_AGREEMENT in each.certificate.costs for each in tried),
        "groups": any(
            AGREEMENT in each.certificate.costs and NAME_AGREEMENT not in each.certificate.costs
            for each in tried
        ),
        "usual": contents.audit is not None and not contents.audit.settings.full,
    }
    warnings = [*ALWAYS, *(text for name, holds in applies.items() if holds for text in _LIMITS[name])]
    skipped = [each for each in measured if each.value is None]
    return warnings + [f"Not measured: {each.name}, because {each.reason.rstrip('.')}." for each in skipped]


def not_shown(warnings: Sequence[str]) -> Section:
    question = "What may I not conclude from this page?"
    points = Points([words(warning) for warning in warnings])
    return Section(Chapter.LIMITS, "What these numbers do not show", question, "", [points])


def about_section(contents: Contents) -> Section | None:
    """Who answers for the evaluation, what it is for, and who it is not about."""
    about = about_of(contents)
    if about is None:
        return None
    body = [[words(title), words(text)] for title, text in stated_fields(about)]
    note = "`levelhead report RUN --about FILE.toml` fills in what is not stated."
    table = Table("about", "Documentation", ("Field", "Stated"), body, note)
    question = "What is it for, and who answers for it?"
    shown = [Shown(table)]
    if about.scenarios:
        rows = [[words(text or EMPTY) for text in scenario_fields(each).values()] for each in about.scenarios]
        columns = tuple(scenario_fields(about.scenarios[0]))
        shown.append(Shown(Table("scenarios", "Bias scenarios", columns, rows)))
    return Section(Chapter.ABOUT, "Documentation", question, "", [*shown])


def again_section(contents: Contents) -> Section:

    def kind(name: str) -> str:
        """What a line of settings.json beside the settings is; most are hashes."""
        return "fact" if name.split(" of ")[0] in (OPENING_FACT, DOUBT_FACT) else "hash"

    lines = [("seed", str(contents.run.settings.seed), "setting")]
    lines += [(name, value, "version") for name, value in contents.run.data.versions.items()]
    lines += [(name, value, kind(name)) for name, value in contents.run.data.hashes.items()]
    for part, run in contents.parts.items():
        lines += [(f"{part}: {name}", value, kind(name)) for name, value in run.data.hashes.items()]
    body = [[words(text) for text in line] for line in lines]
    caption = "Seed, versions, and hashes of weights and data"
    settings = json.dumps(contents.run.settings.to_json(), indent=1, ensure_ascii=False)
    blocks: list[Block] = [
        Code("Run it again", command(contents.run)),
        Code("Rebuild this page", f"levelhead report {contents.folder}"),
        Shown(Table("versions", caption, ("What", "Value", "Kind"), body, folded=True)),
        Code("All settings", settings, folded=True),
    ]
    files = RESULTS if contents.survey is None else f"{TABLE.name} and {DIFFERENCES.name}"
    question = "How do I get the same numbers?"
    how = (
        "The same command with the same versions on the same machine gives the same numbers, to the bit. All "
        f"numbers of this page, with all their digits, are in {files} of the run folder."
    )
    return Section(Chapter.AGAIN, "Reproduce", question, how, blocks)
