"""A model behind a server, as a name: `server:URL#NAME` (OpenAI-compatible) or `anthropic:NAME`.

Nothing here sends anything; engine/served/ does. A key comes from the environment alone, and only the
one that belongs to the server is read: what OPENAI_API_KEY holds never goes to another host.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from levelhead.errors import BadOption, CannotDo, UnknownModel

SERVER, ANTHROPIC = "server:", "anthropic:"
_ANTHROPIC_URL = "https://api.anthropic.com/v1"
_KEYS = {"api.openai.com": "OPENAI_API_KEY", "api.anthropic.com": "ANTHROPIC_API_KEY"}
_ANY_KEY = "LEVELHEAD_SERVER_KEY"  # of every other server
RUN_THERE = "`levelhead generate`, `benchmark`, `counteracts` and `survey` run on servers (docs/servers.md)"
_VISIBLE = re.compile(r"[\x21-\x7e]+")


@dataclass(frozen=True)
class Patience:
    """How long a server may take, and how much it may say."""

    attempts: int = 8  # of one request
    first: float = 1.0  # seconds of the first wait, which doubles
    longest: float = 120.0  # seconds of one wait, whoever demands it
    seconds: float = 300.0  # that one answer may take, however slowly its bytes come
    most_bytes: int = 16 << 20  # of one answer
    connections: int = 8  # at once, at most
    wait: Callable[[float], object] | None = None  # instead of the clock


@dataclass(frozen=True)
class ServedModel:
    """A model that somebody else runs. It has no layers, no tokenizer and no weights here."""

    name: str  # as the user typed it
    kind: Literal["openai", "anthropic"]
    url: str  # to which /completions, /chat/completions or /messages is appended
    known_as: str  # what the server calls the model
    replay: str = ""  # a run whose stored answers are used in place of the server
    patience: Patience = field(default=Patience(), compare=False)

    abilities = frozenset({"causal"})  # every server continues a text or a chat

    def facts(self) -> dict[str, str]:
        """What results say of it in place of a hash: a server tells nobody which weights it runs."""
        return {"server": f"{self.url}#{self.known_as}"}

    @property
    def key_name(self) -> str:
        """The variable of the environment that holds its key."""
        return _KEYS.get(urlsplit(self.url).hostname or "", _ANY_KEY)

    def key(self) -> str:
        """Its key, empty where there is none. Never store what this returns."""
        key = os.environ.get(self.key_name, "").strip()
        if key and not _VISIBLE.fullmatch(key):
            raise BadOption(f"{self.key_name} must be visible ASCII characters without blanks. Set it anew.")
        return key

    def require(self, ability: str, what: str) -> None:
        """Refuse what a server cannot give, in one line."""
        if ability not in self.abilities:
            raise CannotDo(f"{self.name} is behind a server, which does not give {what}.")

    def __repr__(self) -> str:
        return f"<{self.name}: behind a server>"


def is_served(name: object) -> bool:
    """Whether a name is that of a model behind a server."""
    return isinstance(name, str) and name.startswith((SERVER, ANTHROPIC))


def served(name: str, replay: str | None = None, connections: int | None = None) -> ServedModel:
    """The model that a name names; one line about a name that is none.

    replay: a run whose stored answers are used in place of the server. connections: at once, at most.
    """
    if connections is not None and not 1 <= connections <= 256:
        raise BadOption(f"connections must be between 1 and 256 (got {connections})")
    patience = Patience() if connections is None else Patience(connections=connections)
    if name.startswith(ANTHROPIC):
        known_as = name.removeprefix(ANTHROPIC)
        _check_name(name, known_as)
        return ServedModel(name, "anthropic", _ANTHROPIC_URL, known_as, replay or "", patience)
    url, _, known_as = name.removeprefix(SERVER).partition("#")
    _check_name(name, known_as)
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host, parts = None, urlsplit("")
    if parts.username is not None or parts.password is not None:  # it would be stored with the name
        raise UnknownModel(f"A server's URL must hold no user and no password; set {_ANY_KEY} instead.")
    if parts.scheme not in ("http", "https") or not host or parts.query or not _VISIBLE.fullmatch(url):
        raise UnknownModel(
            f"{url[:80]!r} is no server. Give server:URL#NAME, such as server:http://127.0.0.1:8000#NAME."
        )
    path = parts.path.rstrip("/") or "/v1"
    return ServedModel(
        name, "openai", f"{parts.scheme}://{parts.netloc}{path}", known_as, replay or "", patience
    )


def _check_name(name: str, known_as: str) -> None:
    if not known_as.strip() or not known_as.isprintable():
        raise UnknownModel(
            f"{name[:80]!r} does not say which model. Give server:URL#NAME or anthropic:NAME, with the name "
            "that the server has for it."
        )
