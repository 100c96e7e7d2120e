"""A study, declared once: what it is called, what can be set, what it finds (docs/architecture.md).

    class Planted(Study[PlantedStored]):
        name = "planted"
        settings_type = PlantedSettings
        trials = Parts(PlantTrial, "Every localizer on every planted copy.")
        summary = Many(PlantSummary, "Means over seeds.")

An object of the class is a run of the study: `Planted.open(folder).summary`. The class itself names the
results for those who write them: `run.results(Planted.summary, ...)`. How it is found (run.py) and shown
(chapter.py) lies beside the declaration and is imported when it is needed.
"""

from __future__ import annotations

import pkgutil
import shutil
import sys
import weakref
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import mkdtemp
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Self, TypeVar, overload

from levelhead.options import Settings
from levelhead.runs.common import About, PlacedModel
from levelhead.runs.files import CsvFile, JsonFile, TextFile
from levelhead.runs.folder import LOCK, SETTINGS, RunData, read_run
from levelhead.runs.folder import Key as Key
from levelhead.runs.records import Record
from levelhead.safe_files import check_tree, new_folder, subfolder

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

R = TypeVar("R")
Owner = TypeVar("Owner")
F = TypeVar("F")

# facts that stand beside the hashes of a run, by which readers know that two runs are about the same
WEIGHTS_HASH = "weights"  # of a model, in every run of one model
WORDS_HASH = "words"  # of the word list, in audits and runs of heads
OPENING_FACT = "opening"  # what every text began with: <bos>, [CLS], "query: ", none; no hash, but held alike
DOUBT_FACT = "doubt"  # why no verdict may rest on a model's numbers; only where there is a doubt

PLACES = CsvFile("places.csv", PlacedModel)
ABOUT = JsonFile("about.json", About)  # where somebody filled it in
REPORT = TextFile("report.html")
SHARDS = "shards"  # a folder that is there while workers read what takes long; nobody else reads it
RECIPES = "recipes"  # a folder of TOML files, and the pairs that they name
FIGURES = "figures"  # a folder of SVG files


# ---- what is stored of the settings


@dataclass(frozen=True)
class LoadedAs(Record):
    """How the models of a run were loaded, as far as it changes numbers or whether they load at all."""

    dtype: str | None = None  # that was requested; None: levelhead's choice
    allow_pickle: bool = False
    trust_remote_code: bool = False
    in_python: bool = False  # in memory already, edited, or each in another way


@dataclass(frozen=True, kw_only=True)
class Stored(Record):
    """What settings.json has beside a study's settings: which models, and what follows from that.

    A study's stored settings inherit from this first and from its settings then, so that a setting is
    declared once; what they add follows from the model and the data.
    """

    study: str = ""
    models: tuple[str, ...] = ()  # by name, or the runs that were compared
    in_memory: tuple[str, ...] = ()  # settings that Python made, and no command can name
    loading: LoadedAs = LoadedAs()

    def __post_init__(self) -> None:
        """What was stored has been checked, and what files and registries hold may differ by now."""

    @property
    def model(self) -> str:
        """The model, or the models."""
        return ", ".join(self.models)


K = TypeVar("K", bound=Stored)


def stored_as(kind: type[K], settings: Settings, **more: Any) -> K:
    """Settings as a run stores them. more: what follows from the model and the data, and values in place of
    those that only memory holds."""
    known = {each.name for each in fields(kind)}
    own = {each.name: _plain(getattr(settings, each.name)) for each in fields(settings) if each.name in known}
    return kind(**{**own, **more})


def _plain(value: Any) -> Any:
    """Paths as texts."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    return str(value) if isinstance(value, Path) else value


S = TypeVar("S", bound=Stored)


# ---- what a study finds


class Kept(ABC, Generic[Owner, F]):
    """What a result has under the attribute's name; of its class it is this declaration."""

    name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, result: None, owner: Any) -> Self: ...
    @overload
    def __get__(self, result: Owner, owner: Any) -> F: ...
    def __get__(self, result: Owner | None, owner: Any) -> Self | F:
        return self if result is None else self.found(result)

    @abstractmethod
    def found(self, result: Owner) -> F:
        """What this result has."""


class _Slot(Kept["Study[Any]", F], Key[R], Generic[F, R]):
    """Where results of one kind are kept."""

    def __init__(self, record: type[R], about: str = "") -> None:
        super().__init__("", record)
        self.__doc__ = about


class One(_Slot[R | None, R]):
    """A result that is one record; None where it is not there (yet)."""

    def found(self, result: Study[Any]) -> R | None:
        """The record."""
        return next(iter(result.data.records(self)), None)


class Many(_Slot[tuple[R, ...], R]):
    """A result of several records."""

    def found(self, result: Study[Any]) -> tuple[R, ...]:
        """The records."""
        return result.data.records(self)


class Parts(_Slot[tuple[R, ...], R]):
    """Results of one kind, of which a run has several, each with a label: all their records."""

    def of(self, label: str) -> Key[R]:
        """The result with this label."""
        return Key(f"{self.name}/{label}", self.record)

    def found(self, result: Study[Any]) -> tuple[R, ...]:
        """All records, whatever their labels."""
        return tuple(each for part in result.data.labeled(self.name).values() for each in part)


P = TypeVar("P", bound="Study[Any]")


class Inside(Kept["Study[Any]", P | None], Generic[P]):
    """The run of another study inside the run's folder; None where there is none."""

    def __init__(self, study: type[P], folder: str = "") -> None:
        self.study, self.folder = study, folder

    def __set_name__(self, owner: type, name: str) -> None:
        super().__set_name__(owner, name)
        self.folder = self.folder or name

    def found(self, result: Study[Any]) -> P | None:
        """The run, opened once."""
        if self.name not in result.opened:
            folder = subfolder(result.folder, self.folder)
            there = (folder / SETTINGS).is_file()
            result.opened[self.name] = self.study.open(folder, result.scratch) if there else None
        opened: P | None = result.opened[self.name]
        return opened


class Scratch:
    """A folder in the machine's temporary place, removed when the last result that reads it is gone."""

    def __init__(self) -> None:
        self.path = Path(mkdtemp(prefix="levelhead-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


# ---- studies


class Result(ABC):
    """What every result can do, a run or another: be a data frame, a chart, a table in a notebook."""

    @property
    @abstractmethod
    def caption(self) -> str:
        """What stands above the table."""

    @abstractmethod
    def lines(self) -> Sequence[dict[str, Any]]:
        """The table: one line a record, cells by the names of their columns."""

    @abstractmethod
    def chart(self) -> Any:
        """The chart that says most about it."""

    @property
    @abstractmethod
    def link(self) -> Any:
        """Where to read on: its place on a page, or the document that explains it."""

    def to_frame(self) -> pd.DataFrame:
        """The table as a pandas data frame."""
        return _shown().frame_of(self.lines())

    def plot(self) -> alt.TopLevelMixin:
        """An altair chart, which notebooks draw; `.save("chart.svg")` writes it."""
        drawn: alt.TopLevelMixin = _shown().drawn(self.chart())
        return drawn

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.caption}>"


@dataclass(frozen=True, repr=False, eq=False)
class Study(Result, Generic[S]):
    """A study as a class, and a run of it as an object."""

    name: ClassVar[str]  # the command, the function, the chapter's anchor, the run's kind: one word
    title: ClassVar[str]  # of its chapter
    question: ClassVar[str]
    about: ClassVar[str]  # one sentence: the help of the command
    settings_type: ClassVar[type[Settings]]
    stored: ClassVar[type[Stored]]
    takes: ClassVar[Literal["model", "models", "runs", "model or none", "nothing"]] = "model"
    order: ClassVar[int] = 85  # of commands and chapters
    grows: ClassVar[str] = ""  # a list in the settings, which a finished run can extend
    writes_page: ClassVar[bool] = False  # whether its command writes report.html
    document: ClassVar[str] = ""  # in docs/, that explains its results
    default_folder: ClassVar[str] = ""
    default_model: ClassVar[str] = ""
    says: ClassVar[tuple[str, ...]] = ()  # attributes that --json prints; none: every result
    brief: ClassVar[bool] = False  # whether a terminal leaves the tables of its page to the page
    rows: ClassVar[tuple[str, ...]] = ()  # attributes whose records are its table; none: chapter.lines
    old_name: ClassVar[str] = ""  # of the command in version 0.2
    loads: ClassVar[bool] = True  # whether its models are loaded for it; False: it takes names too
    unserved: ClassVar[str] = "it reads the network itself"  # why no server will do; empty where one does
    lists: ClassVar[bool] = False  # whether its command has --list: listing(settings) of run.py
    slots: ClassVar[Mapping[str, _Slot[Any, Any]]] = {}
    inside: ClassVar[Mapping[str, Inside[Any]]] = {}

    data: RunData[S]
    scratch: Scratch | None = field(default=None, compare=False)  # holds a temporary folder

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        every = {name: each for base in reversed(cls.__mro__) for name, each in vars(base).items()}
        cls.slots = {name: each for name, each in every.items() if isinstance(each, _Slot)}
        cls.inside = {name: each for name, each in every.items() if isinstance(each, Inside)}
        cls.command = f"levelhead {cls.spelled()}" if hasattr(cls, "name") else ""

    # -- the declaration

    @classmethod
    def record_of(cls, key: str) -> type[Any] | None:
        """The type of the records under a key; None for a key that the study does not use."""
        name, slash, _ = key.partition("/")
        slot = cls.slots.get(name)
        return slot.record if slot is not None and isinstance(slot, Parts) == bool(slash) else None

    @classmethod
    def part(cls, name: str) -> ModuleType:
        """A part of the study that lies beside its declaration: run, chapter."""
        return import_module(f"{cls.__module__}.{name}")

    @classmethod
    def spelled(cls) -> str:
        """The name as the command has it."""
        return cls.name.replace("_", "-")

    # what a run folder knows of its study
    command: ClassVar[str] = ""  # levelhead NAME

    # -- a run

    @classmethod
    def open(cls, folder: str | Path, scratch: Scratch | None = None) -> Self:
        """The run of this study in a folder."""
        return cls(read_run(folder, [cls]), scratch)

    @cached_property
    def opened(self) -> dict[str, Any]:
        """Runs inside the folder that were opened."""
        return {}

    @property
    def folder(self) -> Path:
        """Where the run lies."""
        return self.data.folder

    @property
    def settings(self) -> S:
        """What was evaluated, and on which model."""
        return self.data.settings

    @property
    def model(self) -> str:
        """The model, or the models, that were evaluated."""
        return self.settings.model

    @property
    def parts(self) -> dict[str, Study[Any]]:
        """The runs inside this one, by their names."""
        found = {name: getattr(self, name) for name in self.inside}
        return {name: run for name, run in found.items() if run is not None}

    @property
    def finished(self) -> bool:
        """Whether every result of the settings is there."""
        return all(key in self.data.results for key in self.slots if not isinstance(self.slots[key], Parts))

    @property
    def weights(self) -> str | None:
        """The hash of the model's weights; None for a run about several models."""
        return self.data.hashes.get(WEIGHTS_HASH)

    @property
    def openings(self) -> dict[str, str]:
        """What every text began with, for each model that was evaluated."""
        return self._said(OPENING_FACT)

    @property
    def doubts(self) -> dict[str, str]:
        """Why no verdict may rest on the numbers of a model, for each model of which that is so."""
        return self._said(DOUBT_FACT)

    def _said(self, fact: str) -> dict[str, str]:
        of = f"{fact} of "
        own = {self.model: self.data.hashes[fact]} if fact in self.data.hashes else {}
        return own | {
            name.removeprefix(of): value for name, value in self.data.hashes.items() if name.startswith(of)
        }

    @property
    def recipe_texts(self) -> dict[Path, str]:
        """The recipe files of the folder with their texts, in the order of their names."""
        paths = sorted((self.folder / RECIPES).glob("*.toml"))
        return {path: TextFile(f"{RECIPES}/{path.name}").read(self.folder) or "" for path in paths}

    # -- a result

    @property
    def caption(self) -> str:
        """What stands above the table: the model and the command."""
        return f"{self.model}: {self.command}"

    def stated(self) -> dict[str, Any]:
        """What `--json` prints; results that are not there are left out."""
        names = self.says or tuple(self.slots)
        found = {
            "run": str(self.folder),
            "model": self.model,
            **{name: getattr(self, name) for name in names},
        }
        return {name: value for name, value in found.items() if value not in (None, (), [])}

    @classmethod
    def instead(cls, settings: Any) -> tuple[type[Study[Any]], Any]:
        """The study that answers these settings: this one, or another that they ask for."""
        return cls, settings

    def notes(self) -> list[str]:
        """What the command prints below the results."""
        return [f"Results: {self.folder}"]

    def check_measured(self) -> None:
        """CannotDo where nothing of the settings could be measured; the command fails with it."""

    def lines(self) -> list[dict[str, Any]]:
        if self.rows:
            return [_shown().line_of(each) for name in self.rows for each in getattr(self, name)]
        return list(self.part("chapter").lines(self))

    def chart(self) -> Any:
        return self.part("chapter").chart(self)

    def save(self, folder: str | Path) -> Path:
        """Copy the run into a new folder, which appears whole or not at all: what `levelhead report`,
        `check`, `card` and `compare` read."""
        with new_folder(folder) as work:
            copy_run(self.folder, work)
        return Path(folder)

    @property
    def link(self) -> Any:
        """Where to read on: its chapter on the page of its run, or the document that explains it."""
        found: Any = import_module("levelhead.pages.links").run_link(self)
        return found

    def _repr_html_(self) -> str:
        return str(_shown().run_html(self))


def _shown() -> ModuleType:
    """How results are drawn, imported when one is: charts and pages take a second."""
    return import_module("levelhead.api.shown")


AnyRun = Study[Any]
GROUP = "levelhead.studies"  # the entry points by which packages bring studies
_RESERVED = ("models", "cache", "finetune", "settings", "readings")  # commands and modules
_SAID = ("name", "title", "question", "about", "settings_type", "stored")  # what every declaration says


# ---- every study that is there


def studies() -> dict[str, type[Study[Any]]]:
    """Every study by its name: the folders of levelhead/studies, and those of installed packages."""
    return _found()[0]


def unusable_studies() -> dict[str, str]:
    """Studies of packages that cannot be used: one line each, by the name that the package has for it."""
    return _found()[1]


@cache
def _found() -> tuple[dict[str, type[Study[Any]]], dict[str, str]]:
    place = import_module("levelhead.studies")
    folders = [each.name for each in pkgutil.iter_modules(place.__path__) if each.ispkg]
    found = [study for name in folders for study in declared_in(import_module(f"levelhead.studies.{name}"))]
    unusable = {}
    for entry in entry_points(group=GROUP):
        try:
            with redirect_stdout(sys.stderr):  # a plug-in that prints must not stand in what --json prints
                loaded = entry.load()  # a class, or a module that declares one
            if isinstance(loaded, ModuleType):
                declared = declared_in(loaded)
                if len(declared) != 1:
                    raise TypeError(
                        f"{loaded.__name__} declares {len(declared)} studies; an entry point names one"
                    )
                loaded = declared[0]
            if not (isinstance(loaded, type) and issubclass(loaded, Study)):
                raise TypeError(f"{loaded!r:.60} is no Study")
            if missing := [name for name in _SAID if not hasattr(loaded, name)]:
                raise TypeError(f"{loaded.__name__} does not say {', '.join(missing)}")
            study: type[Study[Any]] = loaded
            if study.name in (
                *_RESERVED,
                *import_module("levelhead")._PUBLIC,
                *(each.name for each in found),
            ):
                raise TypeError(f"levelhead has something else that is called {study.name}")
        except (Exception, SystemExit) as error:
            package = entry.dist.name if entry.dist is not None else entry.value
            fault = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            unusable[entry.name] = (
                f"The study {entry.name!r} of the package {package} cannot be used ({fault}). "
                "Update or uninstall that package."
            )
        else:
            found.append(study)
    return {study.name: study for study in sorted(found, key=lambda each: (each.order, each.name))}, unusable


def declared_in(module: ModuleType) -> list[type[Study[Any]]]:
    """The studies that a module itself declares."""
    own = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, Study)]
    return [each for each in own if each.__module__ == module.__name__]


def copy_run(folder: Path, into: Path) -> None:
    """Copy a run into a folder of this process."""
    check_tree(folder.resolve())
    shutil.copytree(folder, into, dirs_exist_ok=True, ignore=shutil.ignore_patterns(LOCK))


def open_run(folder: str | Path) -> Study[Any]:
    """Any run, as the object of its study."""
    known = studies()
    data = read_run(folder, known.values())
    return known[data.study.name](data)
