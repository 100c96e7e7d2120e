"""All mitigations on one model: fitted on part A, ordered on part B, certified on part C.

    detect    does the unmodified model show the bias beyond its null models, on all items?
    fit       every registered mitigation makes its candidates from part A
    order     on part B: methods by what they take, each from mild to strong, last what costs too much
    test      on part C, in that order, each by its largest p, until the first that fails

A bias that is not detected is not certified away: there is nothing to gain. Of what is certified the first
that can be written becomes a folder; every candidate is also evaluated on biases that it was not fitted on.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

import numpy as np

from levelhead.edits.sites import passes
from levelhead.engine.effort import now, speed_of
from levelhead.engine.training import check_trainable
from levelhead.errors import BadOption, CannotDo, NoEffect
from levelhead.inference.mitigating import bought
from levelhead.measures.certified import LEVEL, MIRROR, WRITTEN, in_sequence, p_at_most
from levelhead.measures.clustered import permutation_p_value
from levelhead.measures.null import NullDistribution, least_p, looks
from levelhead.mitigation.export import export
from levelhead.mitigation.recipe import recipe_file, recipe_text
from levelhead.models.model import Model
from levelhead.models.null_model import as_null_model, draw_null_model, null_model_seed
from levelhead.probes.bias import about_gender
from levelhead.probes.contexts import template_contexts
from levelhead.probes.corpus import corpus_sentences
from levelhead.probes.outside import NONE, OutsideText
from levelhead.probes.words import load_words
from levelhead.progress import Plan, Stage, announce_line, announced, plan_ends, replan, stage, steps
from levelhead.runs.files import TextFile
from levelhead.runs.folder import Run, text_hash
from levelhead.runs.study import RECIPES
from levelhead.safe_files import check_tree, read_bytes, write_text_inside
from levelhead.scoring.battery import Battery
from levelhead.scoring.benchmarks.catalog import benchmark_of, benchmarks
from levelhead.scoring.benchmarks.protocol import Items, Selection
from levelhead.scoring.items import ItemValues
from levelhead.scoring.natural import COSINE, INFERENCES, behaviors, clearest_bias, natural_bias, writes
from levelhead.scoring.outside import drawn_outside, outside_text
from levelhead.scoring.placed import keeping_long_work, note_places, stored_of
from levelhead.studies.glue import CHECKPOINTS, Glue
from levelhead.studies.glue.run import exam_hashes, exams_of
from levelhead.studies.glue.settings import GlueSettings, stored_learning
from levelhead.studies.mitigate import (
    CHOSEN_MODEL,
    TIMES,
    Mitigate,
    counterfactual_text,
    dama,
    distillation,
    erasures,
    fasp,
    gate_learning,
    gradient_edit,
    head_ablation,
    merging,
    neuron_ablation,
    preference_tuning,
    projective_setting,
    refitting,
    self_debiasing,
    steering,
    symmetrization,
    token_projection,
    unlearning,
)
from levelhead.studies.mitigate.budgeting import (
    NO_BUDGET,
    OTHERS,
    WRITING,
    Budget,
    pace_of,
    planned,
    tokens_by_bias,
    told,
    whole_seconds,
)
from levelhead.studies.mitigate.learning import Schooling, with_learning
from levelhead.studies.mitigate.parts import (
    Parts,
    named_methods,
    parts,
    quickly_ordered,
    with_target,
    with_writing,
)
from levelhead.studies.mitigate.protocol import Candidate, Mitigation, cost_of
from levelhead.studies.mitigate.records import (
    BiasDetected,
    BudgetPlan,
    CandidateTested,
    MethodTimed,
    ModelWritten,
    TextOutside,
)
from levelhead.studies.mitigate.settings import FEWEST_NULLS, MitigateSettings, MitigateStored
from levelhead.studies.mitigate.spillover import spilled
from levelhead.studies.mitigate.training import Means, trains
from levelhead.studies.mitigate.trying import Aim, Tried, order_of, try_methods

BUILT_IN = (  # importing them registers their mitigations
    symmetrization,
    refitting,
    merging,
    head_ablation,
    token_projection,
    projective_setting,
    neuron_ablation,
    gate_learning,
    fasp,
    dama,
    steering,
    erasures,
    self_debiasing,
    gradient_edit,
    distillation,
    counterfactual_text,
    unlearning,
    preference_tuning,
)
Open = Run[MitigateStored]
Slower = dict[str, tuple[float | None, float | None]]  # method -> time per answer, per generated token
_CONTEXTS = 2  # per word
# with as many texts as an audit has time for, no loss of agreement could be excluded
_AUDITED = "an audit evaluates on its own items only; levelhead mitigate MODEL evaluates outside too"
_CARD = "README.md"  # of an exported folder
_UNDETECTED = (
    "the bias is not significantly different from null models, so nothing could be certified to lower it"
)


@dataclass(frozen=True)
class Audited:
    """What is tried inside an audit, and how many sequences of tests share its error of 5 %."""

    methods: Sequence[Mitigation]
    sequences: int = 1


def mitigate(
    model: Model,
    settings: MitigateSettings | None,
    folder: str | Path,
    battery: Battery | None = None,
    *,
    began: float | None = None,
    audited: Audited | None = None,
) -> Mitigate:
    """Try every mitigation on a model and store what each bought and cost; a killed run goes on.

    settings: None: the default ones. battery: the items; None: those that ship. began: when the budget
    began to count (effort.now); None: now, so that loading the model is not part of it.
    """
    began, settings = now() if began is None else began, settings or MitigateSettings()
    training = {"text": settings.text, "steps": settings.steps, "lora": settings.lora}
    useless = [name for name, value in training.items() if value]
    if useless and not (settings.methods and any(map(trains, named_methods(settings)))):
        raise BadOption(
            f"{useless[0]} would change nothing: no mitigation that trains is named. Name one, such as "
            "methods=distilled."
        )
    battery = battery or shipped_battery(settings, model)
    items = _benchmark_items(model, settings)
    writing = _writes(model, settings, battery)
    text, why_not = (None, _AUDITED) if audited else _outside(model, settings, battery)

    def split_of(writing: bool, every: int = 1) -> Parts:
        """All items in their parts; one of so many items alone."""
        split = with_target(model, parts(battery, settings.seed, every), settings, items, every)
        split = with_writing(split, settings.objective, settings.seed, every) if writing else split
        return replace(split, outside=text and drawn_outside(model, text, settings.seed, every))

    split = split_of(writing)
    split = quickly_ordered(split) if audited else split
    with ExitStack() as stack:
        run = stack.enter_context(_opened(folder, model, settings, split, items))
        stack.enter_context(keeping_long_work(run, [model]))
        methods = list(audited.methods) if audited else _methods(settings, run)
        evaluated, within, budget = split, settings, _budget(model, split, settings, methods, run, began)
        if settings.seconds is None:
            work = cache(partial(_work, model, split, settings, methods, run))
            stack.enter_context(announced("Mitigations", partial(_times, model, work), work))
        if budget.plan is not None:  # what the time is not enough for is left out
            skipped = budget.plan.skipped
            evaluated = split_of(writing and WRITING not in skipped, budget.plan.every)
            within = replace(settings, spillover=settings.spillover and OTHERS not in skipped)
        seen = evaluated.outside or OutsideText("")
        sizes = len(seen.sentences), len(seen.passages), len(seen.stated)
        run.result(Mitigate.outside, lambda: TextOutside(seen.name, *sizes, why_not))
        share = audited.sequences if audited else 1
        with stage(Stage.NULLS):
            detected = run.result(Mitigate.detected, lambda: detect(model, evaluated, within, budget))
        # an audit saves the time for what could certify nothing
        useless_now = _UNDETECTED if audited and not detected.detected else ""
        with stage(Stage.CERTIFIED):
            tested = run.results(
                Mitigate.candidates,
                lambda: _tested(
                    model,
                    evaluated,
                    within,
                    detected,
                    run,
                    try_methods(model, evaluated, methods, budget, share, useless_now),
                ),
            )
        for number, each in enumerate(tested, start=1):
            if each.recipe:
                run.file(TextFile(f"{RECIPES}/{recipe_file(number, each.name)}"), each.recipe)
        shutil.rmtree(run.folder / CHECKPOINTS, ignore_errors=True)
        note_places(run, [model])
    return Mitigate.open(folder)


def _nulls(settings: MitigateSettings) -> int:
    """The null models of the bias at most: none of them writes."""
    return 0 if settings.objective in WRITTEN else settings.null


def _costs(model: Model, split: Parts, methods: Sequence[Mitigation]) -> dict[str, float]:
    """How many passes each mitigation takes that this model can be given."""
    return {each.name: cost_of(each) for each in methods if not each.why_not(model, split.fit)}


def _work(
    model: Model, split: Parts, settings: MitigateSettings, methods: Sequence[Mitigation], run: Open
) -> dict[Stage, float]:
    """What there is to do, in tokens: the bias and its null models, and all mitigations."""
    if Mitigate.candidates in run:
        return {}
    pace = pace_of(model, split, settings.objective, 1.0)
    pace = pace if settings.spillover else replace(pace, others=0.0)
    if not settings.objective and (among := behaviors(model, split.whole)):  # any of them may be chosen
        sizes = tokens_by_bias(model, split.whole)
        pace = replace(pace, detect=float(np.mean([sizes[name] for name in among])))
    whole = whole_seconds(pace, _costs(model, split, methods), _nulls(settings))
    detecting = 0.0 if Mitigate.detected in run else pace.choose + (1 + _nulls(settings)) * pace.detect
    return {Stage.NULLS: detecting, Stage.CERTIFIED: whole - detecting}


def _times(model: Model, work: Callable[[], Mapping[Stage, float]]) -> Plan:
    """What the work takes on this machine, and which options make it shorter."""
    shorter = "--budget 10min takes 10 min, --methods quickest less"
    return speed_of(model).plan(tokens, shorter=shorter) if (tokens := sum(work().values())) else Plan()


def _budget(
    model: Model,
    split: Parts,
    settings: MitigateSettings,
    methods: Sequence[Mitigation],
    run: Open,
    began: float,
) -> Budget:
    """What fits into the time of the settings; without one everything."""
    if settings.seconds is None:
        return NO_BUDGET
    deadline = began + settings.seconds

    def planned_until() -> BudgetPlan:
        speed = speed_of(model)
        pace = pace_of(model, split, settings.objective, speed.token)
        plan = planned(pace, _costs(model, split, methods), _nulls(settings), deadline - now())
        plan_ends(lambda: speed.lasting(plan.seconds))
        for line in told(plan, settings.budget, _nulls(settings)):
            announce_line(line)
        return plan

    return Budget(run.result(Mitigate.plan, planned_until), deadline)


def _benchmark_items(model: Model, settings: MitigateSettings) -> Items | None:
    """The items of the benchmark that candidates are to lower; None where the objective is none."""
    if not settings.data:
        if settings.objective in benchmarks():
            raise BadOption(f"The objective {settings.objective} needs its published file: --data FILE.")
        return None
    benchmark = benchmark_of(settings.objective)
    if reason := benchmark.why_not(model):
        raise CannotDo(f"{reason}.")
    return benchmark.load(settings.data, Selection(limit=settings.limit))


def _opened(
    folder: str | Path, model: Model, settings: MitigateSettings, split: Parts, items: Items | None
) -> Open:
    """The run folder; one begun with another model, other items or settings is refused."""
    glue = settings.learned
    made = {"glue": isinstance(settings.glue, GlueSettings)}
    stored = stored_of(model, Mitigate, MitigateStored, settings, made, **stored_learning(glue))
    hashes = {"weights": model.fingerprint, **model.facts(), **split.hashes()}
    if glue is not None:
        check_trainable(model)  # before anything is evaluated
        hashes |= exam_hashes(exams_of(glue))
    if items is not None:
        hashes[f"items of {settings.objective}"] = items.fingerprint
    if settings.text:
        hashes["text"] = text_hash(corpus_sentences(settings.text))
    return Run.open(folder, Mitigate, stored, hashes=hashes)


def _writes(model: Model, settings: MitigateSettings, battery: Battery) -> bool:
    """Whether candidates are let write. Where they are to be judged by it and cannot be, that is said."""
    gender = about_gender(battery.test)
    if settings.objective in WRITTEN and not writes(model):
        raise CannotDo(
            f"{model.name} predicts no next word, so it writes no text and cannot be judged by "
            f"{settings.objective!r}. Judge it by what it believes: leave --objective out, or name another."
        )
    if settings.objective in WRITTEN and not gender:
        raise CannotDo(
            f"The objective {settings.objective!r} is about gender; no prompts for it ship for "
            f"{battery.test.name}."
        )
    return settings.writing and gender and writes(model)


def _outside(model: Model, settings: MitigateSettings, battery: Battery) -> tuple[OutsideText | None, str]:
    """The text that certificates are evaluated on too, or why none is; a user's that cannot be is refused."""
    try:
        return outside_text(model, settings.outside, battery.test, settings.text), ""
    except CannotDo as error:
        if settings.outside not in ("", NONE):
            raise
        return None, str(error)


# ---- detect


def detect(
    model: Model, split: Parts, settings: MitigateSettings, budget: Budget = NO_BUDGET
) -> BiasDetected:
    """The bias against that of null models, each relative to the scale of its own items.

    Which bias: the objective, else what the model does that part B shows most clearly; then p counts all
    that the choice was among. To stand out is one more condition of every certificate: it can only make
    certifying harder, so all items may be used.
    """
    items = split.whole
    among = 1 if settings.objective else max(1, len(behaviors(model, split.order)))
    own = natural_bias(model, items, settings.objective or clearest_bias(model, split.order))
    if own.name in WRITTEN:
        # No null models, which write words without meaning. Who appears: labels exchanged among occupations.
        # Mirror divergence is a magnitude that no null says anything of; all that is tested is whether there
        # is any to reduce, so it is never a bias that was found.
        if not own.comparable(0):
            raise CannotDo(f"The texts of {model.name} are too few to be judged by {own.name!r}.")
        known, (value, relative) = own.known(0), _relative(own)
        if own.name == MIRROR:
            written = known.paired(0)
            p_texts = p_at_most(written.before, 0.0, written)
        else:
            log_odds, women = known.values[0], known.strata == 1
            p_texts = permutation_p_value(log_odds[women], -log_odds[~women]).p_value
        return BiasDetected(own.name, own.unit, value, relative, 0, p_texts, p_texts <= LEVEL)
    value, relative = _relative(own)
    nulls: list[float] = []
    planned_nulls = settings.null if budget.plan is None else budget.plan.null

    def tokens() -> float:
        """The bias that was chosen, in the model and in its null models."""
        every = tokens_by_bias(model, split.order)
        among = () if settings.objective else behaviors(model, split.order)
        once = tokens_by_bias(model, items)[own.name]
        return sum(every[name] for name in among) + (1 + planned_nulls) * once

    replan(Stage.NULLS, tokens)
    with steps("Null models", planned_nulls) as advance:
        for number in range(planned_nulls):
            # a stop that costs no power and adds no error: no null model to come could let the bias stand
            # out (measures/null.py), or the clock says so
            enough = number >= FEWEST_NULLS
            hopeless = (
                enough
                and number in looks(planned_nulls)
                and (among * least_p(NullDistribution(np.asarray(nulls)), relative, planned_nulls) > LEVEL)
            )
            if enough and (budget.stops_nulls or hopeless):
                break
            try:
                with as_null_model(model, draw_null_model(model, null_model_seed(settings.seed, number))):
                    nulls.append(_relative(natural_bias(model, items, own.name))[1])
            except CannotDo:
                break
            advance(1)
    p = detectable = None
    if len(nulls) >= FEWEST_NULLS:
        null = NullDistribution(np.asarray(nulls))
        p = min(1.0, among * null.p_value(relative, "student"))
        most = 1.0 if own.name == INFERENCES else math.inf  # a difference of probabilities
        detectable = detectable_size(null.detectable(LEVEL / among), value, relative, most)
    why_not = ""
    if own.name == COSINE and not split.words_apart:
        why_not = f"{items.battery.test.name} is too short to test on other words than it is fitted on"
    shown = p is not None and p <= LEVEL and not why_not
    return BiasDetected(own.name, own.unit, value, relative, len(nulls), p, shown, why_not, detectable)


def detectable_size(critical: float, value: float, relative: float, most: float = math.inf) -> float | None:
    """The mean whose size relative to the root mean square of the items is the critical one, where the items
    scatter around their mean as these do.

        m / sqrt(m² + s²) = critical,   s² = rms² − mean²

    None: no mean is as large, at most the root mean square of the items, and `most`.
    """
    if not critical < 1 or not relative:
        return None
    size = critical / math.sqrt(1 - critical**2) * abs(value) * math.sqrt(1 / relative**2 - 1)
    return size if size <= most else None


def _relative(items: ItemValues) -> tuple[float, float]:
    """The mean over items, and the same relative to the root mean square of the items."""
    items = items.known(0)
    values = items.values[0]
    mean = float(np.average(values, weights=items.weights))
    rms = float(np.sqrt(np.mean(values**2)))
    return mean, mean / rms if rms > 0 else 0.0


# ---- fit, order, test


def _tested(
    model: Model, split: Parts, settings: MitigateSettings, detected: BiasDetected, run: Open, tried: Tried
) -> list[CandidateTested]:
    run.results(Mitigate.left_out, lambda: tried.left_out)
    candidates = tried.candidates
    on_b = tried.on_b
    own = natural_bias(model, split.order, detected.bias) if on_b is None else on_b.bias(detected.bias)
    aim = Aim(detected.bias, own.sign, settings.margins)
    seen = [] if on_b is None else on_b.tested(candidates, aim)
    order = order_of(candidates, seen) if seen else list(range(len(candidates)))
    on_c = [each.sharing(tried.sequences) for each in tried.on_c.tested(candidates, aim)]
    judged, ordered = [on_c[i] for i in order], [candidates[i] for i in order]
    if settings.learned is not None and detected.detected:
        folder = run.folder.absolute() / CHECKPOINTS / Glue.name
        judged = with_learning(Schooling(model, settings.learned, folder), ordered, judged, aim.margins)
    judged = in_sequence(judged)
    if not detected.detected:
        judged = [replace(each, certified=False) for each in judged]
    tested = [
        CandidateTested(
            each.name,
            each.method,
            each.strength,
            "" if each.recipe is None else recipe_text(each.recipe),
            seen[i].gain if seen else None,
            own_test,
            passes(each.edits),
        )
        for i, each, own_test in zip(order, ordered, judged, strict=True)
    ]
    moved = run.results(Mitigate.moved, lambda: tried.on_c.moved(candidates))
    if tried.on_c.items.writing is not None:
        run.results(Mitigate.not_compared, lambda: tried.on_c.not_compared(candidates))
    run.results(Mitigate.odds, lambda: tried.on_c.odds(candidates))
    if settings.spillover:
        run.results(Mitigate.spillover, lambda: spilled(model, split.fit.test, candidates))
    pairs = sorted(zip(ordered, tested, strict=True), key=lambda pair: -pair[1].certificate.gain)
    # all hold together, so any may be chosen
    passed = [(each, bought(own, moved)) for each, own in pairs if own.certificate.certified]
    slower: Slower = {}
    run.result(Mitigate.written, lambda: write_chosen(model, passed, run.folder / CHOSEN_MODEL, slower))
    times = [MethodTimed(t.method, t.seconds, t.memory, *slower.get(t.method, ())) for t in tried.times]
    run.file(TIMES, times)
    return tested


def _methods(settings: MitigateSettings, run: Open) -> list[Mitigation]:
    """The mitigations that are tried, with a budget the cheapest first; those that train keep what they have
    done in the run folder."""
    folder = run.folder.absolute() / CHECKPOINTS
    check_tree(folder)  # another library opens what is in it
    means = Means(settings.text, settings.steps, settings.lora, settings.seed, folder)
    every = named_methods(settings)
    if not settings.methods:
        every = tuple(method for method in every if not trains(method))
    chosen = [method.with_means(means) if trains(method) else method for method in every]
    return chosen if settings.seconds is None else sorted(chosen, key=cost_of)


def shipped_battery(settings: MitigateSettings, model: Model) -> Battery:
    """The shipped items for a bias; words in two templates each. A masked model takes one pass per token of a
    text, so it is given every other text."""
    test = load_words(settings.bias)
    battery = Battery(test, tuple(template_contexts(test, _CONTEXTS)))
    if "causal" in model.abilities:
        return battery
    return replace(battery, sentences=battery.sentences[::2])


# ---- the certified model as a folder that transformers loads


def write_chosen(
    model: Model, certified: Sequence[tuple[Candidate, str]], folder: Path, slower: Slower | None = None
) -> ModelWritten:
    """Write the first certified candidate that can be written as a folder: one that takes several passes
    comes after those that take one.

    certified: candidates with what they buy and cost, which the folder's README says too; slower: gets the
    times of the one that is written, which are no result that a run repeats.
    """
    reasons = []
    for candidate, buys in sorted(certified, key=lambda each: passes(each[0].edits)):
        shutil.rmtree(folder, ignore_errors=True)  # of a run that was killed after it
        try:
            report = export(model, candidate.edits, folder, candidate.recipe)
        except (CannotDo, NoEffect) as error:
            reasons.append(f"{candidate.name}: {error}")
            continue
        card = (read_bytes(folder, _CARD) or b"").decode()
        said = f"## Gain and costs\n\n{candidate.name} {buys}, on held-out items.\n"
        write_text_inside(folder, _CARD, f"{card}\n{said}")
        if slower is not None:
            slower[candidate.method] = report.per_answer, report.per_token
        return ModelWritten(candidate.name, report.load_with, "")
    return ModelWritten("", "", "; ".join(reasons) or "no mitigation is certified")
