"""The chapter of a published benchmark: what it is, what it warns of, and what artificial answerers get."""

from __future__ import annotations

from levelhead.inference.contents import Contents, main_scores, measurements
from levelhead.inference.verdicts import info_of
from levelhead.measures.choices import answerers_of
from levelhead.pages.blocks import Block, Section, Shown
from levelhead.pages.charts.base import Chart, Labeled, intervals
from levelhead.pages.lines import Line, measured_cells
from levelhead.pages.sections.measured import biases
from levelhead.pages.tables import Cell, Table, numbers, words
from levelhead.studies.benchmark import Benchmark


def chapters(contents: Contents) -> list[Section]:
    """The benchmark and its rule, artificial answerers, and what was not scored."""
    used = None if contents.benchmark is None else contents.benchmark.used
    if used is None:
        return []
    about = {
        "Rule": f"{used.rule}: {used.rule_says}",
        "Neutral": used.neutral,
        "Items evaluated": f"{used.items:,}",
        **({"Answers": used.answers} if used.answers else {}),
        "Categories": ", ".join(used.categories),
        "Source": used.source,
        "License": used.licence,
        "Warning": used.warning,
        "Contamination": used.contamination,
    }
    body = [[words(name), words(text)] for name, text in about.items()]
    caption = "What was evaluated, and how it was scored"
    blocks: list[Block] = [Shown(Table("benchmark", caption, ("What", ""), body))]
    if beside := [each for each in measurements(contents) if answerers_of(each.measurement)]:
        # what answerers without a model get, through the same functions
        names = list(dict.fromkeys(name for each in beside for name in answerers_of(each.measurement)))
        lines: list[list[Cell]] = []
        for each in beside:
            get, digits = answerers_of(each.measurement), info_of(contents, each.name).digits
            scores = (each.measurement.value, *map(get.get, names))
            lines.append([words(each.name), *numbers(scores, each.address, digits)])
        note = "Random: the mean of 20 draws. Majority: always the place that is right most often."
        columns = ("Score", "Model", *(name[:1].upper() + name[1:] for name in names))
        caption = "What answerers without a model get"
        blocks.append(Shown(Table("answerers", caption, columns, lines, note)))
    if used.unscored:
        left = [[words(reason), words(f"{count:,}")] for reason, count in used.unscored.items()]
        blocks.append(Shown(Table("unscored", "Not scored", ("Reason", "Items"), left)))
    how = f"{used.warning}. {used.contamination}."
    return [Section(Benchmark.name, used.title, used.question, f"{how[:1].upper()}{how[1:]}", blocks)]


# ---- its table, its chart


def lines(run: Benchmark) -> list[Line]:
    """Every score."""
    return [measured_cells(each) for each in run.measurements.values()]


def chart(run: Benchmark) -> Chart:
    """Every score with its interval."""
    return intervals([Labeled(name, each) for name, each in run.measurements.items()], run.caption)


def headline(contents: Contents, findings: list[Cell]) -> tuple[str, list[Cell]] | None:
    """The scores of all items; those of single groups stand in the table."""
    run = contents.benchmark
    if run is None or (used := run.used) is None:
        return None
    text = f"{run.model} on {used.title}, rule {used.rule}, {used.items:,} items"
    main = {each.name for each in main_scores(measurements(contents))}
    names = [each.name for each in biases(contents)]
    return text, [cell for name, cell in zip(names, findings, strict=True) if name in main]
