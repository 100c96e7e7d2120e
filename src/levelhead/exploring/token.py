"""The token in a page's address. That of a port which a user chose is kept, so that open pages go on."""

from __future__ import annotations

import re
import secrets
from contextlib import suppress

from levelhead.errors import LevelheadError
from levelhead.files import write_text_inside
from levelhead.models.cache import cache_folder, own_folder
from levelhead.ordinary import reading

_BYTES = 24
_WRITTEN = re.compile(r"[\w-]{32}")


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(_BYTES)


def kept_token(port: int) -> str:
    """The token of a port: the same when a server is started there again, in a folder of the user's alone.

    Where no such folder can be had, a new one each time.
    """
    with suppress(LevelheadError, OSError):
        folder = own_folder(cache_folder().with_name("explore"))
        name = f"{port}.token"
        with suppress(LevelheadError, OSError), reading(folder, name) as file:
            if _WRITTEN.fullmatch(written := file.read(64).decode("ascii", errors="replace")):
                return written
        token = new_token()
        write_text_inside(folder, name, token)
        return token
    return new_token()
