"""Projective debiasing: 76 models on two tasks for the price of one and a bit, and a deeper search
(docs/method/projections.md, Sweep).

inputs     the data of the settings, loaded; the run folder that belongs to it
measures   all of all settings, on both models
deeper     token projections from any layer on
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self, Unpack, cast, get_args

import numpy as np

from levelhead.edits.subspace import describe
from levelhead.engine.effort import speed_of
from levelhead.measures.fairness import viable
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling
from levelhead.mitigation.fitting import Form, baseline_pairs, default_pairs, fit_subspaces, form_of
from levelhead.mitigation.recipe import Fit, recipe_file, recipe_text
from levelhead.models.model import Model, load
from levelhead.models.placement import LoadOptions
from levelhead.probes.files import UnusableItem
from levelhead.probes.nli import (
    AbilitySet,
    LabeledPair,
    NliPair,
    NliProbe,
    ability_pairs,
    load_nli_probe,
    nli_probe,
)
from levelhead.probes.pairs import InputPair, pairs_text, read_pairs
from levelhead.probes.triples import TripleSet, load_triples
from levelhead.progress import Plan, announced, duration, tokens_in
from levelhead.runs.common import BASE
from levelhead.runs.files import TextFile
from levelhead.runs.folder import Run, text_hash
from levelhead.runs.study import RECIPES, Key, Many, Parts, stored_as
from levelhead.scoring import pairs as pair_scores
from levelhead.scoring.placed import keeping_long_work, loaded_as, note_places
from levelhead.studies.projections import (
    DEPTH_TABLE,
    FRONTIER,
    OBSERVED,
    PROBE_HASH,
    TABLE5,
    TABLE6,
    TABLE7,
    Projections,
    tables,
)
from levelhead.studies.projections.grid import (
    BASELINE_PAIRS,
    Setting,
    depth_settings,
    paper_settings,
    passes,
    variants_of,
)
from levelhead.studies.projections.records import DepthLine, PredictedLabels, SettingMeasured, SubspaceFit
from levelhead.studies.projections.settings import ProjectionsSettings, ProjectionsStored
from levelhead.studies.projections.tables import Outcome

CHUNK = 1_400  # inferences stored at a time: about ten seconds of work that a killed run can lose
SCREEN = (41, 8)  # occupations and contexts of the depth search; the best are then evaluated in full
FINALISTS = 5
_ABILITY = "ability"  # the measure that viability is judged by
_PAIRS = "pairs.tsv"  # of the classifier, beside the recipes that name it


Open = Run[ProjectionsStored]


def projections(
    nsp: Model, settings: ProjectionsSettings | None, folder: str | Path, **loading: Unpack[LoadOptions]
) -> Projections:
    """Base, sentence-debias baseline and the paper's 74 settings on a next-sentence model and on an NLI
    classifier, which the settings name.

    A killed run goes on where it was: next sentences, inferences in chunks and ability are stored one by
    one.
    """
    settings = settings or ProjectionsSettings()  # which says that a classifier is missing
    inputs = Inputs.of(settings)
    given: Any = settings.nli
    nli = given if isinstance(given, Model) else load(given, **loading)
    with inputs.open(folder, nsp, nli) as run:
        pair_scores.nli_order(
            nli, settings.labels
        )  # refuse a classifier that cannot be asked before the work begins
        with (
            keeping_long_work(run, [nsp, nli]),
            announced("Projections", lambda: _times(nsp, nli, inputs, run)),
        ):
            run.results(
                Projections.subspaces,
                lambda: [fit for model in (nsp, nli) for fit in _subspaces(model, inputs.fitted_on(model))],
            )
            outcomes = _measure(nsp, nli, inputs, run, _PAPER)
            run.results(Projections.observations, lambda: tables.observations(outcomes))
            run.result(Projections.correlation, lambda: tables.strength_and_fairness(outcomes))
            deeper = _deeper(nsp, nli, inputs, run, outcomes[0]) if settings.depth else []
        note_places(run, [nsp, nli])
        everything = [*outcomes, *deeper]
        run.file(TABLE5, tables.table5(outcomes))
        run.file(TABLE6, tables.table6(outcomes))
        run.file(TABLE7, [o.line for o in everything])
        run.file(FRONTIER, tables.frontier(everything))
        run.file(OBSERVED, tables.observations(outcomes))
        # one recipe per setting that changes something, and beside them the pairs that they name
        texts = {BASELINE_PAIRS: pairs_text(baseline_pairs()), _PAIRS: pairs_text(inputs.fitted_on(nli))}
        changed = [o.setting for o in everything if o.setting.steps]
        for number, setting in enumerate(changed, start=1):
            texts[recipe_file(number, setting.name)] = recipe_text(setting.recipe(nli, inputs.fit, _PAIRS))
        for name, text in texts.items():
            run.file(TextFile(f"{RECIPES}/{name}"), text)
        return Projections(run.data())


# ---- inputs


@dataclass(frozen=True)
class Inputs:
    """The settings with their data, loaded."""

    settings: ProjectionsSettings
    triples: TripleSet
    probe: NliProbe
    ability: AbilitySet

    @classmethod
    def of(cls, settings: ProjectionsSettings) -> Self:
        """Read the files that the settings name."""
        triples, probe, ability = settings.triples, settings.probe, settings.ability
        if not isinstance(triples, TripleSet):
            triples = load_triples(triples, strict=settings.strict)
        if not isinstance(probe, NliProbe):
            limit = settings.limit
            probe = nli_probe(limit=limit) if probe is None else load_nli_probe(probe, limit)
        if not isinstance(ability, AbilitySet):
            ability = ability_pairs(ability, strict=settings.strict)
        return cls(settings, triples, probe, ability)

    @property
    def fit(self) -> Fit:
        """On which model each projection is fitted."""
        return cast(Fit, self.settings.fit)

    @property
    def resampling(self) -> Resampling:
        """How intervals are drawn."""
        return Resampling(self.settings.resamples, self.settings.seed)

    @property
    def unusable(self) -> tuple[UnusableItem, ...]:
        """Items of files that are left out; forms of pairs that ship have none of them."""
        own = self.settings.pairs not in get_args(Form)
        lines = read_pairs(self.settings.pairs, strict=self.settings.strict).unusable if own else ()
        return (*self.triples.unusable, *self.ability.unusable, *lines)

    def fitted_on(self, model: Model) -> tuple[InputPair, ...]:
        """What the subspaces of a model are fitted on: the next-sentence model's always on shipped single
        sentences."""
        if "nsp" in model.abilities:
            return default_pairs(model)
        pairs = self.settings.pairs
        if pairs in get_args(Form):
            return default_pairs(model, cast(Form, pairs))
        return read_pairs(pairs, strict=self.settings.strict).pairs

    def open(self, folder: str | Path, nsp: Model, nli: Model) -> Open:
        """The run folder; one begun with other models, data or settings is refused."""
        data = {name: getattr(self.settings, name) for name in ("triples", "ability", "probe")}
        named = {
            name: None if value is None else str(value)
            for name, value in data.items()
            if isinstance(value, str | Path | None)
        }
        stored = stored_as(
            ProjectionsStored,
            self.settings,
            study=Projections.name,
            models=(nsp.name,),
            nli=nli.name,
            **{name: named.get(name) for name in data},
            in_memory=tuple(name for name in data if name not in named),
            loading=loaded_as([nsp, nli]),
            triples_name=self.triples.name,
            ability_name=self.ability.name,
            occupations=self.probe.shape[0],
            contexts=self.probe.shape[1],
            words=(self.probe.feminine, self.probe.masculine),
            form=form_of(self.fitted_on(nsp)),
            nli_form=form_of(self.fitted_on(nli)),
        )
        hashes = {
            "model": nsp.fingerprint,
            "nli_model": nli.fingerprint,
            **nsp.facts(),
            **nli.facts("nli_model"),
            "triples": self.triples.fingerprint,
            PROBE_HASH: self.probe.fingerprint,
            "ability": self.ability.fingerprint,
            "pairs": text_hash(map(repr, self.fitted_on(nsp))),
            "nli_pairs": text_hash(map(repr, self.fitted_on(nli))),
        }
        return Run.open(folder, Projections, stored, hashes=hashes)

    def screened(self) -> NliProbe:
        """The part of the pairs that the depth search is screened on."""
        probe = self.probe
        return nli_probe(probe.feminine, probe.masculine, probe.occupations, probe.contexts, limit=SCREEN)


def _times(nsp: Model, nli: Model, inputs: Inputs, run: Open) -> Plan:
    """What is not there yet, and which option makes it shorter."""
    search = inputs.settings.depth and Projections.depth_inferences not in run
    if Projections.inferences in run and not search:
        return Plan()
    both = [
        each for pair in inputs.triples.pairs for each in (pair.original, pair.swapped) if each is not None
    ]
    kinds = ("stereotype", "anti", "unrelated")
    sentences = tokens_in(f"{each.context} {getattr(each, kind)}" for each in both for kind in kinds)
    fair, few, ordinary = (
        tokens_in(f"{pair.premise} {pair.hypothesis}" for pair in some)
        for some in (inputs.probe.pairs, inputs.screened().pairs, inputs.ability.pairs)
    )
    of_baseline = _pair_tokens(baseline_pairs())
    # what subspaces are fitted on is read once to describe them, and once for the settings
    of_nsp, of_nli = (
        _pair_tokens(inputs.fitted_on(model))
        * (1 + (1 if inputs.fit == "base" else passes(model, _PAPER.settings)))
        + of_baseline
        for model in (nsp, nli)
    )
    first, speed = Plan(), speed_of(nli)
    if Projections.next_sentences not in run:
        first = speed_of(nsp).plan(estimated=passes(nsp, _PAPER.settings) * sentences + of_nsp)
    of_paper, fitting = passes(nli, _PAPER.settings), of_nli
    if Projections.inferences in run:
        of_paper = fitting = 0.0
    paper, fewer = (
        first + speed.plan(estimated=of_paper * (some + ordinary) + fitting) for some in (fair, few)
    )
    if search:
        layers = [n for n in range(nli.layers) if Projections.depth_screen.of(str(n + 1)) not in run]
        screens = sum(passes(nli, depth_settings(nli.layers, layer)) for layer in layers)
        finalists = FINALISTS if nsp.layers == nli.layers else 0
        deeper = screens * (few + ordinary) + finalists * (fair + ordinary)
        shorter = f"without --depth about {duration(paper.seconds)}"
        return speed.plan(estimated=deeper, shorter=shorter) + paper
    if fewer.seconds >= paper.seconds:
        return paper
    n, m = SCREEN
    shorter = f"--limit {n} {m}, fewer occupations and contexts, takes about {duration(fewer.seconds)}"
    return replace(paper, shorter=shorter)


def _pair_tokens(pairs: Sequence[InputPair]) -> float:
    return tokens_in(
        " ".join(filter(None, side)) for pair in pairs for side in (pair.feminine, pair.masculine)
    )


# ---- measures


@dataclass(frozen=True)
class _Part:
    """Settings that are evaluated together, and where the run keeps their results."""

    settings: Sequence[Setting]
    next_sentences: Many[SettingMeasured]
    inferences: Many[SettingMeasured]
    inference_answers: Parts[PredictedLabels]
    ability_answers: Many[PredictedLabels]


_PAPER = _Part(
    paper_settings(),
    Projections.next_sentences,
    Projections.inferences,
    Projections.inference_answers,
    Projections.ability_answers,
)


def _measure(nsp: Model, nli: Model, inputs: Inputs, run: Open, part: _Part) -> list[Outcome]:
    """All measures of the settings, on both models."""
    follows = run.results(part.next_sentences, lambda: _next_sentences(nsp, inputs, part.settings))
    holds = run.results(part.inferences, lambda: _inferences(nli, inputs, run, part))
    return [Outcome.of(setting, nli.layers, (*follows, *holds)) for setting in part.settings]


def _next_sentences(nsp: Model, inputs: Inputs, settings: Sequence[Setting]) -> Iterator[SettingMeasured]:
    variants = variants_of(nsp, settings, inputs.fitted_on(nsp), inputs.fit)
    measured = pair_scores.ask_nsp(nsp, inputs.triples, variants, inputs.resampling)
    for setting, measurements in zip(settings, measured, strict=True):
        yield from _records(setting, nsp, measurements)


def _inferences(nli: Model, inputs: Inputs, run: Open, part: _Part) -> Iterator[SettingMeasured]:
    """The classifier's measures; its answers are stored chunk by chunk before."""
    variants = variants_of(nli, part.settings, inputs.fitted_on(nli), inputs.fit)

    def labels(
        key: Key[PredictedLabels] | Many[PredictedLabels], pairs: Sequence[NliPair | LabeledPair]
    ) -> pair_scores.Labels:
        """Labels [variant, pair], computed once and then read from the run."""

        def compute() -> list[PredictedLabels]:
            of_variants = pair_scores.nli_labels(nli, pairs, variants, inputs.settings.labels).tolist()
            return [PredictedLabels("".join(map(str, of_variant))) for of_variant in of_variants]

        return np.asarray([list(map(int, each.labels)) for each in run.results(key, compute)], np.int64)

    chunks = []
    for first in range(0, len(inputs.probe.pairs), CHUNK):
        some = inputs.probe.pairs[first : first + CHUNK]
        chunks.append(labels(part.inference_answers.of(f"{first + 1}-{first + len(some)}"), some))
    fair, able = np.concatenate(chunks, axis=1), labels(part.ability_answers, inputs.ability.pairs)
    abilities = [pair_scores.ability_measure(inputs.ability, of_variant) for of_variant in able]
    # the unmodified model is the first of the 76, whose measures are stored before deeper settings begin
    stored = (m.measurement for m in run.stored(Projections.inferences) if m.variant == BASE)
    base = next((m for m in stored if m.name == _ABILITY), abilities[0])
    for setting, of_variant, ability in zip(part.settings, fair, abilities, strict=True):
        measurements = {
            **pair_scores.nli_measures(inputs.probe, of_variant, inputs.resampling),
            _ABILITY: ability,
        }
        yield from _records(setting, nli, measurements, viable(ability.value, base.value))


# ---- deeper than the paper


def _deeper(nsp: Model, nli: Model, inputs: Inputs, run: Open, base: Outcome) -> list[Outcome]:
    """Token projections from any layer on: screened on a part of the probe, the fairest viable
    evaluated in full."""
    some, screened = inputs.screened(), list[Outcome]()
    for first in range(nli.layers):
        settings = depth_settings(nli.layers, first)
        records = run.results(
            Projections.depth_screen.of(str(first + 1)), partial(_screen, nli, inputs, some, settings)
        )
        screened += [Outcome.of(setting, nli.layers, records) for setting in settings]
    judged = [
        replace(o, line=replace(o.line, viable=viable(o.line.ability, base.line.ability))) for o in screened
    ]
    depth_lines = [
        DepthLine(
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
        for step, line in ((each.setting.steps[0], each.line) for each in judged)
    ]
    run.file(DEPTH_TABLE, depth_lines)
    fair = [o for o in judged if o.line.viable]  # by falling fairness, then by falling ability
    best = sorted(fair, key=lambda o: (-(o.line.fairness or 0.0), -(o.line.ability or 0.0)))[:FINALISTS]
    if not best or nsp.layers != nli.layers:
        return best
    part = _Part(
        [o.setting for o in best],
        Projections.depth_next_sentences,
        Projections.depth_inferences,
        Projections.depth_inference_answers,
        Projections.depth_ability_answers,
    )
    return _measure(nsp, nli, inputs, run, part)


def _screen(
    nli: Model, inputs: Inputs, some: NliProbe, settings: Sequence[Setting]
) -> Iterator[SettingMeasured]:
    variants, labels = variants_of(nli, settings, inputs.fitted_on(nli), inputs.fit), inputs.settings.labels
    fair = pair_scores.ask_nli(nli, some, variants, labels, inputs.resampling)
    able = pair_scores.ask_ability(nli, inputs.ability, variants, labels)
    for setting, measurements, ability in zip(settings, fair, able, strict=True):
        yield from _records(setting, nli, {**measurements, _ABILITY: ability})


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
