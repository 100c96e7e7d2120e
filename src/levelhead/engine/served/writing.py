"""What the engine does for a model behind a server: texts, likelihoods of texts, and answers in words.

    text k of a prompt     one request with the seed that the local model would use; where the server ignores
                           seeds, one request for all texts of a prompt, or as many requests as texts
    log p of a span        Σ over the tokens that touch it, from a prompt that the server reads

Inside `connected(model, folder)` a model's answers are kept in that folder, and the server has proved what it
can do; whatever a study needs beyond that is refused in one line before anything is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from levelhead.engine.sampling import Continuation, Sampling, text_seed
from levelhead.engine.served.answers import Answer, Request, answers_in, read_answers
from levelhead.engine.served.asking import CHAT, COMPLETIONS, MESSAGES, Asking
from levelhead.engine.served.proof import (
    ENDPOINT,
    LIKELIHOODS,
    SEED,
    TEMPERATURE,
    Capabilities,
    Likelihoods,
    N,
    likelihood_request,
    proved,
    request,
    unreadable,
)
from levelhead.errors import BadRun, CannotDo
from levelhead.models.served import ServedModel
from levelhead.progress import Plan, announce_line, tokens_in
from levelhead.safe_files import writing

_PROOFS = 48  # requests, at most
NOT_READ = "the server's tokens do not add up to the text, or none is scored"
WHAT_WORKS = {
    COMPLETIONS: "vLLM, llama-server and `levelhead serve` complete texts, or add --chat",
    CHAT: "leave --chat out, or give an instruction-tuned model to the server",
    MESSAGES: "give the name of a model that your key may use",
    TEMPERATURE: "vLLM, llama-server and `levelhead serve` sample, and so does `transformers serve` with "
    '"do_sample": true in the generation_config.json of its model',
    LIKELIHOODS: "vLLM and `levelhead serve` give likelihoods",
}


class Wanted(NamedTuple):
    """Texts that a server is sent, at most."""

    texts: Sequence[str]
    samples: int = 1  # behind each
    tokens: int = 1  # of each sample


@dataclass(frozen=True)
class Connected:
    """A server that has proved what it can do, and where its answers are kept."""

    asking: Asking
    can: Capabilities


_CONNECTED: ContextVar[Mapping[ServedModel, Connected]] = ContextVar("_CONNECTED")


@contextmanager
def connected(model: ServedModel, folder: Path, inside: str = "") -> Iterator[Connected]:
    """Inside, the engine answers for this model; its answers are kept in the folder of a run, or in a folder
    inside it."""
    earlier, where = None, Path(model.replay).expanduser() / inside if model.replay else None
    folder = folder / inside
    if inside:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        if where is not None:
            earlier, _ = read_answers(where) if where.is_dir() else ({}, 0)
            if not earlier:
                raise BadRun(f"{where} holds no answers of a server. Give --replay a run that used one.")
        asking = Asking(model, stack.enter_context(answers_in(folder)), earlier)
        can = proved(asking, folder, where)
        if can.server != model.name:
            raise BadRun(
                f"{where or folder} holds answers of {can.server}, not of {model.name}. Give that name."
            )
        asking.speaks = can.speaks
        for line in can.lines():
            announce_line(line)
        here = Connected(asking, can)
        token = _CONNECTED.set({**_CONNECTED.get({}), model: here})
        try:
            yield here
        finally:
            _CONNECTED.reset(token)
        read, written = asking.usage
        announce_line(
            f"{model.name}: {asking.sent:,} requests sent, {len(asking.answers):,} answers kept; "
            f"{read:,} tokens read and {written:,} written by its own count."
        )


def connection(model: ServedModel) -> Connected:
    """The server of a model, inside `connected`."""
    here = _CONNECTED.get({}).get(model)
    if here is None:
        raise CannotDo(f"{model.name} is behind a server, which only studies with a run folder use.")
    return here


def refuse(here: Connected, path: str, option: str, what: str) -> None:
    """Refuse an option that the server ignores or refuses: the server, the option, and what would work."""
    result = here.can.of(path, option)
    if result == "yes":
        return
    said = {"ignored": "ignores", "refused": "refuses", "no": "does not give"}[result]
    name = f"answers at {path}" if option == ENDPOINT else option
    works = WHAT_WORKS[path if option == ENDPOINT else option]
    raise CannotDo(
        f"{here.asking.model.name} {said} {name} ({here.can.why(path, option)}), so {what}; {works}."
    )


def gives_likelihoods(model: ServedModel) -> bool:
    """Whether the server has proved that it tells how likely a text is."""
    return connection(model).can.has(COMPLETIONS, LIKELIHOODS)


def requests_plan(model: ServedModel, wanted: Iterable[tuple[Sequence[str], int, int]], folder: Path) -> Plan:
    """What a server is sent, at most: the proofs of its capabilities, and what is wanted.

    wanted: texts, how many samples behind each, of how many tokens. What a run holds already is not sent
    again, and a replayed run sends nothing.
    """
    if model.replay:
        return Plan()
    most = Plan(requests=_PROOFS)
    for texts, samples, tokens in wanted:
        n = samples * len(texts)
        most += Plan(requests=n, read=samples * tokens_in(texts), written=tokens * n)
    kept = len(read_answers(folder)[0]) if folder.is_dir() else 0
    return most.times(max(0, most.requests - kept) / most.requests)


# ---- texts


def endpoint(here: Connected, chat: bool) -> str:
    """Where texts are requested; refused where the server writes none there."""
    if here.asking.model.kind == "anthropic":
        if not chat:
            raise CannotDo(f"{here.asking.model.name} continues no texts, it answers chats. Add --chat.")
        return MESSAGES
    path = CHAT if chat else COMPLETIONS
    refuse(here, path, ENDPOINT, "it writes nothing")
    return path


def sampled(
    model: ServedModel,
    prompts: Sequence[str],
    streams: Sequence[str],
    sampling: Sampling,
    chat: bool,
    label: str,
) -> list[list[Continuation]]:
    """What the model writes behind each prompt: [prompt][sample]"""
    here = connection(model)
    path, can = endpoint(here, chat), here.can
    options: dict[str, Any] = {can.limit(path): sampling.tokens}
    if can.of(path, TEMPERATURE) != "refused" or sampling.temperature != 1.0:
        refuse(here, path, TEMPERATURE, "its texts are no samples at the temperature of the run")
        options["temperature"] = sampling.temperature
    seeded = can.has(path, SEED)
    several = not seeded and can.has(path, N) and sampling.samples > 1

    def requests(prompt: str, stream: str) -> list[Request]:
        own = [text_seed(stream, k, sampling.seed) for k in range(sampling.samples)]
        if seeded:
            return [request(model, path, prompt, **options, seed=seed) for seed in own]
        if several:
            return [request(model, path, prompt, own[0], **options, n=sampling.samples)]
        return [request(model, path, prompt, number, **options) for number in own]

    wanted = [requests(*each) for each in zip(prompts, streams, strict=True)]
    answers = iter(here.asking.all([one for each in wanted for one in each], label))
    found: list[list[Continuation]] = []
    for each in wanted:
        found.append([])
        for answer in (next(answers) for _ in each):
            for said in answer.said:
                tokens = len(said.text.split())  # where the server does not count
                if said.tokens is not None:
                    tokens = len(said.tokens)
                elif answer.written is not None:
                    tokens = round(answer.written / len(answer.said))
                found[-1].append(Continuation(said.text, tokens, said.ended))
    return found


# ---- likelihoods


def span_likelihoods(
    model: ServedModel, spans: Sequence[tuple[str, int, int]], label: str
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Σ log p of the tokens that touch each span of a text, and how many those are.

    NaN where the server's tokens do not add up to the text.
    """
    here = connection(model)
    refuse(here, COMPLETIONS, LIKELIHOODS, "no text's likelihood is known")
    answers = here.asking.all([likelihood_request(model, text) for text, _, _ in spans], label, _likely)
    sums, counts = np.full(len(spans), np.nan), np.zeros(len(spans))
    for i, ((text, start, end), answer) in enumerate(zip(spans, answers, strict=True)):
        if not unreadable(answer, text):
            told = Likelihoods.of(answer, text)
            sums[i], counts[i] = told.total(start, end), told.count(start, end)
    return sums, counts


def token_likelihoods(
    model: ServedModel, texts: Sequence[str], label: str
) -> list[NDArray[np.float64] | None]:
    """log p of every token of each text but the first; None where the tokens do not add up to the text."""
    here = connection(model)
    refuse(here, COMPLETIONS, LIKELIHOODS, "no text's likelihood is known")
    answers = here.asking.all([likelihood_request(model, text) for text in texts], label, _likely)
    return [
        None
        if unreadable(answer, text)
        else np.array(
            [log for _, end, log in Likelihoods.of(answer, text).tokens if end > 0 and log is not None]
        )
        for text, answer in zip(texts, answers, strict=True)
    ]


def served_odds(
    model: ServedModel, prompts: Sequence[str], answers: Sequence[tuple[str, str]]
) -> NDArray[np.float64]:
    """log p(favorable answer) − log p(unfavorable answer) behind each prompt, in nats: [prompt]"""
    spans = [
        (f"{prompt}{answer}", len(prompt.rstrip(" ")), len(prompt) + len(answer))
        for prompt, pair in zip(prompts, answers, strict=True)
        for answer in pair
    ]
    sums, _ = span_likelihoods(model, spans, "Decisions")
    if lost := int(np.isnan(sums).sum()):
        raise CannotDo(
            f"{model.name}: the tokens of {lost} answers do not add up to their texts. Leave decisions out "
            "with --sets."
        )
    return sums[0::2] - sums[1::2]


def _likely(answer: Answer) -> str:
    """Why an answer is kept out: another number of log p than of tokens, which a server that can do it never
    gives. Tokens that do not add up to a text are a text's own fault, and are kept."""
    said = answer.said[0]
    if said.tokens is None or said.logs is None:
        return "has left out the log p of a prompt, which it gave before"
    if len(said.tokens) != len(said.logs):
        return f"gives {len(said.logs)} log p for {len(said.tokens)} tokens"
    return ""
