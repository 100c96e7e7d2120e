"""`levelhead seat`, `lpbs`, `nsp`, `nli`, `fluency`: single measures of one model."""

from __future__ import annotations

import json as json_format
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from levelhead.api.measured_settings import (
    FluencySettings,
    LpbsSettings,
    NliSettings,
    NspSettings,
    SeatSettings,
)
from levelhead.cli.app import (
    Force,
    Json,
    Loading,
    ModelName,
    loads,
    print_json,
    print_left_out,
    print_table,
    provenance,
)
from levelhead.cli.endings import NUMBERS, ending, output_file
from levelhead.errors import BadOption, CannotDo
from levelhead.escaping import escaped

if TYPE_CHECKING:
    from levelhead.measures.measurement import Measurement
    from levelhead.runs.files import CsvFile

R = TypeVar("R")

Output = Annotated[Path | None, output_file("Also write the numbers:", *NUMBERS)]
_COLUMNS = ("measure", "value", "low", "high", "n", "neutral", "floor", "p")
_FLOOR = (
    "By chance: mean ± SD over random signs, context by context. Strength is a mean of the largest, so noise "
    "alone lies above 0: read what is beyond its floor."
)


@loads
def seat(
    name: ModelName,
    settings: SeatSettings,
    csv: Annotated[
        Path | None, output_file("Write the association of every target word:", ".csv", names=("--csv",))
    ] = None,
    out: Output = None,
    force: Force = False,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """SEAT of a word list in our templates, or of the sentences of a test file."""
    from levelhead.api.measured import seat as measure
    from levelhead.models.model import load
    from levelhead.runs.common import ASSOCIATIONS_TABLE

    if csv is not None and settings.test is not None:
        raise BadOption("--csv would change nothing without a word list. Add that, or leave it out.")
    model = load(name, **loading)
    result = measure(model, replace(settings, each_word=csv is not None))
    measured = result.measurement
    write_items(csv, ASSOCIATIONS_TABLE, result.words, force)
    write_measured(out, [measured], force)
    if json:
        print_json({**provenance(model, result.data), **measured.to_json()})
    else:
        read = f", pooling {settings.pooling} ({measured.settings.get('follows')})"
        follows = "" if settings.test is None else read
        words = Path(str(settings.bias)).stem
        print(f"{model.name}, {words}: {measured}{_with_p(measured)}{follows}")
    end_measured([measured])


def _with_p(measured: Measurement) -> str:
    p = measured.p_value
    return "" if p is None else f", p {p:.2g}"


@loads
def lpbs(
    name: ModelName,
    settings: LpbsSettings,
    out: Output = None,
    force: Force = False,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Log-probability bias scores of a masked model: do the words of X raise A over B more than Y's do?"""
    from levelhead.api.measured import lpbs as measure
    from levelhead.models.model import load
    from levelhead.probes.lpbs import LpbsTemplates
    from levelhead.probes.words import load_words

    templates = settings.load()
    unusable = templates.unusable if isinstance(templates, LpbsTemplates) else ()
    tests = {test.name: test for test in map(load_words, settings.biases)}
    model = load(name, **loading)
    result = measure(model, replace(settings, biases=tuple(tests.values()), templates=templates))
    named = [replace(each, name=f"lpbs {test}") for test, each in result.measurements.items()]
    write_measured(out, named, force)
    if json:
        print_json(
            [
                {**provenance(model, {test: result.data[test]}), "test": test}
                | measured.to_json()
                | {"unusable": unusable}
                for test, measured in result.measurements.items()
            ]
        )
    else:
        for test, measured in result.measurements.items():
            x, y = tests[test].labels[2:]
            print(f"{x} against {y}: {measured}{_with_p(measured)}")
        print_left_out(unusable)
    end_measured(list(result.measurements.values()))


@loads
def nsp(
    model: Annotated[str, typer.Argument(help="A model with a next-sentence head, e.g. lh:bert-mini.")],
    settings: NspSettings,
    csv: Annotated[
        Path | None, output_file("Write the probabilities of every triple:", ".csv", names=("--csv",))
    ] = None,
    out: Output = None,
    force: Force = False,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Which sentence does the model expect next? Stereotype score, LMS, ICAT, Strength and Distance."""
    from levelhead.api.measured import nsp as measure
    from levelhead.models.model import load
    from levelhead.runs.common import TRIPLES_TABLE

    probe = settings.load()
    loaded = load(model, **loading)
    result = measure(loaded, replace(settings, triples=probe))
    write_items(csv, TRIPLES_TABLE, result.triples, force)
    write_measured(out, list(result.measurements.values()), force)
    if json:
        data = {"triples": probe.name, "problems": probe.problems, "unusable": probe.unusable}
        print_json({**provenance(loaded, result.data), **data, **result.measurements})
        return
    form = ", through its chat template" if settings.chat else ""
    _print_measures(f"{model} on {len(probe.pairs)} triples ({probe.name}){form}", result.measurements)
    print_left_out(probe.unusable)
    for reason, count in probe.problems.items():
        print(f"Without a counterfactual, or odd: {reason} ({count})")
    if csv is not None:
        print(f"Every triple: {csv}")


@loads
def nli(
    model: Annotated[str, typer.Argument(help="A three-way NLI classifier, e.g. lh:nli-mini.")],
    settings: NliSettings,
    out: Output = None,
    force: Force = False,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Does a classifier infer gender from occupation? Accuracy, parity, fairness, and plain ability."""
    from levelhead.api.measured import nli as measure
    from levelhead.models.model import load

    probe, able = settings.load(), settings.load_ability()
    loaded = load(model, **loading)
    result = measure(loaded, replace(settings, probe=probe, ability=able, words=None))
    write_measured(out, list(result.measurements.values()), force)
    if json:
        data = {"pairs": len(probe.pairs), "probe": probe.name, "ability_set": able.name}
        print_json(
            {**provenance(loaded, result.data), **data, "unusable": able.unusable, **result.measurements}
        )
        return
    pairs = f"{len(probe.pairs):,} occupation pairs ({probe.name})"
    _print_measures(f"{model} on {pairs}; ability on {able.name}", result.measurements)
    print_left_out(able.unusable)


@loads
def fluency(
    name: ModelName,
    settings: FluencySettings,
    out: Output = None,
    force: Force = False,
    json: Json = False,
    *,
    loading: Loading,
) -> None:
    """Pseudo-perplexity of a masked model, perplexity of a causal one. Lower is better."""
    from levelhead.api.measured import FLUENCY_TEXT
    from levelhead.api.measured import fluency as measure
    from levelhead.models.model import load

    model = load(name, **loading)
    result = measure(model, settings)
    measured = result.measurement
    write_measured(out, [measured], force)
    if json:
        data = {str(settings.text or "shipped"): result.data[FLUENCY_TEXT]}
        print_json({**provenance(model, data), **measured.to_json(), "limit": settings.limit})
    else:
        print(f"{model.name}: {measured}")
    end_measured([measured])


# ---- what is printed and written


def _print_measures(title: str, measurements: Mapping[str, Measurement]) -> None:
    lines = [
        (
            m.name,
            m.value,
            "-" if m.interval is None else f"{m.interval[0]:.3f} to {m.interval[1]:.3f}",
            m.n,
            m.neutral,
            "-" if m.null is None else f"{m.null.floor:.3f} ± {m.null.spread:.3f}",
        )
        for m in measurements.values()
    ]
    reasons = {f"{reason}: {n}" for m in measurements.values() for reason, n in m.unscored.items()}
    note = "Not scored: " + "; ".join(sorted(reasons)) if reasons else ""
    columns = ("measure", "value", "95 % interval", "n", "ideal", "by chance")
    shown = len(columns)
    if all(m.null is None for m in measurements.values()):
        shown -= 1  # nothing has a floor
    else:
        note = " ".join(filter(None, (_FLOOR, note)))
    print_table(title, columns[:shown], [line[:shown] for line in lines], note)


def write_measured(path: Path | None, measured: Sequence[Measurement], force: bool) -> None:
    """Write measurements in the form that the ending of a file names; bounds have columns of their own."""
    from levelhead.runs.files import csv_text
    from levelhead.safe_files import write_output

    if path is None:
        return
    if ending(path) == ".csv":
        lines: list[list[object]] = []
        for each in measured:
            low, high = each.interval or (None, None)
            floor = None if each.null is None else each.null.floor
            cells = [each.name, each.value, low, high, each.n, each.neutral, floor, each.p_value]
            lines.append(["" if cell is None else cell for cell in cells])
        text, mark = csv_text(_COLUMNS, lines), ",".join(_COLUMNS)
    elif ending(path) == ".tex":
        from levelhead.pages.renderers import LATEX_MARK, latex_table
        from levelhead.pages.tables import Table, interval, number, probability, words

        columns = ("measure", "value", "95 % interval", "n", "p")
        rows = [
            (
                words(escaped(each.name)),
                number(each.value),
                interval(each),
                number(each.n),
                probability(each.p_value),
            )
            for each in measured
        ]
        text = latex_table(Table("measured", "Values with 95 % intervals", columns, rows))
        mark = LATEX_MARK
    else:
        plain = [each.to_json() for each in measured]
        text = json_format.dumps(plain, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        mark = '"name":'
    write_output(path, escaped(text), mark, force)


def write_items(path: Path | None, table: CsvFile[R], items: Sequence[R], force: bool) -> None:
    """Write a table of single items, where a file was named."""
    from levelhead.safe_files import write_output

    if path is not None:
        text = escaped(table.text(items))
        write_output(path, text, text.partition("\n")[0], force)


def end_measured(measured: Sequence[Measurement]) -> None:
    """A model that lacks what a measure needs is an error in every command; the reason is its line."""
    reasons = dict.fromkeys(each.reason for each in measured if each.value is None)
    if measured and all(each.value is None for each in measured):
        raise CannotDo(f"Nothing was measured: {'; '.join(reasons)}.")
