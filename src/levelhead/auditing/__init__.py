"""START HERE: measure, locate, mitigate, verify, report. The whole story on one page.

    measure    every question that the model can answer, a user's own among them (scoring/registry.py)
    locate     which attention heads carry the bias (studies/heads/study.py)
    mitigate   two ways out: close the worst heads, or project the best viable subspace away
               (studies/projections/candidates.py)
    verify     the same questions again, on items that no projection was chosen on, and what the change cost
    report     headline, page, recipes (pages/)

The command begins with a first look, a small audit of its own (results/presets.py, QUICK), whose answers and
page are there within a minute. Every result is stored as soon as it is there; a killed audit goes on and ends
with the same bytes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from levelhead.auditing.arena import certify_quickest
from levelhead.auditing.plan import STAGES, audit_plan
from levelhead.auditing.ways import Way, closed_heads, projected, write_recipes
from levelhead.edits.sites import Variant
from levelhead.engine.kept import keeping_answers
from levelhead.errors import Announcement, BadProbe, BadRun, CannotDo
from levelhead.inference.headline import headline
from levelhead.measures.cloze.log_odds import NAME as LOG_ODDS
from levelhead.measures.crossed import SEAT_CHANGE
from levelhead.measures.measurement import Measurement
from levelhead.mitigation.recipe import parse_recipe
from levelhead.models.model import Model, load
from levelhead.models.placement import LoadOptions
from levelhead.ordinary import subfolder
from levelhead.pages.links import run_link
from levelhead.pages.notebook import notebook_html
from levelhead.pages.page import write_report
from levelhead.probes.bias import about_gender, none_ships
from levelhead.probes.sentences import shipped_counter_sentences
from levelhead.probes.words import WordTest, in_memory, words_name
from levelhead.results import layout
from levelhead.results.folder import Run
from levelhead.results.keys import Key
from levelhead.results.records.audit import Mitigation, ProjectionCandidate
from levelhead.results.records.common import BASE, SAME_ITEMS, MeasuredVariant
from levelhead.results.runs import AuditRun, HeadsRun, PromptsRun, open_audit
from levelhead.results.settings import AuditRunSettings
from levelhead.scoring.battery import Battery
from levelhead.scoring.benchmarks.questions import benchmark_hashes
from levelhead.scoring.changes import ask_bias_change
from levelhead.scoring.placed import keeping_long_work, loaded_as, note_places
from levelhead.scoring.registry import (
    SEAT,
    Question,
    own_files,
    own_hashes,
    own_in_memory,
    own_questions,
    questions,
)
from levelhead.studies.counteracts import Edited, counteracts
from levelhead.studies.extent import AuditSettings, Extent
from levelhead.studies.glue import GlueSettings, glue
from levelhead.studies.halves import Halves
from levelhead.studies.heads.counter import arc_sheet
from levelhead.studies.heads.study import heads
from levelhead.studies.projections.candidates import Projections, candidates
from levelhead.work import Stage, stage, whole

_ARC_SENTENCES = 3
Open = Run[AuditRunSettings]


@dataclass(frozen=True)
class Audit:
    """What an audit measured and says: the numbers of its run folder. In a notebook it shows itself."""

    folder: Path
    headline: str
    findings: tuple[str, ...]
    measurements: Mapping[str, Mapping[str, Measurement]] = field(repr=False)  # variant -> measure -> number
    report: Path | None = None

    def __getitem__(self, measure: str) -> Measurement:
        """A measure of the unmodified model: audit["seat"].value."""
        return self.measurements[BASE][measure]

    def _repr_html_(self) -> str:
        shown = notebook_html(self.headline, self.findings, self.measurements)
        return shown + run_link(self.folder, layout.AUDIT).html


def audit(
    model: Model | str,
    folder: str | Path,
    settings: AuditSettings | None = None,
    *,
    first_look: Callable[[Audit], None] | None = None,
    **loading: Unpack[LoadOptions],
) -> Audit:
    """Audit a model: `audit("lh:bert-mini", "runs/bert")`. loading: device, dtype ... as for `load`.

    first_look: is given the answers of a first look, within about a minute on two cores, and the audit goes
    on; None: no first look is taken.
    """
    settings, folder = settings or AuditSettings(), Path(folder)
    model = _loaded(model, **loading)
    beside = settings.nli is not None and "nli" not in model.abilities
    classifier = _loaded(settings.nli, **loading) if settings.nli is not None and beside else None
    _ask(folder, Extent(settings, model), classifier, first_look)
    return read_audit(folder, write_report(folder))


def _ask(
    folder: Path, extent: Extent, classifier: Model | None, told: Callable[[Audit], None] | None
) -> None:
    """Ask everything, and keep it in the folder."""
    battery = extent.battery()
    subjects = _subjects(extent, classifier)
    with (
        _opened(folder, extent, battery, classifier) as run,
        keeping_long_work(run, _models(subjects)),
        keeping_answers(_models(subjects)),
        whole("Audit", audit_plan(extent, battery, _models(subjects), looks=told is not None)),
    ):
        if told is not None:
            with stage(Stage.LOOK):
                _look_first(extent, classifier, run, told)
        located = _locate(extent, run)
        for subject in subjects:
            _measure(subject, extent, battery, run)
        ways = [] if extent.settings.quick else _ways_out(subjects, extent, battery, located, run)
        with stage(Stage.PROMPTS):
            _prompts(extent, ways, battery.test, run)
        if not extent.settings.quick:
            with stage(Stage.VERIFIED):
                certify_quickest(extent, battery, run)
        with stage(Stage.LEARNING):
            _glue(extent, run)
        note_places(run, _models(subjects))
        run.result(layout.HEADLINE, lambda: headline(AuditRun(run.data())))


def _look_first(extent: Extent, classifier: Model | None, run: Open, told: Callable[[Audit], None]) -> None:
    """A small audit inside the audit, whose page stands in the folder while the audit goes on."""
    if (settings := extent.first_look) is None or layout.HEADLINE in run:
        return
    folder, page = subfolder(run.folder, layout.FIRST_LOOK), run.folder / layout.REPORT.name
    try:
        _ask(folder, Extent(settings, extent.model), classifier, None)
    except (BadProbe, CannotDo) as error:  # it asks other items than the audit, which may well go on
        warnings.warn(f"There is no first look: {error}", Announcement, stacklevel=2)
        return
    if not page.exists():
        write_report(folder, page, reload=True)
    told(read_audit(folder, page))


def _ways_out(
    subjects: Sequence[_Subject], extent: Extent, battery: Battery, located: HeadsRun, run: Open
) -> list[Way]:
    """Mitigate and verify; what comes back are the ways out of the model itself."""
    parts = extent.halves(battery)
    with stage(Stage.CHANGES):
        ways = [_mitigate(subject, extent, parts.choose, located, run) for subject in subjects]
        write_recipes(extent, [way for own in ways for way in own], parts.choose, run)
    with stage(Stage.VERIFIED):
        for subject, own in zip(subjects, ways, strict=True):
            _verify(subject, own, parts, run)
    return ways[0]


def _loaded(model: Model | str, **loading: Unpack[LoadOptions]) -> Model:
    return load(model, **loading) if isinstance(model, str) else model


def read_audit(folder: str | Path, report: Path | None = None) -> Audit:
    """An audit from its run folder."""
    run = open_audit(folder)
    if run.headline is None:
        raise BadRun(f"The audit in {folder} is not finished. Run the same command again; it goes on.")
    return Audit(run.folder, run.headline.text, run.headline.findings, run.by_variant(), report)


# ---- what is asked


@dataclass(frozen=True)
class _Subject:
    """A model under audit, what it is asked, and where its ways out are kept."""

    model: Model
    questions: tuple[Question, ...]
    candidates: Key[ProjectionCandidate] = layout.CANDIDATES
    mitigations: Key[Mitigation] = layout.MITIGATIONS
    prefix: str = ""  # of its variants' names


def _subjects(extent: Extent, classifier: Model | None) -> list[_Subject]:
    """The model, and the classifier beside it, which then gets the questions for classifiers."""
    asked = (*questions(), *extent.benchmarks)
    if classifier is None:
        return [_Subject(extent.model, asked)]
    own = tuple(question for question in asked if not question.of_classifier)
    others = tuple(question for question in asked if question.of_classifier)
    beside = _Subject(classifier, others, layout.NLI_CANDIDATES, layout.NLI_MITIGATIONS, "nli ")
    return [_Subject(extent.model, own), beside]


def _models(subjects: Sequence[_Subject]) -> list[Model]:
    return [subject.model for subject in subjects]


def _opened(folder: Path, extent: Extent, battery: Battery, classifier: Model | None) -> Open:
    model, settings = extent.model, extent.settings
    stored = AuditRunSettings(
        study=layout.AUDIT.study,
        seed=settings.seed,
        model=model.name,
        abilities=tuple(sorted(model.abilities)),
        layers=model.layers,
        heads=model.heads,
        large=extent.large,
        bias=words_name(settings.bias),
        nli=settings.nli.name if isinstance(settings.nli, Model) else settings.nli,
        top=settings.top,
        full=settings.full,
        text=settings.text,
        sizes=extent.sizes,
        quick=settings.quick,
        measures=tuple(question.name for question in own_questions()),
        measure_files=own_files(),
        measures_in_memory=own_in_memory(),
        words_in_memory=in_memory(settings.bias),
        benchmark_files={name: str(file) for name, file in settings.benchmarks.items()},
        loading=loaded_as([model, *([] if classifier is None else [classifier])]),
        **_learning(settings),
    )
    hashes = {"weights": model.fingerprint, **model.facts(), **battery.hashes(), **own_hashes()}
    hashes |= benchmark_hashes(extent.benchmarks)
    if classifier is not None:
        hashes |= {"nli weights": classifier.fingerprint, **classifier.facts("nli")}
    return Run.open(folder, layout.AUDIT, stored, hashes=hashes)


def _learning(settings: AuditSettings) -> dict[str, Any]:
    """What was asked to be fine-tuned, as it is stored."""
    if (asked := settings.glue) is None:
        return {}
    usual = GlueSettings(asked.data, asked.tasks, train_rows=asked.train_rows, seed=settings.seed)
    return {
        "glue": asked.data,
        "glue_tasks": tuple(task.name for task in asked.chosen()),
        "glue_rows": asked.train_rows,
        "glue_in_python": asked != usual,
    }


# ---- locate


def _locate(extent: Extent, run: Open) -> HeadsRun:
    """The heads study, which measures SEAT too; and attention arcs of every head, for the report."""
    located = heads(extent.model, extent.heads, subfolder(run.folder, layout.HEADS_PART))
    run.results(layout.MEASURED.of(SEAT.name), lambda: located.data.records(layout.SEAT))
    if extent.settings.bias == "gender" and not (run.folder / layout.ARCS.name).exists():
        sentences = shipped_counter_sentences(24, extent.settings.seed)
        shown = [sentence for sentence in sentences if sentence.attribute_first][:_ARC_SENTENCES]
        run.file(layout.ARCS, arc_sheet(extent.model, shown))
    return located


# ---- measure


def _measure(subject: _Subject, extent: Extent, battery: Battery, run: Open) -> None:
    """Every question of the unmodified model; SEAT is there already."""
    asked = (*own_questions(), *extent.benchmarks)
    if own := [info for question in asked for info in question.measures]:
        run.results(layout.MEASURES, lambda: own)
    for question in subject.questions:
        key = layout.MEASURED.of(question.name)
        with stage(STAGES.get(question.name, Stage.OWN)):
            run.results(key, partial(_base, subject, question, battery))


def _base(subject: _Subject, question: Question, battery: Battery) -> list[MeasuredVariant]:
    return _answers(subject, question, battery, {BASE: ()})[BASE]


def _answers(
    subject: _Subject, question: Question, battery: Battery, variants: Mapping[str, Variant]
) -> dict[str, list[MeasuredVariant]]:
    answers = question.ask(subject.model, list(variants.values()), battery)
    return {
        name: [MeasuredVariant(name, subject.model.name, measurement) for measurement in measurements]
        for name, measurements in zip(variants, answers, strict=True)
    }


# ---- mitigate


def _mitigate(subject: _Subject, extent: Extent, choose: Battery, located: HeadsRun, run: Open) -> list[Way]:
    """The ways out: the worst heads closed, and the best viable projection if one helps."""
    ways: list[Way] = []
    if subject.model is extent.model:
        ways.append(closed_heads(extent, located))
    if subject.model is extent.model or about_gender(choose.test):  # beside it, nothing ships to judge by
        projections = Projections(subject.model, choose.test, extent.starts(subject.model))
        trials = run.results(subject.candidates, lambda: candidates(projections, choose))
        ways += projected(projections, subject.prefix, trials)
    run.results(subject.mitigations, lambda: [way.record for way in ways])
    return ways


# ---- verify


def _verify(subject: _Subject, ways: Sequence[Way], parts: Halves, run: Open) -> None:
    """The same questions again for every way out, and for the unmodified model on the same items.

    For a projection also what it changes, item by item, in the bias that it was chosen by.
    """
    variants = {SAME_ITEMS: (), **{way.name: way.edits for way in ways}} if ways else {}
    for question in subject.questions:
        keys = {name: layout.VERIFIED.of(f"{name}/{question.name}") for name in variants}
        if all(key in run for key in keys.values()):
            continue
        answers = _answers(subject, question, parts.report, variants)
        for name, key in keys.items():
            run.results(key, answers[name].copy)
    for way in ways:
        if not way.record.heads:
            key = layout.VERIFIED.of(f"{way.name}/{layout.CHANGE_PART}")
            run.result(key, partial(_change, subject.model, way, parts))


def _change(model: Model, way: Way, parts: Halves) -> MeasuredVariant:
    change = ask_bias_change(model, parts.report, [way.edits])[0]
    if change.name == SEAT_CHANGE and not parts.words_apart:
        reason = "the word list is too short to keep the words that the projection was chosen on apart"
        change = Measurement.missing(SEAT_CHANGE, reason, n=change.n, neutral=0.0)
    return MeasuredVariant(way.name, model.name, change)


def _prompts(extent: Extent, ways: Sequence[Way], test: WordTest, run: Open) -> None:
    """CounterActs, untouched and mitigated: does the mitigated model still change its mind?"""
    model, label = extent.model, layout.PROMPTS_PART
    reason = f"{model.name} predicts no words" if not model.abilities & {"mlm", "causal"} else ""
    if reason := reason or ("" if about_gender(test) else none_ships("fill-in prompts", test)):
        missing = Measurement.missing(LOG_ODDS, reason)
        run.result(layout.MEASURED.of(label), lambda: MeasuredVariant(BASE, model.name, missing))
        return
    variants = {way.name: Edited(partial(_same, way.edits), way.name) for way in ways}
    prompts = counteracts([model], extent.prompts, subfolder(run.folder, label), variants)
    for name in (BASE, *variants):
        key = layout.MEASURED.of(label) if name == BASE else layout.VERIFIED.of(f"{name}/{label}")
        run.results(key, partial(_fill_in, prompts, name))


def _fill_in(prompts: PromptsRun, variant: str) -> Iterator[MeasuredVariant]:
    """Log-odds, the main number, and the margin among the likeliest tokens: both without any knowledge."""
    for cell in (prompts.log_odds(variant), prompts.margin(variant)):
        if cell is not None:
            yield MeasuredVariant(variant, cell.model, cell.measurement)


def _same(edits: Variant, _: Model) -> Variant:
    return edits


def _glue(extent: Extent, run: Open) -> None:
    """GLUE, where it is asked: what the model and every way out can still learn, and the paired cost."""
    if extent.settings.glue is None:
        return
    ways = AuditRun(run.data()).data.records(layout.MITIGATIONS)
    recipes = {
        way.variant: parse_recipe(way.recipe, run.folder / layout.RECIPES / way.variant) for way in ways
    }
    learned = glue(extent.model, extent.settings.glue, subfolder(run.folder, layout.GLUE_PART), recipes)
    for name in (BASE, *recipes):
        label = layout.GLUE_PART if name == BASE else f"{name}/{layout.GLUE_PART}"
        key = (layout.MEASURED if name == BASE else layout.VERIFIED).of(label)
        run.results(key, partial(learned.measured, name))
