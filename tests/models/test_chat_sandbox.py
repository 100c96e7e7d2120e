"""Chat templates render as transformers renders them, and those that never end are ended."""

from __future__ import annotations

import copy
import sys
import time
from typing import Any

import pytest

from levelhead.errors import CannotDo
from levelhead.models import chat
from levelhead.models.chat import Exceeded, _chat, chat_texts, compile_template, render
from tests.tiny import bpe, tiny

TOLD = ("The nurse was tired.", "  Größe & <b>\n\t{{ 7 * 7 }} \ud83d ", "")
TURN = "{{ messages[0].role }}: {{ messages[0]['content'] }}"
ORDINARY = {
    "ChatML": (
        "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
        "{{ '<|im_start|>system\nYou help.<|im_end|>\n' }}{% endif %}"
        "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    ),
    "Llama 2": (
        "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% else %}"
        "{% set loop_messages = messages %}{% endif %}{% for message in loop_messages %}"
        "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('roles must alternate') }}{% endif %}"
        "{{ bos_token + '[INST] ' + message['content'].strip() + ' [/INST]' }}{% endfor %}"
    ),
    "Llama 3": (
        "{{- bos_token }}\n{%- if not tools is defined %}\n    {%- set tools = none %}\n{%- endif %}\n"
        "{%- if tools is none %}no tools{% endif %}{{ strftime_now('%Y') }}\n"
        "{%- for m in messages %}\n    {{- m.content | trim + eos_token }}\n{%- endfor %}\n"
    ),
    "changed": "{% for m in messages %}{{ m.content | upper | trim }}{{ m.content[:3] }}{% endfor %}",
    "generation": f"{TURN}{{% generation %}}  said {{{{ eos_token }}}}\n{{% endgeneration %}}!",
    "json": "{{ messages | tojson }}{{ messages | tojson(indent=2) }}{{ {'b': 1, 'a': '<é>'} | tojson }}",
    "namespace": (
        "{% set ns = namespace(found=false, self=1) %}{% for m in messages %}{% if m.role == 'user' %}"
        "{% set ns.found = true %}{% break %}{% endif %}{% endfor %}{{ ns.found }}{{ dict(a=1) }}"
    ),
    "macro": "{% macro turn(m) %}[{{ m.role }}] {{ m.content }}{% endmacro %}{{ turn(messages[0]) }}",
    "blocks": "\n  {% if documents is none %}\n  none\n  {% endif %}\n{{ pad_token }}{{ missing }}\n\n",
}
HOSTILE = {
    "loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}"
    "{% endfor %}{% endfor %}",
    "one text of 3 GB": "{{ ('a' * 3000000000) | length }}",
    "a text that doubles": "{% set ns = namespace(x='a') %}{% for i in range(99) %}"
    "{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
    "1 GB in pieces": "{% for a in range(99999) %}{{ 'a' * 10000 }}{% endfor %}",
    "a number with a billion digits": "{{ 9 ** (9 ** 9) }}",
}


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return copy.deepcopy(bpe())


def test_ordinary_templates_give_the_bytes_that_transformers_gives(tokenizer: Any) -> None:
    for name, template in ORDINARY.items():
        tokenizer.chat_template = template
        chats = [[{"role": "user", "content": told}] for told in TOLD]
        expected = tokenizer.apply_chat_template(chats, tokenize=False, add_generation_prompt=True)
        compiled, tokens = compile_template(template), tokenizer.special_tokens_map
        assert [_chat(compiled, tokens, told, 10**4) for told in TOLD] == expected, name
        assert len({*expected}) == len(TOLD) or name in ("namespace", "blocks")
    tokenizer.chat_template = ORDINARY["json"]
    expected = tokenizer.apply_chat_template(chats, tokenize=False, add_generation_prompt=True)
    assert render(ORDINARY["json"], tokens, TOLD) == expected  # also on its way through a process


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ raise_exception('Say who you are first') }}", "Say who you are first"),
        ("{% if %}", "Expected an expression"),
        ("{{ messages[3].content.x }}", "has no element 3"),
        ("{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}", "maximum recursion depth"),
        ("{% set ns = namespace(_a=1) %}", "'_a'"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ raise_exception('a' * 100000) }}", "aaa"),
    ],
)
def test_errors_of_a_template_are_its_own_words(template: str, message: str) -> None:
    with pytest.raises(CannotDo) as caught:
        render(template, {}, TOLD[:1])
    assert message in str(caught.value)
    assert len(str(caught.value)) <= 1000


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="where memory is not limited, it is really filled")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_template_that_never_ends_or_fills_the_memory_is_ended(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "SECONDS", 1)
    with pytest.raises(Exceeded):
        render(HOSTILE[name], {}, TOLD[:1])


def test_the_clock_ends_a_template_where_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "_ENTRY", f"import time; time.sleep({600})")
    monkeypatch.setattr(chat, "SECONDS", 0)
    monkeypatch.setattr(chat, "PATIENCE", 1)
    began = time.monotonic()
    with pytest.raises(Exceeded):
        render("", {}, TOLD[:1])
    assert time.monotonic() - began < 300


def test_a_chat_that_is_ended_is_one_line_and_many_chats_take_one_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokenizer: Any = copy.deepcopy(bpe())
    tokenizer.chat_template = HOSTILE["1 GB in pieces"]
    model = tiny("llama", tokenizer=tokenizer)
    with pytest.raises(CannotDo, match=r"^The chat template of tiny-llama does not end, [^\n]*$"):
        chat_texts(model, [("told", "said")])
    asked: list[int] = []

    def counted(template: str, tokens: object, told: tuple[str, ...]) -> list[str]:
        asked.append(len(told))
        return [f"{each}\n" for each in told]

    monkeypatch.setattr("levelhead.models.chat.render", counted)
    tokenizer.chat_template = TURN
    turns = [("a", "x"), ("b", "y"), ("a", "z")]
    for _ in range(2):
        assert [text.first for text in chat_texts(model, turns)] == ["a\nx", "b\ny", "a\nz"]
    assert asked == [2]
