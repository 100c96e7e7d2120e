"""One command per study, made from its declaration: its options with help, the run, what is printed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from levelhead.cli.app import MODEL, RUN, SERVED_TOO, Force, Json, json_line, loads, print_json
from levelhead.cli.declared import made, with_parameters
from levelhead.cli.endings import NUMBERS, ending, output_file, output_folder
from levelhead.cli.preflight import check_named
from levelhead.cli.terminal import print_link
from levelhead.errors import BadOption
from levelhead.options import Settings
from levelhead.progress import planning
from levelhead.runs.study import Scratch, Study

if TYPE_CHECKING:
    from levelhead.cli.app import Loading

_RUN_FOLDER = "Folder for the results; a run that was begun there goes on."
_FOLDER_OR_FILE = "Folder for the run, which goes on if it was begun; or a file:"
_SEVERAL = {
    "models": ("MODEL...", "Names, a .txt file with one per line, a folder of checkpoints."),
    "runs": ("RUN...", "Folders of `levelhead heads`, the base first."),
}
_LIST = typer.Option("--list", help="Print what can be evaluated, and stop.")


def study_command(study: type[Study[Any]]) -> Callable[..., None]:
    """The function of a study's command."""
    numbers = study.takes == "model or none"  # its scores alone may be written, and no folder at all

    def command(
        settings: Settings,
        out: Path | None,
        json: bool,
        models: Any = None,
        force: bool = False,
        list_items: bool = False,
        loading: Loading | None = None,
    ) -> None:
        if list_items:
            items = list(study.part("run").listing(settings))
            for item in items if not json else ():
                print(item.described() if hasattr(item, "described") else json_line(item))
            if json:
                print_json(items)
            return
        scratch = None
        if numbers and (out is None or ending(out) in NUMBERS):
            scratch = Scratch()
        elif out is None and not planning():
            raise BadOption(f"Give a run folder: `{study.command} ... -o RUN`.")
        answering, settings = study.instead(settings)
        folder = scratch.path / study.name if scratch else out or Path(study.name)  # planned: never written
        run = _run(answering, models, settings, folder, cast("Loading", loading or {}))
        if scratch is not None:
            from levelhead.cli.single import write_measured

            write_measured(out, list(run.measurements.values()), force)
        # what the page shows is printed, and where the rest is; studies that have page and figures write them
        from levelhead.cli.printed import print_audit, print_brief, print_run

        kept, chapter = scratch is None, run.part("chapter")
        figures: Iterable[Path] = ()
        if kept and run.writes_page:
            from levelhead.pages.page import write_report

            write_report(run.folder)
        if kept and hasattr(chapter, "figures"):
            figures = chapter.figures(run.folder)
        if json:
            print_json({**run.stated(), **({"figures": [str(path) for path in figures]} if figures else {})})
        else:
            if run.name == "audit":
                print_audit(run)
            else:
                (print_brief if run.brief else print_run)(run.folder)
                for line in run.notes() if kept else ():
                    print(line)
                if kept:
                    print_link(run)
        run.check_measured()

    if numbers:
        out = made("out", Annotated[Path | None, output_file(_FOLDER_OR_FILE, *NUMBERS, folder=True)], None)
    else:  # --list and --plan need none
        usual = Path(study.default_folder) if study.default_folder else None
        out = made("out", Annotated[Path | None, output_folder(_RUN_FOLDER, RUN)], usual)
    command.__name__, command.__doc__ = study.name, study.about
    parameters = [made("settings", study.settings_type)]
    if study.takes != "nothing":
        one = MODEL if study.unserved else SERVED_TOO
        kind: Any = Annotated[str, one]
        if study.takes == "model or none":
            kind = Annotated[str | None, one]
        elif study.takes != "model":
            metavar, help = _SEVERAL[study.takes]
            kind = Annotated[list[str] | None, typer.Argument(metavar=metavar, help=help)]
        needed = study.takes == "model" and not study.default_model
        parameters.append(made("models", kind, Parameter.empty if needed else study.default_model or None))
    more = [made("list_items", Annotated[bool, _LIST], False)] if study.lists else []
    more += [made("force", Force, False)] if numbers else []
    named = with_parameters(command, [out, *parameters, *more, made("json", Json, False)])
    return loads(named, servers=not study.unserved, models=study.takes != "runs")


def _run(study: type[Study[Any]], names: Any, settings: Settings, folder: Path, loading: Loading) -> Any:
    if study.takes == "models" and not names:
        raise BadOption(f"Give a model and a run folder: `{study.command} lh:bert-mini -o RUN`.")
    # a survey says of a model that it cannot find that it is not there, and goes on
    named = "run" if study.takes == "runs" else "model" if study.loads or study.takes == "model" else "models"
    check_named(named, names)
    from levelhead.api.studies import run_study
    from levelhead.engine.effort import now

    began = now()
    told: dict[str, Any] = {}
    function = getattr(study.part("run"), study.name)
    if "first_look" in signature(function).parameters:
        from levelhead.cli.printed import print_first_look

        told["first_look"] = print_first_look
    if "began" in signature(function).parameters:
        told["began"] = began
    return run_study(study, names, settings, folder, loading, **told)
