"""Every candidate on every bias at hand that it was not fitted on: word vectors, and blanks of masked models.

Each cell is the growth of a bias's size, |after| − |before|, in natural units; the intervals hold for all
cells together (Bonferroni: each at the level 1 − 0.05 / cells).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

from levelhead.edits.sites import Variant
from levelhead.engine.run import read
from levelhead.measures.growth import size_growth
from levelhead.models.model import Model
from levelhead.probes.contexts import template_contexts
from levelhead.probes.words import WordTest, load_words, shipped_words
from levelhead.results.records.mitigating import BiasSpilled
from levelhead.scoring.item_values import ItemValues
from levelhead.scoring.lpbs import LPBS_TESTS, lpbs_biases
from levelhead.scoring.natural import cosine_values, lpbs_items
from levelhead.scoring.word_table import word_table
from levelhead.studies.mitigating.protocol import Candidate

_CONTEXTS = 1  # per word


def spilled(model: Model, test: WordTest, candidates: Sequence[Candidate]) -> list[BiasSpilled]:
    """The matrix of candidates and biases. test: what they were fitted on."""
    if not candidates:
        return []
    variants = [(), *(candidate.edits for candidate in candidates)]
    biases = [*_other_cosines(model, test, variants), *_blanks(model, test, variants)]
    cells = len(biases) * len(candidates)
    return [
        _cell(candidate.name, bias, number, cells)
        for number, candidate in enumerate(candidates, start=1)
        for bias in biases
    ]


def _other_cosines(model: Model, test: WordTest, variants: Sequence[Variant]) -> list[ItemValues]:
    """The cosine gap of every other list that ships; all lists are asked at once."""
    others = [load_words(name) for name in shipped_words() if name != test.name]
    tables = [word_table(other, template_contexts(other, _CONTEXTS)) for other in others]
    readings = [table.static() for table in tables]
    answers = read(model, readings, variants, label="Other biases")
    gaps = [cosine_values(answers[asked], table) for table, asked in zip(tables, readings, strict=True)]
    return [replace(gap, name=f"{other.name}: {gap.name}") for other, gap in zip(others, gaps, strict=True)]


def _blanks(model: Model, test: WordTest, variants: Sequence[Variant]) -> list[ItemValues]:
    """LPBS in nats of the tests that ship, which ask a masked model only."""
    if "mlm" not in model.abilities:
        return []
    found = []
    for name in LPBS_TESTS:
        asked = None if name == test.name else lpbs_biases(model, load_words(name), variants)
        if asked is None:
            continue
        items = lpbs_items(f"{name}: LPBS", load_words(name), *asked)
        found += [] if items is None else [items]
    return found


def _cell(candidate: str, bias: ItemValues, number: int, cells: int) -> BiasSpilled:
    own = size_growth(bias.paired(number), cells)
    return BiasSpilled(candidate, bias.name, unit=bias.unit, cells=cells, **asdict(own))
