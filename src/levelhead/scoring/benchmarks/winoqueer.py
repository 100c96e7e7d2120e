"""WinoQueer: CrowS-Pairs' question about queer people, with stereotypes that a survey of them collected."""

from __future__ import annotations

from levelhead.probes.benchmark_files import Row, Source, table_rows
from levelhead.scoring.benchmarks.protocol import benchmark_info
from levelhead.scoring.benchmarks.sentence_pairs import PairBenchmark, SentencePair

_COLUMNS = ("Gender_ID_x", "Gender_ID_y", "sent_x", "sent_y")


class WinoQueer(PairBenchmark):
    info = benchmark_info("winoqueer")

    def rows(self, source: Source) -> list[Row]:
        return table_rows(source.files()[0], _COLUMNS)

    def item(self, row: Row) -> SentencePair:
        """The predicate is the cluster: names and identities are put into the same one."""
        queer, other, more, less = (row.text(name) for name in _COLUMNS)
        tail = " ".join(more.replace(queer, "").split()[-4:])
        return SentencePair(str(row.place.number), queer, tail, more, less, f"against {other}")


WINOQUEER = WinoQueer()
