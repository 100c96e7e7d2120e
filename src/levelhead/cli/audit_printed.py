"""What `levelhead audit` prints: a reader's five questions, the headline and findings, before and after.

Changed models have the short names of the page; below the tables stands what each is in full.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from levelhead.cli.app import print_table
from levelhead.cli.terminal import columns_of_terminal, print_link, print_wrapped
from levelhead.inference.claims import valued
from levelhead.inference.contents import Contents, before, changes, measurements, open_contents, variants
from levelhead.pages.names import NLI, Names, names_of
from levelhead.pages.what_now import FIRST_LOOK, what_now
from levelhead.progress import say
from levelhead.results.layout import AUDIT
from levelhead.results.records.common import BASE, SAME_ITEMS
from levelhead.results.stored import RESULTS

if TYPE_CHECKING:
    from levelhead.auditing import Audit
    from levelhead.inference.contents import Reported

_BORDERS = 3  # characters that a table needs beside each of its columns


def print_audit(result: Audit) -> None:
    """The answers first, then what they rest on, then where everything lies."""
    contents = open_contents(result.folder)
    names = names_of(contents)
    _print_answers(contents, names)
    print_wrapped(names.short(result.headline))
    print()
    for finding in result.findings:
        print_wrapped(names.short(finding), "- ", "  ")
    print()
    changed = [name for name in variants(contents) if name not in (BASE, SAME_ITEMS)]
    beside = [name for name in changed if name.startswith(NLI)]
    judged = {each.name for name in beside for each in measurements(contents, name)}
    untouched = [each for each in before(contents) if each.measurement.value is not None]
    own = [name for name in changed if name not in beside]
    _print_changes(contents, names, own, [each for each in untouched if each.name not in judged])
    if beside:
        _print_changes(contents, names, beside, [each for each in untouched if each.name in judged])
    print()
    for name in filter(names.long, changed):
        print_wrapped(f"{names.short(name)}: {name.removeprefix(NLI)}")
    print(f"\nResults: {Path(result.folder) / RESULTS}")
    print_link(result.folder, AUDIT)


def print_first_look(result: Audit) -> None:
    """The answers of a first look, beside the progress of the audit that goes on."""
    contents = open_contents(result.folder)
    box = what_now(contents)
    answers = [] if box is None else box.answers
    margin = max((len(question) for question, _ in answers), default=0) + 2
    say(f"First look at {contents.model}: {FIRST_LOOK}")
    for question, answer in answers:
        say(f"{question:{margin}}{answer}")
    say(f"Page: {result.report} (it reloads itself; the audit goes on)")


def _print_answers(contents: Contents, names: Names) -> None:
    """The questions of the page's first box, and the command of each way out that it recommends."""
    box = what_now(contents)
    if box is None:
        return
    margin = max(len(question) for question, _ in box.answers) + 2
    print()
    for question, answer in box.answers:
        print_wrapped(names.short(answer), f"{question:{margin}}", " " * margin)
    for way in box.ways:
        if way.recommended and way.command is not None:
            print(f"\n{way.command.label}\n    {way.command.text}")
    print()


def _print_changes(
    contents: Contents, names: Names, changed: Sequence[str], untouched: Sequence[Reported]
) -> None:
    """Measures of the unmodified model and of changed ones, side by side where the terminal is wide."""
    lines = list(_change_lines(contents, changed, untouched))
    columns = ["measure", "before", *map(names.short, changed)]
    widths = [max(map(len, column)) for column in zip(columns, *lines, strict=True)]
    if sum(widths) + _BORDERS * len(widths) > columns_of_terminal():
        lines = [[cell.replace(" [", "\n[") for cell in line] for line in lines]
    subject = untouched[0].model if untouched else contents.model
    note = "Before: on the items on which the changes were verified, not on all as above."
    print_table(
        f"{subject}, before and after, with 95 % intervals",
        columns,
        lines,
        note if SAME_ITEMS in variants(contents) else "",
    )


def _change_lines(
    contents: Contents, changed: Sequence[str], untouched: Sequence[Reported]
) -> Iterator[list[str]]:
    """A line for each measure of the unmodified model, and one for its paired change where there is one."""
    after = [{each.name: each for each in measurements(contents, name)} for name in changed]
    paired = [changes(contents, name) for name in changed]
    for first in untouched:
        name = first.name
        yield [name, _cell(first), *(_cell(each.get(name)) for each in after)]
        if any(name in each for each in paired):
            yield [f"{name} change", "", *(_cell(each.get(name)) for each in paired)]


def _cell(each: Reported | None) -> str:
    return "" if each is None else valued(each.measurement)
