"""The counter-stereotype experiment: contrasts tested by cluster, then the paper's t-tests."""

from __future__ import annotations

from levelhead.inference.contents import Contents
from levelhead.inference.counter import DIGITS
from levelhead.pages.blocks import Block, Drawn, Shown
from levelhead.pages.charts import heads as charts
from levelhead.pages.tables import Cell, Table, bounded, number, probability, words
from levelhead.results.records.heads import CounterContrast, CounterTest
from levelhead.results.runs import HeadsRun

_HEADS = {"biased - regular": "biased less regular heads", "biased": "biased heads alone"}


def counter_blocks(contents: Contents, run: HeadsRun) -> list[Block]:
    """The main number and its parts, attention in both versions as a chart, and the paper's t-tests."""
    blocks: list[Block] = []
    if run.contrasts:
        blocks.append(Shown(_contrasts_table(contents, run)))
    if known := [test for test in run.counter if test.measurement.value is not None]:
        blocks.append(Drawn([charts.counter(known)]))
    if run.counter:
        blocks.append(Shown(_tests_table(contents, run)))
    return blocks


def _contrasts_table(contents: Contents, run: HeadsRun) -> Table:
    group = "the first group’s" if run.words is None else run.words.labels[0]
    parts = {
        "whole": "the whole change",
        "stereotype": "what the stereotype does",
        "group words": f"looking at {group} words, whatever is said",
    }
    lines = [
        _contrast_line(each, f"{_HEADS[each.heads]}: {parts[each.part]}", contents.address(each))
        for each in run.contrasts
    ]
    note = (
        "How far attention from the target word to the group word falls when the stereotype is turned. The "
        "first line is the experiment’s main number, and the only one that a claim rests on. p: two-sided, "
        "the largest of t-tests and sign flips that count templates, pairs of group words or targets as the "
        "items. The two parts are its sides’ mean and half of their difference."
    )
    columns = ("Heads and part", "Change", "p", "Sentences")
    return Table("counter-contrasts", "Do biased heads follow the stereotype?", columns, lines, note)


def _contrast_line(each: CounterContrast, name: str, at: str) -> list[Cell]:
    measurement = each.measurement
    return [
        words(name),
        bounded(measurement, at, DIGITS),
        probability(None if measurement.null is None else measurement.null.p_value, at),
        number(measurement.n, at),
    ]


def _tests_table(contents: Contents, run: HeadsRun) -> Table:
    """Both groups of heads, on all sentences and on the originals of either side alone."""
    labels = ("A", "B") if run.words is None else run.words.labels
    sides = {"": "", "A": f", {labels[0]} originals", "B": f", {labels[1]} originals"}
    tests = (*run.counter, *run.counter_sides)
    lines = [_test_line(test, sides[test.side], contents.address(test)) for test in tests]
    lost = {reason: n for test in run.counter for reason, n in test.measurement.unscored.items()}
    note = (
        "Attention from the target word to the attribute word, in stereotypes and in the same sentences "
        "turned around. p: one-tailed, that attention falls. Sentences share templates and words, and this "
        "p counts them as independent: it is too small, and nothing is claimed of it. Lost sentences: "
        f"{'; '.join(f'{n:,} {reason}' for reason, n in lost.items()) or 'none'}."
    )
    columns = ("Heads", "Original", "Counter", "Change", "t", "p", "Sentences")
    return Table("counter-stereotypes", "Counter-stereotypes: the paper’s t-tests", columns, lines, note)


def _test_line(test: CounterTest, side: str, at: str) -> list[Cell]:
    measurement, details = test.measurement, test.measurement.details
    return [
        words(f"{test.group} heads{side}"),
        number(details.get("mean_original"), at, 4),
        number(details.get("mean_counter"), at, 4),
        bounded(measurement, at, 4),
        number(details.get("t"), at, 2),
        probability(details.get("p_value"), at),
        number(measurement.n, at),
    ]
