"""What a server can do, proved by what it answers: its documentation and its status 200 prove nothing.

    endpoint       a short text comes back
    temperature    two texts at almost 0 are the same, and of three at 1 one is another
    seed           the same seed gives the same text twice, also beside other requests, and another seed
                   another text
    n              as many texts as were requested
    stop           a text ends before the letter that ends it
    likelihoods    as many log p as the prompt has tokens; what is appended to a prompt has the log p with
                   which it was written; plain English is likelier than the same words shuffled

A server that accepts an option and goes on without it ignores it; one that answers with an error refuses it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from levelhead.engine.served.answers import Answer, Request
from levelhead.engine.served.asking import CHAT, COMPLETIONS, MESSAGES, Asking
from levelhead.engine.served.transport import Refused, Unavailable
from levelhead.errors import BadRun, CannotDo
from levelhead.models.opening import PLAIN, SHUFFLED
from levelhead.models.served import ServedModel
from levelhead.safe_files import read_bytes, write_text_inside

CAPABILITIES = "capabilities.json"
ENDPOINT, TEMPERATURE, SEED, N, STOP, LIKELIHOODS = (
    *("endpoint", "temperature", "seed", "n", "stop", "likelihoods"),
)
_PROMPT, _LETTER = "The old man walked along the river and", "e"
_ASKED = "Write six random words, separated by commas."  # in a chat, whose answers are else often the same
COLD = 0.001  # some servers refuse 0
_TOKENS = 12
LIMITS = ("max_tokens", "max_completion_tokens")  # the second where reasoning counts too (OpenAI)
_ALIKE = 0.05  # nats between the log p of a text as it is written and as it is read
Result = Literal["yes", "ignored", "refused", "no"]


@dataclass(frozen=True)
class Capability:
    """One row of the table."""

    endpoint: str  # completions, chat, or messages
    option: str
    result: Result
    evidence: str


@dataclass(frozen=True)
class Capabilities:
    """What a server has proved."""

    server: str  # the model's name
    speaks: str  # what the server calls the model; empty where it does not say
    rows: tuple[Capability, ...]

    def of(self, path: str, option: str) -> Result:
        """Whether an option does what it says, at an endpoint."""
        name = _NAMES[path]
        found = (row.result for row in self.rows if (row.endpoint, row.option) == (name, option))
        return next(found, "no")

    def has(self, path: str, option: str = ENDPOINT) -> bool:
        return self.of(path, option) == "yes"

    def limit(self, path: str) -> str:
        """What the server calls the most tokens of a text."""
        return next((name for name in LIMITS if self.has(path, name)), LIMITS[0])

    def why(self, path: str, option: str) -> str:
        """The evidence of a row."""
        name = _NAMES[path]
        found = (row.evidence for row in self.rows if (row.endpoint, row.option) == (name, option))
        return next(found, "it was not tried")

    def lines(self) -> Iterator[str]:
        """The table as people read it."""
        yield f"{self.server} {f'answers as {self.speaks!r}' if self.speaks else 'does not say who answers'}:"
        for row in self.rows:
            yield f"  {row.endpoint:12}{row.option:13}{row.result:9}{row.evidence}"


_NAMES = {COMPLETIONS: "completions", CHAT: "chat", MESSAGES: "messages"}


def proved(asking: Asking, folder: Path, earlier: Path | None = None) -> Capabilities:
    """The capabilities of a server: proved once for a run, then read from its folder.

    earlier: the run that is replayed.
    """
    found = read_capabilities(folder)
    if found is None and earlier is not None:
        found = read_capabilities(earlier)
    if found is None:
        model, rows, speaks = asking.model, list[Capability](), ""
        paths = (MESSAGES,) if model.kind == "anthropic" else (COMPLETIONS, CHAT)
        faults = []
        for path in paths:
            trial = _Trial(asking, path)
            answer, row = trial.endpoint()
            rows.append(row)
            if answer is None:
                faults.append(row.evidence)
                continue
            speaks = speaks or answer.model
            rows += trial.options()
        if len(faults) == len(paths):
            raise CannotDo(f"{model.name} writes no text: {faults[0]}.")
        found = Capabilities(model.name, speaks, tuple(rows))
    write_text_inside(folder, CAPABILITIES, json.dumps(asdict(found), indent=1) + "\n")
    return found


def read_capabilities(folder: Path) -> Capabilities | None:
    """The table of a run; None where there is none yet."""
    data = read_bytes(folder, CAPABILITIES)
    if data is None:
        return None
    try:
        stored = json.loads(data)
        rows = tuple(Capability(**row) for row in stored["rows"])
        return Capabilities(str(stored["server"]), str(stored["speaks"]), rows)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BadRun(
            f"{folder / CAPABILITIES} is damaged. Remove it: the server is then tried again."
        ) from None


class _Trial:
    """Tries of one endpoint."""

    def __init__(self, asking: Asking, path: str) -> None:
        self._asking, self._path, self._name = asking, path, _NAMES[path]
        self._limit = LIMITS[0]

    def ask(self, number: int = 0, **options: Any) -> Answer:
        return self._asking.one(self._request(number, **options))

    def _request(self, number: int, **options: Any) -> Request:
        told, text = {self._limit: _TOKENS, **options}, _PROMPT if self._path == COMPLETIONS else _ASKED
        return request(self._asking.model, self._path, text, number, **told)

    def endpoint(self) -> tuple[Answer | None, Capability]:
        try:
            try:
                answer = self.ask()
            except Refused as error:
                if LIMITS[1] not in error.said:
                    raise
                self._limit = LIMITS[1]
                answer = self.ask()
        except Refused as error:
            if error.status in (401, 403):
                raise
            return None, self._row(
                ENDPOINT, "no", f"status {error.status}: {error.said or 'no reason'}"[:160]
            )
        except Unavailable as error:  # as `transformers serve` does where there is no chat template
            if error.status != 500:
                raise
            return None, self._row(ENDPOINT, "no", "status 500, every time")
        if not answer.said[0].text.strip():
            return None, self._row(ENDPOINT, "no", "the text is empty")
        return answer, self._row(ENDPOINT, "yes", "a text came back")

    def options(self) -> Iterator[Capability]:
        """Every option that a study may need, one row each."""
        yield self._row(self._limit, "yes", "its name for the most tokens of a text")
        yield self._try(TEMPERATURE, self._temperature)
        if self._path != MESSAGES:  # Anthropic's interface has neither
            yield self._try(SEED, self._seed)
            yield self._try(N, self._n)
        yield self._try(STOP, self._stop)
        if self._path == COMPLETIONS:
            yield self._try(LIKELIHOODS, self._likelihoods)

    def _row(self, option: str, result: Result, evidence: str) -> Capability:
        return Capability(self._name, option, result, evidence)

    def _try(self, option: str, trial: Callable[[], tuple[Result, str]]) -> Capability:
        try:
            return self._row(option, *trial())
        except Refused as error:
            if error.status in (401, 403):
                raise
            if error.status == 200:  # an answer, but not to the request
                return self._row(option, "ignored", error.said)
            return self._row(option, "refused", f"status {error.status}: {error.said or 'no reason'}"[:160])
        except Unavailable as error:
            if error.status != 500:
                raise
            return self._row(option, "refused", "status 500, every time")

    def _temperature(self) -> tuple[Result, str]:
        cold = [self.ask(k, temperature=COLD).said[0].text for k in (0, 1)]
        warm = [self.ask(k, temperature=1.0).said[0].text for k in (0, 1, 2)]
        if cold[0] != cold[1]:
            return "ignored", f"two texts at temperature {COLD} differ"
        if {*warm} == {cold[0]}:
            return "ignored", f"three texts at temperature 1 are that at {COLD}"
        return "yes", f"two texts at {COLD} are the same, three at 1 are not"

    def _seed(self) -> tuple[Result, str]:
        first, again, other = (
            self.ask(k, seed=seed, temperature=1.0).said[0].text for k, seed in enumerate((1, 1, 2))
        )
        if first != again:
            return "ignored", "the same seed gives two texts"
        if first == other:
            return "ignored", "two seeds give the same text"
        # `transformers serve` seeds one generator for whatever is being written at that moment. Half is
        # enough: beside others a text may differ by rounding.
        texts = (other, first, other, first)
        seeds = [self._request(k, seed=1 + k % 2, temperature=1.0) for k in (3, 2, 5, 4)]
        together = [each.said[0].text for each in self._asking.all(seeds, "Seeds")]
        if sum(a == b for a, b in zip(together, texts, strict=True)) < 2:
            return "ignored", "beside other requests a seed gives another text; --connections 1 avoids that"
        return "yes", "the same seed gives the same text, another seed another one"

    def _n(self) -> tuple[Result, str]:
        texts = {each.text for each in self.ask(n=3, temperature=1.0).said}
        return (
            ("yes", "n = 3 gives three texts")
            if len(texts) > 1
            else ("ignored", "n = 3 gives one text thrice")
        )

    def _stop(self) -> tuple[Result, str]:
        ends: dict[str, Any] = {"stop_sequences" if self._path == MESSAGES else "stop": [_LETTER]}
        text = self.ask(**ends).said[0].text
        if _LETTER in text:
            return "ignored", f"a text goes on behind {_LETTER!r}"
        return "yes", f"a text ends before {_LETTER!r}"

    def _likelihoods(self) -> tuple[Result, str]:
        """Three proofs, since servers accept `echo` and answer without (llama.cpp, Ollama)."""
        asking = self._asking
        written = self.ask(temperature=1.0, logprobs=1)
        own = written.said[0]
        if own.tokens is None or own.logs is None or len(own.tokens) != len(own.logs):
            return "no", "the texts that it writes have no log p for each token"
        read = asking.one(likelihood_request(asking.model, _PROMPT + own.text))
        if why := unreadable(read, _PROMPT + own.text):
            return "no", why
        told = Likelihoods.of(read, _PROMPT + own.text)
        behind = [log for start, _, log in told.tokens if start >= len(_PROMPT)]
        said = [each for token, each in zip(own.tokens, own.logs, strict=True) if token]
        if len(behind) == len(said) and any(
            a is None or b is None or abs(a - b) > _ALIKE for a, b in zip(behind, said, strict=True)
        ):
            return "no", "a text has other log p when it is read than when it is written"
        sums = []
        for texts in (PLAIN, SHUFFLED):
            each = [asking.one(likelihood_request(asking.model, text)) for text in texts]
            for answer, text in zip(each, texts, strict=True):
                if why := unreadable(answer, text):
                    return "no", why
            sums.append(sum(Likelihoods.of(a, t).total() for a, t in zip(each, texts, strict=True)))
        if sums[0] <= sums[1]:
            return "no", f"plain English ({sums[0]:.1f} nats) is not likelier than shuffled ({sums[1]:.1f})"
        return "yes", f"plain English has {sums[0]:.1f} nats, the same words shuffled {sums[1]:.1f}"


# ---- requests


def request(model: ServedModel, path: str, text: str, number: int = 0, **options: Any) -> Request:
    """A request for a text behind a prompt, or for the answer to it in a chat."""
    told: Mapping[str, Any] = (
        {"prompt": text} if path == COMPLETIONS else {"messages": [{"role": "user", "content": text}]}
    )
    return Request(path, {"model": model.known_as, **told, **options}, number)


def likelihood_request(model: ServedModel, text: str) -> Request:
    """A request for the log p of every token of a text. One token is written behind it, as lm-eval does: not
    every server takes 0."""
    return request(model, COMPLETIONS, text, max_tokens=1, echo=True, logprobs=1, temperature=1.0)


@dataclass(frozen=True)
class Likelihoods:
    """The tokens of a text, each with its place in the text and its log p; None: it has none."""

    tokens: tuple[tuple[int, int, float | None], ...]  # start, end, log p

    @classmethod
    def of(cls, answer: Answer, text: str) -> Likelihoods:
        """Of an answer that is readable. Places follow from the tokens themselves: what servers call
        text_offset counts a token before the text in some, and not in others."""
        tokens, logs = _prompt_part(answer)
        end = len(text) - len("".join(tokens))
        placed = []
        for token, log in zip(tokens, logs, strict=True):
            start, end = end, end + len(token)
            placed.append((start, end, log))
        return cls(tuple(placed))

    def total(self, start: int = 0, end: int | None = None) -> float:
        """Σ log p of the tokens that touch some characters, in nats."""
        return sum(log for log in self._inside(start, end) if log is not None)

    def count(self, start: int = 0, end: int | None = None) -> int:
        """How many tokens that is."""
        return sum(log is not None for log in self._inside(start, end))

    def _inside(self, start: int, end: int | None) -> Iterator[float | None]:
        return (
            log for a, b, log in self.tokens if b > start and b > 0 and (end is None or a < end) and a < b
        )


def _prompt_part(answer: Answer) -> tuple[tuple[str, ...], tuple[float | None, ...]]:
    """The tokens of the prompt: all but what was written behind it."""
    (said,) = answer.said
    tokens, logs = said.tokens or (), said.logs or ()
    written = 1 if answer.written is None else answer.written
    return tokens[: len(tokens) - written], logs[: len(logs) - written]


def unreadable(answer: Answer, text: str) -> str:
    """Why an answer does not tell how likely a text is; empty where it does."""
    (said,) = answer.said
    if said.tokens is None or said.logs is None:
        return "it gives no log p of a prompt, though it takes echo"
    if len(said.tokens) != len(said.logs):
        return f"it gives {len(said.logs)} log p for {len(said.tokens)} tokens"
    tokens, logs = _prompt_part(answer)
    if answer.read is not None and answer.read != len(tokens):
        return f"it gives {len(tokens)} log p for a prompt of {answer.read} tokens"
    if not "".join(tokens).endswith(text):
        return "its tokens do not add up to the text"
    behind = [log for token, log in zip(tokens, logs, strict=True) if token][1:]
    if not behind or any(log is None or log > 1e-3 for log in behind):
        return "a token behind the first one has no log p"
    return ""
