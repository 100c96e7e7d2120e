"""START HERE: measure, locate, mitigate, verify, report. The whole story on one page.

    measure    every question that the model can answer, a user's own among them (scoring/registry.py)
    locate     which attention heads carry the bias (studies/heads)
    mitigate   candidates fitted, ordered and tested on three parts of the items (studies/mitigate)
    verify     the same questions again of what is certified, on the items that it was tested on
    report     headline, page, recipes (pages/)

The command begins with a first look, a small audit of its own (runs/presets.py, QUICK), whose answers and
page are there within a minute. Every result is stored as soon as it is there; a killed audit goes on and ends
with the same bytes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Unpack

import numpy as np

from levelhead.edits.sites import Variant
from levelhead.engine.effort import now, speed_of
from levelhead.engine.kept import ByText, keeping_answers
from levelhead.engine.readings import Pooled, Text
from levelhead.errors import Announcement, BadOption, BadProbe, CannotDo, LevelheadError
from levelhead.inference.headline import ASSOCIATION, headline, headline_claims
from levelhead.inference.headline import LOG_ODDS as CLAIMED_LOG_ODDS
from levelhead.measures.certified import APPEARS, MIRROR
from levelhead.measures.log_odds import NAME as LOG_ODDS_MEASURE
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling, bootstrap
from levelhead.mitigation.mitigate import edits_of
from levelhead.mitigation.recipe import parse_recipe, recipe_file
from levelhead.models.model import Model, load
from levelhead.models.placement import LoadOptions
from levelhead.pages.about import keep_about, read_about
from levelhead.pages.page import write_report
from levelhead.probes.bias import about_gender, none_ships
from levelhead.probes.lpbs import LPBS_TESTS
from levelhead.probes.sentences import shipped_counter_sentences
from levelhead.probes.words import WordTest
from levelhead.progress import Plan, Stage, announced, duration, stage
from levelhead.runs.common import BASE, SAME_ITEMS, MeasuredVariant
from levelhead.runs.files import TextFile
from levelhead.runs.folder import Run
from levelhead.runs.study import RECIPES, REPORT
from levelhead.safe_files import subfolder
from levelhead.scoring.battery import Battery
from levelhead.scoring.benchmarks.questions import benchmark_hashes
from levelhead.scoring.fluency import fluency_reading, why_no_fluency
from levelhead.scoring.lpbs import LpbsQuestion, lpbs_tests
from levelhead.scoring.natural import BLANKS, COSINE, INFERENCES, LOG_ODDS, PREFERENCE, judges, writes
from levelhead.scoring.pairs import next_sentence_reading, triple_rows
from levelhead.scoring.placed import keeping_long_work, loaded_as, note_places, stored_of
from levelhead.scoring.registry import (
    SEAT,
    Question,
    load_measures,
    own_files,
    own_hashes,
    own_in_memory,
    own_questions,
    questions,
)
from levelhead.scoring.seat import SINGLY, word_table
from levelhead.studies.audit import ARCS, FIRST_LOOK, NLI, Audit
from levelhead.studies.audit.arena import (
    can_be_certified,
    certified_items,
    certified_nulls,
    sense_reading,
    tried_methods,
)
from levelhead.studies.audit.extent import Extent
from levelhead.studies.audit.plan import STAGES, audit_plan
from levelhead.studies.audit.settings import AuditSettings, AuditStored
from levelhead.studies.counteracts.run import counteracts
from levelhead.studies.generate.run import generate as sample_texts
from levelhead.studies.glue.run import glue
from levelhead.studies.glue.settings import GlueSettings, stored_learning
from levelhead.studies.heads import Heads
from levelhead.studies.heads.counter import arc_sheet
from levelhead.studies.heads.run import heads
from levelhead.studies.mitigate.parts import parts
from levelhead.studies.mitigate.run import Audited, mitigate
from levelhead.studies.mitigate.settings import FEWEST_NULLS, MitigateSettings

Open = Run[AuditStored]
_ARC_SENTENCES = 3
_ITEMS, _INTERVALS = 500, 220  # intervals of so many items that take as long as all but the model does
_JUDGED_BY = {  # a claim of the page -> the same bias in natural units; what a model does before its vectors
    CLAIMED_LOG_ODDS: LOG_ODDS,
    PREFERENCE: PREFERENCE,
    **{f"lpbs {test}": BLANKS for test in LPBS_TESTS},
    ASSOCIATION: COSINE,
}


def audit(
    model: Model | str | Path,
    settings: AuditSettings | None,
    folder: str | Path,
    *,
    first_look: Callable[[Audit, Path], None] | None = None,
    **loading: Unpack[LoadOptions],
) -> Audit:
    """Audit a model: `audit("lh:bert-mini", None, "runs/bert")`. loading: device, dtype ... as for `load`.

    first_look: is given the answers of a first look and their page, within about a minute on two cores, and
    the audit goes on; None: no first look is taken.
    """
    settings, folder = settings or AuditSettings(), Path(folder)
    stated = None if settings.about is None else read_about(Path(settings.about))
    for file in settings.own_measures:
        load_measures(file)
    model = load(model, **loading) if isinstance(model, str | Path) else model
    classifier = None if "nli" in model.abilities else settings.nli
    classifier = load(classifier, **loading) if isinstance(classifier, str | Path) else classifier
    _audited(folder, Extent(settings, model), classifier, first_look)
    if stated is not None:
        keep_about(folder, stated)
    write_report(folder)
    return Audit.open(folder)


def _audited(
    folder: Path, extent: Extent, classifier: Model | None, told: Callable[[Audit, Path], None] | None
) -> None:
    """Ask everything, and keep it in the folder."""
    battery = extent.battery()
    if extent.settings.generate and not writes(extent.model):
        raise CannotDo(
            f"{extent.model.name} predicts no next word, so it writes no text: leave --generate out."
        )
    if extent.settings.generate and not about_gender(battery.test):
        raise BadOption(f"generate must be left out for {battery.test.name}: its prompts are about gender.")
    known = (*questions(), *extent.benchmarks)
    subjects = [Subject(extent.model, known)]
    if classifier is not None:  # which then gets the questions for classifiers
        own = tuple(question for question in known if not question.of_classifier)
        others = tuple(question for question in known if question.of_classifier)
        subjects = [Subject(extent.model, own), Subject(classifier, others, beside=True)]
    models = [subject.model for subject in subjects]
    with (
        opened(folder, extent, battery, classifier) as run,
        _noting_a_stop(run.folder),
        keeping_long_work(run, models),
        keeping_answers(models, shared_readings(extent, battery, models)),
        ExitStack() as stack,
    ):
        work = cache(lambda: audit_plan(extent, battery, models, first_look=told is not None))
        stack.enter_context(announced("Audit", lambda: _times(extent, models, work(), run), work))
        if told is not None:
            with stage(Stage.LOOK):
                _look_first(extent, classifier, run, told)
        # the heads study, which measures SEAT too; and attention arcs of every head, for the report
        located = heads(extent.model, extent.heads, subfolder(run.folder, Audit.heads.folder))
        run.results(Audit.measured.of(SEAT.name), lambda: located.data.records(Heads.seat))
        if extent.settings.bias == "gender" and not (run.folder / ARCS.name).exists():
            sentences = shipped_counter_sentences(24, extent.settings.seed)
            shown = [sentence for sentence in sentences if sentence.attribute_first][:_ARC_SENTENCES]
            run.file(ARCS, arc_sheet(extent.model, shown))
        for subject in subjects:
            measure(subject, extent, battery, run)
        with stage(Stage.PROMPTS):
            fill_in_prompts(extent, battery.test, run)
        with stage(Stage.WRITING):
            let_write(extent, run)
        if not extent.settings.quick:
            with stage(Stage.CERTIFIED):
                mitigate_biases(subjects, extent, battery, run)
            with stage(Stage.VERIFIED):
                for subject in subjects:
                    verify(subject, extent, battery, run)
        with stage(Stage.LEARNING):
            learn(extent, run)
        note_places(run, models)
        run.result(Audit.headline, lambda: headline(Audit(run.data())))


@contextmanager
def _noting_a_stop(folder: Path) -> Iterator[None]:
    """If the audit is stopped, the page of its first look no longer waits for that of the whole."""
    try:
        yield
    except BaseException:  # Ctrl-C too
        first_look, page = folder / FIRST_LOOK, folder / REPORT.name
        with suppress(LevelheadError, OSError):  # why it was stopped is what is said
            if page.exists() and Audit.open(first_look).headline and Audit.open(folder).headline is None:
                write_report(first_look, page, stopped=True)
        raise


def _times(extent: Extent, models: Sequence[Model], plan: Mapping[Stage, float], run: Open) -> Plan:
    """What the plan takes on this machine, and which option makes it shorter."""
    if Audit.headline in run:
        return Plan()
    speed = speed_of(extent.model)
    texts = speed.plan(plan.get(Stage.WRITING, 0.0)).seconds
    shorter = [f"--generate is {duration(texts)} of it"] if texts else []
    if not extent.settings.quick and (first := extent.first_look) is not None:
        small = Extent(first, extent.model)
        quick = sum(audit_plan(small, small.battery(), models, first_look=False).values())
        shorter.append(f"--quick takes about {duration(speed.plan(quick).seconds)}")
    model_alone = speed.plan(sum(plan.values()), shorter="; ".join(shorter))
    # intervals, permutations and pages, which a fast card does not shorten: by one interval
    x = np.linspace(-1.0, 1.0, _ITEMS)

    def interval(draws: int) -> float:
        began = now()
        bootstrap(lambda counts: counts @ x / counts.sum(axis=1), _ITEMS, Resampling(draws))
        return now() - began

    interval(100)  # what happens once only
    return replace(model_alone, seconds=model_alone.seconds + _INTERVALS * interval(extent.sizes.resamples))


def _look_first(
    extent: Extent, classifier: Model | None, run: Open, told: Callable[[Audit, Path], None]
) -> None:
    """A small audit inside the audit, whose page stands in the folder while the audit goes on."""
    if (settings := extent.first_look) is None or Audit.headline in run:
        return
    folder, page = subfolder(run.folder, FIRST_LOOK), run.folder / REPORT.name
    try:
        _audited(folder, Extent(settings, extent.model), classifier, None)
    except (BadProbe, CannotDo) as error:  # it asks other items than the audit, which may well go on
        warnings.warn(f"There is no first look: {error}", Announcement, stacklevel=2)
        return
    write_report(folder, page, reload=True)  # also over that of an audit that was stopped
    told(Audit.open(folder), page)


# ---- what is evaluated more than once


def shared_readings(extent: Extent, battery: Battery, models: Sequence[Model]) -> list[ByText]:
    """Readings of unmodified models of which an audit needs parts several times, its first look's first.

    A first look needs some of the texts, the audit the others, and mitigations are tried on parts of them.
    Each text is read once (engine/kept.py).
    """
    batteries = [battery]
    if (first := extent.first_look) is not None:
        batteries.insert(0, Extent(first, extent.model).battery())
    readings: list[ByText] = []
    for each, model in product(batteries, models):
        table = word_table(each.test, each.contexts)
        readings += (table.at(places).each() for places in table.by_occurrence(SINGLY)[:SINGLY])
        if about_gender(each.test):
            for question in (LpbsQuestion.of(model, test) for test in lpbs_tests().values()):
                readings += [] if question.why_not(model) else question.readings(model)
            if judges(model):
                readings.append(next_sentence_reading(model, triple_rows(each.triples)))
        if not why_no_fluency(model):
            readings.append(fluency_reading(model, each.sentences))
        if "nli" in model.abilities:
            for pairs in (each.probe.pairs, each.ability.pairs):
                readings.append(Pooled([Text(pair.premise, pair.hypothesis) for pair in pairs]))
    if not extent.settings.quick and about_gender(battery.test) and judges(extent.model):
        readings.append(sense_reading(extent.model, certified_items(battery)))
    return readings


@dataclass(frozen=True)
class Subject:
    """A model under audit, and the questions that it is asked."""

    model: Model
    questions: tuple[Question, ...]
    beside: bool = False  # a classifier beside the model that the audit is about


def opened(folder: Path, extent: Extent, battery: Battery, classifier: Model | None) -> Open:
    model, settings = extent.model, extent.settings
    stored = stored_of(
        model,
        Audit,
        AuditStored,
        settings,
        {"glue": isinstance(settings.glue, GlueSettings), "own_measures": own_in_memory()},
        nli=settings.nli.name if isinstance(settings.nli, Model) else settings.nli,
        loading=loaded_as([model, *([] if classifier is None else [classifier])]),
        own_measures=own_files(),
        abilities=tuple(sorted(model.abilities)),
        layers=model.layers,
        heads=model.heads,
        large=extent.large,
        huge=extent.huge,
        all_sizes=extent.sizes,
        questions=tuple(question.name for question in own_questions()),
        **stored_learning(settings.learned),
    )
    hashes = {"weights": model.fingerprint, **model.facts(), **battery.hashes(), **own_hashes()}
    hashes |= benchmark_hashes(extent.benchmarks)
    if classifier is not None:
        hashes |= {"nli weights": classifier.fingerprint, **classifier.facts("nli")}
    return Run.open(folder, Audit, stored, hashes=hashes)


# ---- measure


def measure(subject: Subject, extent: Extent, battery: Battery, run: Open) -> None:
    """Every question of the unmodified model; SEAT is there already."""
    further = (*own_questions(), *extent.benchmarks)
    if own := [info for question in further for info in question.measures]:
        run.results(Audit.measures, lambda: own)
    for question in subject.questions:
        key = Audit.measured.of(question.name)
        with stage(STAGES.get(question.name, Stage.OWN)):
            run.results(key, partial(_answers, subject, question, battery, {BASE: ()}))


def _answers(
    subject: Subject, question: Question, battery: Battery, variants: Mapping[str, Variant]
) -> list[MeasuredVariant]:
    """What one question finds, variant by variant."""
    answers = question.ask(subject.model, list(variants.values()), battery)
    return [
        MeasuredVariant(name, subject.model.name, measurement)
        for name, measurements in zip(variants, answers, strict=True)
        for measurement in measurements
    ]


# ---- mitigate and verify


def mitigate_biases(subjects: Sequence[Subject], extent: Extent, battery: Battery, run: Open) -> None:
    """Candidates of the arena on the audit's own items, for the model and for the classifier beside it.

    They are judged by a bias that the page claims, after correction for all of its claims, and those of the
    classifier by its inferences: nothing is tried on a model of which nothing is claimed. With fewer null
    models, or with too few items for three parts, nothing could be certified. One recipe per candidate is
    written, what is recommended first.
    """
    objective, nulls = claimed_bias(Audit(run.data())), certified_nulls(extent)
    if not objective or nulls < FEWEST_NULLS:
        return
    items = certified_items(battery)
    tried = [
        (subject, INFERENCES if subject.beside else objective)
        for subject in subjects
        if can_be_certified(items, beside=subject.beside)
    ]
    recipes: list[tuple[bool, str, str]] = []
    for subject, bias in tried:
        methods = tried_methods(subject.model, extent.settings.top)
        names = tuple(method.name for method in methods)
        settings = MitigateSettings(
            extent.settings.bias,
            names,
            bias,
            null=nulls,
            seed=extent.settings.seed,
            spillover=False,
            writing=extent.settings.generate,
        )
        place = subfolder(run.folder, (Audit.nli_mitigate if subject.beside else Audit.mitigate).folder)
        arena = mitigate(subject.model, settings, place, items, audited=Audited(methods, len(tried)))
        recipes += [(each in arena.certified[:1], each.name, each.recipe) for each in arena.candidates]
    kept = [each for each in sorted(recipes, key=lambda each: not each[0]) if each[2]]
    for number, (_, name, recipe) in enumerate(kept, start=1):
        run.file(TextFile(f"{RECIPES}/{recipe_file(number, name)}"), recipe)


def claimed_bias(run: Audit) -> str:
    """The bias in natural units that a page claims of the model; "" where it claims none of them."""
    holds = {name for name, _, ok in headline_claims(run) if ok}
    return next((bias for claim, bias in _JUDGED_BY.items() if claim in holds), "")


def verify(subject: Subject, extent: Extent, battery: Battery, run: Open) -> None:
    """The same questions again for the mitigation that is recommended, and for the unmodified model, on the
    items that it was certified on."""
    recommended = Audit(run.data()).recommended
    name = next((each for each in recommended if each.startswith(NLI) == subject.beside), "")
    if not name:
        return
    items, chosen = parts(certified_items(battery), extent.settings.seed), recommended[name][1]
    if chosen.recipe:
        edits = edits_of(subject.model, parse_recipe(chosen.recipe, run.folder / RECIPES / chosen.name))
    else:  # no recipe could name what was fitted on part A: it is fitted there once more
        methods = tried_methods(subject.model, extent.settings.top)
        method = next(each for each in methods if each.name == chosen.method)
        made = method.candidates(subject.model, items.fit)
        edits = next(each.edits for each in made if each.name == chosen.name)
    variants: dict[str, Variant] = {SAME_ITEMS: (), name: edits}
    for question in subject.questions:
        keys = {name: Audit.verified.of(f"{name}/{question.name}") for name in variants}
        if all(key in run for key in keys.values()):
            continue
        answers = _answers(subject, question, items.test.battery, variants)
        for name, key in keys.items():
            run.results(key, [each for each in answers if each.variant == name].copy)


def fill_in_prompts(extent: Extent, test: WordTest, run: Open) -> None:
    """CounterActs: who does which job, and does knowledge change the model's mind?"""
    model, label = extent.model, Audit.counteracts.folder
    key, reason = Audit.measured.of(label), ""
    if not model.abilities & {"mlm", "causal"}:
        reason = f"{model.name} predicts no words"
    elif not about_gender(test):
        reason = none_ships("fill-in prompts", test)
    if reason:
        missing = Measurement.missing(LOG_ODDS_MEASURE, reason)
        run.result(key, lambda: MeasuredVariant(BASE, model.name, missing))
        return
    prompts = counteracts([model], extent.counteracts, subfolder(run.folder, label))
    # log-odds, the main number, and the margin among the likeliest tokens: both without any knowledge
    cells = [cell for cell in (prompts.log_odds(BASE), prompts.margin(BASE)) if cell is not None]
    run.results(key, lambda: [MeasuredVariant(BASE, cell.model, cell.measurement) for cell in cells])


def let_write(extent: Extent, run: Open) -> None:
    """What the model writes, where the settings say so: who appears, and how far it is from its mirror image,
    as measures of the audit; the rest has chapters of its own."""
    if not extent.settings.generate:
        return
    label = Audit.generate.folder
    written = sample_texts(extent.model, extent.generate, subfolder(run.folder, label))
    main = [
        MeasuredVariant(BASE, each.model, each.measurement)
        for each in written.measured
        if each.name in (APPEARS, MIRROR)
    ]
    run.results(Audit.measured.of(label), main.copy)


def learn(extent: Extent, run: Open) -> None:
    """GLUE, where the settings name it: what the model and the recommended mitigation can still learn.

    What acts where a model answers (symmetrization) changes nothing in a training.
    """
    if extent.settings.learned is None:
        return
    recipes = {
        name: recipe
        for name, (_, each) in Audit(run.data()).recommended.items()
        if each.recipe
        and not name.startswith(NLI)
        and not (recipe := parse_recipe(each.recipe, run.folder / RECIPES / name)).symmetrize
    }
    learned = glue(extent.model, extent.settings.learned, subfolder(run.folder, Audit.glue.folder), recipes)
    for name in (BASE, *recipes):
        label = Audit.glue.folder if name == BASE else f"{name}/{Audit.glue.folder}"
        key = (Audit.measured if name == BASE else Audit.verified).of(label)
        run.results(key, partial(learned.measured, name))
