"""The chapter of before and after: what was changed in the model, and every measure again."""

from __future__ import annotations

from collections.abc import Sequence

from levelhead.report.blocks import Block, Code, Section, Shown
from levelhead.report.contents import Contents, changes, measurements
from levelhead.report.infos import info_of
from levelhead.report.sections.measured import in_reading_order
from levelhead.report.tables import Cell, Table, reported, words
from levelhead.results.records.audit import Mitigation

_KEPT = {True: "yes", False: "no", None: "not measured"}  # whether ability is kept, in a word


def changes_section(contents: Contents) -> Section | None:
    """What was changed in the model, and every measure before and after."""
    audit = contents.audit
    if audit is None or not (audit.mitigations or audit.verified):
        return None
    blocks: list[Block] = []
    if audit.mitigations:
        blocks.append(Shown(_mitigations_table(audit.mitigations)))
    if verified := list(dict.fromkeys(each.variant for each in audit.verified)):
        blocks.append(Shown(_change_table(contents, verified)))
    blocks += [
        Code(f"Recipe of “{each.variant}”", each.recipe, folded=True)
        for each in audit.mitigations
        if each.recipe
    ]
    lead = (
        "The same measures again on each changed model. Fluency, language sense and ability say what the "
        "change cost. A recipe makes the changed model: levelhead debias."
    )
    return Section("changes", "Before and after", lead, blocks)


def _mitigations_table(mitigations: Sequence[Mitigation]) -> Table:
    lines = [
        [
            words(each.variant),
            words(each.what),
            words(", ".join(map(str, each.heads))),
            words(_KEPT[each.viable]),
            words("yes" if each.chosen else "no"),
        ]
        for each in mitigations
    ]
    note = (
        "Ability is kept when it falls by at most 5 points. Heads are written layer-head, both counted "
        "from 1."
    )
    columns = ("Variant", "What was changed", "Heads", "Ability kept", "Chosen")
    chosen = frozenset(i for i, each in enumerate(mitigations) if each.chosen)
    return Table("changes", "What was changed", columns, lines, note, strong=chosen)


def _change_table(contents: Contents, variants: Sequence[str]) -> Table:
    """One column a variant; below a measure, its change item by item where the audit has one."""
    after = [{each.name: each for each in measurements(contents, variant)} for variant in variants]
    paired = [changes(contents, variant) for variant in variants]
    lines: list[list[Cell]] = []
    for before in in_reading_order(contents, measurements(contents)):
        if before.measurement.value is None:
            continue
        name, info = before.name, info_of(contents, before.name)
        others = [reported(each.get(name), info.digits) for each in after]
        lines.append([words(info.title), reported(before, info.digits), *others])
        if any(name in each for each in paired):
            differences = [reported(each.get(name)) for each in paired]
            lines.append([words(f"{info.title}: paired change"), words(None), *differences])
    columns = ["Measure", "Before", *(f"After: {variant}" for variant in variants)]
    note = (
        "Values with 95 % intervals. Where two intervals overlap widely, no change is shown. A paired change "
        "is computed item by item on the same probes; that of fluency is the ratio after to before, so 1 "
        "means no cost."
    )
    return Table("before-after", "Every measure, before and after", columns, lines, note)
