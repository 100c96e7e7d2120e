"""What large models need, from their configurations alone: memory, time on a card, disk and network.

    python -m benchmarks.shapes                     # the table of docs/scale.md
    python -m benchmarks.shapes CONFIG.json         # the same for a configuration of your own
    python -m benchmarks.shapes --card 141 --rate 400 --disk 2 --network 10

Nothing is loaded: parameters are counted on torch's meta device. A token takes 2 operations per parameter on
its way forward; scores of all heads take two such passes and one back, 4 in all. Card: GB of memory. Rate:
TFLOP/s that a card reaches (400 is 40 % of an H100 in bfloat16). Disk: GB/s. Network: Gbit/s.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from transformers import AutoConfig, AutoModelForCausalLM

CONTEXTS, TOKENS = 11_264, 159_140  # template contexts of the gender list, and their tokens in lh:bert-mini
SCORES = 4  # forward passes that scores of heads take
SHARE = 0.9  # of a card's memory, for weights; the rest is for a batch
# GiB of a driver that has no weights; of what it reads one by one, copies of the largest while it is checked,
# and logits of a batch in float32 with their logarithms
BASE, COPIES, BATCH = 0.4, 3, 2048
GIB = 1 << 30
_LLAMA = {"model_type": "llama", "torch_dtype": "bfloat16", "tie_word_embeddings": False}
SHAPES: dict[str, dict[str, Any]] = {
    name: {
        **_LLAMA,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": keys,
        "intermediate_size": inner,
        "vocab_size": words,
    }
    for name, width, layers, heads, keys, inner, words in (
        ("7B (Llama 2)", 4096, 32, 32, 32, 11008, 32000),
        ("13B (Llama 2)", 5120, 40, 40, 40, 13824, 32000),
        ("70B (Llama 2)", 8192, 80, 64, 8, 28672, 32000),
        ("405B (Llama 3.1)", 16384, 126, 128, 8, 53248, 128256),
    )
}


@dataclass(frozen=True)
class Machine:
    """What one has: GB of a card, TFLOP/s that it reaches, GB/s of a disk, Gbit/s of the network."""

    card: float = 80.0
    rate: float = 400.0
    disk: float = 2.0
    network: float = 10.0


@dataclass(frozen=True)
class Needs:
    """What one worker of a model needs, and the driver."""

    parameters: int
    weights: int  # bytes in bfloat16
    cards: int  # of a worker
    driver: float  # GiB with --driver-weights none
    reading: float  # seconds until a worker has its weights from a disk
    sending: float  # seconds until a node without them has them
    forward: float  # tokens a second and worker: the cards of one worker work one after the other
    scores: float  # seconds of a worker for scores of all heads in all contexts, without loading
    to_driver: float  # MB that those send to the driver


def needs(config: dict[str, Any], machine: Machine) -> Needs:
    """The needs of a configuration."""
    kind, made = (
        AutoConfig.for_model(**config),
        cast(Any, AutoModelForCausalLM),
    )  # whose functions have no types
    with torch.device("meta"):
        model = made.from_config(kind)
    parameters = sum(weight.numel() for weight in model.parameters())
    largest = max(weight.numel() for weight in model.parameters())
    weights = 2 * parameters
    forward = machine.rate * 1e12 / (2 * parameters)
    heads = CONTEXTS * kind.num_hidden_layers * kind.num_attention_heads * 4
    return Needs(
        parameters,
        weights,
        math.ceil(weights / (SHARE * machine.card * 1e9)),
        BASE + (COPIES * 2 * largest + BATCH * kind.vocab_size * 2 * 4) / GIB,
        weights / (machine.disk * 1e9),
        8 * weights / (machine.network * 1e9),
        forward,
        SCORES * TOKENS / forward,
        (heads + CONTEXTS * kind.hidden_size * 4) / 1e6,
    )


def table(shapes: dict[str, dict[str, Any]], machine: Machine) -> str:
    """Rows of what is needed, one column per model, in Markdown."""
    found = {name: needs(config, machine) for name, config in shapes.items()}
    rows: dict[str, Callable[[Needs], str]] = {
        "parameters, billions": lambda each: f"{each.parameters / 1e9:.2f}",
        "weights of a worker in bfloat16, GiB": lambda each: f"{each.weights / GIB:.1f}",
        f"its cards of {machine.card:g} GB": lambda each: f"{each.cards}",
        "driver with `--driver-weights none`, GiB": lambda each: f"{each.driver:.1f}",
        f"reading the weights at {machine.disk:g} GB/s, s": lambda each: f"{each.reading:.0f}",
        f"sending them to a node at {machine.network:g} Gbit/s, s": lambda each: f"{each.sending:.0f}",
        f"tokens/s of a worker at {machine.rate:g} TFLOP/s": lambda each: f"{each.forward:,.0f}",
        f"scores of all heads in {CONTEXTS:,} contexts, s": lambda each: f"{each.scores:,.0f}",
        "what they send to the driver, MB": lambda each: f"{each.to_driver:,.0f}",
    }
    lines = [["", *found], ["---", *["---:"] * len(found)]]
    lines += [[name, *map(shown, found.values())] for name, shown in rows.items()]
    return "\n".join(f"|{'|'.join(cells)}|" for cells in lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shapes")
    parser.add_argument("configs", nargs="*", type=Path)
    for name, default in vars(Machine()).items():
        parser.add_argument(f"--{name}", type=float, default=default)
    given = parser.parse_args()
    own = {path.parent.name or path.stem: json.loads(path.read_text()) for path in given.configs}
    machine = Machine(given.card, given.rate, given.disk, given.network)
    print(table(own or SHAPES, machine))
    return 0


if __name__ == "__main__":
    sys.exit(main())
