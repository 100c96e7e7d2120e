"""Models of a survey in the order of their bias, and which of their differences are real.

    size = how far a value lies from neutral, in the direction of bias (measures/bias_size.py)
    difference = size of the second − size of the first, item by item where both kept the same items
    real: Holm's p over all differences of the survey is below 0.05

Up to 12 models are compared two by two; of more, each with the first of the list, which no number chose.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from levelhead.inference.compare_items import measured_difference
from levelhead.measures.bias_size import bias_size
from levelhead.measures.catalog import ALPHA, CATALOG, Catalog, MeasureInfo
from levelhead.measures.corrections import holm
from levelhead.measures.measurement import Measurement
from levelhead.results.records.survey import SurveyDifference, SurveyLine, SurveyTask
from levelhead.results.runs import SurveyRun
from levelhead.results.steps import training_steps

MOST_IN_PAIRS = 12  # models; of more, each is compared with the first
# Parts of other measures, or numbers on the scale of one model's outputs: in the table, but not compared.
_NOT_COMPARED = frozenset(
    {"ss", "ss_swapped", "preference", "distance", "icat", "accuracy", "parity", "strict_parity"}
)
Sizes = dict[tuple[str, str], dict[str, Measurement]]  # (bias, measure) -> model -> size of its bias


def survey_catalog(run: SurveyRun) -> Catalog:
    """The built-in measures and those of the survey's user, whose own come first."""
    return CATALOG.joined_by(*run.measures)


def compared(info: MeasureInfo) -> bool:
    """Whether models are compared by a measure: it is of bias, and no part of another one."""
    return _ranked(info) and info.name not in _NOT_COMPARED


def _ranked(info: MeasureInfo) -> bool:
    return info.side == "bias" and info.biased != "none" and info.neutral is not None


def bias_sizes(tasks: Iterable[SurveyTask], catalog: Catalog) -> Sizes:
    """How far every model lies from neutral, by bias and measure, where it has a value.

    A model that does not read plain English is neither ranked nor compared.
    """
    sizes: Sizes = {}
    for task in tasks:
        if task.doubt:
            continue
        for measurement in task.measured:
            info = catalog.info(measurement.name)
            if not _ranked(info) or measurement.value is None:
                continue
            neutral = info.neutral if measurement.neutral is None else measurement.neutral
            by_model = sizes.setdefault((task.bias, measurement.name), {})
            by_model[task.model] = bias_size(measurement, neutral or 0.0, info.biased)
    return sizes


# ---- the table


def survey_lines(run: SurveyRun) -> list[SurveyLine]:
    """Every measure of every model, bias by bias and measure by measure, the least biased model first; then
    models that could not be asked."""
    sizes = bias_sizes(run.tasks, survey_catalog(run))
    places = {pair: _ranks(by_model) for pair, by_model in sizes.items()}
    steps = training_steps(run.settings.models)
    lines = []
    for task in run.tasks:
        at = steps.get(task.model)
        blank = SurveyLine(
            bias=task.bias,
            measure="",
            model=task.model,
            run="" if at is None else at.run,
            step=None if at is None else at.step,
            value=None,
            low=None,
            high=None,
            n=None,
            neutral=None,
            size=None,
            rank=None,
            reason=task.reason or task.doubt,
        )
        for measurement in task.measured:
            pair = (task.bias, measurement.name)
            size = sizes.get(pair, {}).get(task.model)
            rank = places.get(pair, {}).get(task.model)
            lines.append(_line(blank, measurement, None if size is None else size.value, rank))
        if task.failed:
            lines.append(blank)
    return _in_order(lines, run.settings.biases)


def _line(blank: SurveyLine, measurement: Measurement, size: float | None, rank: int | None) -> SurveyLine:
    low, high = measurement.interval or (None, None)
    return replace(
        blank,
        measure=measurement.name,
        value=measurement.value,
        low=low,
        high=high,
        n=measurement.n,
        neutral=measurement.neutral,
        size=size,
        rank=rank,
        reason=measurement.reason or blank.reason,
    )


def _ranks(by_model: Mapping[str, Measurement]) -> dict[str, int]:
    """1 is nearest to neutral; equal sizes share a rank."""
    values = {model: size.value for model, size in by_model.items() if size.value is not None}
    return {model: 1 + sum(other < value for other in values.values()) for model, value in values.items()}


def _in_order(lines: Sequence[SurveyLine], biases: Sequence[str]) -> list[SurveyLine]:
    measures = list(dict.fromkeys(line.measure for line in lines if line.measure))
    places = {name: place for place, name in enumerate([*measures, ""])}

    def place(line: SurveyLine) -> tuple[int, int, float]:
        return biases.index(line.bias), places[line.measure], math.inf if line.rank is None else line.rank

    return sorted(lines, key=place)


# ---- differences


def survey_differences(run: SurveyRun) -> list[SurveyDifference]:
    """Models two by two on every measure that they are compared by, with Holm's p over all of them."""
    catalog = survey_catalog(run)
    sizes = bias_sizes(run.tasks, catalog)
    listed = [
        difference
        for (bias, measure), by_model in sizes.items()
        if compared(catalog.info(measure))
        for difference in _differences(bias, measure, by_model)
    ]
    adjusted = holm([math.nan if each.p is None else each.p for each in listed])
    return [
        each if each.p is None else replace(each, corrected=float(p), real=bool(p < ALPHA))
        for each, p in zip(listed, adjusted, strict=True)
    ]


def _differences(bias: str, measure: str, by_model: Mapping[str, Measurement]) -> Iterator[SurveyDifference]:
    for first, second in _pairs(list(by_model)):
        difference = measured_difference(by_model[first], by_model[second])
        if difference is None:  # asked on other data
            continue
        low, high = difference.interval or (None, None)
        yield SurveyDifference(
            bias=bias,
            measure=measure,
            first=first,
            second=second,
            value=difference.value,
            low=low,
            high=high,
            p=difference.p,
            corrected=None,
            real=False,
            paired=difference.paired,
            how=difference.how,
        )


def _pairs(models: Sequence[str]) -> Iterable[tuple[str, str]]:
    if len(models) <= MOST_IN_PAIRS:
        return combinations(models, 2)
    return ((models[0], other) for other in models[1:])
