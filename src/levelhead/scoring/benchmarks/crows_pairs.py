"""CrowS-Pairs: is the sentence about the disadvantaged group the likelier one of two? (docs/benchmarks.md)"""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from pathlib import Path

from levelhead.probes.benchmark_files import Reader, Row, hub_rows, table_rows
from levelhead.scoring.benchmarks.protocol import BenchmarkInfo, Items, Selection, chosen_items
from levelhead.scoring.benchmarks.sentence_pairs import PAIR_SCORES, RULES, PairBenchmark, SentencePair

DIRECTIONS = ("stereo", "antistereo")
_COLUMNS = ("sent_more", "sent_less", "stereo_antistereo", "bias_type")
_HUB_TYPES = (  # by their numbers on the hub
    *("race-color", "socioeconomic", "gender", "disability", "nationality", "sexual-orientation"),
    *("physical-appearance", "religion", "age"),
)
_FEWEST_SHARED = 0.5  # of the words of a minimal pair


def flaw_of(more: str, less: str) -> str:
    """Why two sentences are no minimal pair, as far as their words show it; empty where they are one."""
    words = [sentence.split() for sentence in (more, less)]
    bare = [[re.sub(r"\W", "", word).lower() for word in some] for some in words]
    shared = 0
    for kind, a, b, c, d in SequenceMatcher(None, bare[0], bare[1], autojunk=False).get_opcodes():
        if kind == "equal":
            shared += b - a
            if words[0][a:b] != words[1][c:d]:
                return "punctuation, spelling or letter case differs too"
    if shared < _FEWEST_SHARED * min(map(len, words)):
        return "fewer than half of the words are shared"
    return "the lengths differ by more than 3 words" if abs(len(words[0]) - len(words[1])) > 3 else ""


class CrowsPairs(PairBenchmark):
    info = BenchmarkInfo(
        name="crows-pairs",
        title="CrowS-Pairs",
        question="Is the sentence about a disadvantaged group likelier than the same about another group?",
        needs=("mlm", "causal"),
        neutral="share 0.5, gap 0",
        rules=RULES,
        licence="CC BY-SA 4.0",
        source="Nangia et al. 2020, github.com/nyu-mll/crows-pairs; French and others: Névéol et al. 2022",
        warning="its authors no longer recommend it: many pairs are unclear or no minimal pairs "
        "(Blodgett et al. 2021)",
        year=2020,
        files=("crows_pairs_anonymized.csv", "crows_pairs*.csv", "crows_pairs*.tsv", "*.csv"),
        folder="CrowS-Pairs",
        categories=_HUB_TYPES,
        scores=PAIR_SCORES,
        hub="nyu-mll/crows_pairs",
    )

    def load(self, data: str | Path, selection: Selection) -> Items:
        reader = Reader(self.info.source_of(data))
        if reader.source.is_hub:
            rows = hub_rows(reader.source)
        else:
            rows = table_rows(reader.source.files()[0], _COLUMNS)
        return chosen_items(self.info, reader, reader.read(rows, _pair), selection)


def _pair(row: Row) -> SentencePair:
    more, less = (row.text(name) for name in _COLUMNS[:2])
    if more == less:
        raise row.unusable("both sentences are the same", "sent_more and sent_less are the same.")
    direction = row.label("stereo_antistereo", DIRECTIONS)
    kind, writer, number = row.cell("bias_type"), row.cell("anon_writer"), str(row.place.number)
    category = row.label("bias_type", _HUB_TYPES) if isinstance(kind, int) else row.text("bias_type")
    cluster = writer if isinstance(writer, str) and writer.strip() else number
    return SentencePair(number, category, cluster, more, less, direction, flaw_of(more, less))


CROWS_PAIRS = CrowsPairs()
