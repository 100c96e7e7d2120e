"""WinoBias: is the pronoun that follows the stereotype of an occupation the likelier one?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from levelhead.probes.benchmark_files import Row, Source, counterpart, text_lines
from levelhead.scoring.benchmarks.protocol import benchmark_info
from levelhead.scoring.benchmarks.sentence_pairs import PairBenchmark, SentencePair

_FEMALE, _MALE = ("she", "her", "hers", "herself"), ("he", "him", "his", "himself")
_NUMBER = re.compile(r"^\d+\s+")


class WinoBias(PairBenchmark):
    info = benchmark_info("winobias")

    def rows(self, source: Source) -> Iterator[Row]:
        """Line n of both files: the same sentence with the other pronoun."""
        for pro in source.files():
            anti = counterpart(pro, "pro_stereotyped", "anti_stereotyped")
            against = dict(enumerate(line for _, line in text_lines(anti)))
            kind = "type2" if "type2" in pro.name else "type1"
            for number, (place, line) in enumerate(text_lines(pro)):
                yield Row(place, {"pro": line, "anti": against.get(number, ""), "kind": kind})

    def item(self, row: Row) -> SentencePair:
        marked = [_NUMBER.sub("", row.text(name)) for name in ("pro", "anti")]
        pro, anti = (text.replace("[", "").replace("]", "") for text in marked)
        words = list(zip(pro.lower().split(), anti.lower().split(), strict=False))
        changed = [(re.sub(r"\W", "", a), re.sub(r"\W", "", b)) for a, b in words if a != b]
        gender_of = {word: "female" for word in _FEMALE} | {word: "male" for word in _MALE}
        genders = [(gender_of.get(a, ""), gender_of.get(b, "")) for a, b in changed]
        if len(pro.split()) != len(anti.split()) or not genders or "" in genders[0]:
            complaint = f"{pro[:60]!r} and {anti[:60]!r} do not match."
            raise row.unusable("the two files have no such pair", complaint)
        entity = re.findall(r"\[([^\]]*)\]", marked[0])
        cluster, kind = entity[0].lower() if entity else str(row.place.number), row.text("kind")
        about = (f"{kind} {row.place.number}", kind, cluster)
        return SentencePair(*about, pro, anti, f"stereotype {genders[0][0]}")


WINOBIAS = WinoBias()
