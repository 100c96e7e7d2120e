"""Every command: one line of help, read from the sources, and the command itself, imported and built when it
is named. `levelhead --help` would otherwise import all studies and build some 300 options, for 30 lines."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from levelhead import __version__
from levelhead.errors import BadOption

if TYPE_CHECKING:
    from levelhead.runs.study import Study

DEBUG = "--debug"
STUDIES = "levelhead.studies"  # the package, and the entry points by which other packages bring studies
MODULES = (
    "single",
    "report",
    "debias",
    "finetune",
    "explore",
    "serve",
    "models",
    "cache",
)  # as the help lists them


class Listed(NamedTuple):
    """A command as the help lists it; order and old_name are those of a study, with the same defaults."""

    name: str
    about: str
    module: str
    order: int = 85
    old_name: str = ""


@cache
def listed() -> dict[str, Listed]:
    """Every command by its name, in the order of the help: the audit, the other studies, the rest."""
    if entry_points(group=STUDIES):
        from levelhead.runs.study import studies

        found = [Listed(s.name, s.about, s.__module__, s.order, s.old_name) for s in studies().values()]
    else:
        # what the declarations of studies say in literals: `name = "heads"` and the like in their classes
        found = []
        for path in Path(__file__).parents[1].glob("studies/*/__init__.py"):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                said: dict[str, Any] = {
                    ast.unparse(each.targets[0]): each.value.value
                    for each in getattr(node, "body", ())
                    if isinstance(each, ast.Assign) and isinstance(each.value, ast.Constant)
                }
                if isinstance(node, ast.ClassDef) and "name" in said:
                    own = {
                        name: said[name] for name in ("order", "name", "about", "old_name") if name in said
                    }
                    found.append(Listed(**own, module=f"{STUDIES}.{path.parent.name}"))
                    break
    commands = {
        each.name.replace("_", "-"): each
        for each in sorted(found, key=lambda each: (each.name != "audit", each.order, each.name))
    }
    for module in MODULES:
        text = Path(__file__).with_name(f"{module}.py").read_text(encoding="utf-8")
        for node in ast.parse(text).body:
            decorators = [ast.unparse(each) for each in getattr(node, "decorator_list", ())]
            if isinstance(node, ast.FunctionDef) and decorators in (["loads"], ["checked"]):
                about = ast.get_docstring(node) or ""
                commands[node.name] = Listed(node.name, about, f"levelhead.cli.{module}")
    return commands


def study_of(name: str) -> type[Study[Any]] | None:
    """The study of a command; None for one that is no study."""
    from levelhead.runs.study import declared_in

    own = declared_in(import_module(listed()[name].module))
    return next((study for study in own if study.spelled() == name), None)


def function_of(name: str) -> Callable[..., None]:
    """The function of a command, with the parameters that typer is to ask for."""
    from levelhead.cli.studies import study_command

    study = study_of(name)
    if study is not None:
        return study_command(study)
    found: Callable[..., None] = getattr(import_module(listed()[name].module), name)
    return found


class Commands(TyperGroup):
    """All commands: lines of the help until one of them is run, or its own help is shown."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        for name, each in listed().items():
            self.add_command(TyperCommand(name, help=each.about))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the first word names, built."""
        if args and args[0] in self.commands:
            self.add_command(built(args[0]))
        return super().resolve_command(ctx, args)


@cache
def built(name: str) -> Any:
    """A command with all its options."""
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name, help=listed()[name].about)(function_of(name))
    return typer.main.get_command(alone)


app = typer.Typer(
    name="levelhead",
    cls=Commands,
    help="Measure bias inside language models, find what carries it, take it out, and see what it cost.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"levelhead {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    debug: Annotated[
        bool, typer.Option(DEBUG, help="Show the traceback of an unexpected error; it may be given anywhere.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(BadOption.exit_code)
