"""What edits change in a model's main bias, item by item (docs/method.md, Statistics).

a classifier            fairness of inferences, by occupation
a next-sentence model   Strength, by context
anything else           |SEAT|, by attribute pair, target and template

Inferences and next sentences ship for one bias only; any other is judged by |SEAT|.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from levelhead.edits.sites import Variant
from levelhead.engine.run import read_one
from levelhead.measures.crossed import crossed_change
from levelhead.measures.measurement import Measurement
from levelhead.measures.occupations import Predictions, occupation_table
from levelhead.measures.paired import fairness_change, strength_change
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender
from levelhead.probes.nli.labels import NEUTRAL
from levelhead.probes.words import WordTest
from levelhead.scoring.battery import Battery
from levelhead.scoring.pairs import nli_labels, nsp_strengths
from levelhead.scoring.seat import crossed_vectors
from levelhead.scoring.word_table import word_table

MainBias = Literal["fairness", "strength", "seat"]


def main_bias(model: Model, test: WordTest) -> MainBias:
    """The measure by which a change of this model is judged, for the bias of a word list."""
    if about_gender(test) and "nli" in model.abilities:
        return "fairness"
    return "strength" if about_gender(test) and "nsp" in model.abilities else "seat"


def ask_bias_change(model: Model, battery: Battery, variants: Sequence[Variant]) -> list[Measurement]:
    """The paired change of the model's main bias in every variant, against the unmodified model."""
    with_base = [(), *variants]
    judged_by = main_bias(model, battery.test)
    if judged_by == "fairness":
        predicted = nli_labels(model, battery.probe.pairs, with_base)
        shape = battery.probe.shape
        tables = [occupation_table(Predictions.of_grid(each, shape, NEUTRAL)) for each in predicted]
        return [fairness_change(tables[0], after, battery.resampling) for after in tables[1:]]
    if judged_by == "strength":
        s = nsp_strengths(model, battery.triples, with_base)
        contexts = [p.original.context for p in battery.triples.pairs if p.swapped is not None]
        return [strength_change(s[0], after, contexts, resampling=battery.resampling) for after in s[1:]]
    return _seat_changes(model, battery, with_base)


def _seat_changes(model: Model, battery: Battery, variants: Sequence[Variant]) -> list[Measurement]:
    table = word_table(battery.test, battery.contexts)
    answers = read_one(model, table.each(), variants, label="SEAT")
    before, *after = (crossed_vectors(vectors, table, battery.test) for vectors in answers)
    return [crossed_change(before, each, battery.resampling) for each in after]
