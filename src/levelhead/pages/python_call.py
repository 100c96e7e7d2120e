"""The Python call that makes a run again, from its settings; `...` stands for what was made in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from levelhead.edits.head import Head
from levelhead.results.asked import REQUIRED, Argument, InPython, Option
from levelhead.results.presets import AuditSizes
from levelhead.results.settings import (
    AtlasRunSettings,
    AuditRunSettings,
    BenchmarkRunSettings,
    GlueRunSettings,
    HeadComparisonSettings,
    HeadsRunSettings,
    LoadedAs,
    MitigateRunSettings,
    PlantedRunSettings,
    PromptsRunSettings,
    RunSettings,
    SurveyRunSettings,
    SweepRunSettings,
)

_HIDDEN = "..."  # what only the one who made it has
_TRAINING = ("epochs", "batch_size", "learning_rate", "warmup", "weight_decay", "max_length", "lora", "bf16")


@dataclass(frozen=True)
class _Call:
    """A function of the front door and its settings. keywords: stored settings that have other names there;
    inner: those that belong to settings inside the settings, keyword and class; hidden: what `...` stands
    for where a stored setting is true."""

    function: str
    settings: str = ""
    keywords: Mapping[str, str] = field(default_factory=dict)
    inner: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    hidden: Mapping[str, str] = field(default_factory=dict)
    beside: frozenset[str] = frozenset()  # stored settings that stand beside the settings, as keywords


_WORDS = {"words_in_memory": "bias"}
_LEARNING = {"glue": "data", "glue_tasks": "tasks", "glue_rows": "train_rows"}
_CALLS: dict[type[RunSettings], _Call] = {
    HeadsRunSettings: _Call("heads", "HeadsSettings", hidden=_WORDS),
    HeadComparisonSettings: _Call("compare_heads", beside=frozenset({"top"})),
    PlantedRunSettings: _Call("planted", "PlantedSettings", hidden=_WORDS),
    PromptsRunSettings: _Call(
        "counteracts",
        "CounteractsSettings",
        hidden={"variants_in_memory": "recipes", "recipe_file": "recipes"},
        beside=frozenset({"recipes"}),
    ),
    GlueRunSettings: _Call(
        "glue",
        "GlueSettings",
        keywords={"published": "data"},
        inner=dict.fromkeys(_TRAINING, ("training", "Hyperparameters")),
        hidden=dict.fromkeys(("recipes_in_memory", "recipe_files", "gated_heads"), "recipes"),
        beside=frozenset({"recipes"}),
    ),
    AuditRunSettings: _Call(
        "audit",
        "AuditSettings",
        keywords={**_LEARNING, "benchmark_files": "benchmarks"},
        inner=dict.fromkeys(_LEARNING, ("glue", "GlueSettings")),
        hidden={**_WORDS, "glue_in_python": "glue"},
    ),
    SurveyRunSettings: _Call(
        "survey",
        "SurveySettings",
        keywords={"questions": "measures", "benchmark_files": "benchmarks"},
        hidden={"words_in_memory": "biases"},
    ),
    AtlasRunSettings: _Call("atlas", "AtlasSettings", keywords={"benchmark_files": "data"}, hidden=_WORDS),
    MitigateRunSettings: _Call(
        "certify",
        "MitigateSettings",
        keywords={**_LEARNING, "max_glue": "margin", "published": "data"},
        inner=dict.fromkeys((*_LEARNING, "max_glue"), ("glue", "GlueSettings")),
        hidden={**_WORDS, "glue_in_python": "glue"},
    ),
    BenchmarkRunSettings: _Call("measure", "BenchmarkSettings", keywords={"published": "data"}),
    SweepRunSettings: _Call("sweep", "SweepSettings", keywords={"nli_model": "nli"}),
}


def python_call(settings: RunSettings, folder: str | Path) -> str:
    """The call, and the imports that it needs."""
    call, lines = _CALLS[type(settings)], ["import levelhead as lh"]
    if files := getattr(settings, "measure_files", ()):
        lines += ["from levelhead.scoring.registry import load_measures"]
        lines += [f"load_measures({file!r})" for file in files]
    loading = getattr(settings, "loading", LoadedAs())
    keywords = dict(_keywords(settings, call))
    if isinstance(settings, SweepRunSettings):
        lines += _SWEEP_IMPORTS
        keywords = {"nli": _model(settings.nli_model, loading), "plan": _plan(settings)}
    own = [f"{name}={text}" for name, text in keywords.items() if name in call.beside]
    inside = [f"{name}={text}" for name, text in keywords.items() if name not in call.beside]
    made = [f"lh.settings.{call.settings}({', '.join(inside)})"] if call.settings else []
    place = [repr(str(folder))] if made else [f"folder={str(folder)!r}"]
    arguments = ", ".join([_models(settings, loading), *made, *place, *own])
    return "\n".join([*lines, f"lh.{call.function}({arguments})"])


def _models(settings: RunSettings, loading: LoadedAs) -> str:
    """The first arguments: a model, several, or runs; before them what a study is about."""
    *before, named = [each.value for each in settings.asked() if isinstance(each.how, Argument)]
    several = not isinstance(named, str)
    models = ", ".join(_model(name, loading) for name in (named if several else [named]))
    return ", ".join([*map(repr, before), f"[{models}]" if several else models])


def _model(name: str, loading: LoadedAs) -> str:
    """A model by its name, or as it was loaded; None where published predictions stand in its place."""
    if not name:
        return "None"
    if loading.in_python:
        return _HIDDEN
    options = "".join(f", {key}={value!r}" for key, value in loading.to_json().items() if value)
    return f"lh.load({name!r}{options})" if options else repr(name)


def _keywords(settings: RunSettings, call: _Call) -> Iterator[tuple[str, str]]:
    """Every setting that has not its default, with its value as Python writes it."""
    inner: dict[tuple[str, str], list[str]] = {}
    hidden: list[str] = []
    for each in settings.asked():
        how, name = each.how, call.keywords.get(each.field, each.field)
        if not isinstance(how, Option | InPython) or each.field.startswith("loading."):
            continue
        if how.default is not REQUIRED and each.value == how.default:
            continue
        if each.field in call.hidden:
            hidden.append(call.hidden[each.field])
        elif each.field in call.inner:
            inner.setdefault(call.inner[each.field], []).append(f"{name}={_python(each.value)}")
        elif not each.field.startswith("measure"):
            yield name, _python(each.value)
    for (keyword, kind), texts in inner.items():
        yield keyword, f"lh.settings.{kind}({', '.join(texts)})"
    yield from dict.fromkeys(hidden, _HIDDEN).items()


def _python(value: Any) -> str:
    """A value as Python writes it."""
    if isinstance(value, Head):
        return f"lh.{value!r}"
    if isinstance(value, AuditSizes):
        own = {each.name: getattr(value, each.name) for each in fields(value) if each.default is not MISSING}
        given = [f"{name}={own[name]!r}" for name in own if own[name] != getattr(AuditSizes(), name)]
        return f"lh.settings.AuditSizes({', '.join(given)})"
    if isinstance(value, tuple) and any(isinstance(each, Head) for each in value):
        return f"({', '.join(map(_python, value))},)"
    return repr(value)


# ---- a sweep, whose settings hold data

_SWEEP_IMPORTS = (
    "from levelhead.measures.statistics import Resampling",
    "from levelhead.probes.nli import ability_pairs, load_nli_probe, nli_probe",
    "from levelhead.probes.triples import load_triples",
)


def _plan(settings: SweepRunSettings) -> str:
    """The plan of a sweep; data that were made in memory are left to the one who made them."""
    limit = (settings.occupations, settings.contexts)
    file = settings.probe_file
    data = {
        "triples": f"load_triples({settings.triples_file!r})",
        "probe": f"nli_probe(limit={limit})" if file is None else f"load_nli_probe({file!r}, {limit})",
        "ability": f"ability_pairs({settings.ability_file!r})",
    }
    if settings.data_in_memory:
        data = dict.fromkeys(data, _HIDDEN)
    plain = {"pairs": settings.pairs, "fit": settings.fit, "labels": settings.labels, "depth": settings.depth}
    parts = {**data, **{name: repr(value) for name, value in plain.items()}}
    parts["resampling"] = f"Resampling({settings.resamples}, {settings.seed})"
    return f"lh.settings.Sweep({', '.join(f'{name}={text}' for name, text in parts.items())})"
