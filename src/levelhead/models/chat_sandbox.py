"""Chats rendered in a process of their own, which ends when a template takes too much time or memory.

A chat template is a program of its maker's. jinja2's sandbox keeps it from files and from the network, not
from loops that never end or from texts that fill the memory. What a template finds here is what transformers
gives it (utils/chat_template_utils.py), but torch is not imported for it; a test compares the two.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2.ext
from jinja2 import Template, nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.parser import Parser
from jinja2.runtime import Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from levelhead.errors import CannotDo

if sys.platform != "win32":  # there, only the clock ends a template
    import resource

SECONDS = 10  # of the CPU, for chats that take milliseconds
PATIENCE = 60  # seconds by the clock: a machine may be busy
MEMORY = 2**30  # bytes of addresses; macOS does not count them
CHARACTERS = 10**6  # that a chat has more than what the user tells
Tokens = Mapping[str, str | list[str]]  # special ones, by their names
_ENTRY = "import sys; sys.path[:] = sys.argv[1:]; from levelhead.models.chat_sandbox import main; main()"


class Exceeded(Exception):
    """A template took too much time or memory, or did not end its text."""


def render(template: str, tokens: Tokens, told: Sequence[str]) -> list[str]:
    """What a template makes of each user's turn, with the generation prompt.

    CannotDo with the template's own message where it raises an error.
    """
    seconds = SECONDS + len(told) // 100
    job = json.dumps([template, dict(tokens), list(told), seconds, MEMORY, CHARACTERS], default=str)
    paths = [str(Path(path).absolute()) for path in sys.path if path]
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _ENTRY, *paths],
            input=job.encode(),
            capture_output=True,
            check=False,
            timeout=seconds + PATIENCE,
        )
    except subprocess.TimeoutExpired as error:
        raise Exceeded from error
    if done.returncode < 0:
        raise Exceeded
    if done.returncode:
        raise CannotDo(done.stderr.decode(errors="replace").strip().rpartition("\n")[2])
    kind, answer = json.loads(done.stdout)
    if kind == Exceeded.__name__:
        raise Exceeded
    if kind == TemplateError.__name__:
        raise CannotDo(answer)
    return list(answer)


def main() -> None:
    """Read a job, limit this process, answer."""
    template, tokens, told, seconds, memory, characters = json.loads(sys.stdin.buffer.read())
    _limit(seconds, memory)
    try:
        compiled = compile_template(template)
        chats = [_chat(compiled, tokens, each, characters + len(each)) for each in told]
        answer = json.dumps(["", chats])
    except (MemoryError, Exceeded):
        answer = json.dumps([Exceeded.__name__, ""])
    except Exception as error:  # a template may raise anything
        text = str(error).strip() or type(error).__name__
        answer = json.dumps([TemplateError.__name__, text[:1000]])
    sys.stdout.buffer.write(answer.encode())


def _limit(seconds: int, memory: int) -> None:
    """Let the kernel end this process after so much work, and refuse it more memory."""
    if sys.platform == "win32":
        return
    work = math.ceil(time.process_time()) + seconds
    for kind, limit in ((resource.RLIMIT_CPU, work), (resource.RLIMIT_AS, memory)):
        with suppress(ValueError, OSError):  # a lower limit stands already, or macOS has none
            resource.setrlimit(kind, (limit, limit))


def _chat(template: Template, tokens: Tokens, told: str, longest: int) -> str:
    """One chat; Exceeded as soon as it is too long."""
    given = {"messages": [{"role": "user", "content": told}], "tools": None, "documents": None}
    blocks, length = list[str](), 0
    for block in template.generate(**given, add_generation_prompt=True, **tokens):
        length += len(block)
        if length > longest:
            raise Exceeded
        blocks.append(block)
    return "".join(blocks)


# ---- what transformers gives a template


def compile_template(template: str) -> Template:
    """A template in the environment of transformers."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    environment.globals["dict"] = _Dict()
    environment.globals["namespace"] = _Namespace
    return environment.from_string(template)


class _Generation(jinja2.ext.Extension):
    """{% generation %} ... {% endgeneration %} marks what a model said; here it is only read."""

    tags = {"generation"}  # noqa: RUF012 (as jinja2 declares it)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_said"), [], [], body).set_lineno(line)

    def _said(self, caller: Macro) -> str:
        return caller()


def _tojson(
    x: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise_exception(message: str) -> None:
    raise TemplateError(message)


class _Dict:
    """dict without attributes that lead out of the sandbox."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        return dict(*args, **kwargs)

    def fromkeys(self, *args: Any) -> dict[Any, Any]:
        return dict.fromkeys(*args)


class _Namespace(Namespace):
    """A namespace without names that begin with an underscore."""

    def __init__(*args: Any, **kwargs: Any) -> None:  # so that `self` can be one of the names
        own, given = args[0], dict(*args[1:], **kwargs)
        for name in given:
            _check_name(name)
        Namespace.__init__(own, given)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(f"Chat templates cannot store {name!r} on a namespace")
