"""Attention heads: which of them carry a bias, and what does ablating them buy?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from levelhead.edits.sites import Head
from levelhead.errors import BadRun
from levelhead.measures.measurement import Measurement
from levelhead.probes.contexts import Context
from levelhead.runs.common import MeasuredVariant, NullModelSeat
from levelhead.runs.files import CsvFile, JsonFile, JsonLines
from levelhead.runs.folder import SETTINGS
from levelhead.runs.study import Many, One, Parts, Study
from levelhead.safe_files import subfolder
from levelhead.studies.atlas import Atlas
from levelhead.studies.atlas.settings import AtlasSettings
from levelhead.studies.heads.records import (
    AttentionExample,
    CounterContrast,
    CounterHead,
    CounterTest,
    CrossFit,
    DebiasVerdict,
    HeadScore,
    LearnedGatesFound,
    LearnedMeasured,
    RandomMeasured,
    Removal,
    ScoreLine,
    SeatRow,
    SentenceLine,
    StrategyMeasured,
    Tradeoff,
    WordList,
    WordsUsed,
)
from levelhead.studies.heads.settings import HeadsSettings, HeadsStored

WORD_LIST = JsonFile("words.json", WordList)
CONTEXTS = JsonLines("contexts.jsonl", Context)
SENTENCES = JsonLines("sentences.jsonl", SentenceLine)
HEAD_SCORES = CsvFile("head_scores.csv", ScoreLine)
_SHOWN = 5  # heads at either end of the ranking


class Heads(Study[HeadsStored]):
    """Which heads carry a bias: `scores`, `ranked`, `clear_heads`, `seat`, `removals`, `counter` ..."""

    name = "heads"
    title = "Attention heads"
    question = "Which heads carry the bias, and what does ablating them buy?"
    about = "Find the attention heads that carry a bias, and check that they are the ones."
    settings_type = HeadsSettings
    stored = HeadsStored
    order = 55
    grows = "experiments"
    document = "heads.md"
    unserved = "it scores attention heads, which no server shows"

    words = One(WordsUsed, "What was measured on.")
    null_seats = Parts(NullModelSeat, "SEAT of null models; labels: null model 1 ...")
    seat_rows = Many(SeatRow, "SEAT by words' numbers of subword tokens, and of each kind of targets.")
    seat = One(MeasuredVariant, "The association of all words, which heads are scored for.")
    cross_fits = Parts(
        CrossFit, "Heads chosen on half of the words, judged on the other; labels: model, null model 1 ..."
    )
    cross_fit = Many(
        Measurement,
        "Agreement of heads between halves of the words, what ablating them does on other words, and the "
        "largest score that holds.",
    )
    scores = Many(HeadScore, "Every head's score, layer by layer.")
    sources = One(Measurement, "Rank correlation of scores in a corpus with those in our templates.")
    removals = Parts(Removal, "What ablating each head alone does; labels: first and last head of a part.")
    agreement = One(Measurement, "Rank correlation of scores and removals.")
    counter = Many(CounterTest, "The counter-stereotype test of both groups of heads.")
    counter_sides = Many(CounterTest, "The same tests over the originals of either side alone.")
    contrasts = Many(CounterContrast, "Biased heads against regular ones, tested by cluster.")
    counter_heads = Many(CounterHead, "The counter-stereotype test of every head.")
    example = Many(AttentionExample, "The running example's attention.")
    strategies = Many(StrategyMeasured, "Strategies of targeted debiasing that need no draw.")
    random_strategies = Many(RandomMeasured, "Random heads ablated.")
    verdict = One(DebiasVerdict, "Whether the most biased heads beat random ones.")
    top_sweep = Many(StrategyMeasured, "The k most biased heads ablated, for rising k.")
    learned = Many(LearnedMeasured, "Learned gates, measured.")
    learned_gates = Many(LearnedGatesFound, "Learned gates themselves.")
    tradeoffs = Many(Tradeoff, "Learned gates against the best top-k that costs no more.")

    @classmethod
    def instead(cls, settings: Any) -> tuple[type[Study[Any]], Any]:
        """With an objective: the atlas of that one."""
        if settings.objective is None:
            return cls, settings
        data = {} if settings.data is None else {settings.objective: settings.data}
        localizer = settings.localizer or AtlasSettings().localizer
        return Atlas, AtlasSettings(
            (settings.objective,), data, settings.bias, localizer, null=settings.null, seed=settings.seed
        )

    @property
    def sound_row(self) -> SeatRow | None:
        """The row that claims rest on."""
        return next((row for row in self.seat_rows if row.sound), None)

    @property
    def ranked(self) -> list[HeadScore]:
        """Every head's score, the most biased first."""
        return sorted(self.scores, key=lambda score: score.rank)

    @property
    def clear_heads(self) -> list[Head]:
        """The heads whose scores hold on other words, farther than any head's does in null models."""
        return [score.head for score in self.ranked if score.clear and not self.doubts]

    def biased_heads(self, top: int) -> list[Head]:
        """The heads with the highest scores, most biased first: at most `top`, and only scores above 0."""
        biased = sorted((s for s in self.scores if s.biased), key=lambda s: (-s.score, s.head))
        if not biased:
            raise BadRun(f"{self.folder} has no head with a score above 0: nothing to ablate.")
        return [score.head for score in biased[:top]]

    def stated(self) -> dict[str, Any]:
        """What `--json` prints: of the heads those at either end, and no null model by itself."""
        cls = type(self)
        slots = (cls.null_seats, cls.cross_fits, cls.scores, cls.removals, cls.counter_heads, cls.example)
        left_out = {slot.name for slot in slots}
        found = {name: value for name, value in super().stated().items() if name not in left_out}
        if not self.scores:
            return found
        return {
            **found,
            "clear_heads": self.clear_heads,
            "heads": len(self.scores),
            "biased": sum(score.biased for score in self.scores),
            "most_biased": self.ranked[:_SHOWN],
            "most_anti_biased": self.ranked[: -_SHOWN - 1 : -1],
        }

    @property
    def finished(self) -> bool:
        cls, experiments = type(self), self.settings.experiments
        # what each experiment writes last
        last = {"ablation": cls.agreement.name, "counter": cls.counter.name, "debias": cls.tradeoffs.name}
        awaited = [cls.scores.name, *(key for name, key in last.items() if name in experiments)]
        return all(key in self.data.results for key in awaited)


def open_heads(folder: str | Path) -> Heads:
    """A run of `levelhead heads`, or the one inside an audit."""
    inside = Path(folder) / Heads.name
    audited = (inside / SETTINGS).is_file() and (Path(folder) / SETTINGS).is_file()
    return Heads.open(subfolder(Path(folder), Heads.name) if audited else folder)
