"""Targeted debiasing: what removing, amplifying or learning gates buys and costs (Tables 1 and 3).

Results of the debias experiment, in a run of the heads study (docs/method.md, Targeted debiasing):

    strategies         base, top-k, bottom-k, all, amplify-bottom-k: |SEAT|, LPBS, fluency, its paired change
    random strategies  random-k and random-all, mean and standard deviation over seeds
    verdict            whether top-k lowers |SEAT| more than random heads do
    sweep              top-k for rising k, up to every head with b > 0
    learned gates      in [0, 2], they minimize |SEAT| under bounds on fluency loss (learned_gates.py)
    trade-offs         learned gates against the best top-k that costs no more

|SEAT| is that of other words: heads are chosen, and gates learned, on one half of the words and judged on the
other, both ways round (bench.py). LPBS and fluency have other words and texts, and are those of the choice on
all words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from levelhead.errors import BadOption
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import mean_sd
from levelhead.results import layout
from levelhead.results.folder import Run
from levelhead.results.records.common import BASE
from levelhead.results.records.debias import (
    DebiasVerdict,
    LearnedMeasured,
    RandomMeasured,
    Rival,
    StrategyMeasured,
    Tradeoff,
)
from levelhead.results.settings import HeadsRunSettings
from levelhead.scoring.fluency import FLUENCY_CHANGE, why_no_fluency
from levelhead.scoring.seat import SEAT, ask_seat
from levelhead.scoring.word_table import sample_contexts
from levelhead.studies.heads.bench import Bench
from levelhead.studies.heads.learned_gates import LEARNED, LearnedGates, learn_gates, sampled_objective
from levelhead.studies.heads.settings import LearnSettings
from levelhead.studies.heads.strategies import (
    UNTOUCHED_MODEL,
    Doubles,
    Strategy,
    WordScores,
    drawn,
    strategies,
    sweep,
    top,
)


def debias(bench: Bench, scores: WordScores, run: Run[HeadsRunSettings]) -> None:
    """Measure every strategy and store it in the run; what a killed run has already is not computed again."""
    model, settings, shape = bench.model, bench.settings, scores.whole.shape
    if shape != (model.layers, model.heads) or not np.isfinite(scores.whole).all():
        raise BadOption(
            f"Scores {shape} came; {model.name} needs finite ones [{model.layers}, {model.heads}]."
        )
    tried = scores.chosen(lambda some: strategies(model, some, settings))
    table = run.results(layout.STRATEGIES, lambda: bench.measured(tried))
    chance = run.results(layout.RANDOM_STRATEGIES, lambda: _random(bench, scores.whole))
    run.result(layout.DEBIAS_VERDICT, lambda: verdict(table, chance, settings.k))
    ks = sweep(scores.whole, settings)
    rising = scores.chosen(lambda some: [top(model, some, k) for k in ks])
    swept = run.results(layout.TOP_SWEEP, lambda: bench.measured(rising))
    if settings.learn is not None:
        learned = _learned(bench, scores, run, settings.learn)
        run.results(layout.TRADEOFFS, lambda: tradeoffs(learned, swept))


# ---- random heads


def _random(bench: Bench, scores: Doubles) -> list[RandomMeasured]:
    """random-k and random-all: mean and standard deviation over seeds of every measure."""
    settings = bench.settings
    seeds = [settings.seed + i for i in range(settings.seeds)]
    biased = int((scores > 0).sum())
    plans = (
        (f"random-{settings.k}", settings.k, seeds),
        ("random-all", biased, seeds[: settings.costly_seeds]),
    )
    records: list[RandomMeasured] = []
    for name, count, some in plans:
        draws = drawn(bench.model, name, count, some)
        few = [draw.variant for draw in draws[: settings.costly_seeds]]
        costly = [[*a, *b] for a, b in zip(bench.lpbs(few), bench.fluency(few), strict=True)]
        by_measure = [bench.seats(draws), *zip(*costly, strict=True)]
        records += [_over_seeds(name, count, measured) for measured in by_measure]
    return records


def _over_seeds(name: str, count: int, draws: Sequence[Measurement]) -> RandomMeasured:
    """One measure of several draws of so many heads."""
    measure = draws[0].name
    values = tuple(draw.value for draw in draws)
    known = [value for value in values if value is not None]
    if not known:
        missing = Measurement.missing(measure, draws[0].reason)
        return RandomMeasured(name, count, missing, values, None)
    mean_abs = float(np.abs(known).mean()) if measure == SEAT else None
    return RandomMeasured(name, count, mean_sd(measure, known), values, mean_abs)


def verdict(table: Iterable[StrategyMeasured], chance: Iterable[RandomMeasured], k: int) -> DebiasVerdict:
    """The claim of the paper, true or not: top-k lowers |SEAT| more than random heads do."""
    seats = {each.strategy: each.measurement.value for each in table if each.measurement.name == SEAT}
    sizes = {name: None if value is None else abs(value) for name, value in seats.items()}
    base, reached = sizes[BASE], sizes[f"top-{k}"]
    (draws,) = (e for e in chance if e.strategy == f"random-{k}" and e.measurement.name == SEAT)
    holds, lower = None, None
    if base is not None and reached is not None and draws.mean_abs is not None:
        holds = reached < min(base, draws.mean_abs)
        lower = sum(abs(value) < reached for value in draws.values if value is not None)
    return DebiasVerdict(
        claim=f"removing the top {k} lowers |SEAT| more than {k} random heads do",
        base=base,
        top=reached,
        random_mean=draws.mean_abs,
        seeds=draws.measurement.n,
        holds=holds,
        random_lower=lower,
    )


# ---- learned gates


def _learned(
    bench: Bench, scores: WordScores, run: Run[HeadsRunSettings], settings: LearnSettings
) -> tuple[LearnedMeasured, ...]:
    """Gates for every bound and what they reach, stored; both are computed together and measured last."""
    if layout.LEARNED in run:
        return run.stored(layout.LEARNED)
    points: list[LearnedGates] = []
    learned: list[Strategy] = []
    if not why_no_fluency(bench.model):
        objective = sampled_objective(bench.test, bench.contexts, settings)
        points = learn_gates(bench.model, objective, bench.learning, settings)
        learned = _on_halves(bench, points, settings)
    run.results(layout.LEARNED_GATES, lambda: [point.record() for point in points])
    return run.results(layout.LEARNED, lambda: _learned_measured(bench, scores, learned, settings))


def _on_halves(bench: Bench, points: Sequence[LearnedGates], settings: LearnSettings) -> list[Strategy]:
    """Gates learned on all words, with those that either half of the words gives."""
    model = bench.model
    whole = [Strategy(point.name, point.variant(model)) for point in points]
    if bench.parts is None:
        return whole
    parts = [(bench.test.of(set(part.words)), part.contexts) for part in bench.parts]
    first, second = (
        learn_gates(model, sampled_objective(*part, settings), bench.learning, settings) for part in parts
    )
    return [
        replace(strategy, halves=(one.variant(model), other.variant(model)))
        for strategy, one, other in zip(whole, first, second, strict=True)
    ]


def _learned_measured(
    bench: Bench, scores: WordScores, learned: Sequence[Strategy], settings: LearnSettings
) -> list[LearnedMeasured]:
    """Learned gates with base and top-k beside them; also SEAT on the contexts that were not learned on."""
    model = bench.model
    if not learned:
        missing = Measurement.missing(SEAT, f"{model.name} predicts no tokens, so fluency cannot be bounded")
        return [LearnedMeasured(LEARNED, (), True, missing)]
    highest = scores.chosen(lambda some: [top(model, some, bench.settings.k)])
    chosen = [UNTOUCHED_MODEL, *highest, *learned]
    measured = [
        LearnedMeasured(each.strategy, each.heads, True, each.measurement) for each in bench.measured(chosen)
    ]
    return measured + _unseen(bench, chosen, settings)


def _unseen(bench: Bench, chosen: Sequence[Strategy], settings: LearnSettings) -> list[LearnedMeasured]:
    """SEAT on the contexts that were not learned on; nothing where they lack one of the four sets."""
    learned_on = settings.words, settings.seed, settings.contexts
    sample = sample_contexts(bench.test, bench.contexts, *learned_on)
    used = {(context.word, context.text) for context in sample}
    unseen = [context for context in bench.contexts if (context.word, context.text) not in used]
    if {context.group for context in unseen} != set("ABXY"):
        return []
    variants = [strategy.variant for strategy in chosen]
    seats = ask_seat(bench.model, bench.test, unseen, variants, resampling=bench.resampling, intervals=False)
    return [
        LearnedMeasured(strategy.name, strategy.heads, False, seat)
        for strategy, seat in zip(chosen, seats, strict=True)
    ]


def tradeoffs(learned: Iterable[LearnedMeasured], swept: Iterable[StrategyMeasured]) -> list[Tradeoff]:
    """For each bound: |SEAT| of the learned gates against the best top-k whose fluency loss is no larger.

    Both are measured on all contexts and on sentences that were not learned on. k = 0, the unmodified model,
    counts.
    """
    reached = _seats_and_ratios((e.strategy, e.measurement) for e in learned if e.learned)
    others = _seats_and_ratios((e.strategy, e.measurement) for e in swept)
    records = []
    for name, (seat, ratio) in reached.items():
        if name.startswith(LEARNED):
            rivals = [(abs(s), r, other) for other, (s, r) in others.items() if r <= max(ratio, 1.0)]
            best = min(rivals, default=None)
            rival = None if best is None else Rival(strategy=best[2], abs_seat=best[0], ratio=best[1])
            records.append(Tradeoff(name, abs(seat), ratio, rival))
    return records


def _seats_and_ratios(measured: Iterable[tuple[str, Measurement]]) -> dict[str, tuple[float, float]]:
    """(SEAT, perplexity ratio) of every strategy that has both."""
    seats: dict[str, float] = {}
    ratios: dict[str, float] = {}
    for strategy, measurement in measured:
        if measurement.value is not None and measurement.name in (SEAT, FLUENCY_CHANGE):
            column = seats if measurement.name == SEAT else ratios
            column[strategy] = measurement.value
    return {name: (seat, ratios[name]) for name, seat in seats.items() if name in ratios}
