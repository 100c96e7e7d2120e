"""The server of a page: Starlette behind a guard, on 127.0.0.1 alone. It opens no file and writes none.

    GET  /TOKEN/             the page
    POST /TOKEN/ask/KIND     answer, bands, beside, why, neurons, look: about the state that comes
    POST /TOKEN/measure      begin the benchmark; /TOKEN/jobs says how far it is
    POST /TOKEN/save         the page of a state as one file, which the browser keeps

A tab that asks again before it was answered wants the latest answer only: the others are dropped unasked.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from levelhead.errors import LevelheadError
from levelhead.exploring.explorer import Explorer
from levelhead.exploring.fits import BeingFitted
from levelhead.exploring.guard import MOST_BYTES, Guard, TooLarge
from levelhead.exploring.pages import live_page, static_page
from levelhead.exploring.state import PageState
from levelhead.results.codec import Record

_TABS = 256  # that are remembered
_FITTED_FIRST = "the change is fitted first; ask again when that is done"
_HEADERS = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_NOTEBOOKS = "http://localhost:* http://127.0.0.1:*"  # where a notebook of this machine may frame the page


class Superseded(Exception):
    """A question whose tab has asked a newer one."""


@dataclass(frozen=True)
class Asked(Record):
    """A request: which tab asks, its how manieth question this is, and about which state."""

    tab: str = ""
    number: int = 0
    state: PageState = field(default_factory=PageState)


class Latest:
    """One question at a time, and of each tab only the latest."""

    def __init__(self) -> None:
        self._numbers: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._turn, self._lock = threading.Lock(), threading.Lock()

    def note(self, tab: str, kind: str, number: int) -> None:
        """A question has come."""
        with self._lock:
            self._numbers[tab, kind] = max(number, self._numbers.get((tab, kind), 0))
            self._numbers.move_to_end((tab, kind))
            while len(self._numbers) > _TABS:
                self._numbers.popitem(last=False)

    def ask(self, asked: Asked, kind: str, answer: Callable[[], Record]) -> Record:
        """The answer, once it is this question's turn."""
        with self._turn:
            if self._numbers.get((asked.tab, kind), 0) > asked.number:
                raise Superseded
            return answer()


class Pages:
    """The routes of one explorer."""

    def __init__(self, explorer: Explorer, framed: bool = False) -> None:
        self.explorer, self._framed, self._latest = explorer, framed, Latest()
        self._kinds: Mapping[str, Callable[[PageState], Record]] = {
            "answer": explorer.answer,
            "bands": explorer.bands,
            "beside": explorer.beside,
            "why": explorer.why,
            "neurons": explorer.neurons,
            "look": explorer.look,
        }

    def app(self) -> Starlette:
        """The application, without its guard."""
        return Starlette(
            routes=[
                Route("/{token}/", self.page, methods=["GET"]),
                Route("/{token}/ask/{kind}", self.ask, methods=["POST"]),
                Route("/{token}/measure", self.measure, methods=["POST"]),
                Route("/{token}/jobs", self.jobs, methods=["POST"]),
                Route("/{token}/save", self.save, methods=["POST"]),
            ]
        )

    async def page(self, request: Request) -> Response:
        """The page; its first visit begins to score the heads."""
        page = await run_in_threadpool(live_page, self.explorer)
        await run_in_threadpool(self.explorer.score_heads)
        ancestors = _NOTEBOOKS if self._framed else "'none'"
        policy = f"{page.policy}; frame-ancestors {ancestors}"
        headers = {**_HEADERS, "Content-Security-Policy": policy}
        return Response(page.html, headers=headers, media_type="text/html")

    async def ask(self, request: Request) -> Response:
        """An answer about one state."""
        kind = str(request.path_params["kind"])
        if kind not in self._kinds:
            return _line(404, f"nothing is called {kind[:40]!r} here")

        def answer(asked: Asked) -> Record:
            with self.explorer.background.question():
                return self._latest.ask(asked, kind, lambda: self._kinds[kind](asked.state))

        return await self._answered(request, answer, kind)

    async def measure(self, request: Request) -> Response:
        """Begin the benchmark."""

        def begin(asked: Asked) -> Record:
            self.explorer.measure(asked.state, asked.tab)
            return self.explorer.jobs(asked.tab)

        return await self._answered(request, begin)

    async def jobs(self, request: Request) -> Response:
        """How far everything in the background is."""
        return await self._answered(request, lambda asked: self.explorer.jobs(asked.tab))

    async def save(self, request: Request) -> Response:
        """The page of a state as one file."""
        asked = await self._asked(request)
        if isinstance(asked, Response):
            return asked
        try:
            page = await run_in_threadpool(static_page, self.explorer, asked.state, asked.tab)
        except BeingFitted:
            return _line(202, _FITTED_FIRST)
        except LevelheadError as error:
            return _line(422, str(error))
        name = {"Content-Disposition": 'attachment; filename="levelhead-explore.html"'}
        return Response(page.html, headers={**_HEADERS, **name}, media_type="text/html")

    async def _answered(
        self, request: Request, answer: Callable[[Asked], Record], kind: str = ""
    ) -> Response:
        asked = await self._asked(request)
        if isinstance(asked, Response):
            return asked
        self._latest.note(asked.tab, kind, asked.number)
        try:
            given = await run_in_threadpool(answer, asked)
        except Superseded:
            return _line(409, "a newer question came")
        except BeingFitted:
            return _line(202, _FITTED_FIRST)
        except LevelheadError as error:
            return _line(422, str(error))
        return JSONResponse(given.to_json(), headers=_HEADERS)

    @staticmethod
    async def _asked(request: Request) -> Asked | Response:
        """What a request asks, or why nothing can be made of it."""
        try:
            return Asked.from_json(json.loads(await request.body()))
        except TooLarge:
            return _line(413, f"more than {MOST_BYTES} bytes came")
        except (LevelheadError, ValueError, RecursionError) as error:
            return _line(400, f"this is no question: {str(error)[:120]}")


def _line(status: int, line: str) -> JSONResponse:
    body: dict[str, Any] = {"line": line}
    return JSONResponse(body, status_code=status, headers=_HEADERS)


def guarded(explorer: Explorer, token: str, port: int, framed: bool = False) -> Guard:
    """The whole server as an ASGI application. framed: a notebook of this machine may show it in a frame."""
    return Guard(cast(ASGIApp, Pages(explorer, framed).app()), token, port)
