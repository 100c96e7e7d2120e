"""The chapter of mitigations: what each lowers, what it costs, which is certified, what else it moves."""

from __future__ import annotations

from levelhead.pages.blocks import Block, Code, Drawn, Section, Shown
from levelhead.pages.contents import Contents
from levelhead.pages.mitigating import costs, picture, reached
from levelhead.pages.tables import Table, number, probability, words
from levelhead.results.runs import MitigateRun


def mitigating_section(contents: Contents) -> Section | None:
    """One sentence, one picture, one table; then every other bias, and the recipes."""
    run = contents.mitigations
    if run is None or run.detected is None:
        return None
    blocks: list[Block] = []
    if (chart := picture(run)) is not None:
        blocks.append(Drawn([chart]))
    blocks += [Shown(_tested_table(contents, run)), Shown(_moved_table(contents, run))]
    if run.left_out:
        lines = [[words(each.method), words(each.reason)] for each in run.left_out]
        blocks.append(Shown(Table("mitigate-left-out", "Could not run", ("Mitigation", "Why"), lines)))
    blocks += [Code(f"Recipe of “{each.name}”", each.recipe, folded=True) for each in run.candidates]
    how = (
        "Items fall into three parts that share no context, occupation or word. Mitigations are fitted on "
        "the first, put in order on the second and tested on the third, in that order, until the first that "
        "fails: so at most 5 % of such runs certify anything that is not as claimed."
    )
    question = "Which mitigation lowers the bias, at what cost, and can it be relied on?"
    return Section("mitigate", "Mitigations", question, how, blocks)


def _tested_table(contents: Contents, run: MitigateRun) -> Table:
    lines = []
    for each in run.candidates:
        tested, at = each.certificate, contents.address(each)
        low, high = tested.interval or (None, None)
        lines.append(
            [
                words(each.name),
                words(reached(tested)),
                number(tested.gain, at),
                number(low, at),
                number(high, at),
                words(costs(tested)),
                probability(tested.p, at),
                words(tested.verdict, ", ".join(tested.missed)),
            ]
        )
    columns = ("Mitigation", "Bias", "Gain", "from", "to", "Cost", "p", "Verdict")
    strong = frozenset(i for i, each in enumerate(run.candidates) if each.certificate.certified)
    note = (
        "On held-out items, in the order of the tests. Gain: toward neutral, with its 95 % interval by "
        "cluster. p: the largest of those of gain, overshoot and every cost; below a verdict what was missed."
    )
    return Table("mitigate", "What each mitigation buys and costs", columns, lines, note, strong=strong)


def _moved_table(contents: Contents, run: MitigateRun) -> Table:
    lines = []
    for each in run.moved:
        at = contents.address(each)
        values = (each.before, each.after, each.change, each.low, each.high)
        cells = [number(value, at) for value in values]
        lines.append([words(each.candidate), words(each.bias), words(each.unit), *cells])
    columns = ("Mitigation", "Bias", "Unit", "Before", "After", "Change", "from", "to")
    note = "Every bias that the model can be asked for, in natural units, on held-out items; 95 % intervals."
    return Table("mitigate-biases", "What else moves", columns, lines, note, folded=True)
