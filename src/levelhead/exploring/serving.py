"""A page that is served: a free port of 127.0.0.1, a token in the address, and an end."""

from __future__ import annotations

import re
import secrets
from contextlib import suppress
from typing import Self

from levelhead.errors import LevelheadError
from levelhead.exploring.explorer import Explorer
from levelhead.models.cache import cache_folder, own_folder
from levelhead.safe_files import reading, write_text_inside
from levelhead.serving.listening import LOOPBACK, Listening, require_server

_BYTES = 24  # of a token
_TOKEN = re.compile(r"[\w-]{32}")


class Served:
    """A server that is ready to run, and its address."""

    def __init__(self, explorer: Explorer, port: int = 0, token: str = "", framed: bool = False) -> None:
        self.explorer = explorer
        self.token = token or (kept_token(port) if port else secrets.token_urlsafe(_BYTES))
        require_server("explore")
        from levelhead.exploring.server import guarded

        self._listening = Listening(LOOPBACK, port)  # on this machine alone; port 0 is any that is free
        self.port = self._listening.port
        app = guarded(explorer, self.token, self.port, framed)
        self._listening.serves(app, "levelhead explore", timeout_graceful_shutdown=1)

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self.port}/{self.token}/"

    def run(self) -> None:
        try:
            self._listening.run()
        finally:
            self.explorer.background.close()

    def start(self) -> Self:
        """Serve in a thread of its own, until `close` or the end of Python."""
        self._listening.start()
        return self

    def close(self) -> None:
        self.stop()
        self.explorer.background.close()

    def stop(self) -> None:
        self._listening.stop()


def kept_token(port: int) -> str:
    """The token of a port: the same when a server is started there again, so that open pages go on, in a
    folder of the user's alone.

    Where no such folder can be had, a new one each time.
    """
    token = secrets.token_urlsafe(_BYTES)
    with suppress(LevelheadError, OSError):
        folder = own_folder(cache_folder().with_name("explore"))
        name = f"{port}.token"
        with suppress(LevelheadError, OSError), reading(folder, name) as file:
            if _TOKEN.fullmatch(written := file.read(64).decode("ascii", errors="replace")):
                return written
        write_text_inside(folder, name, token)
    return token
