"""The chapter of mitigations: what each lowers, what it costs, which is certified, what else it moves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from levelhead.errors import CannotDo
from levelhead.inference.contents import Contents
from levelhead.inference.mitigating import (
    arrow,
    best,
    chosen_odds,
    cost_number,
    cost_unit,
    effect_text,
    odds,
    sentence,
    verdict,
)
from levelhead.inference.mitigating import findings as mitigation_findings
from levelhead.measures.certified import AGREEMENT, LEARNED, MIRROR, PERPLEXITY
from levelhead.pages.blocks import Block, Code, Drawn, Points, Section, Shown
from levelhead.pages.charts.base import Chart, absolute_ends
from levelhead.pages.charts.frontier import Axes, Cross, FrontierPoint, frontier
from levelhead.pages.lines import Line
from levelhead.pages.tables import Cell, Table, grown_cell, number, numbers, probability, signed, words
from levelhead.studies.mitigate import Mitigate


def chapters(contents: Contents) -> list[Section]:
    """One sentence, one picture, one table; then odds, every other bias, and how the model is had."""
    runs = [run for run in contents.arenas if run.detected is not None]
    if not runs:
        return []
    blocks: list[Block] = []
    if contents.audit is not None:  # elsewhere they open the page
        said = [
            text for run in runs for text in (_whose(runs, run, sentence(run)), *mitigation_findings(run))
        ]
        blocks.append(Points([words(text) for text in said]))
    if charts := [chart for run in runs if (chart := picture(run)) is not None]:
        named = [replace(each, name=f"{each.name}{number or ''}") for number, each in enumerate(charts)]
        blocks.append(Drawn(named))
    if tried := [run for run in runs if run.candidates]:
        blocks.append(Shown(tested_table(contents, tried)))
        blocks.append(Shown(outside_table(contents, tried)))
    blocks += _further_tables(contents, runs)
    left_out = [
        [words(_name(runs, run, each.method)), words(each.reason)] for run in runs for each in run.left_out
    ]
    if left_out:
        blocks.append(Shown(Table("mitigate-left-out", "Not tried", ("Mitigation", "Why"), left_out)))
    for run in runs:
        verdicts = {each.name: each.certificate.verdict for each in run.candidates}
        if run.written is not None and run.written.candidate:
            name = run.written.candidate
            blocks.append(Code(f"Load {name} ({verdicts[name]})", run.written.load_with))
            if run.serve_command:
                blocks.append(Code(f"Serve it to other clients: {name}", run.serve_command))
        elif run.certified and run.certified[0].recipe:
            chosen = run.certified[0]
            files = (str(path) for path, text in run.recipe_texts.items() if text == chosen.recipe)
            code = (
                "import levelhead as lh",
                "from levelhead.mitigation.mitigate import edits_of",
                "",
                f"model = lh.load({run.model!r})",
                f"variant = edits_of(model, lh.load_recipe({next(files, 'RECIPE.toml')!r}))",
                "answers = lh.read_one(model, reading, [variant])  # any reading, of the mitigated model",
            )
            blocks.append(Code(f"Run {chosen.name} ({verdicts[chosen.name]})", "\n".join(code)))
    blocks += [
        Code(f"Recipe of “{_name(runs, run, each.name)}”", each.recipe, folded=True)
        for run in runs
        for each in run.candidates
        if each.recipe
    ]
    how = (
        "Items fall into three parts that share no context, occupation or word. Mitigations are fitted on "
        "the first, put in order on the second and tested on the third, in that order, until the first that "
        "fails: so at most 5 % of such runs certify anything that is not as claimed."
    )
    question = "Which mitigation lowers the bias, at what cost, and can it be relied on?"
    return [Section(Mitigate.name, "Mitigations", question, how, blocks)]


def _name(runs: Sequence[Mitigate], run: Mitigate, name: str) -> str:
    """A mitigation's name, with the model's where there are several."""
    return f"{name} ({run.model})" if len(runs) > 1 else name


def _whose(runs: Sequence[Mitigate], run: Mitigate, text: str) -> str:
    return f"{run.model}: {text}" if len(runs) > 1 else text


# ---- the picture


def picture(run: Mitigate) -> Chart | None:
    """Bias left, cost up: every candidate with its intervals, the certified one ringed."""
    if not run.candidates:
        return None
    first, settings = run.candidates[0].certificate, run.settings
    points = [FrontierPoint("unmodified", "unmodified", abs(first.before), 0.0, kept=True)]
    for each in run.candidates:
        tested = each.certificate
        cost, ends, left = 0.0, None, None
        if tested.costs:
            # what each may grow by; where that is nothing, one percent or point is drawn as 1
            margins = {
                name: ((settings.max_glue if name.startswith(LEARNED) else settings.max_loss) or 1.0) / 100
                for name in tested.costs
            }
            margins[PERPLEXITY] = math.log1p((settings.max_perplexity or 1.0) / 100)
            name = max(tested.costs, key=lambda name: tested.costs[name] / margins[name])
            cost, by = tested.costs[name] / margins[name], 1 / margins[name]
            if (own := tested.cost_intervals.get(name)) is not None:
                ends = (own[0] * by, own[1] * by)
        if tested.interval is not None:
            low, high = (abs(tested.before) - gained for gained in reversed(tested.interval))
            left = absolute_ends((low, high))
        kept = not any(p > 0.05 for p in tested.p_costs.values())
        chosen = bool(run.certified) and each is run.certified[0]
        points.append(
            FrontierPoint(each.name, each.method, abs(tested.after), cost, kept, chosen, left, ends)
        )
    axes = Axes(
        name="mitigate",
        title="Bias left and its cost",
        bias=f"{first.bias} that is left ({first.unit}, 0 is neutral)",
        use="largest cost (1: its margin)",
        less_bias="Left and down is better; above 1 a cost is beyond its margin.",
        points="mitigations",
        level="mitigation",
        bent=True,
    )
    return frontier(points, axes, Cross(abs(first.before), 0.0, None, None))


# ---- tables


def tested_table(contents: Contents, runs: Sequence[Mitigate]) -> Table:
    """One line per candidate: each bias, each cost, what it took, and the verdict."""
    listed = [(run, each) for run in runs for each in run.candidates]
    known = [(each.bias, each.unit) for run in runs for each in run.moved]
    known += [(each.bias, each.unit) for run in runs for each in run.not_compared]
    biases = list(dict.fromkeys(known))
    unmeasured = {n: why for _, each in listed for n, why in each.certificate.unmeasured.items()}
    costs = list(dict.fromkeys([*(n for _, each in listed for n in each.certificate.p_costs), *unmeasured]))
    lines: list[list[Cell]] = []
    for run, each in listed:
        tested, took = each.certificate, run.times.get(each.method)
        gain = signed(tested.gain, tested.interval or (None, None))
        line = [words(_name(runs, run, each.name)), words(verdict(run, each), ", ".join(tested.missed)), gain]
        moved = {own.bias: own for own in run.moved if own.candidate == each.name}
        without = {own.bias: own.reason for own in run.not_compared if own.candidate == each.name}
        for bias in dict.fromkeys(bias for bias, _ in biases):
            if (own := moved.get(bias)) is None:
                line.append(words(None, without.get(bias, "")))
            else:
                line.append(words(arrow(own.before, own.after), effect_text(own)))
        for name in costs:
            cost = tested.costs.get(name)
            unknown = "not measured" if name in tested.unmeasured else None
            line.append(words(unknown if cost is None else cost_number(name, cost)))
        line += [probability(tested.p, contents.address(each)), words(f"{each.strength:g}")]
        line += [number(each.passes, digits=0), number(None if took is None else took.seconds, digits=0)]
        lines.append([*line, number(None if took is None else took.memory)])
    columns = (
        *("Mitigation", "Verdict", "Gain"),
        *(f"{bias}, {unit}" for bias, unit in biases),
        *(f"{name[0].upper()}{name[1:]}, {cost_unit(name)}" for name in costs),
        *("p", "At strength", "Passes per answer", "Seconds", "MiB"),
    )
    strong = frozenset(i for i, (_, each) in enumerate(listed) if each.certificate.certified)
    note = (
        "On held-out items, in the order of the tests. Each bias before → after in natural units, below it "
        "as an effect size. Gain: toward neutral, with its 95 % interval by cluster. Seconds and memory: of "
        "all strengths of a method together, fitted and evaluated; memory with the model. p: the largest of "
        "those of gain, overshoot and every cost; below a verdict what was missed. Passes: texts that the "
        "model is run on for an answer; the time of the model that is written is measured, and stated above."
    )
    for run in runs:
        if run.candidates and (contents.audit is not None or not run.settings.objective):
            why = "the page claims" if contents.audit is not None else "was chosen on other items than these"
            judged = run.candidates[0].certificate.bias
            note += f" {_whose(runs, run, f'Judged by {judged}')}, the bias that {why}."
    if len(runs) > 1:
        note += " The tests of both models share an error of 5 %: each p is doubled."
    if any(bias == MIRROR for bias, _ in biases):
        note += (
            " Mirror divergence: how much likelier a model finds its own short texts than their "
            "counterfactuals, a size and no claim of bias. Who appears: log-odds of a woman as the first "
            "person in texts about women’s occupations, less those about men’s, halved. Both are sampled, "
            "with the same random numbers for every candidate."
        )
    if AGREEMENT in costs and AGREEMENT not in unmeasured:
        note += (
            " Agreement: words that fit the group that a text states (my mother: she; the imam: the mosque)."
        )
    note += "".join(f" Not measured: {name} ({why})." for name, why in unmeasured.items())
    if any(cost.startswith(LEARNED) for cost in costs):
        note += " GLUE: right answers after fine-tuning, in the order of the tests until one fails."
    return Table(
        "mitigate", "Gain, costs and verdict of each mitigation", columns, lines, note, strong=strong
    )


def outside_table(contents: Contents, runs: Sequence[Mitigate]) -> Table:
    """One line per candidate: its gain and costs inside and outside, each with its interval."""
    listed = [(run, each) for run in runs for each in run.candidates]
    names = [n for _, each in listed if (there := each.certificate.outside) for n in there.costs]
    costs = list(dict.fromkeys(names))
    lines: list[list[Cell]] = []
    for run, each in listed:
        own, there = each.certificate, each.certificate.outside
        line = [words(_name(runs, run, each.name)), words(verdict(run, each))]
        if there is None:
            lines.append([*line, *[words("not measured")] * (3 + 2 * len(costs))])
            continue
        gap = f"{there.before:.2f} → {there.after:.2f}"
        line += [words(gap, f"−{100 * there.share:.0f} %".replace("−-", "+"))]
        line += [signed(there.gain, there.interval or (None, None))]
        line += [probability(there.p_gain, contents.address(each))]
        for name in costs:
            for grown, ends in ((own.costs, own.cost_intervals), (there.costs, there.cost_intervals)):
                # points of an ability are what it loses, so that the ends of an interval change places
                sides = (ends.get(name) or ())[:: 1 if name == PERPLEXITY else -1]
                small = f"[{', '.join(cost_number(name, end) for end in sides)}]" if sides else ""
                line.append(words(cost_number(name, grown[name]) if name in grown else None, small))
        lines.append(line)
    columns = ["Mitigation", "Verdict", "Mirror gap outside, nats", "Gain outside", "p of the gain outside"]
    for name in costs:
        columns += [f"{name[0].upper()}{name[1:]}, {cost_unit(name)}: inside", "outside"]
    texts = [(run, run.outside) for run in runs if run.outside is not None]
    said = [
        f"{each.source}: {each.sentences} sentences, {each.passages} passages, {each.pronouns} pronouns"
        if not each.why_not
        else each.why_not.rstrip(".")
        for _, each in texts
    ]
    note = (
        "Outside: text that nobody wrote for levelhead, on which nothing is chosen. Mirror gap: mean "
        "|log P(text) − log P(counterfactual)| over sentences that the swap exchanges exactly; 0 for a "
        "symmetrized model. p of its fall: of all candidates together (Holm). Of each cost the larger p, "
        "inside or outside, counts. Below a number its 95 % interval. "
        f"Text: {'; '.join(dict.fromkeys(said)) or 'not measured'}."
    )
    caption = "Gain and costs outside our own items"
    return Table("mitigate-outside", caption, tuple(columns), lines, note)


def _further_tables(contents: Contents, runs: Sequence[Mitigate]) -> list[Block]:
    """Odds before and after, spillover to other biases, and what moves."""
    blocks: list[Block] = []
    for run in (run for run in runs if run.odds):
        chosen, lines = best(run), []
        for odd in chosen_odds(run):
            said = (odd.occupation, odd.group, odds(odd.before), odds(odd.after))
            lines.append([*map(words, said), *numbers((odd.before, odd.after), contents.address(odd))])
        header = ("Occupation", "Stereotyped as", "Odds before", "Odds after", "Nats before", "Nats after")
        name = "" if chosen is None else chosen.name
        note = (
            "Words of the stereotyped group against words of the other, where a prompt leaves a blank for "
            f"who does the job; the first occupations that were neither fitted nor ordered on. After: {name}."
        )
        blocks.append(Shown(Table("mitigate-odds", "Odds before and after", header, lines, note)))
    for run in (run for run in runs if run.spillover):
        biases, lines = list(dict.fromkeys((each.bias, each.unit) for each in run.spillover)), []
        for candidate in dict.fromkeys(each.candidate for each in run.spillover):
            cells = {each.bias: each for each in run.spillover if each.candidate == candidate}
            lines.append([words(candidate), *(grown_cell(cells[bias]) for bias, _ in biases)])
        columns = ("Mitigation", *(f"{bias}, {unit}" for bias, unit in biases))
        note = (
            "By how much the size of each bias grows, |after| − |before|, in natural units, on lists that no "
            f"candidate was fitted on. The intervals hold for all {run.spillover[0].cells} cells together "
            "(Bonferroni); ↓: surely smaller than before, ↑: surely larger."
        )
        caption = "Spillover to other biases"
        blocks.append(Shown(Table("mitigate-spillover", caption, columns, lines, note, folded=True)))
    if any(run.candidates for run in runs):
        lines = []
        for run, each in [(own, each) for own in runs if own.candidates for each in own.moved]:
            named = (_name(runs, run, each.candidate), each.bias, each.unit)
            values = (each.before, each.after, each.change, each.low, each.high)
            effects = (each.effect_before, each.effect_after)
            lines.append([*map(words, named), *numbers((*values, *effects), contents.address(each))])
        columns = (
            *("Mitigation", "Bias", "Unit", "Before", "After", "Change", "from", "to"),
            *("Effect before", "Effect after"),
        )
        note = "Every bias that the model can show, in natural units, on held-out items; 95 % intervals."
        blocks.append(
            Shown(
                Table("mitigate-biases", "Effects on all measured biases", columns, lines, note, folded=True)
            )
        )
    return blocks


# ---- its table, its chart


def lines(run: Mitigate) -> list[Line]:
    """Every candidate, in the order of the tests."""
    return [
        {
            "mitigation": each.name,
            "bias": each.certificate.bias,
            "before": each.certificate.before,
            "after": each.certificate.after,
            "p": each.certificate.p,
            "verdict": verdict(run, each),
        }
        for each in run.candidates
    ]


def chart(run: Mitigate) -> Chart:
    """Bias against cost; the certified mitigation has a ring."""
    drawn = picture(run)
    if drawn is None:
        raise CannotDo(f"No mitigation could be tried on {run.model}: there is nothing to draw.")
    return drawn


def found(contents: Contents) -> str:
    """The sentence of the chapter."""
    return "" if contents.mitigate is None else sentence(contents.mitigate)


def headline(contents: Contents, findings: list[Cell]) -> tuple[str, list[Cell]] | None:
    """What was certified, gain and loss together."""
    run = contents.mitigate
    return None if run is None else (sentence(run), [words(text) for text in mitigation_findings(run)])
