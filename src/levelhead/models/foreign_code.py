"""What a model's files ask transformers to run, to fetch or to read elsewhere: decided here, before it does.

What is known to be on this machine already is allowed; everything else that a file names as code needs
trust_remote_code. Paths out of the model's folder are not followed, whatever is trusted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from importlib.util import find_spec
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import transformers
from transformers.integrations import hub_kernels

from levelhead.errors import UnknownModel
from levelhead.models.adapter import REMOTE, adapter_settings
from levelhead.models.checkpoint_files import Trust

CONFIG, TOKENIZER, ADAPTER = "config.json", "tokenizer_config.json", "adapter_config.json"
READ = (CONFIG, TOKENIZER, ADAPTER, "generation_config.json")  # by transformers, of a folder
VERSIONED = "configuration_files"  # the key that lists configs for other versions of transformers
WEIGHTS = ("model.safetensors", "model.safetensors.index.json")
# of keys with these words, the values that are code of torch and transformers: the others, flash_attention_2
# among them, are fetched from a hub where the package `kernels` is installed
IMPLEMENTATIONS = {
    "attn_implementation": ("eager", "sdpa", "flex_attention"),
    "experts_implementation": ("eager", "batched_mm", "grouped_mm"),
}
# keys with which a config, also one inside another, brings code or leads to some
SWITCHES = (
    *("auto_map", "use_kernels", "kernel_config", "custom_generate", "megatron_config"),
    "use_pretrained_backbone",
)
# quantized weights that transformers reads without kernels from a hub
QUANTIZERS = (
    *("bitsandbytes", "gptq", "awq", "torchao", "aqlm", "quanto", "quark", "hqq", "compressed-tensors"),
    *("bitnet", "vptq", "spqr", "higgs", "auto-round", "gguf", "fouroversix", "fp_quant", "sinq", "gemma"),
)
_SHARDS = "shard-*-model-*-of-*.safetensors"  # transformers prefers them to model.safetensors


def check_foreign(path: Path, trust: Trust) -> None:
    """Refuse a model whose files name code that is not here, unless it is trusted, or files elsewhere.

    path: a folder or a `.gguf` file, of whose folder transformers reads the tokenizer's settings and an
    adapter's.
    """
    is_gguf = path.suffix == ".gguf"
    folder, names = (path.parent, (TOKENIZER, ADAPTER)) if is_gguf else (path, READ)
    files = [_File(folder / name) for name in names]
    files += [] if is_gguf else _listed(folder)
    _refuse_symmetrized(_File(folder / CONFIG))
    for file in files:
        _check_places(file)
        asked = None if trust.remote_code else _asked(file)
        if asked is not None:
            raise UnknownModel(
                f"{file.path} asks for {asked}, which levelhead does not run. Take that line out, or "
                "read that code and pass trust_remote_code=True."
            )
    if (folder / ADAPTER).is_file():
        _check_adapter(folder, trust)


def _refuse_symmetrized(config: _File) -> None:
    """A symmetrized folder is several networks to its own code, and would be one of them here."""
    about = config.settings.get(REMOTE)
    if isinstance(about, dict) and "words" in about:
        raise UnknownModel(
            f"{config.path.parent} is a symmetrized model, which transformers loads. Give levelhead the "
            "model that it was made from, and the recipe in the folder with --recipe."
        )


def _listed(folder: Path) -> list[_File]:
    """Configs for other versions of transformers. Their names, and those of weights, lead to files beside."""
    for index in map(_File, folder.glob("*.index.json")):
        for name in set(index.settings.get("weight_map", {}).values()):
            _inside(index.path, "weight_map", name)
    config = _File(folder / CONFIG)
    names = config.settings.get(VERSIONED) or ()
    return [_File(folder / _inside(config.path, VERSIONED, name)) for name in names]


class _File:
    """A JSON file of a model, and what it holds: nothing where there is none that transformers could read."""

    def __init__(self, path: Path) -> None:
        self.path, read = path, None
        with suppress(OSError, ValueError):
            read = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
        self.settings: dict[str, Any] = read if isinstance(read, dict) else {}


def _inside(file: Path, key: str, name: object) -> str:
    """The name of a file beside the one that names it; anything else is refused."""
    if isinstance(name, str) and name == PurePosixPath(name).name == PureWindowsPath(name).name:
        return name
    raise UnknownModel(
        f"{file} names {name!r} under {key}, not a file of its own folder. Get the model again."
    )


def _check_places(file: _File) -> None:
    """Refuse names that lead out of the folder, and weights that are not those which are checked."""
    for name in file.settings.get("fast_tokenizer_files") or ():
        _inside(file.path, "fast_tokenizer_files", name)
    folder, named = file.path.parent, file.settings.get("transformers_weights")
    shards = sorted(shard.name for shard in folder.glob(_SHARDS)) if file.path.name == CONFIG else []
    if named not in (None, *WEIGHTS) or shards:
        raise UnknownModel(
            f"{folder} has its weights in {named or shards[0]!r}. Give them the name {WEIGHTS[0]}, or "
            "save the model again with save_pretrained."
        )


def _check_adapter(folder: Path, trust: Trust) -> None:
    """Refuse an adapter (PEFT) that leads to another model, or whose weights are a pickle."""
    if not (folder / CONFIG).is_file():
        raise UnknownModel(
            f"{folder / ADAPTER} leads to a model elsewhere. Give a folder with the model itself, or move "
            "that file away."
        )
    pickled = folder / "adapter_model.bin"
    if pickled.exists() and not ((folder / "adapter_model.safetensors").is_file() or trust.pickle):
        raise UnknownModel(
            f"{pickled} is a pickle, which can run code when opened. Convert it to safetensors, or pass "
            "allow_pickle=True if you trust its maker."
        )


# ---- what files name as code


def _asked(file: _File) -> str | None:
    """The first thing in a file that would be fetched or run, in words; None where there is none."""
    name, settings = file.path.name, file.settings
    if settings.get("auto_map") and not _is_native(file):
        return "code of its own (auto_map)"
    if name == ADAPTER and settings and settings.get("peft_type") != "LORA":
        return f"an adapter of type {settings.get('peft_type')!r} (known to be safe: LORA)"
    inner = {key: value for key, value in settings.items() if key != "auto_map"}
    asked = (_named_code(key, value) for key, value in _entries(inner))
    return next(filter(None, asked), None)


def _named_code(key: str, value: Any) -> str | None:
    """What one entry names as code that is not here, in words; None for every other entry."""
    for part, local in IMPLEMENTATIONS.items():
        named = [leaf for _, leaf in _entries({key: value}) if isinstance(leaf, str)] if part in key else []
        foreign = next((leaf for leaf in named if leaf not in local), None)
        if foreign is not None:
            return f"{key} {foreign!r} (known to be local: {', '.join(local)})"
    if value and key in SWITCHES:
        return f"code from elsewhere ({key})"
    if key == "parent_library" and str(value).partition(".")[0] != "transformers":
        return f"the library {value!r}"
    if key == "quantization_config" and _fetches(value):
        return f"the quantizer {value.get('quant_method')!r}, whose kernels are fetched from a hub"
    return None


def _is_native(file: _File) -> bool:
    """Whether transformers has the classes itself, or our own adapter stands in for the code."""
    if file.path.name == TOKENIZER:
        kind = file.settings.get("tokenizer_class")
        return isinstance(kind, str) and any(hasattr(transformers, each) for each in (kind, f"{kind}Fast"))
    kinds = file.settings.get("architectures") or ["?"]
    native = all(hasattr(transformers, str(each)) for each in kinds)
    return native or adapter_settings(file.path.parent) is not None


def _fetches(quantization: Any) -> bool:
    """Whether weights that were quantized in this way are read by kernels from a hub."""
    if not isinstance(quantization, dict) or find_spec("kernels") is None:
        return False
    is_bitsandbytes = quantization.get("load_in_8bit") or quantization.get("load_in_4bit")
    return not is_bitsandbytes and quantization.get("quant_method") not in QUANTIZERS


def _entries(settings: Any) -> Iterator[tuple[str, Any]]:
    """Every key and value, at any depth; what stands in a list has no key."""
    waiting = [settings]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            entries = list(value.items()) if isinstance(value, dict) else [("", each) for each in value]
            yield from entries
            waiting.extend(inner for _, inner in entries)


# ---- what transformers fetches by itself

_CLOSED = ContextVar("closed", default=False)  # whether kernels of a hub are out of reach


@contextmanager
def without_kernels(trust: Trust) -> Iterator[None]:
    """Let transformers fetch no kernels from a hub, which it does for GGUF files and some architectures.

    It goes on without them, or raises an ImportError. Nothing changes where remote code is trusted.
    """
    _close(hub_kernels, "get_kernel", _unavailable)
    with suppress(ImportError):  # where transformers does not know GGUF, or has no kernels for it
        from transformers.integrations.gguf import kernels

        _close(kernels, "get_ggml_layer_mapping", dict)
    token = _CLOSED.set(not trust.remote_code)
    try:
        yield
    finally:
        _CLOSED.reset(token)


def _unavailable() -> Any:
    raise ImportError("kernels of a hub need trust_remote_code=True")


def _close(module: Any, name: str, instead: Callable[[], Any]) -> None:
    """Put a function of transformers, once, behind the question whether kernels are out of reach."""
    function = getattr(module, name)
    if hasattr(function, "levelhead"):
        return

    def closed(*args: Any, **kwargs: Any) -> Any:
        return instead() if _CLOSED.get() else function(*args, **kwargs)

    closed.levelhead = True  # type: ignore[attr-defined]
    setattr(module, name, closed)
