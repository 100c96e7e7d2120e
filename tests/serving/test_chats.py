"""Chats with a served model: through its template, with the texts that the local model writes in a chat."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from levelhead.edits.output import Symmetrized
from levelhead.engine.sampling import Sampling, continuations, text_seed
from levelhead.models.chat import chat_texts, opened_chats
from levelhead.models.model import Model
from levelhead.probes.group_swap import GenderSwap
from levelhead.serving.served import ServedModel
from tests.models.test_chat import chatting
from tests.serving.clients import NAME, events, refused, request, serving
from tests.tiny import tiny

pytest.importorskip("starlette", reason="pip install 'levelhead[serve]'")
pytest.importorskip("uvicorn", reason="pip install 'levelhead[serve]'")
CHATS = "/v1/chat/completions"
TOLD = "The nurse was tired."
MESSAGES = [{"role": "user", "content": TOLD}]


@pytest.fixture(scope="module")
def model() -> Model:
    return chatting()


@pytest.fixture(scope="module")
def served(model: Model) -> Iterator[ServedModel]:
    with serving(model) as one:
        yield one


def chat(served: ServedModel, **body: Any) -> dict[str, Any]:
    status, _, content = request(served, CHATS, {"model": NAME, "messages": MESSAGES, **body})
    assert status == 200, content
    return dict(json.loads(content))


@pytest.mark.parametrize("variant", [(), (Symmetrized(GenderSwap()),)])
def test_a_chat_has_the_text_of_the_local_model(model: Model, variant: Any) -> None:
    (text,) = chat_texts(model, [(TOLD, "")])
    (expected,) = continuations(model, [text], ["s"], Sampling(2, 12, seed=4), variant)
    with serving(model, variant) as served:
        for k, each in enumerate(expected):
            body = {"seed": text_seed("s", k, 4), "max_completion_tokens": 12}
            (choice,) = chat(served, **body)["choices"]
            assert choice["message"] == {"role": "assistant", "content": each.text, "refusal": None}
            parts = events(served, CHATS, messages=MESSAGES, **body)
            deltas = [part["choices"][0]["delta"] for part in parts]
            assert deltas[0]["role"] == "assistant"
            assert "".join(delta.get("content", "") for delta in deltas) == each.text
            assert parts[-1]["choices"][0]["finish_reason"] == choice["finish_reason"]


def test_every_turn_reaches_the_template(model: Model) -> None:
    turns = (("system", "Be brief."), ("user", "Who?"), ("assistant", "She."), ("user", "Why?"))
    (opened,) = opened_chats(model, [turns])
    end = "<|endoftext|>"
    said = "".join(f"{end}{role}\n{content}{end}\n" for role, content in turns)
    assert opened == f"{said}{end}assistant\n"


def test_parts_of_a_message_are_one_text(served: ServedModel) -> None:
    parts = [{"type": "text", "text": each} for each in ("The nurse ", "was tired.")]
    whole = chat(served, seed=1, max_tokens=8)["choices"]
    assert (
        chat(served, seed=1, max_tokens=8, messages=[{"role": "user", "content": parts}])["choices"] == whole
    )


def test_log_probabilities_of_a_chat_have_the_likeliest_tokens_beside_them(served: ServedModel) -> None:
    (choice,) = chat(served, temperature=0, max_tokens=5, logprobs=True, top_logprobs=3)["choices"]
    for entry in choice["logprobs"]["content"]:
        values = [each["logprob"] for each in entry["top_logprobs"]]
        assert values == sorted(values, reverse=True)
        assert len(values) == 3
        assert entry["logprob"] == values[0]
        assert bytes(entry["bytes"]).decode() == entry["token"]


def test_a_chat_without_a_limit_ends_where_its_positions_end(served: ServedModel) -> None:
    answer = chat(served, seed=3)
    assert answer["usage"]["total_tokens"] == 256 or answer["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"messages": []}, "messages"),
        ({"messages": ["hello"]}, "messages[0]"),
        ({"messages": [{"role": "boss", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": "x", "tool_calls": [{}]}]}, "messages[0]"),
        ({"tools": [{"type": "function"}]}, "tools"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"max_tokens": 2, "max_completion_tokens": 2}, "max_tokens"),
        ({"echo": True}, "echo"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
    ],
)
def test_what_a_chat_cannot_do_is_refused_by_its_name(
    served: ServedModel, body: dict[str, Any], field: str
) -> None:
    status, error = refused(served, {"model": NAME, "messages": MESSAGES, **body}, CHATS)
    assert status == 400
    assert error["param"] == field


def test_a_model_without_a_template_says_where_plain_texts_go() -> None:
    with serving(tiny("gpt2")) as served:
        status, error = refused(served, {"model": NAME, "messages": MESSAGES}, CHATS)
    assert status == 400
    assert error["message"] == f"{NAME} has no chat template; send plain text to /v1/completions"
