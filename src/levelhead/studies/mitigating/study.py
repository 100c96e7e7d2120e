"""All mitigations on one model: fitted on part A, ordered on part B, certified on part C (SPEC G5).

    detect    does the unmodified model show the bias beyond its null models, on all items?
    fit       every registered mitigation makes its candidates from part A
    order     on part B: methods by what they take, each from mild to strong, last what costs too much
    test      on part C, in that order, each by its largest p, until the first that fails

A bias that is not detected is not certified away: there is nothing to gain. Of what is certified the first
that can be written becomes a folder; every candidate is also asked about biases that it was not fitted on.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from levelhead.edits.sites import passes
from levelhead.engine.effort import now
from levelhead.engine.pace import seconds_per_token
from levelhead.engine.trainer_arguments import check_trainable
from levelhead.errors import BadOption, CannotDo
from levelhead.inference.mitigating import bought
from levelhead.measures.certified import LEVEL, in_sequence
from levelhead.measures.null import NullDistribution
from levelhead.measures.rounds import least_p, looks
from levelhead.mitigation.recipe import recipe_file, recipe_text
from levelhead.models.model import Model
from levelhead.models.twins import draw_twin, twin_seed, twinned
from levelhead.ordinary import check_tree
from levelhead.probes.contexts import template_contexts
from levelhead.probes.corpus import corpus_sentences
from levelhead.probes.words import in_memory, load_words, words_name
from levelhead.progress import steps
from levelhead.results import layout
from levelhead.results.folder import Run, text_hash
from levelhead.results.keys import TextFile
from levelhead.results.records.mitigating import BiasDetected, BudgetPlan, CandidateTested, MethodTimed
from levelhead.results.runs import MitigateRun
from levelhead.results.settings import MitigateRunSettings
from levelhead.scoring.battery import Battery
from levelhead.scoring.benchmarks.protocol import Items
from levelhead.scoring.item_values import ItemValues
from levelhead.scoring.natural import COSINE, behaviors, clearest_bias, natural_bias
from levelhead.scoring.placed import keeping_long_work, loaded_as, note_places
from levelhead.studies.glue import exam_hashes
from levelhead.studies.mitigating import (
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
    refitting,
    self_debiasing,
    steering,
    symmetrization,
    token_projection,
    unlearning,
)
from levelhead.studies.mitigating.budgeting import (
    NO_BUDGET,
    OTHERS,
    Budget,
    pace_of,
    planned,
    told,
    whole_seconds,
)
from levelhead.studies.mitigating.learning import Schooling, with_learning
from levelhead.studies.mitigating.parts import Parts, parts
from levelhead.studies.mitigating.protocol import Mitigation, cost_of
from levelhead.studies.mitigating.settings import FEWEST_NULLS, MitigateSettings
from levelhead.studies.mitigating.spillover import spilled
from levelhead.studies.mitigating.targets import named_methods, target_items, with_target
from levelhead.studies.mitigating.training import Means, trains
from levelhead.studies.mitigating.trying import Aim, Tried, order_of, try_methods
from levelhead.studies.mitigating.writing import Slower, write_chosen
from levelhead.work import announce, announce_line

BUILT_IN = (  # importing them registers their mitigations
    symmetrization,
    refitting,
    merging,
    head_ablation,
    token_projection,
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
Open = Run[MitigateRunSettings]
_CONTEXTS = 2  # per word


def run_mitigations(
    model: Model,
    settings: MitigateSettings | None,
    folder: str | Path,
    battery: Battery | None = None,
    *,
    began: float | None = None,
) -> MitigateRun:
    """Try every mitigation on a model and store what each bought and cost; a killed run goes on.

    settings: None: the default ones. battery: the items; None: those that ship. began: when the budget
    began to count (effort.now); None: now, so that loading the model is not part of it.
    """
    began, settings = now() if began is None else began, settings or MitigateSettings()
    _check_training(settings)
    deadline, glue = None if settings.seconds is None else began + settings.seconds, settings.glue
    battery = battery or shipped_battery(settings, model)
    items = target_items(model, settings)

    split = _parts(model, battery, settings, items)
    stored = MitigateRunSettings(
        study=layout.MITIGATE.study,
        seed=settings.seed,
        model=model.name,
        bias=words_name(settings.bias),
        methods=settings.methods,
        objective=settings.objective,
        gain=settings.gain,
        max_perplexity=settings.max_perplexity,
        max_loss=settings.max_loss,
        null=settings.null,
        text=settings.text,
        steps=settings.steps,
        lora=settings.lora,
        budget=settings.budget,
        spillover=settings.spillover,
        published=settings.data,
        limit=settings.limit,
        **({} if glue is None else glue.stored(settings.seed, glue.margin)),
        max_glue=1.0 if glue is None else glue.margin,
        words_in_memory=in_memory(settings.bias),
        loading=loaded_as([model]),
    )
    hashes = {"weights": model.fingerprint, **model.facts(), **split.hashes()}
    if glue is not None:
        check_trainable(model)  # before anything is asked
        hashes |= exam_hashes(glue.exams())
    if items is not None:
        hashes[f"items of {settings.objective}"] = items.fingerprint
    if settings.text:
        hashes["text"] = text_hash(corpus_sentences(settings.text))
    with Run.open(folder, layout.MITIGATE, stored, hashes=hashes) as run, keeping_long_work(run, [model]):
        methods, evaluated, within, budget = _methods(settings, run), split, settings, NO_BUDGET
        if deadline is not None:
            costs = {
                method.name: cost_of(method) for method in methods if not method.why_not(model, split.fit)
            }
            plan = run.result(layout.PLANNED, partial(_plan, model, split, settings, costs, deadline))
            evaluated = _parts(model, battery, settings, items, plan.every)
            budget = Budget(plan, deadline)
            within = replace(settings, spillover=settings.spillover and OTHERS not in plan.skipped)
        else:
            announce(partial(_times, model, split, settings, methods))
        detected = run.result(layout.DETECTED, partial(detect, model, evaluated, within, budget))
        tested = run.results(
            layout.CANDIDATES_TESTED,
            partial(
                _tested,
                model,
                evaluated,
                within,
                detected,
                run,
                partial(try_methods, model, evaluated, methods, budget),
            ),
        )
        for number, each in enumerate(tested, start=1):
            if each.recipe:
                run.file(TextFile(f"{layout.RECIPES}/{recipe_file(number, each.name)}"), each.recipe)
        shutil.rmtree(run.folder / layout.CHECKPOINTS, ignore_errors=True)
        note_places(run, [model])
    return MitigateRun.open(folder)


def _parts(
    model: Model, battery: Battery, settings: MitigateSettings, items: Items | None, every: int = 1
) -> Parts:
    return with_target(model, parts(battery, settings.seed, every), settings, items, every)


def _times(
    model: Model, split: Parts, settings: MitigateSettings, methods: Sequence[Mitigation]
) -> tuple[float, str]:
    """Seconds that a run without a budget takes on this machine, and what is shorter."""
    costs = {method.name: cost_of(method) for method in methods if not method.why_not(model, split.fit)}
    pace = pace_of(model, split, settings.objective, seconds_per_token(model))
    return whole_seconds(pace, costs, settings.null), "--budget 10min takes 10 min, --methods quickest less"


def _plan(
    model: Model,
    split: Parts,
    settings: MitigateSettings,
    costs: Mapping[str, float],
    deadline: float,
) -> BudgetPlan:
    """What fits until the deadline, by what a pass takes here; it is said before it begins."""
    pace = pace_of(model, split, settings.objective, seconds_per_token(model))
    plan = planned(pace, costs, settings.null, deadline - now())
    for line in told(plan, settings.budget, settings.null):
        announce_line(line)
    return plan


# ---- detect


def detect(
    model: Model, split: Parts, settings: MitigateSettings, budget: Budget = NO_BUDGET
) -> BiasDetected:
    """The bias against that of null models, each relative to the scale of its own items.

    Which bias: the objective, else what the model does that part B shows most clearly; then p counts all
    that the choice was among. To stand out is one more condition of every certificate: it can only make
    certifying harder, so all items may be asked.
    """
    items = split.whole
    among = 1 if settings.objective else max(1, len(behaviors(model, split.order)))
    own = natural_bias(model, items, settings.objective or clearest_bias(model, split.order))
    value, relative = _relative(own)
    nulls: list[float] = []
    planned_nulls = budget.nulls(settings.null)
    with steps("Null models", planned_nulls) as advance:
        for number in range(planned_nulls):
            if number >= FEWEST_NULLS and (
                budget.stops_nulls or _hopeless(nulls, relative, planned_nulls, among)
            ):
                break
            try:
                with twinned(model, draw_twin(model, twin_seed(settings.seed, number))):
                    nulls.append(_relative(natural_bias(model, items, own.name))[1])
            except CannotDo:
                break
            advance(1)
    p = None
    if len(nulls) >= FEWEST_NULLS:
        p = min(1.0, among * NullDistribution(np.asarray(nulls)).student_p_value(relative))
    why_not = ""
    if own.name == COSINE and not split.words_apart:
        why_not = f"{items.battery.test.name} is too short to test on other words than it is fitted on"
    shown = p is not None and p <= LEVEL and not why_not
    return BiasDetected(own.name, own.unit, value, relative, len(nulls), p, shown, why_not)


def _hopeless(nulls: Sequence[float], value: float, planned_nulls: int, among: int) -> bool:
    """Whether no null models still to come could let the bias stand out (measures/rounds.py): a stop that
    neither costs power nor adds error."""
    if len(nulls) not in looks(planned_nulls):
        return False
    return among * least_p(NullDistribution(np.asarray(nulls)), value, planned_nulls) > LEVEL


def _relative(items: ItemValues) -> tuple[float, float]:
    """The mean over items, and the same relative to the root mean square of the items."""
    values = items.values[0]
    mean = float(np.average(values, weights=items.weights))
    rms = float(np.sqrt(np.mean(values**2)))
    return mean, mean / rms if rms > 0 else 0.0


# ---- fit, order, test


def _tested(
    model: Model,
    split: Parts,
    settings: MitigateSettings,
    detected: BiasDetected,
    run: Open,
    try_all: Callable[[], Tried],
) -> list[CandidateTested]:
    tried = try_all()
    run.results(layout.LEFT_OUT, lambda: tried.left_out)
    candidates = tried.candidates
    on_b = tried.on_b
    own = natural_bias(model, split.order, detected.bias) if on_b is None else on_b.bias(detected.bias)
    aim = Aim(detected.bias, own.sign, settings.margins)
    seen = [] if on_b is None else on_b.tested(candidates, aim)
    order = order_of(candidates, seen) if seen else list(range(len(candidates)))
    on_c = tried.on_c.tested(candidates, aim)
    judged, ordered = [on_c[i] for i in order], [candidates[i] for i in order]
    if settings.glue is not None and detected.detected:
        folder = run.folder.absolute() / layout.CHECKPOINTS / layout.GLUE_PART
        judged = with_learning(Schooling(model, settings.glue, folder), ordered, judged, aim.margins)
    judged = in_sequence(judged) if detected.detected else judged
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
    moved = run.results(layout.BIASES_MOVED, lambda: tried.on_c.moved(candidates))
    run.results(layout.ODDS_MOVED, lambda: tried.on_c.odds(candidates))
    if settings.spillover:
        run.results(layout.SPILLOVER, lambda: spilled(model, split.fit.test, candidates))
    pairs = sorted(zip(ordered, tested, strict=True), key=lambda pair: -pair[1].certificate.gain)
    # all hold together, so any may be chosen
    passed = [(each, bought(own, moved)) for each, own in pairs if own.certificate.certified]
    slower: Slower = {}
    run.result(layout.WRITTEN, lambda: write_chosen(model, passed, run.folder / layout.CHOSEN_MODEL, slower))
    times = [MethodTimed(t.method, t.seconds, t.memory, *slower.get(t.method, ())) for t in tried.times]
    run.file(layout.TIMES, times)
    return tested


def _methods(settings: MitigateSettings, run: Open) -> list[Mitigation]:
    """The mitigations that are tried, with a budget the cheapest first; those that train keep what they have
    done in the run folder."""
    folder = run.folder.absolute() / layout.CHECKPOINTS
    check_tree(folder)  # another library opens what is in it
    means = Means(settings.text, settings.steps, settings.lora, settings.seed, folder)
    every = named_methods(settings)
    if not settings.methods:
        every = tuple(method for method in every if not trains(method))
    chosen = [method.with_means(means) if trains(method) else method for method in every]
    return chosen if settings.seconds is None else sorted(chosen, key=cost_of)


def _check_training(settings: MitigateSettings) -> None:
    """Refuse to be told how to train where nothing is trained."""
    told = {"text": settings.text, "steps": settings.steps, "lora": settings.lora}
    useless = [name for name, value in told.items() if value]
    taught = settings.methods and any(trains(each) for each in named_methods(settings))
    if useless and not taught:
        raise BadOption(
            f"{useless[0]} would change nothing: no mitigation that trains is named. Name one, such as "
            "methods=distilled."
        )


def shipped_battery(settings: MitigateSettings, model: Model) -> Battery:
    """The shipped items for a bias; words in two templates each. A masked model is asked about every token of
    a text in turn, so it is given every other text."""
    test = load_words(settings.bias)
    battery = Battery(test, tuple(template_contexts(test, _CONTEXTS)))
    if "causal" in model.abilities:
        return battery
    return replace(battery, sentences=battery.sentences[::2])
