"""What mitigations do to biases that they were not fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from levelhead.engine.readings import Reading
from levelhead.engine.run import read
from levelhead.measures.certified import size_growth
from levelhead.models.model import Model
from levelhead.probes.bias import about_gender
from levelhead.probes.contexts import template_contexts
from levelhead.probes.lpbs import LPBS_TESTS
from levelhead.probes.words import WordTest, load_words, shipped_words
from levelhead.scoring.items import ItemValues
from levelhead.scoring.lpbs import LpbsQuestion, lpbs_biases
from levelhead.scoring.natural import (
    NaturalItems,
    behaviors,
    cosine_values,
    lpbs_items,
    natural_bias,
    natural_readings,
)
from levelhead.scoring.seat import WordTable, word_table
from levelhead.studies.mitigate.parts import gender_items
from levelhead.studies.mitigate.protocol import Candidate
from levelhead.studies.mitigate.records import BiasSpilled

_CONTEXTS = 1  # per word of a list that nothing was fitted on


def other_readings(model: Model, test: WordTest) -> list[list[Reading[Any]]]:
    """What spilled reads of one variant; those of a list together."""
    readings: list[list[Reading[Any]]] = [[table.static() for _, table in _tables(test)]]
    for name in _blanks(model, test):
        readings += [[each] for each in LpbsQuestion.of(model, load_words(name)).readings(model)]
    if (gender := _gender(test)) is not None:
        own = natural_readings(model, gender)
        readings += [[each] for name in behaviors(model, gender) for each in own[name]]
    return readings


def _tables(test: WordTest) -> list[tuple[WordTest, WordTable]]:
    """Every other list that ships, each word in one context."""
    others = [load_words(name) for name in shipped_words() if name != test.name]
    return [(other, word_table(other, template_contexts(other, _CONTEXTS))) for other in others]


def _blanks(model: Model, test: WordTest) -> list[str]:
    """The tests that ship whose words only a masked model fills in."""
    return [name for name in LPBS_TESTS if name != test.name] if "mlm" in model.abilities else []


def _gender(test: WordTest) -> NaturalItems | None:
    """The items of what a model does about gender, but for blanks, which are tests that ship; None where
    that is what was fitted on."""
    return None if about_gender(test) else replace(gender_items(), blanks=())


def spilled(model: Model, test: WordTest, candidates: Sequence[Candidate]) -> list[BiasSpilled]:
    """Every candidate on every bias at hand but the one that it was fitted on (test): word vectors,
    blanks of masked models, and where the test is not about gender what the model does there: preference,
    log-odds ...

    Each cell is the growth of a bias's size, |after| − |before|, in natural units; the intervals hold for all
    cells together (Bonferroni: each at the level 1 − 0.05 / cells).
    """
    if not candidates:
        return []
    variants = [(), *(candidate.edits for candidate in candidates)]
    # the cosine gap of every other list that ships; all lists are read at once
    tables = _tables(test)
    readings = [table.static() for _, table in tables]
    answers = read(model, readings, variants, label="Other biases")
    biases: list[ItemValues] = []
    for (other, table), reading in zip(tables, readings, strict=True):
        gap = cosine_values(answers[reading], table)
        biases.append(replace(gap, name=f"{other.name}: {gap.name}"))
    # LPBS in nats of the tests that ship, which ask a masked model only
    for name in _blanks(model, test):
        lpbs = lpbs_biases(model, load_words(name), variants)
        items = lpbs_items(f"{name}: LPBS", load_words(name), *lpbs)
        biases += [] if items is None else [items]
    if (gender := _gender(test)) is not None:
        for name in behaviors(model, gender):
            biases.append(replace(natural_bias(model, gender, name, variants), name=f"gender: {name}"))
    cells = len(biases) * len(candidates)
    spilled = []
    for number, candidate in enumerate(candidates, start=1):
        for bias in biases:
            own = size_growth(bias.paired(number), cells)
            line = BiasSpilled(candidate.name, bias.name, unit=bias.unit, cells=cells, **asdict(own))
            spilled.append(line)
    return spilled
