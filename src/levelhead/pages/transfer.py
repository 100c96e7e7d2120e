"""Does lowering one bias measure lower any other? The sentence of a transfer matrix, and its tables."""

from __future__ import annotations

from collections.abc import Sequence

from levelhead.inference.contents import Contents
from levelhead.pages.tables import Table, grown_cell, number, probability, words
from levelhead.results.records.localizing import TransferCell
from levelhead.results.runs import AtlasRun


def transfer_sentence(run: AtlasRun) -> str:
    """The answer for this model; empty where nothing was ablated.

    It speaks of biases that stand out from null models, before and on held-out items only.
    """
    if not run.transfer or run.doubts:
        return ""
    sources = [each for each in run.transfer if each.own and each.detected and each.lowered]
    if not sources:
        return (
            f"{run.model}: whether lowering one bias measure lowers another is not shown: no objective's own "
            "measure stands out from null models and falls without its heads."
        )
    return f"{run.model}: " + "; ".join(_said(each, _others(run, each)) for each in sources) + "."


def _others(run: AtlasRun, source: TransferCell) -> Sequence[TransferCell]:
    own = [each for each in run.transfer if each.optimized == source.optimized]
    return [each for each in own if not each.own]


def _said(source: TransferCell, others: Sequence[TransferCell]) -> str:
    biases = [each for each in others if not each.cost]
    lowered = [each for each in biases if each.lowered and each.detected]
    moved = [each for each in others if each.raised]
    first = f"without {', '.join(map(str, source.heads))} {source.measured} falls by {_amount(source)}"
    follows = f"of {len(biases)} other bias measures none is shown to fall with it"
    if lowered:
        named = ", ".join(f"{each.measured} by {_amount(each)}" for each in lowered)
        follows = f"with it fall {named}, {len(lowered)} of {len(biases)} other bias measures"
    raised = ", ".join(f"{each.measured} by {_amount(each)}" for each in moved)
    return f"{first}, and {follows}" + (f"; {raised} grows" if raised else "")


def _amount(each: TransferCell) -> str:
    return f"{abs(each.grown):.3g} {each.unit}"


# ---- tables


def transfer_table(run: AtlasRun) -> Table:
    """One line per objective, one column per measure."""
    measures = list(dict.fromkeys((each.measured, each.unit) for each in run.transfer))
    lines = []
    for optimized in dict.fromkeys(each.optimized for each in run.transfer):
        own = {each.measured: each for each in run.transfer if each.optimized == optimized}
        heads = ", ".join(map(str, next(iter(own.values())).heads))
        lines.append([words(f"{optimized}: {heads}"), *(grown_cell(own[name]) for name, _ in measures)])
    columns = ("Optimized: ablated heads", *(f"{name}, {unit}" for name, unit in measures))
    note = (
        "By how much the size of each measure grows, |after| − |before|, in natural units, on items on which "
        f"the heads were not chosen. The intervals hold for all {run.transfer[0].cells} cells together "
        "(Bonferroni); ↓: surely smaller than before, ↑: surely larger."
    )
    return Table("atlas-transfer", "What was optimized, what was measured", columns, lines, note)


def cells_table(contents: Contents, run: AtlasRun) -> Table:
    """Every cell of the matrix with all of its numbers."""
    lines = []
    for each in run.transfer:
        at = contents.address(each)
        values = (each.before, each.after, each.grown, each.low, each.high)
        cells = [number(value, at) for value in values]
        named = [words(each.optimized), words(each.measured), words(each.unit)]
        lines.append([*named, *cells, probability(each.p_bias, at)])
    columns = ("Optimized", "Measured", "Unit", "Before", "After", "Grown", "from", "to", "p of the bias")
    note = (
        "p of the bias: of its size in the unmodified model, on all items, against null models, corrected "
        "for all biases that were mapped."
    )
    return Table("atlas-transfer-cells", "Every cell of the matrix", columns, lines, note, folded=True)
