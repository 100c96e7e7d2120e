"""Which attention heads carry a bias, and are they really the ones? ('Bias A-head?')

    scores     b[layer, head] = d|SEAT| / d gate, for every head (scores.py)
    ablation   what |SEAT| really does when one head is removed, for every head
    counter    does a biased head look at the attribute word less when the stereotype is turned? (counter.py)
    debias     what removing or weighting heads buys and costs (debias.py)

See docs/method.md: Head scores, Ablation, Counter-stereotypes, Targeted debiasing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from levelhead.edits.gates import all_heads, removed
from levelhead.edits.head import Head
from levelhead.errors import BadOption, BadProbe, CannotDo
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import spearman
from levelhead.models.model import Model
from levelhead.probes.contexts import (
    TEMPLATES,
    Context,
    contexts_fingerprint,
    corpus_contexts,
    template_contexts,
)
from levelhead.probes.sentences import fluency_text
from levelhead.probes.words import WordTest, load_words
from levelhead.results import layout
from levelhead.results.folder import Run, text_hash
from levelhead.results.records.common import BASE, MeasuredVariant
from levelhead.results.records.heads import (
    CHANGE_ON_OTHER_WORDS,
    HEAD_AGREEMENT,
    Removal,
    ScoreLine,
    WordList,
    WordsUsed,
)
from levelhead.results.runs import HeadsRun
from levelhead.results.settings import HeadsRunSettings
from levelhead.scoring.seat import absolute_seats, ask_seat, seat_null, turns
from levelhead.scoring.word_table import WordTable, fitting, unknown_words, word_table
from levelhead.studies.heads.bench import Bench
from levelhead.studies.heads.counter import CounterSentences, counter_experiment, find_sentences
from levelhead.studies.heads.crossfit import cross_fits, halves, summaries
from levelhead.studies.heads.debias import debias
from levelhead.studies.heads.scores import head_scores, score_records
from levelhead.studies.heads.settings import FROM_TEMPLATES, HeadsSettings

Doubles = NDArray[np.float64]
Open = Run[HeadsRunSettings]
_CROSS_FITTED = (HEAD_AGREEMENT, CHANGE_ON_OTHER_WORDS)


@dataclass(frozen=True)
class Prepared:
    """Words and contexts of a run."""

    test: WordTest
    table: WordTable
    skipped: Mapping[str, int]  # reason -> sentences or contexts that are not used

    def used(self) -> WordsUsed:
        """What a reader must know about them."""
        return WordsUsed(
            test=self.test.name,
            labels=self.test.labels,
            sizes={group: len(words) for group, words in self.test.groups().items()},
            words=len(self.table.words),
            contexts=len(self.table.contexts),
            missing=self.table.missing,
            skipped=dict(self.skipped),
        )

    def word_list(self) -> WordList:
        """The words themselves, as words.json keeps them."""
        return WordList(
            name=self.test.name,
            labels=dict(zip("ABXY", self.test.labels, strict=True)),
            A=self.test.A,
            B=self.test.B,
            X=self.test.X,
            Y=self.test.Y,
            pairs=self.test.pairs,
            missing=self.table.missing,
        )


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
    with Run.open(folder, layout.HEADS, _run_settings(model, prepared, settings), hashes=hashes) as run:
        run.file(layout.WORD_LIST, prepared.word_list())
        run.file(layout.CONTEXTS, prepared.table.contexts)
        run.result(layout.WORDS, prepared.used)
        seat = run.result(layout.SEAT, lambda: _seat(model, prepared, settings)).measurement
        if seat.value is None:
            raise CannotDo(f"{prepared.test.name}: there are no head scores, because {seat.reason}.")
        scores = _scores(model, prepared, run)
        _cross_fit(model, prepared, settings, run)
        if "ablation" in settings.experiments:
            _ablation(model, prepared.table, scores, run)
        if counter is not None:
            _counter(model, counter, scores, run, settings)
        if "debias" in settings.experiments:
            debias(Bench(model, prepared.test, prepared.table.contexts, settings.debias), scores, run)
        return HeadsRun(run.data())


def _hashes(model: Model, prepared: Prepared) -> dict[str, str]:
    return {
        "weights": model.fingerprint,
        "words": prepared.test.fingerprint(),
        "contexts": contexts_fingerprint(prepared.table.contexts),
    }


def _run_settings(model: Model, prepared: Prepared, settings: HeadsSettings) -> HeadsRunSettings:
    return HeadsRunSettings(
        study=layout.HEADS.study,
        model=model.name,
        layers=model.layers,
        heads=model.heads,
        contexts_per_word=settings.contexts_per_word(prepared.test),
        **asdict(settings),
    )


# ---- words and contexts


def prepare(model: Model, settings: HeadsSettings) -> Prepared:
    """The words with their contexts; contexts that the model cannot be asked are left out, and counted."""
    test = load_words(settings.bias, settings.trim)
    n = settings.contexts_per_word(test)
    skipped: dict[str, int] = {}
    if settings.contexts == FROM_TEMPLATES:
        if n > len(TEMPLATES):
            raise BadOption(
                f"{n} contexts a word came; there are {len(TEMPLATES)} templates. Give a corpus for more."
            )
        contexts: Sequence[Context] = template_contexts(test, n)
    else:
        index = corpus_contexts(test, settings.contexts, n, settings.seed)
        contexts, skipped = index.contexts, dict(index.skipped)
    fits = fitting(model, [context.text for context in contexts])
    if lost := len(fits) - sum(fits):
        skipped["context longer than the model's positions"] = lost
    kept = [context for context, ok in zip(contexts, fits, strict=True) if ok]
    unknown = unknown_words(model, (context.word for context in kept))
    if lost := sum(context.word in unknown for context in kept):
        skipped["context of a word that the tokenizer does not know"] = lost
        kept = [context for context in kept if context.word not in unknown]
    return Prepared(test, word_table(test, kept), skipped)


# ---- experiments


def _seat(model: Model, prepared: Prepared, settings: HeadsSettings) -> MeasuredVariant:
    contexts = prepared.table.contexts
    seat = ask_seat(model, prepared.test, contexts, resampling=settings.resampling, intervals=True)[0]
    return MeasuredVariant(BASE, model.name, _with_null(model, prepared, settings, seat))


def _with_null(model: Model, prepared: Prepared, settings: HeadsSettings, seat: Measurement) -> Measurement:
    """SEAT with what null twins show, or with the reason why there are none."""
    if seat.value is None:
        return seat
    try:
        null = seat_null(model, prepared.table, settings.null, settings.seed)
    except CannotDo as error:
        return replace(seat, settings={**seat.settings, "null": str(error)})
    return seat if null is None else replace(seat, null=null.judged(seat.value, "null twins"))


def _cross_fit(model: Model, prepared: Prepared, settings: HeadsSettings, run: Open) -> None:
    """Heads chosen on half of the words, judged on the other half; left out where a half is too small."""
    if not settings.splits:
        return
    sizes = settings.splits, settings.top, settings.null
    try:
        halves(prepared.table, prepared.test, settings.seed)
        fits = run.results(
            layout.CROSS_FITS,
            lambda: cross_fits(model, prepared.table, prepared.test, sizes, settings.seed),
        )
    except (BadProbe, CannotDo) as error:
        missing = [Measurement.missing(name, str(error).rstrip(".")) for name in _CROSS_FITTED]
        run.results(layout.CROSS_FIT, lambda: missing)
        return
    run.results(layout.CROSS_FIT, lambda: summaries(fits))


def _scores(model: Model, prepared: Prepared, run: Open) -> Doubles:
    """Head scores, stored and as a table: b[layer, head]"""
    scores = run.results(layout.SCORES, lambda: score_records(head_scores(model, prepared.table)))
    lines = [ScoreLine(s.head.layer + 1, s.head.head + 1, s.score, s.stderr, s.q) for s in scores]
    run.file(layout.HEAD_SCORES, lines)
    return np.array([s.score for s in scores]).reshape(model.layers, model.heads)


def _ablation(model: Model, table: WordTable, scores: Doubles, run: Open) -> None:
    """Remove every head alone; heads whose answers fit into memory together share the layers below them."""
    everyone = all_heads(model)
    floats = 2 * len(table.words) * int(model.config.hidden_size)
    size = len(turns([()] * len(everyone), floats)[0])
    change: list[float] = []
    for start in range(0, len(everyone), size):
        some = everyone[start : start + size]
        key = layout.REMOVALS.of(f"{some[0]} to {some[-1]}")
        change += [removal.change for removal in run.results(key, partial(_removals, model, table, some))]
    run.result(layout.AGREEMENT, lambda: agreement(scores, np.array(change)))


def _removals(model: Model, table: WordTable, some: Sequence[Head]) -> list[Removal]:
    variants = [(), *(removed(model, [head]) for head in some)]
    base, *without = absolute_seats(model, table, variants, label="Ablation")
    return [Removal(head, value, value - base) for head, value in zip(some, without, strict=True)]


def agreement(scores: Doubles, change: Doubles) -> Measurement:
    """Spearman's rho between b and the drop of |SEAT| on removal.

    1 if the gradient ranks heads as removal does.
    """
    return spearman(scores.ravel(), -change.ravel())


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
