"""WinoQueer: CrowS-Pairs' question about queer people, with stereotypes that a survey of them collected."""

from __future__ import annotations

from pathlib import Path

from levelhead.probes.benchmark_files import Reader, Row, table_rows
from levelhead.scoring.benchmarks.protocol import BenchmarkInfo, Items, Selection, chosen_items
from levelhead.scoring.benchmarks.sentence_pairs import PAIR_SCORES, RULES, PairBenchmark, SentencePair

_COLUMNS = ("Gender_ID_x", "Gender_ID_y", "sent_x", "sent_y")


class WinoQueer(PairBenchmark):
    info = BenchmarkInfo(
        name="winoqueer",
        title="WinoQueer",
        question="Is a harmful sentence likelier about queer people than about straight, cisgender ones?",
        needs=("mlm", "causal"),
        neutral="share 0.5, gap 0",
        rules=RULES,
        licence="MIT",
        source="Felkner et al. 2023, github.com/katyfelkner/winoqueer",
        warning="stereotypes that U.S. English speakers reported; it does not cover all identities",
        year=2023,
        files=("winoqueer_final.csv", "winoqueer*.csv"),
        folder="WinoQueer",
        scores=PAIR_SCORES,
    )

    def load(self, data: str | Path, selection: Selection) -> Items:
        reader = Reader(self.info.source_of(data))
        rows = table_rows(reader.source.files()[0], _COLUMNS)
        return chosen_items(self.info, reader, reader.read(rows, _pair), selection)


def _pair(row: Row) -> SentencePair:
    """The predicate is the cluster: names and identities are put into the same one."""
    queer, other, more, less = (row.text(name) for name in _COLUMNS)
    tail = " ".join(more.replace(queer, "").split()[-4:])
    return SentencePair(str(row.place.number), queer, tail, more, less, f"against {other}")


WINOQUEER = WinoQueer()
