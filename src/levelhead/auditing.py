"""START HERE: measure, locate, mitigate, verify, report. The whole story on one page.

    measure    every question that the model can answer (scoring/battery.py)
    locate     which attention heads carry the bias (studies/heads/study.py)
    mitigate   two ways out: close the worst heads, or project the best viable subspace away (studies/projections/candidates.py)
    verify     the same questions again, and what the change cost
    report     headline, page, recipes (report/)

Every result is stored as soon as it is there; a killed audit goes on and ends with the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from levelhead.edits.gates import removed
from levelhead.edits.sites import Variant
from levelhead.engine.progress import steps
from levelhead.measures.measurement import Measurement
from levelhead.measures.statistics import Resampling
from levelhead.mitigation.fitting import default_pairs
from levelhead.mitigation.mitigate import biased_heads
from levelhead.mitigation.recipe import Recipe, recipe_text
from levelhead.models.model import Model, load
from levelhead.probes.nli import nli_probe
from levelhead.probes.sentences import fluency_sentences, shipped_counter_sentences
from levelhead.probes.triples import load_triples
from levelhead.report.headline import headline, measured_rows, notebook_html
from levelhead.report.page import write_report
from levelhead.results.folder import Run, read_run
from levelhead.scoring.battery import Battery
from levelhead.studies.counteracts import CounteractsSettings, Edited, counteracts, open_counteracts
from levelhead.studies.heads.counter import arc_sheet
from levelhead.studies.heads.study import HeadsSettings, heads, prepare
from levelhead.studies.projections.candidates import best, candidates, settings_for
from levelhead.studies.projections.settings import variants_of

Row = dict[str, Any]
CLOZE_K = 5
LARGE = 50_000_000  # parameters; a quick audit of a larger model asks less, and says so


@dataclass(frozen=True)
class AuditSettings:
    """How much is asked."""

    bias: str = "gender"
    nli: str | None = None  # an NLI classifier fine-tuned from the model
    top: int = 3  # heads to close
    full: bool = False
    seed: int = 0

    def heads(self, large: bool) -> HeadsSettings:
        """The heads study; removing every head alone, the longest part, is left to the full audit."""
        if self.full:
            everything = ("scores", "ablation", "counter", "debias")
            return HeadsSettings(self.bias, per_word=8, experiments=everything, seed=self.seed)
        if large:
            return HeadsSettings(
                self.bias, experiments=("scores", "counter"), n_sentences=100, seed=self.seed
            )
        return HeadsSettings(self.bias, experiments=("scores", "counter"), seed=self.seed)

    def battery(self, model: Model, large: bool) -> Battery:
        """All probes, in the size that the time allows."""
        words = prepare(model, self.heads(large))
        every = 1 if self.full else 3 if large else 2
        return Battery(
            words.test,
            tuple(words.table.contexts),
            triples=load_triples().every(3 if large and not self.full else 1),
            probe=nli_probe(limit=None if self.full else (41, 8)),
            sentences=fluency_sentences()[::every],
            resampling=Resampling(seed=self.seed),
        )

    def screen(self, battery: Battery) -> Battery:
        """What candidates are chosen on: less than what the chosen one is verified on."""
        if self.full:
            return battery
        fewer = battery.contexts if len(battery.contexts) < 600 else battery.contexts[::4]
        return replace(
            battery, contexts=fewer, probe=nli_probe(limit=(25, 6)), sentences=battery.sentences[::3]
        )

    def starts(self, model: Model) -> int:
        """From how many layers token projections are tried beside the paper's settings."""
        if self.full:
            return model.layers
        return 0 if "nsp" in model.abilities else min(4, model.layers)

    def prompts(self, large: bool) -> CounteractsSettings:
        """CounterActs; fewer backgrounds for a large model."""
        return CounteractsSettings(seed=self.seed, per_background=1 if large and not self.full else None)


@dataclass(frozen=True)
class Audit:
    """What an audit found: the same numbers as in its run folder. In a notebook it shows itself."""

    folder: Path
    headline: str
    findings: tuple[str, ...]
    measurements: Mapping[str, Mapping[str, Mapping[str, Any]]] = field(
        repr=False
    )  # variant -> measure -> row
    report: Path | None = None

    def __getitem__(self, measure: str) -> Mapping[str, Any]:
        """A measure of the untouched model: audit["seat"]["value"]."""
        return self.measurements["base"][measure]

    def _repr_html_(self) -> str:
        return notebook_html(self.headline, self.findings, self.measurements)


@dataclass(frozen=True)
class _Subject:
    """A model under audit and the variants of it that are verified."""

    model: Model
    groups: tuple[str, ...]  # of the battery
    prefix: str = ""  # "nli " for the classifier that stands beside the model


def audit(name: str, folder: str | Path, settings: AuditSettings | None = None, **loading: Any) -> Audit:
    """Audit a model: `audit("lh:bert-mini", "runs/bert")`. loading: device, dtype ... as for `load`."""
    settings, folder = settings or AuditSettings(), Path(folder)
    model = load(name, **loading)
    twin = load(settings.nli, **loading) if settings.nli and "nli" not in model.abilities else None
    large = sum(p.numel() for p in model.hf.parameters()) > LARGE
    battery = settings.battery(model, large)
    subjects = _subjects(model, twin, battery)
    asked = {
        "study": "audit",
        "model": model.name,
        "abilities": sorted(model.abilities),
        "layers": model.layers,
        "heads": model.heads,
        "large": large,
        **asdict(settings),
    }
    hashes = {"weights": model.fingerprint, **battery.hashes()}
    if twin is not None:
        hashes["nli weights"] = twin.fingerprint
    with Run.open(folder, asked, hashes=hashes) as run, steps("Audit", 5) as advance:
        found = heads(model, settings.heads(large), folder / "heads")
        run.result(
            "measure/seat",
            lambda: [{**row, "study": "audit", "model": name} for row in found.results["seat"]],
        )
        _arcs(model, settings, run)
        advance(1)
        for subject in subjects:
            _measure(subject, battery, run)
        advance(1)
        plans = [_mitigate(subject, settings.screen(battery), settings, run) for subject in subjects]
        advance(1)
        for subject, plan in zip(subjects, plans, strict=True):
            _verify(subject, plan, battery, run)
        _prompts(model, plans[0], settings.prompts(large), run)
        advance(1)
        run.result("headline", lambda: headline(read_run(folder), found))
        advance(1)
    report = write_report(folder)
    return read_audit(folder, report)


def _subjects(model: Model, twin: Model | None, battery: Battery) -> list[_Subject]:
    everything = tuple(battery.groups)
    if twin is None:
        return [_Subject(model, everything)]
    return [
        _Subject(model, tuple(g for g in everything if g != "inference")),
        _Subject(twin, ("inference",), "nli "),
    ]


# ---- measure


def _measure(subject: _Subject, battery: Battery, run: Run) -> None:
    for group in subject.groups:  # "seat" is there already
        run.result(f"measure/{group}", partial(_base_rows, subject, battery, group))


def _base_rows(subject: _Subject, battery: Battery, group: str) -> list[Row]:
    return _asked(subject, battery, group, {"base": ()})["base"]


def _asked(
    subject: _Subject, battery: Battery, group: str, variants: dict[str, Variant]
) -> dict[str, list[Row]]:
    found = battery.groups[group](subject.model, list(variants.values()))
    return {
        name: [_row(subject.model, name, m) for m in row] for name, row in zip(variants, found, strict=True)
    }


def _row(model: Model, variant: str, measured: Measurement) -> Row:
    return {"study": "audit", "variant": variant, "model": model.name, **measured.to_json()}


# ---- locate


def _arcs(model: Model, settings: AuditSettings, run: Run) -> None:
    """Attention arcs of every head on three sentence pairs, for the report."""
    chosen = [s for s in shipped_counter_sentences(24, settings.seed) if s.attribute_first][:3]
    path = run.folder / "arcs.json"
    if settings.bias == "gender" and not path.exists():
        text = json.dumps({"sentences": arc_sheet(model, chosen)}, ensure_ascii=False)
        run.artifact("arcs.json", lambda path: path.write_text(text, encoding="utf-8"))


# ---- mitigate


def _mitigate(subject: _Subject, battery: Battery, settings: AuditSettings, run: Run) -> dict[str, Variant]:
    """The ways out, by name: the worst heads closed, and the best viable projection if one helps."""
    model, prefix = subject.model, subject.prefix
    starts = settings.starts(model)
    rows = run.result(f"{prefix}candidates", lambda: _judged(model, battery, starts))
    plans: dict[str, Variant] = {}
    told: list[Row] = []
    if not prefix:
        closed = biased_heads(run.folder / "heads", settings.top, model)
        shown = [f"{layer + 1}-{head + 1}" for layer, head in closed]
        name = f"without heads {', '.join(shown)}"
        plans[name] = removed(model, closed)
        recipe = Recipe(
            gates=dict.fromkeys(closed, 0.0), title=name, model=model.name, fingerprint=model.fingerprint
        )
        told.append(
            {
                "variant": name,
                "what": f"The {len(shown)} heads with the highest bias scores are removed.",
                "heads": shown,
                "recipe": recipe_text(recipe),
                "viable": None,
                "chosen": True,
            }
        )
    chosen = next((row for row in rows if row["chosen"]), None)
    if chosen is not None:
        setting = next(s for s in settings_for(model, starts) if s.name == chosen["variant"])
        plans[f"{prefix}{setting.name}"] = variants_of(model, [setting], default_pairs(model))[0]
        what = f"Directions that tell the groups apart are projected out of {model.name}."
        told.append(
            {
                "variant": f"{prefix}{setting.name}",
                "what": what,
                "heads": None,
                "recipe": chosen["recipe"],
                "viable": True,
                "chosen": True,
            }
        )
    run.result(f"{prefix}mitigate", lambda: told)
    return plans


def _judged(model: Model, battery: Battery, starts: int) -> Iterator[Row]:
    found = candidates(model, battery, starts)
    chosen = best(found)
    for candidate in found:
        yield {**candidate.row(model), "chosen": candidate is chosen}


# ---- verify


def _verify(subject: _Subject, plans: dict[str, Variant], battery: Battery, run: Run) -> None:
    """The same measures again for every way out, and the paired cost in fluency."""
    for group in subject.groups:
        keys = {name: f"verify/{name}/{group}" for name in plans}
        if all(key in run for key in keys.values()) or not plans:
            continue
        answers = _asked(subject, battery, group, plans)
        for name, key in keys.items():
            run.result(key, answers[name].copy)


def _prompts(model: Model, plans: dict[str, Variant], settings: CounteractsSettings, run: Run) -> None:
    """CounterActs, untouched and mitigated: does the mitigated model still change its mind?"""
    if not model.abilities & {"mlm", "causal"}:
        missing = Measurement.missing("margin", f"{model.name} predicts no words")
        run.result("measure/prompts", lambda: _row(model, "base", missing))
        return
    variants = {name: Edited(partial(_same, edits), name) for name, edits in plans.items()}
    with open_counteracts(run.folder / "prompts", [model], settings, variants) as prompts:
        rows = counteracts([model], settings, prompts, variants)
    for name in ("base", *plans):
        key = "measure/prompts" if name == "base" else f"verify/{name}/prompts"
        own = [{**row, "study": "audit"} for row in rows if _is_margin(row, name)]
        run.result(key, own.copy)


def _is_margin(row: Row, variant: str) -> bool:
    """The preference for the stereotypical group, all occupations, without any knowledge."""
    return (row["variant"], row["name"], row.get("k"), row.get("kind"), row.get("group")) == (
        variant,
        "margin",
        CLOZE_K,
        "base",
        "",
    )


def _same(edits: Variant, _: Model) -> Variant:
    return edits


# ---- reading back


def read_audit(folder: str | Path, report: Path | None = None) -> Audit:
    """An audit from its run folder."""
    run = read_run(folder)
    said = run.results["headline"][0]
    return Audit(Path(folder), said["text"], tuple(said["findings"]), measured_rows(run), report)
