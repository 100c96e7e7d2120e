"""Benchmarks of two sentences that differ in the group they name: which is the likelier one?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

import numpy as np

from levelhead.measures.choices import SHARE, Score, preferred
from levelhead.measures.statistics import FloatArray
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.scoring.benchmarks.choices import TOO_LONG, Candidates, ChoiceBenchmark, Part, row_of
from levelhead.scoring.benchmarks.protocol import Item, Items, benchmark_info

LEVELHEAD, ORIGINAL, BIAS_BENCH, LM_EVAL = "levelhead", "original", "bias-bench", "lm-eval"
PRONOUN, SHARED = "pronoun", "shared"
NO_SHARED, NO_DIFFERENT = "the sentences share no token", "a sentence has no token of its own"
FLAWED, SOUND = "flawed pairs", "without flawed pairs"


@dataclass(frozen=True)
class SentencePair(Item):
    """Two sentences that name different groups; the first is the more stereotypical one."""

    more: str
    less: str
    direction: str
    flaw: str = ""  # why it is no minimal pair


RULES = benchmark_info("crows-pairs").rules


class PairBenchmark(ChoiceBenchmark):
    """A benchmark of sentence pairs: the share of pairs whose first sentence wins, and the gap in nats."""

    summed: tuple[str, ...] = (LEVELHEAD, ORIGINAL, LM_EVAL, PRONOUN, SHARED)
    rounded: tuple[str, ...] = (ORIGINAL, BIAS_BENCH)

    def candidates(self, model: Model, items: Items, rule: str) -> Callable[[Any], Candidates | str]:
        shared = rule not in (BIAS_BENCH, PRONOUN)  # tokens are scored, or those of each sentence alone

        def of(pair: SentencePair) -> Candidates | str:
            texts = [Text(pair.more), Text(pair.less)]
            if "causal" in model.abilities:
                return [[Part(text)] for text in texts]
            rows = [row for row in (row_of(model, text) for text in texts) if row is not None]
            if len(rows) < 2:
                return TOO_LONG
            own = [np.flatnonzero(row.part != -1) for row in rows]
            ids = [[int(i) for i in row.ids[real]] for row, real in zip(rows, own, strict=True)]
            chosen: tuple[list[int], list[int]] = ([], [])
            for kind, a, b, c, d in SequenceMatcher(None, ids[0], ids[1], autojunk=False).get_opcodes():
                if (kind == "equal") == shared:
                    chosen[0].extend(int(p) for p in own[0][a:b])
                    chosen[1].extend(int(p) for p in own[1][c:d])
            if not all(chosen):
                return NO_SHARED if shared else NO_DIFFERENT
            return [[Part(text, positions=tuple(some))] for text, some in zip(texts, chosen, strict=True)]

        return of

    def scores(self, items: Sequence[Any], rule: str, x: FloatArray) -> list[Score]:
        clusters = [pair.cluster for pair in items]
        ties = {"ties": float((x[:, 0] == x[:, 1]).sum())}
        share = preferred(x, 0.0 if rule in (ORIGINAL, BIAS_BENCH, LM_EVAL) else 0.5)
        gap = np.asarray(x[:, 0] - x[:, 1])
        absolute = {"absolute": float(np.abs(gap).mean()) if gap.size else None}
        return [
            Score("share", share, clusters, 0.5, bounds=SHARE, details=ties),
            Score("gap", gap, clusters, 0.0, details=absolute, scaled=True),
        ]

    def groups(self, items: Sequence[Any]) -> dict[str, list[int]]:
        found = super().groups(items)
        for direction in dict.fromkeys(pair.direction for pair in items):
            own = [i for i, pair in enumerate(items) if pair.direction == direction]
            found |= {direction: own} if 0 < len(own) < len(items) else {}
        flawed = [i for i, pair in enumerate(items) if pair.flaw]
        if flawed:
            found |= {FLAWED: flawed, SOUND: [i for i in range(len(items)) if i not in set(flawed)]}
        return {label: numbers for label, numbers in found.items() if numbers}
