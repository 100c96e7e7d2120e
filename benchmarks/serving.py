"""`levelhead serve`: what a served token costs beside one of the local sampler, what several clients gain by
being answered together, what symmetrizing costs, and whether hostile requests leave it answering.

    python -m benchmarks.run serving

On a CPU by lh:gpt-mini, whose tokens cost least: what is not the model's weighs most. On a card by a random
model of a billion weights, with the shape of Llama-3.2-1B but for its vocabulary; about three minutes.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from time import perf_counter
from typing import Any

import torch
from tests.serving.hostile import hostile, send
from transformers import LlamaConfig, LlamaForCausalLM

from benchmarks.claims import Claim
from levelhead.edits.output import Symmetrized
from levelhead.edits.sites import Variant
from levelhead.engine.sampling import Sampling, continuations
from levelhead.models.model import Model, load
from levelhead.models.sources import Source
from levelhead.probes.group_swap import GenderSwap
from levelhead.serving.scheduler import Deployed
from levelhead.serving.served import ServedModel

MODEL = "lh:gpt-mini"
PROMPT = "The nurse said that she was tired, because"
TOKENS, CLIENTS, ROUNDS, EACH = 128, 8, 5, 2
HOSTILE = 1_000


class Client:
    """One connection that is kept, as clients keep theirs."""

    def __init__(self, served: ServedModel) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=600)
        self._name, self._seeds = served.deployed.name, count(1)

    def write(self) -> int:
        """A text; how many tokens it has."""
        body = {"model": self._name, "prompt": PROMPT, "max_tokens": TOKENS, "seed": next(self._seeds)}
        headers = {"Content-Type": "application/json"}
        self._connection.request("POST", "/v1/completions", json.dumps(body), headers)
        answer = json.loads(self._connection.getresponse().read())
        return int(answer["usage"]["completion_tokens"])


def per_token(work: Callable[[], int]) -> Callable[[], float]:
    """Seconds per token of some work: texts end where they end."""

    def timed() -> float:
        start = perf_counter()
        tokens = work()
        return (perf_counter() - start) / tokens

    return timed


def together(clients: list[Client], pool: ThreadPoolExecutor) -> int:
    """A few texts by each client at once: tokens in all."""
    return sum(pool.map(lambda client: sum(client.write() for _ in range(EACH)), clients))


def best(*works: Callable[[], float]) -> list[float]:
    """The least of each, measured in turn."""
    rounds = [[work() for work in works] for _ in range(ROUNDS)]
    return [min(column) for column in zip(*rounds, strict=True)]


def _model() -> tuple[Model, str]:
    """What is served, and where it is."""
    small = load(MODEL)
    if not torch.cuda.is_available():
        return small, f"{MODEL} on the host"
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(small.tokenizer),
        hidden_size=2048,
        intermediate_size=8192,
        num_hidden_layers=16,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=4096,
    )
    kind: Any = LlamaForCausalLM  # whose types transformers does not tell
    with torch.device("cuda"):
        hf = kind(config).to(torch.bfloat16).eval().requires_grad_(False)
    weights = sum(each.numel() for each in hf.parameters()) / 1e9
    source = Source(name="1b", hf=hf, tokenizer=small.tokenizer, origin="benchmark", missing=())
    return Model(source), f"a random {weights:.1f}B model in bfloat16 on {torch.cuda.get_device_name()}"


def bench() -> list[Claim]:
    """Ratios, each of times that were measured in turn."""
    (model, where), seeds = _model(), count(1)
    variants: tuple[Variant, ...] = ((), (Symmetrized(GenderSwap()),))
    plain, fair = (ServedModel(Deployed(model, each, MODEL)).start() for each in variants)

    def local() -> int:
        sampling = Sampling(1, TOKENS, seed=next(seeds))
        return sum(each.tokens for each in continuations(model, [PROMPT], [PROMPT], sampling)[0])

    alone, mirrored = Client(plain), Client(fair)
    several = [Client(plain) for _ in range(CLIENTS)]
    for work in (local, alone.write, mirrored.write):
        work()
    with ThreadPoolExecutor(CLIENTS) as pool:
        own, one, both, many = best(
            per_token(local),
            per_token(alone.write),
            per_token(mirrored.write),
            per_token(partial(together, several, pool)),
        )
        answers = list(pool.map(partial(send, plain.port), hostile(HOSTILE, MODEL, plain.port)))
    answering = Client(plain).write() > 0
    failed = sum(b" 500 " in answer[:20] for answer in answers)
    for served in (plain, fair):
        served.close()
    note = f"{where}, {TOKENS} tokens, {1000 * own:.2f} ms per token by the local sampler"
    return [
        Claim("serving: time per token, served / local", one / own, 1.1, False, note),
        Claim(
            f"serving: tokens per second, {CLIENTS} clients / one",
            one / many,
            3.0 if torch.cuda.is_available() else None,
            True,
            note,
        ),
        Claim("serving: tokens per second, symmetrized / plain", one / both, 0.45, True, note),
        Claim(
            f"serving: answers after {HOSTILE:,} hostile requests",
            float(answering and not failed),
            1.0,
            True,
            f"{failed} of them were answered with an unexpected error",
        ),
    ]
