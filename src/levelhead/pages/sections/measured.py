"""The chapter of what was measured: key numbers on their scale, then every measure before any change,
and beside it of what is recommended."""

from __future__ import annotations

from collections.abc import Iterable

from levelhead.inference.claims import evidence
from levelhead.inference.contents import (
    Contents,
    Reported,
    before,
    changes,
    main_scores,
    measurements,
    variants,
)
from levelhead.inference.head_claims import sound_row_text
from levelhead.inference.verdicts import claimed, info_of, share, size_of, verdict_of
from levelhead.measures.catalog import MeasureInfo
from levelhead.measures.measurement import Measurement
from levelhead.measures.seat import DIFFERENCE_HIGH, DIFFERENCE_LOW, SPREAD
from levelhead.pages.blocks import Bar, Block, Card, Cards, Section, Shown
from levelhead.pages.chapters import Chapter
from levelhead.pages.examples import measured_example
from levelhead.pages.tables import (
    Cell,
    Table,
    interval,
    measured,
    null_cells,
    number,
    probability,
    reported,
    shown,
    signed,
    words,
)
from levelhead.probes.words import ALL_WORDS
from levelhead.runs.common import BASE, SAME_ITEMS

_CARDS = ("seat", "ss", "strength", "fairness", "lpbs", "log_odds", "distance")
_MOST_CARDS = 6
_EFFECTS = {"seat": "cosine", "lpbs": "nats"}  # effect sizes, and the unit of their numerators


def measured_section(contents: Contents) -> Section | None:
    """Cards for the key numbers, a table for all."""
    reported = in_reading_order(contents, measurements(contents))
    if not reported:
        return None
    # of a benchmark the scores of all items; else the first measured one of each kind, so that three tests of
    # one kind do not crowd out the others
    known = [each for each in reported if each.measurement.value is not None]
    if contents.benchmark is not None:
        keys = [each for each in main_scores(reported) if each.measurement.value is not None]
    else:
        first = {each.name.split()[0]: each for each in reversed(known)}
        keys = [first[name] for name in _CARDS if name in first]
    cards = [_card(contents, each) for each in keys[:_MOST_CARDS]]
    blocks: list[Block] = [Cards(cards)] if cards else []
    blocks.append(Shown(_measures_table(contents, reported)))
    if (run := contents.heads) is not None and run.seat_rows:
        # SEAT by words' numbers of tokens and by kinds of targets, and which row can be read as it is
        lines = []
        for row in run.seat_rows:
            measurement, at, null = row.measurement, contents.address(row), row.measurement.null
            mean, sd, _ = null_cells(null, at)
            value = measured(measurement) if measurement.value is None else number(measurement.value, at)
            name = words(f"{row.name} (the claim is about this row)" if row.name == ALL_WORDS else row.name)
            beyond = [number(None if null is None else null.least, at), probability(measurement.p_value, at)]
            lines.append([name, number(row.words, at), value, interval(measurement, at), mean, sd, *beyond])
        columns = ("Words", "Count", "SEAT", "95 % interval", "Null mean", "Null SD", "Beyond", "p")
        note = (
            "A tokenizer that cuts one group’s words into more subword tokens gives even a null model an "
            f"association, so SEAT is compared with what such models show. {sound_row_text(run)} The rows "
            "below the first three are kinds of targets. Beyond: how far other words would lie beyond null "
            "models at least (95 %, one-sided); below 0 they may not."
        )
        blocks.append(Shown(Table("seat-rows", "Association by words", columns, lines, note)))
    question = "Does the model treat the groups differently, and by how much?"
    how = (
        "Each number comes with its 95 % interval, the colored bar, and with n, the number of items it rests "
        "on. The gray line is the neutral value, that of a model without this bias. The redder, the larger "
        "the bias; what is not significant, or was not tested, is gray, however large."
    )
    return Section(Chapter.MEASURED, "What was measured", question, how, blocks, measured_example(contents))


def in_reading_order(contents: Contents, reported: Iterable[Reported]) -> list[Reported]:
    """Measures of bias first, then those of use, each in the order in which they were evaluated."""
    return sorted(reported, key=lambda each: info_of(contents, each.name).side == "use")


# ---- cards


def _card(contents: Contents, each: Reported) -> Card:
    info, measurement, at = info_of(contents, each.name), each.measurement, each.address
    bar = None
    if info.scale is not None and measurement.value is not None and measurement.interval is not None:
        low, high = info.scale

        def place(value: float) -> float:
            return round(100 * min(1.0, max(0.0, (value - low) / (high - low))), 2)

        neutral = None if measurement.neutral is None else place(measurement.neutral)
        ends = (shown(int(low)), shown(int(high)))
        least, most = map(place, measurement.interval)
        bar = Bar(place(measurement.value), least, most, neutral, ends)
    return Card(
        title=info.title,
        about=f"{info.asks} {info.reading}",
        value=number(measurement.value, at),
        bounds=interval(measurement, at),
        n=number(measurement.n, at),
        verdict="; ".join(filter(None, (verdict_of(contents, each), evidence(measurement)))),
        bar=bar,
        size=size_of(contents, each),
        share=round(share(info, measurement) or 0.0, 3) if claimed(contents, each) else 0.0,
    )


# ---- tables


def _measures_table(contents: Contents, reported: Iterable[Reported]) -> Table:
    lines = []
    for each in reported:
        info, measurement, at = info_of(contents, each.name), each.measurement, each.address
        missing = measurement.value is None
        # the model where the page is about several, the data, and what could not be scored, with reasons
        about = [each.model] if each.model != contents.model else []
        about += [f"evaluated on: {data}"] if (data := measurement.settings.get("data")) else []
        about += [f"{n:,} not scored: {reason}" for reason, n in measurement.unscored.items()]
        line = [words(info.title, " ".join(part for part in (info.asks, info.reading) if part))]
        line += [
            words(each.name),
            measured(measurement) if missing else number(measurement.value, at, info.digits),
        ]
        line += [interval(measurement, at, info.digits)]
        line += [
            natural_cell(info, measurement),
            number(measurement.n, at),
            number(measurement.neutral, at, 1),
        ]
        line += [null_cells(measurement.null, at, info.digits)[0], probability(measurement.p_value, at)]
        lines.append([*line, words("" if missing else verdict_of(contents, each), "; ".join(about))])
    columns = (
        *("Measure", "Name", "Value", "95 % interval", "In natural units", "n", "Neutral"),
        *("Null models", "p", "What it says"),
    )
    note = (
        "“Not significantly different from …” is not “unbiased”: more items may show a difference. "
        "Null models: what a model of this shape shows whose words mean nothing, or what chance alone gives. "
        "p: against that. In natural units: what an effect size divides by its own spread, with an interval "
        "of its own."
    )
    return Table("measures", "Every measure of the unmodified model", columns, lines, note)


def natural_cell(info: MeasureInfo, measurement: Measurement) -> Cell:
    """A measure in natural units, before it is divided by its own spread; its own interval below."""
    if measurement.value is None:
        return words("")
    if info.nats:
        return words("in nats as it is")
    unit, scale = _EFFECTS.get(info.name.split()[0]), measurement.details.get(SPREAD)
    if unit is None or scale is None:
        return words("")
    ends = (measurement.details.get(DIFFERENCE_LOW), measurement.details.get(DIFFERENCE_HIGH))
    return signed(scale * measurement.value, ends, f" {unit}")


def biases(contents: Contents) -> list[Reported]:
    """Measures of bias that have a value, in reading order."""
    known = [each for each in measurements(contents) if each.measurement.value is not None]
    return [each for each in in_reading_order(contents, known) if info_of(contents, each.name).side == "bias"]


def changes_section(contents: Contents) -> Section | None:
    """Every measure before and after the recommended mitigation; the unmodified model alone without one.

    One column per variant; below a measure, its change item by item where the audit has one.
    """
    audit = contents.audit
    if audit is None or audit.settings.quick or not audit.finished:
        return None
    names = [name for name in variants(contents) if name not in (BASE, SAME_ITEMS)]
    after = [{each.name: each for each in measurements(contents, variant)} for variant in names]
    paired = [changes(contents, variant) for variant in names]
    lines: list[list[Cell]] = []
    for unmodified in in_reading_order(contents, before(contents)):
        if unmodified.measurement.value is None:
            continue
        name, info = unmodified.name, info_of(contents, unmodified.name)
        others = [reported(each.get(name), info.digits) for each in after]
        lines.append([words(info.title), reported(unmodified, info.digits), *others])
        if any(name in each for each in paired):
            differences = [reported(each.get(name)) for each in paired]
            lines.append([words(f"{info.title}: paired change"), words(None), *differences])
    columns = ["Measure", "Before" if names else "Unmodified", *(f"After: {variant}" for variant in names)]
    note = "Values with 95 % intervals."
    how = "No mitigation is certified, so the unmodified model stands alone."
    if names:
        note += (
            " Where two intervals overlap widely, no change is shown. A paired change is computed item by "
            "item on the same probes; that of fluency is the ratio after to before, so 1 means no cost."
        )
        how = (
            "The same measures again on the recommended mitigation, and on the unmodified model, on items "
            "that it was neither fitted nor ordered on. Whether it is certified stands under Mitigations."
        )
    table = Table("before-after", "Every measure, before and after", columns, lines, note)
    question = "What does the recommended mitigation change?"
    return Section(Chapter.CHANGES, "Before and after", question, how, [Shown(table)])
