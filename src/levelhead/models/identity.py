"""What a model is, as hashes and as numbers: two models with the same hashes answer alike.

The hash covers weights, configuration and vocabulary, and not what a model notes about its files (names,
versions, dtypes). What lies on a card is hashed from the checkpoint's own files where these hold the very
same numbers, so that nothing comes back from the card.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from transformers.integrations.accelerate import load_offloaded_parameter

from levelhead.errors import CannotDo, UnknownModel
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
_SAMPLE = 64  # numbers of a weight that show whether a file holds it
_PIECE = 1 << 22  # numbers that are looked at at once
_THREADS, _FEW = min(16, os.cpu_count() or 1), 2


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


def lora_hash(hf: Any) -> str:
    """sha256 of the settings of a network's LoRAs, which transformers has put into it; empty without one.

    Their numbers are among its weights.
    """
    loras = {
        name: {key: value for key, value in each.to_dict().items() if key not in _LORA_NOTES}
        for name, each in (getattr(hf, "peft_config", None) or {}).items()
    }
    return _hash(loras) if loras else ""


def _hash(data: Any) -> str:
    text = json.dumps(data, sort_keys=True, ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


# ---- weights, wherever they lie: in memory, on a card, or left on disk


def fingerprint(hf: Any, files: Iterable[Path] = ()) -> str:
    """sha256 of one line per weight, by name, tied weights once: name, shape, dtype, sha256 of its bytes.

    files: the checkpoint's safetensors, which may be read instead of weights that are not in memory.
    """
    if getattr(hf.config, "quantization_config", None) is None:
        named = dict(hf.named_parameters())
        tied = getattr(hf, "all_tied_weights_keys", {})  # a device map takes tied weights apart
        weights = {name: weight for name, weight in named.items() if tied.get(name) not in named}
    else:  # partly buffers
        stored = ((name, value) for name, value in hf.state_dict().items() if isinstance(value, Tensor))
        weights = {part: plain for name, value in stored for part, plain in _parts(name, value)}
    names = sorted(weights)
    line = partial(_line, hf, weight_names(files))
    # each thread has a weight in memory, where weights wait on disk
    waits = any(weight.is_meta for weight in weights.values())
    with ThreadPoolExecutor(min(_THREADS, _FEW) if waits else _THREADS) as threads:
        lines = list(threads.map(line, names, [weights[name] for name in names]))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _line(hf: Any, stored: Mapping[str, Path], name: str, weight: Tensor) -> str:
    """The line of one weight, from its file where that has the same shape, dtype and sample of numbers."""
    value = None
    if weight.device.type != "cpu" and name in stored:
        with safe_open(stored[name], "pt") as file:
            value = file.get_tensor(name)
        alike = value.shape == weight.shape and value.dtype == weight.dtype
        if alike and not weight.is_meta:  # one that is will be read from that file
            step = max(1, weight.numel() // _SAMPLE)
            live, own = (each.detach().reshape(-1)[::step].cpu() for each in (weight, value))
            alike = torch.equal(live, own)
        value = value if alike else None
    value = _real(hf, name, weight).cpu() if value is None else value
    digest = hashlib.sha256(value.contiguous().reshape(-1).view(torch.uint8).numpy().data).hexdigest()
    return f"{name} {tuple(weight.shape)} {weight.dtype} {digest}\n"


def check_finite(hf: Any, name: str) -> None:
    """Refuse NaN and infinity: every measure would come out as NaN, or worse, as 'no difference'."""
    named = hf.named_parameters()
    weights = (part for key, weight in named for part in _parts(key, _real(hf, key, weight)))
    floats = ((key, weight) for key, weight in weights if weight.is_floating_point())
    # all weights are queued on a device before its first result is waited for; in pieces, as isfinite takes
    # several times the memory of what it is given
    pieces = ((key, weight.dtype, weight.reshape(-1).split(_PIECE)) for key, weight in floats)
    finite = [
        (key, dtype, torch.stack([torch.isfinite(piece).all() for piece in own]).all())
        for key, dtype, own in pieces
    ]
    for key, dtype, is_finite in finite:
        if not bool(is_finite):
            raise UnknownModel(
                f"{name}: weight {key} holds NaN or infinite numbers as {dtype}. "
                "Get the checkpoint again, or load it as float32."
            )


def zero_matrices(hf: Any) -> list[str]:
    """The names of weight matrices that hold nothing but zeros."""
    matrices = ((key, _real(hf, key, weight)) for key, weight in hf.named_parameters() if weight.dim() > 1)
    return [key for key, weight in matrices if not bool(weight.any())]


def count_parameters(files: Iterable[Path]) -> int:
    """How many numbers some safetensors files hold, by their headers alone."""
    total = 0
    for path in files:
        with safe_open(path, "pt") as file:
            total += sum(prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118
    return total


def weight_names(files: Iterable[Path]) -> dict[str, Path]:
    """The names of all weights in some safetensors files, each with its file."""
    named: dict[str, Path] = {}
    for path in files:
        with safe_open(path, "pt") as file:
            named |= dict.fromkeys(file.keys(), path)
    return named


def _parts(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    """The plain tensors that a weight consists of: torchao's hold numbers, scales and offsets in one."""
    if not is_traceable_wrapper_subclass(value):
        yield name, value
        return
    for part in value.__tensor_flatten__()[0]:
        yield from _parts(f"{name}.{part}", getattr(value, part))


def _real(hf: Any, name: str, weight: Tensor) -> Tensor:
    """The numbers of a weight; one that a device map has left on the host or on disk is fetched."""
    if not weight.is_meta:
        return weight.detach()
    try:
        return load_offloaded_parameter(hf, name)
    except (AttributeError, KeyError):
        raise CannotDo(
            f"The device map leaves {name} where its numbers cannot be read back. Put its module, or the one "
            "that shares the weight, on a device."
        ) from None
