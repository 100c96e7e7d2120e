"""Answers in the form of OpenAI's completions and chat completions, whole and in pieces."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from levelhead.engine.writing import Pieces, Token, decoded
from levelhead.models.concurrency import TOKENIZING
from levelhead.models.memoize import once_a_model
from levelhead.models.model import Model
from levelhead.serving.requests import CompletionRequest
from levelhead.serving.scheduler import Choice, Job

_WORD = "\u2581"  # how SentencePiece writes a space


@dataclass(eq=False)
class Answer:
    """What all parts of one answer share."""

    model: Model
    name: str
    fingerprint: str
    request: CompletionRequest
    id: str = field(default_factory=lambda: secrets.token_hex(12))
    created: int = field(default_factory=lambda: int(time.time()))
    _places: dict[int, _Offsets] = field(default_factory=dict)  # by the number of a choice
    _before: dict[int, list[int]] = field(default_factory=dict)  # of the tokens of its prompt

    def head(self, streamed: bool = False) -> dict[str, Any]:
        chat = self.request.chat
        kind = ("chat.completion.chunk" if streamed else "chat.completion") if chat else "text_completion"
        return {
            "id": f"{'chatcmpl' if chat else 'cmpl'}-{self.id}",
            "object": kind,
            "created": self.created,
            "model": self.name,
            "system_fingerprint": self.fingerprint,
        }

    def whole(self, job: Job) -> dict[str, Any]:
        """A whole answer."""
        choices = list[dict[str, Any]]()
        for number, choice in enumerate(job.choices):
            written: dict[str, Any]
            logs: dict[str, Any] | None = None
            if self.request.chat:
                written = {"message": {"role": "assistant", "content": choice.text, "refusal": None}}
                if self.request.logprobs is not None:
                    logs = {"content": self._chat_logs(choice.tokens)}
            else:
                written = {"text": self.echoed(choice) + choice.text}
                if self.request.logprobs is not None:
                    logs = self._logs(number, choice, choice.tokens, self.request.echo)
            choices.append({"index": number, **written, "logprobs": logs, "finish_reason": choice.reason})
        return {**self.head(), "choices": choices, "usage": usage(job)}

    def echoed(self, choice: Choice) -> str:
        """The prompt, where it is to be repeated."""
        if not self.request.echo:
            return ""
        return choice.prompt.text.first if choice.prompt.text else decoded(self.model, choice.prompt.ids)

    # ---- in pieces

    def first(self, job: Job) -> list[dict[str, Any]]:
        """What a stream begins with."""
        if self.request.chat:
            role = {"role": "assistant", "content": "", "refusal": None}
            return [self._chunk(number, role, None, None) for number in range(len(job.choices))]
        if not self.request.echo:
            return []
        return [
            self._chunk(
                number,
                self.echoed(choice),
                None if self.request.logprobs is None else self._logs(number, choice, (), True),
                None if self.request.tokens else choice.reason or None,
            )
            for number, choice in enumerate(job.choices)
        ]

    def piece(
        self, job: Job, number: int, text: str, tokens: Sequence[Token], reason: str
    ) -> list[dict[str, Any]]:
        """What is new of a choice."""
        logs: dict[str, Any] | None = None
        choice = job.choices[number]
        if self.request.logprobs is not None:
            if self.request.chat:
                logs = {"content": self._chat_logs(tokens)}
            else:
                logs = self._logs(number, choice, tokens, False)
        if not self.request.chat:
            return [self._chunk(number, text, logs, reason or None)]
        parts = [self._chunk(number, {"content": text}, logs, None)] if text or logs else []
        return [*parts, *([self._chunk(number, {}, None, reason)] if reason else [])]

    def last(self, job: Job) -> list[dict[str, Any]]:
        """What a stream ends with."""
        if not self.request.usage:
            return []
        return [{**self.head(streamed=True), "choices": [], "usage": usage(job)}]

    def _chunk(self, number: int, new: Any, logs: Any, reason: str | None) -> dict[str, Any]:
        name = "delta" if self.request.chat else "text"
        choice = {"index": number, name: new, "logprobs": logs, "finish_reason": reason}
        return {**self.head(streamed=True), "choices": [choice]}

    # ---- log-probabilities

    def _logs(self, number: int, choice: Choice, tokens: Sequence[Token], echo: bool) -> dict[str, Any]:
        """Of completions. A token that has nothing before it, or was put before the prompt, has none."""
        prompt = choice.prompt
        values, tops = choice.scored or ([None] * len(prompt.ids), [()] * len(prompt.ids))
        if number not in self._places:
            offsets = self._places[number] = _Offsets(self.model)
            self._before[number] = [
                offsets.next(int(i), own) for i, own in zip(prompt.ids, prompt.own, strict=True)
            ]
        listed = [
            (Token(int(i), values[at] if prompt.scored[at] else None, tops[at]), self._before[number][at])
            for at, i in enumerate(prompt.ids if echo else ())
        ]
        listed += [(token, self._places[number].next(token.id, True)) for token in tokens]
        return {
            "tokens": [token_text(self.model, token.id) for token, _ in listed],
            "token_logprobs": [token.log_prob for token, _ in listed],
            "top_logprobs": [self._top(token) for token, _ in listed] if self.request.logprobs else None,
            "text_offset": [place for _, place in listed],
        }

    def _top(self, token: Token) -> dict[str, float] | None:
        """The likeliest tokens and the token itself; where two are written alike, the likelier."""
        if token.log_prob is None:
            return None
        found: dict[str, float] = {}
        for number, value in (*token.top, (token.id, token.log_prob)):
            found.setdefault(token_text(self.model, number), value)
        return found

    def _chat_logs(self, tokens: Sequence[Token]) -> list[dict[str, Any]]:
        def entry(number: int, value: float | None) -> dict[str, Any]:
            text = token_text(self.model, number)
            return {"token": text, "logprob": value, "bytes": list(text.encode())}

        return [
            {**entry(token.id, token.log_prob), "top_logprobs": [entry(*each) for each in token.top]}
            for token in tokens
        ]


class _Offsets:
    """Where tokens begin in the text that they are."""

    def __init__(self, model: Model) -> None:
        self._pieces, self._at = Pieces(model, np.zeros(0, np.int32)), 0

    def next(self, token: int, own: bool) -> int:
        """The place of the next token; one that is not the text's own takes no room in it."""
        place = self._at
        if own:
            self._at += len(self._pieces.add(token))
        return place


@once_a_model
def token_text(model: Model, number: int) -> str:
    """A token as text, with the space that it begins with; a part of a character by its number."""
    text = decoded(model, [number])
    if "\ufffd" in text:
        return f"token_id:{number}"
    with TOKENIZING:
        written = str(model.tokenizer.convert_ids_to_tokens(number))
    return f" {text}" if written.startswith(_WORD) and not text.startswith(" ") else text


def usage(job: Job) -> dict[str, int]:
    """What a request took; a prompt is counted once for all its choices."""
    prompts = {id(choice.prompt): len(choice.prompt.ids) for choice in job.choices}
    before, written = sum(prompts.values()), sum(len(choice.tokens) for choice in job.choices)
    return {"prompt_tokens": before, "completion_tokens": written, "total_tokens": before + written}
