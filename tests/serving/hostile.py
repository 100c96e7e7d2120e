"""Requests that nobody means well with: sizes, encodings, hosts, tokens, nesting, bodies that do not end."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Iterator

_NAMES = ("prompt", "n", "max_tokens", "temperature", "top_p", "seed", "stop", "logprobs", "echo", "stream")
_VALUES: tuple[object, ...] = (
    *(-1, 0, 1e308, 2**64, "", "\ud800", "x" * 70_000, [], [[]], {}, [None], True, False, [[-1]], [[2**40]]),
    *("\x00", "\ufeff", "\u202e", [1, "a"], {"a": {"a": 1}}, ["a"] * 5000, 0.5, "NaN", "<|endoftext|>"),
)
_PATHS = (
    *("/v1/completions", "/v1/chat/completions", "/v1/models", "/health", "/", "/v1", "/../etc/passwd"),
    *("/v1/%2e%2e/completions", "/v1/completions?model=x", "/v1/models/" + "x" * 4000, "/\udcff", "*"),
)
_HEADERS = (
    *("Host: evil.example", "Host: 127.0.0.1", "Origin: https://evil.example", "Origin: null", "Host:"),
    *(
        "Authorization: Bearer ",
        "Authorization: Basic eDp4",
        "Authorization: Bearer \xff\xfe",
        "X: " + "y" * 9000,
    ),
    *(
        "Transfer-Encoding: chunked",
        "Content-Length: -1",
        "Content-Length: 99999999999999999999999",
        "Expect: 100-continue",
    ),
    *(
        "Content-Type: text/plain",
        "Content-Encoding: gzip",
        "Upgrade: websocket\r\nConnection: Upgrade",
        "\x00: a",
    ),
)
_RAW = (
    *(
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\x00" * 5000,
        b"GET",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\r\n" * 3000,
    ),
    *(b"POST /v1/completions HTTP/1.1\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"A" * 40_000, b"GET /\r\n"),
)


def _body(rng: random.Random, name: str) -> bytes:
    plain = {"model": name, "prompt": "The nurse said", "max_tokens": 1}
    match rng.randrange(8):
        case 0:
            return bytes(rng.randrange(256) for _ in range(rng.randrange(200)))
        case 1:
            return rng.choice((b"[", b'{"a":', b'"\\"', b"{", b"1")) * rng.choice((1, 50, 5000, 300_000))
        case 2:
            return json.dumps(plain)[: rng.randrange(60)].encode()
        case 3:
            return json.dumps(plain).encode(rng.choice(("utf-16", "utf-32", "utf-8-sig", "utf-7")))
        case 4:
            return b'{"prompt":"a","prompt":"b","n":NaN}'
        case _:
            changed = {
                **plain,
                rng.choice(_NAMES): rng.choice(_VALUES),
                rng.choice(_NAMES): rng.choice(_VALUES),
            }
            if rng.random() < 0.2:
                changed[rng.choice(("tools", "model", "messages", "__class__", "x" * 3000))] = rng.choice(
                    _VALUES
                )
            return json.dumps(changed).encode()


def hostile(number: int, name: str, port: int, token: str = "", seed: int = 0) -> Iterator[bytes]:
    """So many requests, as bytes."""
    rng = random.Random(seed)
    for _ in range(number):
        if rng.random() < 0.15:
            yield rng.choice(_RAW)
            continue
        body = _body(rng, name)
        lines = [
            f"{rng.choice(('POST', 'POST', 'POST', 'GET', 'PUT', 'TRACE'))} {rng.choice(_PATHS)} HTTP/1.1"
        ]
        lines += [f"Host: 127.0.0.1:{port}"] if rng.random() < 0.9 else []
        lines += ["Content-Type: application/json"] if rng.random() < 0.9 else []
        lines += [f"Authorization: Bearer {token}"] if token and rng.random() < 0.7 else []
        lines += [f"Content-Length: {len(body) + rng.choice((0, 0, 0, 0, 1, -1, 500, 10**8))}"]
        lines += [rng.choice(_HEADERS)] if rng.random() < 0.3 else []
        whole = "\r\n".join(lines).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + body
        yield whole[: rng.randrange(len(whole))] if rng.random() < 0.15 else whole


def send(port: int, request: bytes, patience: float = 0.3) -> bytes:
    """Send bytes, read what comes until there is no more, and leave."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=patience) as connection:
        try:
            connection.sendall(request)
            while part := connection.recv(65536):
                answer += part
        except OSError:  # it has been closed, or nothing more comes
            pass
    return answer
