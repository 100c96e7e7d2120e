"""The same answers on a GPU as on the CPU (skipped where there is none)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from levelhead.edits.gates import removed
from levelhead.edits.sites import Part, Site
from levelhead.engine.gradients import gate_gradients
from levelhead.engine.readings import (
    Attention,
    Pooled,
    Reading,
    States,
    StaticVectors,
    TokenLikelihoods,
    TokenLogProbs,
)
from levelhead.engine.run import read
from levelhead.models.encoding import Text, find_word
from levelhead.models.model import Model, load

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
SENTENCES = [
    "The nurse said that she was tired.",
    "Engineers like bridges, mostly.",
    "A woman in the town was gentle.",
]


def answers_of(model: Model) -> list[npt.NDArray[Any]]:
    """One of each reading, untouched and with a head removed, and the gradients of the gates."""
    texts = [Text(s) for s in SENTENCES]
    spans = [find_word(s, s.split()[1]) for s in SENTENCES]
    mask = "" if "causal" in model.abilities else " [MASK] ."
    static = StaticVectors(texts, spans, [0, 1, 1])
    blanks = TokenLogProbs([Text(s + mask) for s in SENTENCES], [20, 30])
    likelihoods = TokenLikelihoods(texts)
    attention = Attention(texts[:1], [find_word(SENTENCES[0], "tired")], [find_word(SENTENCES[0], "nurse")])
    parts: tuple[Part, ...] = ("block", "query", "key", "value")
    states = [States(texts, Site(layer, part)) for layer in range(model.layers) for part in parts]
    assert len(states) > 8  # more than are on the way from a card at once
    judged = [Pooled([Text(SENTENCES[0], SENTENCES[1])])] if "nsp" in model.abilities else []
    asked: list[Reading[Any]] = [static, blanks, likelihoods, attention, *states, *judged]
    answers = read(model, asked, [(), removed(model, [(3, 2)])])
    gradients = gate_gradients(model, static, lambda v: (v[0] * v[1]).sum())
    return [
        answers[static],
        answers[blanks],
        np.concatenate(answers[likelihoods].values[1]),
        answers[attention][1][0].weights,
        *[np.concatenate(answers[reading][1]) for reading in states],
        *[answers[reading] for reading in judged],
        gradients.scores,
    ]


@pytest.mark.parametrize("name", ["lh:bert-mini", "lh:gpt-mini"])
def test_readings_and_gradients_on_the_gpu_equal_those_on_the_cpu(name: str) -> None:
    on_cpu, on_gpu = (answers_of(load(name, device=device)) for device in ("cpu", "cuda"))
    for cpu, gpu in zip(on_cpu, on_gpu, strict=True):
        np.testing.assert_allclose(gpu, cpu, atol=2e-3, rtol=2e-3)


def halved(model: Model) -> dict[str, int | str]:
    """A device map: every other block waits on the host, all else lies on the first card."""
    blocks = {block: number for number, block in enumerate(model.blocks)}
    places: dict[str, int | str] = {}
    for name, module in model.hf.named_modules():
        if module in blocks:
            places[name] = "cpu" if blocks[module] % 2 else 0
        elif not any(name.startswith(f"{other}.") for other in places) and not blocks.keys() & set(
            module.modules()
        ):
            places[name] = 0
    return places


@pytest.mark.parametrize("name", ["lh:bert-mini", "lh:gpt-mini"])
def test_a_model_spread_over_card_and_host_answers_as_one_on_the_card(name: str, tmp_path: Path) -> None:
    shipped = load(name, device="cpu")
    shipped.hf.save_pretrained(tmp_path)
    shipped.tokenizer.save_pretrained(tmp_path)
    whole, spread = load(tmp_path, device="cuda"), load(tmp_path, device_map=halved(shipped))
    assert spread.waits_on_host
    for one, other in zip(answers_of(whole), answers_of(spread), strict=True):
        np.testing.assert_allclose(other, one, atol=1e-5, rtol=1e-5)
