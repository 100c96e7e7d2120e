"""All questions of an audit: the built-in ones, and measures of a user's own (docs/own-measure.md)."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

from levelhead.edits.sites import Variant
from levelhead.engine.served.transport import Unavailable
from levelhead.engine.served.writing import Wanted
from levelhead.errors import BadOption, BadPlugin, BadProbe, CannotDo, LevelheadError
from levelhead.measures import catalog
from levelhead.measures.catalog import MeasureInfo, measure_info
from levelhead.measures.measurement import Measurement
from levelhead.models.model import Model
from levelhead.models.served import ServedModel
from levelhead.probes.lpbs import LPBS_TESTS
from levelhead.runs.folder import text_hash
from levelhead.runs.records import as_json, record_from_json
from levelhead.scoring import battery as built_in
from levelhead.scoring.battery import Answers, Battery
from levelhead.scoring.plugins import fault, guarded, load_installed, run_file

ENTRY_POINTS = "levelhead.measures"  # the group under which an installed package names its measures
Ask = Callable[[Model, Sequence[Variant], Battery], Answers]
_FILES = "levelhead_measures_"  # how the modules of such files are called
OwnAsk = Callable[[Model, Sequence[Variant]], Sequence[Measurement]]  # one measurement a variant


class OnServer(NamedTuple):
    """How a question is put to a model behind a server, and what that takes of it."""

    ask: Callable[[ServedModel, Battery], list[Measurement]]
    wanted: Callable[[ServedModel, Battery], list[Wanted]]


@dataclass(frozen=True)
class Question:
    """Measures that are taken together."""

    name: str
    measures: tuple[MeasureInfo, ...]
    ask: Ask
    on_server: OnServer | None = None  # None: it reads the network itself

    def of_server(self, model: ServedModel, battery: Battery) -> list[Measurement]:
        """What a model behind a server shows, as far as the server has proved that it can."""
        reason = f"{model.name} is behind a server, and this reads the network itself"
        if self.on_server is not None:
            try:
                return self.on_server.ask(model, battery)
            except Unavailable:  # nothing that the model cannot do: the same command tries it again
                raise
            except (CannotDo, BadProbe) as error:
                reason = str(error).rstrip(".")
        return [Measurement.missing(info.name, reason, neutral=info.neutral) for info in self.measures]

    @property
    def of_classifier(self) -> bool:
        """Whether an NLI classifier is evaluated by it, where one stands beside the model."""
        return any("nli" in info.needs for info in self.measures)


_NEXT = OnServer(built_in.served_triples, built_in.wanted_triples)
_TEXTS = OnServer(built_in.served_fluency, built_in.wanted_texts)
SEAT = Question("seat", (measure_info("seat"),), built_in.seat_question)
BUILT_IN: tuple[Question, ...] = (
    SEAT,
    *(
        Question(name, tuple(map(measure_info, measures)), ask, on_server)
        for name, measures, ask, on_server in (
            ("lpbs", [f"lpbs {test}" for test in LPBS_TESTS], built_in.lpbs_question, None),
            ("triples", built_in.TRIPLE_MEASURES, built_in.triples_question, _NEXT),
            ("inference", built_in.INFERENCE_MEASURES, built_in.inference_question, None),
            ("fluency", built_in.FLUENCY_MEASURES, built_in.fluency_question, _TEXTS),
        )
    ),
)


def questions() -> tuple[Question, ...]:
    """All questions: the built-in ones, then a user's own in the order of their registration."""
    return (*BUILT_IN, *own_questions())


def own_questions() -> tuple[Question, ...]:
    """Questions of a user's own and of installed packages."""
    _load_installed()
    return tuple(Question(own.info.name, (own.info,), own) for own in list(_OWN.values()))


def own_hashes() -> dict[str, str]:
    """A hash of each own measure's source, so that a run with another definition is another run."""
    _load_installed()
    hashes = {}
    for own in list(_OWN.values()):
        try:
            text = inspect.getsource(own.ask)
        except (OSError, TypeError):  # there is no text, as in a notebook or of a callable object
            text = own.place
        hashes[f"measure {own.info.name}"] = text_hash(text)
    return hashes


# ---- a user's own


@dataclass(frozen=True)
class _Own:
    """A measure of a user's own as a question. Whatever goes wrong inside it is a reason, not a crash: the
    other numbers of a long audit must not be lost."""

    info: MeasureInfo
    ask: OwnAsk

    def __call__(self, model: Model, variants: Sequence[Variant], _: Battery) -> Answers:
        info, reason = self.info, ""
        if not model.abilities.intersection(info.needs):
            reason = f"it asks a model that can do {' or '.join(info.needs)}; {model.name} cannot"
        else:
            try:
                file = inspect.getsourcefile(self.ask)
            except TypeError:  # a callable object
                file = None
            try:
                with guarded(file, BadPlugin):
                    answers = []
                    for each in self.ask(model, variants):
                        if not isinstance(each, Measurement):
                            raise TypeError(f"each must be a Measurement (got {type(each).__name__})")
                        neutral = info.neutral if each.neutral is None else each.neutral
                        named = replace(each, name=info.name, neutral=neutral)
                        # written and read back: finite numbers and plain settings can be stored
                        answers.append([record_from_json(Measurement, as_json(Measurement, named))])
                    if len(answers) != len(variants):
                        raise ValueError(
                            f"the measurements must be {len(variants)}, one per variant (got {len(answers)})"
                        )
                return answers
            except LevelheadError as error:
                reason = fault(error, None)
        return [[Measurement.missing(info.name, reason, neutral=info.neutral)]] * len(variants)

    @property
    def place(self) -> str:
        name = getattr(self.ask, "__qualname__", type(self.ask).__qualname__)
        return f"{getattr(self.ask, '__module__', '')}.{name}"


_OWN: dict[str, _Own] = {}  # copied to be gone through: another thread may register one meanwhile
_INSTALLED: set[str] = set()  # names of those that installed packages brought along


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
    """The files that `load_measures` has read, for processes that are to measure the same."""
    modules = (sys.modules.get(getattr(own.ask, "__module__", "")) for own in list(_OWN.values()))
    files = (str(m.__file__) for m in modules if m is not None and m.__name__.startswith(_FILES))
    return tuple(dict.fromkeys(files))


def own_in_memory() -> bool:
    """Whether measures were registered by neither a file nor an installed package: no option names those."""
    own_questions()  # installed packages are loaded first
    return any(not own.place.startswith(_FILES) and name not in _INSTALLED for name, own in _OWN.items())


def load_measures(path: str | Path) -> None:
    """Run a Python file that registers measures."""
    before = dict(_OWN)
    run_file(path, _FILES, "{} is no Python file. Give one that calls levelhead.register_measure.")
    if before == _OWN:
        file = Path(path).expanduser()
        raise BadOption(f"{file} registers no measure. Call levelhead.register_measure in it.")


@cache
def _load_installed() -> None:
    before = set(_OWN)
    load_installed(ENTRY_POINTS)
    _INSTALLED.update(set(_OWN) - before)
