"""The chapters of a survey: models ranked, which differences are real, curves over steps, what failed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import altair as alt

from levelhead.inference.claims import p_text
from levelhead.inference.contents import Contents, doubt_text
from levelhead.inference.ranking import MOST_IN_PAIRS, compared
from levelhead.measures.catalog import CATALOG, MeasureInfo
from levelhead.measures.measurement import Measurement
from levelhead.pages.blocks import Block, Drawn, Section, Shown
from levelhead.pages.chapters import Chapter
from levelhead.pages.charts.base import (
    Chart,
    Control,
    Labeled,
    Point,
    data_of,
    following,
    intervals,
    page_spec,
)
from levelhead.pages.tables import Cell, Part, Table, measured, number, probability, shown, words
from levelhead.studies.survey import Survey
from levelhead.studies.survey.records import SurveyLine

_SEAT = "seat"
_LONG = 40  # lines of a table that is folded
_CURVE = "curve"  # the signal that says which bias and measure is drawn
FLOORS = (
    "SEAT of a null model need not be 0: a tokenizer that cuts the words of one side into more subword "
    "tokens gives every model some. Models that share a tokenizer share that; between models with different "
    "tokenizers a difference in SEAT may be one of tokenizers, and an audit of each says how much is its own."
)
Ranking = tuple[str, MeasureInfo, list[SurveyLine]]  # bias, measure, models in the order of their bias


def rankings(run: Survey) -> Iterator[Ranking]:
    """Every bias and measure that models are compared by, with the models that have a value."""
    catalog = CATALOG.joined_by(*run.measures)
    ranked = [line for line in run.table if line.rank is not None and compared(catalog.info(line.measure))]
    for bias, measure in dict.fromkeys((line.bias, line.measure) for line in ranked):
        own = [line for line in ranked if (line.bias, line.measure) == (bias, measure)]
        yield bias, catalog.info(measure), own


def chapters(contents: Contents) -> list[Section]:
    """Models ranked, which differences are real, curves over steps, what failed."""
    run = contents.survey
    if run is None:
        return []
    # a table for each bias and measure, the model nearest to neutral first, and all of it as a picture
    blocks: list[Block] = []
    for bias in run.settings.biases:
        own = [ranking for ranking in rankings(run) if ranking[0] == bias]
        drawn = [
            Labeled(line.model, replace(line_measurement(line, info), name=info.title))
            for _, info, lines in own
            for line in lines
        ]
        if drawn:
            chart = intervals(drawn, f"Models by bias: {bias}")
            blocks.append(Drawn([replace(chart, name=f"ranking-{bias}")]))
        for _, info, lines in own:
            less: dict[str, list[str]] = {}  # the models that a model is really more biased than
            for each in run.differences:
                if each.real and (each.bias, each.measure) == (bias, info.name):
                    low, high = (each.first, each.second) if each.value > 0 else (each.second, each.first)
                    less.setdefault(high, []).append(low)
            body = []
            for line in lines:
                cells = [number(line.rank), words(line.model)]
                cells += [measured(line_measurement(line, info), digits=info.digits)]
                cells += [number(line.size, digits=info.digits), number(line.n)]
                body.append([*cells, words(", ".join(less.get(line.model, [])))])
            header = ("Rank", "Model", "Value", "From neutral", "n", "Really more biased than")
            name, title = f"ranking-{bias}-{info.name}", f"{bias}: {info.title}"
            blocks.append(Shown(Table(name, title, header, body, info.reading)))
    how = (
        "The model nearest to neutral stands first. A rank alone shows little: what can be told apart stands "
        "in the last column. No rank says that a model has any bias at all: an audit holds a model "
        "against null models."
    )
    written = [
        Section(Survey.name, Survey.title, "Which model is nearest to neutral?", how, blocks),
        _differences(run),
        _steps(run),
    ]
    # models that could not be evaluated, and measures that a model could not answer
    if missing := [line for line in run.table if line.value is None]:
        body = [
            [words(line.model), words(line.bias), words(line.measure or "everything"), words(line.reason)]
            for line in sorted(missing, key=lambda line: line.measure != "")
        ]
        columns = ("Model", "Bias", "Not measured", "Because")
        table = Table("failures", "What was not measured", columns, body, folded=len(body) > _LONG)
        question = "Which models could not be evaluated, and what could a model not answer?"
        how = "A model that could not be evaluated is tried again when the survey is run again."
        written.append(Section(Chapter.FAILURES, "What was not measured", question, how, [Shown(table)]))
    return [section for section in written if section is not None]


def line_measurement(line: SurveyLine, info: MeasureInfo) -> Measurement:
    """A line of the table as the measurement that it was."""
    interval = None if line.low is None or line.high is None else (line.low, line.high)
    return Measurement(info.name, line.value, interval, line.n or 0, neutral=line.neutral, reason=line.reason)


# ---- differences


def _differences(run: Survey) -> Section | None:
    """Models two by two: which differences are real."""
    if not (listed := run.differences):
        return None
    catalog, body = CATALOG.joined_by(*run.measures), []
    for each in listed:
        info = catalog.info(each.measure)
        less, more = (each.first, each.second) if each.value >= 0 else (each.second, each.first)
        text = shown(abs(each.value), info.digits)
        if each.low is not None and each.high is not None:
            ends = sorted((each.low, each.high) if each.value >= 0 else (-each.high, -each.low))
            text += f" [{shown(ends[0], info.digits)}, {shown(ends[1], info.digits)}]"
        line = [words(f"{each.bias}: {info.title}"), words(less), words(more)]
        line += [
            Cell((Part(text),), repr(each.value), True),
            probability(each.p),
            probability(each.corrected),
        ]
        line += [words("yes" if each.real else "not shown")]
        body.append([*line, words("paired" if each.paired else "unpaired", each.how)])
    strong = frozenset(i for i, each in enumerate(listed) if each.real)
    tested = sum(each.p is not None for each in listed)
    columns = ("Bias and measure", "Less biased", "More biased", "By", "p", "p, all counted", "Real", "How")
    note = (
        f"A difference is real if its p is below 0.05 after Holm’s correction for all {tested} that were "
        "tested. Paired: item by item, on items that both models answered. Unpaired: from the two intervals, "
        "as a rule too wide. Models that were evaluated on other words are not compared."
    )
    if any(each.measure == _SEAT for each in listed):
        note = f"{note} {FLOORS}"
    folded = len(body) > _LONG
    table = Table("differences", "Models two by two", columns, body, note, folded, strong)
    pairs = "two by two" if len(run.settings.models) <= MOST_IN_PAIRS else "each with the first of the list"
    how = (
        f"{sum(each.real for each in listed)} of {tested} differences are real. Models are compared {pairs}."
    )
    question = "Which of two models can be told to be less biased?"
    return Section(Chapter.DIFFERENCES, "Significant differences", question, how, [Shown(table)])


# ---- curves


def _steps(run: Survey) -> Section | None:
    """Bias along a training, where models are checkpoints of one."""
    catalog = CATALOG.joined_by(*run.measures)
    lines = [
        line
        for line in run.table
        if line.step is not None and line.rank is not None and compared(catalog.info(line.measure))
    ]
    if not lines:
        return None
    names = list(dict.fromkeys(f"{line.bias}: {line.measure}" for line in lines))
    controls = [Control(_CURVE, "Measure", [(name, name) for name in names], names[0])]
    question = "Does the bias grow while the model is trained?"
    how = "Models whose names tell the step of one training, with 95 % intervals. The dashed line is neutral."
    points: list[Point] = [
        {
            _CURVE: f"{line.bias}: {line.measure}",
            "training": line.run,
            "step": line.step,
            "value": line.value,
            "low": line.low,
            "high": line.high,
            "neutral": line.neutral,
        }
        for line in lines
    ]
    # every measure of every checkpoint over the steps, one line per training
    runs = list(dict.fromkeys(line.run for line in lines))
    base: Any = alt.Chart()
    colors = alt.Scale(domain=runs, range=[f"$level{i % 8}" for i in range(len(runs))])
    color = alt.Color("training:N", sort=runs, scale=colors, title=None)
    x, y = alt.X("step:Q", title="step"), alt.Y("value:Q", title="value", scale=alt.Scale(zero=False))
    low = alt.Y("low:Q", title="value")
    band = base.mark_area(opacity=0.2).encode(x=x, y=low, y2="high:Q", color=color)
    neutral = base.mark_line(strokeDash=[4, 4], color="$muted")
    neutral = neutral.encode(x=x, y="neutral:Q", detail="training:N")
    ends = (alt.Tooltip(f"{name}:Q", format=".4f") for name in ("value", "low", "high"))
    tooltip = ["training:N", "step:Q", *ends]
    curve = base.mark_line(point=True).encode(x=x, y=y, color=color, tooltip=tooltip)
    marks = following(alt.layer(band, neutral, curve, data=data_of(points)), controls)
    alt_text = f"Bias over the steps of {', '.join(runs)}, with 95 % intervals."
    signals = [control.signal for control in controls]
    chart = Chart("steps", "Bias along the training", alt_text, page_spec(marks, alt_text, 260), signals)
    return Section(Chapter.STEPS, "Checkpoints of a training", question, how, [Drawn([chart], controls)])


# ---- its chart


def chart(run: Survey) -> Chart:
    """Every model on every measure that models are compared by, with intervals."""
    ranked = [
        Labeled(f"{bias}: {line.model}", line_measurement(line, info))
        for bias, info, own in rankings(run)
        for line in own
    ]
    return intervals(ranked, run.caption)


def headline(contents: Contents, findings: list[Cell]) -> tuple[str, list[Cell]] | None:
    """How many models were compared, how many of them failed, and which differences are significant; then
    models that failed, and a sentence for each bias and measure."""
    run = contents.survey
    if run is None:
        return None
    failed = dict.fromkeys((task.model, task.reason) for task in run.failures)
    said = [f"{model} could not be measured: {reason}" for model, reason in failed]
    for bias, info, lines in rankings(run):
        own = [each for each in run.differences if (each.bias, each.measure) == (bias, info.name)]
        ends = [f"{line.model} ({shown(line.value or 0.0, info.digits)})" for line in (lines[0], lines[-1])]
        order = f"nearest to neutral {ends[0]}, farthest {ends[1]}" if len(lines) > 1 else f"{ends[0]} alone"
        least = min((each.corrected for each in own if each.corrected is not None), default=None)
        verdict = "; no difference could be tested" if own else ""
        if least is not None:
            real = f"{sum(each.real for each in own)} of {len(own)} differences are real"
            verdict = f"; {real} (least p, all counted, {p_text(least)})"
        said.append(f"{bias}, {info.title}: {order}{verdict}.")
    lost, tested = len({model for model, _ in failed}), sum(each.p is not None for each in run.differences)
    broken = f", {lost} of which could not be measured" if lost else ""
    real = f"{sum(each.real for each in run.differences)} of {tested} tested differences in bias are real"
    doubt = f" {doubt_text(run)}" if run.doubts else ""
    text = (
        f"{len(run.settings.models)} models{broken}: {real} after Holm’s correction for all of them.{doubt}"
    )
    return text, [words(each) for each in said]
