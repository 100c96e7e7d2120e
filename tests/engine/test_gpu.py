"""The same answers on a GPU as on the CPU (skipped where there is none)."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from levelhead.edits.gates import removed
from levelhead.engine.gradients import gate_gradients
from levelhead.engine.readings import Attention, Pooled, StaticVectors, TokenLikelihoods, TokenLogProbs
from levelhead.engine.run import read
from levelhead.models.encoding import Text, find_word
from levelhead.models.model import load

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
SENTENCES = [
    "The nurse said that she was tired.",
    "Engineers like bridges, mostly.",
    "A woman in the town was gentle.",
]


@pytest.mark.parametrize("name", ["lh:bert-mini", "lh:gpt-mini"])
def test_readings_and_gradients_on_the_gpu_equal_those_on_the_cpu(name: str) -> None:
    answers = []
    for device in ("cpu", "cuda"):
        model = load(name, device=device)
        texts = [Text(s) for s in SENTENCES]
        spans = [find_word(s, s.split()[1]) for s in SENTENCES]
        mask = "" if "causal" in model.abilities else " [MASK] ."
        static = StaticVectors(texts, spans, [0, 1, 1])
        readings = [
            static,
            TokenLogProbs([Text(s + mask) for s in SENTENCES], [20, 30]),
            TokenLikelihoods(texts),
        ]
        if "nsp" in model.abilities:
            readings.append(Pooled([Text(SENTENCES[0], SENTENCES[1])]))
        readings.append(
            Attention(texts[:1], [find_word(SENTENCES[0], "tired")], [find_word(SENTENCES[0], "nurse")])
        )
        found = read(model, readings, [(), removed(model, [(3, 2)])])
        gradients = gate_gradients(model, static, lambda v: (v[0] * v[1]).sum())
        flat = [np.asarray(found[r]).ravel() for r in readings if isinstance(found[r], np.ndarray)]
        flat.append(np.concatenate(found[readings[2]].values[1]))
        flat.append(found[readings[-1]][1][0].weights.ravel())
        answers.append([*flat, gradients.scores.ravel()])
    for cpu, gpu in zip(*answers, strict=True):
        np.testing.assert_allclose(gpu, cpu, atol=2e-3, rtol=2e-3)
