"""The stages of an audit: locate, measure, mitigate, verify, and what else is asked of every way out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from levelhead.auditing.plan import STAGES
from levelhead.auditing.subjects import Open, Subject
from levelhead.auditing.ways import Way, closed_heads, projected
from levelhead.edits.sites import Variant
from levelhead.measures.cloze.log_odds import NAME as LOG_ODDS
from levelhead.measures.crossed import SEAT_CHANGE
from levelhead.measures.measurement import Measurement
from levelhead.mitigation.recipe import parse_recipe
from levelhead.models.model import Model
from levelhead.ordinary import subfolder
from levelhead.probes.bias import about_gender, none_ships
from levelhead.probes.sentences import shipped_counter_sentences
from levelhead.probes.words import WordTest
from levelhead.results import layout
from levelhead.results.records.common import BASE, SAME_ITEMS, MeasuredVariant
from levelhead.results.runs import AuditRun, HeadsRun, PromptsRun
from levelhead.scoring.battery import Battery
from levelhead.scoring.changes import ask_bias_change
from levelhead.scoring.registry import SEAT, Question, own_questions
from levelhead.studies.counteracts import Edited, counteracts
from levelhead.studies.extent import Extent
from levelhead.studies.glue import glue
from levelhead.studies.halves import Halves
from levelhead.studies.heads.counter import arc_sheet
from levelhead.studies.heads.study import heads
from levelhead.studies.projections.candidates import Projections, candidates
from levelhead.work import Stage, stage

_ARC_SENTENCES = 3


# ---- locate


def locate(extent: Extent, run: Open) -> HeadsRun:
    """The heads study, which measures SEAT too; and attention arcs of every head, for the report."""
    located = heads(extent.model, extent.heads, subfolder(run.folder, layout.HEADS_PART))
    run.results(layout.MEASURED.of(SEAT.name), lambda: located.data.records(layout.SEAT))
    if extent.settings.bias == "gender" and not (run.folder / layout.ARCS.name).exists():
        sentences = shipped_counter_sentences(24, extent.settings.seed)
        shown = [sentence for sentence in sentences if sentence.attribute_first][:_ARC_SENTENCES]
        run.file(layout.ARCS, arc_sheet(extent.model, shown))
    return located


# ---- measure


def measure(subject: Subject, extent: Extent, battery: Battery, run: Open) -> None:
    """Every question of the unmodified model; SEAT is there already."""
    asked = (*own_questions(), *extent.benchmarks)
    if own := [info for question in asked for info in question.measures]:
        run.results(layout.MEASURES, lambda: own)
    for question in subject.questions:
        key = layout.MEASURED.of(question.name)
        with stage(STAGES.get(question.name, Stage.OWN)):
            run.results(key, partial(_base, subject, question, battery))


def _base(subject: Subject, question: Question, battery: Battery) -> list[MeasuredVariant]:
    return _answers(subject, question, battery, {BASE: ()})[BASE]


def _answers(
    subject: Subject, question: Question, battery: Battery, variants: Mapping[str, Variant]
) -> dict[str, list[MeasuredVariant]]:
    answers = question.ask(subject.model, list(variants.values()), battery)
    return {
        name: [MeasuredVariant(name, subject.model.name, measurement) for measurement in measurements]
        for name, measurements in zip(variants, answers, strict=True)
    }


# ---- mitigate


def mitigate(subject: Subject, extent: Extent, choose: Battery, located: HeadsRun, run: Open) -> list[Way]:
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


def verify(subject: Subject, ways: Sequence[Way], parts: Halves, run: Open) -> None:
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


def fill_in_prompts(extent: Extent, ways: Sequence[Way], test: WordTest, run: Open) -> None:
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


def learn(extent: Extent, run: Open) -> None:
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
