"""The chapter of before and after: what was changed in the model, and every measure again."""

from __future__ import annotations

from collections.abc import Sequence

from levelhead.inference.contents import Contents, before, changes, measurements, variants
from levelhead.inference.infos import info_of
from levelhead.inference.ways_out import Ability, abilities, abilities_text
from levelhead.pages.blocks import Block, Code, Section, Shown
from levelhead.pages.chapters import Chapter
from levelhead.pages.examples import changed_example
from levelhead.pages.sections.measured import in_reading_order
from levelhead.pages.tables import Cell, Table, reported, words
from levelhead.results.records.common import BASE, SAME_ITEMS
from levelhead.results.runs import AuditRun


def changes_section(contents: Contents) -> Section | None:
    """What was changed in the model, and every measure before and after."""
    audit = contents.audit
    if audit is None or not (audit.mitigations or audit.verified):
        return None
    blocks: list[Block] = []
    if audit.mitigations:
        blocks.append(Shown(_mitigations_table(audit)))
    if verified := [name for name in variants(contents) if name not in (BASE, SAME_ITEMS)]:
        blocks.append(Shown(_change_table(contents, verified)))
    blocks += [
        Code(f"Recipe of “{each.variant}”", each.recipe, folded=True)
        for each in audit.mitigations
        if each.recipe
    ]
    question = "Did a change help, and what did it break?"
    how = (
        "The same measures again on each changed model, and on the untouched one, on items that no "
        "projection was chosen on. Fluency, language sense and ability say what the change cost. A recipe "
        "makes the changed model: levelhead debias."
    )
    return Section(Chapter.CHANGES, "Before and after", question, how, blocks, changed_example(contents))


def _mitigations_table(audit: AuditRun) -> Table:
    measured = audit.by_variant()
    same = measured.get(SAME_ITEMS, {})
    lines = [
        [
            words(each.variant, long=each.variant),
            words(each.what),
            words(", ".join(map(str, each.heads))),
            _kept_cell(abilities(same, measured.get(each.variant, {}))),
            words("yes" if each.chosen else "no"),
        ]
        for each in audit.mitigations
    ]
    note = (
        "Ability is kept when no share of right answers falls by more than 5 points and perplexity does not "
        "rise by more than 5 %. Heads are written layer-head, both counted from 1. They were chosen by SEAT "
        "on all words, so their SEAT below is flattered; the findings have their change on other words."
    )
    columns = ("Variant", "What was changed", "Heads", "Ability kept", "Chosen to be verified")
    chosen = frozenset(i for i, each in enumerate(audit.mitigations) if each.chosen)
    return Table("changes", "What was changed", columns, lines, note, strong=chosen)


def _kept_cell(known: Sequence[Ability]) -> Cell:
    """Whether every ability that was measured is kept, and what they are."""
    if not known:
        return words("not measured")
    return words("yes" if all(each.kept for each in known) else "no", abilities_text(known))


def _change_table(contents: Contents, names: Sequence[str]) -> Table:
    """One column a variant; below a measure, its change item by item where the audit has one."""
    after = [{each.name: each for each in measurements(contents, variant)} for variant in names]
    paired = [changes(contents, variant) for variant in names]
    lines: list[list[Cell]] = []
    for untouched in in_reading_order(contents, before(contents)):
        if untouched.measurement.value is None:
            continue
        name, info = untouched.name, info_of(contents, untouched.name)
        others = [reported(each.get(name), info.digits) for each in after]
        lines.append([words(info.title), reported(untouched, info.digits), *others])
        if any(name in each for each in paired):
            differences = [reported(each.get(name)) for each in paired]
            lines.append([words(f"{info.title}: paired change"), words(None), *differences])
    columns = ["Measure", "Before", *(f"After: {variant}" for variant in names)]
    note = (
        "Values with 95 % intervals. Where two intervals overlap widely, no change is shown. A paired change "
        "is computed item by item on the same probes; that of fluency is the ratio after to before, so 1 "
        "means no cost."
    )
    return Table("before-after", "Every measure, before and after", columns, lines, note)
