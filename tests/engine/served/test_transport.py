"""A server that misbehaves: nothing wrong is stored, nothing is paid twice, no key goes elsewhere."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from levelhead.engine.sampling import Sampling
from levelhead.engine.served.answers import ANSWERS, read_answers
from levelhead.engine.served.proof import CAPABILITIES
from levelhead.engine.served.writing import connected, sampled, span_likelihoods
from levelhead.errors import BadOption, BadRun, CannotDo, LevelheadError, UnknownModel
from levelhead.models.served import Patience, ServedModel, served
from tests.servers import KEY, Behavior, Handler, serving, split

PROMPTS = ["The nurse said that", "The old man saw"]
DRAWN = Sampling(samples=3, tokens=6)


def model_at(url: str, **patience: Any) -> ServedModel:
    """A model behind a test's server, which nobody waits for."""
    told: dict[str, Any] = {"wait": lambda seconds: None, "seconds": 5.0, "attempts": 4, **patience}
    return replace(served(f"server:{url}#tiny"), patience=Patience(**told))


def texts(model: ServedModel, folder: Path, chat: bool = False) -> list[list[str]]:
    folder.mkdir(exist_ok=True)
    with connected(model, folder):
        found = sampled(model, PROMPTS, ["a", "b"], DRAWN, chat, "Texts")
    return [[each.text for each in own] for own in found]


def once(behavior: Behavior) -> bool:
    """Whether no seeded request was answered twice, but for those that prove the seed."""
    return all(count == 1 for body, count in behavior.sent.items() if json.loads(body)[1].get("seed", 0) > 2)


def after(n: int, misbehave: Callable[[Handler], bool], every: int = 1) -> Callable[[Handler, Any], bool]:
    """A server that is good for n requests, and then misbehaves at each, or at one of every few."""

    def first(handler: Handler, body: Any) -> bool:
        number = handler.behavior.requests - n
        return number > 0 and number % every == 0 and misbehave(handler)

    return first


PROOF = 45  # requests that any proof is done with


@pytest.fixture
def there(tmp_path: Path) -> Path:
    """A folder in which a good server was proved already."""
    return tmp_path / "run"


def broken(handler: Handler) -> bool:
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True
    return True


def half(handler: Handler) -> bool:
    handler.give(200, b'{"model": "tiny", "choices": [{"te')
    return True


def cut(handler: Handler) -> bool:
    """Whole JSON, of an answer that was to be longer: what is missing may change what it says."""
    choice = {"text": " cut", "message": {"content": " cut"}, "finish_reason": "stop"}
    handler.send_response(200)
    handler.send_header("Content-Length", "5000")
    handler.end_headers()
    handler.wfile.write(json.dumps({"model": "tiny", "choices": [choice]}).encode())
    handler.wfile.flush()
    return broken(handler)


def internal(handler: Handler) -> bool:
    handler.give(500, {"error": "oops"})
    return True


@pytest.mark.parametrize("misbehave", [broken, half, cut, internal])
def test_a_server_that_fails_every_third_time_gives_the_texts_of_one_that_never_does(
    tmp_path: Path, misbehave: Callable[[Handler], bool]
) -> None:
    with serving(good := Behavior()) as url:
        expected = texts(model_at(url), tmp_path / "good")
    with serving(bad := Behavior(first=after(0, misbehave, every=3))) as url:
        assert texts(model_at(url, attempts=8), tmp_path / "bad") == expected
    assert once(good)
    assert once(bad)
    own, others = (read_answers(tmp_path / name)[0] for name in ("good", "bad"))
    assert len(own) == len(others)


@pytest.mark.parametrize(
    ("header", "least"),
    [
        ({"Retry-After": "7"}, 7.0),
        ({"Retry-After": "a date in 110 s"}, 60.0),
        ({}, 0.5),
    ],
)
def test_a_busy_server_is_waited_for_as_long_as_it_demands(
    tmp_path: Path, header: dict[str, str], least: float
) -> None:
    def busy(handler: Handler) -> bool:
        at = {name: formatdate(time.time() + 110, usegmt=True) for name in header if "date" in header[name]}
        handler.give(429, {"error": {"message": "slow down"}}, header | at)
        return True

    waits: list[float] = []
    with serving(Behavior(first=after(0, busy, every=5))) as url:
        texts(model_at(url, wait=waits.append, attempts=8), tmp_path)
    assert waits
    assert min(waits) >= least


def test_waits_double_and_a_server_that_stays_busy_is_one_line(tmp_path: Path) -> None:
    def busy(handler: Handler) -> bool:
        handler.give(503, {"error": "busy"})
        return True

    waits: list[float] = []
    with (
        serving(behavior := Behavior(first=after(0, busy))) as url,
        pytest.raises(CannotDo, match=r"answers 503 \(busy\), 5 times. Run the same command again later"),
    ):
        texts(model_at(url, wait=waits.append, attempts=5), tmp_path)
    assert behavior.requests == 5
    assert [0.5 * 2**k <= wait <= 2**k for k, wait in enumerate(waits)] == [True] * 4


def test_a_wait_of_an_hour_ends_the_run_in_one_line(tmp_path: Path) -> None:
    def busy(handler: Handler) -> bool:
        handler.give(429, {}, {"Retry-After": "3600"})
        return True

    with (
        serving(behavior := Behavior(first=after(0, busy))) as url,
        pytest.raises(CannotDo, match=r"demands a wait of 3,600 s"),
    ):
        texts(model_at(url), tmp_path)
    assert behavior.requests == 1


def test_a_server_without_credit_is_not_asked_again(tmp_path: Path) -> None:
    def empty(handler: Handler) -> bool:
        handler.give(429, {"error": {"message": "You exceeded", "code": "insufficient_quota"}})
        return True

    with (
        serving(behavior := Behavior(first=after(0, empty))) as url,
        pytest.raises(LevelheadError, match="429"),
    ):
        texts(model_at(url), tmp_path)
    assert behavior.requests <= 2  # completions, then chats


def test_an_endless_stream_and_a_huge_answer_are_one_line(tmp_path: Path) -> None:
    def endless(handler: Handler) -> bool:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        while True:
            handler.wfile.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")

    def huge(handler: Handler) -> bool:
        handler.send_response(200)
        handler.send_header("Content-Length", str(1 << 30))
        handler.end_headers()
        for _ in range(1 << 14):
            handler.wfile.write(b" " * 0x10000)
        return True

    for misbehave in (endless, huge):
        with (
            serving(behavior := Behavior(first=after(PROOF, misbehave))) as url,
            pytest.raises(CannotDo, match="more than 1,000,000 bytes"),
        ):
            _prove_and_ask(model_at(url, most_bytes=1_000_000), tmp_path, behavior)
        (tmp_path / CAPABILITIES).unlink()


def _prove_and_ask(model: ServedModel, folder: Path, behavior: Behavior) -> None:
    """Texts of a server that misbehaves once it has proved what it can do."""
    with connected(model, folder):
        behavior.requests = PROOF
        kept = len(read_answers(folder)[0])
        try:
            sampled(model, PROMPTS, ["a", "b"], DRAWN, False, "Texts")
        finally:
            assert len(read_answers(folder)[0]) == kept  # nothing of it is stored


def test_bytes_that_come_one_by_one_end_at_the_deadline(tmp_path: Path) -> None:
    stop = threading.Event()

    def slow(handler: Handler) -> bool:
        handler.send_response(200)
        handler.end_headers()
        while not stop.wait(0.05):
            handler.wfile.write(b" ")
            handler.wfile.flush()
        return True

    with serving(behavior := Behavior(first=after(PROOF, slow))) as url:
        try:
            with pytest.raises(CannotDo, match=r"did not answer within 0.4 s, 2 times"):
                _prove_and_ask(model_at(url, seconds=0.4, attempts=2), tmp_path, behavior)
        finally:
            stop.set()


def test_no_redirect_is_followed_and_the_key_goes_nowhere_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVELHEAD_SERVER_KEY", KEY)
    with serving(other := Behavior()) as elsewhere:

        def redirect(handler: Handler) -> bool:
            handler.give(307, {}, {"Location": f"{elsewhere}/v1/completions?key={KEY}"})
            return True

        with (
            serving(behavior := Behavior(first=after(0, redirect))) as url,
            pytest.raises(CannotDo, match="redirects to http") as caught,
        ):
            texts(model_at(url), tmp_path)
    assert KEY not in str(caught.value)
    assert "***" in str(caught.value)
    assert other.requests == 0
    assert behavior.headers[0]["Authorization"] == f"Bearer {KEY}"


def test_the_reason_of_a_status_shows_neither_the_key_nor_control_characters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVELHEAD_SERVER_KEY", KEY)

    def busy(handler: Handler, body: Any) -> bool:
        handler.send_response(503, f"no {KEY} \x1b[31m")
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        return True

    with serving(Behavior(first=busy)) as url, pytest.raises(CannotDo, match="answers 503 \\(no ") as caught:
        texts(model_at(url), tmp_path / "run")
    assert KEY not in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_certificate_counts_once_it_is_named_as_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl makes a certificate here")
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"]
    files = [str(tmp_path / "key.pem"), str(tmp_path / "cert.pem")]
    made += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", files[0], "-out", files[1]]
    subprocess.run(made, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files[1], files[0])
    monkeypatch.setenv("LEVELHEAD_SERVER_KEY", KEY)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with serving(behavior := Behavior(), context) as url:
        with pytest.raises(CannotDo, match=r"certificate that cannot be trusted: self.signed") as caught:
            texts(model_at(url), tmp_path / "not")
        assert "\n" not in str(caught.value)
        assert behavior.requests == 0  # so no key was sent to whoever that is
        monkeypatch.setenv("SSL_CERT_FILE", files[1])
        assert texts(model_at(url), tmp_path / "trusted")
        with pytest.raises(CannotDo, match="certificate that cannot be trusted"):  # another host's
            texts(model_at(url.replace("127.0.0.1", "localhost")), tmp_path / "other")


def test_the_key_of_one_vendor_is_sent_to_no_other_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.delenv("LEVELHEAD_SERVER_KEY", raising=False)
    with serving(behavior := Behavior()) as url:
        texts(model_at(url), tmp_path)
    assert all(KEY not in str(each) for each in behavior.headers)
    assert served("server:https://api.openai.com#gpt").key() == KEY
    assert served("anthropic:claude").key() == KEY
    monkeypatch.setenv("ANTHROPIC_API_KEY", "two\nlines")
    with pytest.raises(BadOption, match="visible ASCII characters") as caught:
        served("anthropic:claude").key()
    assert "lines" not in str(caught.value)


def test_another_model_than_the_one_that_was_named_is_refused(tmp_path: Path) -> None:
    with (
        serving(Behavior(name="tiny-turbo")) as url,
        pytest.raises(CannotDo, match="answers as 'tiny-turbo', not as 'tiny'"),
    ):
        texts(model_at(url), tmp_path)
    assert (tmp_path / ANSWERS).read_bytes() == b""
    for name in ("tiny-2026-11-19", "a/folder/tiny", "tiny@main", "tiny:latest"):
        with serving(Behavior(name=name)) as url:
            texts(model_at(url), tmp_path / name.replace("/", "-"))


def test_a_server_that_changes_its_model_is_stopped_and_nothing_of_it_is_kept(tmp_path: Path) -> None:
    with serving(behavior := Behavior()) as url:

        def other(handler: Handler, body: Any) -> bool:
            handler.behavior.name = "another" if handler.behavior.requests > PROOF else "tiny"
            return False

        behavior.first = other
        with pytest.raises(CannotDo, match="answered as 'another', and before as 'tiny'"):
            _prove_and_ask(model_at(url), tmp_path, behavior)


def test_log_p_of_the_wrong_length_are_not_stored(tmp_path: Path) -> None:
    def short(handler: Handler) -> bool:
        told = {"tokens": ["a", "b", "c"], "token_logprobs": [None, -1.0]}
        choice = {"text": "", "finish_reason": "length", "logprobs": told}
        handler.give(200, {"model": "tiny", "choices": [choice], "usage": {}})
        return True

    with serving(behavior := Behavior(first=after(PROOF, short))) as url:
        model = model_at(url)
        with connected(model, tmp_path):
            behavior.requests = PROOF
            kept = len(read_answers(tmp_path)[0])
            with pytest.raises(CannotDo, match="gives 2 log p for 3 tokens"):
                span_likelihoods(model, [("a b c", 0, 5)], "Likelihoods")
            assert len(read_answers(tmp_path)[0]) == kept


# ---- what is stored


def test_an_answer_is_paid_once_and_a_second_run_sends_nothing(tmp_path: Path) -> None:
    with serving(behavior := Behavior()) as url:
        first = texts(model_at(url), tmp_path)
        sent = behavior.requests
        assert texts(model_at(url), tmp_path) == first
        assert behavior.requests == sent


def test_a_line_without_its_end_is_dropped_and_a_changed_one_refused(tmp_path: Path) -> None:
    with serving(behavior := Behavior()) as url:
        first = texts(model_at(url), tmp_path)
        file = tmp_path / ANSWERS
        whole = file.read_bytes()
        file.write_bytes(whole[:-20])
        sent = behavior.requests
        assert texts(model_at(url), tmp_path) == first
        assert behavior.requests == sent + 1
        assert sorted(file.read_bytes().splitlines()) == sorted(whole.splitlines())
        file.write_bytes(whole.replace(b'"ended": false', b'"ended": true ', 1))
        with pytest.raises(BadRun, match="damaged at line 1"):
            texts(model_at(url), tmp_path)


def test_replayed_answers_need_no_server_and_what_is_not_stored_is_one_line(tmp_path: Path) -> None:
    with serving(Behavior()) as url:
        model = model_at(url)
        first = texts(model, tmp_path / "run")
    again = replace(model, replay=str(tmp_path / "run"))
    assert texts(again, tmp_path / "replayed") == first
    twice = replace(model, replay=str(tmp_path / "replayed"))
    assert texts(twice, tmp_path / "twice") == first
    (tmp_path / "more").mkdir()
    with connected(again, tmp_path / "more"), pytest.raises(CannotDo, match="holds no answer to a request"):
        sampled(again, ["Another prompt"], ["c"], DRAWN, False, "Texts")
    with pytest.raises(BadRun, match="holds no answers of a server"):
        texts(replace(model, replay=str(tmp_path / "nothing")), tmp_path / "more")


@pytest.mark.parametrize(
    "name",
    ["server:", "server:127.0.0.1#a", "server:ftp://a#b", "server:http://#b", "server:http://a:99999#b",
     "server:http://a", "server:http://a#", "server:http://me:secret@a#b", "server:http://a?k=1#b",
     "anthropic:"],
)  # fmt: skip
def test_a_name_that_names_no_server_is_one_line(name: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        served(name)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_words_of_the_test_server_add_up_to_their_text() -> None:
    assert "".join(split("The old  man ")) == "The old  man "
