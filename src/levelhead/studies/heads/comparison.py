"""Several models side by side: which heads carry the bias in each, and which changed sides (Fig. 5).

Reads runs of the heads study, never a model. The first run is the base: a debiased or instruction-tuned twin
is held against it. A *flip* is a head that worked against the bias in the base (b < 0) and adds to it in the
other (b > 0). See docs/method.md, Head scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.head import Head
from levelhead.errors import BadOption, BadRun
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import spearman
from levelhead.results import layout
from levelhead.results.folder import Run
from levelhead.results.records.comparison import (
    Flip,
    HeadAgreement,
    ModelHeadScore,
    ModelPair,
    ScoredModelSummary,
)
from levelhead.results.runs import HeadComparisonRun, HeadsRun, open_heads
from levelhead.results.settings import HeadComparisonSettings

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class ScoredModel:
    """What a heads run holds about a model."""

    name: str
    scores: Doubles  # [layer, head]
    held: Doubles  # [layer, head], what holds of a clear head on other words; 0 for heads that are not clear
    seat: Measurement
    test: str
    hashes: Mapping[str, str]  # of weights, words, contexts

    @classmethod
    def of(cls, run: HeadsRun) -> ScoredModel:
        """The model of a run that holds head scores."""
        if not run.scores or run.seat is None or run.words is None:
            raise BadRun(
                f"{run.folder} has no head scores. Give the folder of a finished `levelhead heads` run."
            )
        last = [max(numbers) for numbers in zip(*(each.head for each in run.scores), strict=True)]
        scores, held = (np.zeros((last[0] + 1, last[1] + 1)) for _ in range(2))
        for each in run.scores:
            scores[each.head] = each.score
            held[each.head] = each.held if each.clear and each.held is not None else 0.0
        return cls(run.model, scores, held, run.seat.measurement, run.words.test, run.data.hashes)

    def head_at(self, number: int) -> Head:
        """The head of that number, counted layer by layer."""
        layer, head = np.unravel_index(number, self.scores.shape)
        return Head(int(layer), int(head))

    def summary(self) -> ScoredModelSummary:
        """The model as one line of a table."""
        return ScoredModelSummary(
            model=self.name,
            layers=self.scores.shape[0],
            heads=self.scores.shape[1],
            biased=int((self.scores > 0).sum()),
            anti_biased=int((self.scores < 0).sum()),
            most_biased=self.head_at(int(self.scores.argmax())),
            most_biased_score=float(self.scores.max()),
            most_anti_biased=self.head_at(int(self.scores.argmin())),
            most_anti_biased_score=float(self.scores.min()),
            seat=self.seat,
        )

    def head_scores(self, number: int) -> list[ModelHeadScore]:
        """Every head's score; number: that of the model in the comparison."""
        return [
            ModelHeadScore(number, self.name, head, float(self.scores[head]))
            for head in starmap(Head, np.ndindex(self.scores.shape))
        ]


def compare_heads(folders: Sequence[str | Path], out: str | Path, top: int = 5) -> HeadComparisonRun:
    """Compare runs of the heads study, the base first, and write models, pairs and flips into a folder.

    top: how many of the base's most anti-biased heads are followed into the other models.
    """
    if len(folders) < 2 or top < 1:
        raise BadOption(
            f"{len(folders)} runs and top={top} came; give two runs or more, the base first, and top >= 1."
        )
    models = [ScoredModel.of(open_heads(folder)) for folder in folders]
    if len({model.hashes.get("words") for model in models}) > 1:
        tests = ", ".join(f"{model.name}: {model.test}, {model.hashes.get('words')}" for model in models)
        raise BadRun(f"The runs measured different word lists ({tests}). Compare runs of one list.")
    base, *others = models
    settings = HeadComparisonSettings(
        study=layout.HEAD_COMPARISON.study,
        seed=0,  # nothing is drawn
        runs=tuple(str(Path(folder)) for folder in folders),
        top=top,
        test=base.test,
    )
    hashes = {f"weights {i}": model.hashes.get("weights", "") for i, model in enumerate(models, start=1)}
    with Run.open(out, layout.HEAD_COMPARISON, settings, hashes=hashes) as run:
        run.results(layout.COMPARED_MODELS, lambda: [model.summary() for model in models])
        run.results(
            layout.COMPARED_SCORES,
            lambda: [score for i, model in enumerate(models, start=1) for score in model.head_scores(i)],
        )
        run.results(layout.MODEL_PAIRS, lambda: [pair(base, other, top) for other in others])
        run.results(layout.FLIPS, lambda: [flip for other in others for flip in flips(base, other)])
        return HeadComparisonRun(run.data())


def pair(base: ScoredModel, other: ScoredModel, top: int) -> ModelPair:
    """How a model relates to the base: model-level bias, and head by head where both have one shape."""
    alike = base.scores.shape == other.scores.shape
    return ModelPair(
        base=base.name,
        model=other.name,
        abs_seat_base=_size(base.seat),
        abs_seat=_size(other.seat),
        same_contexts=base.hashes.get("contexts") == other.hashes.get("contexts"),
        agreement=agreement(base, other, top) if alike else None,
        reason="" if alike else f"{_shape(base)} heads against {_shape(other)}: heads have no counterparts",
    )


def agreement(base: ScoredModel, other: ScoredModel, top: int) -> HeadAgreement:
    """Rank correlation of the heads of two models of one shape, and flips in both directions."""
    turned = (base.scores < 0) & (other.scores > 0)
    most = np.argsort(base.scores.ravel(), kind="stable")[:top]
    followed = [base.head_at(int(i)) for i in most if base.scores.flat[i] < 0]
    return HeadAgreement(
        spearman=spearman(base.scores.ravel(), other.scores.ravel()),
        anti_biased_in_base=int((base.scores < 0).sum()),
        flips=int(turned.sum()),
        clear_flips=int((turned & _clearly_turned(base, other)).sum()),
        flips_back=int(((base.scores > 0) & (other.scores < 0)).sum()),
        followed=tuple(followed),
        followed_flips=sum(bool(turned[head]) for head in followed),
    )


def flips(base: ScoredModel, other: ScoredModel) -> list[Flip]:
    """Every anti-biased head of the base that became biased, the one that was most anti-biased first."""
    if base.scores.shape != other.scores.shape:
        return []
    clear = _clearly_turned(base, other)
    turned = starmap(Head, np.argwhere((base.scores < 0) & (other.scores > 0)).tolist())
    return [
        Flip(
            base=base.name,
            model=other.name,
            head=head,
            score_base=float(base.scores[head]),
            score=float(other.scores[head]),
            clear=bool(clear[head]),
        )
        for head in sorted(turned, key=lambda head: float(base.scores[head]))
    ]


def _clearly_turned(base: ScoredModel, other: ScoredModel) -> NDArray[np.bool_]:
    """Heads that are clear in both models, against the bias in the base and with it in the other."""
    return np.asarray((base.held < 0) & (other.held > 0))


def _shape(model: ScoredModel) -> str:
    return " x ".join(map(str, model.scores.shape))


def _size(seat: Measurement) -> float | None:
    return None if seat.value is None else abs(seat.value)
