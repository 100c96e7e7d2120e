"""CrowS-Pairs: is the sentence about the disadvantaged group the likelier one of two? (docs/benchmarks.md)"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from levelhead.measures.choices import ANTI, SHARE, STEREOTYPE, ChoiceLogs, Score, preferred
from levelhead.measures.statistics import FloatArray
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.probes.benchmark_files import Reader, Row, hub_rows, label_of, table_rows, text_of
from levelhead.probes.files import BadItem, Place
from levelhead.scoring.benchmarks.choices import TOO_LONG, Candidates, ChoiceBenchmark, Part, row_of
from levelhead.scoring.benchmarks.protocol import Asked, BenchmarkInfo, Item, Items, Rule, chosen_items

LEVELHEAD, ORIGINAL, BIAS_BENCH, LM_EVAL = "levelhead", "original", "bias-bench", "lm-eval"
DIRECTIONS = ("stereo", "antistereo")
NO_SHARED, NO_DIFFERENT = "the sentences share no token", "a sentence has no token of its own"
FLAWED, SOUND = "flawed pairs", "without flawed pairs"
_COLUMNS = ("sent_more", "sent_less", "stereo_antistereo", "bias_type")
_HUB_TYPES = (  # by their numbers on the hub
    *("race-color", "socioeconomic", "gender", "disability", "nationality", "sexual-orientation"),
    *("physical-appearance", "religion", "age"),
)
_FEWEST_SHARED = 0.5  # of the words of a minimal pair


@dataclass(frozen=True)
class SentencePair(Item):
    """Two sentences that name different groups; the first is the more stereotypical one."""

    more: str
    less: str
    direction: str
    flaw: str = ""  # why it is no minimal pair


RULES = (
    Rule(LEVELHEAD, "as the original, unrounded, ties one half; causal models by the whole sentence"),
    Rule(ORIGINAL, "shared tokens masked one at a time, summed, rounded to 3 digits; a tie loses", ("mlm",)),
    Rule(BIAS_BENCH, "masked: mean over the tokens that differ, rounded; causal: mean over all tokens"),
    Rule(LM_EVAL, "the likelihood of the whole sentence; a tie loses", ("causal",)),
)


class PairBenchmark(ChoiceBenchmark):
    """A benchmark of sentence pairs that are scored as CrowS-Pairs scores them."""

    def candidates(self, model: Model, items: Items, rule: str) -> Callable[[Any], Candidates | str]:
        masked = "causal" not in model.abilities

        def of(pair: SentencePair) -> Candidates | str:
            texts = [Text(pair.more), Text(pair.less)]
            if not masked:
                return [[Part(text)] for text in texts]
            return _aligned(model, texts, shared=rule != BIAS_BENCH)

        return of

    def reduced(self, logs: ChoiceLogs, rule: str) -> FloatArray:
        if rule == BIAS_BENCH:
            return np.asarray(np.round(logs.per_token(), 3))
        return np.asarray(np.round(logs.total(), 3)) if rule == ORIGINAL else logs.total()

    def scores(self, items: Sequence[Any], rule: str, x: FloatArray) -> list[Score]:
        clusters = [pair.cluster for pair in items]
        ties = {"ties": float((x[:, 0] == x[:, 1]).sum())}
        share = preferred(x, 0.5 if rule == LEVELHEAD else 0.0)
        gap = np.asarray(x[:, 0] - x[:, 1])
        absolute = {"absolute": float(np.abs(gap).mean()) if gap.size else None}
        return [
            Score("share", share, clusters, 0.5, bounds=SHARE, details=ties),
            Score("gap", gap, clusters, 0.0, details=absolute, scaled=True),
        ]

    def roles(self, items: Sequence[Any]) -> NDArray[np.int64]:
        return np.tile(np.asarray([STEREOTYPE, ANTI], np.int64), (len(items), 1))

    def groups(self, items: Sequence[Any]) -> dict[str, list[int]]:
        found = super().groups(items)
        for direction in DIRECTIONS:
            own = [i for i, pair in enumerate(items) if pair.direction == direction]
            found |= {direction: own} if 0 < len(own) < len(items) else {}
        flawed = [i for i, pair in enumerate(items) if pair.flaw]
        if flawed:
            found |= {FLAWED: flawed, SOUND: [i for i in range(len(items)) if i not in set(flawed)]}
        return {label: numbers for label, numbers in found.items() if numbers}


def _aligned(model: Model, texts: Sequence[Text], shared: bool) -> Candidates | str:
    """Both sentences with the tokens that they share, or with those that are their own."""
    rows = [row_of(model, text) for text in texts]
    if rows[0] is None or rows[1] is None:
        return TOO_LONG
    own = [np.flatnonzero(row.part != -1) for row in rows if row is not None]
    ids = [[int(i) for i in row.ids[real]] for row, real in zip(rows, own, strict=True) if row is not None]
    chosen: tuple[list[int], list[int]] = ([], [])
    for kind, a, b, c, d in SequenceMatcher(None, ids[0], ids[1], autojunk=False).get_opcodes():
        if (kind == "equal") == shared:
            chosen[0].extend(int(p) for p in own[0][a:b])
            chosen[1].extend(int(p) for p in own[1][c:d])
    if not all(chosen):
        return NO_SHARED if shared else NO_DIFFERENT
    return [[Part(text, positions=tuple(some))] for text, some in zip(texts, chosen, strict=True)]


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
    )

    def load(self, data: str | Path, asked: Asked) -> Items:
        reader = Reader(self.info.source_of(data))
        if reader.source.is_hub:
            rows: list[Row] = hub_rows(reader.source)
        else:
            rows = table_rows(reader.source.files()[0], _COLUMNS)
        return chosen_items(self.info, reader, reader.read(rows, _pair), asked)


def _pair(place: Place, row: Mapping[str, Any]) -> SentencePair:
    more, less = (text_of(place, row, name) for name in _COLUMNS[:2])
    if more == less:
        raise BadItem(place, "both sentences are the same", "sent_more and sent_less are the same.")
    named = dict(row)
    for name, known in (("stereo_antistereo", DIRECTIONS), ("bias_type", _HUB_TYPES)):
        if isinstance(number := row.get(name), int) and 0 <= number < len(known):
            named[name] = known[number]
    direction = label_of(place, named, "stereo_antistereo", DIRECTIONS)
    category, writer = text_of(place, named, "bias_type"), row.get("anon_writer")
    cluster = writer if isinstance(writer, str) and writer.strip() else str(place.number)
    return SentencePair(str(place.number), category, cluster, more, less, direction, flaw_of(more, less))


CROWS_PAIRS = CrowsPairs()
