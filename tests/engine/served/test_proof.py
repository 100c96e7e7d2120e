"""What a server proves: an option that it ignores is found out, and refused where a study needs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from levelhead.engine.sampling import Sampling, text_seed
from levelhead.engine.served.answers import Answer, Said, answers_in
from levelhead.engine.served.asking import CHAT, COMPLETIONS, MESSAGES, Asking, Width
from levelhead.engine.served.proof import (
    ENDPOINT,
    LIKELIHOODS,
    SEED,
    STOP,
    TEMPERATURE,
    Capabilities,
    Likelihoods,
    N,
    proved,
    unreadable,
)
from levelhead.engine.served.writing import connected, sampled, span_likelihoods
from levelhead.errors import CannotDo, LevelheadError
from levelhead.models.served import Patience, ServedModel, served
from tests.servers import KEY, Behavior, Handler, log_ps, serving, split


def model_at(url: str, **patience: Any) -> ServedModel:
    told: dict[str, Any] = {"wait": lambda seconds: None, "seconds": 5.0, "attempts": 3, **patience}
    return replace(served(f"server:{url}#tiny"), patience=Patience(**told))


def table(behavior: Behavior, folder: Path) -> Capabilities:
    with serving(behavior) as url, answers_in(folder) as answers:
        return proved(Asking(model_at(url), answers), folder)


def test_a_server_that_does_all_of_it_proves_all_of_it(tmp_path: Path) -> None:
    found = table(Behavior(), tmp_path)
    for path in (COMPLETIONS, CHAT):
        assert all(found.has(path, option) for option in (TEMPERATURE, SEED, N, STOP))
    assert found.has(COMPLETIONS, LIKELIHOODS)
    assert found.speaks == "tiny"


@pytest.mark.parametrize(
    ("behavior", "option", "evidence"),
    [
        (Behavior(seeds=False), SEED, "the same seed gives two texts"),
        (Behavior(several=False), N, "gave 1 texts for n = 3"),
        (Behavior(stops=False), STOP, "a text goes on behind 'e'"),
        (Behavior(temperatures=False), TEMPERATURE, "two texts at temperature 0.001 differ"),
    ],
)
def test_an_option_that_is_taken_and_ignored_is_found_out(
    behavior: Behavior, option: str, evidence: str, tmp_path: Path
) -> None:
    found = table(behavior, tmp_path)
    assert found.of(COMPLETIONS, option) == "ignored"
    assert evidence in found.why(COMPLETIONS, option)


def one_generator(handler: Handler, body: dict[str, Any]) -> bool:
    """All texts share the random numbers of the server: beside others (from the third on) a seed is lost."""
    mine = [each.get("seed") for each in handler.behavior.bodies if ("prompt" in each) == ("prompt" in body)]
    if body.get("seed") is not None and len([seed for seed in mine if seed is not None]) > 3:
        body["seed"] = handler.behavior.requests + 3
    return False


def test_seeds_that_hold_only_where_nobody_else_writes_are_not_relied_on(tmp_path: Path) -> None:
    found = table(Behavior(first=one_generator), tmp_path)
    for path in (COMPLETIONS, CHAT):
        assert found.of(path, SEED) == "ignored"
        assert "--connections 1 avoids that" in found.why(path, SEED)


def changed(change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Behavior:
    """A server that changes what it says of likelihoods."""

    def first(handler: Handler, body: dict[str, Any]) -> bool:
        if not body.get("logprobs"):
            return False
        answer = handler.answer(body, chat=False)
        change(body, answer["choices"][0]["logprobs"])
        handler.give(200, answer)
        return True

    return Behavior(first=first)


def alike(body: dict[str, Any], told: dict[str, Any]) -> None:
    told["token_logprobs"] = [None if each is None else -2.0 for each in told["token_logprobs"]]


def shifted(body: dict[str, Any], told: dict[str, Any]) -> None:
    if body.get("echo"):
        told["token_logprobs"] = [None if each is None else each - 0.5 for each in told["token_logprobs"]]


def shorter(body: dict[str, Any], told: dict[str, Any]) -> None:
    if body.get("echo"):
        del told["token_logprobs"][-1]


def fewer(body: dict[str, Any], told: dict[str, Any]) -> None:
    if body.get("echo"):
        del told["token_logprobs"][0], told["tokens"][0]


def without(body: dict[str, Any], told: dict[str, Any]) -> None:
    if body.get("echo"):
        told["token_logprobs"] = [None] * len(told["tokens"])


@pytest.mark.parametrize(
    ("behavior", "evidence"),
    [
        (Behavior(echo=False), "it gives"),
        (changed(alike), "plain English .* is not likelier than shuffled"),
        (changed(shifted), "a text has other log p when it is read than when it is written"),
        (changed(shorter), r"it gives \d+ log p for \d+ tokens"),
        (changed(fewer), r"it gives \d+ log p for a prompt of \d+ tokens"),
        (changed(without), "a token behind the first one has no log p"),
    ],
)
def test_likelihoods_that_are_none_are_refused_with_the_reason(
    behavior: Behavior, evidence: str, tmp_path: Path
) -> None:
    with serving(behavior) as url:
        model = model_at(url)
        with (
            connected(model, tmp_path),
            pytest.raises(CannotDo, match=f"does not give likelihoods .*{evidence}"),
        ):
            span_likelihoods(model, [("a b", 0, 3)], "Likelihoods")


def test_a_server_without_an_endpoint_is_named_with_what_would_work(tmp_path: Path) -> None:
    drawn = Sampling(samples=1, tokens=4)
    with serving(Behavior(completes=False)) as url:
        model = model_at(url)
        with connected(model, tmp_path):
            with pytest.raises(CannotDo, match=r"does not give answers at /completions .* or add --chat"):
                sampled(model, ["A"], ["s"], drawn, False, "Texts")
            assert sampled(model, ["A"], ["s"], drawn, True, "Texts")[0][0].text
    (tmp_path / "none").mkdir()
    with pytest.raises(CannotDo, match="writes no text"):
        table(Behavior(completes=False, chats=False), tmp_path / "none")


def test_an_endpoint_that_always_fails_is_none_and_the_other_one_is_used(tmp_path: Path) -> None:
    def failing(handler: Handler, body: Any) -> bool:
        if "messages" not in body:
            return False
        handler.give(500, b"Internal Server Error")
        return True

    found = table(Behavior(first=failing), tmp_path)
    assert not found.has(CHAT)
    assert found.why(CHAT, ENDPOINT) == "status 500, every time"
    assert found.has(COMPLETIONS)


@pytest.mark.parametrize(("several", "requests"), [(True, 2), (False, 8)])
def test_without_seeds_a_prompt_s_texts_are_one_request_or_as_many(
    several: bool, requests: int, tmp_path: Path
) -> None:
    with serving(behavior := Behavior(seeds=False, several=several)) as url:
        model = model_at(url)
        with connected(model, tmp_path):
            before = behavior.requests
            texts = sampled(model, ["A", "A"], ["one", "two"], Sampling(4, 6), False, "Texts")
            assert behavior.requests - before == requests
            assert sampled(model, ["A", "A"], ["one", "two"], Sampling(4, 6), False, "Texts") == texts
            assert behavior.requests - before == requests
    written = [each.text for own in texts for each in own]
    assert len(set(written)) == 8  # equal prompts of two streams share no text


def test_seeds_are_those_of_the_local_model(tmp_path: Path) -> None:
    with serving(behavior := Behavior()) as url:
        model = model_at(url)
        with connected(model, tmp_path):
            sampled(model, ["A"], ["stream"], Sampling(3, 6, seed=5), False, "Texts")
    sent = [body["seed"] for body in behavior.bodies if body.get("prompt") == "A"]
    assert sorted(sent) == sorted(text_seed("stream", k, 5) for k in range(3))


def test_anthropic_answers_chats_without_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVELHEAD_SERVER_KEY", KEY)  # the test's server is not Anthropic's
    drawn = Sampling(samples=2, tokens=6)
    with serving(behavior := Behavior()) as url:
        model = replace(model_at(url), kind="anthropic", name="anthropic:tiny")
        with connected(model, tmp_path) as here:
            assert here.can.of(MESSAGES, SEED) == "no"
            texts = sampled(model, ["A"], ["s"], drawn, True, "Texts")[0]
            assert len({each.text for each in texts}) == 2
            assert texts[0].tokens == 5
            with pytest.raises(CannotDo, match=r"it answers chats\. Add --chat"):
                sampled(model, ["A"], ["s"], drawn, False, "Texts")
    own = {name.lower(): value for name, value in behavior.headers[-1].items()}
    assert own["x-api-key"] == KEY
    assert own["anthropic-version"] == "2023-06-01"
    assert "authorization" not in own


def test_a_temperature_that_is_refused_is_left_out_at_1_and_refused_elsewhere(tmp_path: Path) -> None:
    def reasons(handler: Handler, body: Any) -> bool:
        if "temperature" not in body:
            return False
        handler.give(400, {"error": {"message": "temperature is not supported"}})
        return True

    with serving(behavior := Behavior(first=reasons)) as url:
        model = model_at(url)
        with connected(model, tmp_path):
            assert sampled(model, ["A"], ["s"], Sampling(1, 6), True, "Texts")[0][0].text
            assert "temperature" not in behavior.bodies[-1]
            with pytest.raises(CannotDo, match=r"refuses temperature .*not supported"):
                sampled(model, ["A"], ["s"], Sampling(1, 6, 0.5), True, "Texts")


def test_a_limit_with_another_name_is_found(tmp_path: Path) -> None:
    def newer(handler: Handler, body: Any) -> bool:
        if "max_tokens" in body:
            handler.give(400, {"error": {"message": "Use max_completion_tokens instead"}})
            return True
        body["max_tokens"] = body["max_completion_tokens"]
        return False

    with serving(behavior := Behavior(first=newer, completes=False)) as url:
        model = model_at(url)
        with connected(model, tmp_path):
            assert sampled(model, ["A"], ["s"], Sampling(1, 6), True, "Texts")[0][0].text
    assert behavior.bodies[-1]["max_completion_tokens"] == 6


def test_a_wrong_key_ends_the_proof(tmp_path: Path) -> None:
    def closed(handler: Handler, body: Any) -> bool:
        handler.give(401, {"error": {"message": "no key"}})
        return True

    behavior = Behavior(first=closed)
    with pytest.raises(
        LevelheadError, match=r"status 401: no key\. Its key is read from LEVELHEAD_SERVER_KEY"
    ):
        table(behavior, tmp_path)
    assert behavior.requests == 1


# ---- likelihoods


def told(text: str, tokens: list[str], logs: list[float | None], read: int | None = None) -> Answer:
    return Answer("tiny", (Said(text, False, tuple(tokens), tuple(logs)),), read, 1)


def test_places_follow_from_tokens_also_where_a_token_stands_before_the_text() -> None:
    answer = told("", ["<s>", "The", " nurse", " ran", "!"], [None, -3.0, -2.0, -1.0, -9.0], read=4)
    text = "The nurse ran"
    assert unreadable(answer, text) == ""
    found = Likelihoods.of(answer, text)
    assert found.total() == -6.0
    assert found.count() == 3
    assert found.total(4, 9) == -2.0  # nurse
    assert (found.total(8, 11), found.count(8, 11)) == (-3.0, 2)  # touches nurse and ran


def test_what_was_written_behind_a_prompt_is_no_part_of_it() -> None:
    text = "The old man"
    tokens = [*split(text), " went"]
    answer = told("", tokens, log_ps(tokens), read=3)
    assert Likelihoods.of(answer, text).count() == 2
    assert unreadable(replace(answer, read=4), text) == "it gives 3 log p for a prompt of 4 tokens"
    assert unreadable(answer, "The old woman") == "its tokens do not add up to the text"


# ---- connections


def test_connections_grow_by_one_a_round_and_halve_where_the_server_is_busy() -> None:
    width = Width(8)
    assert width.now == 2
    for _ in range(2):
        width.grow()
    assert 2 < width.now <= 3
    for _ in range(100):
        width.grow()
    assert width.now == 8
    width.halve()
    assert width.now == 4
    for _ in range(9):
        width.halve()
    assert width.now == 1


def test_no_more_requests_are_under_way_than_connections(tmp_path: Path) -> None:
    import threading

    under_way, most, lock = [0], [0], threading.Lock()

    def first(handler: Handler, body: Any) -> bool:
        with lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
        handler.give(200, handler.answer(body, "messages" in body))
        with lock:
            under_way[0] -= 1
        return True

    with serving(Behavior(first=first)) as url:
        model = model_at(url, connections=3)
        with connected(model, tmp_path):
            sampled(model, [f"A {n}" for n in range(30)], ["s"] * 30, Sampling(2, 4), False, "Texts")
    assert 1 <= most[0] <= 3
