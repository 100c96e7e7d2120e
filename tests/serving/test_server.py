"""The server of a model: who may ask, what it refuses, how much at once, and how it ends."""

from __future__ import annotations

import http.client
import json
import operator
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
from typer.testing import CliRunner

from levelhead.cli.commands import app
from levelhead.errors import BadOption, CannotDo
from levelhead.models.concurrency import asking
from levelhead.models.model import Model
from levelhead.serving import listening
from levelhead.serving.requests import Refused, decoded
from levelhead.serving.served import ServedModel, check_public, tokens_in
from tests.serving.clients import NAME, completions, events, refused, request, serving, texts
from tests.serving.hostile import hostile, send
from tests.tiny import tiny

pytest.importorskip("starlette", reason="pip install 'levelhead[serve]'")
pytest.importorskip("uvicorn", reason="pip install 'levelhead[serve]'")
PROMPT = "The nurse said that"
TOKEN = "a-token-of-the-tests"
PLAIN = {"model": NAME, "prompt": PROMPT, "max_tokens": 2}


@pytest.fixture(scope="module")
def model() -> Model:
    return tiny("gpt2")


@pytest.fixture(scope="module")
def served(model: Model) -> Iterator[ServedModel]:
    with serving(model) as one:
        yield one


@pytest.fixture(scope="module")
def private(model: Model) -> Iterator[ServedModel]:
    """A server that asks for one of two tokens."""
    with serving(model, tokens=(TOKEN, "another-token-of-them")) as one:
        yield one


# ---- what it says of itself


def test_the_model_is_listed_under_the_name_that_requests_must_give(served: ServedModel) -> None:
    listed = json.loads(request(served, "/v1/models")[2])
    assert [each["id"] for each in listed["data"]] == [NAME]
    assert json.loads(request(served, f"/v1/models/{NAME}")[2]) == listed["data"][0]
    assert request(served, "/v1/models/gpt-4")[0] == 404
    status, error = refused(served, {**PLAIN, "model": "gpt-4"})
    assert (status, error["code"], error["param"]) == (404, "model_not_found", "model")
    assert error["message"] == "model must be 'tiny' (got 'gpt-4')"


# ---- what it refuses, each by the name of the field


@pytest.mark.parametrize(
    ("field", "value", "line"),
    [
        ("temperature", 3, "temperature must be a number from 0 to 2 (got 3)"),
        ("temperature", "hot", 'temperature must be a number from 0 to 2 (got "hot")'),
        ("n", 0, "n must be a whole number from 1 to 128 (got 0)"),
        ("n", True, "n must be a whole number from 1 to 128 (got true)"),
        ("seed", -1, "seed must be a whole number of at least 0 (got -1)"),
        ("logprobs", 21, "logprobs must be a whole number from 0 to 20 (got 21)"),
        ("echo", 1, "echo must be true or false (got 1)"),
        (
            "presence_penalty",
            0.5,
            "presence_penalty is not supported; leave it out or give 0 or 0.0 (got 0.5)",
        ),
        ("best_of", 3, "best_of is not supported; leave it out or give 1 (got 3)"),
        ("suffix", "x", 'suffix is not supported; leave it out or give "" (got "x")'),
        ("stop", [""], 'stop must be a text or up to 16 texts, each of 1 to 256 characters (got [""])'),
        (
            "prompt",
            " ",
            'prompt must be a text, a list of texts, or lists of tokens, none of them empty (got " ")',
        ),
        (
            "prompt",
            [[1, -1]],
            "prompt must be a text, a list of texts, or lists of tokens, none of them empty (got [1, -1])",
        ),
        ("prompt", "\ud800", 'prompt must be valid Unicode, without halves of characters (got "\\ud800")'),
        ("prompt", None, "prompt must be given"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused_in_one_line(
    served: ServedModel, field: str, value: Any, line: str
) -> None:
    status, error = refused(served, {**PLAIN, field: value})
    assert status == 400
    assert (error["message"], error["param"], error["type"]) == (line, field, "invalid_request_error")


def test_a_field_that_is_not_known_is_named_with_those_that_are(served: ServedModel) -> None:
    status, error = refused(served, {**PLAIN, "top_k": 40})
    assert status == 400
    assert error["param"] == "top_k"
    assert error["message"].startswith('"top_k" is not supported; allowed are prompt, model, n, max_tokens')


def test_a_prompt_that_does_not_fit_is_refused_before_it_waits(served: ServedModel) -> None:
    status, error = refused(served, {**PLAIN, "max_tokens": 500})
    assert status == 400
    assert "96 positions" in error["message"]
    assert error["param"] == "prompt"
    assert "vocabulary" in refused(served, {**PLAIN, "prompt": [10**6]})[1]["message"]
    assert "1024 texts" in refused(served, {**PLAIN, "prompt": ["a"] * 1024, "n": 2})[1]["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"1",
        b"\xff",
        b"[" * 9_000,
        b'{"n":1,"n":2}',
        b'{"n":NaN}',
        b'{"a":"' + b'\\"' * 100_000,
    ],
)
def test_what_is_no_request_is_refused(served: ServedModel, body: bytes) -> None:
    assert refused(served, body)[0] == 400
    with pytest.raises(Refused):
        decoded(body)


def test_brackets_inside_texts_are_no_levels() -> None:
    assert decoded(b'{"prompt": "[[[[[[[[[[[[[[[[[[[[[[[[ \\" [[[["}')["prompt"].count("[") == 28


@pytest.mark.parametrize(("path", "status"), [("/", 404), ("/v1", 404), ("/v1/completions/x", 404)])
def test_there_is_nothing_else_to_ask(served: ServedModel, path: str, status: int) -> None:
    assert request(served, path)[0] == status
    assert request(served, "/v1/completions")[0] == 405


# ---- who may ask


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": TOKEN},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer \xff"},
    ],
)
def test_without_its_token_nothing_is_answered_but_the_health(
    private: ServedModel, headers: dict[str, str]
) -> None:
    for path, body in (("/v1/completions", PLAIN), ("/v1/models", None), ("/x", None)):
        status, sent, content = request(private, path, body, headers)
        assert status == 401
        assert sent["www-authenticate"] == "Bearer"
        assert json.loads(content)["error"]["code"] == "invalid_api_key"
    assert request(private, "/health")[0] == 200


def test_each_of_several_tokens_is_taken(private: ServedModel) -> None:
    for token in (TOKEN, "another-token-of-them"):
        headers = {"Authorization": f"Bearer {token}", "Host": "behind.a.proxy"}
        assert request(private, body=PLAIN, headers=headers)[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:1"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
    ],
)
def test_without_tokens_pages_of_the_web_reach_nothing(served: ServedModel, headers: dict[str, str]) -> None:
    status, sent, _ = request(served, body=PLAIN, headers=headers)
    assert status == 403
    assert not [name for name in sent if name.startswith("access-control")]


def test_a_form_of_a_page_is_no_request(served: ServedModel) -> None:
    assert request(served, body=PLAIN, headers={"Content-Type": "text/plain"})[0] == 415


def test_a_public_address_needs_a_token_which_stands_in_the_environment_alone(model: Model) -> None:
    with pytest.raises(BadOption, match="--token-env NAME"):
        check_public("0.0.0.0", False)
    check_public("::1", False)
    assert tokens_in(("A", "B"), {"A": TOKEN, "B": TOKEN[::-1]}) == (TOKEN, TOKEN[::-1])
    for value in ("", "short", "with a space in it, so", "\u00e9" * 20):
        with pytest.raises(BadOption, match=r"^--token-env A: ") as raised:
            tokens_in(("A",), {"A": value})
        assert not value or value not in str(raised.value)


def test_a_model_that_writes_nothing_is_refused() -> None:
    with pytest.raises(CannotDo, match="serving"), serving(tiny("bert")):
        pass


# ---- limits


def test_a_body_that_is_too_large_is_refused_whatever_it_says_about_itself(served: ServedModel) -> None:
    large = json.dumps({**PLAIN, "prompt": "a " * (2 << 20)}).encode() + b" " * 10
    assert request(served, body=large)[0] == 413
    piece = f"{len(large):x}\r\n".encode() + large + b"\r\n0\r\n\r\n"
    status, _, _ = request(
        served, body=piece, headers={"Content-Length": None, "Transfer-Encoding": "chunked"}
    )
    assert status == 413
    assert texts(served, PROMPT, max_tokens=2)


def test_beyond_the_queue_requests_are_sent_away_with_when_to_come_again(model: Model) -> None:
    with serving(model, queue=2) as served, ThreadPoolExecutor(8) as pool:
        with asking(model.hf):  # nothing is written while the network is held here
            asked = [pool.submit(request, served, "/v1/completions", PLAIN) for _ in range(8)]
            assert until(lambda: sum(each.done() for each in asked) == 6)
            assert request(served, "/health")[0] == 200
            away = [each.result() for each in asked if each.done()]
        assert {status for status, _, _ in away} == {429}
        assert {headers["retry-after"] for _, headers, _ in away} == {"1"}
        assert json.loads(away[0][2])["error"]["code"] == "queue_full"
        assert sorted(each.result()[0] for each in asked) == [200] * 2 + [429] * 6


def until(condition: Callable[[], bool], patience: float = 60.0) -> bool:
    """Whether something comes true before long."""
    end = time.monotonic() + patience
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nHost: x"])
@pytest.mark.parametrize("answered_before", [False, True])
def test_headers_that_never_end_close_their_connection(
    served: ServedModel, sent: bytes, answered_before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not answered_before:
        monkeypatch.setattr(listening, "HEADER_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", served.port), timeout=100) as connection:
        if answered_before:
            head = f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n\r\n"
            connection.sendall(head.encode())
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")
            monkeypatch.setattr(listening, "HEADER_SECONDS", 0.2)
            sent = sent or b"\r\nG"
        connection.sendall(sent)
        while connection.recv(4096):  # ends when the server ends it
            pass


@pytest.mark.nightly
def test_a_body_that_never_ends_is_given_up(served: ServedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("levelhead.serving.app.BODY_SECONDS", 0.2)
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    )
    assert b" 408 " in send(served.port, head.encode(), patience=30)


def test_who_leaves_is_written_no_further(model: Model, served: ServedModel) -> None:
    body = json.dumps({**PLAIN, "max_tokens": 80, "n": 4, "stream": True}).encode()
    head = (
        f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{served.port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with asking(model.hf), socket.create_connection(("127.0.0.1", served.port)) as connection:
        connection.sendall(head.encode() + body)
        assert until(lambda: bool(served.scheduler._open))
    assert until(lambda: not served.scheduler._open)
    assert texts(served, PROMPT, max_tokens=2)


@pytest.mark.nightly
def test_hostile_requests_leave_it_answering(model: Model, private: ServedModel) -> None:
    for one, token in ((None, ""), (private, TOKEN)):
        with serving(model) if one is None else nullcontext(one) as target:
            before = texts(target, PROMPT, seed=1, max_tokens=4) if not token else []
            requests = hostile(200, NAME, target.port, token)
            with ThreadPoolExecutor(8) as pool:
                answers = list(pool.map(partial(send, target.port), requests))
            assert len({answer[:12] for answer in answers}) > 4
            for answer in answers:
                assert b" 500 " not in answer[:20]
                assert TOKEN.encode() not in answer
            headers = {"Authorization": f"Bearer {token}"} if token else None
            status, _, content = request(target, body={**PLAIN, "seed": 1, "max_tokens": 4}, headers=headers)
            assert status == 200
            assert not before or [json.loads(content)["choices"][0]["text"]] == before
            assert until(partial(operator.not_, target.scheduler._arrived))


# ---- its end


def test_what_has_begun_is_finished_before_it_ends(model: Model) -> None:
    with ThreadPoolExecutor(4) as pool:
        with serving(model) as served:
            whole = texts(served, PROMPT, seed=2, max_tokens=40)
            with asking(model.hf):
                asked = [pool.submit(completions, served, PROMPT, seed=2, max_tokens=40) for _ in range(3)]
                streamed = pool.submit(events, served, prompt=PROMPT, seed=2, max_tokens=40)
                assert until(lambda: len(served.scheduler._open) + len(served.scheduler._arrived) == 4)
        assert [each.result()["choices"][0]["text"] for each in asked] == whole * 3
        assert "".join(part["choices"][0]["text"] for part in streamed.result()) == whole[0]
    with pytest.raises(OSError, match="refused"):
        request(served, "/health")


@pytest.mark.nightly
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_command_after_what_has_begun(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "levelhead", "serve", "lh:gpt-mini", "--port", "0", "--token-env", "T"]
    environment = {**os.environ, "T": TOKEN}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True
    ) as one:
        assert one.stdout is not None
        address = one.stdout.readline().strip()
        assert one.stdout.readline() == "model: lh:gpt-mini\n"
        host = address.removeprefix("http://").removesuffix("/v1")
        assert re.fullmatch(r"127\.0\.0\.1:\d+", host)
        connection = http.client.HTTPConnection(host, timeout=120)
        body = {
            "model": "lh:gpt-mini",
            "prompt": PROMPT,
            "max_tokens": 200,
            "stream": True,
            "n": 4,
            "seed": 1,
        }
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
        connection.request("POST", "/v1/completions", json.dumps(body), headers)
        answer = connection.getresponse()
        begun = answer.read(100)
        one.send_signal(number)
        content = begun + answer.read()
        out, err = one.communicate(timeout=120)
    assert content.endswith(b"data: [DONE]\n\n")
    assert one.returncode == 0
    assert TOKEN not in out + err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--host", "0.0.0.0"], "--host 0.0.0.0 is reached by others, so it needs a token"),
        (["--token-env", "NOWHERE"], "--token-env NOWHERE: the environment variable must hold a token"),
        (["--workers", "2"], "--workers must be left out"),
        (["--queue", "0"], "queue must be at least 1"),
        (["--recipe", "nowhere.toml"], "nowhere.toml"),
    ],
)
def test_mistakes_of_the_command_are_one_line(options: list[str], line: str) -> None:
    result = CliRunner().invoke(app, ["serve", "lh:gpt-mini", *options])
    assert line in str(result.exception)
    assert isinstance(result.exception, BadOption)
