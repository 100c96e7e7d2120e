"""Transfer and spillover: what was optimized by what was measured.

Each objective chooses its highest heads on the first half of its items. They are ablated, and every bias and
every cost that the model can be asked for is measured on the second half, in natural units: by how much its
size grows. The intervals hold for all cells together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import numpy as np

from levelhead.edits.gates import removed
from levelhead.edits.head import Head
from levelhead.edits.sites import Variant
from levelhead.measures.corrections import holm
from levelhead.measures.growth import size_growth, size_p_value
from levelhead.models.model import Model
from levelhead.results.records.localizing import ObjectiveMap, TransferCell
from levelhead.scoring.item_values import ItemValues
from levelhead.scoring.natural import natural_values
from levelhead.studies.heads.crossfit import highest
from levelhead.studies.heads.scores import finite
from levelhead.studies.localizing.questions import Question, held_out_items
from levelhead.studies.localizing.settings import AtlasSettings

Maps = Mapping[str, Sequence[ObjectiveMap]]


def transferred(
    model: Model, asked: Sequence[Question], maps: Maps, settings: AtlasSettings
) -> list[TransferCell]:
    """The matrix of objectives and measures."""
    chosen = {each.name: _heads(maps[each.name][0], settings.transfer) for each in asked}
    variants: list[Variant] = [(), *(removed(model, heads) for heads in chosen.values())]
    shipped = natural_values(model, held_out_items(model, settings), variants)
    benchmarks = [each.held_out(model, variants) for each in asked if each.held_out is not None]
    biases, costs = [*shipped.biases, *benchmarks], shipped.costs
    detected = detections(asked, maps)
    cells = len(asked) * (len(biases) + len(costs))
    return [
        _cell((each, chosen[each.name], number), measured, (is_cost, cells), detected.get(measured.name))
        for number, each in enumerate(asked, start=1)
        for is_cost, some in ((False, biases), (True, costs))
        for measured in some
    ]


def detections(asked: Sequence[Question], maps: Maps) -> dict[str, float | None]:
    """By measure: the p of its bias against the null models of the maps, corrected for all measures."""
    found: dict[str, float | None] = {}
    for each in asked:
        own, *nulls = [of_model.value for of_model in maps[each.name]]
        if each.whole.name == each.measure:  # |SEAT| is another number than the gap of cosines
            found[each.measure] = size_p_value(own, nulls)
    corrected = holm(np.asarray([np.nan if p is None else p for p in found.values()], np.float64))
    return {name: finite(p) for name, p in zip(found, corrected, strict=True)}


def _heads(own: ObjectiveMap, count: int) -> list[Head]:
    """The highest heads of the first half of the first split."""
    scores = np.array(own.halves[0][0])
    return highest(scores, min(count, scores.size - 1))


def _cell(
    optimized: tuple[Question, Sequence[Head], int],
    measured: ItemValues,
    kind: tuple[bool, int],
    p_bias: float | None,
) -> TransferCell:
    (question, heads, number), (cost, cells) = optimized, kind
    own = size_growth(measured.paired(number), cells)
    return TransferCell(
        optimized=question.name,
        heads=tuple(heads),
        measured=measured.name,
        cost=cost,
        own=measured.name == question.measure,
        unit=measured.unit,
        cells=cells,
        p_bias=None if cost else p_bias,
        **asdict(own),
    )
