"""Completions of a served model: those of the local model for the same seed, alone or among others."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from levelhead.edits.gates import removed
from levelhead.edits.output import Symmetrized
from levelhead.engine.readings import RowPredictions, TextPredictions, TokenLikelihoods
from levelhead.engine.run import read_one
from levelhead.engine.sampling import Sampling, continuations, ends_of, prompt_rows, text_seed
from levelhead.engine.writing import Wish, Writer, joins
from levelhead.models.encoding import Text
from levelhead.models.model import Model, load
from levelhead.probes.group_swap import GenderSwap
from levelhead.serving.scheduler import choice_seed, stopped_at
from levelhead.serving.served import ServedModel
from tests.serving.clients import completions, events, request, serving, texts
from tests.tiny import DECODERS, tiny

pytest.importorskip("starlette", reason="pip install 'levelhead[serve]'")
pytest.importorskip("uvicorn", reason="pip install 'levelhead[serve]'")
PROMPTS = ["The nurse said that", "She saw him yesterday in the kitchen", "A teacher"]
TOKENS = 12


@pytest.fixture(scope="module")
def model() -> Model:
    return tiny("gpt2")


@pytest.fixture(scope="module")
def served(model: Model) -> Iterator[ServedModel]:
    with serving(model) as one:
        yield one


def local(model: Model, prompt: str, samples: int = 3, variant: Any = (), **more: Any) -> list[str]:
    (found,) = continuations(model, [prompt], [prompt], Sampling(samples, TOKENS, seed=7, **more), variant)
    return [each.text for each in found]


def seeds(prompt: str, samples: int = 3) -> list[int]:
    return [text_seed(prompt, k, 7) for k in range(samples)]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_a_seed_gives_the_text_of_the_local_model(
    model: Model, served: ServedModel, temperature: float
) -> None:
    for prompt in PROMPTS:
        sent = {"max_tokens": TOKENS, "temperature": temperature}
        found = [texts(served, prompt, seed=seed, **sent)[0] for seed in seeds(prompt)]
        assert found == local(model, prompt, temperature=temperature)


def test_requests_that_are_answered_together_get_the_texts_that_they_get_alone(
    model: Model, served: ServedModel
) -> None:
    asks = [(prompt, k, seed) for prompt in PROMPTS for k, seed in enumerate(seeds(prompt, 8))]
    with ThreadPoolExecutor(len(asks)) as pool:
        found = list(pool.map(lambda ask: texts(served, ask[0], seed=ask[2], max_tokens=TOKENS)[0], asks))
    assert found == [local(model, prompt, 8)[k] for prompt, k, _ in asks]


@pytest.mark.parametrize("family", DECODERS)
def test_a_text_that_joins_others_is_the_one_that_it_is_alone(family: str) -> None:
    model = tiny(family)
    rows = prompt_rows(model, [Text(prompt) for prompt in PROMPTS], TOKENS)
    wishes = [Wish(rows[Text(prompt)], TOKENS, seed) for prompt in PROMPTS for seed in seeds(prompt)]
    written: dict[int, list[int]] = {id(wish): [] for wish in wishes}
    writer, waiting = Writer(model, (), 8), list(wishes)
    with writer.at_work():
        while waiting or writer.wishes:
            begun = writer.fitting(waiting)[:4]
            waiting = [wish for wish in waiting if wish not in begun]
            for wish, token in [
                *(writer.begin(begun) if begun else []),
                *(writer.step() if writer.wishes else []),
            ]:
                written[id(wish)].append(token.id)
    for wish in wishes:
        alone: list[int] = []
        with writer.at_work():
            news = writer.begin([wish])
            while news:
                alone += [token.id for _, token in news]
                news = writer.step() if writer.wishes else []
        assert written[id(wish)] == alone


def test_a_model_with_a_sliding_window_is_not_joined_by_other_lengths() -> None:
    assert joins(tiny("llama"))
    assert not joins(tiny("mistral"))


def test_likelihoods_of_a_prompt_are_those_of_the_local_model(model: Model, served: ServedModel) -> None:
    scores = read_one(model, TokenLikelihoods(PROMPTS))
    answer = completions(served, PROMPTS, max_tokens=0, logprobs=1, echo=True)
    for choice, values, row, places in zip(
        answer["choices"], scores.values[0], scores.rows, scores.positions, strict=True
    ):
        given = choice["logprobs"]["token_logprobs"]
        assert len(given) == len(row.ids)
        assert [place for place, value in enumerate(given) if value is not None] == places.tolist()
        assert np.allclose([value for value in given if value is not None], values, atol=1e-5)
        assert choice["finish_reason"] == "length"
    assert [choice["text"] for choice in answer["choices"]] == PROMPTS
    assert answer["usage"]["completion_tokens"] == 0


def test_tokens_are_read_as_they_are_with_one_more_as_lm_eval_sends_them(
    model: Model, served: ServedModel
) -> None:
    rows = [ids for ids in prompt_rows(model, [Text(each) for each in PROMPTS], 1).values()]
    answer = completions(
        served, [ids.tolist() for ids in rows], max_tokens=1, logprobs=1, echo=True, temperature=0, seed=1234
    )
    top = read_one(model, RowPredictions(rows, 1)).log_probs[0, :, 0].tolist()
    for choice, ids in zip(answer["choices"], rows, strict=True):
        logs = choice["logprobs"]
        assert {len(values) for values in logs.values()} == {len(ids) + 1}
        assert logs["token_logprobs"][0] is None
        for value, own in zip(logs["token_logprobs"][1:], logs["top_logprobs"][1:], strict=True):
            assert len(own) in (1, 2)
            assert value == min(own.values())
        assert np.allclose(
            [max(own.values()) for own in logs["top_logprobs"][1:-1]], top[: len(ids) - 1], atol=1e-5
        )
        top = top[len(ids) - 1 :]
        # what is likeliest is what a temperature of 0 writes
        assert logs["token_logprobs"][-1] == max(logs["top_logprobs"][-1].values())


def test_a_texts_own_log_probabilities_are_those_of_it_as_a_prompt(served: ServedModel) -> None:
    (one,) = completions(served, PROMPTS[0], max_tokens=8, logprobs=0, seed=3, echo=True)["choices"]
    ids = completions(served, one["text"], max_tokens=0, logprobs=0, echo=True)["choices"][0]["logprobs"]
    if ids["tokens"] == one["logprobs"]["tokens"]:
        pairs = zip(ids["token_logprobs"], one["logprobs"]["token_logprobs"], strict=True)
        assert all(a == b or abs(a - b) < 1e-5 for a, b in pairs)
    assert one["logprobs"]["top_logprobs"] is None


@pytest.mark.slow
def test_tokens_begin_in_the_text_where_text_offset_says() -> None:
    with serving(load("lh:gpt-mini")) as served:
        sent: dict[str, Any] = {"max_tokens": 8, "logprobs": 0, "seed": 3}
        prompt = "A caf\u00e9 is \U0001f642 unfathomably"
        (one,) = completions(served, prompt, echo=True, **sent)["choices"]
        (alone,) = completions(served, prompt, **sent)["choices"]
        ids = events(served, prompt=prompt, **sent)
    logs, own = one["logprobs"], alone["logprobs"]
    assert "".join(part["choices"][0]["text"] for part in ids) == alone["text"] == one["text"][len(prompt) :]
    for token, place in list(zip(logs["tokens"], logs["text_offset"], strict=True))[1:]:
        assert token.startswith("token_id:") or one["text"][place:].startswith(token)
    assert all(logs[name][-len(own[name]) :] == own[name] for name in ("tokens", "text_offset"))


def test_the_first_of_n_choices_is_the_text_without_n_and_all_are_the_same_again(served: ServedModel) -> None:
    several = texts(served, PROMPTS[0], n=4, seed=11, max_tokens=TOKENS)
    assert several[0] == texts(served, PROMPTS[0], seed=11, max_tokens=TOKENS)[0]
    assert several == [
        texts(served, PROMPTS[0], seed=choice_seed(11, k), max_tokens=TOKENS)[0] for k in range(4)
    ]
    assert len(set(several)) > 1
    both = texts(served, PROMPTS[:2], n=2, seed=11, max_tokens=TOKENS)
    assert both[:2] == several[:2]


def test_without_a_seed_texts_differ(served: ServedModel) -> None:
    assert len({texts(served, PROMPTS[0], max_tokens=24)[0] for _ in range(4)}) > 1


def test_a_text_ends_before_what_stops_it(served: ServedModel) -> None:
    whole = texts(served, PROMPTS[0], seed=11, max_tokens=24)[0]
    for stop in (whole[5:7], whole[3:4], "nowhere to be found"):
        (choice,) = completions(served, PROMPTS[0], seed=11, max_tokens=24, stop=[stop, "@@"])["choices"]
        assert choice["text"] == whole.split(stop)[0]
        assert choice["finish_reason"] == ("stop" if stop in whole else "length")
        parts = events(served, prompt=PROMPTS[0], seed=11, max_tokens=24, stop=stop)
        assert "".join(part["choices"][0]["text"] for part in parts) == choice["text"]


def test_what_may_be_the_beginning_of_a_stop_waits() -> None:
    assert stopped_at("one two", ["two"]) == (4, 4)
    assert stopped_at("one tw", ["two"]) == (None, 4)
    assert stopped_at("one aab", ["aabb", "b c"]) == (None, 4)
    assert stopped_at("one", []) == (None, 3)


@pytest.mark.parametrize("logprobs", [None, 2])
def test_the_pieces_of_a_stream_are_the_whole_text(served: ServedModel, logprobs: int | None) -> None:
    sent: dict[str, Any] = {"seed": 5, "max_tokens": 24, "n": 3, "echo": True, "logprobs": logprobs}
    whole = completions(served, PROMPTS[0], **sent)
    parts = events(served, prompt=PROMPTS[0], stream_options={"include_usage": True}, **sent)
    assert parts[-1]["usage"] == whole["usage"]
    assert parts[-1]["choices"] == []
    for number, choice in enumerate(whole["choices"]):
        own = [each for part in parts for each in part["choices"] if each["index"] == number]
        assert "".join(each["text"] for each in own) == choice["text"]
        assert [each["finish_reason"] for each in own if each["finish_reason"]] == [choice["finish_reason"]]
        if logprobs is not None:
            for name, values in choice["logprobs"].items():
                assert [value for each in own for value in each["logprobs"][name]] == values
    assert len(parts) > 10


def test_a_narrow_nucleus_and_no_temperature_give_the_likeliest_token(served: ServedModel) -> None:
    cold = texts(served, PROMPTS[0], temperature=0, max_tokens=TOKENS)
    assert texts(served, PROMPTS[0], top_p=0, max_tokens=TOKENS) == cold
    assert texts(served, PROMPTS[0], top_p=1e-9, max_tokens=TOKENS) == cold


def test_edits_inside_the_network_are_served(model: Model) -> None:
    variant = removed(model, ["1-1", "2-3"])
    with serving(model, variant) as served:
        found = [texts(served, PROMPTS[0], seed=seed, max_tokens=TOKENS)[0] for seed in seeds(PROMPTS[0])]
        assert found == local(model, PROMPTS[0], variant=variant)
        given = completions(served, PROMPTS[0], max_tokens=0, logprobs=0, echo=True)["choices"][0]
    values = read_one(model, TokenLikelihoods(PROMPTS[:1]), [variant]).values[0][0]
    own = [value for value in given["logprobs"]["token_logprobs"] if value is not None]
    assert np.allclose(own, values, atol=1e-5)


def test_a_symmetrized_model_gives_a_text_and_its_counterfactual_one_probability(model: Model) -> None:
    variant = (Symmetrized(GenderSwap()),)
    pair = ["The nurse said that she was tired", "The nurse said that he was tired"]
    with serving(model, variant) as served:
        answer = completions(served, pair, max_tokens=0, logprobs=0, echo=True)
        sums = [sum(filter(None, choice["logprobs"]["token_logprobs"])) for choice in answer["choices"]]
        assert abs(sums[0] - sums[1]) < 1e-5
        for prompt in pair:
            found = [texts(served, prompt, seed=seed, max_tokens=TOKENS)[0] for seed in seeds(prompt)]
            assert found == local(model, prompt, variant=variant)
            parts = events(served, prompt=prompt, seed=seeds(prompt)[0], max_tokens=TOKENS)
            assert "".join(part["choices"][0]["text"] for part in parts) == found[0]
        (one,) = completions(served, pair[0], max_tokens=4, logprobs=0, echo=True, seed=3)["choices"]
        again = completions(served, one["text"], max_tokens=0, logprobs=0, echo=True)["choices"][0]
        if one["logprobs"]["tokens"] == again["logprobs"]["tokens"]:
            assert np.allclose(
                one["logprobs"]["token_logprobs"][1:], again["logprobs"]["token_logprobs"][1:], atol=1e-5
            )


@pytest.mark.slow
def test_a_symmetrized_model_answers_lm_evals_requests_with_its_likelihoods_in_memory() -> None:
    model, variant = load("lh:gpt-mini"), (Symmetrized(GenderSwap()),)
    prompts = ["The nurse said that she was tired", "His mother saw a waitress", "A teacher walked"]
    rows = [ids.tolist() for ids in prompt_rows(model, [Text(each) for each in prompts], 1).values()]
    with serving(model, variant) as served:
        sent: dict[str, Any] = {"logprobs": 1, "echo": True, "temperature": 0, "seed": 1234}
        for tokens in (0, 1):
            answer = completions(served, rows, max_tokens=tokens, **sent)
            for choice, prompt, ids in zip(answer["choices"], prompts, rows, strict=True):
                logs = choice["logprobs"]
                assert {len(values) for values in logs.values()} == {len(ids) + tokens}
                scores = read_one(model, TokenLikelihoods([prompt]), [variant])
                own = [value for value in logs["token_logprobs"][: len(ids)] if value is not None]
                assert np.allclose(own, scores.values[0][0], atol=1e-5)
                assert logs["top_logprobs"][0] is None
                for value, top in zip(logs["token_logprobs"][1:], logs["top_logprobs"][1:], strict=True):
                    assert value in top.values()  # so lm-eval can tell whether it is the likeliest
        status, _, content = request(
            served, body={"model": "tiny", "prompt": rows[0][1:] * 2, "logprobs": 1, "echo": True}
        )
        assert status == 400
        assert b"not those of one as" in content


@pytest.mark.parametrize("prompt", ["The nurse said that she was tired and", "My brother met", "A teacher"])
def test_alternatives_of_a_symmetrized_model_are_its_likelihoods_of_longer_texts(
    model: Model, prompt: str
) -> None:
    """p(y | x) = P(x y) / P(x) of the mixture, for the likeliest words, hers and his among them."""
    variant, words = (Symmetrized(GenderSwap()),), (" she", " he", " was", " nurse", " mother", " father")
    every = int(model.config.vocab_size)
    found = read_one(model, TextPredictions([f"{prompt} was"], every), [variant])
    ids, logs = found.ids[0, -1], found.log_probs[0, -1]
    assert np.exp(logs.astype(np.float64)).sum() == pytest.approx(1.0, abs=1e-4)

    def total(text: str) -> float:
        return float(read_one(model, TokenLikelihoods([text]), [variant]).values[0][0].sum())

    tried = 0
    for word in words:
        (own,) = prompt_rows(model, [Text(prompt + word)], 0).values()
        (before,) = prompt_rows(model, [Text(prompt)], 0).values()
        if len(own) != len(before) + 1:
            continue
        tried += 1
        value = float(logs[ids.tolist().index(int(own[-1]))])
        assert value == pytest.approx(total(prompt + word) - total(prompt), abs=2e-4)
    assert tried >= 2
    plain = read_one(model, TextPredictions([prompt], 3))
    (row,) = prompt_rows(model, [Text(prompt)], 0).values()
    assert np.allclose(plain.log_probs, read_one(model, RowPredictions([row], 3)).log_probs, atol=1e-6)


def test_an_end_of_text_ends_a_text_and_is_none_of_it(model: Model, served: ServedModel) -> None:
    end = ends_of(model)[0]
    for seed in range(200):
        (one,) = completions(served, PROMPTS[2], seed=seed, max_tokens=40, logprobs=0, temperature=2)[
            "choices"
        ]
        if one["finish_reason"] == "stop":
            shown = model.tokenizer.decode([end])
            assert one["logprobs"]["tokens"][-1] == shown
            assert not one["text"].endswith(shown)
            return
    raise AssertionError("no text has ended")
