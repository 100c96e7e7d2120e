"""Models whose maker means harm, or nothing good: chat templates, device maps, adapters."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
from safetensors.numpy import save

from benchmarks.fuzz.models import asked
from benchmarks.fuzz.mutations import DEEP, DIGITS, STRANGE_TEXTS, mutated, retyped
from benchmarks.fuzz.trial import Place, Subject
from levelhead.models.chat import chat_texts, require_chat
from levelhead.models.model import load

_PLAIN = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<a>{% endif %}"
)
_TEMPLATES = (
    _PLAIN,
    "{{ 'a' * 3000000000 }}",
    "{{ ('a' * 60000) * 60000 }}",
    "{{ [0] * 3000000000 }}",
    "{{ 10 ** 10 ** 10 }}",
    "{{ '%3000000000s' % 'a' }}",
    "{{ '{:>3000000000}'.format('a') }}",
    "{% for a in range(99999) %}{% for b in range(99999) %}{{ a }}{% endfor %}{% endfor %}",
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{% for a in range(10 ** 12) %}{% endfor %}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{{ ().__class__.__base__.__subclasses__() }}",
    "{{ cycler.__init__.__globals__.os.system('touch TOUCHED') }}",
    "{{ self.__init__.__globals__ }}",
    "{% set n = namespace(x='a') %}{% for a in range(64) %}{% set n.x = n.x + n.x %}{% endfor %}{{ n.x }}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{{ raise_exception('no\nno\n' * 999) }}",
    "{{ strftime_now('%Y' * 99999) }}",
    "{{ messages[0]['content'] | join('x' * 999999) }}",
    "{{ messages | tojson(indent=999999999) }}",
    "{{ lipsum(n=99999) }}",
    "{% for m in messages %}{{ m.content | center(2000000000) }}{% endfor %}",
    "{{ 1 / 0 }}",
    "{{ undefined.x.y }}",
    "{% if %}",
    "{{",
    "",
    " ",
    "\x00",
    "{{ '\\ud800' }}",
    "{{ messages",
    "{{ '" + "a" * 100_000 + "' }}",
    "{{ " + "(" * 5_000 + ")" * 5_000 + " }}",
    "{% if true %}" * 500 + "{% endif %}" * 500,
)
_PLACES: tuple[Any, ...] = (
    *(0, 1, -1, 10**6, 10**30, "cpu", "disk", "meta", "cuda:0", "cuda:99", "cpu:1", "mps", "auto", ""),
    *("../../x", "cpu\0", True, None, 1.5, [], {}, ["cpu"], "9" * DIGITS, "xpu", "vulkan", "cpu" * 999),
)
_MODULES = (
    "",
    "bert",
    "bert.embeddings",
    "bert.encoder",
    "bert.encoder.layer.0",
    "cls",
    "lm_head",
    "x",
    "bert.",
)
_LORA: dict[str, Any] = {
    "peft_type": "LORA",
    "task_type": "FEATURE_EXTRACTION",
    "base_model_name_or_path": "x",
    "r": 2,
    "lora_alpha": 4,
    "lora_dropout": 0.0,
    "target_modules": ["query", "value"],
    "bias": "none",
    "inference_mode": True,
}
_ADAPTER_VALUES: tuple[Any, ...] = (
    *(
        "nobody/x",
        "/etc",
        "../../etc/passwd",
        "https://example.org/x",
        "LORA",
        "IA3",
        "PROMPT_TUNING",
        "",
        "all",
    ),
    *("query", "all-linear", ".*", "(a+)+$", None, True, [], ["query"], {"query": 2}, 0, -1, 10**9, 1e308),
)
_ADAPTER_KEYS = (
    *_LORA,
    *("auto_mapping", "revision", "layers_to_transform", "layers_pattern", "rank_pattern", "modules_to_save"),
    *(
        "init_lora_weights",
        "use_dora",
        "trainable_token_indices",
        "megatron_config",
        "eva_config",
        "runtime_config",
    ),
)


class Hostile:
    """Tiny models with what their maker wrote beside the weights."""

    def __init__(self, models: Path) -> None:
        self._models = models

    def subjects(self) -> list[Subject]:
        """Chat templates, device maps, adapters."""
        return [
            Subject("chat template", 60, self._chat),
            Subject("device map", 40, self._map),
            Subject("adapter", 40, self._adapter),
        ]

    def _copied(self, name: str, place: Place) -> Path:
        copy = place.inputs / "model"
        shutil.copytree(self._models / name, copy)
        return copy

    def _chat(self, rng: Random, place: Place) -> Callable[[], object]:
        model, text = self._copied("causal", place), rng.choice(_TEMPLATES)
        if rng.random() < 0.4:
            text = mutated(rng, text.encode(errors="surrogatepass")).decode(errors="replace")
        if rng.random() < 0.2:
            text = f"{_PLAIN}{text}"
        if rng.random() < 0.5:
            (model / "chat_template.jinja").write_text(text, encoding="utf-8")
        else:
            path = model / "tokenizer_config.json"
            config = json.loads(path.read_text(encoding="utf-8"))
            others: tuple[Any, ...] = (
                text,
                text,
                [{"name": "default", "template": text}],
                {"default": text},
                1,
            )
            path.write_text(json.dumps({**config, "chat_template": rng.choice(others)}), encoding="utf-8")
        return lambda: _chatted(model)

    def _map(self, rng: Random, place: Place) -> Callable[[], object]:
        model, path = self._models / "masked", place.inputs / "map.json"
        places = rng.choice((_PLACES, ("cpu", "disk")))  # half of the maps are what they should be
        chosen = {rng.choice(_MODULES): rng.choice(places) for _ in range(rng.randint(0, 4))}
        if rng.random() < 0.7:
            chosen = {"": "cpu", **chosen}
        data = json.dumps(chosen).encode()
        accidents = rng.choice((mutated, retyped, lambda _, same: same, lambda _, same: same))
        path.write_bytes(accidents(rng, data))
        if rng.random() < 0.05:
            path.write_text(rng.choice(('{"": ' + "9" * DIGITS + "}", '{"": ' * DEEP)))
        return lambda: _mapped(model, path, place)

    def _adapter(self, rng: Random, place: Place) -> Callable[[], object]:
        model = self._copied("masked", place)
        config: dict[str, Any] = {**_LORA, "base_model_name_or_path": str(self._models / "masked")}
        for _ in range(rng.choice((0, 1, 1, 2, 3))):
            config[rng.choice(_ADAPTER_KEYS)] = rng.choice((*_ADAPTER_VALUES, rng.choice(STRANGE_TEXTS)))
        data = json.dumps(config).encode()
        (model / "adapter_config.json").write_bytes(mutated(rng, data) if rng.random() < 0.3 else data)
        weights = rng.choice(("safetensors", "safetensors", "safetensors", "bin", "", "damaged"))
        if weights == "bin":
            (model / "adapter_model.bin").write_bytes(b"\x80\x04cposix\nsystem\n(S'touch TOUCHED'\ntR.")
        elif weights:
            whole = _lora_weights()
            (model / "adapter_model.safetensors").write_bytes(
                whole if weights == "safetensors" else mutated(rng, whole)
            )
        if rng.random() < 0.3:
            (model / "model.safetensors").unlink()  # a folder that is nothing but an adapter
        return lambda: asked(model)


@cache
def _lora_weights() -> bytes:
    """Adapters of queries and values in both layers of the tiny encoder."""
    layers = [f"base_model.model.bert.encoder.layer.{layer}.attention.self" for layer in range(2)]
    shapes = {"lora_A": (2, 32), "lora_B": (32, 2)}
    numbers = {
        f"{layer}.{part}.{name}.weight": np.full(shape, 0.1, np.float32)
        for layer in layers
        for part in ("query", "value")
        for name, shape in shapes.items()
    }
    return bytes(save(numbers))


def _mapped(model: Path, path: Path, place: Place) -> object:
    with patch.object(tempfile, "tempdir", str(place.outputs)):  # weights on disk lie among temporary files
        return asked(model, device_map=str(path))


def _chatted(path: Path) -> object:
    model = load(str(path), device="cpu")
    require_chat(model)
    return chat_texts(model, [("Who is a nurse?", "She")])
