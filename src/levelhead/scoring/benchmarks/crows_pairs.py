"""CrowS-Pairs: is the sentence about the disadvantaged group the likelier one of two? (docs/benchmarks.md)"""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from levelhead.probes.benchmark_files import Row, Source, hub_rows, table_rows
from levelhead.scoring.benchmarks.protocol import benchmark_info
from levelhead.scoring.benchmarks.sentence_pairs import PairBenchmark, SentencePair

DIRECTIONS = ("stereo", "antistereo")
_COLUMNS = ("sent_more", "sent_less", "stereo_antistereo", "bias_type")
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
    info = benchmark_info("crows-pairs")

    def rows(self, source: Source) -> list[Row]:
        return hub_rows(source) if source.is_hub else table_rows(source.files()[0], _COLUMNS)

    def item(self, row: Row) -> SentencePair:
        more, less = (row.text(name) for name in _COLUMNS[:2])
        if more == less:
            raise row.unusable("both sentences are the same", "sent_more and sent_less are the same.")
        direction = row.label("stereo_antistereo", DIRECTIONS)
        kind, writer, number = row.cell("bias_type"), row.cell("anon_writer"), str(row.place.number)
        # the hub has the number of a category
        numbered = isinstance(kind, int)
        category = row.label("bias_type", self.info.categories) if numbered else row.text("bias_type")
        cluster = writer if isinstance(writer, str) and writer.strip() else number
        return SentencePair(number, category, cluster, more, less, direction, flaw_of(more, less))


CROWS_PAIRS = CrowsPairs()
