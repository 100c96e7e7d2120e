"""Which attention heads carry a bias, and are they really the ones? ('Bias A-head?')

    association   SEAT alone, without any score; the others measure it too
    scores     b[layer, head] = d|SEAT| / d gate, for every head (scores.py)
    ablation   what |SEAT| really does when one head is removed, for every head
    counter    does a biased head look at the attribute word less when the stereotype is turned? (counter.py)
    debias     what removing or weighting heads buys and costs (debias.py)

See docs/method.md: Head scores, Ablation, Counter-stereotypes, Targeted debiasing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.gates import all_heads, removed
from levelhead.edits.head import Head
from levelhead.engine.pace import seconds_per_token
from levelhead.errors import CannotDo
from levelhead.measures.exchange import Exchange
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import spearman
from levelhead.models.model import Model
from levelhead.probes.bias import data_hash
from levelhead.probes.contexts import (
    contexts_fingerprint,
)
from levelhead.probes.sentences import fluency_text
from levelhead.probes.token_rows import ALL_WORDS
from levelhead.probes.words import in_memory, words_name
from levelhead.progress import duration
from levelhead.results import layout
from levelhead.results.folder import Run, text_hash
from levelhead.results.presets import ASSOCIATION
from levelhead.results.records.common import BASE, MeasuredVariant
from levelhead.results.records.heads import (
    CROSS_FITTED,
    CrossFit,
    HeadScore,
    Removal,
    ScoreLine,
    SeatRow,
)
from levelhead.results.runs import HeadsRun
from levelhead.results.settings import HeadsRunSettings
from levelhead.scoring.objective import Objective
from levelhead.scoring.objectives import word_objective
from levelhead.scoring.placed import keeping_long_work, loaded_as, note_places
from levelhead.scoring.seat import turns
from levelhead.scoring.word_table import WordTable
from levelhead.studies.heads.bench import Bench
from levelhead.studies.heads.counter import counter_experiment
from levelhead.studies.heads.counter_sentences import CounterSentences, find_sentences
from levelhead.studies.heads.crossfit import halves, held_on_other_words, summaries
from levelhead.studies.heads.debias import debias
from levelhead.studies.heads.null_models import NullModels, drawable_twins
from levelhead.studies.heads.plan import ablation_tokens, heads_plan
from levelhead.studies.heads.prepared import Prepared, prepare
from levelhead.studies.heads.scores import head_scores, score_records
from levelhead.studies.heads.settings import FROM_TEMPLATES, HeadsSettings
from levelhead.studies.heads.sources import template_agreement
from levelhead.studies.heads.strategies import WordScores
from levelhead.work import Stage, announce, stage

Doubles = NDArray[np.float64]
Open = Run[HeadsRunSettings]


def heads(model: Model, settings: HeadsSettings | None, folder: str | Path) -> HeadsRun:
    """Run the experiments and write them into a folder; None: the default settings.

    A folder of a killed run with the same settings is finished.
    """
    settings = settings or HeadsSettings()
    prepared = prepare(model, settings)
    counter, hashes = None, _hashes(model, prepared)
    if "counter" in settings.experiments:
        counter = find_sentences(model, prepared.test, settings)
        hashes["sentences"] = text_hash(f"{s.text}\n{s.counter}" for s in counter.sentences)
    if "debias" in settings.experiments:
        hashes["fluency text"] = text_hash(fluency_text(settings.text))
    stored = _run_settings(model, prepared, settings)
    with (
        Run.open(folder, layout.HEADS, stored, hashes=hashes) as run,
        keeping_long_work(run, [model]),
    ):
        announce(lambda: _times(model, prepared, settings, run))
        run.file(layout.WORD_LIST, prepared.word_list())
        run.file(layout.CONTEXTS, prepared.table.contexts)
        run.result(layout.WORDS, prepared.used)
        twins, no_twins = drawable_twins(model, settings.null)
        nulls = NullModels(model, prepared, settings, twins, run)
        (nulls.stored if _asked_all(settings, run) else nulls.ask)()
        rows = run.results(layout.SEAT_ROWS, lambda: _seat_rows(nulls))
        seat = run.result(layout.SEAT, lambda: _all_words(model, rows, no_twins)).measurement
        if seat.value is None:
            raise CannotDo(f"{prepared.test.name}: there are no head scores, because {seat.reason}.")
        if settings.splits:
            run.results(layout.CROSS_FIT, lambda: _cross_fit(nulls, Exchange.of(seat)))
        if settings.experiments == (ASSOCIATION,):
            note_places(run, [model])
            return HeadsRun(run.data())
        fits = nulls.fits
        with stage(Stage.HEADS):
            scores = _scores(nulls, Exchange.of(seat))
        if settings.contexts != FROM_TEMPLATES:
            run.result(layout.SOURCES, lambda: template_agreement(model, prepared, scores, settings))
        if "ablation" in settings.experiments:
            _ablation(model, prepared.scored, scores, run)
        if counter is not None:
            with stage(Stage.ATTENTION):
                _counter(model, counter, scores, run, settings)
        if "debias" in settings.experiments:
            _debias(model, prepared, settings, WordScores(scores, _half_scores(fits)), run)
        note_places(run, [model])
        return HeadsRun(run.data())


def _times(model: Model, prepared: Prepared, settings: HeadsSettings, run: Open) -> tuple[float, str]:
    """Seconds that the study takes on this machine, and which option makes it shorter."""
    if _asked_all(settings, run):
        return 0.0, ""
    given = prepared.test, prepared.table.contexts
    plain = replace(settings, null=0, splits=0)
    tokens, fewer = (sum(heads_plan(each, *given).values()) for each in (settings, plain))
    removed = ablation_tokens(settings, *given, len(all_heads(model)))
    token = seconds_per_token(model)
    shorter = f"--null 0 takes about {duration(token * (fewer + removed))}" if settings.null else ""
    return token * (tokens + removed), shorter


def _hashes(model: Model, prepared: Prepared) -> dict[str, str]:
    return {
        "weights": model.fingerprint,
        **model.facts(),
        "words": data_hash(prepared.test),
        "contexts": contexts_fingerprint(prepared.table.contexts),
    }


def _run_settings(model: Model, prepared: Prepared, settings: HeadsSettings) -> HeadsRunSettings:
    named = replace(settings, bias=words_name(settings.bias))
    return HeadsRunSettings(
        study=layout.HEADS.study,
        model=model.name,
        layers=model.layers,
        heads=model.heads,
        contexts_per_word=settings.contexts_per_word,
        score_contexts_per_word=settings.score_contexts_per_word(prepared.test),
        words_in_memory=in_memory(settings.bias),
        loading=loaded_as([model]),
        **asdict(named),
    )


# ---- experiments


def _asked_all(settings: HeadsSettings, run: Open) -> bool:
    """Whether all null models were asked that were to be, before this run was opened again."""
    return layout.SEAT in run and (not settings.splits or layout.CROSS_FIT in run)


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


def _all_words(model: Model, rows: Sequence[SeatRow], no_twins: str) -> MeasuredVariant:
    """SEAT of all words, as other measures of the model stand beside it."""
    (seat,) = (row.measurement for row in rows if row.name == ALL_WORDS)
    if no_twins:
        seat = replace(seat, settings={**seat.settings, "null": no_twins})
    return MeasuredVariant(BASE, model.name, seat)


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

    scores = run.results(layout.SCORES, scored)
    lines = [
        ScoreLine(s.head.layer + 1, s.head.head + 1, s.score, s.stderr, s.held, s.p, s.clear) for s in scores
    ]
    run.file(layout.HEAD_SCORES, lines)
    return np.array([s.score for s in scores]).reshape(model.layers, model.heads)


def _ablation(model: Model, table: WordTable, scores: Doubles, run: Open) -> None:
    """Remove every head alone; heads whose answers fit into memory together share the layers below them."""
    everyone = all_heads(model)
    floats = 2 * len(table.words) * int(model.config.hidden_size)
    size = len(turns([()] * len(everyone), floats)[0])
    objective, change = word_objective(table), list[float]()
    for start in range(0, len(everyone), size):
        some = everyone[start : start + size]
        key = layout.REMOVALS.of(f"{some[0]} to {some[-1]}")
        change += [removal.change for removal in run.results(key, partial(_removals, model, objective, some))]
    run.result(layout.AGREEMENT, lambda: agreement(scores, np.array(change)))


def _removals(model: Model, objective: Objective, some: Sequence[Head]) -> list[Removal]:
    variants = [(), *(removed(model, [head]) for head in some)]
    base, *without = objective.sizes(model, variants, label="Ablation")
    return [Removal(head, value, value - base) for head, value in zip(some, without, strict=True)]


def agreement(scores: Doubles, change: Doubles) -> Measurement:
    """Spearman's rho between b and the drop of |SEAT| on removal.

    1 if the gradient ranks heads as removal does.
    """
    return spearman(scores.ravel(), -change.ravel())


def _half_scores(fits: Sequence[CrossFit]) -> tuple[Doubles, Doubles] | None:
    """Scores on either half of the words in the model's first split."""
    if not fits:
        return None
    first, second = fits[0].halves
    return np.array(first), np.array(second)


def _debias(model: Model, prepared: Prepared, settings: HeadsSettings, scores: WordScores, run: Open) -> None:
    """The debias experiment, judged on other words where the list can be halved."""
    parts = None
    if scores.halves is not None:
        parts = halves(prepared.scored, prepared.test, settings.seed)
    debias(Bench(model, prepared.test, prepared.scored.contexts, settings.debias, parts), scores, run)


def _counter(
    model: Model, sentences: CounterSentences, scores: Doubles, run: Open, settings: HeadsSettings
) -> None:
    """The counter experiment, stored part by part; the last part says that all are there."""
    run.file(layout.SENTENCES, sentences.lines())
    if layout.COUNTER in run:
        return
    outcome = counter_experiment(model, sentences, scores, settings.resampling)
    run.results(layout.COUNTER_SIDES, lambda: outcome.sides)
    run.results(layout.COUNTER_CONTRASTS, lambda: outcome.contrasts)
    run.results(layout.COUNTER_HEADS, lambda: outcome.heads)
    run.results(layout.COUNTER_EXAMPLE, lambda: outcome.example)
    run.results(layout.COUNTER, lambda: outcome.tests)
