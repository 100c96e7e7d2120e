"""The chapter of the atlas: a map for every objective, the agreement of every two, and all heads."""

from __future__ import annotations

from collections.abc import Mapping

from levelhead.edits.head import Head
from levelhead.inference.contents import Contents
from levelhead.pages.blocks import Block, Drawn, Matrix, MatrixCell, Points, Section, Shown
from levelhead.pages.chapters import Chapter
from levelhead.pages.localizing import atlas_sentence, heads_sentence, map_chart, null_text
from levelhead.pages.tables import Cell, Table, number, probability, shown, words
from levelhead.pages.transfer import cells_table, transfer_sentence, transfer_table
from levelhead.results.records.localizing import MapAgreement, MappedHead
from levelhead.results.runs import AtlasRun


def atlas_section(contents: Contents) -> Section | None:
    """The matrix of agreement, whose cells lead to the maps; the maps; then tables."""
    run = contents.atlas
    if run is None or not run.objectives:
        return None
    said = [atlas_sentence(run), transfer_sentence(run)]
    blocks: list[Block] = [Points([words(each) for each in said if each])]
    if run.agreements:
        blocks.append(_matrix(contents, run))
    blocks.append(Drawn([map_chart(run, each) for each in run.objectives]))
    blocks += [Shown(_objectives_table(contents, run)), Shown(_heads_table(contents, run))]
    if run.agreements:
        blocks.append(Shown(_agreements_table(contents, run)))
    if run.transfer:
        blocks += [Shown(transfer_table(run)), Shown(cells_table(contents, run))]
    if run.left_out:
        lines = [[words(each.objective), words(each.reason)] for each in run.left_out]
        blocks.append(Shown(Table("atlas-left-out", "Could not be mapped", ("Objective", "Why"), lines)))
    how = (
        "Every square of a map is an attention head: red heads add to the objective, blue ones work against "
        "it; each map has a scale of its own, and a frame marks heads that hold on other items beyond null "
        "models. The matrix says how far two maps rank heads alike; its cells lead to the maps."
    )
    question = "Which heads carry each bias measure, and are they the same ones?"
    return Section(Chapter.ATLAS, "The atlas", question, how, blocks)


# ---- agreement


def _matrix(contents: Contents, run: AtlasRun) -> Matrix:
    names = [each.objective for each in run.objectives]
    place = 1 + 1  # the charts stand behind the sentence and the matrix
    ids = {name: f"{Chapter.ATLAS}-chart-{place + 1}-{number}" for number, name in enumerate(names, start=1)}
    known = {frozenset((each.one, each.other)): each for each in run.agreements}
    cells = [
        [
            MatrixCell("", "", 0.0)
            if row == column
            else _cell(contents, known[frozenset((row, column))], ids)
            for column in names
        ]
        for row in names
    ]
    note = (
        "Spearman’s rho over all heads; bold: beyond the same two maps in null models, corrected for the "
        f"number of pairs. {_top_text(run)}"
    )
    return Matrix("Do the maps agree?", [(name, ids[name]) for name in names], cells, note)


def _cell(contents: Contents, each: MapAgreement, ids: Mapping[str, str]) -> MatrixCell:
    rho, null = each.measurement.value, each.measurement.null
    if rho is None:
        return MatrixCell(
            "–", f"{each.one} and {each.other}: {each.measurement.reason}", 0.0, to=ids[each.other]
        )
    beside = "" if null is None else f"; {null_text(null)}"
    label = f"{each.one} and {each.other}: rho {rho:.2f}{beside}"
    at = contents.address(each)
    return MatrixCell(shown(rho, 2), label, round(rho, 3), each.agree, ids[each.other], at)


def _top_text(run: AtlasRun) -> str:
    top = run.top
    if top is None:
        return ""
    named = ", ".join(map(str, top.heads)) or "none"
    beside = "" if top.in_null_models is None else f", {top.in_null_models:.2g} in null models on average"
    p = "" if top.p is None else f"; p {probability(top.p).text}"
    return (
        f"Heads among the {top.k} highest of every map: {named} ({len(top.heads)}; by chance "
        f"{top.by_chance:.2g}{beside}{p})."
    )


def _agreements_table(contents: Contents, run: AtlasRun) -> Table:
    lines = []
    for each in run.agreements:
        at, measured = contents.address(each), each.measurement
        low, high = measured.interval or (None, None)
        floor, spread = (None, None) if measured.null is None else (measured.null.floor, measured.null.spread)
        cells = [number(value, at, 2) for value in (measured.value, low, high, floor, spread)]
        lines.append([words(f"{each.one} and {each.other}"), *cells, probability(each.p, at)])
    columns = ("Maps", "Spearman’s rho", "from", "to", "In null models", "SD", "Corrected p")
    note = (
        "The interval redraws the scores of both maps with their standard errors: it shows how far the items "
        "leave rho open. Maps agree in null models too, because late layers matter more for "
        "whatever is asked: p holds rho against the same two maps in null models, corrected for all pairs."
    )
    return Table("atlas-agreement", "Every two maps", columns, lines, note, folded=True)


# ---- objectives and heads


def _objectives_table(contents: Contents, run: AtlasRun) -> Table:
    lines = []
    for each in run.objectives:
        at, halves, largest = contents.address(each), each.halves, each.largest
        significant = [head for head in run.significant if head.objective == each.objective]
        lines.append(
            [
                words(each.objective, heads_sentence(run, each)),
                number(each.value, at),
                words(each.unit),
                number(each.items, at),
                number(halves.value, at, 2),
                number(None if halves.null is None else halves.null.floor, at, 2),
                probability(None if halves.null is None else halves.null.p_value, at),
                number(largest.value, at, 4),
                number(None if largest.null is None else largest.null.floor, at, 4),
                number(len(significant), at),
            ]
        )
    columns = (
        *("Objective", "Value", "Unit", "Items", "Halves agree, rho", "In null models", "p"),
        *("Largest score that holds", "In null models ", "Significant heads"),
    )
    note = (
        f"{run.settings.splits} splits of the items into halves that share no cluster. A score holds as far "
        "as both halves say the same. Significant: beyond the largest such score of every null model, "
        "corrected for the heads of one map, not for the number of maps."
    )
    return Table("atlas-objectives", "What each objective shows", columns, lines, note)


def _heads_table(contents: Contents, run: AtlasRun) -> Table:
    """A line per head, a column per map, those at the top of most maps first."""
    by_head: dict[Head, list[MappedHead]] = {}
    for each in run.heads:
        by_head.setdefault(each.head, []).append(each)
    ordered = sorted(by_head.items(), key=lambda item: sum(each.rank for each in item[1]))
    lines: list[list[Cell]] = []
    for head, own in ordered:
        mean = sum(each.rank for each in own) / len(own)
        cells = [words(head), number(mean, contents.address(own[0]), 1)]
        for each in own:
            at = contents.address(each)
            cells += [number(each.score, at, 4), number(each.held, at, 4), probability(each.p, at)]
        lines.append(cells)
    columns = ["Head", "Mean rank"]
    for objective in run.objectives:
        columns += [f"{objective.objective}", f"{objective.objective}, holds", f"{objective.objective}, p"]
    top = run.top
    strong = frozenset(i for i, (head, _) in enumerate(ordered) if top is not None and head in top.heads)
    note = "Rank 1 adds most to an objective. Holds: what two halves of the items both say; p: of that."
    caption = f"All {len(lines)} heads, those that add most in all maps first"
    return Table("atlas-heads", caption, columns, lines, note, folded=True, strong=strong)
