"""The server of a page: who may ask it, what it never does, and one question at a time."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import levelhead
from levelhead.edits.sites import Head
from levelhead.errors import BadOption, CannotDo
from levelhead.exploring.answers import TOKENS, Continuations
from levelhead.exploring.explorer import Explorer
from levelhead.exploring.serving import Served, kept_token
from levelhead.exploring.state import PageState
from levelhead.models.model import Model
from levelhead.probes.words import load_words
from tests.exploring.served import TOKEN, ask, request, serving
from tests.tiny import tiny

pytest.importorskip("starlette", reason="pip install 'levelhead[explore]'")
pytest.importorskip("uvicorn", reason="pip install 'levelhead[explore]'")
SENTENCE = "My mother said that ___ was tired."
OFF = PageState(SENTENCE, gates={Head(0, 1): 0.0})
QUESTION = json.dumps({"state": OFF.to_json()}).encode()
_OPENED: list[tuple[str, object]] = []  # paths and connections, while somebody watches
_WATCHING = threading.Event()


def _hook(event: str, args: tuple[object, ...]) -> None:
    if _WATCHING.is_set() and event in ("open", "socket.connect", "socket.getaddrinfo"):
        _OPENED.append((event, args))


sys.addaudithook(_hook)


@pytest.fixture(scope="module")
def model() -> Model:
    return tiny("bert")


@pytest.fixture(scope="module")
def served(model: Model) -> Iterator[Served]:
    with serving(model) as one:
        yield one


@pytest.fixture(scope="module")
def writing() -> Iterator[Served]:
    """A server for a model that writes."""
    with serving(tiny("gpt2")) as one:
        yield one


# ---- who may ask


def test_the_address_is_of_this_machine_alone_with_a_token_that_nobody_guesses(model: Model) -> None:
    explorer = Explorer(model, load_words("gender"))
    pages = [Served(explorer) for _ in range(2)]
    try:
        assert all(re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", page.address) for page in pages)
        assert pages[0].token != pages[1].token
        with pytest.raises(BadOption, match=f"Port {pages[0].port}"):
            Served(explorer, pages[0].port)
    finally:
        for page in pages:
            page.close()


@pytest.mark.parametrize(
    "path", ["/", "", f"/{TOKEN}x/", f"/{TOKEN[:-1]}/", "/wrong/ask/answer", f"//{TOKEN}/"]
)
def test_a_request_without_the_token_is_refused(served: Served, path: str) -> None:
    for body in (None, QUESTION):
        status, _, text = request(served, path, body)
        assert status == 403
        assert "token" in text


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", "127.0.0.1.evil:{port}"]
)
def test_another_host_name_is_refused_so_that_dns_rebinding_gains_nothing(served: Served, host: str) -> None:
    headers = {"Host": host.format(port=served.port), "Origin": f"http://{host.format(port=served.port)}"}
    for path, body in ((f"/{TOKEN}/", None), (f"/{TOKEN}/ask/answer", QUESTION)):
        assert request(served, path, body, headers)[0] == (403 if host else 400)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_another_origin_is_refused(served: Served, headers: dict[str, str]) -> None:
    status, sent, _ = request(served, f"/{TOKEN}/ask/answer", QUESTION, headers)
    assert status == 403
    assert not [name for name in sent if name.startswith("access-control")]


def test_a_body_over_64_kb_is_refused_whatever_it_says_about_itself(served: Served) -> None:
    large = QUESTION[:-1] + b" " * (64 * 1024) + b"}"
    assert request(served, f"/{TOKEN}/ask/answer", large)[0] == 413
    assert request(served, f"/{TOKEN}/ask/answer", None, {"Content-Length": "99999999"})[0] == 413
    piece = f"{len(large):x}\r\n".encode() + large + b"\r\n0\r\n\r\n"
    hidden = {"Content-Length": "", "Transfer-Encoding": "chunked"}
    assert request(served, f"/{TOKEN}/ask/answer", piece, hidden)[0] == 413
    assert ask(served, "answer", OFF)[0] == 200


@pytest.mark.parametrize("path", ["ask/nothing", "ask/", "../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "x"])
def test_there_is_nothing_else_to_ask(served: Served, path: str) -> None:
    assert request(served, f"/{TOKEN}/{path}", QUESTION)[0] in (403, 404)
    assert request(served, f"/{TOKEN}/ask/answer")[0] == 405


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b'{"model": "gpt2"}',
        b'{"state": {"model": "gpt2"}}',
        b"[" * 9_000,
        b'{"tab": 1}',
    ],
)
def test_what_is_no_question_is_one_line_and_the_model_cannot_be_exchanged(
    served: Served, body: bytes
) -> None:
    status, _, text = request(served, f"/{TOKEN}/ask/answer", body)
    assert status == 400
    assert "\n" not in json.loads(text)["line"]


def test_a_preset_is_a_name_and_never_a_file(served: Served, tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text("[[gate]]\nlayer = 1\nhead = 1\n")
    status, answer = ask(served, "answer", PageState(SENTENCE, preset=str(tmp_path / "recipe.toml")))
    assert status == 422
    assert "no recipe of the run" in answer["line"]


# ---- what it never does


def test_no_file_is_opened_but_the_pages_own_and_no_other_host_is_asked(
    served: Served, writing: Served
) -> None:
    own = Path(levelhead.__file__).parent
    save = json.dumps({"state": OFF.to_json()}).encode()

    def everything() -> None:
        request(served, f"/{TOKEN}/")
        for kind in ("answer", "bands", "why", "neurons", "attention"):
            assert ask(served, kind, OFF)[0] == 200
        for path in ("measure", "jobs", "save"):
            assert request(served, f"/{TOKEN}/{path}", save)[0] == 200

        assert ask(writing, "continuations", OFF)[0] == 200

    everything()  # what Python imports on the way is no business of the page
    _OPENED.clear()
    _WATCHING.set()
    try:
        everything()
    finally:
        _WATCHING.clear()
    paths = {str(args[0]) for event, args in _OPENED if event == "open"}  # type: ignore[index]
    assert {path for path in paths if "template" in path}
    assert [path for path in paths if not path.startswith(str(own))] == []
    asked = [args[-1] for event, args in _OPENED if event == "socket.connect"]  # type: ignore[index]
    assert asked
    assert {*asked} == {("127.0.0.1", served.port), ("127.0.0.1", writing.port)}


def test_the_policy_allows_the_pages_own_script_and_style_and_its_own_server_alone(served: Served) -> None:
    status, headers, page = request(served, f"/{TOKEN}/")
    policy = headers["content-security-policy"]
    assert status == 200
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "connect-src 'self'; " in policy
    assert policy.endswith("frame-ancestors 'none'")
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert TOKEN not in page
    assert not re.search(r"\beval\b|innerHTML|outerHTML|document\.write|new Function", page)
    assert re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', page) == []


def test_only_a_page_for_notebooks_may_be_framed_and_only_on_this_machine(model: Model) -> None:
    with Framed(model) as served:
        policy = request(served, f"/{TOKEN}/")[1]["content-security-policy"]
    assert policy.endswith("frame-ancestors http://localhost:* http://127.0.0.1:*")


class Framed:
    """A server whose page a notebook shows."""

    def __init__(self, model: Model) -> None:
        self.served = Served(Explorer(model, load_words("gender")), 0, TOKEN, framed=True)

    def __enter__(self) -> Served:
        return self.served.start()

    def __exit__(self, *_: object) -> None:
        self.served.close()


def test_a_saved_page_holds_its_answers_and_may_ask_nobody(served: Served) -> None:
    hostile = PageState("</script><script>alert(1)</script> ___")
    for state in (OFF, hostile):
        body = json.dumps({"state": state.to_json()}).encode()
        status, headers, page = request(served, f"/{TOKEN}/save", body)
        assert status == 200
        assert "attachment" in headers["content-disposition"]
        assert "connect-src" not in page
        assert "<script>alert(1)" not in page
        assert TOKEN not in page
    assert request(served, f"/{TOKEN}/save", b'{"state": {"sentence": ""}}')[0] == 422


# ---- one question at a time


def test_of_a_tab_only_the_latest_question_is_asked(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    begun, go = threading.Event(), threading.Event()
    answer = served.explorer.answer

    def slow(state: PageState) -> object:
        asked.append(state.sentence)
        begun.set()
        assert go.wait(30)
        return answer(state)

    with monkeypatch.context() as patch:
        pages = served.explorer
        patch.setattr(pages, "answer", slow)
        with Again(pages) as own, ThreadPoolExecutor(8) as pool:
            first = pool.submit(ask, own, "answer", PageState("1 ___"), "tab", 1)
            assert begun.wait(30)
            later = [pool.submit(ask, own, "answer", PageState(f"{n} ___"), "tab", n) for n in (2, 3, 4)]
            other = pool.submit(ask, own, "answer", PageState("other ___"), "second tab", 1)
            threading.Event().wait(0.5)
            go.set()
            assert first.result()[0] == 200
            assert sorted(each.result()[0] for each in later) == [200, 409, 409]
            assert later[-1].result()[0] == 200
            assert other.result()[0] == 200
    assert sorted(asked) == ["1 ___", "4 ___", "other ___"]


class Again:
    """Another server of the same explorer, which stays open afterwards."""

    def __init__(self, explorer: Explorer) -> None:
        self.served = Served(explorer, 0, TOKEN)

    def __enter__(self) -> Served:
        return self.served.start()

    def __exit__(self, *_: object) -> None:
        self.served.stop()


# ---- texts, which take longer


def test_texts_are_guarded_and_bounded_as_other_questions_are(served: Served, writing: Served) -> None:
    path, body = f"/{TOKEN}/ask/continuations", json.dumps({"state": {"sentence": SENTENCE}}).encode()
    status, _, text = request(writing, path, body)
    found = Continuations.from_json(json.loads(text))
    assert status == 200
    assert [len(texts) for texts in found.sides[0].texts] == [3, 3]
    assert request(writing, path.replace(TOKEN, "wrong"), body)[0] == 403
    assert request(writing, path, body, {"Origin": "https://evil.example"})[0] == 403
    assert request(writing, path, body, {"Host": "evil.example"})[0] == 403
    assert request(writing, path)[0] == 405
    assert request(writing, path, body + b" " * (64 * 1024))[0] == 413
    assert request(writing, path, b'{"state": {"seed": 1e99}}')[0] == 400
    assert request(writing, path, b'{"state": {"tokens": 999}}')[0] == 400
    status, line = ask(served, "continuations", OFF)
    assert status == 422
    assert "continuations" in line["line"]


def test_texts_are_given_up_when_their_tab_asks_anything_newer_and_block_nobody(
    writing: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, tokens, write = threading.Event(), [0], writing.explorer.continuations

    def slow(state: PageState, check: Callable[[], None]) -> Continuations:
        def slow_check() -> None:
            begun.set()
            tokens[0] += 1
            threading.Event().wait(0.05)
            check()

        return write(state, slow_check)

    with monkeypatch.context() as patch:
        patch.setattr(writing.explorer, "continuations", slow)
        with Again(writing.explorer) as own, ThreadPoolExecutor(2) as pool:
            first = pool.submit(ask, own, "continuations", PageState("A ___", seed=99), "tab", 1)
            assert begun.wait(30)
            assert ask(own, "answer", PageState("A ___"), "tab", 2)[0] == 200
            assert first.result()[0] == 409
            assert tokens[0] < TOKENS  # in the middle of the first text
            begun.clear()
            again = pool.submit(ask, own, "continuations", PageState("A ___", seed=99), "tab", 3)
            assert begun.wait(30)
            assert ask(own, "answer", PageState("The ___"), "another tab", 9)[0] == 200
            assert again.result()[0] == 200


def test_tabs_at_once_get_the_answers_of_one(served: Served) -> None:
    states = [PageState(SENTENCE, gates={Head(0, n % 4): 0.0}) for n in range(8)]
    alone = [ask(served, "answer", state)[1]["texts"] for state in states]
    with ThreadPoolExecutor(8) as pool:
        together = [pool.submit(ask, served, "answer", state, f"tab {n}") for n, state in enumerate(states)]
    assert [each.result()[1]["texts"] for each in together] == alone


def test_the_token_of_a_chosen_port_is_kept_for_the_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEVELHEAD_CACHE", str(tmp_path))
    first = kept_token(8765)
    assert kept_token(8765) == first != kept_token(8766)
    assert (tmp_path / "explore").stat().st_mode & 0o077 == 0
    (tmp_path / "explore" / "8765.token").write_text("../../short")
    assert re.fullmatch(r"[\w-]{32}", kept_token(8765))
    (tmp_path / "explore").chmod(0o755)
    assert kept_token(8765) != kept_token(8765)


def test_without_its_packages_one_line_says_what_to_install(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("levelhead.serving.listening.find_spec", lambda name: None)
    with pytest.raises(CannotDo, match=r"pip install 'levelhead\[explore\]'"):
        Served(Explorer(model, load_words("gender")))
