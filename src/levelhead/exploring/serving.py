"""A page that is served: a free port of 127.0.0.1, a token in the address, and an end."""

from __future__ import annotations

import socket
import threading
import time
from importlib.util import find_spec
from typing import Any, Self, cast

from levelhead.errors import BadOption, CannotDo
from levelhead.exploring.explorer import Explorer
from levelhead.exploring.token import kept_token, new_token

HOST = "127.0.0.1"
_STARTS = 30.0  # seconds within which a server is up


class Served:
    """A server that is ready to run, and its address."""

    def __init__(self, explorer: Explorer, port: int = 0, token: str = "", framed: bool = False) -> None:
        self.explorer, self.token = explorer, token or (kept_token(port) if port else new_token())
        require_server()
        self._socket = _listening(port)
        self.port = int(self._socket.getsockname()[1])
        self._server = _server(explorer, self.token, self.port, framed)
        self._thread: threading.Thread | None = None

    @property
    def address(self) -> str:
        """Where the page is, with its token."""
        return f"http://{HOST}:{self.port}/{self.token}/"

    def run(self) -> None:
        """Serve until Ctrl-C."""
        try:
            self._server.run(sockets=[self._socket])
        except KeyboardInterrupt:
            pass  # how it is meant to end
        finally:
            self.explorer.close()

    def start(self) -> Self:
        """Serve in a thread of its own, until `close` or the end of Python."""
        self._thread = threading.Thread(
            target=self._server.run, args=([self._socket],), name="levelhead explore", daemon=True
        )
        self._thread.start()
        end = time.monotonic() + _STARTS
        while not self._server.started and time.monotonic() < end:
            time.sleep(0.01)
        return self

    def close(self) -> None:
        """End the server and what runs in its background."""
        self.stop()
        self.explorer.close()

    def stop(self) -> None:
        """End the server alone."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(_STARTS)
        self._socket.close()


def _listening(port: int) -> socket.socket:
    """A socket on this machine alone; port 0 is any that is free."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
        made.listen(64)
    except OSError as error:
        made.close()
        reason = error.strerror or str(error)
        raise BadOption(f"Port {port} of {HOST} cannot be had: {reason}. Give another --port.") from None
    return made


def require_server() -> None:
    """Refuse in one line where the packages of a server are missing."""
    missing = [name for name in ("starlette", "uvicorn") if find_spec(name) is None]
    if missing:
        raise CannotDo(f"explore needs {' and '.join(missing)}: pip install 'levelhead[explore]'")


def _server(explorer: Explorer, token: str, port: int, framed: bool) -> Any:
    import uvicorn

    from levelhead.exploring.server import guarded

    config = uvicorn.Config(
        cast(Any, guarded(explorer, token, port, framed)),
        access_log=False,
        http="h11",
        lifespan="off",
        log_level="critical",
        loop="asyncio",
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=1,
        ws="none",
    )
    return uvicorn.Server(config)
