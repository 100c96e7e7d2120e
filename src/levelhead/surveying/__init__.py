"""Many models on the same questions: every model on every bias is a task, and one table ranks them.

    ask        the battery of an audit, in sizes that do not depend on the model, so that items are shared
    compare    models two by two, item by item, corrected for the number of differences (pages/ranking.py)
    report     survey.csv, survey.parquet, differences.csv, report.html

A task is a file that appears whole: a killed survey goes on behind the last one, and a survey of more models
asks only the new ones. A model that fails is a line with its reason, and is tried again by the next survey.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Unpack

from levelhead.engine.crew import Crew, crew
from levelhead.engine.jobs import held_alone, worker_device
from levelhead.errors import BadOption, BadRun, LevelheadError
from levelhead.models.model import Model, load
from levelhead.models.placement import LoadOptions, Placement, placement
from levelhead.models.sources import trust_of
from levelhead.pages.page import write_report
from levelhead.probes.bias import data_hash
from levelhead.probes.words import Words, in_memory, load_words, words_name
from levelhead.progress import steps
from levelhead.results import layout
from levelhead.results.folder import Run
from levelhead.results.presets import BENCHMARK_ITEMS, AuditSizes, survey_preset
from levelhead.results.records.survey import SurveyTask
from levelhead.results.runs import SurveyRun, survey_label
from levelhead.results.settings import LoadedAs, SurveyRunSettings
from levelhead.scoring.benchmarks.questions import BenchmarkFiles, benchmark_hashes, benchmark_questions
from levelhead.scoring.placed import loaded_as
from levelhead.scoring.registry import (
    Question,
    load_measures,
    own_files,
    own_hashes,
    own_in_memory,
    own_questions,
    questions,
)
from levelhead.studies.extent import AuditSettings, Extent
from levelhead.surveying.listing import Models, named_models
from levelhead.surveying.tables import write_tables

_NO_WORKERS: LoadOptions = {"workers": None, "gpus_per_worker": None, "ray": None}
_REASON = 300  # characters
Open = Run[SurveyRunSettings]


@dataclass(frozen=True)
class SurveySettings:
    """What every model is asked, and how much of it.

    biases: word lists by their names or paths, or in memory
    measures: seat, lpbs, triples, inference, fluency, your own; none: all
    quick: ask less: wider intervals, sooner
    seed: of every draw
    sizes: None: those of a quick survey, or of a whole one
    benchmarks: published benchmarks that are asked too: the file of each, by its name
    """

    biases: tuple[Words, ...] = ("gender",)
    measures: tuple[str, ...] = ()
    quick: bool = False
    seed: int = 0
    sizes: AuditSizes | None = None
    benchmarks: BenchmarkFiles = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [words_name(bias) for bias in self.biases]
        if not names or len(set(names)) < len(names):
            raise BadOption(f"Biases {', '.join(names) or 'none'} came; give one or more, each once.")
        self.questions()  # a measure that is not there is said before a model is loaded

    def questions(self) -> tuple[Question, ...]:
        """The questions that are asked."""
        published = {question.name: question for question in self.published}
        known = {question.name: question for question in questions()} | published
        if unknown := [name for name in self.measures if name not in known]:
            raise BadOption(f"There is no measure {unknown[0]!r} in a survey. Known: {', '.join(known)}.")
        return tuple(known[name] for name in dict.fromkeys((*(self.measures or known), *published)))

    @cached_property
    def published(self) -> tuple[Question, ...]:
        """Published benchmarks that are asked too."""
        return benchmark_questions(self.benchmarks, BENCHMARK_ITEMS)

    def extent(self, model: Model, bias: Words) -> Extent:
        """What one model is asked about one bias: the same items of every model."""
        return Extent(AuditSettings(bias, seed=self.seed, sizes=self.extent_sizes), model)

    @property
    def extent_sizes(self) -> AuditSizes:
        """How much every model is asked: given sizes, else a preset."""
        return self.sizes or survey_preset(self.quick)


def survey(
    models: Models,
    folder: str | Path,
    settings: SurveySettings | None = None,
    **loading: Unpack[LoadOptions],
) -> SurveyRun:
    """Ask many models about many biases: `survey(["lh:bert-mini", "lh:gpt-mini"], "runs/survey")`.

    models: names, loaded models, text files with a name a line, folders of checkpoints.
    loading: device, dtype ..., as for `load`.
    """
    settings = settings or SurveySettings()
    placed = placement(loading)  # a wrong option is one line at once, and not a failure of every model
    named = named_models(models)
    alone: LoadOptions = {**loading, "device": worker_device(placed), **_NO_WORKERS}
    with (
        _opened(Path(folder), named, settings, _loading(named, placed, loading)) as run,
        steps("Survey", len(named) * len(settings.biases)) as advance,
    ):
        left = dict(named)
        if placed.workers is not None:
            for task in _tasks_of_workers(run, named, settings, crew(placed.workers), alone):
                run.file(layout.SURVEY_TASKS.of(survey_label(task.model, task.bias)), task)
                advance(1)
            left = {name: model for name, model in named.items() if isinstance(model, Model)}
        for name, model in left.items():
            for task in _tasks(run, name, model, settings, partial(load, **loading)):
                run.file(layout.SURVEY_TASKS.of(survey_label(task.model, task.bias)), task)
            advance(len(settings.biases))
        write_tables(run)
        result = SurveyRun(run.data())
    write_report(result.folder)
    return result


# ---- asking


def _opened(folder: Path, named: Iterable[str], settings: SurveySettings, loading: LoadedAs) -> Open:
    stored = SurveyRunSettings(
        study=layout.SURVEY.study,
        seed=settings.seed,
        models=tuple(named),
        biases=tuple(map(words_name, settings.biases)),
        questions=tuple(question.name for question in settings.questions()),
        quick=settings.quick,
        sizes=settings.extent_sizes,
        dtype=loading.dtype,
        measure_files=own_files(),
        measures_in_memory=own_in_memory(),
        words_in_memory=any(map(in_memory, settings.biases)),
        benchmark_files={name: str(file) for name, file in settings.benchmarks.items()},
        loading=loading,
    )
    hashes = {f"words {words_name(bias)}": data_hash(load_words(bias)) for bias in settings.biases}
    hashes |= {**own_hashes(), **benchmark_hashes(settings.published)}
    run = Run.open(folder, layout.SURVEY, stored, hashes=hashes)
    own = [info for question in (*own_questions(), *settings.published) for info in question.measures]
    run.results(layout.SURVEY_MEASURES, lambda: own)
    return run


def _loading(named: Mapping[str, Model | str], placed: Placement, options: LoadOptions) -> LoadedAs:
    """How the models are loaded: as the options say, where they are names; models in memory as they were."""
    given = [model for model in named.values() if isinstance(model, Model)]
    if given:
        return loaded_as(given) if len(given) == len(named) else LoadedAs(in_python=True)
    return LoadedAs(
        dtype=None if placed.dtype is None else str(placed.dtype).removeprefix("torch."),
        allow_pickle=trust_of(options).pickle,
        trust_remote_code=trust_of(options).remote_code,
    )


def _tasks(
    run: Open, name: str, model: Model | str, settings: SurveySettings, loader: Callable[[str], Model]
) -> Iterator[SurveyTask]:
    """The tasks of one model that are not done yet; it is loaded once for all of them."""
    stored = [(bias, _stored(run, name, words_name(bias))) for bias in settings.biases]
    done = [task for _, task in stored if task is not None]
    left = [bias for bias, task in stored if task is None]
    if not left:
        return
    try:
        subject = loader(model) if isinstance(model, str) else model
    except BadOption:
        raise
    except Exception as error:  # a folder can be broken in any way, and the other models must not be lost
        yield from (SurveyTask(name, words_name(bias), reason=_reason(error)) for bias in left)
        return
    if any(_asked(task) != (subject.fingerprint, subject.opening.written) for task in done):
        raise _another_model(run, name)
    for bias in left:
        yield _task(subject, name, bias, settings)


def _tasks_of_workers(
    run: Open,
    named: Mapping[str, Model | str],
    settings: SurveySettings,
    workers: Crew,
    options: LoadOptions,
) -> Iterator[SurveyTask]:
    """The tasks of models that are named, as far as they are not done yet: a worker each, in order."""
    asked = replace(settings, measures=tuple(question.name for question in settings.questions()))
    names = [name for name, model in named.items() if isinstance(model, str)]
    pairs = [(name, bias) for name in names for bias in settings.biases]
    left = [(name, bias) for name, bias in pairs if _stored(run, name, words_name(bias)) is None]
    calls = [(name, bias, asked, options, own_files()) for name, bias in left]
    for task in workers.call(_task_of_worker, calls):
        done = [_stored(run, task.model, words_name(bias)) for bias in settings.biases]
        if not task.failed and any(_asked(other) != _asked(task) for other in done if other is not None):
            raise _another_model(run, task.model)
        yield task


def _task_of_worker(
    name: str, bias: Words, settings: SurveySettings, options: LoadOptions, measures: Sequence[str]
) -> SurveyTask:
    """One task, in a process that was made for it."""
    for file in set(measures) - set(own_files()):
        load_measures(file)
    try:
        model = held_alone(name, options)
    except BadOption:
        raise
    except Exception as error:  # as where models are asked one after the other
        return SurveyTask(name, words_name(bias), reason=_reason(error))
    return _task(model, name, bias, settings)


def _asked(task: SurveyTask) -> tuple[str, str]:
    """The model of a task, and what its texts began with."""
    return task.weights, task.opening


def _another_model(run: Open, name: str) -> BadRun:
    return BadRun(
        f"{name} is another model than the one that {run.folder} has results of. Give a new folder."
    )


def _stored(run: Open, model: str, bias: str) -> SurveyTask | None:
    """A task that is done; one that failed is not."""
    task = layout.SURVEY_TASKS.of(survey_label(model, bias)).read(run.folder)
    return None if task is None or task.failed else task


def _task(model: Model, name: str, bias: Words, settings: SurveySettings) -> SurveyTask:
    try:
        battery = settings.extent(model, bias).battery()
        answers = [question.ask(model, [()], battery)[0] for question in settings.questions()]
    except BadOption:
        raise
    except Exception as error:  # memory can run out, and code that a model brings can fail in any way
        return SurveyTask(name, words_name(bias), reason=_reason(error))
    return SurveyTask(
        model=name,
        bias=words_name(bias),
        weights=model.fingerprint,
        parameters=int(sum(weight.numel() for weight in model.hf.parameters())),
        abilities=tuple(sorted(model.abilities)),
        measured=tuple(measurement for own in answers for measurement in own),
        opening=model.opening.written,
        doubt=model.opening.doubt,
    )


def _reason(error: Exception) -> str:
    """An error as one line; one of ours says all that there is to say."""
    text = " ".join(str(error).split())[:_REASON]
    return text if isinstance(error, LevelheadError) else f"{type(error).__name__}: {text}".rstrip(": ")
