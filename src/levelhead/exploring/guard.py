"""Who may ask the server of a page: this machine, by its own address, with the token, in small requests.

A page of the web can send requests to 127.0.0.1, and a name of its own can be made to lead there (DNS
rebinding). So every request must name our host, ask under the token, and come from our own page; nothing is
answered with a header that would let another origin read it.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp as App
    from starlette.types import Message, Receive, Scope, Send

MOST_BYTES = 64 * 1024  # of a request


class TooLarge(Exception):
    """A request whose body goes on beyond the limit: it ends the reading of it."""


@dataclass(frozen=True)
class Guard:
    """An ASGI application behind the checks above."""

    app: App
    token: str
    port: int

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse in one line, or hand on."""
        if scope["type"] != "http":
            raise RuntimeError("the page is asked by plain requests only")
        headers = [(name.lower(), value) for name, value in scope["headers"]]
        if refusal := self._refusal(scope, headers):
            await _refuse(send, *refusal)
            return
        await self.app(scope, _limited(receive), send)

    def _refusal(self, scope: Scope, headers: list[tuple[bytes, bytes]]) -> tuple[int, str] | None:
        hosts = [f"{name}:{self.port}".encode() for name in ("127.0.0.1", "localhost")]
        named = [value for name, value in headers if name == b"host"]
        if len(named) != 1 or named[0] not in hosts:
            return 403, "ask 127.0.0.1 by its own name"
        folder = str(scope["path"]).split("/")[1:2]
        if not folder or not secrets.compare_digest(folder[0].encode(), self.token.encode()):
            return 403, "the token is missing or wrong; use the address that was printed"
        origins = [value for name, value in headers if name == b"origin"]
        own = [b"http://" + host for host in hosts]
        if any(origin not in own for origin in origins) or (scope["method"] != "GET" and not origins):
            return 403, "only the page itself may ask"
        sites = [value for name, value in headers if name == b"sec-fetch-site"]
        if scope["method"] != "GET" and any(site != b"same-origin" for site in sites):
            return 403, "only the page itself may ask"
        stated = [value for name, value in headers if name == b"content-length"]
        if any(not value.isdigit() or int(value) > MOST_BYTES for value in stated):
            return 413, f"at most {MOST_BYTES} bytes are taken"
        return None


def _limited(receive: Receive) -> Receive:
    """The body of a request, which ends with an error where it is too long, whatever its headers say."""
    seen = 0

    async def some() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > MOST_BYTES:
            raise TooLarge
        return message

    return some


async def _refuse(send: Send, status: int, line: str) -> None:
    body = f"levelhead: {line}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
