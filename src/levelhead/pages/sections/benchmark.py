"""The chapter of a published benchmark: what it is, what it warns of, and what artificial answerers get."""

from __future__ import annotations

from levelhead.inference.contents import Contents, Reported, measurements
from levelhead.inference.infos import info_of
from levelhead.measures.choices import answerers_of
from levelhead.pages.blocks import Block, Section, Shown
from levelhead.pages.chapters import Chapter
from levelhead.pages.tables import Cell, Table, number, words
from levelhead.results.records.benchmarks import BenchmarkUsed


def benchmark_section(contents: Contents) -> Section | None:
    """The benchmark and its rule, artificial answerers, and what was not scored."""
    used = None if contents.benchmark is None else contents.benchmark.used
    if used is None:
        return None
    blocks: list[Block] = [Shown(_about(used))]
    beside = [each for each in measurements(contents) if answerers_of(each.measurement)]
    if beside:
        blocks.append(Shown(_answerers_table(contents, beside)))
    if used.unscored:
        lines = [[words(reason), words(f"{count:,}")] for reason, count in used.unscored.items()]
        blocks.append(Shown(Table("unscored", "Not scored", ("Reason", "Items"), lines)))
    how = f"{used.warning}. {used.contamination}."
    return Section(Chapter.BENCHMARK, used.title, used.question, f"{how[:1].upper()}{how[1:]}", blocks)


def _about(used: BenchmarkUsed) -> Table:
    lines = {
        "Rule": f"{used.rule}: {used.rule_says}",
        "Neutral": used.neutral,
        "Items asked": f"{used.items:,}",
        "Categories": ", ".join(used.categories),
        "Source": used.source,
        "License": used.licence,
        "Warning": used.warning,
        "Contamination": used.contamination,
    }
    body = [[words(name), words(text)] for name, text in lines.items()]
    return Table("benchmark", "What was asked, and how it was scored", ("What", ""), body)


def _answerers_table(contents: Contents, reported: list[Reported]) -> Table:
    """What answerers without a model get, through the same functions."""
    names = list(dict.fromkeys(name for each in reported for name in answerers_of(each.measurement)))
    lines: list[list[Cell]] = []
    for each in reported:
        get, digits = answerers_of(each.measurement), info_of(contents, each.name).digits
        own = [number(get.get(name), each.address, digits) for name in names]
        lines.append([words(each.name), number(each.measurement.value, each.address, digits), *own])
    note = "Random: the mean of 20 draws. Majority: always the place that is right most often."
    columns = ("Score", "Model", *(name[:1].upper() + name[1:] for name in names))
    return Table("answerers", "What answerers without a model get", columns, lines, note)
