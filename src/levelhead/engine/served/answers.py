"""Answers of a server, kept as they arrive: one line of JSON each, with the hash of its request.

    {"request": sha256 of path, body and number, "path", "body", "number", "answer", "sha256": of the line}

Lines are appended, each in one write that is on the disk before the answer is used. A process that is killed
leaves at most a part of one last line, which the next one drops. A line that was changed is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from levelhead.errors import BadRun
from levelhead.safe_files import opened, read_bytes, writing

ANSWERS = "answers.jsonl"
_SEAL = "sha256"


@dataclass(frozen=True)
class Request:
    """What is sent. number: which of several equal requests it is, where texts are drawn without seeds."""

    path: str
    body: Mapping[str, Any]
    number: int = 0

    @property
    def key(self) -> str:
        return _sha256([self.path, self.body, self.number])


@dataclass(frozen=True)
class Said:
    """One text of an answer, with its tokens where the server tells them."""

    text: str
    ended: bool  # by the model, not by a limit
    tokens: tuple[str, ...] | None = None
    logs: tuple[float | None, ...] | None = None  # log p of each token; None: it has none


@dataclass(frozen=True)
class Answer:
    """What a server answered, without what nobody needs."""

    model: str  # as the server calls it; empty where it does not say
    said: tuple[Said, ...]
    read: int | None = None  # tokens, as the server counts them
    written: int | None = None


@dataclass(frozen=True, eq=False)
class Answers:
    """The stored answers of a run. Written by one process, from several threads."""

    _known: dict[str, Answer]
    _file: int
    _path: Path
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, request: Request) -> Answer | None:
        return self._known.get(request.key)

    def put(self, request: Request, answer: Answer) -> None:
        entry: dict[str, Any] = {"request": request.key, "path": request.path, "body": dict(request.body)}
        entry |= {"number": request.number, "answer": asdict(answer)}
        line = json.dumps({**entry, _SEAL: _sha256(entry)}).encode() + b"\n"
        with self._lock, writing(self._path):
            start = os.lseek(self._file, 0, os.SEEK_END)
            try:
                rest = memoryview(line)
                while rest:
                    rest = rest[os.write(self._file, rest) :]
                os.fsync(self._file)
            except OSError:  # a full disk: no half line may stand before the next one
                os.ftruncate(self._file, start)
                raise
            self._known[request.key] = answer

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Answer]:
        return iter(list(self._known.values()))


@contextmanager
def answers_in(folder: Path) -> Iterator[Answers]:
    """The answers of a run, which is locked already: no other process writes there."""
    known, size = read_answers(folder)
    with writing(folder / ANSWERS):
        file = opened(folder, ANSWERS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        if os.fstat(file).st_size > size:
            os.ftruncate(file, size)
        yield Answers(known, file, folder / ANSWERS)
    finally:
        os.close(file)


def read_answers(folder: Path) -> tuple[dict[str, Answer], int]:
    """Every whole line by the hash of its request, and the bytes of all of them."""
    data = read_bytes(folder, ANSWERS) or b""
    size = data.rfind(b"\n") + 1
    found: dict[str, Answer] = {}
    for number, line in enumerate(data[:size].split(b"\n")[:-1], start=1):
        try:
            entry = json.loads(line)
            if entry.pop(_SEAL) != _sha256(entry):
                raise ValueError
            answer = entry["answer"]
            said = []
            for each in answer["said"]:
                lists = (each["tokens"], each["logs"])
                tokens, logs = (None if one is None else tuple(one) for one in lists)
                said.append(Said(each["text"], each["ended"], tokens, logs))
            found[entry["request"]] = Answer(answer["model"], tuple(said), answer["read"], answer["written"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise BadRun(
                f"{folder / ANSWERS} is damaged at line {number}: a value was changed. Start again in a new "
                "folder."
            ) from None
    return found, size


def _sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
