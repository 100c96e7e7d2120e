"""Which attention heads carry a bias, and are they really the ones? ('Bias A-head?')

    association   SEAT alone, without any score; the others measure it too
    scores     b[layer, head] = d|SEAT| / d gate, for every head (scores.py)
    ablation   what |SEAT| really does when one head is removed, for every head
    counter    does a biased head attend less to the attribute word in a counter-stereotype? (counter.py)
    debias     what removing, amplifying or learning gates buys and costs (Tables 1 and 3): strategies beside
               random heads, a sweep over k, and trade-offs with learned gates (learned_gates.py)

The |SEAT| of debiasing is that of other words: heads are chosen, and gates learned, on one half of the words
and judged on the other, both ways round (bench.py). LPBS and fluency have other words and texts, and are
those of the choice on all words.

See docs/method/heads.md: Head scores, Ablation, Counter-stereotypes, Targeted debiasing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.gates import all_heads, removed
from levelhead.edits.sites import Head
from levelhead.engine.effort import speed_of
from levelhead.errors import BadOption, CannotDo
from levelhead.measures.exchange import Exchange
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling, mean_sd, spearman
from levelhead.models.model import Model
from levelhead.probes.bias import data_hash
from levelhead.probes.contexts import contexts_fingerprint
from levelhead.probes.sentences import fluency_text
from levelhead.probes.words import ALL_WORDS
from levelhead.progress import Plan, Stage, announced, duration, stage
from levelhead.runs.common import BASE, MeasuredVariant
from levelhead.runs.folder import Run, text_hash
from levelhead.runs.presets import ASSOCIATION
from levelhead.runs.study import WEIGHTS_HASH, WORDS_HASH
from levelhead.scoring.fluency import FLUENCY_CHANGE, why_no_fluency
from levelhead.scoring.objectives import word_objective
from levelhead.scoring.placed import keeping_long_work, note_places, stored_of
from levelhead.scoring.seat import SEAT, WordTable, ask_seat, held_together, sample_contexts
from levelhead.studies.heads import CONTEXTS, HEAD_SCORES, SENTENCES, WORD_LIST, Heads
from levelhead.studies.heads.bench import (
    UNTOUCHED_MODEL,
    Bench,
    Strategy,
    WordScores,
    drawn,
    strategies,
    sweep,
    top,
)
from levelhead.studies.heads.counter import CounterSentences, counter_experiment, find_sentences
from levelhead.studies.heads.crossfit import halves, held_on_other_words, highest, summaries
from levelhead.studies.heads.learned_gates import (
    LEARNED,
    LearnedGates,
    as_variant,
    learn_gates,
    sampled_objective,
)
from levelhead.studies.heads.null_models import NullModels, drawable_null_models
from levelhead.studies.heads.plan import heads_plan
from levelhead.studies.heads.prepared import Prepared, prepare
from levelhead.studies.heads.records import (
    CROSS_FITTED,
    IN_COMMON,
    OF_HIGHEST,
    DebiasVerdict,
    HeadScore,
    LearnedGatesFound,
    LearnedMeasured,
    LearnedOn,
    RandomMeasured,
    Removal,
    Rival,
    ScoreLine,
    SeatRow,
    SentenceLine,
    StrategyMeasured,
    Tradeoff,
)
from levelhead.studies.heads.scores import head_scores, score_records
from levelhead.studies.heads.settings import (
    FROM_TEMPLATES,
    DebiasSettings,
    HeadsSettings,
    HeadsStored,
    LearnSettings,
)

Doubles = NDArray[np.float64]
Open = Run[HeadsStored]


def heads(model: Model, settings: HeadsSettings | None, folder: str | Path) -> Heads:
    """Run the experiments and write them into a folder; None: the default settings.

    A folder of a killed run with the same settings is finished.
    """
    settings = settings or HeadsSettings()
    prepared = prepare(model, settings)
    counter = None
    hashes = {WEIGHTS_HASH: model.fingerprint, **model.facts(), WORDS_HASH: data_hash(prepared.test)}
    hashes["contexts"] = contexts_fingerprint(prepared.table.contexts)
    if "counter" in settings.experiments:
        counter = find_sentences(model, prepared.test, settings)
        hashes["sentences"] = text_hash(f"{s.text}\n{s.counter}" for s in counter.sentences)
    if "debias" in settings.experiments:
        hashes["fluency text"] = text_hash(fluency_text(settings.text))
    stored = stored_of(
        model,
        Heads,
        HeadsStored,
        settings,
        layers=model.layers,
        heads=model.heads,
        all_score_contexts=settings.score_contexts_per_word(prepared.test),
    )
    with ExitStack() as stack:
        run = stack.enter_context(Run.open(folder, Heads, stored, hashes=hashes))
        stack.enter_context(keeping_long_work(run, [model]))
        # whether all null models had been evaluated before this run was opened again
        nulls_done = Heads.seat in run and (not settings.splits or Heads.cross_fit in run)
        work = cache(lambda: {} if nulls_done else heads_plan(model, settings, *prepared.given))
        stack.enter_context(announced("Heads", lambda: _times(model, prepared, settings, work()), work))
        run.file(WORD_LIST, prepared.word_list())
        run.file(CONTEXTS, prepared.table.contexts)
        run.result(Heads.words, prepared.used)
        null_models, no_null_models = drawable_null_models(model, settings.null)
        nulls = NullModels(model, prepared, settings, null_models, run)
        (nulls.stored if nulls_done else nulls.ask)()
        rows = run.results(Heads.seat_rows, lambda: _seat_rows(nulls))
        (all_words,) = (row.measurement for row in rows if row.name == ALL_WORDS)
        if no_null_models:
            all_words = replace(all_words, settings={**all_words.settings, "null": no_null_models})
        seat = run.result(Heads.seat, lambda: MeasuredVariant(BASE, model.name, all_words)).measurement
        if seat.value is None:
            raise CannotDo(f"{prepared.test.name}: there are no head scores, because {seat.reason}.")
        if settings.splits:
            run.results(Heads.cross_fit, lambda: _cross_fit(nulls, Exchange.of(seat)))
        if settings.experiments == (ASSOCIATION,):
            note_places(run, [model])
            return Heads(run.data())
        with stage(Stage.HEADS):
            scores = _scores(nulls, Exchange.of(seat))
            if settings.contexts != FROM_TEMPLATES:
                # A score that hangs on the texts around a word says more about them than about the head:
                # where contexts come from a corpus, every head is scored in our templates as well, for the
                # same words.
                ours = replace(settings, contexts=FROM_TEMPLATES, per_word=None, score_contexts=None)
                run.result(
                    Heads.sources,
                    lambda: source_agreement(
                        scores,
                        head_scores(model, prepare(model, ours).scored.part(prepared.table.words)).scores,
                        settings.top,
                    ),
                )
            if "ablation" in settings.experiments:
                _ablation(model, prepared.scored, scores, run)
        if counter is not None:
            with stage(Stage.ATTENTION):
                _counter(model, counter, scores, run, settings)
        if "debias" in settings.experiments:
            _debias(nulls, scores)
        note_places(run, [model])
        return Heads(run.data())


def _times(model: Model, prepared: Prepared, settings: HeadsSettings, work: Mapping[Stage, float]) -> Plan:
    """What the work of the study takes on this machine, and which option makes it shorter."""
    if not work:
        return Plan()
    plain = heads_plan(model, replace(settings, null=0, splits=0), *prepared.given)
    speed, shorter = speed_of(model), ""
    if settings.null:
        shorter = f"--null 0 takes about {duration(speed.plan(sum(plain.values())).seconds)}"
    return speed.plan(sum(work.values()), shorter=shorter)


# ---- experiments


def _seat_rows(nulls: NullModels) -> list[SeatRow]:
    """SEAT of all words, by words' numbers of subword tokens, and of each kind of targets."""
    answers = nulls.rows.answers(nulls.planned)
    present = set(nulls.prepared.table.words)
    return [
        SeatRow(
            name=name,
            kind="part" if name in answers.parts else "tokens",
            words=len(
                {word for listed in answers.tests[name].groups().values() for word in listed} & present
            ),
            sizes={group: len(listed) for group, listed in answers.tests[name].groups().items()},
            sound=name == answers.sound,
            why=answers.why if name == answers.sound else "",
            measurement=measurement if name == ALL_WORDS else replace(measurement, influence={}),
        )
        for name, measurement in answers.rows.items()
    ]


def _cross_fit(nulls: NullModels, exchanged: Exchange | None) -> list[Measurement]:
    """Heads chosen on half of the words, judged on the other half; none where a half is too small.

    Heads carry the association of two groups only if there is one: its p of exchanged group words counts for
    them too, where it is the larger.
    """
    if nulls.why_not:
        return [Measurement.missing(name, nulls.why_not) for name in CROSS_FITTED]
    fitted = summaries(nulls.fits, nulls.scored)
    return fitted if exchanged is None else [exchanged.on(each) for each in fitted]


def _scores(nulls: NullModels, exchanged: Exchange | None) -> Doubles:
    """Head scores, stored and as a table: b[layer, head]"""
    model, run, fits = nulls.model, nulls.run, nulls.fits

    def scored() -> list[HeadScore]:
        held, test = held_on_other_words(fits, nulls.scored) if fits else (None, None)
        p = None if test is None else np.maximum(test.p_value, exchanged.p_value if exchanged else 0.0)
        return score_records(head_scores(model, nulls.prepared.scored), held, p)

    scores = run.results(Heads.scores, scored)
    lines = [
        ScoreLine(s.head.layer + 1, s.head.head + 1, s.score, s.stderr, s.held, s.p, s.clear) for s in scores
    ]
    run.file(HEAD_SCORES, lines)
    return np.array([s.score for s in scores]).reshape(model.layers, model.heads)


def source_agreement(scores: Doubles, others: Doubles, top: int) -> Measurement:
    """Do heads that a corpus' sentences point at come out of our templates too (docs/method/heads.md, Head
    scores)?

    Spearman's rho between scores from two sources of contexts; details: how many of the highest agree.
    """
    common = {*highest(scores, top)} & {*highest(others, top)}
    rho = spearman(scores.ravel(), others.ravel())
    return replace(rho, details={**rho.details, IN_COMMON: len(common), OF_HIGHEST: min(top, scores.size)})


def _ablation(model: Model, table: WordTable, scores: Doubles, run: Open) -> None:
    """Remove every head alone; heads whose answers fit into memory together share the layers below them."""
    everyone = all_heads(model)
    floats = 2 * len(table.words) * int(model.config.hidden_size)
    size = len(held_together([()] * len(everyone), floats)[0])
    objective, change = word_objective(table), list[float]()

    def removals(some: Sequence[Head]) -> list[Removal]:
        variants = [(), *(removed(model, [head]) for head in some)]
        base, *without = objective.sizes(model, variants, label="Ablation")
        return [Removal(head, value, value - base) for head, value in zip(some, without, strict=True)]

    for start in range(0, len(everyone), size):
        some = everyone[start : start + size]
        key = Heads.removals.of(f"{some[0]} to {some[-1]}")
        change += [removal.change for removal in run.results(key, partial(removals, some))]
    # 1 if the gradient ranks heads as removal does
    run.result(Heads.agreement, lambda: spearman(scores.ravel(), -np.array(change)))


def _counter(
    model: Model, sentences: CounterSentences, scores: Doubles, run: Open, settings: HeadsSettings
) -> None:
    """The counter experiment, stored part by part; the last part says that all are there."""
    lines = [SentenceLine(s.text, s.counter, s.target, s.attribute, s.group) for s in sentences.sentences]
    run.file(SENTENCES, lines)
    if Heads.counter in run:
        return
    outcome = counter_experiment(model, sentences, scores, Resampling(settings.resamples, settings.seed))
    run.results(Heads.counter_sides, lambda: outcome.sides)
    run.results(Heads.contrasts, lambda: outcome.contrasts)
    run.results(Heads.counter_heads, lambda: outcome.heads)
    run.results(Heads.example, lambda: outcome.example)
    run.results(Heads.counter, lambda: outcome.tests)


def _debias(nulls: NullModels, scores: Doubles) -> None:
    """The debias experiment, judged on other words where the list can be halved: in the halves of the first
    split."""
    prepared, settings = nulls.prepared, nulls.settings
    by_half, parts = None, None
    if nulls.fits:
        first, second = map(np.array, nulls.fits[0].halves)
        by_half, parts = (first, second), halves(prepared.scored, prepared.test, settings.seed)
    within = DebiasSettings(
        k=settings.top, text=settings.text, resamples=settings.resamples, seed=settings.seed
    )
    bench = Bench(nulls.model, prepared.test, prepared.scored.contexts, within, parts)
    debias(bench, WordScores(scores, by_half), nulls.run)


def debias(bench: Bench, scores: WordScores, run: Run[HeadsStored]) -> None:
    """Measure every strategy and store it in the run; what a killed run has already is not computed again."""
    model, settings, shape = bench.model, bench.settings, scores.whole.shape
    if shape != (model.layers, model.heads) or not np.isfinite(scores.whole).all():
        raise BadOption(
            f"scores must be finite and of shape {(model.layers, model.heads)} for {model.name} (got {shape})"
        )
    tried = scores.chosen(lambda some: strategies(model, some, settings))
    table = run.results(Heads.strategies, lambda: bench.measured(tried))
    chance = run.results(Heads.random_strategies, lambda: _random(bench, scores.whole))
    run.result(Heads.verdict, lambda: verdict(table, chance, settings.k))
    ks = sweep(scores.whole, settings)
    rising = scores.chosen(lambda some: [top(model, some, k) for k in ks])
    swept = run.results(Heads.top_sweep, lambda: bench.measured(rising))
    if settings.learn is not None:
        learned = _learned(bench, scores, run, settings.learn)
        run.results(Heads.tradeoffs, lambda: tradeoffs(learned, swept))


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
        for measured in by_measure:
            measure, values = measured[0].name, tuple(draw.value for draw in measured)
            known = [value for value in values if value is not None]
            if known:
                mean_abs = float(np.abs(known).mean()) if measure == SEAT else None
                records.append(RandomMeasured(name, count, mean_sd(measure, known), values, mean_abs))
            else:
                missing = Measurement.missing(measure, measured[0].reason)
                records.append(RandomMeasured(name, count, missing, values, None))
    return records


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
    bench: Bench, scores: WordScores, run: Run[HeadsStored], settings: LearnSettings
) -> tuple[LearnedMeasured, ...]:
    """Gates for every bound and what they reach, stored; both are computed together and measured last."""
    if Heads.learned in run:
        return run.stored(Heads.learned)
    model, points = bench.model, list[LearnedGates]()
    learned: list[Strategy] = []
    if not why_no_fluency(model):
        objective = sampled_objective(bench.test, bench.contexts, settings)
        points = learn_gates(model, objective, bench.learning, settings)
        learned = [Strategy(point.name, as_variant(model, point.values)) for point in points]
        if bench.parts is not None:  # judged on either half by the gates that the other one gives
            parts = [(bench.test.of(set(part.words)), part.contexts) for part in bench.parts]
            first, second = (
                learn_gates(model, sampled_objective(*part, settings), bench.learning, settings)
                for part in parts
            )
            learned = [
                replace(strategy, halves=(as_variant(model, one.values), as_variant(model, other.values)))
                for strategy, one, other in zip(learned, first, second, strict=True)
            ]
    found = []
    for point in points:
        rounded = tuple(tuple(layer) for layer in np.round(point.values, 6).tolist())
        reached = LearnedOn(point.bias, point.ratio, point.start)
        found.append(LearnedGatesFound(point.name, point.bound, rounded, point.steps, reached))
    run.results(Heads.learned_gates, lambda: found)
    return run.results(Heads.learned, lambda: _learned_measured(bench, scores, learned, settings))


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
    learned_on = settings.words, settings.seed, settings.contexts
    sample = sample_contexts(bench.test, bench.contexts, *learned_on)
    used = {(context.word, context.text) for context in sample}
    unseen = [context for context in bench.contexts if (context.word, context.text) not in used]
    if {context.group for context in unseen} != set("ABXY"):  # SEAT needs all four sets
        return measured
    variants = [strategy.variant for strategy in chosen]
    seats = ask_seat(model, bench.test, unseen, variants, resampling=bench.resampling, intervals=False)
    return measured + [
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
