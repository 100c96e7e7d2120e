"""Every study as study(model, settings=None, folder=None) -> its run, made from its declaration.

A model is one that `load` gave, or a name for it. Without a folder nothing is written to a place of yours:
the run lies in a temporary folder that goes with its result, and `result.save(folder)` keeps it. With one, a
killed run goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, overload

from levelhead.errors import BadOption, CannotDo
from levelhead.models.model import Model, load
from levelhead.models.served import RUN_THERE, ServedModel, is_served, served
from levelhead.options import Settings, options
from levelhead.probes.words import Words
from levelhead.progress import Plan, Planned, planned, planning
from levelhead.runs.folder import SETTINGS
from levelhead.runs.study import Scratch, Study, copy_run, studies

Folder = str | Path | None
AnyModel = Model | str | Path  # loaded already, or by its name
AnyRunFolder = Study[Any] | str | Path
K = TypeVar("K")
S = TypeVar("S", bound=Settings, contravariant=True)
R = TypeVar("R", bound=Study[Any], covariant=True)


class StudyCall(Protocol[S, R]):
    """study(model, settings=None, folder=None), for type checkers; plan=True: what it takes"""

    @overload
    def __call__(
        self,
        model: Any = None,
        settings: S | Words | None = None,
        folder: Folder = None,
        *,
        plan: Literal[True],
    ) -> Plan: ...
    @overload
    def __call__(self, model: Any = None, settings: S | Words | None = None, folder: Folder = None) -> R: ...


def loaded(model: AnyModel) -> Model:
    """A model that is loaded already, or one by its name."""
    return model if isinstance(model, Model) else load(model)


def settings_of(kind: type[K], given: K | Words | None) -> K:
    """Settings: given ones, the usual ones, or the usual ones about a word list that came in their place."""
    if isinstance(given, kind):
        return given
    if given is None:
        return kind()
    if "bias" not in options(kind):
        raise BadOption(f"settings must be {kind.__name__} (got {type(given).__name__})")
    return kind(bias=given)  # type: ignore[call-arg]


def run_study(
    study: type[Study[Any]],
    models: Any,
    settings: Settings | None,
    folder: str | Path,
    loading: Mapping[str, Any] | None = None,
    **more: Any,
) -> Study[Any]:
    """Run a study in a folder. models: one or several, loaded or by name; loading: options of `load`."""
    if planning():
        if study.takes == "runs":
            raise Planned(Plan())
        scratch = Scratch()  # planning writes nothing where somebody keeps results
        there, folder = Path(folder).expanduser(), scratch.path / "run"
        if (there / SETTINGS).is_file():  # what is there is not planned again
            copy_run(there, folder)
    function = getattr(study.part("run"), study.name)
    declared = signature(function).parameters.values()
    options_of_load = dict(loading or {})
    # models behind a server in place of their names; refused where the study cannot use one
    several = models if isinstance(models, list | tuple) else [models]
    if remote := [each for each in several if is_served(each) or isinstance(each, ServedModel)]:
        if study.unserved:
            name = remote[0].name if isinstance(remote[0], ServedModel) else remote[0]
            raise CannotDo(f"{study.command} cannot use {name}: {study.unserved}. {RUN_THERE}.")
        placing = ("device", "dtype", "device_map", "max_memory", "batch_tokens", "workers")
        idle = [name for name in placing if options_of_load.get(name)]
        if idle and all(is_served(each) for each in several):
            raise BadOption(
                f"{idle[0]} changes nothing for {remote[0]}, which is behind a server. Leave it out."
            )
        replay, connections = options_of_load.get("replay"), options_of_load.get("connections")
        replay = None if replay is None else str(replay)
        several = [served(each, replay, connections) if is_served(each) else each for each in several]
        models = several if isinstance(models, list | tuple) else several[0]
    if any(each.kind is Parameter.VAR_KEYWORD for each in declared):
        more |= options_of_load  # the study loads its models itself, one after the other
    if study.takes in ("runs", "models") and isinstance(models, Model | str | Path | Study):
        models = [models]
    if study.takes == "runs":
        models = [each.folder if isinstance(each, Study) else each for each in models]
    if study.loads and study.takes == "models":
        models = [load(each, **options_of_load) if isinstance(each, str | Path) else each for each in models]
    elif study.loads and isinstance(models, str | Path):
        models = load(models, **options_of_load)
    found: Study[Any] = function(models, settings, folder, **more)
    if planning():
        raise Planned(Plan())  # nothing was left to do
    return found


@cache
def function_of(study: type[Study[Any]]) -> Callable[..., Any]:
    """The study as a function; with plan=True it says what it takes, and does nothing."""

    def called(
        model: Any = None, settings: Any = None, folder: Folder = None, plan: bool = False, **more: Any
    ) -> Study[Any] | Plan:
        if plan:
            return planned(lambda: called(model, settings, folder, **more))
        if model is None and study.takes in ("model", "models", "runs"):
            what = (
                "runs, or their folders"
                if study.takes == "runs"
                else "a model that levelhead.load gave, or its name"
            )
            raise BadOption(f"{study.name}() needs {what} (got None)")
        try:
            settings = settings_of(study.settings_type, settings)
        except (TypeError, BadOption):
            if settings is not None:
                raise  # without settings the study says itself what must be given
        answering, settings = (study, None) if settings is None else study.instead(settings)
        scratch = None
        if folder is None:
            scratch = Scratch()
            folder = scratch.path / "run"
        return answering(run_study(answering, model, settings, folder, **more).data, scratch)

    called.__name__ = called.__qualname__ = study.name
    called.__doc__ = study.about
    several: dict[str, Any] = {
        "runs": Sequence[AnyRunFolder],
        "models": AnyModel | Sequence[AnyModel]
        if study.unserved
        else AnyModel | ServedModel | Sequence[AnyModel | ServedModel],
        "model": AnyModel if study.unserved else AnyModel | ServedModel,
        "model or none": AnyModel | ServedModel | None,
    }
    called.__annotations__ = {
        "model": several.get(study.takes, AnyModel | None),
        "settings": study.settings_type | Words | None
        if "bias" in options(study.settings_type)
        else study.settings_type | None,
        "folder": Folder,
        "plan": bool,
        "return": study | Plan,
    }
    return called


# ---- calls of version 0.2, until 0.4


def measure_of_0_2(
    benchmark: str, model: Any = None, settings: Any = None, folder: Folder = None
) -> Study[Any]:
    """measure(benchmark, model, settings, folder) of version 0.2: `levelhead.benchmark` of today.

    A path may stand for the settings, and their first value was a path.
    """
    from levelhead.studies.benchmark import Benchmark
    from levelhead.studies.benchmark.settings import BenchmarkSettings

    if isinstance(settings, str | Path):
        settings = BenchmarkSettings(data=str(settings))
    given = settings_of(BenchmarkSettings, settings)
    today = replace(given, benchmark=benchmark, data=str(given.data or given.benchmark))
    found: Study[Any] = function_of(Benchmark)(model, today, folder)
    return found


def certify_of_0_2(model: Any = None, settings: Any = None, folder: Folder = None) -> Study[Any]:
    """certify(model, settings, folder) of version 0.2: `levelhead.mitigate` of today."""
    found: Study[Any] = function_of(studies()["mitigate"])(model, settings, folder)
    return found


def sweep_of_0_2(model: Any = None, settings: Any = None, folder: Folder = None) -> Study[Any]:
    """sweep(model, settings, folder) of version 0.2: `levelhead.projections` of today, with its settings."""
    study: Any = studies()["projections"]
    if not isinstance(settings, study.settings_type):
        raise BadOption(
            "sweep() takes no SweepSettings(nli, plan) any more. Use levelhead.projections(model, "
            f"levelhead.settings.{study.settings_type.__name__}(nli=...), folder)."
        )
    found: Study[Any] = function_of(study)(model, settings, folder)
    return found
