"""A page that is served for a test, and requests to it as anybody could send them."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from levelhead.exploring.explorer import Explorer
from levelhead.exploring.serving import Served
from levelhead.exploring.state import PageState
from levelhead.models.model import Model
from levelhead.probes.words import load_words

TOKEN = "a-token-of-the-tests"


@contextmanager
def serving(model: Model, port: int = 0, **more: Any) -> Iterator[Served]:
    """A server for a model, ended afterwards."""
    served = Served(Explorer(model, load_words("gender"), **more), port, TOKEN).start()
    try:
        yield served
    finally:
        served.close()


def request(
    served: Served, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, dict[str, str], str]:
    """Status, headers and text; a header of None is not sent, and others replace those of the page."""
    own = {"Host": f"127.0.0.1:{served.port}"}
    if body is not None:
        own |= {"Origin": f"http://127.0.0.1:{served.port}", "Content-Length": str(len(body))}
    sent = {name: value for name, value in {**own, **(headers or {})}.items() if value}
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    try:
        connection.putrequest("GET" if body is None else "POST", path, skip_host=True)
        for name, value in sent.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode()
    finally:
        connection.close()


def ask(served: Served, kind: str, state: PageState, tab: str = "t", number: int = 1) -> tuple[int, Any]:
    """An answer as the page gets it."""
    body = json.dumps({"tab": tab, "number": number, "state": state.to_json()}).encode()
    status, _, text = request(served, f"/{TOKEN}/ask/{kind}", body)
    return status, json.loads(text)
