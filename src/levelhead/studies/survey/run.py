"""Many models on the same questions: every model on every bias is a task, and one table ranks them.

A task is the battery of an audit, in sizes that do not depend on the model, and a file that appears whole: a
killed survey goes on behind the last one, and a survey of more models asks only the new ones. A model that
fails is a line with its reason, and is tried again by the next survey.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Unpack

from levelhead.engine.effort import speed_of, tokens_of
from levelhead.engine.jobs import held_alone, worker_device
from levelhead.engine.ray_workers import Crew, crew
from levelhead.engine.served.writing import requests_plan
from levelhead.engine.shipping import Shipment
from levelhead.errors import BadOption, BadRun, LevelheadError, UnknownModel
from levelhead.inference.ranking import survey_differences, survey_lines
from levelhead.models.catalog import find_local
from levelhead.models.model import Model, load
from levelhead.models.placement import LoadOptions, placement
from levelhead.models.served import ServedModel, is_served, served
from levelhead.models.sources import trust_of
from levelhead.pages.page import write_report
from levelhead.probes.bias import data_hash, declared
from levelhead.probes.files import read_text
from levelhead.probes.words import Words, in_memory, load_words, words_name
from levelhead.progress import Plan, Stage, announce, duration, planning, steps
from levelhead.runs.common import training_step
from levelhead.runs.files import file_label
from levelhead.runs.folder import Run
from levelhead.runs.presets import BENCHMARK_ITEMS
from levelhead.runs.study import LoadedAs, stored_as
from levelhead.safe_files import write_inside
from levelhead.scoring.battery import Battery
from levelhead.scoring.benchmarks.questions import benchmark_hashes, benchmark_questions
from levelhead.scoring.placed import SERVERS, keeping_long_work, loaded_as, loaded_by
from levelhead.scoring.registry import (
    Question,
    load_measures,
    own_files,
    own_hashes,
    own_in_memory,
    own_questions,
    questions,
)
from levelhead.scoring.seat import word_table
from levelhead.studies.audit.extent import Extent, battery_of
from levelhead.studies.audit.plan import STAGES, questions_plan
from levelhead.studies.audit.settings import AuditSettings
from levelhead.studies.survey import DIFFERENCES, PARQUET, TABLE, TASKS, Survey, task_label
from levelhead.studies.survey.records import SurveyTask
from levelhead.studies.survey.settings import SurveySettings, SurveyStored

_NO_WORKERS: LoadOptions = {
    **{"workers": None, "gpus_per_worker": None, "ray": None},
    **{"ship_model": None, "driver_weights": None},
}
_REASON = 300  # characters
_LONGEST = 8_192  # characters: twice the longest path of any system
_GIVE = "Give a text file with one model per line."
AnyModel = Model | ServedModel | str | Path
Models = AnyModel | Sequence[AnyModel]
Open = Run[SurveyStored]


def questions_of(settings: SurveySettings) -> tuple[Question, ...]:
    """The questions of the settings; a measure that is not there is refused."""
    published = {question.name: question for question in published_of(settings)}
    known = {question.name: question for question in questions()} | published
    if unknown := [name for name in settings.measures if name not in known]:
        raise BadOption(f"There is no measure {unknown[0]!r} in a survey. Known: {', '.join(known)}.")
    return tuple(known[name] for name in dict.fromkeys((*(settings.measures or known), *published)))


def published_of(settings: SurveySettings) -> tuple[Question, ...]:
    """Published benchmarks that are evaluated too."""
    return benchmark_questions(settings.benchmarks, BENCHMARK_ITEMS)


def survey(
    models: Models, settings: SurveySettings | None, folder: str | Path, **loading: Unpack[LoadOptions]
) -> Survey:
    """Ask many models about many biases: `survey(["lh:bert-mini", "lh:gpt-mini"], None, "runs/survey")`.

    models: names, loaded models, models behind servers, text files with a name a line, folders of
    checkpoints.
    loading: device, dtype ..., as for `load`.
    """
    settings = settings or SurveySettings()
    for file in settings.own_measures:
        load_measures(file)
    questions_of(settings)  # a measure that is not there is said before a model is loaded
    placed = placement(loading)  # a wrong option is one line at once, and not a failure of every model
    named = _named(models, loading)
    local: LoadOptions = {**loading, "replay": None, "connections": None}
    alone: LoadOptions = {**local, "device": worker_device(placed), **_NO_WORKERS}
    with (
        _opened(Path(folder), named, settings, loading) as run,
        steps("Survey", len(named) * len(settings.biases)) as advance,
    ):
        left, announced = dict(named), False
        servers = [model for model in named.values() if isinstance(model, ServedModel)]
        local_names = [name for name, model in named.items() if not isinstance(model, ServedModel)]

        def opened(model: Model | str) -> Model:
            nonlocal announced
            subject = load(model, **local) if isinstance(model, str) else model
            if not announced:
                announced = True
                announce(
                    lambda: _requests(run, servers, settings) + _times(run, local_names, settings, subject)
                )
            return subject

        here = [model for model in named.values() if not isinstance(model, ServedModel)]
        if not here:
            announce(lambda: _requests(run, servers, settings))
        elif planning():  # the first model says how fast all are
            opened(here[0])
        if placed.workers is not None:
            for task in _tasks_of_workers(run, named, settings, crew(placed.workers), alone):
                run.file(TASKS.of(task_label(task.model, task.bias)), task)
                advance(1)
            left = {name: model for name, model in named.items() if not isinstance(model, str)}
        for name, model in left.items():
            for task in (
                _tasks_of_server(run, model, settings)
                if isinstance(model, ServedModel)
                else _tasks(run, name, model, settings, opened)
            ):
                run.file(TASKS.of(task_label(task.model, task.bias)), task)
            advance(len(settings.biases))
        result = Survey(run.data())
        lines = survey_lines(result)
        run.file(TABLE, lines)
        run.file(DIFFERENCES, survey_differences(result))
        whole = dict.fromkeys(("step", "n", "rank"), "Int64")
        numbers = dict.fromkeys(("value", "low", "high", "neutral", "size"), "float64")
        try:  # for programs that read Parquet: none, and no older one, without pandas and pyarrow
            import pandas

            frame = pandas.DataFrame.from_records([asdict(line) for line in lines])
            frame = frame.astype({**whole, **numbers})
            place = run.folder.absolute()  # pyarrow takes a folder called `lh:` for an address
            write_inside(place, PARQUET, lambda work: frame.to_parquet(work, engine="pyarrow"))
        except ImportError:
            (run.folder / PARQUET).unlink(missing_ok=True)
    write_report(result.folder)
    return result


# ---- which models


def _named(models: Models, loading: LoadOptions) -> dict[str, Model | ServedModel | str]:
    """The models of a survey by their names: those in memory and behind servers, and names of all others."""
    named: dict[str, Model | ServedModel | str] = {}
    replay = loading.get("replay")
    for model in [models] if isinstance(models, Model | ServedModel | str | Path) else models:
        if isinstance(model, Model | ServedModel):
            named[model.name] = model
            continue
        for name in listed_models(str(model)):
            named[name] = name
            if is_served(name):
                named[name] = served(
                    name, None if replay is None else str(replay), loading.get("connections")
                )
    if not named:
        raise BadOption(
            "At least one model must be given: names, a text file with one per line, or a folder of "
            "checkpoints."
        )
    if replay and not any(isinstance(model, ServedModel) for model in named.values()):
        raise BadOption(
            f"--replay is for models behind a server, and there is none here (got {str(replay)!r})"
        )
    return named


def listed_models(source: str) -> Iterator[str]:
    """The models that a source names: those of a text file or of a folder of checkpoints, else itself."""
    if len(source) > _LONGEST:
        raise BadOption(f"{source[:40]!r} ... has {len(source):,} characters; that names no model. {_GIVE}")
    path = _existing(source)
    if path is None or not path.is_file() or path.suffix != ".txt":
        yield from _in_folder(source)
        return
    for line in read_text(path, _GIVE, BadOption).splitlines():
        if name := line.partition("#")[0].strip():
            yield from _in_folder(name)


def _in_folder(name: str) -> Iterable[str]:
    """The models in a folder, in the order of their steps: folders with a configuration or a step in their
    name, and .gguf files. A name that is no such folder stands for itself."""
    path = _existing(name)
    if path is None or not path.is_dir() or (path / "config.json").exists():
        return [name]

    models = [
        each
        for each in path.iterdir()
        if each.suffix == ".gguf"
        or (each.is_dir() and ((each / "config.json").exists() or training_step(each.name) is not None))
    ]
    steps_of = {each: training_step(str(each)) for each in models}
    places = sorted(
        ("" if at is None else at.run, 0 if at is None else at.step, path.name, str(path))
        for path, at in steps_of.items()
    )
    return [path for *_, path in places] or [name]


def _existing(name: str) -> Path | None:
    """The file or folder of that name, if there is one; a name that is too long for one has none."""
    try:
        path = Path(name).expanduser()
        return path if name and path.exists() else None
    except (OSError, RuntimeError):
        return None


# ---- how long it takes


def _times(run: Open, named: Collection[str], settings: SurveySettings, model: Model) -> Plan:
    """All tasks that are not done, if every model is as fast as this one, and what is shorter.

    Published benchmarks and measures of a user's own are not in it.
    """
    left = Counter(
        words_name(bias)
        for name in named
        for bias in settings.biases
        if _stored(run, name, words_name(bias)) is None
    )
    try:
        speed, totals = speed_of(model), list[Plan]()
        for sized in (settings, replace(settings, quick=True)):
            stages = {STAGES.get(question.name, Stage.OWN) for question in questions_of(sized)}
            total = 0.0
            for bias in (bias for bias in sized.biases if left[words_name(bias)]):
                extent = Extent(AuditSettings(bias, seed=sized.seed, sizes=sized.all_sizes), model)
                battery = extent.battery()
                plan = questions_plan(extent, battery, [model])
                plan[Stage.WORDS] = tokens_of(model, word_table(battery.test, battery.contexts).each())
                total += left[words_name(bias)] * sum(plan.get(each, 0.0) for each in stages)
            totals.append(speed.plan(total))
        whole, quick = totals
    except Exception:  # a model or a word list that cannot be asked at all: its task says why
        return Plan()
    said = [f"estimated by {model.name}, one of {len(named)} models"] if len(named) > 1 else []
    said += [f"--quick takes about {duration(quick.seconds)}"] if quick.seconds < whole.seconds else []
    return replace(whole, shorter="; ".join(said))


# ---- asking


def _opened(
    folder: Path,
    named: Mapping[str, Model | ServedModel | str],
    settings: SurveySettings,
    options: LoadOptions,
) -> Open:
    # models that are names are loaded as the options say; models in memory stay as they are
    given = [model for model in named.values() if isinstance(model, Model)]
    loading = loaded_as(given) if len(given) == len(named) else LoadedAs(in_python=True)
    loading = loading if given else loaded_by(options)
    stored = stored_as(
        SurveyStored,
        settings,
        study=Survey.name,
        models=tuple(named),
        biases=tuple(map(words_name, settings.biases)),
        all_sizes=settings.all_sizes,
        in_memory=tuple(
            name
            for name, there in {
                "biases": any(map(in_memory, settings.biases)),
                "own_measures": own_in_memory(),
            }.items()
            if there
        ),
        own_measures=own_files(),
        questions=tuple(question.name for question in questions_of(settings)),
        dtype=loading.dtype,
        loading=loading,
    )
    hashes = {f"words {words_name(bias)}": data_hash(load_words(bias)) for bias in settings.biases}
    hashes |= {**own_hashes(), **benchmark_hashes(published_of(settings))}
    run = Run.open(folder, Survey, stored, hashes=hashes)
    own = [info for question in (*own_questions(), *published_of(settings)) for info in question.measures]
    run.results(Survey.measures, lambda: own)
    return run


def _tasks(
    run: Open, name: str, model: Model | str, settings: SurveySettings, opened: Callable[[Model | str], Model]
) -> Iterator[SurveyTask]:
    """The tasks of one model that are not done yet; it is loaded once for all of them."""
    stored = [(bias, _stored(run, name, words_name(bias))) for bias in settings.biases]
    done = [task for _, task in stored]
    left = [bias for bias, task in stored if task is None]
    if not left:
        return
    try:
        subject = opened(model)
    except BadOption:
        raise
    except Exception as error:  # a folder can be broken in any way, and the other models must not be lost
        yield from (SurveyTask(name, words_name(bias), reason=_reason(error)) for bias in left)
        return
    _check_same(run, done, name, (subject.fingerprint, subject.opening.written))
    for bias in left:
        yield _task(subject, name, bias, settings)


def _battery(settings: SurveySettings, bias: Words) -> Battery:
    """The items of a model behind a server: nobody knows which contexts its tokenizer cannot take."""
    given = AuditSettings(bias, seed=settings.seed, sizes=settings.all_sizes)
    return battery_of(declared(load_words(bias)), (), given, settings.all_sizes)


def _tasks_of_server(run: Open, model: ServedModel, settings: SurveySettings) -> Iterator[SurveyTask]:
    """The tasks of a model behind a server that are not done yet; its answers have a folder of their own."""
    left = [bias for bias in settings.biases if _stored(run, model.name, words_name(bias)) is None]
    if not left:
        return
    try:
        with keeping_long_work(run, [model], apart=True):
            for bias in left:
                battery = _battery(settings, bias)
                measured = [each.of_server(model, battery) for each in questions_of(settings)]
                yield SurveyTask(
                    model=model.name,
                    bias=words_name(bias),
                    weights=model.facts()["server"],
                    abilities=tuple(sorted(model.abilities)),
                    measured=tuple(measurement for own in measured for measurement in own),
                )
    except BadOption:
        raise
    except LevelheadError as error:  # the other models must not be lost
        yield from (
            SurveyTask(model.name, words_name(bias), reason=_reason(error))
            for bias in left
            if _stored(run, model.name, words_name(bias)) is None
        )


def _requests(run: Open, servers: Sequence[ServedModel], settings: SurveySettings) -> Plan:
    """What servers are sent, at most."""
    plan = Plan(shorter="--quick takes fewer items" if servers and not settings.quick else "")
    for model in servers:
        left = [bias for bias in settings.biases if _stored(run, model.name, words_name(bias)) is None]
        on_servers = [each.on_server for each in questions_of(settings) if each.on_server is not None]
        wanted = [
            w for bias in left for each in on_servers for w in each.wanted(model, _battery(settings, bias))
        ]
        plan += (
            requests_plan(model, wanted, run.folder / SERVERS / file_label(model.name)) if left else Plan()
        )
    return plan


def _tasks_of_workers(
    run: Open, named: Mapping[str, AnyModel], settings: SurveySettings, workers: Crew, options: LoadOptions
) -> Iterator[SurveyTask]:
    """The tasks of models that are named, as far as they are not done yet: a worker each, in order."""
    # by name, as a worker may know other measures
    named_measures = replace(settings, measures=tuple(question.name for question in questions_of(settings)))
    names = [name for name, model in named.items() if isinstance(model, str)]
    pairs = [(name, bias) for name in names for bias in settings.biases]
    left = [(name, bias) for name, bias in pairs if _stored(run, name, words_name(bias)) is None]
    sent: dict[str, Shipment | None] = {}
    for name in names:
        try:
            found = find_local(name)
        except UnknownModel:  # which its worker says
            found = None
        sent[name] = workers.shipment(found[0] if found else None, trust_of(options))
    lists = {words_name(bias): load_words(bias) for bias in settings.biases}  # machines may not see files
    labels = [words_name(bias) for _, bias in left]
    calls = [
        (name, lists[label], named_measures, options, own_files(), sent[name])
        for (name, _), label in zip(left, labels, strict=True)
    ]
    for given, label in zip(workers.call(_task_of_worker, calls), labels, strict=True):
        task = replace(given, bias=label)
        done = [_stored(run, task.model, words_name(bias)) for bias in settings.biases]
        if not task.failed:
            _check_same(run, done, task.model, (task.weights, task.opening))
        yield task


def _task_of_worker(
    name: str,
    bias: Words,
    settings: SurveySettings,
    options: LoadOptions,
    measures: Sequence[str],
    files: Shipment | None,
) -> SurveyTask:
    """One task, in a process that was made for it."""
    for file in set(measures) - set(own_files()):
        load_measures(file)
    try:
        model = held_alone(name, options, files)
    except BadOption:
        raise
    except Exception as error:  # as where models are asked one after the other
        return SurveyTask(name, words_name(bias), reason=_reason(error))
    return _task(model, name, bias, settings)


def _check_same(run: Open, done: Iterable[SurveyTask | None], name: str, now: tuple[str, str]) -> None:
    """Refuse results of another model of this name; now: its weights, and what its texts begin with."""
    if any((task.weights, task.opening) != now for task in done if task is not None):
        raise BadRun(
            f"{name} is another model than the one that {run.folder} has results of. Give a new folder."
        )


def _stored(run: Open, model: str, bias: str) -> SurveyTask | None:
    """A task that is done; one that failed is not."""
    task = TASKS.of(task_label(model, bias)).read(run.folder)
    return None if task is None or task.failed else task


def _task(model: Model, name: str, bias: Words, settings: SurveySettings) -> SurveyTask:
    try:
        # the same items of every model
        extent = Extent(AuditSettings(bias, seed=settings.seed, sizes=settings.all_sizes), model)
        battery = extent.battery()
        answers = [question.ask(model, [()], battery)[0] for question in questions_of(settings)]
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
