"""The chapter of the atlas: a map for every objective, the agreement of every two, all heads, and transfer.

Its sentences and its maps stand in the terminal and in notebooks too.
"""

from __future__ import annotations

from typing import Any

import altair as alt

from levelhead.edits.sites import Head
from levelhead.errors import CannotDo
from levelhead.inference.contents import Contents
from levelhead.measures.measurement import Null
from levelhead.pages.blocks import Block, Drawn, Matrix, MatrixCell, Points, Section, Shown
from levelhead.pages.charts.base import Chart
from levelhead.pages.charts.heads import head_layers, head_place, score_scale
from levelhead.pages.lines import Line, line_of
from levelhead.pages.tables import (
    Cell,
    Table,
    grown_cell,
    null_cells,
    number,
    numbers,
    probability,
    shown,
    words,
)
from levelhead.studies.atlas import Atlas
from levelhead.studies.atlas.records import MapAgreement, MappedHead, MappedObjective, TransferCell

_CELL = 20  # pixels of a head
_WIDEST = 3  # maps in a row
_ENOUGH = 19  # null models from which on a head can have p 0.05


def chapters(contents: Contents) -> list[Section]:
    """The matrix of agreement, whose cells lead to the maps; the maps; then tables."""
    run = contents.atlas
    if run is None or not run.objectives:
        return []
    said = [atlas_sentence(run), transfer_sentence(run)]
    blocks: list[Block] = [Points([words(each) for each in said if each])]
    if run.agreements:
        blocks.append(_matrix(contents, run))
    maps = []
    for each in run.objectives:
        heads = sum(head.objective == each.objective for head in run.heads)
        title = f"{each.objective}: {each.value:.3g} {each.unit}"
        text = f"Scores of {heads} heads for {each.objective}, by layer."
        maps.append(Chart(f"map-{each.objective}", title, text, _map(run, each).to_dict()))
    blocks.append(Drawn(maps))
    blocks += _tables(contents, run)
    if run.transfer:
        measures = list(dict.fromkeys((each.measured, each.unit) for each in run.transfer))
        lines = []
        for optimized in dict.fromkeys(each.optimized for each in run.transfer):
            own = {each.measured: each for each in run.transfer if each.optimized == optimized}
            ablated = ", ".join(map(str, next(iter(own.values())).heads))
            lines.append([words(f"{optimized}: {ablated}"), *(grown_cell(own[name]) for name, _ in measures)])
        header = ("Optimized: ablated heads", *(f"{name}, {unit}" for name, unit in measures))
        note = (
            "By how much the size of each measure grows, |after| − |before|, in natural units, on items on "
            f"which the heads were not chosen. The intervals hold for all {run.transfer[0].cells} cells "
            "together (Bonferroni); ↓: surely smaller than before, ↑: surely larger."
        )
        matrix = Table("atlas-transfer", "What was optimized, what was measured", header, lines, note)
        lines = []
        for cell in run.transfer:
            at = contents.address(cell)
            values = (cell.before, cell.after, cell.grown, cell.low, cell.high)
            named = [words(cell.optimized), words(cell.measured), words(cell.unit)]
            lines.append([*named, *numbers(values, at), probability(cell.p_bias, at)])
        change = ("Before", "After", "Grown", "from", "to")
        columns = ("Optimized", "Measured", "Unit", *change, "p of the bias")
        note = (
            "p of the bias: of its size in the unmodified model, on all items, against null models, "
            "corrected for all biases that were mapped."
        )
        cells = Table("atlas-transfer-cells", "Every cell of the matrix", columns, lines, note, folded=True)
        blocks += [Shown(matrix), Shown(cells)]
    if run.left_out:
        lines = [[words(each.objective), words(each.reason)] for each in run.left_out]
        blocks.append(Shown(Table("atlas-left-out", "Could not be mapped", ("Objective", "Why"), lines)))
    how = (
        "Every square of a map is an attention head: red heads add to the objective, blue ones work against "
        "it; each map has a scale of its own, and a frame marks heads that hold on other items beyond null "
        "models. The matrix says how far two maps rank heads alike; its cells lead to the maps."
    )
    question = "Which heads carry each bias measure, and are they the same ones?"
    return [Section(Atlas.name, Atlas.title, question, how, blocks)]


# ---- sentences


def atlas_sentence(run: Atlas) -> str:
    """What came out: whether maps agree beyond null models, or, of one map, whether a head stands out."""
    if not run.objectives:
        return "Not finished: run the same command again; it goes on."
    if run.doubts:
        return f"Nothing is claimed of {run.model}."
    nulls = max((each.null_model + 1 for each in run.maps if each.null_model is not None), default=0)
    if nulls < 3:
        return f"{run.model} was compared with too few null models for a claim: --null {_ENOUGH} is enough."
    if not run.agreements:
        return _heads_sentence(run, run.objectives[0])
    agreeing = [each for each in run.agreements if each.agree]
    pairs = len(run.agreements)
    if agreeing:
        counted = f"{len(agreeing)} of {pairs} pairs of maps agree" if pairs > 1 else "the two maps agree"
        said = "; ".join(_agreement_text(each) for each in sorted(agreeing, key=lambda each: each.p or 0.0))
        return f"{run.model}: {counted} in their heads beyond its {nulls} null models: {said}."
    tested = [each for each in run.agreements if each.measurement.value is not None]
    if not tested:
        return f"{run.model}: no two maps can be compared."
    best = max(tested, key=lambda each: each.measurement.excess or 0.0)
    return (
        f"{run.model}: no two maps are shown to agree in their heads more than those of its {nulls} null "
        f"models do; nearest to it {_agreement_text(best)}."
    )


def _agreement_text(each: MapAgreement) -> str:
    p = "" if each.p is None else f", corrected p {probability(each.p).text}"
    rho = f"rho {each.measurement.value or 0.0:.2f}{_beside(each.measurement.null)}"
    return f"{each.one} and {each.other} ({rho}{p})"


def _beside(null: Null | None) -> str:
    return "" if null is None else f"; {null.floor:.2f} ± {null.spread:.2f} in null models"


def _heads_sentence(run: Atlas, objective: MappedObjective) -> str:
    """Whether heads of one map hold on other items, beyond null models."""
    own = [each for each in run.heads if each.objective == objective.objective]
    found = sorted((each for each in own if each.significant), key=lambda each: -abs(each.held))
    nulls = max((each.null_model + 1 for each in run.maps if each.null_model is not None), default=0)
    value = f"{objective.objective} {objective.value:.3g} {objective.unit}"
    if found and not run.doubts:
        named = ", ".join(str(each.head) for each in found)
        which = "a head holds" if len(found) == 1 else f"{len(found)} heads hold"
        return (
            f"{run.model}, {value}: {which} on other items beyond every head of its {nulls} null models: "
            f"{named} (p {probability(found[0].p).text}, corrected for {len(own)} heads)."
        )
    least = f", whose smallest possible p is {1 / (1 + nulls):.2f}" if nulls < _ENOUGH else ""
    return f"{run.model}, {value}: no head stands out from those of its {nulls} null models{least}."


def transfer_sentence(run: Atlas) -> str:
    """Does lowering one bias measure lower any other? The answer for this model; empty where nothing was
    ablated.

    It speaks of biases that stand out from null models, before and on held-out items only.
    """
    if not run.transfer or run.doubts:
        return ""
    sources = [each for each in run.transfer if each.own and each.detected and each.lowered]
    if not sources:
        return (
            f"{run.model}: whether lowering one bias measure lowers another is not shown: no objective's own "
            "measure stands out from null models and falls without its heads."
        )

    def amount(each: TransferCell) -> str:
        return f"{abs(each.grown):.3g} {each.unit}"

    said = []
    for source in sources:
        others = [each for each in run.transfer if each.optimized == source.optimized and not each.own]
        biases = [each for each in others if not each.cost]
        lowered = [each for each in biases if each.lowered and each.detected]
        follows = f"of {len(biases)} other bias measures none is shown to fall with it"
        if lowered:
            named = ", ".join(f"{each.measured} by {amount(each)}" for each in lowered)
            follows = f"with it fall {named}, {len(lowered)} of {len(biases)} other bias measures"
        raised = ", ".join(f"{each.measured} by {amount(each)}" for each in others if each.raised)
        first = f"without {', '.join(map(str, source.heads))} {source.measured} falls by {amount(source)}"
        said.append(f"{first}, and {follows}" + (f"; {raised} grows" if raised else ""))
    return f"{run.model}: {'; '.join(said)}."


# ---- maps


def _map(run: Atlas, objective: MappedObjective) -> Any:
    """The heat map of one objective; a frame marks significant heads."""
    heads = [each for each in run.heads if each.objective == objective.objective]
    layers, width = (1 + max(place) for place in zip(*(each.head for each in heads), strict=True))
    every, framed = (
        [{**head_place(each.head), "b": each.score, "holds": each.held, "p": each.p} for each in some]
        for some in (heads, [e for e in run.significant if e.objective == objective.objective])
    )
    scale = score_scale([each.score for each in heads], signed=True)
    drawn = alt.layer(*head_layers(every, framed, scale, ("b:Q", "holds:Q", "p:Q")))
    return drawn.properties(width=_CELL * width, height=_CELL * layers)


# ---- agreement


def _matrix(contents: Contents, run: Atlas) -> Matrix:
    names = [each.objective for each in run.objectives]
    place = 1 + 1  # the charts stand behind the sentence and the matrix
    ids = {name: f"{Atlas.name}-chart-{place + 1}-{number}" for number, name in enumerate(names, start=1)}
    known = {frozenset((each.one, each.other)): each for each in run.agreements}
    cells = []
    for row in names:
        line = []
        for name in names:
            if row == name:
                line.append(MatrixCell("", "", 0.0))
                continue
            each = known[frozenset((row, name))]
            rho, maps = each.measurement.value, f"{each.one} and {each.other}"
            if rho is None:
                text = f"{maps}: {each.measurement.reason}"
                line.append(MatrixCell("–", text, 0.0, to=ids[each.other]))
                continue
            text, at = f"{maps}: rho {rho:.2f}{_beside(each.measurement.null)}", contents.address(each)
            line.append(MatrixCell(shown(rho, 2), text, round(rho, 3), each.agree, ids[each.other], at))
        cells.append(line)
    note = (
        "Spearman’s rho over all heads; bold: beyond the same two maps in null models, corrected for the "
        "number of pairs. "
    )
    if (top := run.top) is not None:
        named = ", ".join(map(str, top.heads)) or "none"
        beside = "" if top.in_null_models is None else f", {top.in_null_models:.2g} in null models on average"
        p = "" if top.p is None else f"; p {probability(top.p).text}"
        note += (
            f"Heads among the {top.k} highest of every map: {named} ({len(top.heads)}; by chance "
            f"{top.by_chance:.2g}{beside}{p})."
        )
    return Matrix("Do the maps agree?", [(name, ids[name]) for name in names], cells, note)


# ---- objectives and heads


def _tables(contents: Contents, run: Atlas) -> list[Block]:
    """What each objective shows; a line per head, those at the top of most maps first; every two maps."""
    blocks, lines = list[Block](), list[list[Cell]]()
    for each in run.objectives:
        at, halves, largest = contents.address(each), each.halves, each.largest
        floor, _, p = null_cells(halves.null, at, 2)
        cells = [words(each.objective, _heads_sentence(run, each)), number(each.value, at), words(each.unit)]
        cells += [number(each.items, at), number(halves.value, at, 2), floor, p]
        cells += [number(largest.value, at, 4), null_cells(largest.null, at, 4)[0]]
        significant = sum(head.objective == each.objective for head in run.significant)
        lines.append([*cells, number(significant, at)])
    columns = [
        *("Objective", "Value", "Unit", "Items", "Halves agree, rho", "In null models", "p"),
        *("Largest score that holds", "In null models ", "Significant heads"),
    ]
    note = (
        f"{run.settings.splits} splits of the items into halves that share no cluster. A score holds as far "
        "as both halves say the same. Significant: beyond the largest such score of every null model, "
        "corrected for the heads of one map, not for the number of maps."
    )
    blocks.append(Shown(Table("atlas-objectives", "What each objective shows", columns, lines, note)))
    by_head: dict[Head, list[MappedHead]] = {}
    for mapped in run.heads:
        by_head.setdefault(mapped.head, []).append(mapped)
    ordered = sorted(by_head.items(), key=lambda item: sum(each.rank for each in item[1]))
    lines = []
    for head, own in ordered:
        mean = sum(each.rank for each in own) / len(own)
        cells = [words(head), number(mean, contents.address(own[0]), 1)]
        for mapped in own:
            at = contents.address(mapped)
            cells += [*numbers((mapped.score, mapped.held), at, 4), probability(mapped.p, at)]
        lines.append(cells)
    columns = ["Head", "Mean rank"]
    for objective in run.objectives:
        columns += [f"{objective.objective}", f"{objective.objective}, holds", f"{objective.objective}, p"]
    top = run.top
    strong = frozenset(i for i, (head, _) in enumerate(ordered) if top is not None and head in top.heads)
    note = "Rank 1 adds most to an objective. Holds: what two halves of the items both say; p: of that."
    caption = f"All {len(lines)} heads, those that add most in all maps first"
    blocks.append(Shown(Table("atlas-heads", caption, columns, lines, note, folded=True, strong=strong)))
    if run.agreements:
        lines = []
        for agreed in run.agreements:
            at, measured = contents.address(agreed), agreed.measurement
            low, high = measured.interval or (None, None)
            floor, sd, _ = null_cells(measured.null, at, 2)
            rho = numbers((measured.value, low, high), at, 2)
            named = words(f"{agreed.one} and {agreed.other}")
            lines.append([named, *rho, floor, sd, probability(agreed.p, at)])
        columns = ["Maps", "Spearman’s rho", "from", "to", "In null models", "SD", "Corrected p"]
        note = (
            "The interval redraws the scores of both maps with their standard errors: it shows how far the "
            "items leave rho open. Maps agree in null models too, because late layers matter more for "
            "any objective: p compares rho with the same two maps in null models, corrected for all pairs."
        )
        blocks.append(Shown(Table("atlas-agreement", "Every two maps", columns, lines, note, folded=True)))
    return blocks


# ---- its table, its chart


def sentence(run: Atlas) -> str:
    """Whether the maps agree beyond null models; with `transfer`, whether lowering one bias measure lowers
    another."""
    return " ".join(filter(None, (atlas_sentence(run), transfer_sentence(run))))


def lines(run: Atlas) -> list[Line]:
    """Every head in every map."""
    return [{**line_of(each), "significant": each.significant} for each in run.heads]


def chart(run: Atlas) -> Chart:
    """The maps side by side, each on a scale of its own."""
    if not run.objectives:
        raise CannotDo(f"{run.folder} has no map yet. Run the same command again; it goes on.")
    panels = [
        _map(run, each).properties(title=f"{each.objective} ({each.value:.3g} {each.unit})")
        for each in run.objectives
    ]
    drawn = alt.concat(*panels, columns=_WIDEST).resolve_scale(color="independent")
    title = f"Heads behind {len(panels)} objectives in {run.model}"
    return Chart("atlas", title, f"Head maps of {len(panels)} objectives side by side.", drawn.to_dict())


def headline(contents: Contents, findings: list[Cell]) -> tuple[str, list[Cell]] | None:
    """Whether the maps agree."""
    return None if contents.atlas is None else (atlas_sentence(contents.atlas), [])
