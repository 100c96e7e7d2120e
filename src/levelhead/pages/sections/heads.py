"""The chapter of the heads study: where the bias sits, and whether the scores tell the truth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from levelhead.inference.contents import Contents, arcs
from levelhead.inference.heads_in_words import (
    CROSS_FITTED_TITLES,
    clear_heads_text,
    sources_text,
    study_sentences,
)
from levelhead.inference.infos import info_of
from levelhead.measures.measurement import Measurement
from levelhead.pages.blocks import Block, Drawn, HeadCell, HeadMap, Points, Section, Shown
from levelhead.pages.chapters import Chapter
from levelhead.pages.charts import heads as charts
from levelhead.pages.examples import arcs_example
from levelhead.pages.first_arcs import first_arcs
from levelhead.pages.sections.counter import counter_blocks
from levelhead.pages.tables import Cell, Table, measured, number, probability, shown, words
from levelhead.results.records.debias import RandomMeasured, StrategyMeasured, Tradeoff
from levelhead.results.records.heads import ArcPair, HeadScore
from levelhead.results.runs import HeadsRun

_TITLED = ("seat", "fluency")  # measures whose columns have room for a title


def heads_section(contents: Contents) -> Section | None:
    """Where the bias sits: the map, its arcs, the distribution, and whether the scores tell the truth."""
    run = contents.heads
    if run is None or not run.scores:
        return None
    blocks: list[Block] = [Points([words(text) for text in study_sentences(run)])]
    blocks += [Shown(_holds_table(contents, run))] if run.cross_fit else []
    blocks += [head_map(run, arcs(contents)), Drawn([charts.distribution(run.scores)])]
    if run.removals:
        blocks.append(Drawn([charts.ablation(run.scores, run.removals)]))
    if run.agreement is not None:
        blocks.append(Shown(_agreement_table(run.agreement, contents.address(run.agreement))))
    blocks += counter_blocks(contents, run)
    blocks.append(Shown(_scores_table(contents, run)))
    blocks += _debias_blocks(contents, run)
    if run.tradeoffs:
        blocks.append(Shown(_learned_table(contents, run.tradeoffs)))
    question = "Which parts of the model carry the association, and do they follow the stereotype?"
    how = (
        "Every square is an attention head. Its score is how fast the association grows when the head is "
        "turned up: red heads add to it, blue ones work against it, pale ones hardly matter. Choose a head "
        "to see where it looks from the target word, in a stereotype and in the same sentence turned around."
    )
    return Section(Chapter.HEADS, "Where it sits", question, how, blocks, arcs_example(contents))


# ---- what holds on other words


def _holds_table(contents: Contents, run: HeadsRun) -> Table:
    """Whether heads found on half of the words hold on the other half, which all else here rests on."""
    lines = []
    for each in run.cross_fit:
        at, null = contents.address(each), each.null
        floor, p = (None, None) if null is None else (null.floor, null.p_value)
        spread = None if null is None else null.spread
        value = measured(each) if each.value is None else number(each.value, at, 3)
        title = CROSS_FITTED_TITLES.get(each.name, each.name)
        lines.append([words(title), value, number(floor, at, 3), number(spread, at, 3)])
        lines[-1].append(probability(p, at))
    scored = len({fit.twin for fit in run.cross_fits} - {None})
    note = (
        f"{run.settings.splits} splits of the words into halves, on the first context of each word; "
        f"{scored} null models on the same splits. {clear_heads_text(run)}"
    )
    columns = ("On other words", "Value", "Null models", "Null SD", "p")
    return Table("other-words", "Do these heads hold on other words?", columns, lines, note)


# ---- scores


def head_map(run: HeadsRun, pairs: Sequence[ArcPair]) -> HeadMap:
    """Every head, from the last layer to the first."""
    largest = max(abs(each.score) for each in run.scores)
    tests = {each.head: each for each in run.counter_heads}
    layers: dict[int, list[HeadCell]] = {}
    for each in run.scores:
        share = round(each.score / largest, 3) if largest else 0.0
        test = tests.get(each.head)
        change, sentences = (None, 0) if test is None else (test.difference, test.n)
        layers.setdefault(each.head.layer, []).append(
            HeadCell(each.head, _score_text(each), share, change, sentences)
        )
    ordered = [layers[layer] for layer in sorted(layers, reverse=True)]
    return HeadMap(ordered, shown(largest, 3), pairs, first_arcs(run, pairs))


def _score_text(score: HeadScore) -> str:
    text = f"Layer {score.head.layer + 1}, head {score.head.head + 1}: score {shown(score.score, 4)}"
    if score.held is not None:
        text += f", of which {shown(score.held, 4)} holds on other words"
    if score.p is not None:
        text += f", p {probability(score.p).text}{' (clear)' if score.clear else ''}"
    return text


def _scores_table(contents: Contents, run: HeadsRun) -> Table:
    removals = {removal.head: removal for removal in run.removals}
    lines = []
    for score in run.ranked:
        at = contents.address(score)
        cells = [words(score.head), number(score.rank, at), number(score.score, at, 4)]
        cells += [number(score.stderr, at, 4), number(score.held, at, 4), probability(score.p, at)]
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


def _agreement_table(rho: Measurement, at: str) -> Table:
    note = (
        "1: the scores rank heads exactly as removing each of them does. 0: they say nothing about removal."
    )
    name = words("Spearman’s rho of score and drop of |SEAT|")
    line = [name, measured(rho, at), number(rho.n, at), probability(rho.details.get("p_value"), at)]
    columns = ("Measure", "Value", "Heads", "p")
    return Table("agreement", "Do the scores tell the truth?", columns, [line], note)


# ---- targeted debiasing


def _debias_blocks(contents: Contents, run: HeadsRun) -> list[Block]:
    """What gating heads buys and costs: the trade as a chart, Table 1 and Table 3 of the paper."""
    trade = charts.tradeoff(run)
    blocks: list[Block] = [] if trade is None else [Drawn([trade])]
    strategies: list[StrategyMeasured | RandomMeasured] = [*run.strategies, *run.random_strategies]
    if strategies:
        table = Table(
            "strategies",
            "What removing heads buys and costs",
            *_strategy_lines(contents, strategies),
            note=f"{_judged_on(strategies)}Random strategies: mean over seeds with its interval.",
        )
        blocks.append(Shown(table))
    if run.top_sweep:
        table = Table(
            "more-heads",
            "Removing more and more of the most biased heads",
            *_strategy_lines(contents, run.top_sweep),
            note=f"{_judged_on(run.top_sweep)}The last row removes every head with a score above 0.",
            folded=True,
        )
        blocks.append(Shown(table))
    return blocks


def _judged_on(strategies: Iterable[StrategyMeasured | RandomMeasured]) -> str:
    """On which words |SEAT| of a strategy was measured."""
    for each in strategies:
        if each.measurement.name == "seat" and "judged on" in each.measurement.settings:
            return f"SEAT: its size, |SEAT|, on {each.measurement.settings['judged on']}. "
    return ""


def _strategy_lines(
    contents: Contents, strategies: Iterable[StrategyMeasured | RandomMeasured]
) -> tuple[list[str], list[list[Cell]]]:
    """Columns and lines: one line a strategy, one column a measure."""
    cells: dict[str, dict[str, Cell]] = {}
    for each in strategies:
        name = each.measurement.name
        cell = measured(each.measurement, contents.address(each), info_of(contents, name).digits)
        cells.setdefault(each.strategy, {})[name] = cell
    names = list(dict.fromkeys(name for own in cells.values() for name in own))
    titles = [info_of(contents, name).title if name in _TITLED else name for name in names]
    lines = [
        [words(strategy), *(own.get(name, words(None)) for name in names)] for strategy, own in cells.items()
    ]
    return ["Strategy", *titles], lines


def _learned_table(contents: Contents, tradeoffs: Iterable[Tradeoff]) -> Table:
    """Learned gates beside the best top-k that costs no more."""
    lines = []
    for each in tradeoffs:
        at, rival = contents.address(each), each.rival
        cells = [words(each.strategy), number(each.abs_seat, at), number(each.ratio, at)]
        if rival is None:
            cells += [words(None)] * 3
        else:
            cells += [words(rival.strategy), number(rival.abs_seat, at), number(rival.ratio, at)]
        lines.append(cells)
    columns = (
        "Gates",
        "|SEAT|",
        "Perplexity ratio",
        "Best top-k that costs no more",
        "Its |SEAT|",
        "Its ratio",
    )
    note = "Gates in [0, 2] that minimize |SEAT| while perplexity grows at most by the factor given."
    return Table("learned-gates", "Learned gates against removal", columns, lines, note)
