"""The chapter of the heads study: where the bias sits, whether the scores tell the truth, and whether biased
heads follow the stereotype."""

from __future__ import annotations

from collections.abc import Iterable

from levelhead.inference.contents import Contents, arcs
from levelhead.inference.head_claims import (
    CROSS_FITTED_TITLES,
    DIGITS,
    clear_heads_text,
    sources_text,
    study_sentences,
    untested_heads_text,
)
from levelhead.inference.verdicts import info_of
from levelhead.pages.blocks import Block, Drawn, HeadCell, HeadMap, Points, Section, Shown
from levelhead.pages.charts import heads as charts
from levelhead.pages.charts.base import Chart
from levelhead.pages.charts.heads import heat_map, write_figures
from levelhead.pages.examples import arcs_example, first_arcs
from levelhead.pages.lines import Line, line_of
from levelhead.pages.tables import (
    Cell,
    Table,
    bounded,
    measured,
    null_cells,
    number,
    numbers,
    probability,
    shown,
    words,
)
from levelhead.studies.heads import Heads
from levelhead.studies.heads.records import RandomMeasured, StrategyMeasured

_TITLED = ("seat", "fluency")  # measures whose columns have room for a title


def chapters(contents: Contents) -> list[Section]:
    """Where the bias sits: the map, its arcs, the distribution, and whether the scores tell the truth."""
    run = contents.heads
    if run is None or not run.scores:
        return []
    blocks: list[Block] = [Points([words(text) for text in study_sentences(run)])]
    if run.cross_fit:
        # whether heads found on half of the words hold on the other half, which all else here rests on
        held = []
        for each in run.cross_fit:
            at = contents.address(each)
            value = measured(each) if each.value is None else number(each.value, at)
            title = CROSS_FITTED_TITLES.get(each.name, each.name)
            held.append([words(title), value, *null_cells(each.null, at)])
        scored = len({fit.null_model for fit in run.cross_fits} - {None})
        note = (
            f"{run.settings.splits} splits of the words into halves, on the first context of each word; "
            f"{scored} null models on the same splits. {clear_heads_text(run)}"
        )
        columns = ("On other words", "Value", "Null models", "Null SD", "p")
        blocks.append(Shown(Table("other-words", "Heads on held-out words", columns, held, note)))
    pairs = arcs(contents)
    largest = max(abs(each.score) for each in run.scores)
    tests = {each.head: each for each in run.counter_heads}
    layers: dict[int, list[HeadCell]] = {}
    for score in run.scores:
        text = f"Layer {score.head.layer + 1}, head {score.head.head + 1}: score {shown(score.score, 4)}"
        if score.held is not None:
            text += f", of which {shown(score.held, 4)} holds on other words"
        if score.p is not None:
            text += f", p {probability(score.p).text}{' (clear)' if score.clear else ''}"
        share = round(score.score / largest, 3) if largest else 0.0
        test = tests.get(score.head)
        change, sentences = (None, 0) if test is None else (test.difference, test.n)
        layers.setdefault(score.head.layer, []).append(HeadCell(score.head, text, share, change, sentences))
    ordered = [layers[layer] for layer in sorted(layers, reverse=True)]
    blocks += [
        HeadMap(ordered, shown(largest, 3), pairs, first_arcs(run, pairs)),
        Drawn([charts.distribution(run.scores)]),
    ]
    if run.removals:
        blocks.append(Drawn([charts.ablation(run.scores, run.removals)]))
    if (rho := run.agreement) is not None:
        at = contents.address(rho)
        note = "1: the scores rank heads exactly as removing each of them does. 0: they say nothing about "
        note += "removal."
        line = [words("Spearman’s rho of score and drop of |SEAT|"), measured(rho, at), number(rho.n, at)]
        line.append(probability(rho.details.get("p_value"), at))
        header = ("Measure", "Value", "Heads", "p")
        blocks.append(
            Shown(Table("agreement", "Agreement of scores with ablation, head by head", header, [line], note))
        )
    blocks += [*_counter(contents, run), Shown(_scores_table(contents, run)), *_debiasing(contents, run)]
    question = "Which parts of the model carry the association, and do they follow the stereotype?"
    how = (
        "Every square is an attention head. Its score is how fast the association grows when the head is "
        "amplified: red heads add to it, blue ones work against it, pale ones hardly matter. Choose a head "
        "to see where it looks from the target word, in a stereotype and in the same sentence with the "
        "stereotype reversed."
    )
    return [Section(Heads.name, Heads.title, question, how, blocks, arcs_example(contents))]


def _debiasing(contents: Contents, run: Heads) -> list[Block]:
    """What gating heads buys and costs: the trade as a chart, Table 1 and Table 3 of the paper, and learned
    gates beside the best top-k that costs no more."""
    blocks: list[Block] = []
    if (trade := charts.tradeoff(run)) is not None:
        blocks.append(Drawn([trade]))
    strategies: list[StrategyMeasured | RandomMeasured] = [*run.strategies, *run.random_strategies]
    if strategies:
        caption, note = (
            "Effects of ablated heads",
            "Random strategies: mean over seeds with its interval.",
        )
        blocks.append(Shown(_strategies_table(contents, strategies, "strategies", caption, note)))
    if run.top_sweep:
        caption = "Removing more and more of the most biased heads"
        note = "The last row removes every head with a score above 0."
        blocks.append(Shown(_strategies_table(contents, run.top_sweep, "more-heads", caption, note)))
    if run.tradeoffs:
        lines = []
        for each in run.tradeoffs:
            at, rival = contents.address(each), each.rival
            beside = [words(None)] * 3
            if rival is not None:
                beside = [words(rival.strategy), *numbers((rival.abs_seat, rival.ratio), at)]
            lines.append([words(each.strategy), *numbers((each.abs_seat, each.ratio), at), *beside])
        rival_columns = ("Best top-k that costs no more", "Its |SEAT|", "Its ratio")
        columns = ("Gates", "|SEAT|", "Perplexity ratio", *rival_columns)
        note = "Gates in [0, 2] that minimize |SEAT| while perplexity grows at most by the factor given."
        blocks.append(Shown(Table("learned-gates", "Learned gates against removal", columns, lines, note)))
    return blocks


# ---- scores


def _scores_table(contents: Contents, run: Heads) -> Table:
    removals = {removal.head: removal for removal in run.removals}
    lines = []
    for score in run.ranked:
        at = contents.address(score)
        cells = [words(score.head), number(score.rank, at)]
        cells += [*numbers((score.score, score.stderr, score.held), at, 4), probability(score.p, at)]
        cells.append(words("clear" if score.clear else ""))
        if removals:
            removal = removals.get(score.head)
            change = None if removal is None else removal.change
            cells.append(number(change, contents.address(removal), 4))
        lines.append(cells)
    columns = ["Head", "Rank", "Score", "Standard error, these words", "Holds on other words", "p", "Clear"]
    columns += ["Change of |SEAT| when removed"] if removals else []
    note = (
        "Score and standard error are those of these words: other words move them farther. Holds: what two "
        "halves of the words both say. p: against the largest such value in null models, so it is "
        f"corrected for the number of heads. {clear_heads_text(run)} {sources_text(run)}"
    )
    return Table("heads", f"All {len(lines)} heads, most biased first", columns, lines, note, folded=True)


# ---- the counter-stereotype experiment: contrasts tested by cluster, then the paper's t-tests


def _counter(contents: Contents, run: Heads) -> list[Block]:
    """Contrasts; then both groups of heads, on all sentences and on the originals of either side alone."""
    blocks: list[Block] = []
    if run.contrasts:
        group = "the first group’s" if run.words is None else run.words.labels[0]
        heads = {"biased - regular": "biased less regular heads", "biased": "biased heads alone"}
        parts = {
            "whole": "the whole change",
            "stereotype": "what the stereotype does",
            "group words": f"looking at {group} words, whatever is said",
        }
        lines = []
        for each in run.contrasts:
            at, measurement = contents.address(each), each.measurement
            _, _, p = null_cells(measurement.null, at)
            name = words(f"{heads[each.heads]}: {parts[each.part]}")
            lines.append([name, bounded(measurement, at, DIGITS), p, number(measurement.n, at)])
        note = (
            "How far attention from the target word to the group word falls when the stereotype is reversed. "
            "The first line is the experiment’s main number, and the only one that a claim rests on. p: "
            "two-sided, the largest of t-tests and sign flips that count templates, pairs of group words or "
            "targets as the items. The two parts are its sides’ mean and half of their difference."
        )
        columns = ("Heads and part", "Change", "p", "Sentences")
        caption = "Attention in stereotypes and reversed stereotypes"
        blocks.append(Shown(Table("counter-contrasts", caption, columns, lines, note)))
    if known := [test for test in run.counter if test.measurement.value is not None]:
        blocks.append(Drawn([charts.counter(known)]))
    if run.counter:
        labels = ("A", "B") if run.words is None else run.words.labels
        sides = {"": "", "A": f", {labels[0]} originals", "B": f", {labels[1]} originals"}
        lines = []
        for test in (*run.counter, *run.counter_sides):
            at, measurement, details = contents.address(test), test.measurement, test.measurement.details
            means = numbers((details.get("mean_original"), details.get("mean_counter")), at, 4)
            cells = [words(f"{test.group} heads{sides[test.side]}"), *means, bounded(measurement, at, 4)]
            cells += [number(details.get("t"), at, 2), probability(details.get("p_value"), at)]
            lines.append([*cells, number(measurement.n, at)])
        lost = {reason: n for test in run.counter for reason, n in test.measurement.unscored.items()}
        note = (
            "Attention from the target word to the attribute word, in stereotypes and in the same sentences "
            "reversed. p: one-tailed, that attention falls. Sentences share templates and words, and "
            "this p counts them as independent: it is too small, and nothing is claimed of it. Lost "
            f"sentences: {'; '.join(f'{n:,} {reason}' for reason, n in lost.items()) or 'none'}."
        )
        header = ("Heads", "Original", "Counter", "Change", "t", "p", "Sentences")
        caption = "Counter-stereotypes: the paper’s t-tests"
        blocks.append(Shown(Table("counter-stereotypes", caption, header, lines, note)))
    return blocks


# ---- targeted debiasing


def _strategies_table(
    contents: Contents,
    strategies: Iterable[StrategyMeasured | RandomMeasured],
    name: str,
    caption: str,
    note: str,
) -> Table:
    """A line per strategy, a column per measure; the note says first on which words |SEAT| is measured."""
    cells: dict[str, dict[str, Cell]] = {}
    judged = ""
    for each in strategies:
        measurement = each.measurement
        cell = measured(measurement, contents.address(each), info_of(contents, measurement.name).digits)
        cells.setdefault(each.strategy, {})[measurement.name] = cell
        if not judged and measurement.name == "seat" and "judged on" in measurement.settings:
            judged = f"SEAT: its size, |SEAT|, on {measurement.settings['judged on']}. "
    names = list(dict.fromkeys(name for own in cells.values() for name in own))
    titles = [info_of(contents, name).title if name in _TITLED else name for name in names]
    lines = [[words(each), *(own.get(name, words(None)) for name in names)] for each, own in cells.items()]
    folded = name == "more-heads"
    return Table(name, caption, ["Strategy", *titles], lines, f"{judged}{note}", folded=folded)


# ---- its table, its chart


def lines(run: Heads) -> list[Line]:
    """Every head with its score, the most biased first."""
    return [{**line_of(score), "clear": score.clear} for score in run.ranked]


def chart(run: Heads) -> Chart:
    """The heat map of scores; red adds to the bias, blue counteracts it."""
    return heat_map(run, signed=True)


figures = write_figures


def found(contents: Contents) -> str:
    """The sentence of the chapter."""
    run = contents.heads
    if run is None or not run.scores:
        return ""
    clear, first = run.clear_heads, run.ranked[0]
    stand = f"{len(clear)} of {len(run.scores)} heads stand out clearly"
    named = f" ({', '.join(map(str, clear[:3]))})" if clear else ""
    if why := untested_heads_text(run):
        stand = f"Whether a head stands out: {why}"
    return f"{stand}{named}; the highest score is {shown(first.score)}, of head {first.head}."
