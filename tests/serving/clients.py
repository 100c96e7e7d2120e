"""A model that is served for a test, and requests to it as anybody could send them."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from levelhead.edits.sites import Variant
from levelhead.models.model import Model
from levelhead.serving.scheduler import Deployed
from levelhead.serving.served import ServedModel

NAME = "tiny"


@contextmanager
def serving(
    model: Model, variant: Variant = (), tokens: Sequence[str] = (), **more: Any
) -> Iterator[ServedModel]:
    """A server for a model on a free port of 127.0.0.1, ended afterwards."""
    served = ServedModel(Deployed(model, variant, NAME, "f"), tokens=tuple(tokens), **more).start()
    try:
        yield served
    finally:
        served.close()


def request(
    served: ServedModel,
    path: str = "/v1/completions",
    body: Any = None,
    headers: Mapping[str, str | None] | None = None,
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and content. body: bytes as they are, else as JSON; a header of None is not sent."""
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    own: dict[str, str | None] = {"Host": f"127.0.0.1:{served.port}"}
    if data is not None:
        own |= {"Content-Type": "application/json", "Content-Length": str(len(data))}
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
    try:
        connection.putrequest("GET" if data is None else "POST", path, skip_host=True)
        for name, value in {**own, **(headers or {})}.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(data)
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def completions(served: ServedModel, prompt: Any, **more: Any) -> dict[str, Any]:
    """The answer to a request that must succeed."""
    status, _, content = request(served, body={"model": NAME, "prompt": prompt, **more})
    assert status == 200, content
    return dict(json.loads(content))


def texts(served: ServedModel, prompt: Any, **more: Any) -> list[str]:
    return [choice["text"] for choice in completions(served, prompt, **more)["choices"]]


def refused(served: ServedModel, body: Any, path: str = "/v1/completions") -> tuple[int, dict[str, Any]]:
    """Status and error of a request that must fail."""
    status, _, content = request(served, path, body)
    assert status >= 400, content
    return status, dict(json.loads(content)["error"])


def events(served: ServedModel, path: str = "/v1/completions", **body: Any) -> list[dict[str, Any]]:
    """The parts of a stream, which must end as one does."""
    status, headers, content = request(served, path, {"model": NAME, "stream": True, **body})
    assert status == 200, content
    assert headers["content-type"].startswith("text/event-stream")
    parts = content.decode().split("\n\n")
    assert parts[-2:] == ["data: [DONE]", ""]
    return [json.loads(part.removeprefix("data: ")) for part in parts[:-2]]
