"""The routes of a served model, behind a guard. It opens no file and writes none.

    POST /v1/completions, /v1/chat/completions     texts and likelihoods, whole or in pieces (SSE)
    GET  /v1/models, /v1/models/NAME               what is served
    GET  /health                                   whether it answers; asks for no token

Without a token a request must name this machine and must not be sent by a page of the web: a page can send
requests to 127.0.0.1, and a name of its own can be made to lead there (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, cast

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from levelhead.errors import LevelheadError
from levelhead.models.chat import opened_chats
from levelhead.models.encoding import Text
from levelhead.serving.answers import Answer
from levelhead.serving.listening import TooLarge, is_loopback, limited, own_names, states_more
from levelhead.serving.requests import CompletionRequest, Refused, chat, completion, decoded
from levelhead.serving.scheduler import RETRY_SECONDS, Deployed, Job, Scheduler

MOST_BYTES = 4 << 20  # of a request
BODY_SECONDS = 30.0  # within which a request has arrived
ANSWER_SECONDS = 1800.0  # within which an answer has been taken
_DONE = b"data: [DONE]\n\n"
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


def refusal(refused: Refused) -> Response:
    """An error as OpenAI's clients read it."""
    headers = dict(_HEADERS)
    if refused.status == 429:
        headers["Retry-After"] = str(RETRY_SECONDS)
    if refused.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse(refused.error, status_code=refused.status, headers=headers)


@dataclass(frozen=True, eq=False)
class Pages:
    """The routes of one model."""

    deployed: Deployed
    scheduler: Scheduler

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"}, headers=_HEADERS)

    async def models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._model()]}, headers=_HEADERS)

    async def model(self, request: Request) -> Response:
        if refused := self._other(str(request.path_params["name"])):
            return refusal(refused)
        return JSONResponse(self._model(), headers=_HEADERS)

    def _model(self) -> dict[str, Any]:
        return {
            "id": self.deployed.name,
            "object": "model",
            "created": 0,
            "owned_by": "levelhead",
            "fingerprint": self.deployed.fingerprint,
            "changes": self.deployed.changes,
            "max_model_len": self.deployed.model.max_tokens,
            "chat": bool(self.deployed.model.tokenizer.chat_template),
        }

    def _other(self, name: str) -> Refused | None:
        if name == self.deployed.name:
            return None
        return Refused(
            404, f"model must be {self.deployed.name!r} (got {name[:80]!r})", "model", "model_not_found"
        )

    async def completions(self, request: Request) -> Response:
        return await self._answered(request, completion)

    async def chats(self, request: Request) -> Response:
        return await self._answered(request, chat)

    async def _answered(
        self, request: Request, read: Callable[[dict[str, Any]], CompletionRequest]
    ) -> Response:
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await request.body()
            given = await run_in_threadpool(decoded, body)
            wanted = read(given)
            if refused := self._other(given["model"]):
                raise refused
            conversation = _Conversation()
            job = await run_in_threadpool(self._job, wanted, conversation)
            self.scheduler.submit(job)
        except TooLarge:
            return refusal(Refused(413, f"a request must have at most {MOST_BYTES} bytes"))
        except TimeoutError:
            return refusal(Refused(408, f"a request must arrive within {BODY_SECONDS:g} s"))
        except ClientDisconnect:
            return Response(status_code=400)
        except Refused as refused:
            return refusal(refused)
        except LevelheadError as error:
            field = "messages" if request.url.path.endswith("chat/completions") else "prompt"
            return refusal(Refused(400, str(error), field, "invalid_value"))
        model, name = self.deployed.model, self.deployed.name
        answer = Answer(model, name, self.deployed.fingerprint, job.request)
        if wanted.stream:
            return StreamingResponse(
                self._streamed(job, answer, conversation), media_type="text/event-stream", headers=_HEADERS
            )
        return await self._whole(request, job, answer, conversation)

    def _job(self, wanted: CompletionRequest, conversation: _Conversation) -> Job:
        """The job of a request. LevelheadError: its prompt cannot be read."""
        texts: list[Text | str | tuple[int, ...]] = list(wanted.prompts)
        if wanted.chat:
            if not self.deployed.model.tokenizer.chat_template:
                line = f"{self.deployed.name} has no chat template; send plain text to /v1/completions"
                raise Refused(400, line, "messages", "no_chat_template")
            texts = [
                Text(opened, whole=True) for opened in opened_chats(self.deployed.model, [wanted.messages])
            ]
        seed = secrets.randbelow(2**53) if wanted.seed is None else wanted.seed
        return self.scheduler.job(wanted, texts, conversation.tell, seed)

    async def _whole(
        self, request: Request, job: Job, answer: Answer, conversation: _Conversation
    ) -> Response:
        gone = asyncio.create_task(_gone(request))
        ended = asyncio.create_task(conversation.ended.wait())
        try:
            await asyncio.wait((gone, ended), timeout=ANSWER_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if gone.done() and not ended.done():
                return Response(status_code=499)
            if not ended.done():
                return refusal(Refused(504, f"the answer took longer than {ANSWER_SECONDS:g} s"))
            if job.refused is not None:
                return refusal(job.refused)
            return JSONResponse(await run_in_threadpool(answer.whole, job), headers=_HEADERS)
        finally:
            gone.cancel()
            ended.cancel()
            self.scheduler.cancel(job)

    async def _streamed(self, job: Job, answer: Answer, conversation: _Conversation) -> AsyncIterator[bytes]:
        def event(data: Any) -> bytes:
            return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()

        begun = False
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                while True:
                    await conversation.news.wait()
                    conversation.news.clear()
                    over = conversation.ended.is_set()
                    scored = job.request.echo and job.request.logprobs is not None
                    unread = scored and any(choice.scored is None for choice in job.choices)
                    if job.refused is None and not begun and not unread:
                        begun = True
                        for part in answer.first(job):
                            yield event(part)
                    while begun and job.streamed:
                        for part in answer.piece(job, *job.streamed.popleft()):
                            yield event(part)
                    if over:
                        break
            if job.refused is not None:
                yield event(job.refused.error)
            else:
                for part in answer.last(job):
                    yield event(part)
            yield _DONE
        except TimeoutError:
            yield event(Refused(504, f"the answer took longer than {ANSWER_SECONDS:g} s").error)
        finally:
            self.scheduler.cancel(job)


@dataclass(frozen=True, eq=False)
class _Conversation:
    """A request that waits in this loop for news from the thread of the model."""

    news: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    def tell(self, ended: bool) -> None:
        def told() -> None:
            if ended:
                self.ended.set()
            self.news.set()

        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(told)


async def _gone(request: Request) -> None:
    """Until nobody is there to be answered."""
    while not await request.is_disconnected():
        await asyncio.sleep(0.25)


# ---- who may ask


class Guard:
    """An ASGI application that answers those who have a token, or without tokens this machine alone."""

    def __init__(self, app: ASGIApp, host: str, port: int, tokens: tuple[str, ...]) -> None:
        self._app, self._tokens = app, [token.encode() for token in tokens]
        self._names = own_names(host, port) if is_loopback(host) else []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse in one line, or hand on."""
        if scope["type"] != "http":
            raise RuntimeError("only plain requests are taken")
        headers = [(name.lower(), value) for name, value in scope["headers"]]
        if (refused := self._refusal(scope, headers)) is None:
            await self._app(scope, cast(Receive, limited(receive, MOST_BYTES)), send)
        else:
            await refusal(refused)(scope, receive, send)

    def _refusal(self, scope: Scope, headers: list[tuple[bytes, bytes]]) -> Refused | None:
        def of(wanted: bytes) -> list[bytes]:
            return [value for name, value in headers if name == wanted]

        if scope["path"] == "/health" and scope["method"] in ("GET", "HEAD"):
            return None
        if self._tokens:
            given = of(b"authorization")
            kind, _, token = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
            known = [secrets.compare_digest(token.strip(), each) for each in self._tokens]
            if kind.lower() != b"bearer" or not any(known):
                line = "the bearer token is missing or wrong; send Authorization: Bearer TOKEN"
                return Refused(401, line, None, "invalid_api_key")
        elif len(of(b"host")) != 1 or of(b"host")[0].lower() not in self._names:
            return Refused(
                403, "without a token, Host must be 127.0.0.1 or localhost with this port", None, "host"
            )
        elif any(origin not in [b"http://" + name for name in self._names] for origin in of(b"origin")):
            return Refused(403, "without a token, pages of the web are not answered", None, "origin")
        if scope["method"] == "POST":
            kinds = [value.partition(b";")[0].strip().lower() for value in of(b"content-type")]
            if kinds != [b"application/json"]:
                return Refused(415, "Content-Type must be application/json", None, "content_type")
            if states_more(headers, MOST_BYTES):
                return Refused(413, f"a request must have at most {MOST_BYTES} bytes", None, "too_large")
        return None


def application(
    deployed: Deployed, scheduler: Scheduler, host: str, port: int, tokens: tuple[str, ...]
) -> Guard:
    """The whole server as an ASGI application."""
    pages = Pages(deployed, scheduler)

    def failed(request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", None)
        if status not in (404, 405):
            return refusal(Refused(500, f"an unexpected {type(error).__name__}", None, "internal_error"))
        line = (
            "this method is not allowed here" if status == 405 else f"nothing is at {request.url.path[:80]!r}"
        )
        return refusal(Refused(status, line, None, "not_found"))

    routes = [
        Route("/v1/completions", pages.completions, methods=["POST"]),
        Route("/v1/chat/completions", pages.chats, methods=["POST"]),
        Route("/v1/models", pages.models, methods=["GET"]),
        Route("/v1/models/{name:path}", pages.model, methods=["GET"]),
        Route("/health", pages.health, methods=["GET"]),
    ]
    errors: Any = dict.fromkeys((404, 405, Exception), failed)
    return Guard(cast(ASGIApp, Starlette(routes=routes, exception_handlers=errors)), host, port, tokens)
