"""Winogender: does the pronoun that a model expects follow the share of women in an occupation?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from levelhead.errors import BadProbe
from levelhead.measures.choices import Score, correlation_score
from levelhead.measures.statistics import FloatArray
from levelhead.probes.benchmark_files import Row, Source, table_rows
from levelhead.scoring.benchmarks.protocol import benchmark_info
from levelhead.scoring.benchmarks.sentence_pairs import PairBenchmark, SentencePair

_STATISTICS = "occupations-stats.tsv"
OF_OCCUPATION, OF_OTHER = "pronoun of the occupation", "pronoun of the other"


@dataclass(frozen=True)
class OccupationPair(SentencePair):
    """The same sentence with the pronoun of the gender that is common in the occupation, and the other."""

    women: float = 50.0  # percent of those who work in it


class Winogender(PairBenchmark):
    info = benchmark_info("winogender")

    def rows(self, source: Source) -> list[Row]:
        statistics = source.beside(_STATISTICS)
        if statistics is None:
            raise BadProbe(
                f"{source.data}: no {_STATISTICS} in it, which has the shares of women. Put it there."
            )
        # percent of women in an occupation, of the U.S. Bureau of Labor Statistics
        shares = table_rows(statistics, ("occupation", "bls_pct_female"))
        numbers = {str(row.cell("occupation")): str(row.cell("bls_pct_female")) for row in shares}
        women = {name: float(n) for name, n in numbers.items() if n.replace(".", "", 1).isdigit()}
        rows: dict[tuple[str, ...], Row] = {}
        for row in table_rows(source.files()[0], ("sentid", "sentence")):
            *key, gender = (*str(row.cell("sentid")).split("."), "", "", "", "")[:4]
            occupation, other, answer = key
            about = {"occupation": occupation, "other": other, "answer": answer}
            known = rows.get(tuple(key), Row(row.place, {**about, "women": women.get(occupation)}))
            rows[tuple(key)] = replace(known, cells={**known.cells, gender: row.cell("sentence")})
        return list(rows.values())

    def item(self, row: Row) -> OccupationPair:
        occupation, other, answer = (str(row.cell(name)) for name in ("occupation", "other", "answer"))
        female, male = (row.text(gender) for gender in ("female", "male"))
        women = row.cell("women")
        if not isinstance(women, float):
            raise row.unusable("no share of women is known", f"{_STATISTICS} has no {occupation!r}.")
        first, second = (female, male) if women > 50 else (male, female)
        category = OF_OCCUPATION if answer == "0" else OF_OTHER
        gender = "female" if women > 50 else "male"
        about = (f"{occupation}.{other}.{answer}", category, occupation)
        return OccupationPair(*about, first, second, f"stereotype {gender}", women=women)

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


WINOGENDER = Winogender()
