"""What a checkpoint's files must hold, and what they must not ask for: checked before anything is loaded.

Each fault is one line. Code that files name is allowed if it is on this machine already; everything else that
transformers would run or fetch needs trust_remote_code. Paths out of the model's folder are never followed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import transformers
from safetensors import SafetensorError, safe_open
from transformers.integrations import hub_kernels

from levelhead.errors import UnknownModel
from levelhead.models.adapter import REMOTE, adapter_settings
from levelhead.models.catalog import PICKLES

# transformers 5 builds an *empty* tokenizer, without a word, when none of these is there
VOCABULARIES = (
    *("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "spm.model", "tokenizer.model"),
    *("sentencepiece.bpe.model", "tekken.json"),
)
# what transformers needs to load weights that were quantized in one of these ways
QUANTIZED = {
    "bitsandbytes": ("accelerate", "bitsandbytes"),
    "gptq": ("optimum", "gptqmodel"),
    "awq": ("accelerate", "gptqmodel"),
    "torchao": ("torchao",),
}
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


@dataclass(frozen=True)
class Trust:
    """What the user explicitly allowed; both can run a stranger's code."""

    pickle: bool = False
    remote_code: bool = False


def one_line(error: BaseException) -> str:
    """The first line of a message that may have twenty, without its final stop."""
    text = str(error).strip() or type(error).__name__
    first = text.splitlines()[0].strip().rstrip(".:")
    return first if len(first) <= 240 else first[:237] + "..."


# ---- what must be there


def check_config(folder: Path) -> bool:
    """Whether the weights are quantized; refused is a config that is none or needs what is not there."""
    path = folder / CONFIG
    if not path.is_file():
        raise UnknownModel(f"{folder} has no config.json. Give a folder written by save_pretrained.")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UnknownModel(f"{path} is not valid JSON: {one_line(error)}. Get the file again.") from error
    if not isinstance(config, dict) or "model_type" not in config:
        raise UnknownModel(f"{path} names no model_type. Give a folder written by save_pretrained.")
    settings = config.get("quantization_config")
    method = settings.get("quant_method") if isinstance(settings, dict) else None
    absent = [package for package in QUANTIZED.get(str(method), ()) if find_spec(package) is None]
    if absent:
        raise UnknownModel(
            f"{folder} is quantized with {method}, which needs the package {' and '.join(absent)}: "
            f"pip install {' '.join(absent)}"
        )
    return settings is not None


def weight_files(folder: Path, trust: Trust) -> tuple[Path, ...]:
    """The safetensors files of a folder, all of them whole; none where it has pickles, and those are
    allowed."""
    single, index = (folder / name for name in WEIGHTS)
    names = [single.name] if single.is_file() else []
    if not names and index.is_file():
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
    if names:
        for name in names:
            check_safetensors(folder / name)
        return tuple(folder / name for name in names)
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix in PICKLES)
    if not pickles:
        raise UnknownModel(f"{folder} has no model.safetensors. Give a folder written by save_pretrained.")
    if not trust.pickle:
        raise UnknownModel(
            f"{folder} has its weights only as a pickle ({pickles[0]}), which can run code when opened. "
            "Convert it to safetensors, or pass allow_pickle=True if you trust its maker."
        )
    return ()


def check_safetensors(path: Path) -> None:
    """Refuse a file that is missing, damaged or cut short."""
    if not path.is_file():
        raise UnknownModel(f"{path} is missing. Get the checkpoint again.")
    try:
        with safe_open(path, "pt"):
            pass
    except (SafetensorError, OSError) as error:
        raise UnknownModel(
            f"{path} is damaged or cut short ({one_line(error)}). Get the file again."
        ) from error


def check_tokenizer(folder: Path) -> None:
    """Refuse a folder without any file that holds a vocabulary."""
    if not any((folder / name).is_file() for name in VOCABULARIES):
        raise UnknownModel(
            f"{folder} has no tokenizer (tokenizer.json, vocab.txt ...). Save the model's tokenizer there."
        )


def give_padding(tokenizer: Any, path: Path | str) -> None:
    """Refuse a slow tokenizer, which gives no character offsets; let GPT-2 and its kin pad with their end."""
    if not getattr(tokenizer, "is_fast", False):
        kind = type(tokenizer).__name__
        raise UnknownModel(
            f"{path}: {kind} gives no character offsets. Save a fast tokenizer (tokenizer.json)."
        )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.bos_token or tokenizer.unk_token
    if tokenizer.pad_token is None:
        raise UnknownModel(
            f"{path}: the tokenizer has no pad, end, start or unknown token. Give it a pad_token."
        )


# ---- what files must not name


class _File:
    """A JSON file of a model, and what it holds: nothing where there is none that transformers could read."""

    def __init__(self, path: Path) -> None:
        self.path, read = path, None
        with suppress(OSError, ValueError):
            read = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
        self.settings: dict[str, Any] = read if isinstance(read, dict) else {}

    def beside(self, key: str, name: object) -> str:
        """The name of a file beside this one, which names it under a key; anything else is refused."""
        if isinstance(name, str) and name == PurePosixPath(name).name == PureWindowsPath(name).name:
            return name
        raise UnknownModel(
            f"{self.path} names {name!r} under {key}, not a file of its own folder. Get the model again."
        )


def check_foreign(path: Path, trust: Trust) -> None:
    """Refuse a model whose files name code that is not here, unless it is trusted, or files elsewhere.

    path: a folder or a `.gguf` file, of whose folder transformers reads the tokenizer's settings and an
    adapter's.
    """
    is_gguf = path.suffix == ".gguf"
    folder, names = (path.parent, (TOKENIZER, ADAPTER)) if is_gguf else (path, READ)
    files = [_File(folder / name) for name in names]
    config = _File(folder / CONFIG)
    if not is_gguf:
        # an index of weights and a list of configs for other versions of transformers lead to files beside
        for index in map(_File, folder.glob("*.index.json")):
            for name in set(index.settings.get("weight_map", {}).values()):
                index.beside("weight_map", name)
        versions = config.settings.get(VERSIONED) or ()
        files += [_File(folder / config.beside(VERSIONED, name)) for name in versions]
    about = config.settings.get(REMOTE)
    if isinstance(about, dict) and "words" in about:
        # it is several networks to its own code, and would be one of them here
        raise UnknownModel(
            f"{folder} is a symmetrized model, which transformers loads. Give levelhead the model that it "
            "was made from, and the recipe in the folder with --recipe."
        )
    for file in files:
        for name in file.settings.get("fast_tokenizer_files") or ():
            file.beside("fast_tokenizer_files", name)
        place, named = file.path.parent, file.settings.get("transformers_weights")
        shards = sorted(shard.name for shard in place.glob(_SHARDS)) if file.path.name == CONFIG else []
        if named not in (None, *WEIGHTS) or shards:  # others than those which are checked
            raise UnknownModel(
                f"{place} has its weights in {named or shards[0]!r}. Give them the name {WEIGHTS[0]}, or "
                "save the model again with save_pretrained."
            )
        foreign = None if trust.remote_code else _foreign(file)
        if foreign is not None:
            raise UnknownModel(
                f"{file.path} asks for {foreign}, which levelhead does not run. Take that line out, or "
                "read that code and pass trust_remote_code=True."
            )
    if not (folder / ADAPTER).is_file():
        return
    # an adapter (PEFT) must not lead to another model, nor have its weights in a pickle
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


def _foreign(file: _File) -> str | None:
    """The first thing in a file that would be fetched or run, in words; None where there is none."""
    name, settings = file.path.name, file.settings
    if settings.get("auto_map"):
        if name == TOKENIZER:
            kind = settings.get("tokenizer_class")
            kinds = [kind, f"{kind}Fast"] if isinstance(kind, str) else []
            native = any(hasattr(transformers, each) for each in kinds)
        else:  # transformers has the classes itself, or our own adapter stands in for the code
            native = all(hasattr(transformers, str(each)) for each in settings.get("architectures") or ["?"])
            native = native or adapter_settings(file.path.parent) is not None
        if not native:
            return "code of its own (auto_map)"
    if name == ADAPTER and settings and settings.get("peft_type") != "LORA":
        return f"an adapter of type {settings.get('peft_type')!r} (known to be safe: LORA)"
    for key, value in _entries({key: value for key, value in settings.items() if key != "auto_map"}):
        for part, local in IMPLEMENTATIONS.items():
            leaves = [leaf for _, leaf in _entries({key: value}) if isinstance(leaf, str)]
            if part in key and (unknown := [leaf for leaf in leaves if leaf not in local]):
                return f"{key} {unknown[0]!r} (known to be local: {', '.join(local)})"
        if value and key in SWITCHES:
            return f"code from elsewhere ({key})"
        if key == "parent_library" and str(value).partition(".")[0] != "transformers":
            return f"the library {value!r}"
        if key == "quantization_config" and isinstance(value, dict) and find_spec("kernels") is not None:
            is_bitsandbytes = value.get("load_in_8bit") or value.get("load_in_4bit")
            if not is_bitsandbytes and value.get("quant_method") not in QUANTIZERS:
                return f"the quantizer {value.get('quant_method')!r}, whose kernels are fetched from a hub"
    return None


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

    def unavailable() -> Any:
        raise ImportError("kernels of a hub need trust_remote_code=True")

    _close(hub_kernels, "get_kernel", unavailable)
    with suppress(ImportError):  # where transformers does not know GGUF, or has no kernels for it
        from transformers.integrations.gguf import kernels

        _close(kernels, "get_ggml_layer_mapping", dict)
    token = _CLOSED.set(not trust.remote_code)
    try:
        yield
    finally:
        _CLOSED.reset(token)


def _close(module: Any, name: str, instead: Callable[[], Any]) -> None:
    """Put a function of transformers, once, behind the question whether kernels are out of reach."""
    function = getattr(module, name)
    if hasattr(function, "levelhead"):
        return

    def closed(*args: Any, **kwargs: Any) -> Any:
        return instead() if _CLOSED.get() else function(*args, **kwargs)

    closed.levelhead = True  # type: ignore[attr-defined]
    setattr(module, name, closed)
