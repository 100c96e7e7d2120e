"""What a request may say: every field once, with its type, bounds and default. What is not listed, and what
this server does not do, is refused by the name of the field; nothing is ignored.

The fields are those of OpenAI's completions and chat completions. `user`, `metadata` and `service_tier` are
taken and change nothing, as there.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST_TEXTS = 1024  # of one request: prompts times n
MOST_LOGPROBS = 20
MOST_STOPS = 16
MOST_CHAT = 4096  # tokens of an answer in a chat that states no limit, where as many positions are left
_DEPTH = 16  # of lists and objects inside each other
_LARGEST = 2**63 - 1
_STOP_CHARACTERS = 256
_TEXTS = re.compile(rb'"(?:[^"\\]|\\.)*+"?', re.DOTALL)  # also one that does not end: each byte is read once
_BRACKETS = re.compile(rb"[\[{\]}]")
_SHOWN = 60  # characters of a value in an error
ROLES = ("system", "user", "assistant", "tool")
Prompt = str | tuple[int, ...]
Message = tuple[str, str]


class Refused(Exception):
    """A request that is not answered: its status, and what OpenAI's error object says."""

    def __init__(self, status: int, line: str, field: str | None = None, code: str | None = None) -> None:
        super().__init__(line)
        self.status, self.field, self.code = status, field, code

    @property
    def error(self) -> dict[str, Any]:
        """The error object."""
        kinds = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
        kind = "server_error" if self.status >= 500 else kinds.get(self.status, "invalid_request_error")
        return {"error": {"message": str(self), "type": kind, "param": self.field, "code": self.code or kind}}


@dataclass(frozen=True)
class CompletionRequest:
    """What a request asks for."""

    prompts: tuple[Prompt, ...] = ()
    messages: tuple[Message, ...] = ()  # of a chat, which has no prompts
    n: int = 1
    tokens: int | None = None  # at most; None: as many as there are positions
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    logprobs: int | None = None  # of the tokens, and of so many of the likeliest at each
    echo: bool = False
    stream: bool = False
    usage: bool = False  # at the end of a stream

    @property
    def chat(self) -> bool:
        return bool(self.messages)


Reader = Callable[[str, Any], Any]


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=True, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _wrong(name: str, allowed: str, value: object) -> Refused:
    return Refused(400, f"{name} must be {allowed} (got {_shown(value)})", name, "invalid_value")


def _whole(least: int, most: int = _LARGEST) -> Reader:
    def read(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            bounds = f"of at least {least}" if most == _LARGEST else f"from {least} to {most}"
            raise _wrong(name, f"a whole number {bounds}", value)
        return value

    return read


def _number(least: float, most: float) -> Reader:
    def read(name: str, value: Any) -> float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or not least <= value <= most:
            raise _wrong(name, f"a number from {least:g} to {most:g}", value)
        return float(value)

    return read


def _switch(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(name, "true or false", value)
    return value


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(name, "a text", value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _wrong(name, "valid Unicode, without halves of characters", value) from None
    return value


def _only(*allowed: object) -> Reader:
    """A field whose every other value asks for what this server does not do."""

    def read(name: str, value: Any) -> None:
        if not any(type(value) is type(each) and value == each for each in allowed):
            raise Refused(
                400,
                f"{name} is not supported; leave it out or give {' or '.join(map(_shown, allowed))} "
                f"(got {_shown(value)})",
                name,
                "unsupported_parameter",
            )

    return read


def _anything(name: str, value: Any) -> None:
    """A field that changes no answer anywhere."""


def _prompts(name: str, value: Any) -> tuple[Prompt, ...]:
    """A text, texts, tokens, or lists of tokens."""
    given = value if isinstance(value, list) else [value]
    if given and all(isinstance(each, int) for each in given):
        given = [given]
    found: list[Prompt] = []
    for each in given:
        if isinstance(each, list) and each and all(type(i) is int and 0 <= i < 2**31 for i in each):
            found.append(tuple(each))
        elif isinstance(each, str) and each.strip():
            found.append(_text(name, each))
        else:
            raise _wrong(name, "a text, a list of texts, or lists of tokens, none of them empty", each)
    if not found:
        raise _wrong(name, "at least one text", value)
    return tuple(found)


def _stops(name: str, value: Any) -> tuple[str, ...]:
    given = value if isinstance(value, list) else [value]
    if len(given) > MOST_STOPS or any(
        not isinstance(each, str) or not 0 < len(each) <= _STOP_CHARACTERS for each in given
    ):
        raise _wrong(
            name, f"a text or up to {MOST_STOPS} texts, each of 1 to {_STOP_CHARACTERS} characters", value
        )
    return tuple(dict.fromkeys(_text(name, each) for each in given))


def _messages(name: str, value: Any) -> tuple[Message, ...]:
    if not isinstance(value, list) or not value or len(value) > MOST_TEXTS:
        raise _wrong(name, f"a list of 1 to {MOST_TEXTS} messages", value)
    messages: list[Message] = []
    for number, each in enumerate(value):
        at = f"{name}[{number}]"
        if not isinstance(each, dict):
            raise _wrong(at, "an object with role and content", each)
        if unknown := [key for key in each if key not in ("role", "content") and each[key] not in (None, [])]:
            line = f"{at} must have role and content alone (got {_shown(unknown[0])})"
            raise Refused(400, line, at, "invalid_value")
        if each.get("role") not in ROLES:
            raise _wrong(f"{at}.role", f"one of {', '.join(ROLES)}", each.get("role"))
        content = each.get("content")
        if isinstance(content, list):
            for part in content:
                if not isinstance(part, dict) or part.keys() != {"type", "text"} or part["type"] != "text":
                    raise _wrong(f"{at}.content", "a text, or parts of type text", part)
            content = "".join(_text(f"{at}.content", part["text"]) for part in content)
        messages.append((str(each["role"]), _text(f"{at}.content", content)))
    return tuple(messages)


def _stream_options(name: str, value: Any) -> bool:
    if not isinstance(value, dict) or value.keys() - {"include_usage", "include_obfuscation"}:
        raise _wrong(name, 'an object with "include_usage"', value)
    if value.get("include_obfuscation"):
        raise _wrong(f"{name}.include_obfuscation", "false", True)
    return _switch(f"{name}.include_usage", value.get("include_usage", False))


_BOTH: dict[str, Reader] = {
    "model": _text,
    "n": _whole(1, 128),
    "max_tokens": _whole(0),
    "temperature": _number(0, 2),
    "top_p": _number(0, 1),
    "seed": _whole(0),
    "stop": _stops,
    "stream": _switch,
    "stream_options": _stream_options,
    "user": _anything,
    "metadata": _anything,
    "service_tier": _anything,
    "frequency_penalty": _only(0, 0.0),
    "presence_penalty": _only(0, 0.0),
    "logit_bias": _only({}),
}
COMPLETIONS: dict[str, Reader] = {
    "prompt": _prompts,
    **_BOTH,
    "logprobs": _whole(0, MOST_LOGPROBS),
    "echo": _switch,
    "best_of": _only(1),
    "suffix": _only(""),
}
CHATS: dict[str, Reader] = {
    "messages": _messages,
    **_BOTH,
    "max_completion_tokens": _whole(1),
    "logprobs": _switch,
    "top_logprobs": _whole(0, MOST_LOGPROBS),
    "store": _only(False),
    "tools": _only([]),
    "tool_choice": _only("none", "auto"),
    "parallel_tool_calls": _anything,  # without tools there are no calls
    "response_format": _only({"type": "text"}),
    "modalities": _only(["text"]),
}


def decoded(body: bytes) -> dict[str, Any]:
    """The object in a body."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(found := dict(pairs)) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise Refused(400, f"{_shown(twice)} must be there once", twice[:_SHOWN], "invalid_json")
        return found

    def no_number(text: str) -> Any:
        raise Refused(400, f"the body must be JSON, which has no {text}", None, "invalid_json")

    depth = 0  # before anything recursive reads the body
    for bracket in _BRACKETS.findall(_TEXTS.sub(b"", body)):
        depth += 1 if bracket in b"[{" else -1
        if depth > _DEPTH:
            raise Refused(400, f"the body must be at most {_DEPTH} levels deep", None, "invalid_json")
    try:
        found = json.loads(body.decode(), object_pairs_hook=once, parse_constant=no_number)
    except (ValueError, RecursionError) as error:
        reason = "is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)[:_SHOWN]
        raise Refused(
            400, f"the body must be a JSON object in UTF-8 ({reason})", None, "invalid_json"
        ) from None
    if not isinstance(found, dict):
        raise Refused(400, f"the body must be a JSON object (got {_shown(found)})", None, "invalid_json")
    return found


def read_fields(
    body: Mapping[str, Any], fields: Mapping[str, Reader], needed: Sequence[str]
) -> dict[str, Any]:
    """The values of a request; null is a field that was left out."""
    for name in body:
        if name not in fields:
            raise Refused(
                400,
                f"{_shown(name)} is not supported; allowed are {', '.join(fields)}",
                name[:_SHOWN],
                "unsupported_parameter",
            )
    given = {name: fields[name](name, value) for name, value in body.items() if value is not None}
    if missing := [name for name in needed if name not in given]:
        raise Refused(400, f"{missing[0]} must be given", missing[0], "missing_required_parameter")
    if "stream_options" in given and not given.get("stream"):
        raise Refused(400, "stream_options needs stream to be true", "stream_options", "invalid_value")
    return given


def completion(body: Mapping[str, Any]) -> CompletionRequest:
    """What a request for completions asks for."""
    given = read_fields(body, COMPLETIONS, ("model", "prompt"))
    if (texts := len(given["prompt"]) * given.get("n", 1)) > MOST_TEXTS:
        line = f"prompt must ask for at most {MOST_TEXTS} texts, prompts times n (got {texts})"
        raise Refused(400, line, "prompt", "invalid_value")
    return CompletionRequest(
        prompts=given["prompt"],
        tokens=given.get("max_tokens", 16),
        logprobs=given.get("logprobs"),
        echo=given.get("echo", False),
        **_shared(given),
    )


def chat(body: Mapping[str, Any]) -> CompletionRequest:
    """What a request for chat completions asks for."""
    given = read_fields(body, CHATS, ("model", "messages"))
    if {"max_tokens", "max_completion_tokens"} <= given.keys():
        raise Refused(400, "max_tokens must be left out beside max_completion_tokens", "max_tokens")
    if given.get("max_tokens") == 0:
        raise _wrong("max_tokens", "a whole number of at least 1", 0)
    if "top_logprobs" in given and not given.get("logprobs"):
        raise Refused(400, "top_logprobs needs logprobs to be true", "top_logprobs", "invalid_value")
    return CompletionRequest(
        messages=given["messages"],
        tokens=given.get("max_completion_tokens", given.get("max_tokens")),
        logprobs=given.get("top_logprobs", 0) if given.get("logprobs") else None,
        **_shared(given),
    )


def _shared(given: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("n", "temperature", "top_p", "seed", "stop", "stream")
    return {name: given[name] for name in kept if name in given} | {
        "usage": given.get("stream_options", False)
    }
