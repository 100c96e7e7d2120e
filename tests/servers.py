"""Tiny servers with the interface of OpenAI, for tests: they behave as they are told, and count.

The model behind them knows the bigrams of a few English sentences: what it writes follows from the prompt and
the seed alone, and each word has one log p, whether it is written or read.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any

from levelhead.models.opening import PLAIN

WORDS = (*dict.fromkeys(" ".join(PLAIN).split()), "she", "he", "her", "his", "woman", "man")
_BIGRAMS = {pair for text in PLAIN for pair in pairwise(text.split())}
_TOKEN = re.compile(r"\s*\S+|\s+$")
KEY = "sk-test-5f2a9c77d1"  # which must be found nowhere


def split(text: str) -> list[str]:
    """Words with the blanks before them."""
    return _TOKEN.findall(text)


def log_ps(tokens: list[str]) -> list[float | None]:
    """log p of every token but the first."""
    words = [token.strip() for token in tokens]
    return [None, *(-1.5 if pair in _BIGRAMS else -4.0 for pair in pairwise(words))]


Handle = Callable[["Handler", dict[str, Any]], bool]  # whether it has answered, in place of the server


@dataclass
class Behavior:
    """What a server does; everything that it was sent is kept."""

    name: str = "tiny"
    seeds: bool = True
    temperatures: bool = True
    several: bool = True
    echo: bool = True
    stops: bool = True
    chats: bool = True
    completes: bool = True
    says: Callable[[str, random.Random], str] | None = None  # the text of a chat
    first: Handle = lambda handler, body: False
    sent: Counter[str] = field(default_factory=Counter)  # body -> how often it was answered
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    requests: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Handler(BaseHTTPRequestHandler):
    behavior: Behavior
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        own = self.behavior
        with own.lock:
            own.requests += 1
            own.bodies.append(body)
            own.headers.append(dict(self.headers.items()))
        if own.first(self, body):
            return
        if self.path.endswith("/messages"):  # Anthropic's interface
            prompt = body["messages"][-1]["content"]
            said, ended = self.text(prompt, body, 0, chat=True)
            answer = {"model": own.name, "content": [{"type": "text", "text": said}]}
            reason, counts = "end_turn" if ended else "max_tokens", {"input_tokens": 9, "output_tokens": 5}
            self.give(200, {**answer, "stop_reason": reason, "usage": counts})
            return
        chat = self.path.endswith("/chat/completions")
        if not (own.chats if chat else own.completes):
            self.give(404, {"error": {"message": "no such endpoint"}})
            return
        with own.lock:
            own.sent[json.dumps([self.path, body], sort_keys=True)] += 1
        self.give(200, self.answer(body, chat))

    def answer(self, body: dict[str, Any], chat: bool) -> dict[str, Any]:
        own = self.behavior
        prompt = body["messages"][-1]["content"] if chat else body["prompt"]
        choices, written = [], 0
        for k in range(body.get("n", 1) if own.several else 1):
            said, ended = self.text(prompt, body, k, chat)
            written += len(split(said))
            echoed = bool(body.get("echo")) and own.echo
            tokens = (split(prompt) if echoed else []) + split(said)
            logs = log_ps(split(prompt) + split(said))[len(split(prompt)) * (not echoed) :]
            told = {"tokens": tokens, "token_logprobs": logs, "text_offset": [], "top_logprobs": None}
            choice: dict[str, Any] = {"index": k, "finish_reason": "stop" if ended else "length"}
            choice["logprobs"] = told if body.get("logprobs") and not chat else None
            choice |= {"message": {"content": said}} if chat else {"text": prompt * echoed + said}
            choices.append(choice)
        usage = {"prompt_tokens": len(split(prompt)), "completion_tokens": written}
        return {"id": "x", "model": own.name, "choices": choices, "usage": usage}

    def text(self, prompt: str, body: dict[str, Any], k: int, chat: bool) -> tuple[str, bool]:
        own = self.behavior
        seed = body.get("seed") if own.seeds else None
        cold = body.get("temperature", 1.0) < 0.01 and own.temperatures
        source: Any = random.Random()
        if cold or seed is not None:
            named = f"{prompt} {k}" if cold else f"{prompt} {k} {seed}"
            source = random.Random(hashlib.sha256(named.encode()).hexdigest())
        if chat and own.says is not None and "random" not in prompt:  # which proves what it can do
            return own.says(prompt, source), True
        said = "".join(f" {source.choice(WORDS)}" for _ in range(body["max_tokens"]))
        for stop in body.get("stop", body.get("stop_sequences", [])) if own.stops else []:
            said = said.partition(stop)[0]
        return said, False

    def give(self, status: int, answer: Any, headers: Mapping[str, str] | None = None) -> None:
        data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def serving(behavior: Behavior, certified: ssl.SSLContext | None = None) -> Iterator[str]:
    """A server on a free port, by its URL; with a certificate it speaks HTTPS."""
    handler = type("Own", (Handler,), {"behavior": behavior})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if certified is not None:
        server.socket = certified.wrap_socket(server.socket, server_side=True)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"{'http' if certified is None else 'https'}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
