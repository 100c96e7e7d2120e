"""Projective debiasing: 76 models on two tasks for the price of one and a bit, and a deeper search
(docs/method.md, Sweep)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from levelhead.edits.sites import Variant
from levelhead.edits.subspace import describe
from levelhead.inference.fairest import fairest_viable
from levelhead.measures.measurement import Measurement
from levelhead.measures.viability import viable
from levelhead.mitigation.fitting import baseline_pairs, fit_subspaces, form_of
from levelhead.mitigation.recipe import recipe_file, recipe_text
from levelhead.models.model import Model
from levelhead.probes.nli import LabeledPair, NliPair, NliProbe, nli_probe
from levelhead.probes.pairs import InputPair, pairs_text
from levelhead.results import layout
from levelhead.results.folder import Run
from levelhead.results.keys import Key, KeyFamily, TextFile
from levelhead.results.records.common import BASE
from levelhead.results.records.projections import (
    DepthLine,
    Observation,
    PredictedLabels,
    SettingMeasured,
    SubspaceFit,
    SweepSummary,
    Table7Line,
)
from levelhead.results.settings import SweepRunSettings
from levelhead.scoring import pairs as ask
from levelhead.scoring.placed import keeping_long_work, note_places
from levelhead.studies.projections import tables
from levelhead.studies.projections.plan import Sweep
from levelhead.studies.projections.settings import (
    BASELINE_PAIRS,
    Setting,
    depth_settings,
    paper_settings,
    variants_of,
)
from levelhead.studies.projections.tables import Outcome

CHUNK = 1_400  # inferences stored at a time: about ten seconds of work that a killed run can lose
SCREEN = (41, 8)  # occupations and contexts of the depth search; the best are then asked everything
FINALISTS = 5
_ABILITY = "ability"  # the measure that viability is judged by
_PAIRS = "pairs.tsv"  # of the classifier, beside the recipes that name it


@dataclass(frozen=True)
class SweepResult:
    """What a sweep measured, in short; the tables are files of the run."""

    outcomes: list[Outcome]  # the 76, in the order of the paper's Table 7
    correlation: Measurement  # of Strength with fairness
    observations: tuple[Observation, ...]
    fairest: Table7Line | None  # viable, of the paper's 74
    deeper: list[Outcome]  # finalists of the depth search
    fairest_overall: Table7Line | None

    def summary(self, folder: Path) -> SweepSummary:
        """The same as plain records, with the folder that holds all numbers."""
        return SweepSummary(
            run=str(folder),
            settings=tuple(o.line for o in self.outcomes),
            correlation=self.correlation,
            observations=self.observations,
            fairest_viable=self.fairest,
            depth=tuple(o.line for o in self.deeper),
            fairest_viable_overall=self.fairest_overall,
        )


def sweep(nsp: Model, nli: Model, plan: Sweep, run: Run[SweepRunSettings]) -> SweepResult:
    """Base, sentence-debias baseline and the paper's 74 settings on a next-sentence model and on an NLI
    classifier; `plan.open(folder, nsp, nli)` gives the run.

    A killed sweep goes on where it was: next sentences, inferences in chunks and ability are stored one by
    one.
    """
    ask.nli_order(nli, plan.labels)  # refuse a classifier that cannot be asked before the work begins
    with keeping_long_work(run, [nsp, nli]):
        run.results(
            layout.SUBSPACES,
            lambda: [fit for model in (nsp, nli) for fit in _subspaces(model, plan.fitted_on(model))],
        )
        outcomes = _measure(nsp, nli, plan, run, _paper_part())
        observed = run.results(layout.OBSERVATIONS, lambda: tables.observations(outcomes))
        correlation = run.result(layout.CORRELATION, lambda: tables.strength_and_fairness(outcomes))
        deeper = _deeper(nsp, nli, plan, run, outcomes[0]) if plan.depth else []
    note_places(run, [nsp, nli])
    _write_tables(run, outcomes, deeper)
    _write_recipes(run, nli, plan, [o.setting for o in (*outcomes, *deeper)])
    fairest = fairest_viable([o.line for o in outcomes])
    overall = fairest_viable([o.line for o in (*outcomes, *deeper)])
    return SweepResult(outcomes, correlation, observed, fairest, deeper, overall)


# ---- asking


@dataclass(frozen=True)
class _Part:
    """Settings that are asked together, and where the run keeps their results."""

    settings: Sequence[Setting]
    next_sentences: Key[SettingMeasured]
    inferences: Key[SettingMeasured]
    inference_answers: KeyFamily[PredictedLabels]
    ability_answers: Key[PredictedLabels]


def _paper_part() -> _Part:
    return _Part(
        paper_settings(),
        layout.NEXT_SENTENCES,
        layout.INFERENCES,
        layout.INFERENCE_ANSWERS,
        layout.ABILITY_ANSWERS,
    )


def _depth_part(settings: Sequence[Setting]) -> _Part:
    return _Part(
        settings,
        layout.DEPTH_NEXT_SENTENCES,
        layout.DEPTH_INFERENCES,
        layout.DEPTH_INFERENCE_ANSWERS,
        layout.DEPTH_ABILITY_ANSWERS,
    )


def _measure(nsp: Model, nli: Model, plan: Sweep, run: Run[SweepRunSettings], part: _Part) -> list[Outcome]:
    """All measures of the settings, on both models."""
    follows = run.results(part.next_sentences, lambda: _next_sentences(nsp, plan, part.settings))
    holds = run.results(part.inferences, lambda: _inferences(nli, plan, run, part))
    return [Outcome.of(setting, nli.layers, (*follows, *holds)) for setting in part.settings]


def _next_sentences(nsp: Model, plan: Sweep, settings: Sequence[Setting]) -> Iterator[SettingMeasured]:
    variants = variants_of(nsp, settings, plan.fitted_on(nsp), plan.fit)
    measured = ask.ask_nsp(nsp, plan.triples, variants, plan.resampling)
    for setting, measurements in zip(settings, measured, strict=True):
        yield from _records(setting, nsp, measurements)


def _inferences(
    nli: Model, plan: Sweep, run: Run[SweepRunSettings], part: _Part
) -> Iterator[SettingMeasured]:
    """The classifier's measures; its answers are stored chunk by chunk before."""
    variants = variants_of(nli, part.settings, plan.fitted_on(nli), plan.fit)
    fair, able = _labels(nli, plan, run, part, variants)
    abilities = [ask.ability_measure(plan.ability, labels) for labels in able]
    verdicts = ask.viability(abilities, _base_ability(run) or abilities[0])
    for setting, labels, ability, verdict in zip(part.settings, fair, abilities, verdicts, strict=True):
        measurements = {**ask.nli_measures(plan.probe, labels, plan.resampling), _ABILITY: ability}
        yield from _records(setting, nli, measurements, verdict)


def _base_ability(run: Run[SweepRunSettings]) -> Measurement | None:
    """Ability of the unmodified model, once the 76 are stored; it is the first of them."""
    measured = (m.measurement for m in run.stored(layout.INFERENCES) if m.variant == BASE)
    return next((m for m in measured if m.name == _ABILITY), None)


def _labels(
    nli: Model, plan: Sweep, run: Run[SweepRunSettings], part: _Part, variants: Sequence[Variant]
) -> tuple[ask.Labels, ask.Labels]:
    """Predicted labels [setting, pair] of the fairness probe and of the ability set, from stored chunks."""
    fair = [
        _stored(nli, plan, run, part.inference_answers.of(f"{first + 1}-{first + len(some)}"), some, variants)
        for first, some in _chunks(plan.probe.pairs)
    ]
    able = _stored(nli, plan, run, part.ability_answers, plan.ability.pairs, variants)
    return np.concatenate(fair, axis=1), able


def _chunks(pairs: Sequence[NliPair]) -> Iterator[tuple[int, Sequence[NliPair]]]:
    for first in range(0, len(pairs), CHUNK):
        yield first, pairs[first : first + CHUNK]


def _stored(
    nli: Model,
    plan: Sweep,
    run: Run[SweepRunSettings],
    key: Key[PredictedLabels],
    pairs: Sequence[NliPair | LabeledPair],
    variants: Sequence[Variant],
) -> ask.Labels:
    """Labels [variant, pair], asked once and then read from the run."""

    def compute() -> list[PredictedLabels]:
        labels = ask.nli_labels(nli, pairs, variants, plan.labels)
        return [PredictedLabels("".join(map(str, of_variant))) for of_variant in labels.tolist()]

    return np.asarray(
        [[int(digit) for digit in stored.labels] for stored in run.results(key, compute)], np.int64
    )


# ---- deeper than the paper


def _deeper(nsp: Model, nli: Model, plan: Sweep, run: Run[SweepRunSettings], base: Outcome) -> list[Outcome]:
    """Token projections from any layer on: screened on a part of the probe, the fairest viable asked
    everything."""
    probe = plan.probe
    part = nli_probe(probe.feminine, probe.masculine, probe.occupations, probe.contexts, limit=SCREEN)
    screened: list[Outcome] = []
    for first in range(nli.layers):
        settings = depth_settings(nli.layers, first)
        records = run.results(
            layout.DEPTH_SCREEN.of(str(first + 1)), partial(_screen, nli, plan, part, settings)
        )
        screened += [Outcome.of(setting, nli.layers, records) for setting in settings]
    judged = [o.judged(viable(o.line.ability, base.line.ability)) for o in screened]
    run.file(layout.DEPTH_TABLE, [_depth_line(o) for o in judged])
    best = tables.fairest_first([o for o in judged if o.line.viable])[:FINALISTS]
    if not best or nsp.layers != nli.layers:
        return best
    return _measure(nsp, nli, plan, run, _depth_part([o.setting for o in best]))


def _screen(
    nli: Model, plan: Sweep, part: NliProbe, settings: Sequence[Setting]
) -> Iterator[SettingMeasured]:
    variants = variants_of(nli, settings, plan.fitted_on(nli), plan.fit)
    fair = ask.ask_nli(nli, part, variants, plan.labels, plan.resampling)
    able = ask.ask_ability(nli, plan.ability, variants, plan.labels)
    for setting, measurements, ability in zip(settings, fair, able, strict=True):
        yield from _records(setting, nli, {**measurements, _ABILITY: ability})


def _depth_line(outcome: Outcome) -> DepthLine:
    step, line = outcome.setting.steps[0], outcome.line
    return DepthLine(
        setting=line.setting,
        first_layer=step.layer + 1,
        dimensions=step.dimensions,
        soft=step.soft,
        parity=line.parity,
        strict_parity=line.strict_parity,
        accuracy=line.accuracy,
        fairness=line.fairness,
        ability=line.ability,
        viable=line.viable,
    )


# ---- records and files


def _subspaces(model: Model, pairs: Sequence[InputPair]) -> Iterator[SubspaceFit]:
    """What the paper's locations were fitted on, and how much of the difference each direction carries."""
    sites = dict.fromkeys(step.site(model) for setting in paper_settings() for step in setting.steps)
    for site, subspace in fit_subspaces(model, pairs, list(sites))[0].items():
        shares = subspace.explained if subspace.explained.dim() == 1 else subspace.explained.mean(dim=0)
        yield SubspaceFit(
            model=model.name,
            location=describe(site),
            form=form_of(pairs),
            pairs=subspace.pairs,
            vectors=subspace.vectors,
            skipped=subspace.skipped,
            explained=tuple(shares[:4].tolist()),
        )


def _records(
    setting: Setting, model: Model, measurements: Mapping[str, Measurement], verdict: bool | None = None
) -> Iterator[SettingMeasured]:
    level = setting.level_name(model.layers)
    for measurement in measurements.values():
        yield SettingMeasured(setting.name, level, setting.code, model.name, measurement, verdict)


def _write_tables(run: Run[SweepRunSettings], outcomes: list[Outcome], deeper: list[Outcome]) -> None:
    everything = [*outcomes, *deeper]
    run.file(layout.TABLE5, tables.table5(outcomes))
    run.file(layout.TABLE6, tables.table6(outcomes))
    run.file(layout.TABLE7, [o.line for o in everything])
    run.file(layout.FRONTIER, tables.frontier(everything))
    run.file(layout.OBSERVED, tables.observations(outcomes))


def _write_recipes(run: Run[SweepRunSettings], nli: Model, plan: Sweep, settings: Sequence[Setting]) -> None:
    """One recipe a setting that changes something, and beside them the pairs that they name."""
    texts = {BASELINE_PAIRS: pairs_text(baseline_pairs()), _PAIRS: pairs_text(plan.fitted_on(nli))}
    changed = [setting for setting in settings if setting.steps]
    for number, setting in enumerate(changed, start=1):
        texts[recipe_file(number, setting.name)] = recipe_text(setting.recipe(nli, plan.fit, _PAIRS))
    for name, text in texts.items():
        run.file(TextFile(f"{layout.RECIPES}/{name}"), text)
