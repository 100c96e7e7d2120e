"""A hook of the documentation site: commands, settings, measures and run folders as pages.

The text is made from the declarations whenever the site is built, so no page of the reference is out of date.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Protocol

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import levelhead as lh
from levelhead.cli.commands import built, listed
from levelhead.measures.catalog import BUILT_IN, MeasureInfo
from levelhead.options import Declared, groups, options
from levelhead.pages.glossary import explained
from levelhead.runs.study import Parts, Study, studies

METHOD = Path(__file__).parent / "method"
BIAS = {"both": "both sides", "above": "above", "below": "below", "none": ""}  # of the neutral value


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Give every term of the glossary a place, and lead to it from where a page uses the term first."""
    if page.file.src_uri == "glossary.md":
        return re.sub(
            r"<td>([^<]+)</td>(?=\s*<td>)", lambda cell: f'<td id="{place(cell[1])}">{cell[1]}</td>', html
        )
    if page.file.src_uri.startswith(("reference", "method.md")):
        return html
    return linked(html, page.url.count("/") * "../" + "glossary/")


def linked(html: str, address: str) -> str:
    """A page whose paragraphs and lists lead to the glossary, once for each term."""
    left = dict(explained())
    found = re.compile(
        rf"(?<!\w)({'|'.join(re.escape(each) for each in sorted(left, key=len, reverse=True))})(?!\w)"
    )
    used: set[str] = set()

    def lead(match: re.Match[str]) -> str:
        term = left[match[1]].term
        if term in used:
            return match[0]
        used.add(term)
        return f'<a href="{address}#{place(term)}">{match[0]}</a>'

    parts = re.split(
        r"(<(?P<tag>a|code|pre|h\d|table|svg|script|style)\b.*?</(?P=tag)>|<[^>]+>)", html, flags=re.S
    )
    text = parts[::3]  # what stands between tags; then each whole element or tag, then its name
    tags = [*parts[1::3], ""]
    return "".join(found.sub(lead, words) + tag for words, tag in zip(text, tags, strict=True))


def place(term: str) -> str:
    """The anchor of a term."""
    return "term-" + re.sub(r"[^a-z0-9]+", "-", term.casefold()).strip("-")


def pages() -> dict[str, str]:
    """The generated pages by their paths."""
    return {
        "reference/commands.md": "\n".join(commands()),
        "reference/settings.md": "\n".join(settings()),
        "reference/measures.md": "\n".join(measures()),
        "reference/run-folder.md": "\n".join(run_folders()),
    }


def cell(text: object) -> str:
    """A text as a cell of a table."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")


def table(head: Iterable[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    head = list(head)
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    yield from ("| " + " | ".join(cell(each) for each in row) + " |" for row in rows)
    yield ""


# ---- commands


class Command(Protocol):
    """What click and the copy of it that typer brings along have in common."""

    params: list[Any]
    help: str | None


def command_line() -> dict[str, Command]:
    """Every command by its name, as the command line has it."""
    return {name: built(name) for name in listed()}


def commands() -> Iterator[str]:
    yield "# Commands and options"
    yield ""
    yield "Made from the command line itself; `levelhead COMMAND --help` prints the same."
    yield ""
    every = command_line()
    shared = {"--device", "--dtype", "--device-map", "--max-memory", "--batch-tokens", "--workers"}
    shared |= {"--gpus-per-worker", "--ray", "--no-cache", "--allow-pickle", "--trust-remote-code"}
    for name, command in every.items():
        own = [each for each in command.params if not shared & {*each.opts, *each.secondary_opts}]
        arguments = [each for each in own if each.param_type_name == "argument"]
        given = [each for each in own if each.param_type_name != "argument" and "--help" not in each.opts]
        shown = " ".join(str(each.metavar or each.name).upper() for each in arguments)
        yield from (f"## levelhead {name}", "", (command.help or "").strip(), "")
        yield from (f"    levelhead {name} {shown}".rstrip() + " [OPTIONS]", "")
        yield from table(
            ("option", "value", "meaning"),
            ((f"`{spelled(each)}`", valued(each), told(each)) for each in [*arguments, *given]),
        )
        if len(own) < len(command.params):
            yield from ("And [how models are loaded](#how-models-are-loaded).", "")
    yield from ("## How models are loaded", "", "Options of every command that loads a model.", "")
    loading = [each for each in every["audit"].params if shared & {*each.opts, *each.secondary_opts}]
    yield from table(
        ("option", "value", "meaning"), ((f"`{spelled(each)}`", valued(each), told(each)) for each in loading)
    )


def spelled(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name).upper()
    return ", ".join(each for each in (*parameter.opts, *parameter.secondary_opts) if each.strip())


def valued(parameter: Any) -> str:
    if getattr(parameter, "is_flag", False):
        return ""
    described = getattr(
        parameter, "type_descriptor", None
    )  # of some versions of typer; others have a click type
    kind = getattr(parameter, "type", None) if described is None else described.annotation
    return str(parameter.metavar or getattr(kind, "__name__", None) or getattr(kind, "name", "")).upper()


def told(parameter: Any) -> str:
    shown, default = getattr(parameter, "show_default", False), parameter.default
    value = (
        shown if isinstance(shown, str) else default if shown and default not in (None, False, (), []) else ""
    )
    return " ".join(
        each
        for each in (
            (getattr(parameter, "help", "") or "").strip(),
            f"Default: {value}." if value != "" else "",
            "Required." if parameter.required else "",
        )
        if each
    )


# ---- settings


def settings() -> Iterator[str]:
    yield "# Settings"
    yield ""
    yield "Every field of every settings class, `lh.settings.NAME`, from its declaration."
    yield ""
    for name in dir(lh.settings):
        kind = getattr(lh.settings, name)
        if not is_dataclass(kind) or not (declared := options(kind)):
            continue
        yield from (f"## {name}", "", (kind.__doc__ or "").split("\n\n")[0].strip(), "")
        yield from table(
            ("field", "type", "default", "option", "meaning"),
            (
                (f"`{each.name}`", typed(each), defaulted(each), option_of(each), each.option.help)
                for each in declared.values()
            ),
        )
        for inner, other in groups(kind).items():
            yield from (f"`{inner}`: the fields of `{other.__name__}`.", "")


def typed(each: Declared) -> str:
    option = each.option
    name = getattr(each.type, "__name__", str(each.type)) if isinstance(each.type, type) else str(each.type)
    bounds = [f"≥ {option.least:g}"] if option.least is not None else []
    bounds += [f"> {option.above:g}"] if option.above is not None else []
    bounds += [f"≤ {option.most:g}"] if option.most is not None else []
    if option.choices:
        return ", ".join(option.choices)
    return " ".join([name.replace("typing.", "").replace("collections.abc.", ""), ", ".join(bounds)]).strip()


def defaulted(each: Declared) -> str:
    if each.default is MISSING:
        return "must be given"
    if is_dataclass(each.default) or (hasattr(each.default, "__module__") and fields_of(each.default)):
        return type(each.default).__name__
    return f"`{each.default!r}`"


def fields_of(value: object) -> bool:
    return is_dataclass(value) and bool(fields(value))


def option_of(each: Declared) -> str:
    return "" if each.option.python_only or each.option.argument else f"`{each.flag}`"


# ---- measures


def measures() -> Iterator[str]:
    yield "# Measures"
    yield ""
    yield "Every built-in measure, from the catalog, with the section that has its equation. "
    yield "[Which measure when](../method/which-measure.md) helps to choose."
    yield ""
    headings = sections()
    yield from table(
        ("measure", "title", "neutral value", "bias is", "model needs", "equation"),
        (
            (
                f"`{each.name}`",
                each.title,
                "" if each.neutral is None else f"{each.neutral:g}",
                BIAS[each.biased] if each.side == "bias" else "an ability",
                " or ".join(each.needs),
                f"[{headings[each.docs][1]}](../method/{headings[each.docs][0]}#{each.docs})"
                if each.docs
                else "",
            )
            for each in BUILT_IN
        ),
    )
    for each in BUILT_IN:
        yield from described(each)


def described(each: MeasureInfo) -> Iterator[str]:
    yield from (f"## {each.title}", "", f"`{each.name}`. {each.asks} {each.reading}".strip(), "")
    yield from (f"Above the neutral value it *{each.above}*, below it *{each.below}*.", "")


def sections() -> dict[str, tuple[str, str]]:
    """Where each section about a quantity stands, by its anchor: file and heading."""
    found = {}
    for page in sorted(METHOD.glob("*.md")):
        for heading in re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), re.M):
            found[re.sub(r"[^a-z0-9]+", "-", heading.casefold()).strip("-")] = (page.name, heading)
    return found


# ---- run folders


def run_folders() -> Iterator[str]:
    yield "# The run folder"
    yield ""
    yield "Every study writes one folder, which `lh.open_run(FOLDER)` reads. Files appear whole or not at all"
    yield "and a value that was changed later is refused with the file and the line."
    yield ""
    yield from table(
        ("file", "what it holds"),
        (
            (
                "`settings.json`",
                "what was evaluated: model, settings, seed, versions, hashes of weights and data",
            ),
            ("`results.jsonl`", "one line per result: its key (below), its records, a checksum"),
            ("`files.sha256`", "checksums of the other files; `sha256sum -c files.sha256` checks them"),
            (
                "`places.csv`",
                "dtype, device, device map and batch size of each model; no part of the settings",
            ),
            ("`report.html`", "the page"),
            ("`about.json`", "what `--about` states, where somebody did"),
            ("`recipes/*.toml`", "recipes of changed models, where there are any"),
            ("`figures/`", "SVG and PDF, where the study draws any"),
            ("`model/`", "of `mitigate`: the certified model as transformers loads it"),
            ("`shards/`", "only while workers run"),
        ),
    )
    for study in sorted(studies().values(), key=lambda each: each.order):
        yield from results_of(study)


def results_of(study: type[Study[Any]]) -> Iterator[str]:
    yield from (f"## {study.name}", "", f"{study.question} Command: `{study.command}`.", "")
    yield from table(
        ("key in `results.jsonl`", "attribute", "records", "meaning"),
        (
            (
                f"`{name}{'/LABEL' * isinstance(slot, Parts)}`",
                f"`.{name}`",
                f"`{slot.record.__name__}`",
                slot.__doc__ or "",
            )
            for name, slot in study.slots.items()
        ),
    )
    for name, inner in study.inside.items():
        yield from (f"- `{inner.folder}/`, attribute `.{name}`: a run of `{inner.study.name}`.",)
    yield ""
