"""The chapter of CounterActs: what a sentence of knowledge before a question does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from levelhead.inference.contents import Contents
from levelhead.inference.fill_in import corrected, tested
from levelhead.inference.headline import headline_claims
from levelhead.measures.cloze.log_odds import CHANGE as LOG_ODDS_CHANGE
from levelhead.measures.cloze.prompt_table import BASE
from levelhead.pages.blocks import Block, Drawn, Section, Shown
from levelhead.pages.chapters import Chapter
from levelhead.pages.charts.prompts import asked_model, log_odds, margins, masses, prompt_controls
from levelhead.pages.examples import kind_examples, knowledge_example
from levelhead.pages.tables import Cell, Part, Table, bounded, measured, number, probability, shown, words
from levelhead.results.records.cloze import ClozeCell
from levelhead.results.runs import PromptsRun


def knowledge_section(contents: Contents) -> Section | None:
    """CounterActs: log-odds and their verdicts first, then the paper's masses and margins for every k; none
    where no knowledge was told, as in a first look."""
    run = contents.prompts
    if run is None or not run.cells or set(run.settings.kinds) <= {BASE}:
        return None
    controls = prompt_controls(run)
    cells = _judged_cells(contents, run)
    charts = [log_odds(run, cells, controls), margins(run, controls), *masses(run, controls)]
    blocks: list[Block] = [
        *(Shown(table) for table in _kinds_table(run)),
        Drawn(charts, controls),
        Shown(_log_odds_table(contents, run, cells)),
        Shown(_margins_table(contents, run.cells)),
    ]
    question = "Does the model change its mind when it is told something first?"
    how = (
        f"The model is asked to fill in a {' or '.join(run.settings.groups)} word "
        f"({run.settings.n_prompts:,} prompts), first bare and then after a sentence of knowledge. Log-odds "
        "say how much the odds of all words of the two groups follow the stereotype of the occupation; "
        "what knowledge does to them is held against null models. The margin, the paper’s number, "
        "counts the k likeliest tokens only. Dashed lines: without knowledge."
    )
    title = "What a sentence before the question does"
    return Section(Chapter.KNOWLEDGE, title, question, how, blocks, knowledge_example(contents))


def _kinds_table(run: PromptsRun) -> Iterator[Table]:
    """What the names of the kinds mean, by an example of each; none for prompts that do not ship."""
    if prompts := kind_examples(run):
        expected = {cell.kind: cell.expected for cell in run.knowledge()}
        lines = [[words(kind), words(text), words(expected.get(kind))] for kind, text in prompts.items()]
        note = "Expected: what such a sentence is meant to do to the stereotype."
        yield Table("kinds", "The kinds of knowledge", ("Knowledge", "For example", "Expected"), lines, note)


def _judged_cells(contents: Contents, run: PromptsRun) -> tuple[ClozeCell, ...]:
    """The run's cells with verdicts corrected for all claims of the page."""
    claims = [] if contents.audit is None else headline_claims(contents.audit)
    return corrected(run, {name: holds for name, _, holds in claims})


def _log_odds_table(contents: Contents, run: PromptsRun, cells: Iterable[ClozeCell]) -> Table:
    """One line for each model and kind of knowledge, over all occupations."""
    pairs = [
        (stored, cell) for stored, cell in zip(run.cells, cells, strict=True) if cell.name == LOG_ODDS_CHANGE
    ]
    several = len({asked_model(cell) for _, cell in pairs}) > 1
    lines = []
    for stored, cell in pairs:
        at = contents.address(stored)
        null = cell.measurement.null if tested(stored) else None
        lines.append(
            [
                words(cell.kind, asked_model(cell) if several else ""),
                _from_to(cell, "reached", at),
                bounded(cell.measurement, at),
                number(None if null is None else null.floor, at),
                probability(None if null is None else null.p_value, at),
                words(cell.verdict),
                words(cell.expected),
            ]
        )
    columns = (
        "Knowledge",
        "Log-odds without → with",
        "Change",
        "Null models",
        "p",
        "The stereotype",
        "Expected",
    )
    note = (
        "Null models: the change in models whose words mean nothing; p: against that. The word for what "
        "happens to the stereotype is corrected for all claims of this page; no change: the interval holds "
        "0; not more than in null models: null models change as much. Untested: none was asked."
    )
    return Table("log-odds", "What each kind of knowledge does to the odds", columns, lines, note)


def _margins_table(contents: Contents, cells: Iterable[ClozeCell]) -> Table:
    """The paper's numbers: one line for each model, k and kind of knowledge, over all occupations."""
    whole = [cell for cell in cells if not cell.group]
    several = len({asked_model(cell) for cell in whole}) > 1
    silent = {_place(cell): cell for cell in whole if cell.name == "share without group words"}
    lines = []
    for cell in whole:
        if cell.name != "margin change":
            continue
        at, quiet = contents.address(cell), silent.get(_place(cell))
        lines.append(
            [
                words(cell.kind, asked_model(cell) if several else ""),
                number(cell.k, at),
                _from_to(cell, "margin", at),
                measured(cell.measurement, at),
                words(cell.verdict),
                words(cell.expected),
                words(None)
                if quiet is None
                else number(quiet.measurement.value, contents.address(quiet), digits=2),
            ]
        )
    columns = ("Knowledge", "k", "Margin without → with", "Change", "The stereotype", "Expected", "Silent")
    note = (
        "Silent: share of prompts without a word of either group among the top k. No change: the interval "
        "holds 0; these words are not held against null models."
    )
    return Table(
        "knowledge",
        "What each kind of knowledge does to the likeliest tokens",
        columns,
        lines,
        note,
        folded=True,
    )


def _place(cell: ClozeCell) -> tuple[str, int, str]:
    return asked_model(cell), cell.k, cell.kind


def _from_to(cell: ClozeCell, reached: str, at: str) -> Cell:
    """The number without knowledge and with it; reached is the name of the detail that holds the second."""
    before, after = (cell.measurement.details.get(name) for name in ("base", reached))
    if before is None or after is None:
        return words(None)
    parts = (Part(shown(before), at), Part(" → "), Part(shown(after), at))
    return Cell(parts, f"{before!r} → {after!r}", True)
