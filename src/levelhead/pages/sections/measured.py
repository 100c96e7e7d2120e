"""The chapter of what was measured: key numbers on their scale, then every measure before any change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from levelhead.inference.claims import evidence
from levelhead.inference.contents import Contents, Reported, main_scores, measurements
from levelhead.inference.heads_in_words import sound_row_text
from levelhead.inference.infos import claimed, info_of, verdict_of
from levelhead.inference.sizes import share, size_of
from levelhead.measures.measurement import Measurement
from levelhead.pages.blocks import Bar, Block, Card, Cards, Section, Shown
from levelhead.pages.chapters import Chapter
from levelhead.pages.examples import asked_example
from levelhead.pages.natural_units import natural_cell
from levelhead.pages.tables import Cell, Table, interval, measured, number, probability, shown, words
from levelhead.probes.token_rows import ALL_WORDS
from levelhead.results.runs import HeadsRun

_CARDS = ("seat", "ss", "strength", "fairness", "lpbs", "log_odds", "distance")
_MOST_CARDS = 6


def measured_section(contents: Contents) -> Section | None:
    """Cards for the key numbers, a table for all."""
    reported = in_reading_order(contents, measurements(contents))
    if not reported:
        return None
    blocks: list[Block] = []
    if cards := [_card(contents, each) for each in _key_measures(contents, reported)]:
        blocks.append(Cards(cards))
    blocks.append(Shown(_measures_table(contents, reported)))
    if contents.heads is not None and contents.heads.seat_rows:
        blocks.append(Shown(_seat_rows_table(contents, contents.heads)))
    question = "Does the model treat the groups differently, and by how much?"
    how = (
        "Each number comes with its 95 % interval, the colored bar, and with n, the number of items it rests "
        "on. The gray line is the neutral value, that of a model without this bias. The redder, the larger "
        "the bias; what is not significant, or was not tested, is gray, however large."
    )
    return Section(Chapter.MEASURED, "What was measured", question, how, blocks, asked_example(contents))


def in_reading_order(contents: Contents, reported: Iterable[Reported]) -> list[Reported]:
    """Measures of bias first, then those of use, each in the order in which they were asked."""
    return sorted(reported, key=lambda each: info_of(contents, each.name).side == "use")


# ---- cards


def _key_measures(contents: Contents, reported: Sequence[Reported]) -> list[Reported]:
    """The first measured one of each kind, so that three tests of one kind do not crowd out the others.

    Of a benchmark the scores of all items.
    """
    if contents.benchmark is not None:
        return [each for each in main_scores(reported) if each.measurement.value is not None][:_MOST_CARDS]
    first: dict[str, Reported] = {}
    for each in reported:
        if each.measurement.value is not None:
            first.setdefault(each.name.split()[0], each)
    return [first[name] for name in _CARDS if name in first][:_MOST_CARDS]


def _card(contents: Contents, each: Reported) -> Card:
    info, measurement, at = info_of(contents, each.name), each.measurement, each.address
    return Card(
        title=info.title,
        about=f"{info.asks} {info.reading}",
        value=number(measurement.value, at),
        bounds=interval(measurement, at),
        n=number(measurement.n, at),
        verdict="; ".join(filter(None, (verdict_of(contents, each), evidence(measurement)))),
        bar=_bar(measurement, info.scale),
        size=size_of(contents, each),
        share=round(share(info, measurement) or 0.0, 3) if claimed(contents, each) else 0.0,
    )


def _bar(measurement: Measurement, scale: tuple[float, float] | None) -> Bar | None:
    if scale is None or measurement.value is None or measurement.interval is None:
        return None
    low, high = scale

    def place(value: float) -> float:
        return round(100 * min(1.0, max(0.0, (value - low) / (high - low))), 2)

    return Bar(
        value=place(measurement.value),
        low=place(measurement.interval[0]),
        high=place(measurement.interval[1]),
        neutral=None if measurement.neutral is None else place(measurement.neutral),
        ends=(shown(int(low)), shown(int(high))),
    )


# ---- the table


def _measures_table(contents: Contents, reported: Iterable[Reported]) -> Table:
    columns = (
        "Measure",
        "Name",
        "Value",
        "95 % interval",
        "In natural units",
        "n",
        "Neutral",
        "Null models",
        "p",
        "What it says",
    )
    note = (
        "“Cannot be told from …” is not “unbiased”: more items may show a difference. Null models: what "
        "a model of this shape shows whose words mean nothing, or what chance alone gives. p: against that. "
        "In natural units: what an effect size divides by its own spread, with an interval of its own."
    )
    lines = [_measure_line(contents, each) for each in reported]
    return Table("measures", "Every measure of the unmodified model", columns, lines, note)


def _seat_rows_table(contents: Contents, run: HeadsRun) -> Table:
    """SEAT by words' numbers of tokens and by kinds of targets, and which row can be read as it is."""
    lines = []
    for row in run.seat_rows:
        measurement, at = row.measurement, contents.address(row)
        null = measurement.null
        lines.append(
            [
                words(f"{row.name} (the claim is about this row)" if row.name == ALL_WORDS else row.name),
                number(row.words, at),
                measured(measurement) if measurement.value is None else number(measurement.value, at),
                interval(measurement, at),
                number(None if null is None else null.floor, at),
                number(None if null is None else null.spread, at),
                number(None if null is None else null.least, at),
                probability(measurement.p_value, at),
            ]
        )
    columns = ("Words", "Count", "SEAT", "95 % interval", "Null mean", "Null SD", "Beyond", "p")
    note = (
        "A tokenizer that cuts one group’s words into more subword tokens gives even a null model an "
        f"association, so SEAT is held against what such models show. {sound_row_text(run)} The rows below "
        "the first three are kinds of targets. Beyond: how far other words would lie beyond null models "
        "at least (95 %, one-sided); below 0 they may not."
    )
    return Table("seat-rows", "Association by words", columns, lines, note)


def _measure_line(contents: Contents, each: Reported) -> list[Cell]:
    info, measurement, at = info_of(contents, each.name), each.measurement, each.address
    missing = measurement.value is None
    return [
        words(info.title, " ".join(part for part in (info.asks, info.reading) if part)),
        words(each.name),
        measured(measurement) if missing else number(measurement.value, at, info.digits),
        interval(measurement, at, info.digits),
        natural_cell(info, measurement),
        number(measurement.n, at),
        number(measurement.neutral, at, 1),
        number(None if measurement.null is None else measurement.null.floor, at, info.digits),
        probability(measurement.p_value, at),
        words("" if missing else verdict_of(contents, each), _asked_on(each, contents.model)),
    ]


def _asked_on(each: Reported, model: str) -> str:
    """The model where the page is about several, the data, and what could not be scored, with reasons."""
    parts = [each.model] if each.model != model else []
    parts += [f"asked on: {data}"] if (data := each.measurement.settings.get("data")) else []
    parts += [f"{n:,} not scored: {reason}" for reason, n in each.measurement.unscored.items()]
    return "; ".join(parts)
