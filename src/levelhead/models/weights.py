"""A network's weights as numbers and bytes, wherever they lie: in memory, on a card, or left on disk.

Bytes are hashed weight by weight, on several threads. What lies on a card is hashed from the checkpoint's own
files where these hold the very same numbers, so that nothing comes back from the card and nothing waits.
"""

from __future__ import annotations

import hashlib
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

_SAMPLE = 64  # numbers of a weight that show whether a file holds it
_THREADS = min(16, os.cpu_count() or 1)


def fingerprint(hf: Any, files: Iterable[Path] = ()) -> str:
    """sha256 of one line a weight, by name, tied weights once: name, shape, dtype, sha256 of its bytes.

    files: the checkpoint's safetensors, which may be read instead of weights that are not in memory.
    """
    stored = weight_names(files)
    named = sorted(_named(hf).items())
    with ThreadPoolExecutor(_THREADS) as threads:
        lines = list(threads.map(partial(_line, hf, stored), *zip(*named, strict=True)))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def check_finite(hf: Any, name: str) -> None:
    """Refuse NaN and infinity: every measure would come out as NaN, or worse, as 'no difference'."""
    named = hf.named_parameters()
    weights = (part for key, weight in named for part in _parts(key, _real(hf, key, weight)))
    floats = ((key, weight) for key, weight in weights if weight.is_floating_point())
    # a device is asked about all weights before its first answer is waited for
    finite = [(key, weight.dtype, torch.isfinite(weight).all()) for key, weight in floats]
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


def _named(hf: Any) -> dict[str, Tensor]:
    """Weights by name; those of a quantized network are partly buffers."""
    if getattr(hf.config, "quantization_config", None) is None:
        named = dict(hf.named_parameters())
        tied = getattr(hf, "all_tied_weights_keys", {})  # a device map takes tied weights apart
        return {name: weight for name, weight in named.items() if tied.get(name) not in named}
    stored = ((name, value) for name, value in hf.state_dict().items() if isinstance(value, Tensor))
    return {part: plain for name, value in stored for part, plain in _parts(name, value)}


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


def _line(hf: Any, stored: Mapping[str, Path], name: str, weight: Tensor) -> str:
    value = _stored(weight, name, stored.get(name)) if weight.device.type != "cpu" else None
    value = _real(hf, name, weight).cpu() if value is None else value
    digest = hashlib.sha256(value.contiguous().reshape(-1).view(torch.uint8).numpy().data).hexdigest()
    return f"{name} {tuple(weight.shape)} {weight.dtype} {digest}\n"


def _stored(weight: Tensor, name: str, path: Path | None) -> Tensor | None:
    """A weight as its file has it; None where the two differ in shape, dtype or a sample of numbers."""
    if path is None:
        return None
    with safe_open(path, "pt") as file:
        value: Tensor = file.get_tensor(name)
    if value.shape != weight.shape or value.dtype != weight.dtype:
        return None
    if weight.is_meta:  # it will be read from there
        return value
    step = max(1, weight.numel() // _SAMPLE)
    live, own = (each.detach().reshape(-1)[::step].cpu() for each in (weight, value))
    return value if torch.equal(live, own) else None
