"""The one thread that owns the model: requests wait in a bounded queue, and are answered together.

Likelihoods of prompts of all that wait are read in one pass; texts of all that wait are written token by
token beside each other (engine/writing.py), so a request that arrives later waits for one token, not for a
text. Every answer is told to its request's own loop.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch

from levelhead.edits.output import Symmetrized, edit_of
from levelhead.edits.sites import Variant
from levelhead.engine.sampling import (
    believing_prompts,
    continuation,
    drawn_orientation,
    ends_of,
    orientations,
    prompt_rows,
    swapped_back,
    text_seed,
    why_no_texts,
)
from levelhead.engine.writing import (
    Pieces,
    Prompt,
    Scored,
    Token,
    Wish,
    Writer,
    prompt_of,
    prompt_scores,
    text_scores,
)
from levelhead.errors import CannotDo, LevelheadError
from levelhead.models.encoding import Text, forget_rows
from levelhead.models.model import Model
from levelhead.serving.requests import MOST_CHAT, CompletionRequest, Refused
from levelhead.serving.requests import Prompt as Given

_LOG = logging.getLogger(__name__)
RETRY_SECONDS = 1  # after which a request that found the queue full may try again
_READ = 64  # prompts whose likelihoods are read before others get their tokens


@dataclass(frozen=True)
class Deployed:
    """What is served: a model, what is changed in it, and under which name."""

    model: Model
    variant: Variant = ()
    name: str = ""
    fingerprint: str = ""  # of the weights and what is changed
    changes: str = ""  # in words, for people

    def __post_init__(self) -> None:
        self.model.require("causal", "serving")
        if reason := why_no_texts(self.variant):
            raise CannotDo(f"{reason}.")

    @property
    def symmetry(self) -> Symmetrized | None:
        return edit_of(Symmetrized, self.variant)


def choice_seed(seed: int, number: int) -> int:
    """The seed of a choice: the first has the request's own, so it is the text of a request without n."""
    return seed if number == 0 else text_seed("choice", number, seed)


@dataclass(eq=False)
class Choice:
    """One text of an answer, as it grows."""

    prompt: Prompt
    seed: int
    scored: Scored | None = None  # of its prompt
    begun: tuple[Text, int] | None = None  # the oriented prompt that it is written behind, and how
    wish: Wish | None = None
    tokens: list[Token] = field(default_factory=list)
    pieces: Pieces | None = None  # where somebody must know the text before it ends
    text: str = ""
    told: int = 0  # characters of it that were streamed
    told_tokens: int = 0
    reason: str = ""  # why it ended: stop, length


@dataclass(eq=False)
class Job:
    """A request that waits, or is being answered."""

    request: CompletionRequest
    choices: list[Choice]
    tell: Callable[[bool], None]  # called in the thread of the model at news: whether it has ended
    streamed: deque[tuple[int, str, list[Token], str]] = field(default_factory=deque)
    refused: Refused | None = None
    begun: bool = False
    canceled: bool = False
    ended: bool = False


class Scheduler:
    """Answers jobs, one pass at a time."""

    def __init__(self, deployed: Deployed, queue: int, most: int) -> None:
        self.deployed, self.queue = deployed, queue
        self._writer = Writer(deployed.model, deployed.variant, most)
        self._news = threading.Condition()
        self._arrived: deque[Job] = deque()
        self._open: list[Job] = []
        self._waiting: list[Wish] = []
        self._of: dict[int, tuple[Job, Choice]] = {}  # by the id of a wish
        self._unread: deque[tuple[Job, Choice]] = deque()
        self._closing = False
        self._ends = ends_of(deployed.model)
        self._thread = threading.Thread(target=self._work, name="levelhead serve", daemon=True)
        self._thread.start()

    # ---- called by anybody

    def job(
        self,
        request: CompletionRequest,
        prompts: Sequence[Text | Given],
        tell: Callable[[bool], None],
        seed: int,
    ) -> Job:
        """A job of a request. LevelheadError: its prompt cannot be read."""
        model = self.deployed.model
        as_text = self.deployed.symmetry is not None
        texts = [Text(each) if isinstance(each, str) else each for each in prompts]
        if request.tokens is None:  # as many as there are positions
            (longest,) = [prompt_of(model, each, 0, as_text) for each in texts]
            room = MOST_CHAT if model.max_tokens is None else model.max_tokens - len(longest.ids)
            request = replace(request, tokens=max(1, min(room, MOST_CHAT)))
        read = [prompt_of(model, each, request.tokens or 0, as_text) for each in texts]
        choices = [Choice(each, choice_seed(seed, k)) for each in read for k in range(request.n)]
        return Job(request, choices, tell)

    def submit(self, job: Job) -> None:
        """Let a job wait; Refused where too many wait already."""
        with self._news:
            if self._closing:
                raise Refused(503, "this server is about to end", None, "shutting_down")
            waiting = sum(not each.begun for each in (*self._arrived, *self._open))
            if waiting >= self.queue:
                raise Refused(
                    429,
                    f"{waiting} requests wait already, as many as may; try again in {RETRY_SECONDS} s",
                    None,
                    "queue_full",
                )
            self._arrived.append(job)
            self._news.notify()

    def cancel(self, job: Job) -> None:
        """Nobody waits for a job any longer."""
        job.canceled = True

    def close(self) -> None:
        """End, when all that was submitted is answered."""
        with self._news:
            self._closing = True
            self._news.notify()
        self._thread.join()

    # ---- the thread of the model

    def _work(self) -> None:
        while True:
            with self._news:
                while not (self._arrived or self._open or self._closing):
                    self._news.wait()
                if not (self._arrived or self._open):
                    return
                arrived = list(self._arrived)
                self._arrived.clear()
                self._open += arrived
            for job in arrived:
                self._guarded([job], partial(self._taken, job))
            self._read_some()
            if self._waiting or self._writer.wishes:
                self._guarded([job for job in self._open if not job.ended], self._write)
            unread = {id(job) for job, _ in self._unread}
            for job in self._open:
                if not job.ended and id(job) not in unread and all(each.reason for each in job.choices):
                    self._guarded([job], partial(self._finished, job))
            with self._news:
                self._open = [job for job in self._open if not job.ended]
            if not self._open:
                forget_rows(self.deployed.model)

    def _guarded(self, jobs: Sequence[Job], work: Callable[[], None]) -> None:
        """Do something for jobs; what goes wrong is told to them, and the thread goes on."""
        try:
            work()
            return
        except LevelheadError as error:
            refused = Refused(400, str(error), None, "invalid_value")
        except torch.OutOfMemoryError:
            refused = Refused(503, "memory runs out; ask for fewer or shorter texts", None, "out_of_memory")
        except Exception as error:
            _LOG.exception("an unexpected error while a request was answered")
            refused = Refused(500, f"an unexpected {type(error).__name__}", None, "internal_error")
        if work == self._write:  # the cache of some layers may be longer than that of others
            self._writer = Writer(self.deployed.model, self.deployed.variant, self._writer.most)
        self._drop(jobs)
        for job in jobs:
            job.refused = refused
            self._end(job)

    def _end(self, job: Job) -> None:
        if not job.ended:
            job.ended = job.begun = True
            job.tell(True)

    def _drop(self, jobs: Sequence[Job]) -> None:
        """Work no further on these."""
        own = {id(job) for job in jobs}
        self._unread = deque(each for each in self._unread if id(each[0]) not in own)
        gone = [c.wish for job in jobs for c in job.choices if c.wish is not None and not c.reason]
        ids = {id(wish) for wish in gone}
        self._of = {number: each for number, each in self._of.items() if number not in ids}
        self._waiting = [wish for wish in self._waiting if id(wish) not in ids]
        self._writer.leave(gone)

    def _taken(self, job: Job) -> None:
        """Note what is to be done for a job."""
        if job.canceled:
            self._end(job)
            return
        request = job.request
        if request.echo and request.logprobs is not None:
            self._unread += [(job, choice) for choice in job.choices]
        if not request.tokens:
            for choice in job.choices:
                choice.reason = "length"
            return
        # the text that each choice is written behind, and its orientation; None: the prompts themselves
        model, drawn = self.deployed.model, None
        if (symmetry := self.deployed.symmetry) is not None:
            texts = [choice.prompt.text or Text("") for choice in job.choices]
            own: Variant = tuple(each for each in self.deployed.variant if not isinstance(each, Symmetrized))
            swap = believing_prompts(model, symmetry.swap, texts)
            every = zip(orientations(model, swap, texts, own), job.choices, strict=True)
            drawn = [drawn_orientation(oriented, choice.seed) for oriented, choice in every]
        for number, choice in enumerate(job.choices):
            ids = choice.prompt.ids
            if drawn is not None:
                choice.begun = drawn[number]
                (ids,) = prompt_rows(model, [choice.begun[0]], request.tokens).values()
            top = None if drawn is not None else request.logprobs
            choice.wish = Wish(ids, request.tokens, choice.seed, request.temperature, request.top_p, top)
            # one that is exchanged back, or whose tokens are read anew, is known when it has ended
            early = choice.begun is None or (not choice.begun[1] and request.logprobs is None)
            if early and (request.stream or request.stop):
                choice.pieces = Pieces(model, ids)
            self._of[id(choice.wish)] = job, choice
            self._waiting.append(choice.wish)
        if request.stream:
            job.tell(False)

    def _read_some(self) -> None:
        """Likelihoods of some of the prompts that wait for them, all in one pass."""
        some = [self._unread.popleft() for _ in range(min(_READ, len(self._unread)))]
        some = [(job, choice) for job, choice in some if not (job.ended or job.canceled)]
        if not some:
            return
        jobs = list({id(job): job for job, _ in some}.values())
        for job in jobs:
            job.begun = True

        def read_them() -> None:
            top = max(job.request.logprobs or 0 for job in jobs)
            prompts = [choice.prompt for _, choice in some]
            found = prompt_scores(self.deployed.model, prompts, self.deployed.variant, top)
            for (_, choice), scored in zip(some, found, strict=True):
                choice.scored = scored

        self._guarded(jobs, read_them)

    def _write(self) -> None:
        """Write until somebody new has arrived, or a text that is to be exchanged back has ended."""
        with self._writer.at_work():
            while self._waiting or self._writer.wishes:
                if gone := [job for job in self._open if job.canceled and not job.ended]:
                    self._drop(gone)
                    for job in gone:
                        self._end(job)
                if begin := self._writer.fitting(self._waiting):
                    ids = {id(wish) for wish in begin}
                    self._waiting = [wish for wish in self._waiting if id(wish) not in ids]
                    for wish in begin:
                        self._of[id(wish)][0].begun = True
                    self._written(self._writer.begin(begin))
                if self._writer.wishes:
                    self._written(self._writer.step())
                if (
                    self._arrived
                    or self._unread
                    or any(all(each.reason for each in job.choices) for job in self._open if not job.ended)
                ):
                    return

    def _written(self, news: Sequence[tuple[Wish, Token]]) -> None:
        """Hand tokens to their texts; those that are stopped leave."""
        stopped: list[Wish] = []
        for wish, token in news:
            job, choice = self._of[id(wish)]
            if choice.reason:
                continue
            choice.tokens.append(token)
            if self._grown(job, choice, token):
                del self._of[id(wish)]
                if not token.last:
                    stopped.append(wish)
        if stopped:
            self._writer.leave(stopped)

    def _grown(self, job: Job, choice: Choice, token: Token) -> bool:
        """Tell what is new of a text with one token more. Whether it has ended."""
        ended = token.id in self._ends
        if token.last:
            choice.reason = "stop" if ended else "length"
        if choice.pieces is None:
            return bool(choice.reason)
        choice.text += choice.pieces.rest() if ended else choice.pieces.add(token.id, token.last)
        end, safe = stopped_at(choice.text, job.request.stop)
        if end is not None:
            choice.text, choice.reason = choice.text[:end], "stop"
        until = len(choice.text) if choice.reason else safe  # what of the text is certain by now
        if job.request.stream and (choice.told < until or choice.reason):
            new, tokens = choice.text[choice.told : until], choice.tokens[choice.told_tokens :]
            choice.told, choice.told_tokens = until, len(choice.tokens)
            job.streamed.append((job.choices.index(choice), new, tokens, choice.reason))
            job.tell(False)
        return bool(choice.reason)

    def _finished(self, job: Job) -> None:
        """The texts of a job whose last token is written."""
        model, symmetry = self.deployed.model, self.deployed.symmetry
        written = [choice for choice in job.choices if choice.wish is not None and choice.pieces is None]
        plain = [
            continuation(model, c.wish.ids, np.array([t.id for t in c.tokens], np.int64), self._ends)
            for c in written
            if c.wish is not None
        ]
        if symmetry is not None:
            begun = [choice.begun or (Text(""), 0) for choice in written]
            plain = swapped_back(
                model, symmetry.swap, [(text, t, one) for (text, t), one in zip(begun, plain, strict=True)]
            )
        for choice, one in zip(written, plain, strict=True):
            end, _ = stopped_at(one.text, job.request.stop)
            choice.text = one.text[:end]
            if end is not None:
                choice.reason = "stop"
        if symmetry is not None and job.request.logprobs is not None:
            for choice in job.choices if job.request.tokens else ():
                last = choice.tokens[-1].id
                ended = last if last in self._ends and choice.reason == "stop" else None
                before = choice.prompt.text or Text("")
                top, most = job.request.logprobs, job.request.tokens or 0
                read = text_scores(model, before, choice.text, ended, self.deployed.variant, top)
                # read anew, a text may have more tokens than were written, or none: clients that request one
                # token, as lm-eval does, leave out one
                rest = read[most:]
                read = read[:most] or [Token(last)]
                if rest and read[-1].log_prob is not None:
                    more = sum(each.log_prob or 0.0 for each in rest)
                    read[-1] = replace(read[-1], log_prob=read[-1].log_prob + more, top=())
                choice.tokens = read
        for choice in written if job.request.stream else ():
            job.streamed.append((job.choices.index(choice), choice.text, choice.tokens, choice.reason))
        self._end(job)


def stopped_at(text: str, stops: Sequence[str]) -> tuple[int | None, int]:
    """Where the first of some texts begins in a text, and up to where none of them can have begun."""
    found = [place for stop in stops if (place := text.find(stop)) >= 0]
    if found:
        return min(found), min(found)
    longest = 0  # the end of the text that may be the beginning of one
    for stop in stops:
        sizes = range(min(len(stop) - 1, len(text)), longest, -1)
        longest = next((size for size in sizes if text.endswith(stop[:size])), longest)
    return None, len(text) - longest
