"""Questions to a model in a chat, and its likeliest answers: behind a server, or on this machine.

Each answer is kept in a folder as it arrives, under the hash of its question, whoever gives it: a run that
was killed asks for the rest, and one that is replayed for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from levelhead.engine.sampling import Sampling, continuations
from levelhead.engine.served.answers import Answer, Request, Said, answers_in, read_answers
from levelhead.engine.served.proof import COLD, TEMPERATURE, request
from levelhead.engine.served.writing import connected, endpoint
from levelhead.models.chat import chat_texts, require_chat
from levelhead.models.model import Model
from levelhead.models.served import ServedModel
from levelhead.safe_files import writing

AskInWords = Callable[[Sequence[str]], list[str]]
TOKENS = 16  # of an answer that is one letter
_AT_ONCE = 64  # questions to a local model between two writes


@contextmanager
def answering(model: Model | ServedModel, folder: Path, label: str, replay: str = "") -> Iterator[AskInWords]:
    """What asks a model questions. replay: a folder of earlier answers; a server's name holds its own."""
    with writing(folder):
        folder.mkdir(exist_ok=True)
    if isinstance(model, ServedModel):
        with connected(model, folder) as here:
            path, can = endpoint(here, chat=True), here.can
            options: dict[str, Any] = {can.limit(path): TOKENS}
            if can.has(path, TEMPERATURE):  # where it is refused, drawn answers are a part of the judge
                options["temperature"] = COLD

            def of_server(questions: Sequence[str]) -> list[str]:
                wanted = [request(model, path, each, **options) for each in questions]
                return [each.said[0].text for each in here.asking.all(wanted, label)]

            yield of_server
        return
    require_chat(model)
    earlier = read_answers(Path(replay))[0] if replay and Path(replay).is_dir() else {}
    known_as = {"model": model.name, **model.facts(), "fingerprint": model.fingerprint}
    with answers_in(folder) as answers:

        def of_model(questions: Sequence[str]) -> list[str]:
            wanted = [
                Request("local", {**known_as, "content": each, "max_tokens": TOKENS}) for each in questions
            ]
            new = []
            for one, query in dict(zip(questions, wanted, strict=True)).items():
                if answers.get(query) is None and (before := earlier.get(query.key)) is not None:
                    answers.put(query, before)
                elif answers.get(query) is None:
                    new.append((one, query))
            for start in range(0, len(new), _AT_ONCE):
                some = new[start : start + _AT_ONCE]
                told = [one for one, _ in some]
                texts = chat_texts(model, [(one, "") for one in told])
                written = continuations(model, texts, told, Sampling(1, TOKENS, COLD), label=label)
                for (_, query), (each,) in zip(some, written, strict=True):
                    answers.put(query, Answer(model.name, (Said(each.text, each.ended),)))
            return [found.said[0].text for each in wanted if (found := answers.get(each)) is not None]

        yield of_model
