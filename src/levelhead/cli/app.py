"""The application object, how errors leave it, and how results are printed."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from functools import wraps
from inspect import Parameter
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, get_type_hints

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from levelhead import __version__
from levelhead.cli import GOES_ON, STOPPED
from levelhead.cli.grouped import declared, flattened, regrouped
from levelhead.cli.preflight import preflight
from levelhead.cli.terminal import painted
from levelhead.errors import BadOption, NoReader, Stopped
from levelhead.escaping import escaped
from levelhead.progress import plain_lines

if TYPE_CHECKING:
    from levelhead.models.model import Model
    from levelhead.probes.files import UnusableItem

app = typer.Typer(
    name="levelhead",
    help="Measure bias inside language models, find what carries it, take it out, and see what it cost.",
    invoke_without_command=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

DEBUG = "--debug"
RUN = "RUN"  # how the help names a folder whose run goes on
_CHECKPOINTS = ("finetune",)  # commands whose training goes on, though their folder is no run
_LINE, _WORD = 480, 200  # characters of an error, and of one word or path in it
Json = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON on standard output, nothing else.")
]

Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there, whoever wrote it.")]


Strict = Annotated[
    bool,
    typer.Option("--strict", help="An item of a file that cannot be asked is an error, not left out."),
]


class Loading(TypedDict):
    """How models are loaded: the options of `levelhead.load` that many commands share."""

    device: Annotated[
        str | None, typer.Option(help="cpu, cuda, cuda:1 ... Default: cuda where there is one.")
    ]
    dtype: Annotated[
        str | None,
        typer.Option(
            help="float32, bfloat16, float16 or auto (the checkpoint's own). "
            "Default: float32, auto above 1 B parameters."
        ),
    ]
    device_map: Annotated[
        str | None,
        typer.Option(
            metavar="auto|balanced|FILE", help="Spread the weights over cards, host and disk (docs/scale.md)."
        ),
    ]
    max_memory: Annotated[
        str | None,
        typer.Option(metavar="DEVICE=SIZE,...", help="With --device-map: 0=20GiB,cpu=60GiB ..."),
    ]
    batch_tokens: Annotated[
        int | None,
        typer.Option(min=1, help="Tokens of one batch. Default: what memory allows; 2048 on a CPU."),
    ]
    workers: Annotated[
        int | None,
        typer.Option(min=1, max=4096, help="Processes that share the work, by Ray (docs/scale.md)."),
    ]
    gpus_per_worker: Annotated[
        int | None,
        typer.Option(min=0, max=4096, help="Cards of each. Default: 1 where the model lies on one."),
    ]
    ray: Annotated[
        str | None,
        typer.Option(metavar="auto|ADDRESS", help="A running Ray cluster. Default: Ray is started here."),
    ]
    cache: Annotated[
        bool,
        typer.Option(
            " /--no-cache", show_default=False, help="Convert a .gguf file anew, and keep nothing of it."
        ),
    ]
    allow_pickle: Annotated[
        bool, typer.Option("--allow-pickle", help="Also read pickled weights: only from people you trust.")
    ]
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run code that the model's folder brings along.")
    ]


_LOADING: Loading = {
    "device": None,
    "dtype": None,
    "device_map": None,
    "max_memory": None,
    "batch_tokens": None,
    "workers": None,
    "gpus_per_worker": None,
    "ray": None,
    "cache": True,
    "allow_pickle": False,
    "trust_remote_code": False,
}


def checked(command: Callable[..., None]) -> Callable[..., None]:
    """Check what was typed before a command runs and imports torch; its progress goes to logs as plain
    lines. Groups of options (grouped.py) come as one value each."""

    @wraps(command)
    def called(**given: Any) -> None:
        preflight(given)
        try:
            with plain_lines():
                command(**regrouped(command, given))
        except KeyboardInterrupt:
            raise Stopped(GOES_ON if keeps_results(command, given) else STOPPED) from None
        except BrokenPipeError:  # else typer would exit 1, which says that a threshold fails
            raise NoReader from None

    return declared(called, flattened(command))


def keeps_results(command: Callable[..., None], given: Mapping[str, object]) -> bool:
    """Whether a command that is stopped has its results, or its checkpoints, in the folder that was given."""
    output = get_type_hints(command, include_extras=True).get("out")
    names = [getattr(option, "metavar", None) for option in getattr(output, "__metadata__", ())]
    return given.get("out") is not None and (RUN in names or command.__name__ in _CHECKPOINTS)


def loads(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of Loading; it gets what came in them as one parameter, `loading`.

    It is also checked, as every command is.
    """
    shared = get_type_hints(Loading, include_extras=True)
    options = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=shared[name])
        for name, default in _LOADING.items()
    ]

    @checked
    @wraps(command)
    def called(**given: Any) -> None:
        loading = {name: given.pop(name) for name in _LOADING}
        command(**given, loading=loading)

    shown = [*(each for each in flattened(command) if each.name != "loading"), *options]
    return declared(called, shown)


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
        bool, typer.Option(DEBUG, help="Show the traceback of an unexpected error; it may stand anywhere.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(BadOption.exit_code)


def one_line(error: Exception | str, most: int = _LINE) -> str:
    """An error as one line of a few hundred characters, without what would steer a terminal.

    What is too long is cut in its middle: the end of a line says what to do.
    """
    words = "".join(c if c.isprintable() else " " for c in str(error)).split()
    return _cut(" ".join(_cut(word, _WORD) for word in words), most)


def _cut(text: str, most: int) -> str:
    start, end = most * 2 // 3, most - most * 2 // 3 - 1
    return text if len(text) <= most else f"{text[:start]}…{text[-end:]}"


def refuse_idle(effective: bool, needed: str, options: Mapping[str, object]) -> None:
    """Refuse options, None where they were not given, that change nothing without what they belong to."""
    idle = [name for name, value in options.items() if value is not None]
    if idle and not effective:
        raise BadOption(
            f"{' and '.join(idle)} would change nothing without {needed}. Add that, or leave it out."
        )


def refuse_workers(loading: Loading, why: str) -> None:
    """Refuse workers where there is nothing that they could share."""
    if loading["workers"] is not None:
        raise BadOption(f"--workers {loading['workers']} came; {why}. Leave it out.")


def provenance(model: Model, data: Mapping[str, str]) -> dict[str, object]:
    """What a number of a single measure must carry to be trusted: the weights, their place, the data and the
    versions behind it."""
    from levelhead.results.folder import versions
    from levelhead.scoring.placed import placed

    return {
        **placed(model).to_json(),
        "fingerprint": model.fingerprint,
        "data": {**data, **model.facts()},
        "versions": versions(),
    }


def print_json(data: Any) -> None:
    """Indented JSON; numbers keep their digits, and NaN, which is not JSON, is an error.

    Letters that standard output cannot write, and halves of characters, are written as JSON escapes.
    """
    text = json_text(data)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(data, indent=2, allow_nan=False, default=_plain)
    print(text)


def json_text(data: Any) -> str:
    """Indented JSON, in which what steers a terminal is an escape."""
    return escaped(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False, default=_plain))


def _plain(value: Any) -> Any:
    if hasattr(value, "to_json"):
        return _without_influences(value.to_json())
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _without_influences(data: Any) -> Any:
    """What each item adds to a measurement, hundreds of numbers, stays in the run folder."""
    if isinstance(data, dict):
        return {key: _without_influences(value) for key, value in data.items() if key != "influence"}
    return [_without_influences(value) for value in data] if isinstance(data, list) else data


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], note: str = "") -> None:
    """A table for a person; long cells wrap."""
    table = Table(
        title=escape(escaped(title)),
        title_justify="left",
        caption=escape(escaped(note)) or None,
        caption_justify="left",
    )
    for name in columns:
        table.add_column(escape(escaped(name)), overflow="fold")
    for row in rows:
        table.add_row(*[escape(escaped(cell(value))) for value in row])  # names of models are no markup
    Console(file=painted()).print(table)


def print_left_out(items: Sequence[UnusableItem], most: int = 10) -> None:
    """Items of files that could not be asked, each with its line and the reason; the first few of many."""
    if items:
        print(f"Left out: {len(items)} that cannot be asked (--strict makes them errors).")
    for item in items[:most]:
        print(f"  {item.complaint}")
    if len(items) > most:
        print(f"  and {len(items) - most} more; --json lists all.")


def cell(value: Any) -> str:
    """A value as a person reads it."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    return str(value)
