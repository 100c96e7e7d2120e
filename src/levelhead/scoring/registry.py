"""All questions that an audit asks: the built-in ones, and measures of a user's own (docs/own-measure.md)."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from levelhead.edits.sites import Variant
from levelhead.errors import BadOption, BadPlugin, LevelheadError
from levelhead.measures import catalog
from levelhead.measures.catalog import MeasureInfo, measure_info
from levelhead.measures.measurement import Measurement
from levelhead.models.model import Model
from levelhead.results.codec import as_json, record_from_json
from levelhead.results.folder import text_hash
from levelhead.scoring.battery import (
    FLUENCY,
    INFERENCE_MEASURES,
    TRIPLE_MEASURES,
    Answers,
    Battery,
    fluency_question,
    inference_question,
    lpbs_question,
    seat_question,
    triples_question,
)
from levelhead.scoring.lpbs import LPBS_TESTS
from levelhead.scoring.plugins import fault, guarded, load_installed

ENTRY_POINTS = "levelhead.measures"  # the group under which an installed package names its measures
Ask = Callable[[Model, Sequence[Variant], Battery], Answers]
_FILES = "levelhead_measures_"  # how the modules of such files are called
OwnAsk = Callable[[Model, Sequence[Variant]], Sequence[Measurement]]  # one measurement a variant


@dataclass(frozen=True)
class Question:
    """Measures that are asked together."""

    name: str
    measures: tuple[MeasureInfo, ...]
    ask: Ask

    @property
    def of_classifier(self) -> bool:
        """Whether it is put to an NLI classifier, where one stands beside the model."""
        return any("nli" in info.needs for info in self.measures)


def _infos(*names: str) -> tuple[MeasureInfo, ...]:
    return tuple(measure_info(name) for name in names)


SEAT = Question("seat", _infos("seat"), seat_question)
BUILT_IN: tuple[Question, ...] = (
    SEAT,
    Question("lpbs", _infos(*(f"lpbs {test}" for test in LPBS_TESTS)), lpbs_question),
    Question("triples", _infos(*TRIPLE_MEASURES), triples_question),
    Question("inference", _infos(*INFERENCE_MEASURES), inference_question),
    Question("fluency", _infos(FLUENCY, f"{FLUENCY} change"), fluency_question),
)


def questions() -> tuple[Question, ...]:
    """All questions: the built-in ones, then a user's own in the order of their registration."""
    return (*BUILT_IN, *own_questions())


def own_questions() -> tuple[Question, ...]:
    """Questions of a user's own, those of installed packages among them."""
    _load_installed()
    return tuple(Question(own.info.name, (own.info,), own) for own in _registered())


def own_hashes() -> dict[str, str]:
    """A hash of each own measure's source, so that a run with another definition is another run."""
    _load_installed()
    return {f"measure {own.info.name}": own.source_hash for own in _registered()}


# ---- a user's own


@dataclass(frozen=True)
class _Own:
    """A measure of a user's own as a question. Whatever goes wrong inside it is a reason, not a crash: the
    other numbers of a long audit must not be lost."""

    info: MeasureInfo
    ask: OwnAsk

    def __call__(self, model: Model, variants: Sequence[Variant], _: Battery) -> Answers:
        if not model.abilities.intersection(self.info.needs):
            reason = f"it asks a model that can do {' or '.join(self.info.needs)}; {model.name} cannot"
            return self._missing(reason, len(variants))
        try:
            with guarded(self.file, BadPlugin):
                answers = [[self._checked(each)] for each in self.ask(model, variants)]
                if len(answers) != len(variants):
                    raise ValueError(f"{len(answers)} measurements came for {len(variants)} variants")
        except LevelheadError as error:
            return self._missing(fault(error, None), len(variants))
        return answers

    def _missing(self, reason: str, variants: int) -> Answers:
        return [[Measurement.missing(self.info.name, reason, neutral=self.info.neutral)]] * variants

    def _checked(self, measurement: Measurement) -> Measurement:
        """The measurement under its registered name, if it can be stored: finite numbers, plain settings."""
        if not isinstance(measurement, Measurement):
            raise TypeError(f"a {type(measurement).__name__} came instead of a Measurement")
        neutral = self.info.neutral if measurement.neutral is None else measurement.neutral
        named = replace(measurement, name=self.info.name, neutral=neutral)
        return record_from_json(Measurement, as_json(Measurement, named))

    @property
    def source_hash(self) -> str:
        """A hash of the function's text; of its name where there is no text."""
        try:
            return text_hash(inspect.getsource(self.ask))
        except (OSError, TypeError):
            return text_hash(self.place)

    @property
    def file(self) -> str | None:
        """The file that the function stands in, where there is one."""
        try:
            return inspect.getsourcefile(self.ask)
        except TypeError:  # a callable object
            return None

    @property
    def place(self) -> str:
        """The module and the name of the function."""
        name = getattr(self.ask, "__qualname__", type(self.ask).__qualname__)
        return f"{getattr(self.ask, '__module__', '')}.{name}"


_OWN: dict[str, _Own] = {}
_INSTALLED: set[str] = set()  # names of those that installed packages brought along


def _registered() -> list[_Own]:
    """All of them by now: another thread may register one meanwhile."""
    return list(_OWN.values())


def register_measure(info: MeasureInfo, ask: OwnAsk) -> None:
    """Add a measure to every audit, report, check, comparison and card.

    ask(model, variants) gives one Measurement a variant, in their order. An error inside it is reported as
    "not measured", with the reason. A name is taken once; the same function defined anew replaces itself.
    """
    built_in = {known.name for known in (*catalog.BUILT_IN, *(m for q in BUILT_IN for m in q.measures))}
    if info.name in built_in:
        raise BadOption(f"The name {info.name!r} belongs to a built-in measure. Give yours another name.")
    if not info.name.strip() or "=" in info.name:
        raise BadOption(f"{info.name!r} is no name for a measure: it needs a text without '='.")
    own = _Own(info, ask)
    if (earlier := _OWN.get(info.name)) is not None and earlier.place != own.place:
        raise BadOption(
            f"Two measures are called {info.name!r}: {earlier.place} and {own.place}. Rename one of them."
        )
    _OWN[info.name] = own


def own_files() -> tuple[str, ...]:
    """The files that `load_measures` has read, for processes that are to ask the same."""
    modules = (sys.modules.get(getattr(own.ask, "__module__", "")) for own in _registered())
    files = (str(m.__file__) for m in modules if m is not None and m.__name__.startswith(_FILES))
    return tuple(dict.fromkeys(files))


def own_in_memory() -> bool:
    """Whether measures were registered by neither a file nor an installed package: no option names those."""
    own_questions()  # installed packages are asked first
    return any(not own.place.startswith(_FILES) and name not in _INSTALLED for name, own in _OWN.items())


def load_measures(path: str | Path) -> None:
    """Run a Python file that registers measures."""
    file = Path(path).expanduser()
    name = f"{_FILES}{text_hash(str(file.resolve()))[:12]}"
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise BadOption(f"{file} is no Python file. Give one that calls levelhead.register_measure.")
    before, module = dict(_OWN), module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickles look their module up there
    try:
        with guarded(str(file), lambda what: BadOption(f"it does not run: {what}.")):
            spec.loader.exec_module(module)
    except LevelheadError as error:
        raise BadOption(f"{file}: {error}") from error
    if before == _OWN:
        raise BadOption(f"{file} registers no measure. Call levelhead.register_measure in it.")


@cache
def _load_installed() -> None:
    """What installed packages register, once."""
    before = set(_OWN)
    load_installed(ENTRY_POINTS)
    _INSTALLED.update(set(_OWN) - before)
