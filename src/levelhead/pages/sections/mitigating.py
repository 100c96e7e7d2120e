"""The chapter of mitigations: what each lowers, what it costs, which is certified, what else it moves."""

from __future__ import annotations

from levelhead.inference.contents import Contents
from levelhead.inference.mitigating import (
    arrow,
    best,
    chosen_odds,
    cost_number,
    cost_title,
    findings,
    odds,
    sentence,
)
from levelhead.measures.certified import AGREEMENT, is_learned
from levelhead.pages.blocks import Block, Code, Drawn, Points, Section, Shown
from levelhead.pages.chapters import Chapter
from levelhead.pages.charts.mitigations import picture
from levelhead.pages.tables import Cell, Table, grown_cell, number, probability, words
from levelhead.results.records.mitigating import BiasMoved, CandidateTested
from levelhead.results.runs import MitigateRun


def mitigating_section(contents: Contents) -> Section | None:
    """One sentence, one picture, one table; then odds, every other bias, and how the model is had."""
    run = contents.mitigations
    if run is None or run.detected is None:
        return None
    blocks: list[Block] = []
    if contents.audit is not None:  # elsewhere they open the page
        blocks.append(Points([words(text) for text in (sentence(run), *findings(run))]))
    if (chart := picture(run)) is not None:
        blocks.append(Drawn([chart]))
    blocks.append(Shown(_tested_table(contents, run)))
    if run.odds:
        blocks.append(Shown(_odds_table(contents, run)))
    if run.spillover:
        blocks.append(Shown(_spillover_table(contents, run)))
    blocks.append(Shown(_moved_table(contents, run)))
    if run.left_out:
        lines = [[words(each.method), words(each.reason)] for each in run.left_out]
        blocks.append(Shown(Table("mitigate-left-out", "Not tried", ("Mitigation", "Why"), lines)))
    blocks += _use(run)
    blocks += [Code(f"Recipe of “{each.name}”", each.recipe, folded=True) for each in run.candidates]
    how = (
        "Items fall into three parts that share no context, occupation or word. Mitigations are fitted on "
        "the first, put in order on the second and tested on the third, in that order, until the first that "
        "fails: so at most 5 % of such runs certify anything that is not as claimed."
    )
    question = "Which mitigation lowers the bias, at what cost, and can it be relied on?"
    return Section(Chapter.MITIGATE, "Mitigations", question, how, blocks)


def _use(run: MitigateRun) -> list[Block]:
    """How the certified model is had: by its folder, or else by its recipe."""
    if run.written is not None and run.written.candidate:
        return [Code(f"Load the certified model: {run.written.candidate}", run.written.load_with)]
    if not run.certified or not run.certified[0].recipe:
        return []
    chosen = run.certified[0]
    files = [path for path, text in run.recipe_texts.items() if text == chosen.recipe]
    lines = (
        "import levelhead as lh",
        "from levelhead.mitigation.mitigate import edits_of",
        "",
        f"model = lh.load({run.model!r})",
        f"variant = edits_of(model, lh.load_recipe({str(next(iter(files), 'RECIPE.toml'))!r}))",
        "answers = lh.read_one(model, reading, [variant])  # any reading, asked of the mitigated model",
    )
    return [Code(f"Ask the certified model: {chosen.name}", "\n".join(lines))]


def _tested_table(contents: Contents, run: MitigateRun) -> Table:
    """One line per candidate: each bias, each cost, what it took, and the verdict."""
    biases = list(dict.fromkeys((each.bias, each.unit) for each in run.moved))
    costs = list(dict.fromkeys(name for each in run.candidates for name in each.certificate.p_costs))
    columns = (
        "Mitigation",
        "Verdict",
        "Gain",
        *(f"{bias}, {unit}" for bias, unit in biases),
        *(cost_title(name) for name in costs),
        "p",
        "At strength",
        "Passes per answer",
        "Seconds",
        "MiB",
    )
    lines = [_tested_line(contents, run, each, costs) for each in run.candidates]
    strong = frozenset(i for i, each in enumerate(run.candidates) if each.certificate.certified)
    note = (
        "On held-out items, in the order of the tests. Each bias before → after in natural units, below it "
        "as an effect size. Gain: toward neutral, with its 95 % interval by cluster. Seconds and memory: of "
        "all strengths of a method together, fitted and asked; memory with the model. p: the largest of "
        "those of gain, overshoot and every cost; below a verdict what was missed. Passes: texts that the "
        "model is run on for an answer; the time of the model that is written is measured, and stated above."
    )
    if not run.settings.objective and run.candidates:
        judged = run.candidates[0].certificate.bias
        note += f" Judged by {judged}, chosen on other items than these from all that the model can be asked."
    if AGREEMENT in costs:
        note += " Agreement: pronouns that fit the gender that a text states (my mother: she)."
    if any(is_learned(name) for name in costs):
        note += " GLUE: right answers after fine-tuning, asked in the order of the tests until one fails."
    return Table("mitigate", "What each mitigation buys and costs", columns, lines, note, strong=strong)


def _tested_line(contents: Contents, run: MitigateRun, each: CandidateTested, costs: list[str]) -> list[Cell]:
    tested, at, took = each.certificate, contents.address(each), run.times.get(each.method)
    low, high = tested.interval or (None, None)
    ends = "" if low is None or high is None else f"[{low:+z.3f}, {high:+z.3f}]".replace("-", "−")
    moved = {own.bias: own for own in run.moved if own.candidate == each.name}
    biases = [_moved_cell(moved.get(bias)) for bias in dict.fromkeys(own.bias for own in run.moved)]
    return [
        words(each.name),
        words(tested.verdict, ", ".join(tested.missed)),
        words(f"{tested.gain:+z.3f}".replace("-", "−"), ends),
        *biases,
        *(
            words(cost_number(name, own) if (own := tested.costs.get(name)) is not None else None)
            for name in costs
        ),
        probability(tested.p, at),
        words(f"{each.strength:g}"),
        number(each.passes, digits=0),
        number(None if took is None else took.seconds, digits=0),
        number(None if took is None else took.memory),
    ]


def _moved_cell(moved: BiasMoved | None) -> Cell:
    if moved is None:
        return words(None)
    effect = arrow(moved.effect_before, moved.effect_after, 2)
    return words(arrow(moved.before, moved.after), f"effect size {effect}")


def _odds_table(contents: Contents, run: MitigateRun) -> Table:
    chosen, lines = best(run), []
    for each in chosen_odds(run):
        at = contents.address(each)
        numbers = [number(each.before, at), number(each.after, at)]
        lines.append(
            [
                words(each.occupation),
                words(each.group),
                words(odds(each.before)),
                words(odds(each.after)),
                *numbers,
            ]
        )
    columns = ("Occupation", "Stereotyped as", "Odds before", "Odds after", "Nats before", "Nats after")
    name = "" if chosen is None else chosen.name
    note = (
        "Words of the stereotyped group against words of the other, where a prompt leaves a blank for who "
        f"does the job; the first occupations that were neither fitted nor ordered on. After: {name}."
    )
    return Table("mitigate-odds", "Odds before and after", columns, lines, note)


def _spillover_table(contents: Contents, run: MitigateRun) -> Table:
    """One line per candidate, one column per other bias."""
    biases = list(dict.fromkeys((each.bias, each.unit) for each in run.spillover))
    lines = []
    for candidate in dict.fromkeys(each.candidate for each in run.spillover):
        cells = {each.bias: each for each in run.spillover if each.candidate == candidate}
        line = [words(candidate)]
        for bias, _ in biases:
            line.append(grown_cell(cells[bias]))
        lines.append(line)
    columns = ("Mitigation", *(f"{bias}, {unit}" for bias, unit in biases))
    note = (
        "By how much the size of each bias grows, |after| − |before|, in natural units, on lists that no "
        f"candidate was fitted on. The intervals hold for all {run.spillover[0].cells} cells together "
        "(Bonferroni); ↓: surely smaller than before, ↑: surely larger."
    )
    return Table("mitigate-spillover", "Spillover to other biases", columns, lines, note, folded=True)


def _moved_table(contents: Contents, run: MitigateRun) -> Table:
    lines = []
    for each in run.moved:
        at = contents.address(each)
        values = (each.before, each.after, each.change, each.low, each.high)
        cells = [number(value, at) for value in (*values, each.effect_before, each.effect_after)]
        lines.append([words(each.candidate), words(each.bias), words(each.unit), *cells])
    columns = ("Mitigation", "Bias", "Unit", "Before", "After", "Change", "from", "to")
    note = "Every bias that the model can be asked for, in natural units, on held-out items; 95 % intervals."
    effects = ("Effect before", "Effect after")
    return Table("mitigate-biases", "What moves", (*columns, *effects), lines, note, folded=True)
