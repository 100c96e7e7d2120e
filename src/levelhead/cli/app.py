"""What commands share: the options of loading, checks of what was typed, and how results are printed."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from functools import partial, wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Annotated, Any, TypedDict, get_type_hints

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from levelhead.cli import GOES_ON, STOPPED
from levelhead.cli.declared import flattened, made, regrouped, with_parameters
from levelhead.cli.preflight import preflight
from levelhead.cli.terminal import painted
from levelhead.errors import BadOption, NoReader, Stopped
from levelhead.escaping import escaped
from levelhead.progress import Plan, cores, duration, plain_lines, planned

if TYPE_CHECKING:
    from levelhead.models.model import Model
    from levelhead.probes.files import UnusableItem

_TYPED = ("COMMANDLINE", "ENVIRONMENT")  # sources of a value that is no default
LOCAL = "Shipped (lh:bert-mini), hub name, folder or .gguf"  # models of this machine
MODEL = typer.Argument(metavar="MODEL", help=f"{LOCAL}.")
SERVED_TOO = typer.Argument(metavar="MODEL", help=f"{LOCAL}, or server:URL#NAME.")
ModelName = Annotated[str, MODEL]
RUN = "RUN"  # how the help names a folder whose run goes on
_CHECKPOINTS = ("finetune",)  # commands whose training goes on, though their folder is no run
Json = Annotated[
    bool,
    typer.Option("--json", metavar="", help="Print the result as JSON on standard output, nothing else."),
]

Force = Annotated[
    bool, typer.Option("--force", metavar="", help="Replace a file that is there, whoever wrote it.")
]


_LOADS: Any = partial(typer.Option, rich_help_panel="Loading the model")


class Loading(TypedDict):
    """How models are loaded: the options of `levelhead.load` that many commands share."""

    device: Annotated[
        str | None, _LOADS(metavar="DEVICE", help="cpu, cuda, cuda:1 ... Default: cuda where there is one.")
    ]
    dtype: Annotated[
        str | None,
        _LOADS(
            metavar="DTYPE",
            help="float32, bfloat16, float16 or auto (the checkpoint's own). "
            "Default: float32, auto above 1 B parameters.",
        ),
    ]
    device_map: Annotated[
        str | None,
        _LOADS(
            metavar="MAP",
            help="auto, balanced or a file: spread the weights over cards, host and disk (docs/scale.md).",
        ),
    ]
    max_memory: Annotated[
        str | None,
        _LOADS(metavar="SIZES", help="With --device-map: 0=20GiB,cpu=60GiB ..."),
    ]
    batch_tokens: Annotated[
        int | None,
        _LOADS(metavar="N", min=1, help="Tokens of one batch. Default: what memory allows; 2048 on a CPU."),
    ]
    workers: Annotated[
        int | None,
        _LOADS(
            metavar="N", min=1, max=4096, help="Processes that share the work, by Ray (docs/clusters.md)."
        ),
    ]
    gpus_per_worker: Annotated[
        int | None,
        _LOADS(metavar="N", min=0, max=4096, help="Cards of each. Default: 1 where the model is on one."),
    ]
    ray: Annotated[
        str | None,
        _LOADS(metavar="ADDRESS", help="A running Ray cluster, or auto. Default: Ray is started here."),
    ]
    ship_model: Annotated[
        bool | None,
        _LOADS(
            "--ship-model/--no-ship-model",
            help="With --ray: send the model's files to all machines, or to none. Default: to those that do "
            "not see them.",
        ),
    ]
    driver_weights: Annotated[
        str | None,
        _LOADS(
            metavar="full|none",
            help="With --workers, none: the driver reads weights from their files when it needs them. "
            "Default: none where workers alone have cards.",
        ),
    ]
    cache: Annotated[
        bool,
        _LOADS(
            " /--no-cache",
            metavar="",
            show_default=False,
            help="Convert a .gguf file anew, and keep nothing of it.",
        ),
    ]
    allow_pickle: Annotated[
        bool,
        _LOADS("--allow-pickle", metavar="", help="Also read pickled weights: only from people you trust."),
    ]
    trust_remote_code: Annotated[
        bool, _LOADS("--trust-remote-code", metavar="", help="Run code that the model's folder brings along.")
    ]
    replay: Annotated[
        str | None,
        _LOADS(
            metavar="RUN", help="Use the answers of a server that an earlier run stored; nothing is sent."
        ),
    ]
    connections: Annotated[
        int | None,
        _LOADS(metavar="N", min=1, max=256, help="Requests to a server at once, at most. Default: 8."),
    ]


class Planning(TypedDict):
    """What a command would take, without doing it."""

    plan: Annotated[
        bool,
        typer.Option(
            "--plan", metavar="", help="Print tokens, time, memory or requests; run, send and write nothing."
        ),
    ]
    price_in: Annotated[
        float | None,
        typer.Option(metavar="X", min=0, help="With --plan: what a server takes per million tokens read."),
    ]
    price_out: Annotated[
        float | None,
        typer.Option(metavar="X", min=0, help="With --plan: ... per million tokens written."),
    ]


_UNPLANNED = ("explore", "serve")  # commands that last as long as somebody uses them
_LOADING: dict[str, bool | None] = dict.fromkeys(Loading.__annotations__)
_LOADING |= {"cache": True, "allow_pickle": False, "trust_remote_code": False}
_OF_SERVERS = ("replay", "connections")  # options of commands that a model behind a server will do for


def checked(command: Callable[..., None]) -> Callable[..., None]:
    """Check what was typed before a command runs and imports torch; its progress goes to logs as plain
    lines. Settings among its parameters come as one value each (declared.py)."""

    @wraps(command)
    def called(context: typer.Context, **given: Any) -> None:
        typed = {name for name in given if getattr(context.get_parameter_source(name), "name", "") in _TYPED}
        preflight(given, own=signature(command).parameters)
        try:
            with plain_lines():
                command(**regrouped(command, given, typed))
        except KeyboardInterrupt:
            raise Stopped(GOES_ON if keeps_results(command, given) else STOPPED) from None
        except BrokenPipeError:  # else typer would exit 1, which says that a threshold fails
            raise NoReader from None

    return with_parameters(called, [made("context", typer.Context), *flattened(command)])


def keeps_results(command: Callable[..., None], given: Mapping[str, object]) -> bool:
    """Whether a command that is stopped has its results, or its checkpoints, in the folder that was given."""
    output = get_type_hints(command, include_extras=True).get("out")
    names = [getattr(option, "metavar", None) for option in getattr(output, "__metadata__", ())]
    return given.get("out") is not None and (RUN in names or command.__name__ in _CHECKPOINTS)


def loads(command: Callable[..., None], servers: bool = False, models: bool = True) -> Callable[..., None]:
    """Give a command the options of Loading and of Planning; it gets what came in the first as one parameter,
    `loading`, and is not told of the second.

    It is also checked, as every command is. servers: with those for models behind a server; models: it loads
    some.
    """
    offered = {name: each for name, each in _LOADING.items() if servers or name not in _OF_SERVERS}
    offered = offered if models else {}
    planning: dict[str, Any] = {} if command.__name__ in _UNPLANNED else {"plan": False}
    planning |= dict.fromkeys(("price_in", "price_out")) if servers else {}

    @wraps(command)
    def called(**given: Any) -> None:
        loading = {name: given.pop(name) for name in offered}
        plan, *prices = (given.pop(name, None) for name in Planning.__annotations__)
        if not plan and any(price is not None for price in prices):
            raise BadOption("--price-in and --price-out would change nothing without --plan. Add that.")
        run = partial(command, **given, loading=loading)
        if not plan:
            run()
            return
        print_plan(planned(run), prices[0] or 0.0, prices[1] or 0.0, bool(given.get("json")))

    hints, shared, of_plans = (
        get_type_hints(each, include_extras=True) for each in (command, Loading, Planning)
    )
    own = signature(command).parameters.values()
    shown = [each.replace(annotation=hints[each.name]) for each in own if each.name != "loading"]
    options = [made(name, of_plans[name], default) for name, default in planning.items()]
    options += [made(name, shared[name], default) for name, default in offered.items()]
    keywords = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in shown]
    return checked(with_parameters(called, [*keywords, *options]))


def print_plan(plan: Plan, price_in: float, price_out: float, as_json: bool) -> None:
    """What a command would take. Prices are those of a million tokens."""
    price = plan.price(price_in, price_out) if plan.requests and (price_in or price_out) else None
    if as_json:
        known: dict[str, Any] = {"tokens": round(plan.tokens + plan.read), "shorter": plan.shorter}
        if plan.requests:
            known |= {"requests": plan.requests, "price": price}
            known |= {"tokens_read": round(plan.read), "tokens_written": round(plan.written)}
        if plan.passes or not plan.requests:
            known |= {"passes": math.ceil(plan.passes), "seconds": plan.seconds, "memory_mib": plan.memory}
        print_json(known)
        return
    lines = {"tokens": f"{plan.tokens:,.0f}"}
    if plan.requests:
        lines = {"requests": f"at most {plan.requests:,}"}
        lines |= {"tokens": f"about {plan.read:,.0f} read, at most {plan.written:,.0f} written"}
        lines |= {} if price is None else {"price": f"about {price:,.2f}, by the prices given"}
    if plan.passes:
        lines |= {"passes": f"{math.ceil(plan.passes):,} batches through all blocks"}
        lines["time"] = f"about {duration(plan.seconds)} on this machine ({cores()} cores)"
        lines |= {} if plan.memory is None else {"memory": f"at least {plan.memory:,} MiB at its peak"}
    if not plan.tokens and not plan.read:
        lines = {"tokens": "0: no model is run"}
    lines |= {"shorter": plan.shorter} if plan.shorter else {}
    for name, text in lines.items():
        print(f"{name:10}{escaped(text)}")


def refuse_workers(loading: Loading, why: str) -> None:
    """Refuse workers where there is nothing that they could share."""
    if loading["workers"] is not None:
        raise BadOption(f"--workers must be left out (got {loading['workers']}): {why}.")


def provenance(model: Model, data: Mapping[str, str]) -> dict[str, object]:
    """What a number of a single measure must carry to be trusted: the weights, their place, the data and the
    versions behind it."""
    from levelhead.runs.folder import versions
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


def json_line(data: Any) -> str:
    """JSON in one line."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False, default=_plain)


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


def print_left_out(items: Sequence[UnusableItem]) -> None:
    """Items of files that could not be evaluated."""
    from levelhead.probes.files import left_out_lines

    for line in left_out_lines(items):
        print(line)


def cell(value: Any) -> str:
    """A value as a person reads it."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    return str(value)
