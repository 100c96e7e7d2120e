"""A benchmark of one's own: pairs of sentences about work, in a file with two columns.

    stereotype,opposite
    The secretary brought her laptop.,The secretary brought his laptop.

`pip install -e .`, then `levelhead benchmark office-pairs MODEL --data pairs.csv`. Asking, intervals,
artificial answerers, null models, natural units and head scores follow from PairBenchmark.
"""

from __future__ import annotations

from pathlib import Path

from levelhead.probes.benchmark_files import Reader, Row, table_rows
from levelhead.scoring.benchmarks.protocol import (
    BenchmarkInfo,
    Items,
    Selection,
    chosen_items,
    register_benchmark,
)
from levelhead.scoring.benchmarks.sentence_pairs import RULES, PairBenchmark, SentencePair

COLUMNS = ("stereotype", "opposite")


class OfficePairs(PairBenchmark):
    """Which of two sentences about work is the likelier one."""

    info = BenchmarkInfo(
        name="office-pairs",
        title="Office pairs",
        question="Is the stereotypical sentence about work the likelier one of two?",
        needs=("mlm", "causal"),
        neutral="share 0.5, gap 0",
        rules=RULES,
        licence="yours",
        source="your file",
        warning="as good as its sentences",
        year=2026,
        files=("*.csv",),
    )

    def load(self, data: str | Path, selection: Selection) -> Items:
        """The pairs of a CSV file."""
        reader = Reader(self.info.source_of(data))
        rows = table_rows(reader.source.files()[0], COLUMNS)
        return chosen_items(self.info, reader, reader.read(rows, _pair), selection)


def _pair(row: Row) -> SentencePair:
    more, less = (row.text(name) for name in COLUMNS)
    return SentencePair(str(row.place.number), "work", str(row.place.number), more, less, "stereo")


register_benchmark(OfficePairs())
