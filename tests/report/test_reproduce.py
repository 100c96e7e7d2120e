"""The command in a report makes the run again: it is read back as the settings that it came from."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_type_hints

import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st

import levelhead as lh
from levelhead.cli.app import app
from levelhead.cli.main import COMMANDS
from levelhead.edits.head import Head
from levelhead.inference.contents import open_contents
from levelhead.mitigation.named import typed_gates
from levelhead.pages.python_call import python_call
from levelhead.pages.reproduce import command
from levelhead.results import layout
from levelhead.results.asked import REQUIRED, InPython, Option, command_line, how_asked
from levelhead.results.folder import Run
from levelhead.results.keys import Layout
from levelhead.results.presets import SMALL, AuditSizes, audit_preset, survey_preset
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

HOSTILE = "it's; rm -rf ~"
NO_NUMBER_CHANGES = {  # options of commands that no run needs to store
    "--output",
    "--json",
    "--device",
    "--device-map",
    "--max-memory",
    "--batch-tokens",
    "--workers",
    "--gpus-per-worker",
    "--ray",
    "--list",
    "--about",
    "--force",
    "--no-cache",  # the kept model is the converted one to the bit
    "--strict",  # refuses files; what is measured on a file that passes is the same
    "--help",
}

# ---- random settings

TEXT = st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8
) | st.sampled_from((HOSTILE, "-x", "--full", "a b", 'say "é"', "$(id)", "x=y", "a\nb"))
PATH = TEXT.map(lambda text: str(Path(text)))
PART = TEXT.filter(lambda text: "," not in text and text == text.strip() and bool(text))
SOME = st.none() | TEXT
SEED = st.integers(0, 2**32 - 1)
COUNT = st.integers(1, 99)
SHARE = st.floats(0.01, 0.9)
LOADING = st.builds(
    LoadedAs,
    dtype=st.sampled_from((None, "float32", "bfloat16", "float16", "auto")),
    allow_pickle=st.booleans(),
    trust_remote_code=st.booleans(),
)
EXPERIMENTS = st.lists(
    st.sampled_from(("scores", "ablation", "counter", "debias")), min_size=1, unique=True
).map(tuple)
HEADS = st.lists(st.builds(Head, st.integers(0, 20), st.integers(0, 20)), unique=True, max_size=3).map(tuple)
KINDS = st.sampled_from((("value",), ("attention",), ("value", "attention"), ("attention", "value")))
NULLS = st.sampled_from((0, 2, 9, 19, 40))
TASKS = st.lists(st.sampled_from(("rte", "sst2", "cola")), min_size=1, unique=True).map(tuple)
GATES = st.dictionaries(st.builds(Head, st.integers(0, 20), st.integers(0, 20)), SHARE, max_size=2)


BENCHMARK_FILES = st.sampled_from(({}, {"crows-pairs": HOSTILE}, {"bbq": "-x=y", "winobias": "a b"}))


@st.composite
def heads_runs(draw: st.DrawFn) -> HeadsRunSettings:
    experiments = draw(EXPERIMENTS)
    debias, counter = "debias" in experiments, "counter" in experiments
    return HeadsRunSettings(
        study="heads",
        seed=draw(SEED),
        model=draw(TEXT),
        layers=4,
        heads=5,
        bias=draw(st.just("gender") | TEXT),
        contexts=draw(st.just("templates") | TEXT),
        experiments=experiments,
        per_word=draw(st.none() | COUNT),
        contexts_per_word=6,
        sentences=draw(SOME) if counter else None,
        n_sentences=500,
        top=draw(COUNT) if debias else 3,
        trim=draw(st.booleans()),
        resamples=2_000,
        null=draw(NULLS),
        splits=2,
        score_contexts=draw(st.none() | COUNT),
        text=draw(SOME) if debias else None,
        loading=draw(LOADING),
    )


PLANTED_RUNS = st.builds(
    PlantedRunSettings,
    study=st.just("planted"),
    seed=SEED,
    model=TEXT,
    layers=st.just(4),
    heads_in_all=st.just(20),
    bias=st.just("gender") | TEXT,
    heads=COUNT,
    seeds=COUNT,
    kinds=KINDS,
    rise=SHARE,
    nats=st.just(4.0),
    words=st.just(60),
    sentences=SOME,
    n_sentences=st.just(100),
    words_in_memory=st.just(False),
    loading=LOADING,
)
ATLAS_RUNS = st.sampled_from(
    (
        ((), {}),
        (("seat", "log-odds"), {}),
        (("crows-pairs", "cosine-gap"), {"crows-pairs": HOSTILE}),
        ((), {"crows-pairs": "-x=y"}),
    )
).flatmap(
    lambda asked: st.builds(
        AtlasRunSettings,
        study=st.just("atlas"),
        seed=SEED,
        model=TEXT,
        objectives=st.just(asked[0]),
        benchmark_files=st.just(asked[1]),
        bias=st.just("gender") | TEXT,
        localizer=st.just("gradient") | TEXT,
        splits=COUNT,
        null=NULLS,
        limit=st.none() | st.integers(2, 99),
        words_in_memory=st.just(False),
        loading=LOADING,
    )
)
BENCHMARK_RUNS = st.sampled_from(
    ((TEXT, st.none(), NULLS, LOADING), (st.just(""), PATH, st.just(0), st.just(LoadedAs())))
).flatmap(
    lambda asked: st.builds(
        BenchmarkRunSettings,
        study=st.just("measure"),
        seed=SEED,
        benchmark=st.sampled_from(("crows-pairs", "bbq")),
        model=asked[0],
        published=TEXT,
        rule=st.none() | TEXT,
        categories=st.lists(TEXT, max_size=2).map(tuple),
        limit=st.none() | st.integers(2, 99),
        null=asked[2],
        chat=st.just(False),
        predictions=asked[1],
        resamples=st.just(2_000),
        abilities=st.just(("causal",)),
        loading=asked[3],
    )
)
PROMPTS_RUNS = st.builds(
    PromptsRunSettings,
    study=st.just("counteracts"),
    seed=SEED,
    models=st.lists(TEXT, min_size=1, max_size=3, unique=True).map(tuple),
    variants=st.just(("base",)),
    prompts=st.just("gender-occupation") | TEXT,
    verbalizer=st.none() | PATH,
    per_background=COUNT,
    ks=st.lists(COUNT, min_size=1, max_size=3, unique=True).map(tuple) | st.just((3, 5, 10)),
    draws=st.just(2_000),
    remove_heads=HEADS,
    groups=st.just(("old", "young")),
    kinds=st.just(("base",)),
    n_prompts=st.just(8),
    null=NULLS,
    chat=st.booleans(),
    recipe_file=st.none() | PATH,
    variants_in_memory=st.just(False),
    loading=LOADING,
)
SWEEP_RUNS = st.builds(
    SweepRunSettings,
    study=st.just("projections"),
    seed=SEED,
    model=TEXT,
    nli_model=TEXT,
    fit=st.sampled_from(("base", "sequential")),
    depth=st.booleans(),
    labels=SOME,
    triples=st.just("shipped"),
    ability=st.just("ours"),
    occupations=COUNT,
    contexts=COUNT,
    words=st.just(("woman", "man")),
    resamples=st.just(2_000),
    pairs=st.just("frames") | TEXT,
    form=st.just("single"),
    nli_form=st.just("single"),
    triples_file=SOME,
    ability_file=SOME,
    probe_file=st.none() | PATH,
    data_in_memory=st.just(False),
    loading=LOADING,
)
GLUE_RUNS = st.builds(
    GlueRunSettings,
    study=st.just("glue"),
    seed=SEED,
    model=TEXT,
    published=TEXT,
    tasks=TASKS,
    recipes=st.just(()),
    seeds=COUNT,
    train_rows=st.none() | COUNT,
    margin=SHARE | st.just(1.0),
    epochs=COUNT,
    batch_size=COUNT,
    learning_rate=SHARE,
    warmup=SHARE,
    weight_decay=SHARE,
    max_length=st.integers(8, 999),
    lora=st.booleans(),
    bf16=st.booleans(),
    gated_heads=GATES.map(typed_gates),
    recipe_files=st.lists(PATH, max_size=2).map(tuple),
    recipes_in_memory=st.just(False),
    loading=LOADING,
)


@st.composite
def mitigate_runs(draw: st.DrawFn) -> MitigateRunSettings:
    glue = draw(SOME)
    return MitigateRunSettings(
        study="mitigate",
        seed=draw(SEED),
        model=draw(TEXT),
        bias=draw(st.just("gender") | TEXT),
        methods=draw(st.sampled_from(((), ("symmetrized",), ("ablated heads", "symmetrized")))),
        objective=draw(st.sampled_from(("", "log-odds"))),
        gain=draw(SHARE),
        max_perplexity=draw(SHARE),
        max_loss=draw(SHARE),
        null=draw(st.integers(2, 30)),
        glue=glue,
        glue_tasks=() if glue is None else draw(TASKS),
        glue_rows=None if glue is None else draw(st.sampled_from((None, 1000, 7))),
        max_glue=1.0 if glue is None else draw(SHARE),
        loading=draw(LOADING),
    )


@st.composite
def audit_runs(draw: st.DrawFn) -> AuditRunSettings:
    extent, large = draw(st.sampled_from(("full", "quick", ""))), draw(st.booleans())
    preset = audit_preset(extent == "full", extent == "quick", large)
    glue = draw(SOME)
    return AuditRunSettings(
        study="audit",
        seed=draw(SEED),
        model=draw(TEXT),
        abilities=("mlm",),
        layers=4,
        heads=5,
        large=large,
        bias=draw(st.just("gender") | TEXT),
        nli=draw(SOME),
        top=draw(COUNT | st.just(3)),
        full=extent == "full",
        quick=extent == "quick",
        sizes=replace(
            draw(st.just(preset) | st.builds(preset.with_null, NULLS)),
            contexts=draw(st.just(preset.contexts) | COUNT),
        ),
        text=draw(SOME),
        glue=glue,
        glue_tasks=() if glue is None else draw(TASKS),
        glue_rows=None if glue is None else draw(st.sampled_from((None, 1000, 7))),
        measure_files=draw(st.lists(PATH, max_size=2).map(tuple)),
        benchmark_files=draw(BENCHMARK_FILES),
        loading=draw(LOADING),
    )


@st.composite
def survey_runs(draw: st.DrawFn) -> SurveyRunSettings:
    quick = draw(st.booleans())
    questions = st.lists(st.sampled_from(("seat", "lpbs", "triples")), min_size=1, unique=True).map(tuple)
    return SurveyRunSettings(
        study="survey",
        seed=draw(SEED),
        models=draw(st.lists(TEXT, min_size=1, max_size=3, unique=True).map(tuple)),
        biases=draw(st.lists(PART, min_size=1, max_size=2, unique=True).map(tuple) | st.just(("gender",))),
        questions=draw(questions),
        quick=quick,
        sizes=survey_preset(quick),
        dtype=None,
        measure_files=draw(st.lists(PATH, max_size=2).map(tuple)),
        benchmark_files=draw(BENCHMARK_FILES),
        loading=draw(LOADING),
    )


COMPARISONS = st.builds(
    HeadComparisonSettings,
    study=st.just("compare_heads"),
    seed=st.just(0),
    runs=st.lists(PATH, min_size=2, max_size=3).map(tuple),
    top=COUNT,
    test=st.just("gender"),
)

# ---- what a command was understood to ask


class Understood(Exception):
    """What a command passes on to its study."""

    def __init__(self, *given: Any, **options: Any) -> None:
        self.given, self.options = given, options


def stop(*given: Any, **options: Any) -> Any:
    raise Understood(*given, **options)


@dataclass(frozen=True)
class Named:
    """Something that a command reads by its name: a model, data, a recipe."""

    name: Any
    options: Any = None


def named(name: Any = None, *more: Any, **options: Any) -> Any:
    return Named(name, options or more)


READERS = {  # what commands read, and studies that they call
    "levelhead.cli.app.preflight": lambda given: None,
    "levelhead.models.model.load": named,
    "levelhead.probes.triples.load_triples": named,
    "levelhead.probes.nli.ability_pairs": named,
    "levelhead.cli.projections._inferences": lambda file, words, limit: Named(file, limit),
    "levelhead.cli.counteracts._with_recipe": named,
    "levelhead.mitigation.named.named_recipes": named,
    "levelhead.studies.counteracts.CounteractsSettings.load": lambda settings: None,
    "levelhead.scoring.registry.load_measures": lambda file: MEASURES.append(str(file)),
    "levelhead.studies.heads.study.heads": stop,
    "levelhead.studies.heads.comparison.compare_heads": stop,
    "levelhead.studies.planted.study.plant_and_find": stop,
    "levelhead.studies.mitigating.study.run_mitigations": stop,
    "levelhead.studies.localizing.study.atlas": stop,
    "levelhead.studies.benchmark.run_benchmark": stop,
    "levelhead.studies.benchmark.BenchmarkSettings.of": lambda settings, benchmark: None,
    "levelhead.studies.projections.plan.Sweep.open": stop,
    "levelhead.studies.counteracts.counteracts": stop,
    "levelhead.studies.glue.glue": stop,
    "levelhead.auditing.audit": stop,
    "levelhead.surveying.benchmark_questions": lambda files, limit: (),
    "levelhead.surveying.survey": stop,
    "levelhead.reproducing.reproduce": stop,
}
MEASURES: list[str] = []


@contextmanager
def nothing_is_read() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for place, instead in READERS.items():
            patch.setattr(place, instead)
        MEASURES.clear()
        yield


@cache
def command_group() -> Any:
    assert COMMANDS  # importing them has registered them
    return typer.main.get_command(app)


def understood(line: str) -> Understood:
    """What the command line of today passes on when this is typed into a shell."""
    program, name, *words = shlex.split(line)
    assert program == "levelhead"
    with nothing_is_read(), pytest.raises(Understood) as stopped:
        command_group().main([name, *words], standalone_mode=False)
    return stopped.value


def loaded(options: Mapping[str, Any]) -> dict[str, Any]:
    return {f"loading.{name}": options[name] for name in ("dtype", "allow_pickle", "trust_remote_code")}


def of_heads(got: Understood) -> dict[str, Any]:
    model, asked, folder = got.given
    return {**vars(asked), "model": model.name, "folder": str(folder), **loaded(model.options)}


def of_atlas(got: Understood) -> dict[str, Any]:
    return {**of_heads(got), "benchmark_files": got.given[1].data}


def learned(asked: Any) -> dict[str, Any]:
    """What is fine-tuned beside a study, as its run stores it."""
    return {
        "glue": None if asked is None else asked.data,
        "glue_tasks": () if asked is None else asked.tasks,
        "glue_rows": None if asked is None else asked.train_rows or 0,
    }


def of_mitigations(got: Understood) -> dict[str, Any]:
    asked = got.given[1]
    margin = 1.0 if asked.glue is None else asked.glue.margin
    return {**of_heads(got), "published": asked.data, **learned(asked.glue), "max_glue": margin}


def of_benchmark(got: Understood) -> dict[str, Any]:
    benchmark, model, asked, folder = got.given
    return {
        **vars(asked),
        "benchmark": benchmark,
        "model": "" if model is None else model.name,
        "published": asked.data,
        "predictions": None if asked.predictions is None else str(asked.predictions),
        "folder": str(folder),
        **loaded(LoadedAs().to_json() if model is None else model.options),
    }


def of_comparison(got: Understood) -> dict[str, Any]:
    runs, folder, top = got.given
    return {"runs": tuple(map(str, runs)), "folder": str(folder), "top": top}


def of_prompts(got: Understood) -> dict[str, Any]:
    models, asked, folder, recipe = got.given
    return {
        **vars(asked),
        "models": tuple(model.name for model in models),
        "recipe_file": str(recipe.name) if recipe else None,
        "folder": str(folder),
        **loaded(models[0].options),
    }


def of_sweep(got: Understood) -> dict[str, Any]:
    plan, folder, first, second = got.given
    return {
        **{name: getattr(plan, name) for name in ("fit", "depth", "labels", "pairs")},
        "seed": plan.resampling.seed,
        "model": first.name,
        "nli_model": second.name,
        "limit": plan.probe.options,
        "triples_file": plan.triples.name,
        "ability_file": plan.ability.name,
        "probe_file": None if plan.probe.name is None else str(plan.probe.name),
        "folder": str(folder),
        **loaded(first.options),
    }


def of_glue(got: Understood) -> dict[str, Any]:
    model, asked, folder, recipes = got.given
    return {
        **vars(asked),
        **vars(asked.training),
        "published": asked.data,
        "model": model.name,
        "gated_heads": typed_gates(recipes.name),
        "recipe_files": tuple(map(str, recipes.options[0])),
        "folder": str(folder),
        **loaded(model.options),
    }


def of_audit(got: Understood) -> dict[str, Any]:
    model, folder, asked = got.given
    return {
        **vars(asked),
        "model": model,
        "folder": str(folder),
        **learned(asked.glue),
        "measure_files": tuple(MEASURES),
        "benchmark_files": asked.benchmarks,
        **loaded(got.options),
    }


def of_survey(got: Understood) -> dict[str, Any]:
    models, folder, asked = got.given
    return {
        **vars(asked),
        "models": tuple(models),
        "questions": asked.measures,
        "measure_files": tuple(MEASURES),
        "benchmark_files": asked.benchmarks,
        "folder": str(folder),
        **loaded(got.options),
    }


@dataclass(frozen=True)
class Study:
    """A study: random settings of it, and what its command passes on."""

    layout: Layout[Any]
    runs: st.SearchStrategy[Any]
    read: Callable[[Understood], dict[str, Any]]

    def __str__(self) -> str:
        return self.layout.study


STUDIES = (
    Study(layout.HEADS, heads_runs(), of_heads),
    Study(layout.HEAD_COMPARISON, COMPARISONS, of_comparison),
    Study(layout.PLANTED, PLANTED_RUNS, of_heads),
    Study(layout.SWEEP, SWEEP_RUNS, of_sweep),
    Study(layout.MITIGATE, mitigate_runs(), of_mitigations),
    Study(layout.ATLAS, ATLAS_RUNS, of_atlas),
    Study(layout.BENCHMARK, BENCHMARK_RUNS, of_benchmark),
    Study(layout.PROMPTS, PROMPTS_RUNS, of_prompts),
    Study(layout.GLUE, GLUE_RUNS, of_glue),
    Study(layout.AUDIT, audit_runs(), of_audit),
    Study(layout.SURVEY, survey_runs(), of_survey),
)


def asked_for(run: RunSettings, folder: str) -> dict[str, Any]:
    """What must be read back: every setting that has an option or stands in the command, and the folder."""
    own = {each.field: each for each in run.asked()}
    found = {
        name: each.value
        for name, each in own.items()
        if name in ("model", "models", "runs") or isinstance(each.how, Option)
    }
    if isinstance(run, AuditRunSettings):  # where nothing was given, the preset decides
        preset = audit_preset(run.full, run.quick, run.large)
        as_preset = replace(run.sizes, contexts=preset.contexts) == preset
        found["null"] = None if as_preset else run.sizes.null
        found["per_word"] = None if run.sizes.contexts == preset.contexts else run.sizes.contexts
    return {**found, "folder": folder}


def test_all_studies_are_here() -> None:
    assert {study.layout for study in STUDIES} == set(layout.LAYOUTS)


@pytest.mark.parametrize("study", STUDIES, ids=str)
def test_a_printed_line_is_read_back_as_the_settings_that_it_came_from(study: Study) -> None:
    @settings(max_examples=30)
    @given(study.runs, TEXT.filter(lambda name: not Path(name).suffix))  # a run is no .md or .csv file
    def goes_round(run: RunSettings, folder: str) -> None:
        line = command_line(run.COMMANDS[0], run, folder)
        assert line.unsaid == ()
        read, wanted = study.read(understood(str(line))), asked_for(run, str(Path(folder)))
        assert {name: read.get(name) for name in wanted} == wanted

    goes_round()


@pytest.mark.parametrize("study", STUDIES, ids=str)
def test_every_stored_setting_says_how_it_is_asked_for(study: Study) -> None:
    hints = get_type_hints(study.layout.settings, include_extras=True)
    silent = [f.name for f in fields(study.layout.settings) if how_asked(hints[f.name]) is None]
    assert silent in ([], ["loading"])


@pytest.mark.parametrize("study", STUDIES, ids=str)
def test_every_option_of_a_command_is_stored_or_changes_no_number(study: Study) -> None:
    @settings(max_examples=1)
    @given(study.runs)
    def has_all(run: RunSettings) -> None:
        declared = command_group().commands[run.COMMANDS[0].words[0]].params
        options = [parameter for parameter in declared if parameter.param_type_name == "option"]
        flags = {(each.opts or each.secondary_opts)[-1] for each in options}
        stored = {each.how.name for each in run.asked() if isinstance(each.how, Option)}
        if isinstance(run, AuditRunSettings | MitigateRunSettings):
            stored.add("--train-rows")  # stored where GLUE was asked for
        if isinstance(run, HeadsRunSettings):
            stored |= {
                "--objective",
                "--data",
                "--localizer",
            }  # they make a run of the atlas
        assert flags - NO_NUMBER_CHANGES == stored

    has_all()


# ---- what no option says


def plain_heads() -> HeadsRunSettings:
    return HeadsRunSettings(
        study="heads",
        seed=0,
        model="lh:bert-mini",
        layers=4,
        heads=5,
        bias="gender",
        contexts="templates",
        experiments=("scores", "ablation", "counter"),
        per_word=None,
        contexts_per_word=16,
        sentences=None,
        n_sentences=500,
        top=3,
        trim=False,
        resamples=2_000,
        null=19,
        splits=2,
    )


def printed(folder: Path, study: Layout[Any], run: Any) -> str:
    with Run.open(folder, study, run) as opened:
        opened.results(study.keys[0], list)
    return command(open_contents(folder))


def test_a_default_heads_run_prints_the_shortest_line(tmp_path: Path) -> None:
    line = printed(tmp_path / "run", layout.HEADS, plain_heads())
    assert shlex.split(line) == ["levelhead", "heads", "lh:bert-mini", "-o", str(tmp_path / "run")]


def in_python(text: str) -> dict[str, Any]:
    """What the printed lines of Python pass on to the function that they call; nothing is run."""
    first, *lines = text.splitlines()
    assert first.startswith("# in Python, because `levelhead ") or first == "import levelhead as lh"
    door = SimpleNamespace(settings=lh.settings, Head=lh.Head, load=named)
    for name in (
        "heads",
        "planted",
        "certify",
        "atlas",
        "measure",
        "counteracts",
        "glue",
        "audit",
        "survey",
        "compare_heads",
        "sweep",
    ):
        setattr(door, name, stop)
    with pytest.raises(Understood) as stopped:
        exec("\n".join(line for line in lines if line != "import levelhead as lh"), {"lh": door})
    return {"given": stopped.value.given, **stopped.value.options}


@pytest.mark.parametrize(
    ("changed", "unsaid"),
    [
        ({"resamples": 300}, "resamples"),
        ({"splits": 5, "n_sentences": 9}, "n_sentences, splits"),
        ({"top": 7}, "top"),  # which the command refuses without debias
        ({"sentences": "shipped", "experiments": ("scores",)}, "sentences"),
        ({"seed": 2**32}, "seed"),
    ],
)
def test_settings_without_an_option_become_a_python_call_that_says_so(
    tmp_path: Path, changed: dict[str, Any], unsaid: str
) -> None:
    run = replace(plain_heads(), **changed)
    text = printed(tmp_path, layout.HEADS, run)
    assert text.splitlines()[0].endswith(f"`levelhead heads` has no option for {unsaid}")
    assert in_python(text)["given"] == ("lh:bert-mini", lh.settings.HeadsSettings(**changed), str(tmp_path))


def test_what_was_made_in_memory_is_left_to_the_one_who_made_it(tmp_path: Path) -> None:
    run = replace(plain_heads(), bias="religion", words_in_memory=True, loading=LoadedAs(in_python=True))
    text = printed(tmp_path, layout.HEADS, run)
    assert text.splitlines()[0].endswith("or one that is edited")
    model, asked, _ = in_python(text)["given"]
    assert (model, asked.bias) == (..., ...)


@pytest.mark.parametrize("study", [s for s in STUDIES if s.layout is not layout.SWEEP], ids=str)
def test_a_python_call_is_read_back_as_the_settings_that_it_came_from(study: Study) -> None:
    """Whatever a command can ask, Python can ask too: the same random settings go round here."""

    @settings(max_examples=20)
    @given(study.runs)
    def goes_round(run: Any) -> None:
        if isinstance(run, AuditRunSettings | SurveyRunSettings):
            run = replace(run, measure_files=(), benchmark_files={})
        text = python_call(run, "folder")
        got = in_python(text)["given"]
        if isinstance(run, BenchmarkRunSettings):
            about, *got = got
            predictions = None if run.predictions is None else str(run.predictions)
            assert (about, got[1].data, got[1].predictions) == (run.benchmark, run.published, predictions)
            got[0] = "" if got[0] is None else got[0]
        models = run.model if hasattr(run, "model") else list(getattr(run, "models", None) or run.runs)
        if not any(run.loading.to_json().values() if hasattr(run, "loading") else ()):
            assert got[0] == models
        if isinstance(run, HeadsRunSettings | PlantedRunSettings | PromptsRunSettings):
            wanted = asked_for(run, "")
            names = [each.name for each in fields(got[1]) if each.name in wanted]
            assert {name: getattr(got[1], name) for name in names} == {n: wanted[n] for n in names}
        if isinstance(run, AuditRunSettings):
            assert (got[1].full, got[1].quick, got[1].top) == (run.full, run.quick, run.top)
        if isinstance(run, GlueRunSettings):
            assert (got[1].training.learning_rate, got[1].data) == (run.learning_rate, run.published)

    goes_round()


def test_a_sweep_with_other_resamples_is_a_call_with_its_data(tmp_path: Path) -> None:
    run = replace(SWEEP, resamples=300)
    model, asked, folder = in_python(printed(tmp_path, layout.SWEEP, run))["given"]
    assert (model, asked.nli, folder) == ("one", "two", str(tmp_path))
    assert (asked.plan.resampling.resamples, asked.plan.resampling.seed, asked.plan.fit) == (300, 3, "base")
    assert asked.plan.probe.shape == (12, 4, 2)


SWEEP = SweepRunSettings(
    study="projections",
    seed=3,
    model="one",
    nli_model="two",
    fit="base",
    depth=False,
    labels=None,
    triples="shipped",
    ability="ours",
    occupations=12,
    contexts=4,
    words=("woman", "man"),
    resamples=2_000,
    pairs="frames",
    form="single",
    nli_form="single",
)


def test_a_study_that_follows_a_paper_is_asked_for_by_the_name_of_the_paper(tmp_path: Path) -> None:
    quick: dict[str, Any] = {"experiments": ("scores", "counter", "debias"), "null": 0, "splits": 0}
    run = replace(plain_heads(), **quick, seed=4)
    got = understood(printed(tmp_path / "a", layout.HEADS, run))
    assert got.given[0] == "heads"
    assert got.given[2] == lh.settings.ReproduceSettings(("lh:bert-mini",), seed=4)
    run = replace(run, per_word=1, n_sentences=60, resamples=300, loading=LoadedAs(dtype="float16"))
    got = understood(printed(tmp_path / "b", layout.HEADS, run))
    assert got.given[2] == lh.settings.ReproduceSettings(("lh:bert-mini",), quick=True, seed=4)
    assert got.options["dtype"] == "float16"
    sweep = replace(SWEEP, occupations=41, contexts=8, resamples=300, labels="a,b,c")
    got = understood(printed(tmp_path / "c", layout.SWEEP, sweep))
    assert got.given[0] == "projections"
    assert got.given[2] == lh.settings.ReproduceSettings(("one",), "two", "a,b,c", quick=True, seed=3)


def test_a_list_whose_member_has_a_comma_is_asked_for_in_python(tmp_path: Path) -> None:
    run = SurveyRunSettings(
        "survey", 0, ("m",), ("a,b.toml", "race"), ("seat",), False, survey_preset(False), None
    )
    text = printed(tmp_path, layout.SURVEY, run)
    assert "no option for biases" in text.splitlines()[0]
    assert in_python(text)["given"][1].biases == ("a,b.toml", "race")


def test_sizes_of_ones_own_are_asked_for_in_python(tmp_path: Path) -> None:
    own = AuditSizes(triples=9, null=3)
    run = AuditRunSettings(
        "audit", 0, "m", ("mlm",), 4, 5, False, "gender", None, 3, False, sizes=own, measure_files=("a b.py",)
    )
    text = printed(tmp_path, layout.AUDIT, run)
    assert "load_measures('a b.py')" in text
    asked = in_python(text.replace("load_measures('a b.py')", ""))["given"][1]
    assert asked.sizes == own


def test_sizes_of_an_older_run_are_those_that_it_had(tmp_path: Path) -> None:
    """An audit of 0.2 scored the heads of all null models and chose projections on whole halves."""
    own = AuditSizes(contexts=None, null=3, head_twins=3, screen_every=1)
    run = AuditRunSettings(
        "audit", 0, "m", ("mlm",), 4, 5, False, "gender", None, 3, False, sizes=own, measure_files=("a b.py",)
    )
    stored = run.to_json()
    for name in ("head_twins", "screen_every"):
        del stored["sizes"][name]
    assert AuditRunSettings.from_json(stored) == run
    text = printed(tmp_path, layout.AUDIT, run)
    assert in_python(text.replace("load_measures('a b.py')", ""))["given"][1].sizes == own
    stored["sizes"]["triples"] = "9"
    with pytest.raises(ValueError, match=r"sizes\.triples"):
        AuditRunSettings.from_json(stored)


def test_null_models_that_were_asked_of_every_question_are_one_option() -> None:
    def null_of(sizes: AuditSizes) -> object:
        run = AuditRunSettings("audit", 0, "m", ("mlm",), 4, 5, False, "gender", None, 3, False, sizes=sizes)
        return next(each.value for each in run.asked() if each.field == "null")

    assert null_of(SMALL) is None
    assert null_of(SMALL.with_null(19)) == 19  # a default audit asks 19 for the association alone
    assert null_of(replace(SMALL, null=5)) is None  # no option says that


def test_defaults_of_settings_are_those_of_the_studies() -> None:
    """A setting that no option has is left out of a line only where it has the value that the study takes."""
    studies: dict[Layout[Any], Any] = {
        layout.HEADS: lh.settings.HeadsSettings(),
        layout.PLANTED: lh.settings.PlantedSettings(),
        layout.PROMPTS: lh.settings.CounteractsSettings(),
    }
    for study, default in studies.items():
        for name, hint in get_type_hints(study.settings, include_extras=True).items():
            how = how_asked(hint)
            if isinstance(how, Option | InPython) and how.default is not REQUIRED and hasattr(default, name):
                assert getattr(default, name) == how.default, f"{study.study}: {name}"
