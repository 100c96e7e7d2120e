"""Several models side by side: which heads carry the bias in each, and which changed sides (Fig. 5).

Reads runs of the heads study, never a model. The first run is the base; a debiased or instruction-tuned model
is compared with it. A *flip* is a head that worked against the bias in the base (b < 0) and adds to it in the
other (b > 0). See docs/method/heads.md, Head scores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import starmap
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.sites import Head
from levelhead.errors import BadOption, BadRun
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import spearman
from levelhead.runs.folder import Run
from levelhead.runs.study import WEIGHTS_HASH, WORDS_HASH, stored_as
from levelhead.studies.compare_heads import CompareHeads, CompareHeadsSettings, CompareHeadsStored
from levelhead.studies.compare_heads.records import (
    Flip,
    HeadAgreement,
    ModelHeadScore,
    ModelPair,
    ScoredModelSummary,
)
from levelhead.studies.heads import Heads, open_heads

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
    def of(cls, run: Heads) -> ScoredModel:
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


def compare_heads(
    folders: Sequence[str | Path], settings: CompareHeadsSettings | None, out: str | Path
) -> CompareHeads:
    """Compare runs of the heads study, the base first, and write models, pairs and flips into a folder."""
    settings = settings or CompareHeadsSettings()
    if len(folders) < 2:
        raise BadOption(f"compare-heads needs two runs or more, the base first (got {len(folders)})")
    models = [ScoredModel.of(open_heads(folder)) for folder in folders]
    if len({model.hashes.get(WORDS_HASH) for model in models}) > 1:
        tests = ", ".join(f"{model.name}: {model.test}, {model.hashes.get(WORDS_HASH)}" for model in models)
        raise BadRun(f"The runs measured different word lists ({tests}). Compare runs of one list.")
    base, *others = models
    runs = tuple(str(Path(folder)) for folder in folders)
    stored = stored_as(CompareHeadsStored, settings, study=CompareHeads.name, models=runs, test=base.test)
    top = settings.top
    hashes = {f"weights {i}": model.hashes.get(WEIGHTS_HASH, "") for i, model in enumerate(models, start=1)}
    with Run.open(out, CompareHeads, stored, hashes=hashes) as run:
        run.results(
            CompareHeads.models,
            lambda: [
                ScoredModelSummary(
                    model=model.name,
                    layers=model.scores.shape[0],
                    heads=model.scores.shape[1],
                    biased=int((model.scores > 0).sum()),
                    anti_biased=int((model.scores < 0).sum()),
                    most_biased=model.head_at(int(model.scores.argmax())),
                    most_biased_score=float(model.scores.max()),
                    most_anti_biased=model.head_at(int(model.scores.argmin())),
                    most_anti_biased_score=float(model.scores.min()),
                    seat=model.seat,
                )
                for model in models
            ],
        )
        run.results(
            CompareHeads.scores,
            lambda: [
                ModelHeadScore(i, model.name, head, float(model.scores[head]))
                for i, model in enumerate(models, start=1)
                for head in starmap(Head, np.ndindex(model.scores.shape))
            ],
        )
        run.results(CompareHeads.pairs, lambda: [pair(base, other, top) for other in others])
        run.results(CompareHeads.flips, lambda: [flip for other in others for flip in flips(base, other)])
        return CompareHeads(run.data())


def pair(base: ScoredModel, other: ScoredModel, top: int) -> ModelPair:
    """How a model relates to the base: model-level bias; where both have one shape, the rank correlation of
    their heads and flips in both directions."""
    agreement, reason = None, ""
    if base.scores.shape == other.scores.shape:
        flipped = (base.scores < 0) & (other.scores > 0)
        most = np.argsort(base.scores.ravel(), kind="stable")[:top]
        followed = [base.head_at(int(i)) for i in most if base.scores.flat[i] < 0]
        agreement = HeadAgreement(
            spearman=spearman(base.scores.ravel(), other.scores.ravel()),
            anti_biased_in_base=int((base.scores < 0).sum()),
            flips=int(flipped.sum()),
            clear_flips=int((flipped & (base.held < 0) & (other.held > 0)).sum()),
            flips_back=int(((base.scores > 0) & (other.scores < 0)).sum()),
            followed=tuple(followed),
            followed_flips=sum(bool(flipped[head]) for head in followed),
        )
    else:
        shapes = [" x ".join(map(str, model.scores.shape)) for model in (base, other)]
        reason = f"{shapes[0]} heads against {shapes[1]}: heads have no counterparts"
    sizes = [None if model.seat.value is None else abs(model.seat.value) for model in (base, other)]
    return ModelPair(
        base=base.name,
        model=other.name,
        abs_seat_base=sizes[0],
        abs_seat=sizes[1],
        same_contexts=base.hashes.get("contexts") == other.hashes.get("contexts"),
        agreement=agreement,
        reason=reason,
    )


def flips(base: ScoredModel, other: ScoredModel) -> list[Flip]:
    """Every anti-biased head of the base that became biased, the one that was most anti-biased first."""
    if base.scores.shape != other.scores.shape:
        return []
    clear = (base.held < 0) & (other.held > 0)  # in both models
    flipped = starmap(Head, np.argwhere((base.scores < 0) & (other.scores > 0)).tolist())
    return [
        Flip(
            base=base.name,
            model=other.name,
            head=head,
            score_base=float(base.scores[head]),
            score=float(other.scores[head]),
            clear=bool(clear[head]),
        )
        for head in sorted(flipped, key=lambda head: float(base.scores[head]))
    ]
