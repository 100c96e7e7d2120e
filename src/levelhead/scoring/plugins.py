"""Plug-ins: what packages and users bring along. One registry for each kind, and one guard around their code.

What a plug-in prints goes to standard error, so that `--json` prints JSON alone. What it raises, and a call
of sys.exit, is one line that names the plug-in and its package. What it returns is checked where it is
called, before long work goes on. Plug-ins that ship are called as they are: their errors are ours.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, wraps
from importlib.metadata import EntryPoint, entry_points, packages_distributions
from operator import attrgetter
from pathlib import Path
from typing import Any, Generic, TextIO, TypeVar, cast

from levelhead.errors import BadOption, BadPlugin, LevelheadError

T = TypeVar("T")
_OURS = "levelhead"
_PACKAGES: dict[str, str] = {}  # a module -> the installed package that names it as an entry point


# ---- who it is


@dataclass(frozen=True)
class Plugin:
    """A plug-in as errors name it."""

    kind: str  # localizer, benchmark ...
    name: str
    module: str  # that it is defined in
    definition: str  # the name of its class or function there

    @classmethod
    def of(cls, kind: str, name: str, code: object) -> Plugin:
        """A function, or an object by its class."""
        known: Any = code if hasattr(code, "__qualname__") else code.__class__
        return cls(kind, name, known.__module__ or "", known.__qualname__)

    @property
    def place(self) -> str:
        """The module and the name there."""
        return f"{self.module}.{self.definition}"

    @property
    def ours(self) -> bool:
        """Whether it ships."""
        return self.module.partition(".")[0] == _OURS

    @property
    def file(self) -> str | None:
        """The file that it is defined in; None where there is none, as in a notebook."""
        return getattr(sys.modules.get(self.module), "__file__", None)

    @property
    def source(self) -> str:
        """Its package; else its file, or its module."""
        top = self.module.partition(".")[0]
        if package := _PACKAGES.get(top) or next(iter(_installed().get(top, ())), ""):
            return f"the package {package}"
        return f"the module {self.module}" if self.file is None else f"the file {Path(self.file).name}"

    def __str__(self) -> str:
        named = f'{self.kind.capitalize()} "{self.name}"'
        return named if self.ours else f"{named} of {self.source}"

    def error(self, what: str) -> BadPlugin:
        """The line about something that it did."""
        return BadPlugin(f"{self} {what}.")

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Around every call of its code; one that ships is called as it is."""
        if self.ours:
            yield
            return
        with guarded(self.file, lambda what: self.error(f"raised {what}")):
            yield


@cache
def _installed() -> Mapping[str, list[str]]:
    """The packages of every module on this machine; looking takes a second."""
    return packages_distributions()


# ---- the guard


@contextmanager
def guarded(file: str | None, error: Callable[[str], LevelheadError]) -> Iterator[None]:
    """Around foreign code: prints go to standard error, and whatever ends it is the error of one line.

    file: of the code, to find the line that failed. Ctrl-C passes, and so do errors of levelhead's own, which
    are one line already.
    """
    try:
        with _prints_aside():
            yield
    except LevelheadError:
        raise
    except (Exception, SystemExit) as caught:
        raise error(fault(caught, file)) from caught


_SWITCH = threading.Lock()
_KEPT: list[TextIO] = []  # standard output, then what stood in its place for each later call under way


@contextmanager
def _prints_aside() -> Iterator[None]:
    """Standard output goes to standard error. Of several threads the last that leaves gives it back."""
    with _SWITCH:
        _KEPT.append(sys.stdout)
        sys.stdout = sys.stderr
    try:
        yield
    finally:
        with _SWITCH:
            first = _KEPT.pop()
            if not _KEPT:
                sys.stdout = first


def fault(error: BaseException, file: str | None) -> str:
    """An error as one line, with the last line of the user's file that was running."""
    text = " ".join(str(error).split())[:160]
    if isinstance(error, LevelheadError):
        return text
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}{': ' if text else ''}{text}{place}"


_MISSING = object()
Check = Callable[
    [Plugin, Any, tuple[Any, ...]], Any
]  # of a result and the arguments: the result to go on with


class _Guarded:
    """A plug-in behind the guard: its members are those of the plug-in, its methods are called guarded and
    their results checked. For isinstance it is what the plug-in is."""

    def __init__(self, own: object, about: Plugin, checks: Mapping[str, Check]) -> None:
        self.__own, self.__about, self.__checks = own, about, checks

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self.__own)

    def __getattr__(self, name: str) -> Any:
        own, about, check = self.__own, self.__about, self.__checks.get(name)
        with about.guarded():  # a property is code of the plug-in too
            member = getattr(own, name, _MISSING)
        if member is _MISSING:
            raise AttributeError(name)
        if not callable(member):
            return member

        @wraps(member)
        def called(*given: Any, **named: Any) -> Any:
            with about.guarded():
                result = member(*given, **named)
            return result if check is None else check(about, result, given)

        return called


def behind_guard(own: T, about: Plugin, checks: Mapping[str, Check]) -> T:
    """A plug-in whose code is called behind the guard; one that ships as it is."""
    return own if about.ours else cast(T, _Guarded(own, about, checks))


def a_reason(about: Plugin, result: Any, _: tuple[Any, ...]) -> Any:
    """What every `why_not` must return."""
    return expected(about, "why_not", result, str, "a text, empty where it can run")


def expected(about: Plugin, method: str, result: Any, kind: Any, what: str) -> Any:
    """The result of a method, which must be of this kind."""
    if not isinstance(result, kind):
        raise about.error(f"returned {type(result).__name__} from {method}; it must return {what}")
    return result


# ---- the registries


class Registry(Generic[T]):
    """Plug-ins of one kind by their names: those that ship, and users' own, which are behind the guard.

    needs: the members that one must have, in words; checks: of what its methods return, by their names.
    """

    def __init__(
        self, kind: str, protocol: Any, needs: str, checks: Mapping[str, Check], name: str = "name"
    ) -> None:
        self.kind, self.protocol, self.needs, self.checks = kind, protocol, needs, checks
        self.group = f"{_OURS}.{kind}s"  # of entry points
        self.shipped: dict[str, T] = {}
        self.taken: dict[str, str] = {}  # names that no plug-in can have, and whose they are
        self.own: dict[str, tuple[Plugin, T]] = {}
        self._name: Callable[[Any], str] = attrgetter(name)
        self._loaded = False

    def register(self, plugin: T) -> None:
        """Add a plug-in. A name is taken once; a class defined anew, as in a notebook, replaces itself."""
        if not isinstance(plugin, self.protocol):
            raise BadOption(f"{type(plugin).__name__} is no {self.kind}: it needs {self.needs}.")
        name: object = self._name(plugin)
        if not isinstance(name, str) or not name.strip():
            raise BadOption(f"The {self.kind} {type(plugin).__name__} is called {name!r}; give it a text.")
        about = Plugin.of(self.kind, name, plugin)
        if about.ours:
            self.shipped[name], self.taken[name] = plugin, f"the {self.kind} {about.place}"
            return
        self._refuse_taken(name, about)
        earlier, _ = self.own.get(name, (about, None))
        if earlier != about:
            raise BadOption(
                f"Two {self.kind}s are called {name!r}: {earlier.place} and {about.place}. "
                "Rename one of them."
            )
        self.own[name] = about, behind_guard(plugin, about, self.checks)

    def known(self) -> dict[str, T]:
        """All of them by now, those that ship first; installed packages are loaded once."""
        if not self._loaded:
            load_installed(self.group)
            self._loaded = True
        for name, (about, _) in self.own.items():  # it may have been registered before those that ship
            self._refuse_taken(name, about)
        return {**self.shipped, **{name: plugin for name, (_, plugin) in self.own.items()}}

    def _refuse_taken(self, name: str, about: Plugin) -> None:
        if name in self.taken:
            raise BadOption(
                f"The name {name!r} belongs to {self.taken[name]}, which ships; {about.place} cannot have it."
                " Rename yours."
            )


def load_installed(group: str) -> None:
    """Import what installed packages name under an entry-point group; importing it registers it.

    The group's last word says in an error what it is: levelhead.measures, levelhead.benchmarks.
    """
    for point in entry_points(group=group):
        _load(point, group.rpartition(".")[2])


def _load(point: EntryPoint, what: str) -> None:
    package = point.value if point.dist is None else point.dist.name
    _PACKAGES[point.module.partition(".")[0]] = package

    def unloadable(why: str) -> BadPlugin:
        return BadPlugin(f"The {what} of the package {package} do not load: {why}. Repair or uninstall it.")

    try:
        with guarded(None, unloadable):
            point.load()
    except LevelheadError as error:
        if isinstance(error, BadPlugin):
            raise
        raise unloadable(str(error).rstrip(".")) from error
