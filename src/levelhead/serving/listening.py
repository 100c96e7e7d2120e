"""A server that runs an ASGI application: a socket, a thread or the main one, limits, and an end."""

from __future__ import annotations

import ipaddress
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import Any, cast

from levelhead.errors import BadOption, CannotDo

LOOPBACK = "127.0.0.1"
_STARTS = 30.0  # seconds within which a server is up
_WAITING = 64  # connections that the system holds until they are taken
HEADER_SECONDS = 10.0  # within which the headers of a request have arrived
_HEADER_BYTES = 16 * 1024
Receive = Callable[[], Awaitable[Any]]


class TooLarge(Exception):
    """A request whose body goes on beyond the limit: it ends the reading of it."""


def limited(receive: Receive, most: int) -> Receive:
    """What receives a request of at most so many bytes, whatever its headers say."""
    seen = 0

    async def next_part() -> Any:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise TooLarge
        return message

    return next_part


def states_more(headers: list[tuple[bytes, bytes]], most: int) -> bool:
    """Whether a request says that it has more bytes than are taken, or no number of them."""
    stated = [value for name, value in headers if name == b"content-length"]
    return any(not value.isdigit() or len(value) > 20 or int(value) > most for value in stated)


def own_names(host: str, port: int) -> list[bytes]:
    """What requests may call this server when it listens to this machine alone."""
    names = dict.fromkeys(("127.0.0.1", "localhost", f"[{host}]" if ":" in host else host))
    return [f"{name}:{port}".encode() for name in names]


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches a host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def require_server(command: str) -> None:
    """Refuse in one line where the packages of a server are missing."""
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise CannotDo(f"{command} needs {' and '.join(missing)}: pip install 'levelhead[{command}]'")


class Listening:
    """A socket that is bound, and what serves on it. port 0: any that is free."""

    def __init__(self, host: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
            self._socket.listen(_WAITING)
        except OSError as error:
            self._socket.close()
            reason = error.strerror or str(error)
            raise BadOption(f"Port {port} of {host} cannot be had: {reason}. Give another --port.") from None
        self.host, self.port = host, int(self._socket.getsockname()[1])
        self._server: Any = None
        self._thread: threading.Thread | None = None

    def serves(self, app: Any, name: str, **limits: Any) -> None:
        """Say what is served. limits: those of uvicorn's configuration."""
        import uvicorn

        config = uvicorn.Config(
            cast(Any, app),
            access_log=False,
            h11_max_incomplete_event_size=_HEADER_BYTES,
            http=_patient(),
            lifespan="off",
            log_level="critical",
            loop="asyncio",
            proxy_headers=False,
            server_header=False,
            ws="none",
            **limits,
        )
        self._name, self._server = name, uvicorn.Server(config)

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM; what has begun is finished then, unless a second one arrives."""
        # uvicorn raises a signal again when it has ended, which must not kill the process then
        before = None
        if threading.current_thread() is threading.main_thread():
            before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            self._server.run(sockets=[self._socket])
        except KeyboardInterrupt:
            pass  # how it is meant to end
        finally:
            if before is not None:
                signal.signal(signal.SIGTERM, before)

    def start(self) -> None:
        """Serve in a thread of its own, until `stop` or the end of Python."""
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name=self._name, daemon=True
        )
        self._thread.start()
        end = time.monotonic() + _STARTS
        while not self._server.started and time.monotonic() < end:
            time.sleep(0.01)

    def stop(self) -> None:
        """End the thread, once it has finished what has begun."""
        if self._server is not None:
            self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(_STARTS)
        self._socket.close()


def _patient() -> Any:
    """uvicorn's protocol, with an end to its patience: headers that never end close their connection."""
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Patient(H11Protocol):
        _ends: Any = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._ends = self.loop.call_later(HEADER_SECONDS, transport.close)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            unfinished = self.conn.their_state is h11.IDLE and not self.transport.is_closing()
            if unfinished and self._ends is None and self.conn.trailing_data[0]:
                self._ends = self.loop.call_later(HEADER_SECONDS, self.transport.close)
            elif not unfinished and self._ends is not None:
                self._ends.cancel()
                self._ends = None

        def connection_lost(self, exc: Exception | None) -> None:
            if self._ends is not None:
                self._ends.cancel()
            super().connection_lost(exc)

    return Patient
