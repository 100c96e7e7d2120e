"""Projective debiasing (SPEC B7, B8): 76 models on two tasks for the price of one and a bit, and a deeper
search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np

from levelhead.edits.sites import Variant
from levelhead.edits.subspace import describe
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import DEFAULT, Resampling
from levelhead.measures.viability import POINTS
from levelhead.mitigation.fitting import Form, baseline_pairs, default_pairs, fit_subspaces, form_of
from levelhead.mitigation.recipe import Fit, write_recipe
from levelhead.models.model import Model
from levelhead.probes.nli import AbilitySet, NliPair, NliProbe, ability_pairs, nli_probe
from levelhead.probes.pairs import InputPair, load_pairs
from levelhead.probes.triples import TripleSet, load_triples
from levelhead.results.folder import Run, text_hash
from levelhead.scoring import pairs as ask
from levelhead.studies.projections import tables as tables
from levelhead.studies.projections.settings import (
    BASELINE_PAIRS,
    Setting,
    depth_settings,
    paper_settings,
    variants_of,
)
from levelhead.studies.projections.tables import Outcome

Row = dict[str, Any]
CHUNK = 1_400  # inferences stored at a time: about ten seconds of work that a killed run can lose
SCREEN = (41, 8)  # occupations and contexts of the depth search; the best are then asked everything
FINALISTS = 5
_PAIRS = "pairs.tsv"  # of the classifier, beside the recipes that name it


@dataclass(frozen=True)
class Sweep:
    """What is asked of both models. pairs: what the classifier's subspaces are fitted on (a form or a
    file)."""

    triples: TripleSet = field(default_factory=load_triples)
    probe: NliProbe = field(default_factory=nli_probe)
    ability: AbilitySet = field(default_factory=ability_pairs)
    pairs: str = "frames"
    fit: Fit = "base"
    labels: str | None = None  # of the classifier's outputs, where its config does not say
    depth: bool = False
    resampling: Resampling = DEFAULT

    def settings(self, nsp: Model, nli: Model) -> Row:
        """What settings.json carries."""
        return {
            "study": "projections",
            "model": nsp.name,
            "nli_model": nli.name,
            "fit": self.fit,
            "depth": self.depth,
            "labels": self.labels,
            "triples": self.triples.name,
            "ability": self.ability.name,
            "occupations": self.probe.shape[0],
            "contexts": self.probe.shape[1],
            "words": [self.probe.feminine, self.probe.masculine],
            "seed": self.resampling.seed,
            "resamples": self.resampling.resamples,
            "pairs": self.pairs,
            "form": form_of(self.fitted_on(nsp)),
            "nli_form": form_of(self.fitted_on(nli)),
        }

    def hashes(self, nsp: Model, nli: Model) -> dict[str, str]:
        """Of the weights and of all data."""
        return {
            "model": nsp.fingerprint,
            "nli_model": nli.fingerprint,
            "triples": self.triples.fingerprint,
            "probe": self.probe.fingerprint,
            "ability": self.ability.fingerprint,
            "pairs": text_hash(map(repr, self.fitted_on(nsp))),
            "nli_pairs": text_hash(map(repr, self.fitted_on(nli))),
        }

    def fitted_on(self, model: Model) -> tuple[InputPair, ...]:
        """What the subspaces of a model are fitted on: the next-sentence model's always on shipped single
        sentences."""
        if "nsp" in model.abilities:
            return default_pairs(model)
        return (
            default_pairs(model, cast(Form, self.pairs))
            if self.pairs in get_args(Form)
            else load_pairs(self.pairs)
        )


@dataclass(frozen=True)
class SweepResult:
    """Everything a reader asks first; the tables are files of the run."""

    outcomes: list[Outcome]  # the 76, in Table 7's order
    correlation: Measurement  # of Strength with fairness
    observations: list[Row]
    fairest: Outcome | None  # viable, of the paper's 74
    deeper: list[Outcome]  # finalists of the depth search
    fairest_overall: Outcome | None


def sweep(nsp: Model, nli: Model, plan: Sweep, run: Run) -> SweepResult:
    """Base, sentence-debias baseline and the paper's 74 settings on a next-sentence model and on an NLI
    classifier.

    A killed sweep goes on where it was: next sentences, inferences in chunks and ability are stored one by
    one.
    """
    ask.nli_order(nli, plan.labels)  # refuse a classifier that cannot be asked before the work begins
    settings = paper_settings()
    run.result(
        "subspaces", lambda: [row for model in (nsp, nli) for row in _subspaces(model, plan.fitted_on(model))]
    )
    outcomes = _measure(nsp, nli, plan, run, _Settings("", settings))
    correlation = tables.strength_and_fairness(outcomes)
    observed = run.result("observations", lambda: tables.observations(outcomes))
    run.result("correlation", lambda: {**correlation.to_json(), "name": "strength and fairness"})
    deeper = _deeper(nsp, nli, plan, run, outcomes) if plan.depth else []
    _write(run, nli, plan, outcomes, deeper)
    fairest = tables.fairest_viable(outcomes)
    overall = tables.fairest_viable([*outcomes, *deeper])
    return SweepResult(outcomes, correlation, observed, fairest, deeper, overall)


# ---- asking


@dataclass(frozen=True)
class _Settings:
    """Settings that are asked together; the prefix tells their results apart in the run."""

    prefix: str
    settings: Sequence[Setting]


def _measure(nsp: Model, nli: Model, plan: Sweep, run: Run, asked: _Settings) -> list[Outcome]:
    """All measures of the settings, on both models."""
    next_key, nli_key = f"{asked.prefix}nsp", f"{asked.prefix}nli"
    chosen = list(asked.settings)

    def next_sentences() -> Iterator[Row]:
        variants = variants_of(nsp, chosen, plan.fitted_on(nsp), plan.fit)
        for setting, found in zip(
            chosen, ask.ask_nsp(nsp, plan.triples, variants, plan.resampling), strict=True
        ):
            yield from _rows(setting, nsp, found)

    rows = run.result(next_key, next_sentences)
    missing = nli_key not in run
    variants = variants_of(nli, chosen, plan.fitted_on(nli), plan.fit) if missing else []
    inferred = _labels(nli, plan, run, asked, variants) if missing else []

    def inferences() -> Iterator[Row]:
        found = [
            {
                **ask.nli_measures(plan.probe, fair, plan.resampling),
                "ability": ask.ability_measure(plan.ability, able),
            }
            for fair, able in inferred
        ]
        base = _base_ability(run, found)
        viable = ask.viability([each["ability"] for each in found], base)
        for setting, each, fine in zip(chosen, found, viable, strict=True):
            yield from ({**row, "viable": fine} for row in _rows(setting, nli, each))

    rows += run.result(nli_key, inferences)
    return [_outcome(setting, rows) for setting in chosen]


def _base_ability(run: Run, found: Sequence[Mapping[str, Measurement]]) -> Measurement:
    """Ability of the untouched model: stored by the 76, of which it is the first."""
    if "nli" not in run:
        return found[0]["ability"]
    stored = next(r for r in run.result("nli", list) if r["variant"] == "base" and r["name"] == "ability")
    return Measurement("ability", stored["value"], n=stored["n"], reason=stored["reason"])


def _labels(
    nli: Model, plan: Sweep, run: Run, asked: _Settings, variants: Sequence[Variant]
) -> list[tuple[ask.Labels, ask.Labels]]:
    """Predicted labels of the fairness probe and of the ability set for each setting, from stored chunks."""
    chunks = [
        (f"nli answers {first + 1}-{first + len(some)}", some) for first, some in _chunks(plan.probe.pairs)
    ]
    fair = [_stored(nli, plan, run, f"{asked.prefix}{key}", some, variants) for key, some in chunks]
    able = _stored(nli, plan, run, f"{asked.prefix}ability answers", plan.ability.pairs, variants)
    return list(zip(np.concatenate(fair, axis=1), able, strict=True))


def _chunks(pairs: Sequence[NliPair]) -> Iterator[tuple[int, Sequence[NliPair]]]:
    for first in range(0, len(pairs), CHUNK):
        yield first, pairs[first : first + CHUNK]


def _stored(
    nli: Model, plan: Sweep, run: Run, key: str, pairs: Sequence[Any], variants: Sequence[Variant]
) -> ask.Labels:
    """Labels [variant, pair], one digit each in the run: 0 entailment, 1 neutral, 2 contradiction."""

    def compute() -> list[Row]:
        found = ask.nli_labels(nli, pairs, variants, plan.labels)
        return [{"labels": "".join(map(str, labels))} for labels in found.tolist()]

    rows = run.result(key, compute)
    return np.asarray([[int(label) for label in row["labels"]] for row in rows], np.int64)


# ---- deeper than the paper


def _deeper(nsp: Model, nli: Model, plan: Sweep, run: Run, outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Token projections from any layer on: screened on a part of the probe, the fairest viable asked
    everything."""
    probe = plan.probe
    part = nli_probe(probe.feminine, probe.masculine, probe.occupations, probe.contexts, limit=SCREEN)
    screened: list[Outcome] = []
    for first in range(nli.layers):
        settings = depth_settings(nli.layers, first)
        rows = run.result(f"depth screen {first + 1}", lambda s=settings: _screen(nli, plan, part, s))  # type: ignore[misc]
        screened += [_outcome(setting, rows) for setting in settings]
    base = outcomes[0].values["ability"] or 0.0
    judged = [Outcome(o.setting, o.values, o["ability"] >= base - POINTS - 1e-9) for o in screened]
    run.artifact("tables/depth.csv", tables.write_csv(_depth_rows(judged)))
    able = [o for o in judged if o.viable]
    best = sorted(able, key=lambda o: (-o["fairness"], -o["ability"]))[:FINALISTS]
    if not best or nsp.layers != nli.layers:
        return best
    return _measure(nsp, nli, plan, run, _Settings("depth ", [o.setting for o in best]))


def _screen(nli: Model, plan: Sweep, part: NliProbe, settings: Sequence[Setting]) -> Iterator[Row]:
    variants = variants_of(nli, settings, plan.fitted_on(nli), plan.fit)
    fair = ask.ask_nli(nli, part, variants, plan.labels, plan.resampling)
    able = ask.ask_ability(nli, plan.ability, variants, plan.labels)
    for setting, one, other in zip(settings, fair, able, strict=True):
        yield from _rows(setting, nli, {**one, "ability": other})


def _depth_rows(judged: Sequence[Outcome]) -> list[Row]:
    return [
        {
            "setting": o.setting.name,
            "first_layer": o.setting.steps[0].layer + 1,
            "dimensions": o.setting.steps[0].dimensions,
            "soft": o.setting.steps[0].soft,
            **{name: o.values.get(name) for name in tables.NLI_MEASURES},
            "viable": o.viable,
        }
        for o in judged
    ]


# ---- rows and files


def _subspaces(model: Model, pairs: Sequence[InputPair]) -> Iterator[Row]:
    """What the paper's locations were fitted on, and how much of the difference each direction carries."""
    sites = dict.fromkeys(step.site(model) for setting in paper_settings() for step in setting.steps)
    for site, found in fit_subspaces(model, pairs, list(sites))[0].items():
        shares = found.explained if found.explained.dim() == 1 else found.explained.mean(dim=0)
        yield {
            "study": "projections",
            "model": model.name,
            "location": describe(site),
            "form": form_of(pairs),
            "pairs": found.pairs,
            "vectors": found.vectors,
            "skipped": found.skipped,
            "explained": shares[:4].tolist(),
        }


def _rows(setting: Setting, model: Model, found: Mapping[str, Measurement]) -> Iterator[Row]:
    cell = {"level": setting.level_name(model.layers), "code": setting.code, "model": model.name}
    for measured in found.values():
        yield {"study": "projections", "variant": setting.name, **cell, **measured.to_json()}


def _outcome(setting: Setting, rows: Sequence[Row]) -> Outcome:
    own = [row for row in rows if row["variant"] == setting.name]
    viable = next((row["viable"] for row in own if "viable" in row), None)
    return Outcome(setting, {row["name"]: row["value"] for row in own}, viable)


def _write(run: Run, nli: Model, plan: Sweep, outcomes: Sequence[Outcome], deeper: Sequence[Outcome]) -> None:
    written = {
        "table5": tables.table5(outcomes, nli.layers),
        "table6": tables.table6(outcomes, nli.layers),
        "table7": tables.table7([*outcomes, *deeper], nli.layers),
        "frontier": tables.frontier([*outcomes, *deeper], nli.layers),
        "observations": tables.observations(outcomes),
    }
    for name, rows in written.items():
        run.artifact(f"tables/{name}.csv", tables.write_csv(rows))
    run.artifact(f"recipes/{BASELINE_PAIRS}", _pairs_writer(baseline_pairs()))
    run.artifact(f"recipes/{_PAIRS}", _pairs_writer(plan.fitted_on(nli)))
    changed = [o.setting for o in (*outcomes, *deeper) if o.setting.steps]
    for number, setting in enumerate(changed, start=1):
        recipe = setting.recipe(nli, plan.fit, _PAIRS)
        run.artifact(f"recipes/{_file_name(number, setting)}", lambda path, r=recipe: write_recipe(path, r))  # type: ignore[misc]


def _pairs_writer(pairs: Sequence[InputPair]) -> Callable[[Path], None]:
    """The pairs as the file that a recipe beside it names."""
    lines = [
        "\t".join(text for form in (p.feminine, p.masculine) for text in form if text) + "\n" for p in pairs
    ]

    def write(path: Path) -> None:
        path.write_text("".join(lines), encoding="utf-8")

    return write


def _file_name(number: int, setting: Setting) -> str:
    kept = "".join(c if c.isalnum() else " " for c in setting.name)
    return f"{number:02d}-{'-'.join(kept.split())}.toml"
