"""Models of a survey in the order of their bias, and which of their differences are real.

    size = how far a value lies from neutral, in the direction of bias (measures/bias_size.py)
    difference = size of the second − size of the first, item by item where both kept the same items
    real: Holm's p over all differences of the survey is below 0.05

Up to 12 models are compared two by two; of more, each with the first of the list, which no number chose.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

from levelhead.inference.comparing import measured_difference
from levelhead.measures.catalog import ALPHA, CATALOG, Catalog, MeasureInfo, bias_size
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import holm
from levelhead.runs.common import training_steps
from levelhead.studies.survey import Survey
from levelhead.studies.survey.records import SurveyDifference, SurveyLine, SurveyTask

MOST_IN_PAIRS = 12  # models; of more, each is compared with the first
# Parts of other measures, or numbers on the scale of one model's outputs: in the table, but not compared.
_NOT_COMPARED = frozenset(
    {"ss", "ss_swapped", "preference", "distance", "icat", "accuracy", "parity", "strict_parity"}
)
Sizes = dict[tuple[str, str], dict[str, Measurement]]  # (bias, measure) -> model -> size of its bias


def compared(info: MeasureInfo) -> bool:
    """Whether models are compared by a measure: it is of bias, and no part of another one."""
    return _ranked(info) and info.name not in _NOT_COMPARED


def _ranked(info: MeasureInfo) -> bool:
    return info.side == "bias" and info.biased != "none" and info.neutral is not None


def _bias_sizes(tasks: Iterable[SurveyTask], catalog: Catalog) -> Sizes:
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


def survey_lines(run: Survey) -> list[SurveyLine]:
    """Every measure of every model, bias by bias and measure by measure, the least biased model first; then
    models that could not be evaluated."""
    sizes = _bias_sizes(run.tasks, CATALOG.joined_by(*run.measures))
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
            by_model = sizes.get((task.bias, measurement.name), {})
            own = by_model[task.model].value if task.model in by_model else None
            others = [size.value for size in by_model.values() if size.value is not None]
            low, high = measurement.interval or (None, None)
            line = replace(
                blank,
                measure=measurement.name,
                value=measurement.value,
                low=low,
                high=high,
                n=measurement.n,
                neutral=measurement.neutral,
                size=own,
                # 1 is nearest to neutral; equal sizes share a rank.
                rank=None if own is None else 1 + sum(other < own for other in others),
                reason=measurement.reason or blank.reason,
            )
            lines.append(line)
        if task.failed:
            lines.append(blank)
    measures = list(dict.fromkeys(line.measure for line in lines if line.measure))
    places = {name: place for place, name in enumerate([*measures, ""])}
    biases = run.settings.biases
    return sorted(lines, key=lambda x: (biases.index(x.bias), places[x.measure], x.rank or math.inf))


# ---- differences


def survey_differences(run: Survey) -> list[SurveyDifference]:
    """Models two by two on every measure that they are compared by, with Holm's p over all of them."""
    catalog = CATALOG.joined_by(*run.measures)
    listed = []
    for (bias, measure), by_model in _bias_sizes(run.tasks, catalog).items():
        if not compared(catalog.info(measure)):
            continue
        models = list(by_model)
        pairs: Iterable[tuple[str, str]] = combinations(models, 2)
        if len(models) > MOST_IN_PAIRS:
            pairs = ((models[0], other) for other in models[1:])
        for first, second in pairs:
            difference = measured_difference(by_model[first], by_model[second])
            if difference is None:  # evaluated on other data
                continue
            low, high = difference.interval or (None, None)
            line = SurveyDifference(
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
            listed.append(line)
    adjusted = holm([math.nan if each.p is None else each.p for each in listed])
    return [
        each if each.p is None else replace(each, corrected=float(p), real=bool(p < ALPHA))
        for each, p in zip(listed, adjusted, strict=True)
    ]
