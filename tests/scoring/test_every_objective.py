"""Every objective on every family: gradients are finite differences; shuffled labels show nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from levelhead.edits.gates import gates
from levelhead.engine.readings import SpanLikelihoods
from levelhead.measures.maps import head_test
from levelhead.models.encoding import Text
from levelhead.models.model import Model
from levelhead.models.null_model import as_null_model, draw_null_model
from levelhead.probes.cloze import BASE, load_cloze
from levelhead.probes.contexts import template_contexts
from levelhead.probes.triples import load_triples
from levelhead.scoring.battery import Battery
from levelhead.scoring.benchmarks.crows_pairs import CROWS_PAIRS
from levelhead.scoring.benchmarks.protocol import Items, Selection
from levelhead.scoring.benchmarks.stereoset import STEREOSET
from levelhead.scoring.objective import Objective, several_gradients
from levelhead.scoring.objectives import objectives
from tests.scoring.benchmarks import test_stereoset
from tests.scoring.benchmarks.test_crows_pairs import PAIRS, write
from tests.tiny import CONFIGS, tiny
from tests.word_lists import GENDER

LENGTHS = (1e-3, 1e-4)  # answers are rounded to float32, which disturbs the short one; kinks of ReLU the long
SINGLE = {
    "moe",
    "oss",
    "mixtral",
    "gemma2",
}  # torch has no experts in float64; there transformers' Gemma 2 gives nan for padding
BY_DAY = {"bert", "roberta", "deberta-v2", "modernbert", "gpt2", "llama", "gemma3_text", "qwen3", "mixtral"}
Doubles = NDArray[np.float64]


def every_objective(model: Model, folder: Path) -> list[Objective]:
    prompts = load_cloze(per_background=1)
    base = tuple(prompt for prompt in prompts.prompts if prompt.kind == BASE)[:40:5]
    battery = Battery(
        GENDER,
        tuple(template_contexts(GENDER, 1)),
        load_triples().at_most(1),
        prompts=replace(prompts, prompts=base),
    )
    found = list(objectives(model, battery).values())
    files = {CROWS_PAIRS: write(folder, PAIRS), STEREOSET: test_stereoset.write(folder)}
    if model.abilities & {"mlm", "causal"}:
        of_files = [
            benchmark.objective(model, benchmark.load(file, Selection())) for benchmark, file in files.items()
        ]
        found += [each.absolute for each in of_files if each is not None]
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "family",
    [name if name in BY_DAY else pytest.param(name, marks=pytest.mark.nightly) for name in CONFIGS],
)
def test_gradients_of_every_objective_are_finite_differences(family: str, tmp_path: Path) -> None:
    """Along a random direction of all gates; the sum of all objectives of a reading has the sum of slopes."""
    model = tiny(family, max_position_embeddings=256) if family == "bert" else tiny(family)
    if not SINGLE & set(family.split("_")):
        model.hf.double()
    asked = every_objective(model, tmp_path)
    assert len(asked) >= 4
    way = np.random.default_rng(1).normal(size=(model.layers, model.heads))
    near = [
        gates(model, {(i, j): float(1 + sign * length * way[i, j]) for i, j in np.ndindex(*way.shape)})
        for length in LENGTHS
        for sign in (1, -1)
    ]
    for objective, found in zip(asked, several_gradients(model, asked), strict=True):
        values = np.reshape(objective.values(model, near), (-1, 2))
        expected = (values[:, 0] - values[:, 1]) / (2 * np.asarray(LENGTHS))
        slope = float((found.scores * way).sum())
        assert np.isclose(slope, expected, rtol=2e-2, atol=2e-3).any(), (objective.name, slope, expected)


def item_slopes(model: Model, texts: list[tuple[str, str]]) -> Doubles:
    """Of each pair the gradient of its gap: [pair, layer, head]."""
    flat = [Text(text) for pair in texts for text in pair]
    reading = SpanLikelihoods(flat, items=[i // 2 for i in range(len(flat))])
    each = [
        Objective("gap", "nats", reading, lambda sums, i=i: sums[2 * i] - sums[2 * i + 1])  # type: ignore[misc]
        for i in range(len(texts))
    ]
    return np.stack([found.scores for found in several_gradients(model, each)])


@pytest.mark.slow
def test_shuffled_labels_give_no_significant_head_beyond_5_percent() -> None:
    model = tiny("gpt2")
    texts = [
        (f"The {job} said that she was {mood}.", f"The {job} said that he was {mood}.")
        for job in ("nurse", "engineer", "teacher", "kitchen")
        for mood in ("tired", "not tired", "in the kitchen")
    ]
    slopes = [item_slopes(model, texts)]
    for seed in range(19):
        with as_null_model(model, draw_null_model(model, seed)):
            slopes.append(item_slopes(model, texts))
    u = np.stack(slopes)  # [model, pair, layer, head]
    rng = np.random.default_rng(0)

    def significant(u: Doubles, shuffle: bool) -> bool:
        labels = rng.choice([-1.0, 1.0], u.shape[:2]) if shuffle else np.ones(u.shape[:2])
        signed = u * labels[..., None, None]
        halves = np.stack([signed[:, ::2].mean(axis=1), signed[:, 1::2].mean(axis=1)], axis=1)[:, None]
        return bool(head_test(halves[0], halves[1:]).p_value.min() <= 0.05)

    order = [rng.permutation(len(u)) for _ in range(300)]  # whose turn it is to be the model
    assert np.mean([significant(u[each], shuffle=True) for each in order]) <= 0.05 + 3 * 0.0126
    planted = u.copy()
    planted[0, :, 1, 2] += 10 * np.abs(u).max()
    assert significant(planted, shuffle=False)


def test_an_objective_of_some_items_is_their_mean(tmp_path: Path) -> None:
    model = tiny("bert")
    items: Items = CROWS_PAIRS.load(write(tmp_path, PAIRS), Selection())
    whole = CROWS_PAIRS.objective(model, items)
    assert whole is not None
    answer = torch.arange(2.0 * len(items.items), dtype=torch.float64) ** 2
    gaps = (answer[::2] - answer[1::2]).numpy()
    assert float(whole.number(answer)) == pytest.approx(gaps.mean())
    assert float(whole.about({"w1"}).number(answer)) == pytest.approx(gaps[:2].mean())
    assert float(whole.about({"w1"}).absolute.number(answer)) == pytest.approx(abs(gaps[:2].mean()))
