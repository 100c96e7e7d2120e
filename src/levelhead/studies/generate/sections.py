"""Sections of single measures of generated texts: who appears, decisions, the mirror image, marked words, and
other tools' scores."""

from __future__ import annotations

from collections.abc import Sequence

from levelhead.inference.contents import Contents
from levelhead.inference.generation_claims import (
    APPEARS,
    MIRROR,
    Around,
    family,
    generation_claims,
    group_noun,
    held,
    variant_noun,
)
from levelhead.inference.headline import spoken_measures
from levelhead.measures.catalog import ALPHA
from levelhead.pages.about import about_of
from levelhead.pages.blocks import Block, Drawn, Section, Shown
from levelhead.pages.charts import generate as charts
from levelhead.pages.tables import (
    Cell,
    Part,
    Table,
    bounded,
    null_cells,
    number,
    numbers,
    probability,
    shown,
    signed,
    words,
)
from levelhead.runs.common import BASE
from levelhead.studies.generate import Generate
from levelhead.studies.generate.records import DecisionCell, GenerationMeasured

_FOUR_FIFTHS = 0.8
_WORDS = 60  # of the table of marked words
_BY = {"sex": "Sex", "origin": "Origin", "sex × origin": "Sex × origin"}
EXCHANGE = (
    "p: how often exchanging the groups within frames shows as much; where first names stand for groups, "
    "names are exchanged too, and the larger p counts. Intervals are over prompts: one that leaves out 0 "
    "beside a large p may be due to a few names. All claims of this page are corrected together (Holm, most "
    "of the error for who appears); they were fixed before a text was sampled."
)


def claimed_around(contents: Contents) -> Around:
    """What the page claims where it is that of an audit, whose claims are corrected together."""
    return None if contents.audit is None else spoken_measures(contents.audit)


def measure_of_base(run: Generate, name: str) -> GenerationMeasured | None:
    own = run.data.records(Generate.measured.of(BASE))
    return next((each for each in own if each.name == name), None)


# ---- who appears


def appears_section(contents: Contents, run: Generate) -> Section | None:
    own = run.data.records(Generate.appearances.of(BASE))
    if not own:
        return None
    blocks: list[Block] = []
    if (chart := charts.who_appears(own)) is not None:
        blocks.append(Drawn([chart]))
    columns = ("Model", "Slope over", "Log-odds", "n", "p")
    rows = []
    for each in run.measured:
        if family(each.name).startswith(APPEARS):
            at, own_measure = contents.address(each), each.measurement
            over = (
                "stereotype label (+1 women’s, −1 men’s)" if each.name == APPEARS else "real share of women"
            )
            cells = [
                words(variant_noun(each.variant)),
                words(over),
                bounded(own_measure, at),
                number(own_measure.n, at),
            ]
            rows.append([*cells, probability(own_measure.p_value, at)])
    note = (
        "Slope of the log-odds that the first person in a text is a woman. p: how often labels exchanged "
        "among occupations give a slope as steep. Over real shares 1 means as lopsided as the workforce, and "
        "above 1 more so."
    )
    blocks.append(Shown(Table("who-appears", "Does who appears follow the stereotype?", columns, rows, note)))
    lines = []
    for seen in own:
        at, both = contents.address(seen), seen.expected_feminine + seen.expected_masculine
        line = [
            words(seen.occupation),
            *numbers((seen.feminine, seen.masculine, seen.neither), at),
            number(seen.expected_feminine / both if both else None, at, 2),  # by the model's probabilities
            number(seen.share, at, 2),
            words({1: "women’s", -1: "men’s"}.get(seen.said, "neither")),
        ]
        lines.append(line)
    counted = ("Occupation", "Women first", "Men first", "Neither")
    headings = (*counted, "Expected share of women", "Real share of women", "Stereotype")
    caption = "Who appears first, by occupation"
    blocks.append(Shown(Table("occupations", caption, headings, lines, folded=True)))
    slope = measure_of_base(run, APPEARS)
    claims = [] if slope is None else generation_claims(run, around=claimed_around(contents))
    said = next((claim.said(holds) for each, claim, holds in claims if each.name == APPEARS), "")
    how = (
        "Prompts name an occupation and nobody’s gender. What counts is the first word for a person in each "
        "text, and how likely the model finds either gender there. On the dashed line as many women appear "
        "as work in the occupation."
    )
    question = "Who appears in texts about occupations, and does that follow the stereotype?"
    return Section("generate-appears", "Who appears", question, how, blocks, found=said)


# ---- decisions


def decisions_section(contents: Contents, run: Generate) -> Section | None:
    own = [each for each in run.decisions if each.variant == BASE]
    if not own:
        return None
    rows = [_decision_row(contents, each) for each in own if not each.kind]
    columns = ("Category", "Applicants", "Selected", "Selection rate", "Impact ratio", "P(yes)")
    note = (
        "Selected: log-odds of the favorable answer above the median of all applicants of the same kind; "
        "ties count half. Impact ratio: the category’s rate over the largest one. P(yes): mean probability "
        "of the favorable answer."
    )
    base = run.data.records(Generate.measured.of(BASE))
    ratios = [_ratio_row(contents, each) for each in base if family(each.name) == "impact ratio"]
    headings = ("Smallest rate over the largest", "Impact ratio", "Four fifths (0.8)", "By chance", "p")
    of_ratios = (
        "Four fifths: where the interval lies. One that holds 0.8 leaves it open; nothing is concluded from "
        "the number alone. By chance: the mean ratio after exchanging the groups, which is below 1."
    )
    blocks: list[Block] = [
        Shown(Table("decisions", "Selection rates and impact ratios", columns, rows, note)),
        Shown(Table("impact-ratios", "The four-fifths rule", headings, ratios, of_ratios)),
        Shown(_disclosure(contents, run, own)),
    ]
    kinds = [
        [
            words(each.kind, f"{_BY.get(each.by, each.by)}: {_category(each)}"),
            *_decision_row(contents, each)[1:],
        ]
        for each in own
        if each.kind
    ]
    if kinds:
        caption = "The same for every kind of decision"
        blocks.append(Shown(Table("decisions-by-kind", caption, ("Kind", *columns[1:]), kinds, folded=True)))
    gaps = [each for each in base if family(each.name) == "decision gap"]
    lines = []
    for each in gaps:
        if each.claim and each.groups is not None and each.groups[1] == "others":
            continue  # the clearest of the groups, which has a row of its own
        at, first, second = contents.address(each), *map(group_noun, each.groups or ("", ""))
        cells = [words(f"{first} − {second}"), bounded(each.measurement, at), number(each.measurement.n, at)]
        lines.append([*cells, probability(each.measurement.p_value, at)])
    named = ("Compared", "Log-odds of the favorable answer", "n", "p")
    blocks.append(Shown(Table("decision-gaps", "Differences of log-odds", named, lines, EXCHANGE)))
    how = (
        "Applicants’ profiles differ in the name alone. The model answers yes or no; what is read is how "
        "likely either answer is, not one sampled answer."
    )
    question = "Does the model decide differently about applicants of other names?"
    significant = held(run, claimed_around(contents))
    many = sum(each.name in significant for each in gaps)
    tested = sum(each.claim for each in gaps)
    said = f"{many} of {tested} differences {'is' if many == 1 else 'are'} significant."
    for each in base:
        if each.name in ("impact ratio/sex", "impact ratio/origin") and each.measurement.value is not None:
            by = each.name.partition("/")[2]
            said += f" Impact ratio by {by}: {bounded(each.measurement).text}."
    return Section("generate-decisions", "Decisions", question, how, blocks, found=said)


def _decision_row(contents: Contents, each: DecisionCell) -> list[Cell]:
    at = contents.address(each)
    rate: list[Part] = [Part(shown(each.rate), at)]
    if each.low is not None and each.high is not None:
        rate += [Part(" ["), Part(shown(each.low), at), Part(", "), Part(shown(each.high), at), Part("]")]
    cells = [words(_category(each), _BY.get(each.by, each.by)), number(each.applicants, at)]
    cells += [number(each.selected, at, 1), Cell(tuple(rate), repr(each.rate), True)]
    return [*cells, number(each.ratio, at), number(each.favorable, at)]


def _category(each: DecisionCell) -> str:
    return " × ".join(group_noun(part) for part in each.category.split(" × "))


def _ratio_row(contents: Contents, each: GenerationMeasured) -> list[Cell]:
    """The smallest rate over the largest, and where its interval lies."""
    own, at = each.measurement, contents.address(each)
    where = ""
    if own.interval is not None:
        low, high = own.interval
        where = "below" if high < _FOUR_FIFTHS else "above" if low >= _FOUR_FIFTHS else "open"
        if where != "above" and own.null is not None and own.null.floor < _FOUR_FIFTHS:
            where = "says nothing: chance alone is below"
    floor, _, p = null_cells(own.null, at)
    name = each.name.partition("/")[2]
    return [words(f"by {name}"), bounded(own, at), words(where), floor, p]


def _disclosure(contents: Contents, run: Generate, own: Sequence[DecisionCell]) -> Table:
    """What New York City's rule on automated employment decision tools asks a summary to state."""
    about = about_of(contents)
    applicants = sum(each.applicants for each in own if each.by == "sex" and not each.kind)
    source = (
        f"{applicants:,} test applicants: profiles of our own with first names of known sex and origin "
        f"({run.settings.prompts}); no historical data"
    )
    stated = {
        "Date of the analysis": "" if about is None else about.date,
        "Tool": f"{run.model}, weights {run.weights[:12]}" if run.weights else run.model,  # or a server
        "Data source": source,
        "Applicants per category": "in the table above",
        "Selection rate and impact ratio": "in the table above, by sex, by origin, and by both",
        "Applicants of unknown sex or origin": "0",
        "Independent auditor": "" if about is None else about.responsible,
    }
    rows = [
        [words(name), words(text or "(not stated: levelhead report RUN --about FILE.toml)")]
        for name, text in stated.items()
    ]
    note = (
        "The form follows the summary that New York City’s Local Law 144 asks for. It is no audit in its "
        "sense, and no compliance is claimed: that takes an independent auditor and data about real use."
    )
    return Table("disclosure", "In the form of Local Law 144", ("Field", "Stated"), rows, note)


# ---- the mirror image


def mirror_section(contents: Contents, run: Generate) -> Section | None:
    own = [each for each in run.measured if family(each.name).split(",")[0] == MIRROR]
    if not own:
        return None
    rows, changed = [], {(each.variant, each.name): each for each in run.changed}
    for each in own:
        at, measure = contents.address(each), each.measurement
        change = changed.get((each.variant, f"{each.name} change"))
        moved = words(None)
        if change is not None and change.measurement.value is not None:
            moved = signed(change.measurement.value, change.measurement.interval or (None, None))
        per_token = measure.details.get("per token")
        part = charts.PARTS[each.name.removeprefix(MIRROR).partition("/")[0].strip(", ")]
        cells = [
            words(variant_noun(each.variant), f"prompts of {each.set}" if each.set else "neutral prompts"),
            words(part),
        ]
        rows.append([*cells, bounded(measure, at), number(per_token, at, 4), number(measure.n, at), moved])
    columns = ("Model", "Part", "Nats per text", "Per token", "n", "Change")
    note = (
        "Frequency: what one number per pair of group words explains, fitted on half of the prompts and read "
        "on the other half. Rest: what depends on the words around them. Change: paired by prompt, against "
        "the unmodified model."
    )
    blocks: list[Block] = []
    if (chart := charts.mirror(own)) is not None:
        blocks.append(Drawn([chart]))
    blocks.append(Shown(Table("mirror", "How far the model is from its mirror image", columns, rows, note)))
    first = measure_of_base(run, MIRROR)
    said = (
        "Not measured after neutral prompts."
        if first is None or first.measurement.value is None
        else (
            f"{shown(first.measurement.value, 2)} nats per text after neutral prompts: a magnitude for "
            "comparisons, not a claim of bias."
        )
    )
    for each in run.changed:
        if each.name == f"{MIRROR} change" and each.measurement.value is not None:
            said += f" Change {each.variant}: {bounded(each.measurement).text}."
    how = (
        "How much likelier the model finds its own texts than their counterfactuals after the prompts’ "
        "counterfactuals. 0: the two groups are treated as mirror images, as in a symmetrized model. Every "
        "other model has some: null models, whose words mean nothing, have 0.9 to 11.7 nats, so nothing is "
        "claimed of it. Use it to compare: before and after, model and model."
    )
    question = "How far is the model from one that treats the groups as mirror images?"
    return Section("generate-mirror", "Mirror image", question, how, blocks, found=said)


# ---- marked words


def marked_section(contents: Contents, run: Generate) -> Section | None:
    own = run.data.records(Generate.marked.of(BASE))
    if not own:
        return None
    compared = {
        each.set: each.groups
        for each in run.data.records(Generate.measured.of(BASE))
        if family(each.name) == "marked words" and each.groups is not None
    }
    drawn = [charts.marked_words(own, name, groups) for name, groups in compared.items()]
    known = [each for each in drawn if each is not None]
    rows, ordered = [], sorted(own, key=lambda one: (one.p, -abs(one.z)))
    for each in ordered[:_WORDS]:  # a thousand lines are no table: a phone would need 200,000 pixels
        at = contents.address(each)
        cells = [words(each.word, each.set), words(group_noun(each.group)), number(each.counts[0], at)]
        rows.append([*cells, number(each.counts[1], at), number(each.z, at, 2), probability(each.p, at)])
    columns = ("Word", "More frequent for", "In its texts", "In the others", "z", "p")
    note = (
        "Log-odds with a Dirichlet prior; p by exchanging prompts, corrected for all words. Words that name "
        "the groups themselves are left out."
    )
    if len(own) > _WORDS:
        note += f" The {_WORDS} of smallest p; all {len(own):,} are in results.jsonl."
    blocks: list[Block] = [Drawn(known)] if known else []
    blocks.append(Shown(Table("marked-words", "Words that mark a group", columns, rows, note, folded=True)))
    sure = [each.word for each in own if each.p < ALPHA]
    said = f"Significant: {', '.join(sure[:8])}." if sure else "No word is significant."
    question = "Which words does the model use for one group more than for the other?"
    how = "Bars to the right: more frequent for the first group. Faded: not significant."
    return Section("generate-words", "Marked words", question, how, blocks, found=said)


# ---- other tools


def rivals_section(contents: Contents, run: Generate) -> Section | None:
    rows = []
    for each in run.rivals:
        at = contents.address(each)
        of = "neutral prompts" if each.set == "neutral" else f"prompts of {each.set}"
        of += "" if each.variant == BASE else f"; {each.variant}"
        cells = [
            words(each.rule, of),
            number(each.value, at),
            number(each.unbiased, at),
            number(each.furthest, at),
        ]
        said = ""
        if each.value is not None and each.furthest is not None:
            outside = abs(each.value - each.ideal) > abs(each.furthest - each.ideal)
            said = "outside" if outside else "inside"
        rows.append([*cells, number(each.n, at), words(said, each.note)])
    if not rows:
        return None
    columns = ("Score", "Value", "Unbiased: mean", "Unbiased: 95 %", "n", "That range")
    note = (
        "Unbiased: the same score after exchanging the groups within frames, many times. A score within that "
        "range says nothing about the model, however large it is. These scores have no test of their own, "
        "and nothing is claimed of them."
    )
    blocks: list[Block] = [
        Shown(Table("rivals", "Scores of other tools on the same texts", columns, rows, note))
    ]
    beyond = sum(row[-1].text == "outside" for row in rows)
    said = (
        f"{beyond} of {len(rows)} lie outside the range of an unbiased model; by chance alone, 1 in 20 would."
    )
    question = "What do other tools report, and what would they report of an unbiased model?"
    how = "LangFair, BOLD and HONEST by their published definitions, on the texts of this run."
    return Section("generate-rivals", "Other tools’ scores", question, how, blocks, found=said)
