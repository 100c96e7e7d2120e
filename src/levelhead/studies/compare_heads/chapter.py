"""The chapter of a comparison: the models side by side, and what became of the base's anti-biased heads."""

from __future__ import annotations

from pathlib import Path

import altair as alt

from levelhead.errors import BadRun
from levelhead.inference.contents import Contents
from levelhead.pages.blocks import Block, Drawn, Points, Section, Shown
from levelhead.pages.charts.base import Chart, figure, write_svgs
from levelhead.pages.charts.heads import head_layers, head_place, score_scale
from levelhead.pages.tables import Cell, Table, measured, number, words
from levelhead.studies.compare_heads import CompareHeads

_OTHER_CONTEXTS = "The two runs read other contexts of the same words: a part of the difference is theirs."
_CELL = 18  # pixels of a heat map's cell
_WIDEST = 4  # models in a row


def chapters(contents: Contents) -> list[Section]:
    """The models side by side, and every other model against the base."""
    run = contents.of(CompareHeads)
    if run is None or not run.models:
        return []
    lines = []
    for model in run.models:
        at = contents.address(model)
        line = [words(model.model), number(model.layers * model.heads, at), measured(model.seat, at)]
        line += [number(model.biased, at), number(model.anti_biased, at)]
        lines.append([*line, words(model.most_biased), words(model.most_anti_biased)])
    columns = ("Model", "Heads", "SEAT", "Biased", "Anti-biased", "Most biased", "Most anti-biased")
    said = []
    for pair in run.pairs:
        text, both = pair.reason, pair.agreement
        if both is not None:
            rho = both.spearman.value
            ranks = "no rank correlation" if rho is None else f"rank correlation of the heads {rho:.2f}"
            followed = f"{both.followed_flips} of the {len(both.followed)} most anti-biased"
            text = (
                f"{ranks}; {both.flips} of {both.anti_biased_in_base} anti-biased heads became biased ("
                f"{both.clear_flips} of them clear in both; {followed}), {both.flips_back} went the other way"
            )
        contexts = "" if pair.same_contexts else f" {_OTHER_CONTEXTS}"
        said.append(words(f"{pair.model} against {pair.base}: {text}.{contexts}"))
    how = (
        "A head is biased if its score is above 0, anti-biased if it is below. A head that was anti-biased "
        "in the base, the first model, and is biased in another changed sides. Boxes: the base's most "
        "anti-biased heads."
    )
    blocks: list[Block] = [
        Shown(Table("models", "Models side by side", columns, lines)),
        Points(said),
        Drawn([chart(run)]),
    ]
    return [Section(CompareHeads.name, CompareHeads.title, CompareHeads.question, how, blocks)]


def headline(contents: Contents, findings: list[Cell]) -> tuple[str, list[Cell]] | None:
    """Which models, about which words."""
    run = contents.of(CompareHeads)
    return None if run is None else (f"Heads of {run.model} ({run.settings.test})", findings)


# ---- its chart


def figures(folder: str | Path) -> list[Path]:
    """side-by-side.svg (scores below 0 shown as 0, as in the paper) and its signed counterfactual under
    figures/."""
    run = CompareHeads.open(folder)
    if not run.scores:
        raise BadRun(f"{folder} has no scores yet. Run the same `levelhead compare-heads` command again.")
    about = "Head bias scores b, one scale; {}; boxes: the base's most anti-biased heads"
    clipped = about.format("scores below 0 are shown as 0")
    signed = about.format("red adds to bias, blue counteracts it")
    drawings = {
        "side-by-side": figure(chart(run, signed=False), clipped),
        "side-by-side-signed": figure(chart(run), signed),
    }
    return write_svgs(run.folder, drawings)


def chart(run: CompareHeads, signed: bool = True) -> Chart:
    """One heat map a model on one scale; boxes mark the base's most anti-biased heads, where shapes agree."""
    shown = [each.score if signed else max(0.0, each.score) for each in run.scores]
    points = [
        {**head_place(each.head), "score": score} for each, score in zip(run.scores, shown, strict=True)
    ]
    base = run.models[0]
    of_base = sorted((each for each in run.scores if each.number == 1), key=lambda each: each.score)
    anti_biased = [each.head for each in of_base[: run.settings.top] if each.score < 0]
    boxes = [{**head_place(head), "score": 0.0} for head in anti_biased]
    scale = score_scale(shown, signed)
    panels = []
    for place, model in enumerate(run.models, start=1):
        same_shape = (model.layers, model.heads) == (base.layers, base.heads)
        own = [point for point, each in zip(points, run.scores, strict=True) if each.number == place]
        cells, *frames = head_layers(own, boxes if same_shape else [], scale)
        seat = "not measured" if model.seat.value is None else f"{model.seat.value:.2f}"
        caption = f"{model.model}: SEAT {seat}, {model.biased} of {model.layers * model.heads} biased"
        size = {"width": _CELL * model.heads, "height": _CELL * model.layers}
        panel = alt.layer(cells, *frames) if frames else cells
        panels.append(panel.properties(title=caption, **size))
    drawn = alt.concat(*panels, columns=_WIDEST).resolve_scale(color="shared")
    title = f"Biased heads ({run.settings.test}) in {len(panels)} models"
    text = f"Bias scores of every head of {len(panels)} models."
    return Chart("side-by-side", title, text, drawn.to_dict())
