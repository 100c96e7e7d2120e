"""The chapters of a survey: models ranked, which differences are real, curves over steps, what failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from levelhead.inference.claims import p_text
from levelhead.inference.contents import Contents
from levelhead.inference.doubts import doubt_text
from levelhead.inference.ranking import MOST_IN_PAIRS, compared, survey_catalog
from levelhead.measures.catalog import MeasureInfo
from levelhead.measures.measurement import Measurement
from levelhead.pages.blocks import Block, Drawn, Section, Shown
from levelhead.pages.chapters import Chapter
from levelhead.pages.charts.intervals import Labeled, intervals
from levelhead.pages.charts.steps import curve_controls, step_curves
from levelhead.pages.tables import Cell, Part, Table, measured, number, probability, shown, words
from levelhead.results.records.survey import SurveyDifference, SurveyLine
from levelhead.results.runs import SurveyRun

_SEAT = "seat"
FLOORS = (
    "SEAT of a null model need not be 0: a tokenizer that cuts the words of one side into more subword "
    "tokens gives every model some. Models that share a tokenizer share that; between models with different "
    "tokenizers a difference in SEAT may be one of tokenizers, and an audit of each says how much is its own."
)
Ranking = tuple[str, MeasureInfo, list[SurveyLine]]  # bias, measure, models in the order of their bias


def rankings(run: SurveyRun) -> Iterator[Ranking]:
    """Every bias and measure that models are compared by, with the models that have a value."""
    catalog = survey_catalog(run)
    ranked = [line for line in run.table if line.rank is not None and compared(catalog.info(line.measure))]
    for bias, measure in dict.fromkeys((line.bias, line.measure) for line in ranked):
        own = [line for line in ranked if (line.bias, line.measure) == (bias, measure)]
        yield bias, catalog.info(measure), own


def ranking_section(contents: Contents) -> Section | None:
    """A table for each bias and measure, the model nearest to neutral first, and all of it as a picture."""
    run = contents.survey
    if run is None:
        return None
    blocks: list[Block] = []
    for bias in run.settings.biases:
        own = [ranking for ranking in rankings(run) if ranking[0] == bias]
        drawn = [
            Labeled(line.model, replace(line_measurement(line, info), name=info.title))
            for _, info, lines in own
            for line in lines
        ]
        if drawn:
            chart = intervals(drawn, f"Models by their bias: {bias}")
            blocks.append(Drawn([replace(chart, name=f"ranking-{bias}")]))
        blocks += [Shown(_ranking_table(run, *ranking)) for ranking in own]
    how = (
        "The model nearest to neutral stands first. A rank alone shows little: what can be told apart stands "
        "in the last column. No rank says that a model has any bias at all: an audit holds a model "
        "against null models."
    )
    return Section(Chapter.RANKING, "Models by their bias", "Which model is nearest to neutral?", how, blocks)


def _ranking_table(run: SurveyRun, bias: str, info: MeasureInfo, lines: Sequence[SurveyLine]) -> Table:
    real = [each for each in run.differences if each.real and (each.bias, each.measure) == (bias, info.name)]
    body = [
        [
            number(line.rank),
            words(line.model),
            measured(line_measurement(line, info), digits=info.digits),
            number(line.size, digits=info.digits),
            number(line.n),
            words(", ".join(_less_biased(real, line.model))),
        ]
        for line in lines
    ]
    columns = ("Rank", "Model", "Value", "From neutral", "n", "Really more biased than")
    return Table(f"ranking-{bias}-{info.name}", f"{bias}: {info.title}", columns, body, info.reading)


def _less_biased(real: Sequence[SurveyDifference], model: str) -> Iterator[str]:
    """The models that a model is really more biased than."""
    for each in real:
        low, high = (each.first, each.second) if each.value > 0 else (each.second, each.first)
        if high == model:
            yield low


def line_measurement(line: SurveyLine, info: MeasureInfo) -> Measurement:
    """A line of the table as the measurement that it was."""
    interval = None if line.low is None or line.high is None else (line.low, line.high)
    return Measurement(info.name, line.value, interval, line.n or 0, neutral=line.neutral, reason=line.reason)


# ---- differences


def differences_section(contents: Contents) -> Section | None:
    """Models two by two: which differences are real."""
    run = contents.survey
    if run is None or not (listed := run.differences):
        return None
    catalog = survey_catalog(run)
    body = [_difference_cells(each, catalog.info(each.measure)) for each in listed]
    strong = frozenset(i for i, each in enumerate(listed) if each.real)
    tested = sum(each.p is not None for each in listed)
    columns = ("Bias and measure", "Less biased", "More biased", "By", "p", "p, all counted", "Real", "How")
    note = (
        f"A difference is real if its p is below 0.05 after Holm’s correction for all {tested} that were "
        "tested. Paired: item by item, on items that both models answered. Unpaired: from the two intervals, "
        "as a rule too wide. Models that were asked about other words are not compared."
    )
    if caveat := floors_text(run):
        note = f"{note} {caveat}"
    table = Table(
        "differences", "Models two by two", columns, body, note, folded=len(body) > 40, strong=strong
    )
    pairs = "two by two" if len(run.settings.models) <= MOST_IN_PAIRS else "each with the first of the list"
    how = (
        f"{sum(each.real for each in listed)} of {tested} differences are real. Models are compared {pairs}."
    )
    question = "Which of two models can be told to be less biased?"
    return Section(Chapter.DIFFERENCES, "Which differences are real", question, how, [Shown(table)])


def floors_text(run: SurveyRun) -> str:
    """What a difference in SEAT may also be; nothing where no models are compared by it."""
    return FLOORS if any(each.measure == _SEAT for each in run.differences) else ""


def _difference_cells(each: SurveyDifference, info: MeasureInfo) -> list[Cell]:
    less, more = (each.first, each.second) if each.value >= 0 else (each.second, each.first)
    text = shown(abs(each.value), info.digits)
    if each.low is not None and each.high is not None:
        ends = sorted((each.low, each.high) if each.value >= 0 else (-each.high, -each.low))
        text += f" [{shown(ends[0], info.digits)}, {shown(ends[1], info.digits)}]"
    return [
        words(f"{each.bias}: {info.title}"),
        words(less),
        words(more),
        Cell((Part(text),), repr(each.value), True),
        probability(each.p),
        probability(each.corrected),
        words("yes" if each.real else "not shown"),
        words("paired" if each.paired else "unpaired", each.how),
    ]


# ---- curves and failures


def steps_section(contents: Contents) -> Section | None:
    """Bias along a training, where models are checkpoints of one."""
    run = contents.survey
    catalog = None if run is None else survey_catalog(run)
    if run is None or catalog is None:
        return None
    lines = [
        line
        for line in run.table
        if line.step is not None and line.rank is not None and compared(catalog.info(line.measure))
    ]
    if not lines:
        return None
    controls = curve_controls(lines)
    question = "Does the bias grow while the model is trained?"
    how = "Models whose names tell the step of one training, with 95 % intervals. The dashed line is neutral."
    curves = Drawn([step_curves(lines, controls)], controls)
    return Section(Chapter.STEPS, "Along the training", question, how, [curves])


def failures_section(contents: Contents) -> Section | None:
    """Models that could not be asked, and measures that a model could not answer."""
    run = contents.survey
    if run is None or not (missing := [line for line in run.table if line.value is None]):
        return None
    body = [
        [words(line.model), words(line.bias), words(line.measure or "everything"), words(line.reason)]
        for line in sorted(missing, key=lambda line: line.measure != "")
    ]
    columns = ("Model", "Bias", "Not measured", "Because")
    table = Table("failures", "What was not measured", columns, body, folded=len(body) > 40)
    question = "Which models could not be asked, and what could a model not answer?"
    how = "A model that could not be asked is tried again when the survey is run again."
    return Section(Chapter.FAILURES, "What was not measured", question, how, [Shown(table)])


# ---- what is said first


def survey_findings(run: SurveyRun) -> list[Cell]:
    """Models that failed, then a sentence for each bias and measure."""
    failed = dict.fromkeys((task.model, task.reason) for task in run.failures)
    sentences = [f"{model} could not be measured: {reason}" for model, reason in failed]
    return [words(text) for text in (*sentences, *(_ranking_text(run, *each) for each in rankings(run)))]


def _ranking_text(run: SurveyRun, bias: str, info: MeasureInfo, lines: Sequence[SurveyLine]) -> str:
    own = [each for each in run.differences if (each.bias, each.measure) == (bias, info.name)]
    real = [each for each in own if each.real]
    ends = [f"{line.model} ({shown(line.value or 0.0, info.digits)})" for line in (lines[0], lines[-1])]
    order = f"nearest to neutral {ends[0]}, farthest {ends[1]}" if len(lines) > 1 else f"{ends[0]} alone"
    if not own:
        return f"{bias}, {info.title}: {order}."
    least = min((each.corrected for each in own if each.corrected is not None), default=None)
    verdict = "no difference could be tested"
    if least is not None:
        verdict = f"{len(real)} of {len(own)} differences are real (least p, all counted, {p_text(least)})"
    return f"{bias}, {info.title}: {order}; {verdict}."


def survey_headline(run: SurveyRun) -> str:
    """How many models, how many of them failed, and how many differences are real."""
    models, failed = len(run.settings.models), len({task.model for task in run.failures})
    differences = run.differences
    broken = f", {failed} of which could not be measured" if failed else ""
    tested = sum(each.p is not None for each in differences)
    real = f"{sum(each.real for each in differences)} of {tested} tested differences in bias are real"
    doubt = f" {doubt_text(run)}" if run.doubts else ""
    return f"{models} models{broken}: {real} after Holm’s correction for all of them.{doubt}"
