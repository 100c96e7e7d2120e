"""What a benchmark says: a ratio, and the bound that the project promises for it."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
import transformers

from levelhead.models.model import Model, load
from levelhead.models.sources import Source


@dataclass(frozen=True)
class Claim:
    """measured against bound; at_least: larger is better."""

    name: str
    measured: float
    bound: float | None  # None: reported, not promised
    at_least: bool
    note: str = ""

    @property
    def holds(self) -> bool:
        """Whether the promise is kept in this run."""
        if self.bound is None:
            return True
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound


def seconds(work: Callable[[], object]) -> float:
    """Wall-clock time of one call."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def in_turn(*works: Callable[[], object], rounds: int = 3) -> list[float]:
    """Best time of each, measured in turn so that a slow minute of the machine hits all of them."""
    times = [[seconds(work) for work in works] for _ in range(rounds)]
    return [min(column) for column in zip(*times, strict=True)]


def peak_memory() -> float:
    """Peak of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def bert_base(kind: str = "BertForMaskedLM", layers: int = 12) -> Model:
    """BERT-base's shape with random weights and the shipped tokenizer."""
    tokenizer = load("lh:bert-mini", device="cpu").tokenizer
    torch.manual_seed(0)
    labels = {0: "entailment", 1: "neutral", 2: "contradiction"}
    config = transformers.BertConfig(vocab_size=30522, num_hidden_layers=layers, id2label=labels)
    hf = getattr(transformers, kind)(config).eval().requires_grad_(False)
    hf = hf.to("cuda" if torch.cuda.is_available() else "cpu")
    return Model(
        Source(name="bert-base-shape", hf=hf, tokenizer=tokenizer, origin="random weights", missing=())
    )
