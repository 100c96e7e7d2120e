"""Winogender: does the pronoun that a model expects follow the share of women in an occupation?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from levelhead.errors import BadProbe
from levelhead.measures.catalog import CORRELATION_INFO
from levelhead.measures.choices import Score, correlation_score
from levelhead.measures.statistics import FloatArray
from levelhead.probes.benchmark_files import Reader, Row, table_rows
from levelhead.probes.files import Place
from levelhead.scoring.benchmarks.protocol import BenchmarkInfo, Items, Selection, chosen_items
from levelhead.scoring.benchmarks.sentence_pairs import (
    PAIR_SCORES,
    PRONOUN_RULES,
    PairBenchmark,
    SentencePair,
)

_STATISTICS = "occupations-stats.tsv"
OF_OCCUPATION, OF_OTHER = "pronoun of the occupation", "pronoun of the other"


@dataclass(frozen=True)
class OccupationPair(SentencePair):
    """The same sentence with the pronoun of the gender that is common in the occupation, and the other."""

    women: float = 50.0  # percent of those who work in it


class Winogender(PairBenchmark):
    info = BenchmarkInfo(
        name="winogender",
        title="Winogender",
        question="Does the pronoun that the model expects follow the share of women in an occupation?",
        needs=("mlm", "causal"),
        neutral="share 0.5, gap 0, correlation 0",
        rules=PRONOUN_RULES,
        licence="MIT",
        source="Rudinger et al. 2018, github.com/rudinger/winogender-schemas",
        warning="small: 60 occupations; its authors call it a test that can show bias, not its absence",
        year=2018,
        files=("all_sentences.tsv",),
        folder="Winogender",
        categories=(OF_OCCUPATION, OF_OTHER),
        scores=(*PAIR_SCORES, CORRELATION_INFO),
        hub="oskarvanderwal/winogender",
    )

    def load(self, data: str | Path, selection: Selection) -> Items:
        reader = Reader(self.info.source_of(data))
        statistics = reader.source.beside(_STATISTICS)
        if statistics is None:
            raise BadProbe(f"{data}: no {_STATISTICS} in it, which has the shares of women. Put it there.")
        # percent of women in an occupation, of the U.S. Bureau of Labor Statistics
        rows = table_rows(statistics, ("occupation", "bls_pct_female"))
        numbers = {str(row.cell("occupation")): str(row.cell("bls_pct_female")) for row in rows}
        women = {name: float(n) for name, n in numbers.items() if n.replace(".", "", 1).isdigit()}
        sentences: dict[tuple[str, ...], dict[str, object]] = {}
        places: dict[tuple[str, ...], Place] = {}
        for row in table_rows(reader.source.files()[0], ("sentid", "sentence")):
            *key, gender = (*str(row.cell("sentid")).split("."), "", "", "", "")[:4]
            sentences.setdefault(tuple(key), {})[gender] = row.cell("sentence")
            places.setdefault(tuple(key), row.place)
        pairs = [
            pair
            for key, cells in sentences.items()
            for pair in reader.read([Row(places[key], cells)], partial(_pair, key=key, shares=women))
        ]
        return chosen_items(self.info, reader, pairs, selection)

    def scores(self, items: Sequence[Any], rule: str, x: FloatArray) -> list[Score]:
        """Share and gap as of every pair, and how log p(female) − log p(male) goes with women's share."""
        sign = np.asarray([1.0 if pair.women > 50 else -1.0 for pair in items])
        names = [pair.cluster for pair in items]
        occupations = sorted(set(names))
        gaps = sign * (x[:, 0] - x[:, 1])
        means = [float(np.mean([g for g, n in zip(gaps, names, strict=True) if n == o])) for o in occupations]
        share = {pair.cluster: pair.women for pair in items}
        women = [share[occupation] for occupation in occupations]
        found = correlation_score("correlation", np.asarray(means), np.asarray(women), occupations)
        return [*super().scores(items, rule, x), found]


def _pair(row: Row, key: tuple[str, ...], shares: Mapping[str, float]) -> OccupationPair:
    occupation, other, answer = key
    female, male = (row.text(gender) for gender in ("female", "male"))
    if (women := shares.get(occupation)) is None:
        raise row.unusable("no share of women is known", f"{_STATISTICS} has no {occupation!r}.")
    first, second = (female, male) if women > 50 else (male, female)
    category = OF_OCCUPATION if answer == "0" else OF_OTHER
    gender = "female" if women > 50 else "male"
    about = (f"{occupation}.{other}.{answer}", category, occupation)
    return OccupationPair(*about, first, second, f"stereotype {gender}", women=women)


WINOGENDER = Winogender()
