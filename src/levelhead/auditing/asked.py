"""What an audit asks of unmodified models: readings of which later questions of the same audit ask parts.

A first look asks some of the texts, the audit the others; projections are chosen and verified on parts, and a
symmetrized model is asked about them once more. Each text is read once (engine/kept.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from levelhead.auditing.arena import sense_asked
from levelhead.engine.answer_parts import ByText
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender
from levelhead.scoring.battery import Battery
from levelhead.scoring.fluency import fluency_reading, why_no_fluency
from levelhead.scoring.lpbs import lpbs_readings, lpbs_tests, why_no_lpbs
from levelhead.scoring.natural import judges
from levelhead.scoring.next_sentences import sense_reading, triple_reading
from levelhead.scoring.pairs import inference_reading
from levelhead.scoring.seat import SINGLY
from levelhead.scoring.word_table import word_table
from levelhead.studies.extent import Extent


def asked_readings(extent: Extent, battery: Battery, models: Sequence[Model]) -> list[ByText]:
    """What is asked of the models of an audit, what its first look asks before the rest."""
    batteries = [battery]
    if (first := extent.first_look) is not None:
        batteries.insert(0, Extent(first, extent.model).battery())
    asked = [reading for each in batteries for model in models for reading in _readings(model, each)]
    if not extent.settings.quick and about_gender(battery.test) and judges(extent.model):
        asked.append(sense_reading(extent.model, sense_asked()))
    return asked


def _readings(model: Model, battery: Battery) -> Iterator[ByText]:
    table = word_table(battery.test, battery.contexts)
    yield from (table.at(places).each() for places in table.in_turn(SINGLY)[:SINGLY])
    if about_gender(battery.test):
        for test in lpbs_tests().values():
            if not why_no_lpbs(model, test):
                yield from lpbs_readings(model, test)
        if judges(model):
            yield triple_reading(model, battery.triples)
    if not why_no_fluency(model):
        yield fluency_reading(model, battery.sentences)
    if "nli" in model.abilities:
        yield from (inference_reading(pairs) for pairs in (battery.probe.pairs, battery.ability.pairs))
