"""Questions in the form that an instruction-tuned model was taught to read: its tokenizer's chat template.

what the model is told     the user's turn
what the model says        behind the generation prompt, with which the template opens the model's own turn

A chat template is a program. jinja2's sandbox keeps it from files and from the network, not from loops that
never end or from texts that fill the memory, so chats are rendered in a process of their own with limits of
time and memory. That process imports this module, which must not import torch at its top: its addresses alone
exceed the limit. What a template finds here is what transformers gives it (utils/chat_template_utils.py).
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
from typing import TYPE_CHECKING, Any

import jinja2.ext
from jinja2 import Template, nodes
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.parser import Parser
from jinja2.runtime import Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from levelhead.errors import CannotDo
from levelhead.models.memoize import once_a_model

if sys.platform != "win32":  # there, only the clock ends a template
    import resource

if TYPE_CHECKING:
    from levelhead.models.encoding import Text
    from levelhead.models.model import Model

SECONDS = 10  # of the CPU, for chats that take milliseconds
PATIENCE = 60  # seconds by the clock: a machine may be busy
MEMORY = 2**30  # bytes of addresses; macOS does not count them
CHARACTERS = 10**6  # that a chat has more than what the user tells
Tokens = Mapping[str, str | list[str]]  # special ones, by their names
Said = tuple[tuple[str, str], ...]  # a chat so far: who said what
_ENTRY = "import sys; sys.path[:] = sys.argv[1:]; from levelhead.models.chat import main; main()"


class Exceeded(Exception):
    """A template took too much time or memory, or did not end its text."""


def require_chat(model: Model) -> None:
    """Refuse a model that is not causal, or whose tokenizer has no chat template."""
    model.require("causal", "questions through a chat template")
    if not model.tokenizer.chat_template:
        raise CannotDo(
            f"The tokenizer of {model.name} has no chat template. Ask it in plain text: leave chat out."
        )


def chat_texts(model: Model, turns: Sequence[tuple[str, str]]) -> list[Text]:
    """Chats in which the user told the model something, and the model has said the last characters.

    What the model says comes after a space where the generation prompt ends in neither a blank nor a special
    token, as after Llama 2's [/INST].
    """
    from levelhead.models.encoding import Text

    told = tuple(dict.fromkeys(told for told, _ in turns))
    opened = dict(zip(told, _opened(model, told), strict=True))
    return [Text(f"{opened[told]}{said}", whole=True) for told, said in turns]


@once_a_model
def _opened(model: Model, told: tuple[str, ...]) -> tuple[str, ...]:
    """Chats up to where the model begins to speak, rendered together in one process of their own."""
    return opened_chats(model, told)


def opened_chats(model: Model, so_far: Sequence[str | Said]) -> tuple[str, ...]:
    """The same for chats of several turns too; nothing is kept of them."""
    from levelhead.models.checkpoint_files import one_line

    tokenizer = model.tokenizer
    try:
        chats = render(tokenizer.get_chat_template(), tokenizer.special_tokens_map, so_far)
    except Exceeded as error:
        raise CannotDo(
            f"The chat template of {model.name} does not end, or fills the memory: more than {SECONDS} s, "
            f"{MEMORY >> 20} MiB or {CHARACTERS} characters. Ask it in plain text: leave chat out."
        ) from error
    except (CannotDo, ValueError) as error:  # it has several templates and no default, or raises an error
        raise CannotDo(
            f"The chat template of {model.name} cannot take a user's turn: {one_line(error)}."
        ) from error
    ends = tuple(tokenizer.all_special_tokens)
    return tuple(chat if chat[-1:].isspace() or chat.endswith(ends) else f"{chat} " for chat in chats)


def render(template: str, tokens: Tokens, told: Sequence[str | Said]) -> list[str]:
    """What a template makes of each chat so far, or of a user's turn, with the generation prompt.

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


# ---- inside the process


def main() -> None:
    """Read a job, limit this process, answer."""
    template, tokens, told, seconds, memory, characters = json.loads(sys.stdin.buffer.read())
    if sys.platform != "win32":  # the kernel ends this process after so much work, and refuses it more memory
        work = math.ceil(time.process_time()) + seconds
        for kind, limit in ((resource.RLIMIT_CPU, work), (resource.RLIMIT_AS, memory)):
            with suppress(ValueError, OSError):  # a lower limit stands already, or macOS has none
                resource.setrlimit(kind, (limit, limit))
    try:
        compiled = compile_template(template)
        chats = [_chat(compiled, tokens, each, characters) for each in told]
        answer = json.dumps(["", chats])
    except (MemoryError, Exceeded):
        answer = json.dumps([Exceeded.__name__, ""])
    except Exception as error:  # a template may raise anything
        text = str(error).strip() or type(error).__name__
        answer = json.dumps([TemplateError.__name__, text[:1000]])
    sys.stdout.buffer.write(answer.encode())


def _chat(template: Template, tokens: Tokens, told: str | Said, more: int) -> str:
    """One chat; Exceeded as soon as it is so much longer than what was said."""
    said = [("user", told)] if isinstance(told, str) else told
    given = {
        "messages": [{"role": role, "content": text} for role, text in said],
        "tools": None,
        "documents": None,
    }
    blocks, length, longest = list[str](), 0, more + sum(len(text) for _, text in said)
    for block in template.generate(**given, add_generation_prompt=True, **tokens):
        length += len(block)
        if length > longest:
            raise Exceeded
        blocks.append(block)
    return "".join(blocks)


def compile_template(template: str) -> Template:
    """A template in the environment of transformers."""

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    def tojson(
        x: Any,
        ensure_ascii: bool = False,
        indent: Any = None,
        separators: Any = None,
        sort_keys: bool = False,
    ) -> str:
        own = {"indent": indent, "separators": separators, "sort_keys": sort_keys}
        return json.dumps(x, ensure_ascii=ensure_ascii, **own)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
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
        Namespace.__init__(own)
        for name, value in given.items():
            own[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        if isinstance(name, str) and name.startswith("_"):
            raise SecurityError(f"Chat templates cannot store {name!r} on a namespace")
        super().__setitem__(name, value)
