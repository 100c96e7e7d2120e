"""Many requests at once: stored answers first, then the server, with as many connections as it bears.

The number of connections grows by one for each round of good answers and halves where the server says that
it is busy. The first error ends the work once the requests under way are answered and stored; Ctrl-C ends it
at once.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

from levelhead.engine.served.answers import Answer, Answers, Request, Said
from levelhead.engine.served.transport import Cancelled, Refused, Transport, Unavailable
from levelhead.errors import LevelheadError
from levelhead.models.served import ServedModel
from levelhead.progress import steps

COMPLETIONS, CHAT, MESSAGES = "/completions", "/chat/completions", "/messages"
_LIMITED = ("length", "max_tokens", "model_length")  # reasons of an end that are limits
_FIRST = 2.0  # connections to begin with
Check = Callable[[Answer], str]  # why an answer cannot be used; empty where it can


class Asking:
    """One server, and the answers that it has given to a run."""

    def __init__(
        self,
        model: ServedModel,
        answers: Answers,
        earlier: Mapping[str, Answer] | None = None,
    ) -> None:
        self.model, self.answers = model, answers
        self._earlier = earlier  # of the run that is replayed, by the hashes of their requests
        self.sent = 0
        self.speaks = ""  # what the server calls the model, once it has proved what it can do
        self._transport = Transport(model)
        self._width = Width(model.patience.connections)
        self._transport.slower = self._width.halve

    def one(self, request: Request, check: Check = lambda _: "") -> Answer:
        """The answer to one request, stored or new."""
        known = self.answers.get(request)
        if known is not None:
            return known
        if self._earlier is not None:
            if (known := self._earlier.get(request.key)) is not None:
                self.answers.put(request, known)  # so that this run can be replayed by itself
                return known
            raise Unavailable(
                f"{self.model.replay} holds no answer to a request to {request.path}. Leave --replay out to "
                f"ask {self.model.name}, or replay the settings of that run."
            )
        with self._width.place():
            answer = parsed(request, self._transport.post(request.path, request.body))
            self._width.grow()
        if why := self._other_model(answer) or check(answer):
            raise Unavailable(f"{self.model.name} {why}. Nothing of that answer is kept.")
        self.answers.put(request, answer)
        self.sent += 1
        return answer

    def all(self, requests: Sequence[Request], label: str, check: Check = lambda _: "") -> list[Answer]:
        """The answers to many requests, in their order. Equal ones are sent once."""
        once = {request.key: request for request in requests}
        new = [request for request in once.values() if self.answers.get(request) is None]
        with steps(label, len(once)) as advance:
            advance(len(once) - len(new))
            if not new:
                return [self.one(request, check) for request in requests]
            stop = threading.Event()

            def sent(request: Request) -> None:
                if not stop.is_set():
                    self.one(request, check)

            pool = ThreadPoolExecutor(min(self.model.patience.connections, len(new)), "levelhead-server")
            try:
                left: set[Future[None]] = {pool.submit(sent, request) for request in new}
                try:
                    while left:
                        done, left = wait(left, timeout=0.2, return_when=FIRST_EXCEPTION)
                        for each in done:
                            each.result()
                            advance(1)
                except LevelheadError:
                    stop.set()  # what is under way was paid: it is answered, and stored
                    pool.shutdown(wait=True, cancel_futures=True)
                    raise
            except KeyboardInterrupt:
                stop.set()
                self._width.end()
                self._transport.end()
                raise
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
        return [self.one(request, check) for request in requests]

    def _other_model(self, answer: Answer) -> str:
        """Why what answers is another model than the one that was named, or that answered before."""
        said, wanted = answer.model, self.model.known_as
        if self.speaks and said and said != self.speaks:
            return f"has answered as {said[:80]!r}, and before as {self.speaks[:80]!r}"
        # servers add a folder, a date (OpenAI), a revision (transformers serve) or a tag (Ollama) to a name
        bare, named = (each.rpartition("/")[2].partition("@")[0] for each in (said, wanted))
        added = bare.removeprefix(named)
        dated = bare != added and added.replace("-", "").isdigit() and added.startswith("-")
        if not said or bare == named or dated or (bare != added and added == ":latest"):
            return ""
        return f"answers as {said[:80]!r}, not as {wanted!r}: name that one if you mean it"

    @property
    def usage(self) -> tuple[int, int]:
        """Tokens that the server has read and written for this run, as far as it counts them."""
        return sum(each.read or 0 for each in self.answers), sum(each.written or 0 for each in self.answers)


class Width:
    """How many requests may be under way: one more for each round of good answers, half where it is busy."""

    def __init__(self, most: int) -> None:
        self._most, self.now, self._under_way = float(most), min(_FIRST, float(most)), 0
        self._changed, self._ended = threading.Condition(), False

    @contextmanager
    def place(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._under_way < int(self.now))
            if self._ended:
                raise Cancelled
            self._under_way += 1
        try:
            yield
        finally:
            with self._changed:
                self._under_way -= 1
                self._changed.notify_all()

    def grow(self) -> None:
        with self._changed:
            self.now = min(self._most, self.now + 1 / self.now)
            self._changed.notify_all()

    def halve(self) -> None:
        with self._changed:
            self.now = max(1.0, self.now / 2)

    def end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()


# ---- what an answer says


def parsed(request: Request, answer: Mapping[str, Any]) -> Answer:
    """An answer without what nobody needs; what is no answer to the request is one line."""
    try:
        if request.path == MESSAGES:
            blocks = [each["text"] for each in answer["content"] if each.get("type") == "text"]
            said = [Said(_text("".join(blocks)), answer.get("stop_reason") not in _LIMITED)]
            counts = ("input_tokens", "output_tokens")
        else:
            said = [_said(each, request.path) for each in answer["choices"]]
            counts = ("prompt_tokens", "completion_tokens")
        usage = answer.get("usage") or {}
        read, written = (  # a bool is an int
            told
            if isinstance(told := usage.get(name), int) and not isinstance(told, bool) and told >= 0
            else None
            for name in counts
        )
        model = _text(answer.get("model") or "")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        line = f"The server's answer to {request.path} has another form than its interface ({error!r:.60})."
        raise Refused(line, 200, line) from None
    wanted = request.body.get("n", 1)
    if len(said) != wanted:
        line = f"The server gave {len(said)} texts for n = {wanted}."
        raise Refused(line, 200, line)
    return Answer(model, tuple(said), read, written)


def _said(choice: Mapping[str, Any], path: str) -> Said:
    """A text with its tokens and their log p. Lists of other lengths, or of other things, are kept apart from
    none."""
    text = _text(choice["text"] if path == COMPLETIONS else (choice["message"].get("content") or ""))
    ended, told = choice.get("finish_reason") not in _LIMITED, choice.get("logprobs")
    given = told if isinstance(told, dict) else {}
    tokens, logs = given.get("tokens"), given.get("token_logprobs")
    if not isinstance(tokens, list) or not isinstance(logs, list):
        return Said(text, ended)
    if not all(isinstance(each, str) for each in tokens):
        return Said(text, ended)
    numbers = (isinstance(p, int | float) and not isinstance(p, bool) and math.isfinite(p) for p in logs)
    known = tuple(float(p) if valid else None for p, valid in zip(logs, numbers, strict=True))
    return Said(text, ended, tuple(tokens), known)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a text that is none")
    return value
