"""A heads run with all experiments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from levelhead.edits.sites import Head
from levelhead.measures.attention import ContrastPart
from levelhead.measures.measurement import Measurement, Null
from levelhead.runs.common import BASE, MeasuredVariant
from levelhead.runs.folder import Run
from levelhead.runs.study import WEIGHTS_HASH
from levelhead.studies.heads import Heads
from levelhead.studies.heads.records import (
    CROSS_FITTED,
    AttentionExample,
    CounterContrast,
    CounterHead,
    CounterTest,
    DebiasVerdict,
    HeadGroup,
    HeadScore,
    LearnedGatesFound,
    LearnedMeasured,
    LearnedOn,
    RandomMeasured,
    Removal,
    Rival,
    SeatRow,
    StrategyMeasured,
    Tradeoff,
    Version,
    WordsUsed,
)
from levelhead.studies.heads.settings import HeadsStored
from tests.report.synthetic.measurements import HOSTILE, WEIGHTS, measured

LAYERS, HEADS = 4, 5
LEARNED = "learned, at most 1.05"
DETAILS = {"t": 2.5, "p_value": 0.007, "mean_original": 0.31, "mean_counter": 0.27, "heads": 9.0}


def heads_settings(model: str = "lh:tiny", seed: int = 0) -> HeadsStored:
    """The settings of the run."""
    return HeadsStored(
        study=Heads.name,
        seed=seed,
        models=(model,),
        layers=LAYERS,
        heads=HEADS,
        bias="gender",
        contexts="templates",
        experiments=("scores", "ablation", "counter", "debias"),
        per_word=2,
        sentences=None,
        n_sentences=500,
        top=2,
        trim=False,
        resamples=200,
        null=19,
        splits=2,
    )


def write_heads(folder: Path, model: str = "lh:tiny", seed: int = 0) -> Path:
    """A heads run with all experiments."""
    hashes = {WEIGHTS_HASH: WEIGHTS, "words": "12" * 8}
    with Run.open(folder, Heads, heads_settings(model, seed), hashes=hashes) as run:
        run.result(Heads.words, _words)
        seat = measured("seat", 1.23456789, neutral=0.0)
        run.results(Heads.seat_rows, lambda: _rows(seat))
        run.result(Heads.seat, lambda: MeasuredVariant(BASE, model, seat))
        run.results(Heads.cross_fit, _cross_fit)
        scores = run.results(Heads.scores, lambda: _scores(seed))
        removals = [Removal(each.head, 1.2, -0.9 * each.score) for each in scores]
        run.results(Heads.removals.of("1-1 to 4-5"), lambda: removals)
        rho = measured("spearman", 0.93, 0.04, 20, neutral=0.0, details={"p_value": 1.2e-28})
        run.result(Heads.agreement, lambda: rho)
        run.results(Heads.counter_sides, _sides)
        run.results(Heads.contrasts, contrasts)
        tests = [CounterHead(each.head, 0.04, 2.5, 0.007, 0.02, 140) for each in scores]
        run.results(Heads.counter_heads, lambda: tests)
        run.results(Heads.example, _example)
        run.results(Heads.counter, _groups)
        _write_debias(run)
    return folder


def _words() -> WordsUsed:
    sizes = {"A": 6, "B": 6, "X": 5, "Y": 5}
    return WordsUsed(HOSTILE, ("A", "B", "X", "Y"), sizes, words=22, contexts=44, missing=(), skipped={})


def _rows(seat: Measurement) -> list[SeatRow]:
    """All words, one-token words, which can be read as they are, and a kind of targets."""
    sizes = {"A": 6, "B": 6, "X": 5, "Y": 5}
    judged = replace(
        seat, value=0.81234567, interval=(0.4, 1.2), null=Null("null models", 19, 0.01, 0.2, 0.001)
    )
    return [
        SeatRow("all words", "tokens", 22, sizes, False, "", seat),
        SeatRow("one token", "tokens", 14, sizes, True, "null models lie around 0", judged),
        SeatRow(HOSTILE, "part", 16, sizes, False, "", measured("seat", None)),
    ]


def _cross_fit() -> list[Measurement]:
    null = Null("null models", 19, 0.02, 0.1, 0.03)
    settings = {"splits": 2, "null_models": 19, "contexts a word": 1}
    return [
        replace(measured(name, 0.34567891), interval=None, null=null, settings=settings)
        for name in CROSS_FITTED
    ]


def _scores(seed: int) -> Iterator[HeadScore]:
    scores = np.random.default_rng(seed).normal(0, 0.1, (LAYERS, HEADS))
    rank = (-scores).ravel().argsort().argsort().reshape(scores.shape) + 1
    for place in np.ndindex(scores.shape):
        head = Head(*place)
        yield HeadScore(
            head,
            score=float(scores[head]),
            stderr=0.02,
            held=0.5 * float(scores[head]),
            p=0.05 if head.head == 0 else 0.2,
            rank=int(rank[head]),
            objective=1.2,
        )


# ---- counter-stereotypes


def _groups() -> list[CounterTest]:
    known = measured("attention change, biased heads", 0.04, 0.01, 140, details=DETAILS)
    return [
        CounterTest("biased", "", known),
        CounterTest("regular", "", measured("attention change, regular heads", None)),
    ]


def _sides() -> list[CounterTest]:
    name = "attention change, biased heads"
    return [
        CounterTest("biased", "A", measured(name, 0.09, 0.01, 70, details=DETAILS)),
        CounterTest("biased", "B", measured(name, -0.03, 0.01, 70, details={**DETAILS, "t": -1.5})),
    ]


def contrasts(p: float = 0.004) -> list[CounterContrast]:
    """Biased less regular heads: the main number and its two parts; p is that of the main number."""
    parts: dict[ContrastPart, tuple[float, float]] = {
        "whole": (0.03, p),
        "stereotype": (0.025, 0.006),
        "group words": (0.06, 0.0002),
    }
    return [
        CounterContrast(
            "biased - regular",
            part,
            measured(
                f"attention contrast, {part}",
                value,
                0.01,
                140,
                neutral=0.0,
                null=Null("by cluster", 9_999, 0.0, 0.005, p_value),
            ),
        )
        for part, (value, p_value) in parts.items()
    ]


def _example() -> list[AttentionExample]:
    heads: dict[HeadGroup, Head] = {"biased": Head(1, 2), "regular": Head(0, 0)}
    versions: dict[Version, tuple[str, float]] = {"original": ("she", 0.5), "counter": ("he", 0.25)}
    return [
        AttentionExample(
            group,
            version,
            head,
            attention=weight,
            tokens=(word, "sews", "<b>x</b>"),
            weights=(weight, 1.0, None),
            target=(1,),
            attribute=(0,),
        )
        for group, head in heads.items()
        for version, (word, weight) in versions.items()
    ]


# ---- targeted debiasing


def _write_debias(run: Run[HeadsStored]) -> None:
    """Targeted debiasing of a model that has every measure."""
    table = [*_strategy(BASE, 1.23, 1.0), *_strategy("top-2", 1.0, 1.1), *_strategy("bottom-2", 1.5, 2.0)]
    run.results(Heads.strategies, lambda: table)
    run.results(Heads.random_strategies, _random)
    claim = "removing the top 2 lowers |SEAT| more than 2 random heads do"
    verdict = DebiasVerdict(claim, 1.23, 1.0, random_mean=1.25, seeds=3, holds=True, random_lower=0)
    run.result(Heads.verdict, lambda: verdict)
    swept = [*_strategy("top-0", 1.23, 1.0), *_strategy("top-1", 1.1, 1.02), *_strategy("top-2", 1.0, 1.1)]
    run.results(Heads.top_sweep, lambda: swept)
    run.results(Heads.learned, _learned)
    gates = LearnedGatesFound(LEARNED, 1.05, ((1.0,) * HEADS,) * LAYERS, 40, LearnedOn(-0.9, 1.03, 1.2))
    run.results(Heads.learned_gates, lambda: [gates])
    won = Tradeoff(LEARNED, abs_seat=1.02, ratio=1.04, rival=Rival("top-1", abs_seat=1.1, ratio=1.02))
    run.results(Heads.tradeoffs, lambda: [won])


def _values(seat: float, ratio: float) -> dict[str, float]:
    costs = {"fluency": 20 * ratio, "fluency change": ratio}
    return {"seat": seat, "lpbs career": 0.4, "lpbs math": 0.5, **costs}


def _strategy(name: str, seat: float, ratio: float) -> list[StrategyMeasured]:
    heads = () if name in (BASE, "top-0") else (Head(3, 4), Head(0, 1))
    values = _values(seat, ratio).items()
    return [StrategyMeasured(name, heads, measured(measure, value)) for measure, value in values]


def _random() -> Iterator[RandomMeasured]:
    for measure, value in _values(1.22, 1.03).items():
        mean_abs = 1.25 if measure == "seat" else None
        yield RandomMeasured("random-2", 2, measured(measure, value), (value,) * 3, mean_abs)


def _learned() -> Iterator[LearnedMeasured]:
    for each in (*_strategy(BASE, 1.23, 1.0), *_strategy(LEARNED, -1.02, 1.04)):
        yield LearnedMeasured(each.strategy, (), True, each.measurement)
    for name in (BASE, LEARNED):
        yield LearnedMeasured(name, (), False, measured("seat", 9.0, half=-1))
