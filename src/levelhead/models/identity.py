"""What a model is, beside its weights, as hashes: two models with the same hashes answer alike.

Weights alone do not say it: two exchanged ids in a vocabulary, or another activation in a configuration, are
another model. What a model merely notes about its files (names, versions, dtypes) does not count, so that a
model that is saved and read again is the same one.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from levelhead.models.concurrency import TOKENIZING

# notes of a configuration that change no output
_NOTES = ("architectures", "auto_map", "dtype", "torch_dtype", "transformers_version", "use_cache")
# notes of a LoRA's configuration that change no output
_LORA_NOTES = ("base_model_name_or_path", "inference_mode", "peft_version", "revision")
# texts whose tokens show how a tokenizer normalizes and splits, which a vocabulary alone does not
_PANEL = (
    "The nurse said that she would help.",
    "HE was a Carpenter; wasn't he?",
    " leading, trailing and  double  spaces ",
    "naïve café, 日本語, 🙂, don't, 3.14, snake_case",
    "tab\tand\nline",
)


def configuration_hash(config: Any) -> str:
    """sha256 of all that a transformers configuration says about outputs."""
    said = {
        key: value
        for key, value in config.to_dict().items()
        if not key.startswith("_") and key not in _NOTES and value is not None
    }
    return _hash(said)


def tokenizer_hash(tokenizer: Any) -> str:
    """sha256 of a vocabulary, its special tokens, and the tokens of a few texts, alone and in pairs."""
    with TOKENIZING:
        tokens = [tokenizer(text)["input_ids"] for text in _PANEL]
        pairs = [tokenizer(_PANEL[0], text)["input_ids"] for text in _PANEL]
    return _hash([sorted(tokenizer.get_vocab().items()), sorted(tokenizer.all_special_ids), tokens, pairs])


def loras(hf: Any) -> dict[str, dict[str, object]]:
    """The settings of each LoRA that transformers has put into a network, by its name."""
    return {
        name: {key: value for key, value in each.to_dict().items() if key not in _LORA_NOTES}
        for name, each in (getattr(hf, "peft_config", None) or {}).items()
    }


def lora_hash(hf: Any) -> str:
    """sha256 of the settings of a network's LoRAs; their numbers are among its weights."""
    return _hash(loras(hf))


def _hash(data: Any) -> str:
    text = json.dumps(data, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
