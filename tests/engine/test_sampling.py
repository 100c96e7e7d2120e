"""Texts of a model's own: what the model says and nothing else decides, and nobody else's draws move."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from levelhead.edits.gates import removed
from levelhead.edits.output import Reweighted, SelfDebiased, Symmetrized
from levelhead.engine import own_forward
from levelhead.engine import ray_workers as crews
from levelhead.engine import sampling as sampling_module
from levelhead.engine.own_forward import drawn, sampled_texts
from levelhead.engine.readings import SpanLikelihoods, TokenLogProbs
from levelhead.engine.run import read_one
from levelhead.engine.sampling import (
    SampleJob,
    Sampling,
    Start,
    continuations,
    inverse_cdf,
    orientations,
    prompt_rows,
    text_seed,
    uniforms,
)
from levelhead.errors import BadOption, BadProbe, CannotDo
from levelhead.models.encoding import Text
from levelhead.models.model import Model, load
from levelhead.probes.group_swap import GenderSwap
from levelhead.probes.name_beliefs import strange_names
from levelhead.progress import counted_work
from tests.tiny import DECODERS, saved, tiny


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
    p = torch.tensor([[0.2, 0.5, 0.3]] * 6, dtype=torch.float64)
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
    monkeypatch.setattr(own_forward, "drawn", lambda p, at: np.asarray(next(script)))
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


# ---- continuations of prompts

PROMPTS = ["The nurse said that", "The engineer and", "She saw him", "The nurse said that", "A book about"]


def ends_of(model: Model) -> set[int]:
    """The tokenizer's end of text, and the checkpoint's own."""
    hf: Any = model.hf
    stated = hf.generation_config.eos_token_id
    return {model.tokenizer.eos_token_id, *(np.ravel(stated).tolist() if stated is not None else [])}


def slowly(model: Model, prompt: str, stream: str, sampling: Sampling) -> list[list[int]]:
    """The tokens behind a prompt one by one, by whole rows, each alone and without anything kept."""
    hf: Any = model.hf
    start, found = prompt_rows(model, [Text(prompt)], sampling.tokens)[Text(prompt)].tolist(), []
    for k in range(sampling.samples):
        row = list(start)
        for at in uniforms(text_seed(stream, k, sampling.seed), 1 + sampling.tokens)[1:]:
            logits = hf(input_ids=torch.tensor([row]), use_cache=False).logits[0, -1].double()
            p = (logits / sampling.temperature).softmax(-1)
            row.append(int((p.cumsum(0) <= at * p.sum()).sum()))
            if row[-1] in ends_of(model):
                break
        found.append(row[len(start) :])
    return found


@pytest.mark.parametrize("family", DECODERS)
def test_continuations_are_those_of_the_models_own_probabilities(family: str) -> None:
    model, sampling = tiny(family), Sampling(samples=3, tokens=5, temperature=1.3, seed=2)
    hf: Any = model.hf
    hf.generation_config.update(do_sample=True, top_k=1, repetition_penalty=9.0)
    found = continuations(model, PROMPTS, [f"stream {p}" for p in PROMPTS], sampling)
    ends = ends_of(model)
    for prompt, own in zip(PROMPTS, found, strict=True):
        rows = slowly(model, prompt, f"stream {prompt}", sampling)
        assert [each.ended for each in own] == [row[-1] in ends for row in rows]
        assert [each.tokens for each in own] == [len(row) - (row[-1] in ends) for row in rows]
        start = prompt_rows(model, [Text(prompt)], 5)[Text(prompt)].tolist()
        whole = [
            model.tokenizer.decode(
                [*start, *row], skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
            for row in rows
        ]
        assert all(text.endswith(each.text) for text, each in zip(whole, own, strict=True))
        assert len({each.text for each in own}) > 1


def test_first_tokens_come_as_often_as_the_model_says() -> None:
    model, number = tiny("gpt2"), 4_000
    job = SampleJob(
        (Start(np.asarray([5, 9], np.int32), "s", tuple(range(number))),), Sampling(1, 1, 1.0, 7), ()
    )
    with job.ready(model):
        tokens = job.parcels(model, None, [0])[0].values[:, 0, 0].astype(int)
    hf: Any = model.hf
    p = hf(input_ids=torch.tensor([[5, 9]])).logits[0, -1].double().softmax(-1).numpy()
    frequent = number * p >= 5
    expected = np.append(number * p[frequent], number * p[~frequent].sum())
    seen = np.bincount(tokens, minlength=p.size)
    assert frequent.sum() > 50
    assert chisquare(np.append(seen[frequent], seen[~frequent].sum()), expected).pvalue > 0.01


def test_a_share_of_probability_is_found_by_its_number() -> None:
    logits = torch.log(torch.tensor([[0.2, 0.5, 0.3]] * 6))
    at = torch.tensor([0.0, 0.19, 0.21, 0.69, 0.71, 0.9999999999999999], dtype=torch.float64)
    assert inverse_cdf(logits, 1.0, at).tolist() == [0, 0, 1, 1, 2, 2]
    assert inverse_cdf(logits, 0.01, at).tolist() == [1] * 6  # the likeliest alone


def test_prompts_of_one_stream_have_their_random_numbers_in_common() -> None:
    model, sampling = tiny("gpt2"), Sampling(4, 6)
    same = continuations(model, ["The nurse said", "A nurse", "The nurse said"], ["a", "b", "a"], sampling)
    assert same[0] == same[2]
    other = continuations(model, ["The nurse said"] * 2, ["a", "b"], sampling)
    assert other[0] == same[0] != other[1]
    assert len({each.text for each in same[0]}) > 1  # samples of one stream differ
    assert continuations(model, ["The nurse said"], ["a"], Sampling(4, 6, seed=1))[0] != same[0]
    more = continuations(model, ["The nurse said"], ["a"], Sampling(6, 6))[0]
    assert more[:4] == same[0]  # more samples leave the first ones as they are


def test_random_numbers_of_a_longer_text_begin_with_those_of_a_shorter_one() -> None:
    assert uniforms(7, 9)[:4].tolist() == uniforms(7, 4).tolist()
    assert text_seed("s", 3, 1) != text_seed("s", 2, 1) != text_seed("s", 2, 2) != text_seed("t", 2, 2)


def test_batches_have_prompts_of_one_length_and_follow_from_the_prompts_alone() -> None:
    lengths = [5, 4, 5, 5, 4] * 9
    starts = tuple(Start(np.zeros(n, np.int32), "", tuple(range(20))) for n in lengths)
    cut = SampleJob(starts, Sampling(20), ()).cut()
    assert sorted(number for batch in cut for number in batch) == list(range(45))
    assert all(len({lengths[number] for number in batch}) == 1 for batch in cut)
    assert max(map(len, cut)) == 6  # of 20 samples each, 128 rows at most
    assert cut == SampleJob(starts, Sampling(20), ()).cut()


def test_batches_can_be_run_in_any_order_and_again() -> None:
    model, number = tiny("gpt2"), 12
    starts = tuple(
        Start(np.asarray([3 + n, 9, 4 + n % 3][: 2 + n % 2], np.int32), f"{n}", tuple(range(32)))
        for n in range(number)
    )
    job = SampleJob(starts, Sampling(32, 5), ())
    with job.ready(model):
        forward = [job.parcels(model, None, batch)[0].values for batch in job.cut()]
        backward = [job.parcels(model, None, batch)[0].values for batch in reversed(job.cut())]
    assert len(forward) > 2
    assert all(np.array_equal(a, b) for a, b in zip(forward, reversed(backward), strict=True))


def test_a_continuation_ends_where_the_model_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny("gpt2")
    words, eos = model.tokenizer(" nurse said she")["input_ids"], model.tokenizer.eos_token_id
    script = iter([[words[0]] * 2, [words[1], eos], [words[1], words[2]]])
    monkeypatch.setattr(sampling_module, "inverse_cdf", lambda *given: torch.tensor(next(script)))
    ((first, second),) = continuations(model, ["The"], ["s"], Sampling(2, 3))
    assert (first.tokens, first.ended) == (3, False)
    assert (second.text.strip(), second.tokens, second.ended) == (model.tokenizer.decode(words[:1]), 1, True)


def test_an_edit_and_other_weights_write_other_texts_and_leave_the_model_as_it_was() -> None:
    model, sampling = tiny("gpt2"), Sampling(4, 6)
    before = {name: weight.clone() for name, weight in model.hf.named_parameters()}
    plain = continuations(model, PROMPTS, PROMPTS, sampling)
    gated = continuations(model, PROMPTS, PROMPTS, sampling, removed(model, ["1-1", "2-3"]))
    name = "transformer.h.1.mlp.c_fc.weight"
    other = Reweighted("other", {name: -before[name]})
    weights = continuations(model, PROMPTS, PROMPTS, sampling, (other,))
    with model.edited(other):
        assert continuations(model, PROMPTS, PROMPTS, sampling) == weights
    assert len({str(texts) for texts in (plain, gated, weights)}) == 3
    assert continuations(model, PROMPTS, PROMPTS, sampling) == plain
    assert all(torch.equal(before[name], weight) for name, weight in model.hf.named_parameters())


def test_what_cannot_be_written_is_refused_in_one_line_before_anything_runs() -> None:
    model, calls = tiny("gpt2"), list[Any]()
    handle = model.hf.register_forward_pre_hook(lambda *given: calls.append(given))
    refusals: dict[str, Callable[[], object]] = {
        "predicts no next word.*counteracts, benchmark, audit": lambda: continuations(
            tiny("bert"), ["A"], ["s"], Sampling()
        ),
        "do not fit into the": lambda: continuations(model, ["A book"], ["s"], Sampling(8, 5_000)),
        "as many streams": lambda: continuations(model, ["A book"], [], Sampling()),
        "samples must be 1 or more": lambda: Sampling(0),
        "tokens must be 1 or more": lambda: Sampling(1, 0),
        "temperature must be above 0": lambda: Sampling(1, 1, 0.0),
        "SelfDebiased cannot write": lambda: continuations(
            model, ["A"], ["s"], Sampling(), (SelfDebiased(("x",)),)
        ),
    }
    for refusal, doing in refusals.items():
        with pytest.raises((CannotDo, BadProbe, BadOption), match=refusal) as refused:
            doing()
        assert "\n" not in str(refused.value)
    handle.remove()
    assert not calls


# ---- a symmetrized model


def test_a_symmetrized_model_writes_mirrored_texts_behind_counterfactuals() -> None:
    model, variant = load("lh:gpt-mini"), (Symmetrized(GenderSwap()),)
    prompts = ["My mother went home because", "My father went home because", "The nurse said that"]
    hers, his, neutral = continuations(model, prompts, ["a", "a", "b"], Sampling(8, 12), variant)
    swap, mirrored = GenderSwap(), 0
    for her, him in zip(hers, his, strict=True):
        if not strange_names([prompts[0] + her.text, prompts[1] + him.text]):
            assert swap(prompts[0] + her.text).text == prompts[1] + him.text
            mirrored += 1
    assert mirrored >= 5
    assert len({each.text for each in neutral}) == 8


def test_a_symmetrized_model_says_a_word_as_often_as_its_mixture_does() -> None:
    model, number = load("lh:gpt-mini"), 1_500
    variant = (Symmetrized(GenderSwap()),)
    prompt = "My mother opened the door and"
    (found,) = continuations(model, [prompt], ["s"], Sampling(number, 1), variant)
    words = [" she", " he", " the", " I", " then", " a"]
    tokens = [model.tokenizer(word)["input_ids"][-1] for word in words]
    p = np.exp(read_one(model, TokenLogProbs([prompt], tokens), [variant])[0, 0]).astype(np.float64)
    seen = np.asarray([sum(each.text == word for each in found) for word in words])
    observed, expected = np.append(seen, number - seen.sum()), number * np.append(p, 1 - p.sum())
    assert expected.min() > 1
    assert chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > 0.01


def test_orientations_come_in_proportion_to_the_likelihood_of_their_prompts() -> None:
    model = load("lh:gpt-mini")
    (found,) = orientations(model, GenderSwap(), [Text("My mother said")], ())
    assert [text.first for text, _, _ in found] == ["My father said", "My mother said"]
    assert [t for _, t, _ in found] == [1, 0]
    texts = ["My father said", "My mother said"]
    logs = read_one(model, SpanLikelihoods(texts))[0]
    assert [share for _, _, share in found] == pytest.approx(np.exp(logs) / np.exp(logs).sum())
    (back,) = orientations(model, GenderSwap(), [Text("My father said")], ())
    assert [(text, share) for text, _, share in back] == [(text, share) for text, _, share in found]
    with counted_work() as done:  # a prompt that stays as it is is not read for that
        (neutral,) = orientations(model, GenderSwap(), [Text("The nurse said")], ())
    assert [text.first for text, _, _ in neutral] == ["The nurse said"] * 2
    assert [share for _, _, share in neutral] == pytest.approx([0.5, 0.5])
    assert done == []


# ---- workers


@pytest.mark.nightly
def test_workers_write_the_same_texts(tmp_path: Path) -> None:
    folder = saved(tmp_path / "gpt2", "gpt2")
    alone, crew = load(folder), load(folder, workers=2)
    sampling, streams = Sampling(16, 6), [f"{n}" for n in range(20)]
    prompts = [
        f"The {word} said {more}".strip()
        for word in ("nurse", "engineer", "book", "teacher")
        for more in ("", "that", "that she", "a", "the book")
    ]
    gates = removed(alone, ["1-1"])
    try:
        for variant in ((), gates, (Symmetrized(GenderSwap()),)):
            assert continuations(crew, prompts, streams, sampling, variant) == continuations(
                alone, prompts, streams, sampling, variant
            )
    finally:
        crews.dismiss()
