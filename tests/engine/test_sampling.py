"""Texts of a model's own: what the model says and nothing else decides, and nobody else's draws move."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

from levelhead.engine import sampling
from levelhead.engine.sampling import drawn, sampled_texts
from levelhead.errors import CannotDo
from levelhead.models.model import Model
from tests.tiny import DECODERS, tiny


def starts(model: Model, number: int) -> list[list[int]]:
    """One token each, all of another word."""
    return [[1 + n % (model.config.vocab_size - 1)] for n in range(number)]


def replayed(model: Model, given: list[list[int]], length: int, seed: int) -> list[str]:
    """The same one by one, by whole rows and without anything kept."""
    rng, rows = np.random.default_rng((seed, 0)), [list(row) for row in given]
    eos = model.tokenizer.eos_token_id
    for place in range(1, length):
        at = rng.random(len(rows))
        for row, number in zip(rows, at, strict=True):
            if eos not in row[1:]:
                hf: Any = model.hf
                p = hf(input_ids=torch.tensor([row]), use_cache=False).logits[0, -1].double().softmax(-1)
                row.append(int((p.cumsum(0) <= number * p.sum()).sum()))
                assert len(row) == place + 1
    ended = [row[: row.index(eos, 1)] if eos in row[1:] else row for row in rows]
    return [model.tokenizer.decode(row, skip_special_tokens=True) for row in ended]


def test_a_token_is_drawn_by_its_share() -> None:
    p = np.array([[0.2, 0.5, 0.3]] * 6)
    at = np.array([0.0, 0.19, 0.2, 0.69, 0.71, 0.999])
    assert drawn(p, at).tolist() == [0, 0, 1, 1, 2, 2]
    assert drawn(2 * p, at).tolist() == [0, 0, 1, 1, 2, 2]  # a sum that is not quite 1


@pytest.mark.parametrize("family", DECODERS)
def test_samples_are_those_of_the_models_own_probabilities_whatever_a_generation_config_says(
    family: str,
) -> None:
    model = tiny(family)
    hf: Any = model.hf
    hf.generation_config.update(do_sample=True, top_k=1, temperature=0.1, repetition_penalty=9.0)
    given = starts(model, 5)
    texts = sampled_texts(model, given, 7, seed=3)
    assert texts == replayed(model, given, 7, seed=3)
    assert len({*texts}) == 5


def global_states() -> list[str]:
    """Where everybody's random numbers stand."""
    return [str(random.getstate()), str(np.random.get_state()), str(torch.get_rng_state().tolist())]


def test_a_seed_gives_the_same_texts_and_other_draws_stay_what_they_are() -> None:
    model = tiny("gpt2")
    given = starts(model, 70)  # more than one batch
    states = global_states()
    texts = sampled_texts(model, given, 6, seed=1)
    assert states == global_states()
    random.seed(8)
    np.random.seed(8)
    torch.manual_seed(8)
    assert sampled_texts(model, given, 6, seed=1) == texts
    assert sampled_texts(model, given, 6, seed=2) != texts
    same = [given[0]] * 70
    assert len({*sampled_texts(model, same, 6, seed=1)}) > 60  # the second batch does not repeat the first


def test_a_text_ends_where_the_model_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny("gpt2")
    words, eos = model.tokenizer(" nurse said she")["input_ids"], model.tokenizer.eos_token_id
    script = iter([[words[0]] * 2, [words[1], eos], [eos, words[2]], [words[2]] * 2])
    monkeypatch.setattr(sampling, "drawn", lambda p, at: np.asarray(next(script)))
    begin = model.tokenizer("The")["input_ids"]
    expected = [model.tokenizer.decode([*begin, *words[:count]]) for count in (2, 1)]
    assert sampled_texts(model, [begin, begin], 40, seed=0) == expected
    assert next(script) == [words[2]] * 2  # nothing is asked when all texts have ended


def test_texts_are_no_longer_than_asked_for_or_than_the_model_takes() -> None:
    model = tiny("gpt2")
    asked: list[int] = []
    handle = model.hf.register_forward_pre_hook(
        lambda *given: asked.append(given[-1]["input_ids"].shape[1]), with_kwargs=True
    )
    sampled_texts(model, starts(model, 4), 6, seed=0)
    handle.remove()
    assert asked == [1] * 5  # one token at a time: five behind the first
    short = tiny("gpt2", n_positions=8)
    assert short.max_tokens == 8
    sampled_texts(short, starts(short, 4), 40, seed=0)


def test_a_masked_model_writes_no_text() -> None:
    with pytest.raises(CannotDo, match="predicts no next word"):
        sampled_texts(tiny("bert"), [[1]], 8, seed=0)
