"""What a checkpoint's folder must hold, looked at before anything is loaded; each fault is one line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from levelhead.errors import UnknownModel
from levelhead.models.names import PICKLES

# transformers 5 builds an *empty* tokenizer, without a word, when none of these is there
VOCABULARIES = (
    "tokenizer.json",
    "vocab.txt",
    "vocab.json",
    "spiece.model",
    "spm.model",
    "tokenizer.model",
    "sentencepiece.bpe.model",
    "tekken.json",
)
# what transformers needs to load weights that were quantized in one of these ways
QUANTIZED = {
    "bitsandbytes": ("accelerate", "bitsandbytes"),
    "gptq": ("optimum", "gptqmodel"),
    "awq": ("accelerate", "gptqmodel"),
    "torchao": ("torchao",),
}


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


def check_config(folder: Path) -> bool:
    """Whether the weights are quantized; refused is a config that is none or needs what is not there."""
    path = folder / "config.json"
    if not path.is_file():
        raise UnknownModel(f"{folder} has no config.json. Give a folder written by save_pretrained.")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise UnknownModel(f"{path} is not valid JSON: {one_line(error)}. Get the file again.") from error
    if not isinstance(config, dict) or "model_type" not in config:
        raise UnknownModel(f"{path} names no model_type. Give a folder written by save_pretrained.")
    _check_quantization(folder, config.get("quantization_config"))
    return config.get("quantization_config") is not None


def _check_quantization(folder: Path, settings: Any) -> None:
    """Refuse quantized weights whose library is missing."""
    method = settings.get("quant_method") if isinstance(settings, dict) else None
    absent = [package for package in QUANTIZED.get(str(method), ()) if find_spec(package) is None]
    if absent:
        raise UnknownModel(
            f"{folder} is quantized with {method}, which needs the package {' and '.join(absent)}: "
            f"pip install {' '.join(absent)}"
        )


def weight_files(folder: Path, trust: Trust) -> tuple[Path, ...]:
    """The safetensors files of a folder, all of them whole; none where it has pickles, and those are
    allowed."""
    index = folder / "model.safetensors.index.json"
    names = ["model.safetensors"] if (folder / "model.safetensors").is_file() else []
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
