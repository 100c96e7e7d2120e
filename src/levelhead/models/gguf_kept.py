"""GGUF files as ordinary folders of safetensors, each converted once and kept in the cache."""

from __future__ import annotations

import hashlib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from transformers import AutoConfig, AutoTokenizer

from levelhead.errors import BadRun
from levelhead.models.cache import Held, content_hash, obtain
from levelhead.models.checkpoint_files import one_line
from levelhead.models.gguf import convert
from levelhead.models.gguf_header import GgufHeader
from levelhead.models.identity import configuration_hash, tokenizer_hash
from levelhead.models.weights import weight_names
from levelhead.progress import say

_FORMAT = "1"  # of what is written here; another number makes all entries anew
_MAKERS = ("transformers", "tokenizers", "gguf")  # packages whose versions may change what comes out
_SHARD = "200MB"  # files of this size are hashed side by side
_HOST = {"device_map": {"": "cpu"}}
# what a tokenizer does beside its backend's own file
_MANNERS = ("special_tokens_map", "model_max_length", "padding_side", "truncation_side", "chat_template")


class _Unlike(Exception):
    """What is read back is not what was converted."""


def converted(path: Path, header: GgufHeader, dtype: torch.dtype) -> Held | None:
    """The folder of a GGUF file in the cache, made where there is none; None and a line if none can be."""
    with path.open("rb") as file:
        content = content_hash(file)
    versions = {package: version(package) for package in _MAKERS}
    about = {"source": path.name, "sha256": content, "dtype": str(dtype).removeprefix("torch."), **versions}
    facts = [_FORMAT, content, about["dtype"], *versions.values()]
    key = hashlib.sha256("\n".join(facts).encode()).hexdigest()
    try:
        held = obtain(key, about, header.parameters * dtype.itemsize, lambda work: _write(path, dtype, work))
    except (BadRun, SafetensorError, _Unlike) as error:  # safetensors has an error of its own for a full disk
        say(f"{path.name} is not kept, and is converted each time: {one_line(error)}.")
        return None
    if held.is_new:
        say(f"{path.name} was converted once and is kept in {held.folder} (see `levelhead cache`).")
    return held


def _write(path: Path, dtype: torch.dtype, work: Path) -> None:
    hf, tokenizer, info = convert(path, dtype, _HOST)
    if set(info["missing_keys"]) - set(hf.all_tied_weights_keys):
        raise _Unlike("it lacks weights")
    hf.save_pretrained(work, max_shard_size=_SHARD)
    tokenizer.save_pretrained(work)
    _check(work, hf, tokenizer)


def _check(work: Path, hf: Any, tokenizer: Any) -> None:
    """Refuse a folder from which another model would be read."""
    options = {"local_files_only": True, "trust_remote_code": False}
    if configuration_hash(AutoConfig.from_pretrained(work, **options)) != configuration_hash(hf.config):
        raise _Unlike("its configuration does not survive saving")
    stored = AutoTokenizer.from_pretrained(work, **options)
    if _manners(stored) != _manners(tokenizer) or tokenizer_hash(stored) != tokenizer_hash(tokenizer):
        raise _Unlike("its tokenizer does not survive saving")
    weights, files = hf.state_dict(), weight_names(work.glob("*.safetensors"))
    if set(weights) - set(files) - set(hf.all_tied_weights_keys):
        raise _Unlike("its weights get other names")
    for name, file in files.items():
        with safe_open(file, "pt") as opened:
            if name not in weights or not torch.equal(opened.get_tensor(name), weights[name]):
                raise _Unlike(f"its weight {name} does not survive saving")


def _manners(tokenizer: Any) -> list[object]:
    """What a tokenizer does, as far as it can be written down."""
    said = [getattr(tokenizer, name, None) for name in _MANNERS]
    return [type(tokenizer).__name__, tokenizer.backend_tokenizer.to_str(), *said]
