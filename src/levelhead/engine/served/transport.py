"""One request to a server, and what it answers: a JSON object, or one line that says why not.

Only the standard library is used. No redirect is followed, so a key goes to no other host than the one that
was named. An answer has a limit of bytes and a deadline, which also ends streams that never end and bytes
that come one by one. Whatever a server says is searched for the key before anybody reads it.
"""

from __future__ import annotations

import http.client
import json
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from levelhead.errors import CannotDo, LevelheadError
from levelhead.escaping import escaped
from levelhead.models.served import ServedModel

_AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})  # 529: Anthropic is overloaded
_REDIRECTS = range(300, 400)
_BUSY = frozenset({429, 503, 529})
_CHUNK = 1 << 16
_NO_CREDIT = ("insufficient_quota", "billing")  # a 429 for which waiting changes nothing
_VERSION = "2023-06-01"  # of Anthropic's interface


class Refused(LevelheadError):
    """The server refused a request for good: a status of 4xx."""

    exit_code = 3

    def __init__(self, line: str, status: int, said: str) -> None:
        super().__init__(line)
        self.status, self.said = status, said


class Unavailable(CannotDo):
    """The server gave no answer that can be used, now. status: the last one, or 0."""

    def __init__(self, line: str, status: int = 0) -> None:
        super().__init__(line)
        self.status = status


class _Again(Exception):
    """What may go well the next time. wait: seconds that the server demands."""

    def __init__(self, reason: str, wait: float | None = None, status: int = 0) -> None:
        super().__init__(reason)
        self.wait, self.status = wait, status


class Cancelled(Exception):
    """The user, or another request, has ended the work."""


class Transport:
    """Sends requests to the server of one model, from several threads."""

    def __init__(self, model: ServedModel) -> None:
        self.model = model
        self.slower: Callable[[], None] = lambda: None  # called where the server is too busy
        self._ended = threading.Event()
        self._wait = model.patience.wait or self._ended.wait  # which Ctrl-C ends
        self._open: set[http.client.HTTPConnection] = set()
        self._lock = threading.Lock()
        self._random = random.Random()

    def end(self) -> None:
        """Close every connection, so that threads that wait for an answer end at once."""
        self._ended.set()
        with self._lock:
            for connection in self._open:
                _shut(connection)

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The server's answer; sent again, after a wait, where that may help."""
        patience, attempt = self.model.patience, 0
        while not self._ended.is_set():
            try:
                return self._once(path, body)
            except _Again as error:
                attempt += 1
                if error.status in _BUSY:
                    self.slower()
                if error.wait is not None and error.wait > patience.longest:
                    raise Unavailable(
                        f"{self.model.name} {error} and demands a wait of {error.wait:,.0f} s. Run the same "
                        "command then: what was answered is kept.",
                        error.status,
                    ) from None
                # 500 is as often a request that the server cannot handle as one that goes well later
                if attempt >= (min(4, patience.attempts) if error.status == 500 else patience.attempts):
                    raise Unavailable(
                        f"{self.model.name} {error}, {attempt} times. Run the same command again later: what "
                        "was answered is kept.",
                        error.status,
                    ) from None
                # exponential, with jitter: several clients that failed together do not come back together
                own = min(patience.longest, patience.first * 2 ** (attempt - 1))
                self._wait(max(own * self._random.uniform(0.5, 1.0), error.wait or 0.0))
        raise Cancelled

    def _once(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        parts, seconds = urlsplit(self.model.url), self.model.patience.seconds
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=seconds)
        deadline = time.monotonic() + seconds
        watch = threading.Timer(seconds, partial(_shut, connection))
        watch.daemon = True
        with self._lock:
            self._open.add(connection)
        try:
            watch.start()
            connection.connect()
            if self._ended.is_set():  # while it connected, when there was no socket to close
                raise Cancelled
            sent = json.dumps(body).encode()
            connection.putrequest("POST", f"{parts.path}{path}", skip_accept_encoding=True)
            for name, value in (
                ("Content-Type", "application/json"),
                ("Accept", "application/json"),
                ("User-Agent", "levelhead"),
                ("Content-Length", str(len(sent))),
                ("Connection", "close"),
            ):
                connection.putheader(name, value)
            if self.model.kind == "anthropic":
                connection.putheader("anthropic-version", _VERSION)
            # the key is in no variable, so no traceback that shows variables can show it
            if self.model.key() and self.model.kind == "anthropic":
                connection.putheader("x-api-key", self.model.key())
            elif self.model.key():
                connection.putheader("Authorization", f"Bearer {self.model.key()}")
            connection.endheaders(sent)
            response = connection.getresponse()
            data = self._read(response, deadline)
            return self._judged(response, data)
        except (OSError, http.client.HTTPException) as error:
            if self._ended.is_set():
                raise Cancelled from None
            if isinstance(error, ssl.SSLCertVerificationError):
                raise Unavailable(
                    f"{self.model.name} has a certificate that cannot be trusted: {error.verify_message}."
                ) from None
            if time.monotonic() >= deadline or isinstance(error, TimeoutError):
                raise _Again(f"did not answer within {self.model.patience.seconds:g} s") from None
            raise _Again(f"broke off ({type(error).__name__})") from None
        finally:
            watch.cancel()
            with self._lock:
                self._open.discard(connection)
            connection.close()

    def _read(self, response: http.client.HTTPResponse, deadline: float) -> bytes:
        """The body, with its limits."""
        most, parts, size = self.model.patience.most_bytes, list[bytes](), 0
        while part := response.read1(_CHUNK):
            parts.append(part)
            size += len(part)
            if size > most:
                raise Unavailable(
                    f"{self.model.name} sent an answer of more than {most:,} bytes, the most that is read."
                )
            if time.monotonic() >= deadline:
                raise TimeoutError
        if time.monotonic() >= deadline:  # the watch has shut the socket, which reads as an end
            raise TimeoutError
        if response.length:  # read1 says nothing of a body that is shorter than promised
            raise http.client.IncompleteRead(b"", response.length)
        return b"".join(parts)

    def _judged(self, response: http.client.HTTPResponse, data: bytes) -> dict[str, Any]:
        status = response.status
        if status in _REDIRECTS:
            place = self._shown(response.getheader("Location") or "another place")
            raise Unavailable(
                f"{self.model.name} redirects to {place}, and no redirect is followed: your key belongs to "
                "the server that you named. Name the other one if you trust it."
            )
        try:
            answer = _scrubbed(json.loads(data), self.model.key())
        except (ValueError, RecursionError):
            answer = None
        if status == 200:
            if not isinstance(answer, dict):
                raise _Again("sent something else than a JSON object")
            if "error" in answer and "choices" not in answer and "content" not in answer:
                raise Refused(self._refusal(status, _said(answer)), status, self._shown(_said(answer)))
            return answer
        said = self._shown(_said(answer))
        if status in _AGAIN and not any(word in said for word in _NO_CREDIT):
            wait = _retry_after(response.getheader("Retry-After"))
            why = said or self._shown(response.reason or "") or "no reason"
            raise _Again(f"answers {status} ({why})", wait, status)
        raise Refused(self._refusal(status, said), status, said)

    def _refusal(self, status: int, said: str) -> str:
        line = f"{self.model.name} refuses with status {status}: {self._shown(said) or 'it says no reason'}."
        if status in (401, 403):
            return f"{line} Its key is read from {self.model.key_name}."
        return line

    def _shown(self, text: str) -> str:
        """What a server says, in short, and without the key that it may have sent back."""
        line = escaped(" ".join(str(_scrubbed(text, self.model.key())).split()))
        return line[:200].rstrip(".")


def _shut(connection: http.client.HTTPConnection) -> None:
    if connection.sock is not None:
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)


def _scrubbed(value: Any, key: str) -> Any:
    """JSON without the key, wherever a server repeats it, and without halves of characters."""
    if isinstance(value, str):
        text = value.encode("utf-8", "replace").decode() if not value.isascii() else value
        return text.replace(key, "***") if key else text
    if isinstance(value, dict):
        return {_scrubbed(name, key): _scrubbed(each, key) for name, each in value.items()}
    return [_scrubbed(each, key) for each in value] if isinstance(value, list) else value


def _said(answer: Any) -> str:
    """What an answer says of an error, in the forms that servers have for it."""
    if not isinstance(answer, dict):
        return ""
    error = answer.get("error", answer.get("detail", answer.get("message", "")))
    if isinstance(error, dict):
        told = (error.get("message"), error.get("type"), error.get("code"))
        return " ".join(dict.fromkeys(str(each) for each in told if each))
    return str(error)


def _retry_after(value: str | None) -> float | None:
    """Seconds that a server demands, as a number or as a date; None where it demands nothing readable."""
    if value is None:
        return None
    try:
        return max(0.0, float(value)) if float(value) < float("inf") else None
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
