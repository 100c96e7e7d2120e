"""All mitigations on one model: fitted on part A, ordered on part B, certified on part C (SPEC G5).

    detect    does the unmodified model show the bias beyond its null models, on all items?
    fit       every registered mitigation makes its candidates from part A
    order     candidates by what they gain on part B, those within all margins first
    test      on part C, in that order, each by its largest p, until the first that fails

A bias that is not detected is not certified away: there is nothing to gain.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from levelhead.errors import BadOption, CannotDo
from levelhead.measures.certified import (
    LEVEL,
    Certificate,
    Margins,
    certificate,
    in_sequence,
    mean_interval,
)
from levelhead.measures.null import NullDistribution
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
from levelhead.results.records.mitigating import BiasDetected, BiasMoved, CandidateTested, MethodLeftOut
from levelhead.results.runs import MitigateRun
from levelhead.results.settings import MitigateRunSettings
from levelhead.scoring.battery import Battery
from levelhead.scoring.natural import (
    ItemValues,
    NaturalItems,
    natural_bias,
    natural_biases,
    natural_costs,
)
from levelhead.scoring.placed import keeping_long_work, loaded_as, note_places
from levelhead.studies.mitigating import (
    counterfactual_text,
    dama,
    distillation,
    erasures,
    fasp,
    gradient_edit,
    head_ablation,
    neuron_ablation,
    preference_tuning,
    self_debiasing,
    steering,
    symmetrization,
    token_projection,
    unlearning,
)
from levelhead.studies.mitigating.parts import Parts, parts
from levelhead.studies.mitigating.protocol import Candidate, Mitigation, mitigations
from levelhead.studies.mitigating.settings import MitigateSettings
from levelhead.studies.mitigating.training import Means, Trains
from levelhead.studies.mitigating.writing import write_chosen

BUILT_IN = (  # importing them registers their mitigations
    symmetrization,
    head_ablation,
    token_projection,
    neuron_ablation,
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
_FEWEST = 3  # null models that a spread is estimated from


@dataclass(frozen=True)
class _Asked:
    """Biases and costs of the unmodified model, first, and of every candidate on the same items."""

    biases: Sequence[ItemValues]
    costs: Sequence[ItemValues]

    @classmethod
    def of(cls, model: Model, items: NaturalItems, candidates: Sequence[Candidate]) -> _Asked:
        """Ask everything that the model can be asked."""
        variants = [(), *(candidate.edits for candidate in candidates)]
        return cls(natural_biases(model, items, variants), natural_costs(model, items, variants))

    def sign(self, bias: str) -> int:
        """Which way the unmodified model leans."""
        return 1 if _relative(self._bias(bias))[0] >= 0 else -1

    def _bias(self, name: str) -> ItemValues:
        return next(each for each in self.biases if each.name == name)

    def tested(self, candidates: Sequence[Candidate], aim: Aim) -> list[Certificate]:
        """Every candidate judged by the bias that it aims at, and by every cost."""
        return [
            certificate(
                candidate.name,
                self._bias(aim.bias).paired(number),
                aim.sign,
                [cost.paired(number) for cost in self.costs],
                aim.margins,
            )
            for number, candidate in enumerate(candidates, start=1)
        ]


@dataclass(frozen=True)
class Aim:
    """What candidates are judged by; the sign of the bias is that of part B, never of part C."""

    bias: str
    sign: int
    margins: Margins


def run_mitigations(model: Model, settings: MitigateSettings | None, folder: str | Path) -> MitigateRun:
    """Try every mitigation on a model and store what each bought and cost; a killed run goes on.

    None: the default settings.
    """
    settings = settings or MitigateSettings()
    _check_training(settings)
    battery = _battery(settings)
    split = parts(battery, settings.seed)
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
        words_in_memory=in_memory(settings.bias),
        loading=loaded_as([model]),
    )
    hashes = {"weights": model.fingerprint, **model.facts(), **battery.hashes()}
    if settings.text:
        hashes["text"] = text_hash(corpus_sentences(settings.text))
    with Run.open(folder, layout.MITIGATE, stored, hashes=hashes) as run, keeping_long_work(run, [model]):
        detected = run.result(layout.DETECTED, lambda: _detected(model, split.whole, settings))
        tested = run.results(
            layout.CANDIDATES_TESTED, partial(_tested, model, split, settings, detected, run)
        )
        for number, each in enumerate(tested, start=1):
            if each.recipe:
                run.file(TextFile(f"{layout.RECIPES}/{recipe_file(number, each.name)}"), each.recipe)
        shutil.rmtree(run.folder / layout.CHECKPOINTS, ignore_errors=True)
        note_places(run, [model])
    return MitigateRun.open(folder)


# ---- detect


def _detected(model: Model, items: NaturalItems, settings: MitigateSettings) -> BiasDetected:
    """The bias against that of null models, each relative to the scale of its own items.

    One more condition of every certificate: it can only make certifying harder, so all items may be asked.
    """
    own = natural_bias(model, items, settings.objective)
    value, relative = _relative(own)
    nulls: list[float] = []
    with steps("Null models", settings.null) as advance:
        for number in range(settings.null):
            try:
                with twinned(model, draw_twin(model, twin_seed(settings.seed, number))):
                    nulls.append(_relative(natural_bias(model, items, own.name))[1])
            except CannotDo:
                break
            advance(1)
    p = None
    if len(nulls) >= _FEWEST:
        p = NullDistribution(np.asarray(nulls)).student_p_value(relative)
    return BiasDetected(own.name, own.unit, value, relative, len(nulls), p, p is not None and p <= LEVEL)


def _relative(items: ItemValues) -> tuple[float, float]:
    """The mean over items, and the same relative to the root mean square of the items."""
    values = items.values[0]
    mean = float(np.average(values, weights=items.weights))
    rms = float(np.sqrt(np.mean(values**2)))
    return mean, mean / rms if rms > 0 else 0.0


# ---- fit, order, test


def _tested(
    model: Model, split: Parts, settings: MitigateSettings, detected: BiasDetected, run: Open
) -> list[CandidateTested]:
    candidates: list[Candidate] = []
    left_out: list[MethodLeftOut] = []
    for method in _methods(settings, run):
        if reason := method.why_not(model, split.fit):
            left_out.append(MethodLeftOut(method.name, reason))
        else:
            candidates += method.candidates(model, split.fit)
    run.results(layout.LEFT_OUT, lambda: left_out)
    ordering = _Asked.of(model, split.order, candidates)
    aim = Aim(detected.bias, ordering.sign(detected.bias), settings.margins)
    on_b = ordering.tested(candidates, aim)
    order = sorted(range(len(candidates)), key=lambda i: _place(on_b[i], settings))
    asked = _Asked.of(model, split.test, candidates)
    run.results(layout.BIASES_MOVED, lambda: _moved(asked, candidates))
    tested_on_c = asked.tested(candidates, aim)
    on_c = [tested_on_c[i] for i in order]
    judged = in_sequence(on_c) if detected.detected else on_c
    passed = [candidates[i] for i, tested in zip(order, judged, strict=True) if tested.certified]
    write_chosen(model, passed, run.folder / layout.CHOSEN_MODEL)
    return [
        CandidateTested(
            each.name,
            each.method,
            each.strength,
            "" if each.recipe is None else recipe_text(each.recipe),
            on_b[i].gain,
            tested,
        )
        for i, each, tested in zip(order, (candidates[i] for i in order), judged, strict=True)
    ]


def _methods(settings: MitigateSettings, run: Open) -> list[Mitigation]:
    """The mitigations that are tried; those that train keep what they have done in the run folder."""
    folder = run.folder.absolute() / layout.CHECKPOINTS
    check_tree(folder)  # another library opens what is in it
    means = Means(settings.text, settings.steps, settings.lora, settings.seed, folder)
    every = mitigations(settings.methods)
    if not settings.methods:
        return [method for method in every if not isinstance(method, Trains)]
    return [method.with_means(means) if isinstance(method, Trains) else method for method in every]


def _check_training(settings: MitigateSettings) -> None:
    """Refuse to be told how to train where nothing is trained."""
    told = {"text": settings.text, "steps": settings.steps, "lora": settings.lora}
    useless = [name for name, value in told.items() if value]
    trains = settings.methods and any(isinstance(each, Trains) for each in mitigations(settings.methods))
    if useless and not trains:
        raise BadOption(
            f"{useless[0]} would change nothing: no mitigation that trains is named. Name one, such as "
            "methods=distilled."
        )


def _place(seen: Certificate, settings: MitigateSettings) -> tuple[bool, float]:
    """Where a candidate stands in the order: within every margin first, then by gain."""
    within = all(grown <= settings.margins.cost(name) for name, grown in seen.costs.items())
    return not within, -seen.gain


def _moved(asked: _Asked, candidates: Sequence[Candidate]) -> list[BiasMoved]:
    moved = []
    for i, candidate in enumerate(candidates, start=1):
        for bias in asked.biases:
            items = bias.paired(i)
            interval = mean_interval(items.after - items.before, items) or (None, None)
            before, after = items.mean(items.before), items.mean(items.after)
            moved.append(
                BiasMoved(candidate.name, bias.name, bias.unit, before, after, items.change, *interval)
            )
    return moved


def _battery(settings: MitigateSettings) -> Battery:
    """All shipped items for a bias; words in four templates each."""
    test = load_words(settings.bias)
    return Battery(test, tuple(template_contexts(test, 4)))
