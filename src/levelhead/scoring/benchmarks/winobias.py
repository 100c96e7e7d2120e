"""WinoBias: is the pronoun that follows the stereotype of an occupation the likelier one?"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path

from levelhead.probes.benchmark_files import Reader, Row, counterpart, text_lines
from levelhead.scoring.benchmarks.protocol import BenchmarkInfo, Items, Selection, chosen_items
from levelhead.scoring.benchmarks.sentence_pairs import (
    PAIR_SCORES,
    PRONOUN_RULES,
    PairBenchmark,
    SentencePair,
)

_FEMALE, _MALE = ("she", "her", "hers", "herself"), ("he", "him", "his", "himself")
_NUMBER = re.compile(r"^\d+\s+")


class WinoBias(PairBenchmark):
    info = BenchmarkInfo(
        name="winobias",
        title="WinoBias",
        question="Is the pronoun that fits the stereotype of an occupation likelier than the other one?",
        needs=("mlm", "causal"),
        neutral="share 0.5, gap 0",
        rules=PRONOUN_RULES,
        licence="MIT",
        source="Zhao et al. 2018, github.com/uclanlp/corefBias",
        warning="made for coreference systems; a likelihood is a proxy, and it covers two genders only",
        year=2018,
        files=("pro_stereotyped_type*.txt.dev", "pro_stereotyped_type*.txt.test"),
        folder="WinoBias",
        categories=("type1", "type2"),
        scores=PAIR_SCORES,
        hub="uclanlp/wino_bias",
    )

    def load(self, data: str | Path, selection: Selection) -> Items:
        reader = Reader(self.info.source_of(data))
        pairs: list[SentencePair] = []
        for pro in reader.source.files():
            anti = counterpart(pro, "pro_stereotyped", "anti_stereotyped")
            against = dict(enumerate(line for _, line in text_lines(anti)))
            rows = [
                Row(place, {"pro": line, "anti": against.get(number, "")})
                for number, (place, line) in enumerate(text_lines(pro))
            ]
            kind = "type2" if "type2" in pro.name else "type1"
            pairs += reader.read(rows, partial(_pair, kind=kind))
        return chosen_items(self.info, reader, pairs, selection)


def _pair(row: Row, kind: str) -> SentencePair:
    """Line n of both files: the same sentence with the other pronoun."""
    marked = [_NUMBER.sub("", row.text(name)) for name in ("pro", "anti")]
    pro, anti = (text.replace("[", "").replace("]", "") for text in marked)
    words = list(zip(pro.lower().split(), anti.lower().split(), strict=False))
    changed = [(re.sub(r"\W", "", a), re.sub(r"\W", "", b)) for a, b in words if a != b]
    gender_of = {word: "female" for word in _FEMALE} | {word: "male" for word in _MALE}
    genders = [(gender_of.get(a, ""), gender_of.get(b, "")) for a, b in changed]
    if len(pro.split()) != len(anti.split()) or not genders or "" in genders[0]:
        raise row.unusable("the two files have no such pair", f"{pro[:60]!r} and {anti[:60]!r} do not match.")
    entity = re.findall(r"\[([^\]]*)\]", marked[0])
    cluster = entity[0].lower() if entity else str(row.place.number)
    return SentencePair(f"{kind} {row.place.number}", kind, cluster, pro, anti, f"stereotype {genders[0][0]}")


WINOBIAS = WinoBias()
