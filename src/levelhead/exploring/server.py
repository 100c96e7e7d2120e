"""The server of a page: Starlette behind a guard, on 127.0.0.1 alone. It opens no file and writes none.

    GET  /TOKEN/             the page
    POST /TOKEN/ask/KIND     answer, bands, beside, why, neurons, attention: about the state that comes;
                             continuations: texts, which are given up when the tab asks anything newer
    POST /TOKEN/measure      begin the benchmark; /TOKEN/jobs says how far it is
    POST /TOKEN/save         the page of a state as one file, which the browser keeps

A tab that asks again before it was answered wants the latest answer only: the others are dropped unasked.

A page of the web can send requests to 127.0.0.1, and a name of its own can be made to lead there (DNS
rebinding). So every request must name our host, ask under the token, and come from our own page; nothing is
answered with a header that would let another origin read it.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from levelhead import __version__
from levelhead.errors import LevelheadError
from levelhead.exploring.changes import BeingFitted
from levelhead.exploring.explorer import Explorer, Facts, Saved, saved
from levelhead.exploring.state import PageState
from levelhead.pages.shell import content_policy, environment, template_text
from levelhead.runs.records import Record
from levelhead.serving.listening import LOOPBACK, TooLarge, limited, own_names, states_more

MOST_BYTES = 64 * 1024  # of a request
CONTINUATIONS = "continuations"  # the kind of question that is answered in portions
_TABS = 256  # that are remembered
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_NOTEBOOKS = "http://localhost:* http://127.0.0.1:*"  # where a notebook of this machine may frame the page
_TEMPLATES = Path(__file__).parent / "template"
_SCRIPTS = ("explore-drawing.js", "explore.js")


# ---- the page


@dataclass(frozen=True)
class Given(Record):
    """What stands in the page itself. saved: all answers of a static page."""

    facts: Facts
    saved: Saved | None = None


def page_of(given: Given, connect: str) -> tuple[str, str]:
    """The page, and the policy that is sent beside it.

    Live, a page asks its own server ('self'); static, it is one file that asks nobody ("").
    """
    css = template_text("page.css") + template_text("explore.css", _TEMPLATES)
    scripts = [template_text("theme.js"), "\n".join(template_text(name, _TEMPLATES) for name in _SCRIPTS)]
    policy = content_policy(css, scripts, connect)
    template = environment(_TEMPLATES).get_template("explore.html")
    html = template.render(given=given, css=css, scripts=scripts, policy=policy, version=__version__)
    return html, policy


# ---- its routes


class Superseded(Exception):
    """A question whose tab has asked a newer one."""


@dataclass(frozen=True)
class Query(Record):
    """A request: which tab asks, its how manieth question this is, and about which state."""

    tab: str = ""
    number: int = 0
    state: PageState = field(default_factory=PageState)


class Pages:
    """The routes of one explorer."""

    def __init__(self, explorer: Explorer, framed: bool = False) -> None:
        self.explorer, self._framed = explorer, framed
        self._numbers: OrderedDict[tuple[str, str], int] = OrderedDict()  # the latest question of a tab
        self._one_question, self._lock = threading.Lock(), threading.Lock()
        self._kinds: Mapping[str, Callable[[PageState], Record]] = {
            "answer": explorer.answer,
            "bands": explorer.bands,
            "beside": explorer.beside,
            "why": explorer.why,
            "neurons": explorer.neurons,
            "attention": explorer.attention,
        }

    async def page(self, request: Request) -> Response:
        """The page; its first visit begins to score the heads."""
        html, policy = await run_in_threadpool(lambda: page_of(Given(self.explorer.facts), "'self'"))
        await run_in_threadpool(self.explorer.score_heads)
        ancestors = _NOTEBOOKS if self._framed else "'none'"
        headers = {**_HEADERS, "Content-Security-Policy": f"{policy}; frame-ancestors {ancestors}"}
        return Response(html, headers=headers, media_type="text/html")

    async def ask(self, request: Request) -> Response:
        """An answer about one state: one question at a time, and of each tab only the latest."""
        kind = str(request.path_params["kind"])
        if kind not in {*self._kinds, CONTINUATIONS}:
            return _line(404, f"nothing is called {kind[:40]!r} here")

        def answer(query: Query) -> Record:
            if kind == CONTINUATIONS:  # texts take longer than a page waits for: other questions go first
                return self.explorer.continuations(query.state, lambda: self._refuse_older(query))
            with self.explorer.background.question(), self._one_question:
                if self._numbers.get((query.tab, kind), 0) > query.number:
                    raise Superseded
                return self._kinds[kind](query.state)

        return await self._answered(request, answer, kind)

    def _refuse_older(self, query: Query) -> None:
        """End a question whose tab has asked anything newer."""
        with self._lock:
            newer = any(
                tab == query.tab and number > query.number for (tab, _), number in self._numbers.items()
            )
        if newer:
            raise Superseded

    async def measure(self, request: Request) -> Response:
        return await self._answered(request, lambda query: self.explorer.measure(query.state, query.tab))

    async def jobs(self, request: Request) -> Response:
        return await self._answered(request, lambda query: self.explorer.jobs(query.tab))

    async def save(self, request: Request) -> Response:

        def file(query: Query) -> Response:
            html, _ = page_of(Given(self.explorer.facts, saved(self.explorer, query.state, query.tab)), "")
            name = {"Content-Disposition": 'attachment; filename="levelhead-explore.html"'}
            return Response(html, headers={**_HEADERS, **name}, media_type="text/html")

        return await self._answered(request, file, None)

    async def _answered(
        self, request: Request, answer: Callable[[Query], Record | Response], kind: str | None = ""
    ) -> Response:
        """What comes of a request, or the reason in one line. kind: of question that it is the latest of."""
        try:
            query = Query.from_json(json.loads(await request.body()))
        except TooLarge:
            return _line(413, f"a request must have at most {MOST_BYTES} bytes")
        except (LevelheadError, ValueError, RecursionError) as error:
            return _line(400, f"this is no question: {str(error)[:120]}")
        if kind is not None:
            with self._lock:
                tab = (query.tab, kind)
                self._numbers[tab] = max(query.number, self._numbers.get(tab, 0))
                self._numbers.move_to_end(tab)
                while len(self._numbers) > _TABS:
                    self._numbers.popitem(last=False)
        try:
            given = await run_in_threadpool(answer, query)
            return given if isinstance(given, Response) else JSONResponse(given.to_json(), headers=_HEADERS)
        except Superseded:
            return _line(409, "a newer question replaced this one")
        except BeingFitted:
            return _line(202, "the change is fitted first; ask again when that is done")
        except LevelheadError as error:
            return _line(422, str(error))


def _line(status: int, line: str) -> Response:
    return JSONResponse({"line": line}, status_code=status, headers=_HEADERS)


# ---- who may ask: this machine, by its own address, with the token, in small requests


@dataclass(frozen=True)
class Guard:
    """An ASGI application behind the checks above."""

    app: ASGIApp
    token: str
    port: int

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse in one line, or hand on."""
        if scope["type"] != "http":
            raise RuntimeError("the page takes plain requests only")
        headers = [(name.lower(), value) for name, value in scope["headers"]]
        if (refusal := self._refusal(scope, headers)) is None:
            await self.app(scope, limited(receive, MOST_BYTES), send)
            return
        status, line = refusal
        body = f"levelhead: {line}\n".encode()
        plain = [
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"content-length", str(len(body)).encode()),
        ]
        await send({"type": "http.response.start", "status": status, "headers": plain})
        await send({"type": "http.response.body", "body": body})

    def _refusal(self, scope: Scope, headers: list[tuple[bytes, bytes]]) -> tuple[int, str] | None:
        hosts = own_names(LOOPBACK, self.port)
        named = [value for name, value in headers if name == b"host"]
        if len(named) != 1 or named[0] not in hosts:
            return 403, "ask 127.0.0.1 by its own name"
        folder = str(scope["path"]).split("/")[1:2]
        if not folder or not secrets.compare_digest(folder[0].encode(), self.token.encode()):
            return 403, "the token is missing or wrong; use the address that was printed"
        origins = [value for name, value in headers if name == b"origin"]
        own = [b"http://" + host for host in hosts]
        if any(origin not in own for origin in origins) or (scope["method"] != "GET" and not origins):
            return 403, "only the page itself may ask"
        sites = [value for name, value in headers if name == b"sec-fetch-site"]
        if scope["method"] != "GET" and any(site != b"same-origin" for site in sites):
            return 403, "only the page itself may ask"
        if states_more(headers, MOST_BYTES):
            return 413, f"at most {MOST_BYTES} bytes are taken"
        return None


def guarded(explorer: Explorer, token: str, port: int, framed: bool = False) -> Guard:
    """The whole server as an ASGI application. framed: a notebook of this machine may show it in a frame."""
    pages = Pages(explorer, framed)
    routes = [
        Route("/{token}/", pages.page, methods=["GET"]),
        Route("/{token}/ask/{kind}", pages.ask, methods=["POST"]),
        Route("/{token}/measure", pages.measure, methods=["POST"]),
        Route("/{token}/jobs", pages.jobs, methods=["POST"]),
        Route("/{token}/save", pages.save, methods=["POST"]),
    ]
    return Guard(cast(ASGIApp, Starlette(routes=routes)), token, port)
