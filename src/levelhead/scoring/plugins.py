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
from dataclasses import dataclass, field
from functools import cache, wraps
from importlib.metadata import entry_points, packages_distributions
from importlib.util import module_from_spec, spec_from_file_location
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TextIO, TypeVar, cast

from levelhead.errors import BadOption, BadPlugin, LevelheadError
from levelhead.runs.folder import text_hash

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
        return f"{self.module}.{self.definition}"

    @property
    def ours(self) -> bool:
        return self.module.partition(".")[0] == _OURS

    def __str__(self) -> str:
        """Its kind and name; of another's also its package, else its file or its module."""
        named, top = f'{self.kind.capitalize()} "{self.name}"', self.module.partition(".")[0]
        if self.ours:
            return named
        if package := _PACKAGES.get(top) or next(iter(_installed().get(top, ())), ""):
            return f"{named} of the package {package}"
        file = getattr(sys.modules.get(self.module), "__file__", None)  # None in a notebook
        return f"{named} of {f'the module {self.module}' if file is None else f'the file {Path(file).name}'}"

    def error(self, what: str) -> BadPlugin:
        return BadPlugin(f"{self} {what}.")

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Around every call of its code; one that ships is called as it is."""
        if self.ours:
            yield
            return
        file = getattr(sys.modules.get(self.module), "__file__", None)
        with guarded(file, lambda what: self.error(f"raised {what}")):
            yield


_installed = cache(packages_distributions)  # the packages of every module here; the search takes a second


# ---- the guard

_SWITCH = threading.Lock()
_KEPT: list[TextIO] = []  # standard output, then what stood in its place for each later call under way


@contextmanager
def guarded(file: str | None, error: Callable[[str], LevelheadError]) -> Iterator[None]:
    """Around foreign code: prints go to standard error, and whatever ends it is the error of one line.

    file: of the code, to find the line that failed. Ctrl-C passes, and so do errors of levelhead's own, which
    are one line already.
    """
    with _SWITCH:
        _KEPT.append(sys.stdout)
        sys.stdout = sys.stderr
    try:
        yield
    except LevelheadError:
        raise
    except (Exception, SystemExit) as caught:
        raise error(fault(caught, file)) from caught
    finally:
        with _SWITCH:  # of several threads the last that leaves gives standard output back
            first = _KEPT.pop()
            if not _KEPT:
                sys.stdout = first


def run_file(path: str | Path, prefix: str, refused: str) -> ModuleType:
    """A user's Python file as a module whose name begins with the prefix; it runs behind the guard.

    refused: what is said where there is no such file, with {} for its path.
    """
    file = Path(path).expanduser()
    name = f"{prefix}{text_hash(str(file.resolve()))[:12]}"
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None or not file.is_file():
        raise BadOption(refused.format(str(file)))
    module = module_from_spec(spec)
    sys.modules[name] = module  # errors, dataclasses and pickles look it up there
    try:
        with guarded(str(file), lambda what: BadOption(f"it does not run: {what}.")):
            spec.loader.exec_module(module)
    except LevelheadError as error:
        raise BadOption(f"{file}: {error}") from error
    return module


def fault(error: BaseException, file: str | None) -> str:
    """An error as one line, with the last line of the user's file that was running."""
    text = " ".join(str(error).split())[:160]
    if isinstance(error, LevelheadError):
        return text
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}{': ' if text else ''}{text}{place}"


_MISSING = object()
# of a result and the arguments: the result to go on with
Check = Callable[[Plugin, Any, tuple[Any, ...]], Any]


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
    return expected(about, "why_not", result, str, "a text, empty where it can run")


def expected(about: Plugin, method: str, result: Any, kind: Any, what: str) -> Any:
    """The result of a method, which must be of this kind."""
    if not isinstance(result, kind):
        raise about.error(f"returned {type(result).__name__} from {method}; it must return {what}")
    return result


# ---- the registries


@dataclass(eq=False)
class Registry(Generic[T]):
    """Plug-ins of one kind by their names: those that ship, and users' own, which are behind the guard."""

    kind: str
    protocol: Any
    needs: str  # the members that one must have, in words
    checks: Mapping[str, Check]  # of what its methods return, by their names
    name: str = "name"  # the member that is its name
    shipped: dict[str, T] = field(default_factory=dict)
    taken: dict[str, str] = field(default_factory=dict)  # names that no plug-in can have, and whose they are
    own: dict[str, tuple[Plugin, T]] = field(default_factory=dict)
    _loaded: bool = False

    def register(self, plugin: T) -> None:
        """Add a plug-in. A name is taken once; a class defined anew, as in a notebook, replaces itself."""
        if not isinstance(plugin, self.protocol):
            raise BadOption(f"{type(plugin).__name__} is no {self.kind}: it needs {self.needs}.")
        name: object = attrgetter(self.name)(plugin)
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
            load_installed(f"{_OURS}.{self.kind}s")
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
    what = group.rpartition(".")[2]
    for point in entry_points(group=group):
        package = point.value if point.dist is None else point.dist.name
        _PACKAGES[point.module.partition(".")[0]] = package
        line = f"The {what} of the package {package} do not load: {{}}. Repair or uninstall it."
        try:
            with guarded(None, lambda why, line=line: BadPlugin(line.format(why))):  # type: ignore[misc]
                point.load()
        except BadPlugin:
            raise
        except LevelheadError as error:
            raise BadPlugin(line.format(str(error).rstrip("."))) from error
